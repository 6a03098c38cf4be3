//! Job events that come in one batch.

use control::ingest::{Folded, Ingest};
use control::ports::Table as _;
use domain::job::JobEvent;

use crate::bench::{Bench, waiting};

/// DynamoDB refuses a transaction for one of its items alone: one of more than 400 KB, say.
/// Source: docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html
#[test]
fn an_item_that_the_table_refuses_fails_no_other_event() {
    for refused in 0..5 {
        let bench = Bench::new();
        let door = &bench.door;
        let events: Vec<JobEvent> = (0..5).map(|n| waiting(n, door.now()).said).collect();
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
