//! Jobs that GitHub never announced: each is found within a round over the repositories, and once.

use std::collections::BTreeMap;
use std::rc::Rc;

use futures_util::future::join;
use muster_domain::ids::PoolName;
use muster_domain::job::labels::Labels;
use muster_sim::agenda::{MINUTE, Which};
use muster_sim::executor::Pause;
use muster_sim::fault::Fault;
use muster_sim::github::Job;
use muster_sim::invocations::{self, Call};
use muster_sim::queue::{Body, Received};
use muster_sim::world::World;

use crate::bench::Bench;

/// How many repositories a page holds here.
const PAGE: usize = 10;
/// For so many minutes something fails.
const FAILS: u32 = 30;

/// What happens meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    Nothing,
    /// The sweep is stopped before this call, another one each minute.
    Crashes,
    /// The events of all jobs come with each sweep.
    LateEvents,
    /// Two sweeps run at the same time.
    TwoSweeps,
}

struct Case {
    name: &'static str,
    repositories: u32,
    /// What happens before each sweep; the minute.
    before: fn(&mut World, u32),
    meanwhile: Meanwhile,
    /// How long the jobs may be found later than without it.
    later: u32,
}

const fn plain(name: &'static str, repositories: u32) -> Case {
    Case { name, repositories, before: |_, _| (), meanwhile: Meanwhile::Nothing, later: 0 }
}

const CASES: [Case; 10] = [
    plain("one repository", 1),
    plain("three", 3),
    plain("more than a round's ten minutes", 12),
    plain("three pages", 25),
    Case {
        before: |world, minute| {
            world.github.script.refuses.clear();
            if minute < FAILS {
                world.github.script.refuses.insert("acme".to_owned());
            }
        },
        later: FAILS,
        ..plain("the owner refuses us", 3)
    },
    Case {
        before: |world, minute| {
            if minute == 0 {
                let until = world.now + i64::from(FAILS) * MINUTE;
                world.github.script.limits = Some(("acme".to_owned(), until));
            }
        },
        later: FAILS,
        ..plain("the owner's rate limit is used up", 3)
    },
    Case {
        before: |world, minute| {
            let rate = if minute < FAILS { 1_000_000 } else { 0 };
            world.fault_rates.set(Fault::GithubFails, rate);
        },
        later: FAILS,
        ..plain("GitHub does not answer", 3)
    },
    Case { meanwhile: Meanwhile::Crashes, later: FAILS, ..plain("the function crashes", 3) },
    Case { meanwhile: Meanwhile::LateEvents, ..plain("the events come late", 3) },
    Case { meanwhile: Meanwhile::TwoSweeps, ..plain("two sweeps at the same time", 3) },
];

/// A job is queued in each repository, and GitHub sends no event.
fn stack(case: &Case) -> Bench {
    let bench = Bench::new();
    bench.change(|world| {
        world.github.page_size = PAGE;
        for number in 0..case.repositories {
            let labels = Labels::new(["linux"]);
            let repository = format!("acme/r{number}");
            let mut job = Job::planned(number, &repository, true, labels, None);
            job.unheard = true;
            world.github.jobs.push(job);
            world.queue_job(number);
            let truth = world.github.truth_of(number).expect("queued").clone();
            world.github.truth.deliver(number.into(), truth, world.now);
            world.github.truth.attempted(number.into(), Some(202), world.now);
        }
    });
    bench
}

fn late_events(bench: &Bench, case: &Case) -> Call {
    let message = |number| {
        let body = bench.change(|world| world.message_of(number)).expect("a delivery");
        Received { id: number.into(), receives: 1, body: Rc::new(Body::Jobs(body)) }
    };
    Call::ScaleUp(Rc::new((0..case.repositories).map(message).collect()))
}

fn sweep(bench: &Bench, case: &Case, minute: u32) {
    let run = |call| invocations::run(Rc::clone(&bench.door.sim), call, 0, false);
    match case.meanwhile {
        Meanwhile::Crashes if minute < FAILS => {
            let _: Option<()> = bench.drive_in_part(run(Call::Sweep), minute as usize);
        }
        Meanwhile::LateEvents if minute > 5 => {
            bench.drive(join(run(Call::Sweep), run(late_events(bench, case))));
        }
        Meanwhile::TwoSweeps => {
            bench.drive(join(run(Call::Sweep), run(Call::Sweep)));
        }
        Meanwhile::Nothing | Meanwhile::Crashes | Meanwhile::LateEvents => {
            bench.drive(run(Call::Sweep));
        }
    }
}

/// In which minute each job was found.
fn minutes(bench: &Bench, case: &Case, until: u32) -> BTreeMap<u64, u32> {
    let mut found = BTreeMap::new();
    for minute in 0..=until {
        bench.change(|world| (case.before)(world, minute));
        let before = bench.change(|world| world.calls.github);
        sweep(bench, case, minute);
        let calls = bench.change(|world| world.calls.github) - before;
        assert!(calls <= 4, "{}: {calls} calls", case.name);
        bench.change(|world| {
            for job in world.tables.jobs.values() {
                assert_eq!(job.pool.as_ref().map(PoolName::as_str), Some("small"));
                found.entry(job.key().job).or_insert(minute);
            }
        });
        bench.drive(Pause::new(&bench.door.sim, MINUTE));
    }
    found
}

/// All wake-ups are carried out, each twice.
fn launch(bench: &Bench) {
    loop {
        let now = bench.change(|world| world.now);
        let batch = bench.change(|world| world.queues.of(Which::Launch).receive(1, now));
        if batch.is_empty() {
            return;
        }
        let call = Call::Launch(Rc::new(batch));
        for _ in 0..2 {
            bench.drive(invocations::run(Rc::clone(&bench.door.sim), call.clone(), 0, false));
        }
    }
}

#[test]
fn a_job_that_was_never_announced_is_found_within_a_round_and_served_once() {
    for case in &CASES {
        let bench = stack(case);
        let pages = case.repositories.div_ceil(PAGE as u32);
        // Five minutes in which its event may still come; a round; the minute that began.
        let bound = case.later + 5 + (case.repositories + pages).max(11) + 1;
        let found = minutes(&bench, case, bound);
        assert_eq!(found.len(), case.repositories as usize, "{}: {found:?}", case.name);
        assert!(found.values().all(|minute| *minute > 4), "{}: {found:?}", case.name);
        launch(&bench);
        let launched = bench.change(|world| world.tables.instances.len());
        assert_eq!(launched, case.repositories as usize, "{}", case.name);
    }
}
