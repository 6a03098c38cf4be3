//! Job events that come in one batch.

use muster_control::jobs::ingest::{Folded, Ingest};
use muster_control::ports::Jobs;
use muster_domain::job::JobEvent;
use muster_domain::job::labels::Labels;
use muster_sim::schedule;

use crate::bench::{Bench, waiting};

/// DynamoDB refuses a transaction for one of its items alone: one of more than 400 KB, say.
/// Source: docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html
#[test]
fn an_item_that_the_table_refuses_fails_no_other_event() {
    for refused in 0..5 {
        let bench = Bench::new();
        let door = &bench.door;
        let events: Vec<JobEvent> = (0..5).map(|n| waiting(n, door.now()).last_event).collect();
        bench.change(|world| world.refused_item = Some(events[refused].key));
        let ingest = Ingest { table: door, settings: &door.sim.settings };
        let folded = bench.drive(ingest.fold_all(&events, door.now()));
        for (index, event) in events.iter().enumerate() {
            let stored = bench.drive(door.job(event.key)).expect("a read").is_some();
            let is_folded = matches!(folded[index], Ok(Folded::Stored { .. }));
            assert_eq!((stored, is_folded), (index != refused, index != refused), "{index}");
        }
    }
}

/// Anyone who can write a workflow chooses the labels, and the row holds the answer of each pool.
#[test]
fn a_hostile_job_is_stored_with_a_short_reason() {
    let names: Vec<String> = (0..20).map(|n| format!("pool-{n}")).collect();
    let pools =
        names.iter().map(|name| schedule::pool(name, &["linux"], 9, "spot", None)).collect();
    let bench = Bench::of(pools);
    let door = &bench.door;
    let labels: Vec<String> = (0..100).map(|n| format!("{n:03}{}", "x".repeat(250))).collect();
    let labels = ["self-hosted".to_owned()].into_iter().chain(labels).collect::<Vec<_>>();
    let mut event = waiting(1, door.now()).last_event;
    event.labels = Labels::new(&labels);
    let ingest = Ingest { table: door, settings: &door.sim.settings };
    bench.drive(ingest.fold(&event, door.now())).expect("stored");
    let row = bench.drive(door.job(event.key)).expect("a read").expect("a row");
    let why = row.into_record().unmatched.expect("no pool serves it");
    assert!(why.len() <= 1024, "{} bytes", why.len());
}
