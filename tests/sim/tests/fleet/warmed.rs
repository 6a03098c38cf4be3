//! Events that warm a pool: what is retried, and what operators are shown.

use muster_control::context::Context;
use muster_control::jobs::batch::JobsBatch;
use muster_control::ports::Received;
use muster_control::settings_cache::SettingsCache;
use muster_domain::message::JobsMessage;
use muster_domain::pool::Pool;
use muster_domain::pool::warm::{RepositoryEvent, WarmEvent, WarmRule};
use muster_domain::time::Seconds;
use muster_sim::agenda::Which;
use muster_sim::fault::Fault;
use muster_sim::schedule;
use serde_json::json;

use crate::bench::Bench;
use crate::damage::ask;

fn bench() -> Bench {
    let rule = WarmRule {
        event: WarmEvent::Push,
        repositories: Vec::new(),
        branches: vec!["main".to_owned()],
        idle: 2,
        for_seconds: Seconds(600),
    };
    let pool = schedule::pool("small", &["linux"], 20, "spot", None);
    Bench::of(vec![Pool { entity: "acme".parse().ok(), warm_on: vec![rule], ..pool }])
}

/// Whether a push is done with.
fn push(bench: &Bench, branch: &str) -> bool {
    let door = &bench.door;
    let event = RepositoryEvent {
        kind: WarmEvent::Push,
        repository: "acme/web".into(),
        private: true,
        user_owned: false,
        branch: branch.into(),
        at: door.now(),
    };
    let message = JobsMessage::Repository { event: event.into(), delivery: "d-1".to_owned() };
    let (id, receipt) = ("1".to_owned(), "1/1".to_owned());
    let messages = [Received { message: Some(message), id, receipt, receives: 1 }];
    let batch = JobsBatch {
        context: Context::new(door, door, &(), &(), &door.sim.settings),
        cache: &SettingsCache::default(),
        clock: &|| door.now(),
    };
    bench.drive(batch.run(&messages)).acked[0]
}

fn wakes(bench: &Bench) -> usize {
    bench.change(|world| world.queues.of(Which::Launch).len())
}

#[test]
fn an_event_comes_again_until_it_is_recorded_and_the_sweep_wakes_what_nobody_woke() {
    for fault in [Fault::ReadFailed, Fault::CommitRefused] {
        let bench = bench();
        bench.change(|world| world.fault_rates.set(fault, 1_000_000));
        assert!(!push(&bench, "main"), "{fault:?}");
        bench.change(|world| world.fault_rates.set(fault, 0));
        assert!(push(&bench, "main"), "{fault:?}");
        assert_eq!(wakes(&bench), 1, "{fault:?}");
    }
    // Columns: runners that are there, pools that the sweep wakes.
    for (idle, woken) in [(0, 1), (1, 1), (2, 0)] {
        let bench = bench();
        bench.store(&bench.idle(idle));
        bench.change(|world| world.fault_rates.set(Fault::SendFailed, 1_000_000));
        assert!(push(&bench, "main"));
        assert_eq!(wakes(&bench), 0);
        bench.change(|world| world.fault_rates.set(Fault::SendFailed, 0));
        assert_eq!(bench.drive(bench.sweep()).woken, woken, "{idle}");
    }
}

#[test]
fn status_and_explain_name_the_event_that_keeps_a_machine() {
    let bench = bench();
    let rows = bench.idle(1);
    bench.store(&rows);
    let told = || {
        let status = ask(&bench, &json!({ "action": "status" }));
        let name = rows[0].name.as_str();
        let explained = ask(&bench, &json!({ "action": "explain", "name": name }));
        (status["pools"][0]["warm"].clone(), explained["explanation"].to_string())
    };
    assert!(push(&bench, "develop"));
    let (warm, explained) = told();
    assert!(warm.is_null() && !explained.contains("warm"), "{warm} {explained}");
    assert!(push(&bench, "main"));
    let (warm, explained) = told();
    let warm = warm.as_str().expect("a sentence");
    assert!(warm.starts_with("kept warm until "), "{warm}");
    assert!(warm.ends_with(" for a push to main of acme/web"), "{warm}");
    assert!(explained.contains(&format!("It is {warm}.")), "{explained}");
}
