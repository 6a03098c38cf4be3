//! What a page costs that asks every few seconds, counted at the doors.

use muster_conformance::records;
use muster_control::ports::Write;
use muster_domain::ec2::{CooldownScope, ErrorClass, Market, Override};
use muster_domain::ids::{AppName, JobKey};
use muster_domain::job::Approval;
use muster_domain::launch::record::Cooldowns;
use muster_domain::launch::record::cooldown::Cooldown;
use muster_domain::orphan::Orphan;
use muster_domain::stored::Change;
use muster_domain::time::Seconds;
use muster_sim::calls::Calls;
use muster_sim::schedule;
use serde_json::{Value, json};

use crate::bench::{Bench, waiting};
use crate::listings::{answer, ask};

/// Two thousand machines of one pool, and five thousand jobs: most of them wait in that pool with and
/// without a machine, others for a pool or for an approval.
fn large() -> Bench {
    let small = schedule::pool("small", &["linux"], 2_000, "spot", None);
    let others = (1..5).map(|n| schedule::pool(&format!("p{n}"), &["arm64"], 9, "spot", None));
    let bench = Bench::of([small].into_iter().chain(others).collect());
    let now = bench.door.now();
    let mut rows = bench.idle(2_000);
    for (row, n) in rows.iter_mut().zip(0..).filter(|(_, n)| n % 2 == 0) {
        row.set_claim(JobKey { app: AppName::MAIN, repository: 1, job: n }, now);
    }
    bench.store(&rows);
    let age = |n: u64| now - Seconds(u32::try_from(n).expect("few"));
    for n in 0..5_000 {
        let mut job = waiting(n, age(n));
        match n {
            0..2_000 if n % 2 == 0 => job.claim = Some(rows[n as usize].name.clone()),
            3_000..4_600 => (job.pool, job.unmatched) = (None, Some(format!("reason {}", n % 40))),
            4_600..5_000 => job.approval = Some(Approval::Closed(age(n))),
            _ => {}
        }
        bench.put(&[Change::create(job).into()]);
    }
    bench
}

fn cost(bench: &Bench, action: &str) -> (Value, Calls) {
    let before = bench.change(|world| world.calls);
    let answer = ask(bench, json!({ "version": 1, "action": action }));
    let after = bench.change(|world| world.calls);
    let calls = Calls {
        reads: after.reads - before.reads,
        rows: after.rows - before.rows,
        github: after.github - before.github,
        looks: after.looks - before.looks,
        ..Calls::default()
    };
    (answer, calls)
}

#[test]
fn an_overview_of_thousands_reads_no_record_to_count_it() {
    let bench = large();
    let (overview, calls) = cost(&bench, "overview");
    let small = &overview["pools"][0];
    let counted = ["live", "taken", "free", "waiting_jobs"].map(|name| small[name].as_u64());
    assert_eq!(counted, [2_000, 1_000, 1_000, 3_000].map(Some), "{small}");
    assert_eq!(overview["unserved"]["count"], 1_600);
    assert_eq!(overview["waiting_for_approval"]["count"], 400);
    // Of each pool: the counter, six groups, the late ends, the jobs that wait, and the first of them
    // in two ranges. Of the stack: those that no pool serves and those behind an approval, each
    // counted, and the first of them; switches, refusals, the ledger, the sent notices, how far costs
    // are rolled up, the images, the prices, of which AWS may refuse some, and the runs with
    // interrupted jobs: those that wait, and what became of the last.
    let reads = 5 * (1 + 6 + 1 + 1 + 2) + 4 + 9;
    // The first five of two ranges, and the first hundred twice, for their reasons.
    let rows = 2 * 5 + 2 * 100;
    assert_eq!(calls, Calls { reads, rows, ..Calls::default() });
    let (_, status) = cost(&bench, "status");
    assert_eq!(status, Calls { reads: reads + 1, ..calls }, "and the last switchings");
    let asked = async { drop(answer(&bench, json!({ "version": 1, "action": "overview" })).await) };
    assert_eq!(bench.in_sequence(asked), 1, "all of it side by side");
}

/// Whatever is wrong with it, for one page.
#[test]
fn an_overview_is_short() {
    let bench = large();
    let now = bench.door.now();
    let refused = |n: u32| Cooldown {
        closed: CooldownScope::Place {
            market: Market::Spot,
            place: Override {
                instance_type: format!("m{n}.large").into(),
                subnet: "subnet-a".into(),
            },
            pool: None,
        },
        since: now,
        at: now,
        until: now + Seconds(600),
        times: 2,
        class: ErrorClass::Capacity,
        code: format!("Code{}", n % 50),
        message: "We currently do not have sufficient capacity in that Availability Zone"
            .to_owned(),
    };
    let list: Vec<Cooldown> = (0..200).map(refused).collect();
    let known = Cooldowns { list: list.into(), ..Cooldowns::default() };
    bench.put(&[Change::create(known).into()]);
    for n in 0..60 {
        bench.put(&[Write::Orphan(Change::create(Orphan { attempts: n, ..records::orphan(n) }))]);
    }
    let overview = ask(&bench, json!({ "version": 1, "action": "overview" }));
    let findings = overview["findings"].as_array().expect("a list");
    assert_eq!(findings.len(), 21, "the worst and how many more there are");
    assert_eq!((&findings[0]["key"], &findings[20]["key"]), (&json!("orphans"), &json!("more")));
    let length = overview.to_string().len();
    assert!(length <= 12 * 1024, "{length} bytes");
}
