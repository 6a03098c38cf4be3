//! Verdicts on the sizes of jobs, with both sides of each threshold.

use super::{gone, ran};
use crate::ec2::{Make, Market};
use crate::testkit::{CLAIMED, With, exited};
use crate::usage::{
    DiskVerdict, EarlyEndCause, JobSize, KeepReason, Line, OfJob, OfMachine, Price, PricedBy,
    SizeVerdict, Sizes, SizesFold, Used,
};

/// A run of two minutes that is at each threshold of half the machine.
fn run() -> Line {
    let instance = exited().with(|i| i.runner.ran = Some(CLAIMED));
    let mut line = Line::of_machine(&gone(instance, 1200), Some(&ran(50, 100))).expect("a line");
    machine(&mut line).make = Make {
        kind: Some("m7i.xlarge".into()),
        zone: None,
        subnet: None,
        market: Some(Market::OnDemand),
    };
    let (disk, on_demand) = (Some(1_000), Some(200_000));
    line.price = Some(Price { machine: 200_000, by: PricedBy::List, on_demand, disk });
    line.used = Some(Used {
        s: 120,
        cpus: 4,
        cpu: 20,
        cpu95: 50,
        half: 5,
        full: 59,
        steal: 3,
        mem: 4_000,
        mem_of: 10_000,
        wait: Some([10, 1, 0]),
        disk: 20_000,
        disk_of: 30_000,
        ..Used::default()
    });
    line
}

fn job(line: &mut Line) -> &mut OfJob {
    line.job.as_mut().expect("a job")
}

fn machine(line: &mut Line) -> &mut OfMachine {
    line.machine.as_mut().expect("a machine")
}

fn used(line: &mut Line) -> &mut Used {
    line.used.as_mut().expect("measured")
}

/// Twenty runs, each changed with its number from 1.
fn twenty(change: impl Fn(u32, &mut Line)) -> Vec<Line> {
    (1..=20).map(|n| run().with(|line| change(n, line))).collect()
}

fn sizes(lines: &[Line]) -> Sizes {
    let mut fold = SizesFold::default();
    lines.iter().for_each(|line| fold.add(line));
    fold.sizes(30)
}

fn size(lines: &[Line]) -> JobSize {
    let mut jobs = sizes(lines).jobs;
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    jobs.remove(0)
}

/// A row: what changes in the run of this number, and the verdict.
type Row = (&'static str, fn(u32, &mut Line), SizeVerdict);

#[expect(clippy::too_many_lines, reason = "a table")]
#[test]
fn each_guard_has_two_sides() {
    use SizeVerdict::{Half, Keep, MoreCpus, MoreMemory, TooFewRuns, TwoSizes};

    const UNCHANGED: fn(u32, &mut Line) = |_, _| {};
    let rows: [Row; 38] = [
        ("at every threshold", UNCHANGED, Half),
        ("one run is 60 s", |n, l| used(l).s -= 60 * u32::from(n == 1), Half),
        ("one run is shorter", |n, l| used(l).s -= 61 * u32::from(n == 1), TooFewRuns),
        ("one run had more steal", |n, l| used(l).steal += u8::from(n == 1), TooFewRuns),
        (
            "one run failed",
            |n, l| job(l).conclusion = Some(if n == 1 { "failure" } else { "success" }.into()),
            TooFewRuns,
        ),
        (
            "one run was cancelled",
            |n, l| job(l).conclusion = Some(if n == 1 { "cancelled" } else { "success" }.into()),
            TooFewRuns,
        ),
        (
            "one run was interrupted",
            |n, l| machine(l).cause = (n == 1).then_some(EarlyEndCause::SpotNotice),
            TooFewRuns,
        ),
        ("one run is unmeasured", |n, l| l.used = l.used.filter(|_| n > 1), TooFewRuns),
        ("one of twenty takes much longer", |n, l| used(l).half += 60 * u8::from(n == 1), Half),
        (
            "two of twenty take longer",
            |n, l| used(l).half += u8::from(n <= 2),
            Keep(KeepReason::Cpu),
        ),
        ("one peak is higher", |n, l| used(l).mem += u32::from(n == 1), Keep(KeepReason::Memory)),
        ("one wait for CPU", |n, l| used(l).wait = Some([10 + u8::from(n == 1), 1, 0]), Half),
        (
            "two waits for CPU",
            |n, l| used(l).wait = Some([10 + u8::from(n <= 2), 1, 0]),
            Keep(KeepReason::CpuWait),
        ),
        ("one wait for memory", |n, l| used(l).wait = Some([10, 1 + u8::from(n == 1), 0]), Half),
        (
            "two waits for memory",
            |n, l| used(l).wait = Some([10, 1 + u8::from(n <= 2), 0]),
            Keep(KeepReason::MemoryWait),
        ),
        (
            "a kernel without waits",
            |n, l| used(l).wait = used(l).wait.filter(|_| n > 1),
            Keep(KeepReason::WaitUnknown),
        ),
        (
            "two CPUs have no half",
            |_, l| machine(l).make.kind = Some("m7i.large".into()),
            Keep(KeepReason::NoHalfType),
        ),
        ("memory within a tenth", |n, l| used(l).mem_of += 1_111 * u32::from(n == 1), Half),
        ("memory of two sizes", |n, l| used(l).mem_of += 1_112 * u32::from(n == 1), TwoSizes),
        ("CPUs of two sizes", |n, l| used(l).cpus = if n <= 2 { 8 } else { 4 }, TwoSizes),
        (
            "out of memory on two sizes",
            |n, l| {
                (used(l).oom, used(l).cpus) = (1, if n <= 2 { 8 } else { 4 });
            },
            TwoSizes,
        ),
        ("one of twenty out of memory", |n, l| used(l).oom = u16::from(n == 1), MoreMemory),
        (
            "out of memory, and failed",
            |n, l| {
                if n == 1 {
                    (used(l).oom, job(l).conclusion) = (3, Some("failure".into()));
                }
            },
            MoreMemory,
        ),
        (
            "out of memory, and too short to count",
            |n, l| {
                if n == 1 {
                    (used(l).oom, used(l).s) = (1, 59);
                }
            },
            TooFewRuns,
        ),
        (
            "two of twenty at 92 percent",
            |n, l| used(l).mem = if n <= 2 { 9_200 } else { 4_000 },
            MoreMemory,
        ),
        (
            "two of twenty below 92 percent",
            |n, l| used(l).mem = if n <= 2 { 9_199 } else { 4_000 },
            Keep(KeepReason::Memory),
        ),
        (
            "one of twenty at 92 percent",
            |n, l| used(l).mem = if n == 1 { 9_200 } else { 4_000 },
            Keep(KeepReason::Memory),
        ),
        (
            "memory before CPUs",
            |_, l| {
                (used(l).mem, used(l).full, used(l).wait) = (9_999, 90, Some([90, 0, 0]));
            },
            MoreMemory,
        ),
        (
            "busy and waiting",
            |_, l| (used(l).full, used(l).wait) = (60, Some([30, 0, 0])),
            MoreCpus,
        ),
        (
            "busy in half of the runs",
            |n, l| (used(l).full, used(l).wait) = (if n <= 10 { 60 } else { 59 }, Some([30, 0, 0])),
            Keep(KeepReason::CpuWait),
        ),
        (
            "busy in most runs",
            |n, l| (used(l).full, used(l).wait) = (if n <= 11 { 60 } else { 59 }, Some([30, 0, 0])),
            MoreCpus,
        ),
        (
            "waiting, and less busy",
            |_, l| (used(l).full, used(l).wait) = (59, Some([30, 0, 0])),
            Keep(KeepReason::CpuWait),
        ),
        (
            "busy, and waiting less",
            |_, l| (used(l).full, used(l).wait) = (60, Some([29, 0, 0])),
            Keep(KeepReason::CpuWait),
        ),
        (
            "busy, without a measured wait",
            |_, l| (used(l).full, used(l).half, used(l).wait) = (90, 90, None),
            Keep(KeepReason::Cpu),
        ),
        ("no run counts", |_, l| used(l).s = 1, TooFewRuns),
        (
            "the worst of two legs",
            |n, l| {
                job(l).name = format!("build ({})", n % 2).into();
                used(l).half = if n % 2 == 0 { 0 } else { 6 };
            },
            Keep(KeepReason::Cpu),
        ),
        (
            "one slow run of a leg of ten",
            |n, l| {
                job(l).name = format!("build ({})", n % 2).into();
                used(l).half = 5 + u8::from(n == 1);
            },
            Keep(KeepReason::Cpu),
        ),
        (
            "one leg lacks CPUs",
            |n, l| {
                job(l).name = format!("build ({})", n % 2).into();
                (used(l).full, used(l).wait) = (if n % 2 == 0 { 0 } else { 80 }, Some([30, 0, 0]));
            },
            MoreCpus,
        ),
    ];
    for (name, change, verdict) in rows {
        assert_eq!(size(&twenty(change)).verdict, verdict, "{name}");
    }
    let few = &twenty(UNCHANGED)[1..];
    assert_eq!(size(few).verdict, TooFewRuns);
    let oom = |n: u32, line: &mut Line| used(line).oom = u16::from(n == 1);
    let one_more = [twenty(oom), vec![run()]].concat();
    assert_eq!(size(&one_more).verdict, Keep(KeepReason::OutOfMemory), "less than 5 percent");
    let twice = [twenty(oom), twenty(oom), twenty(UNCHANGED)].concat();
    assert_eq!(size(&twice).verdict, MoreMemory, "two runs");
}

#[test]
fn a_disk_is_too_small_in_one_run_and_too_large_in_all() {
    let of = |disk: u32, disk_of: u32, last: u32| {
        let lines = twenty(|n, line| {
            (used(line).disk, used(line).disk_of) = (if n == 20 { last } else { disk }, disk_of);
        });
        size(&lines).disk
    };
    let small = Some(DiskVerdict::TooSmall);
    let large = Some(DiskVerdict::TooLarge);
    for (name, disk, expected) in [
        ("85 percent once", of(100, 1_000, 850), small),
        ("less", of(100, 1_000, 849), None),
        ("30 percent always", of(12_300, 41_000, 12_300), large),
        ("more once", of(12_300, 41_000, 12_301), None),
        ("40 GB", of(1, 40_000, 1), None),
        ("more than 40 GB", of(1, 40_001, 1), large),
        ("unknown", of(0, 0, 0), None),
    ] {
        assert_eq!(disk, expected, "{name}");
    }
}

#[test]
fn a_matrix_is_one_job() {
    for (name, job_name) in [
        ("test", "test"),
        ("test (ubuntu, 3.12)", "test"),
        ("test (a (b), c)", "test"),
        ("call (a) / build (b, c)", "call / build"),
        ("build (x / y)", "build"),
        ("call()", "call()"),
        ("(a)", "(a)"),
        ("test (ubuntu-22.04, a-long-name, ...", "test"),
    ] {
        let line = run().with(|line| job(line).name = name.into());
        assert_eq!(size(&[line]).job, job_name, "{name}");
    }
    let other = run().with(|line| job(line).workflow = Some("Nightly".into()));
    assert_eq!(sizes(&[run(), other]).jobs.len(), 2);
}

#[test]
fn half_a_type_is_of_its_family() {
    for (kind, half) in [
        ("m7i.xlarge", Some("m7i.large")),
        ("m7i-flex.2xlarge", Some("m7i-flex.xlarge")),
        ("c7gn.large", Some("c7gn.medium")),
        ("m7a.large", Some("m7a.medium")),
        ("m6a.large", None),
        ("c5.18xlarge", Some("c5.9xlarge")),
        ("c5.9xlarge", None),
        ("r7i.12xlarge", None),
        ("m8g.48xlarge", Some("m8g.24xlarge")),
        ("m7i.metal-24xl", None),
        ("t3.xlarge", None),
        ("g5.2xlarge", None),
        ("mac2.metal", None),
        ("im4gn.xlarge", None),
        ("new", None),
    ] {
        let line = run().with(|line| machine(line).make.kind = Some(kind.into()));
        assert_eq!(size(&[line]).half_type.as_deref(), half, "{kind}");
    }
}

#[test]
fn half_a_machine_saves_half_its_price_in_a_month_and_nothing_of_its_disk() {
    let lines = twenty(|_, _| {});
    let row = size(&lines);
    let hours = |micros: u64| lines[0].parts.at(micros).sum() * 20;
    assert_eq!((row.cost, row.saves), (hours(201_000), hours(200_000) / 2));
    assert_eq!((row.used.runs, row.used.seconds, row.used.cpu), (20, 120, 20));
    let mut fold = SizesFold::default();
    lines.iter().for_each(|line| fold.add(line));
    assert_eq!(fold.sizes(10).jobs[0].saves, row.saves * 3);
    let unpriced = twenty(|_, line| line.price = None);
    assert_eq!((size(&unpriced).cost, size(&unpriced).verdict), (0, SizeVerdict::Half));
    let kept = twenty(|_, line| used(line).half = 6);
    assert_eq!((size(&kept).cost, size(&kept).saves), (row.cost, 0));
}

#[test]
fn runs_without_measurements_are_counted() {
    let old = run().with(|line| line.used = None);
    let nothing = run().with(|line| line.used = Some(Used::default()));
    let idle = run().with(|line| line.job = None);
    let found = sizes(&[run(), old, nothing, idle]);
    assert_eq!((found.runs, found.unmeasured, found.jobs.len()), (3, 2, 1));
}
