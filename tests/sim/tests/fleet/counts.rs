//! How many calls the reaper makes, counted at the doors as the real services would count them.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

use muster_control::context::Context;
use muster_control::metrics::{Measure, Metric};
use muster_control::notices::Message;
use muster_control::ports::{Receiver, Table, Unavailable};
use muster_control::reaps::sweep::Sweep;
use muster_control::tick::{Tick, TimeLimit};
use muster_domain::instance::State;
use muster_domain::job::Job;
use muster_domain::stored::Change;
use muster_domain::time::{Seconds, Time};
use muster_sim::agenda::Millis;
use muster_sim::calls::Calls;
use muster_sim::executor::Pause;
use muster_sim::invocations::{self, Call};
use muster_sim::schedule;

use crate::bench::{AGE_MILLIS, Bench, waiting};

#[test]
fn a_tick_with_a_hundred_of_ten_thousand_due_costs_what_is_due() {
    let bench = Bench::new().compared();
    let mut rows = bench.idle(10_000);
    // Spread over the fleet.
    rows.iter_mut().step_by(100).for_each(|row| bench.make_due(row));
    bench.store(&rows);
    let (cost, invocations) = bench.tick();
    assert_eq!((bench.in_state(State::Deleted), bench.in_state(State::Running)), (100, 9_900));
    // Two of them with what the sweep sent, the others with EC2's two events for each machine.
    assert_eq!(invocations, 6);
    // The sweep: 21 as with nothing due, and 2 more pages of rows from 4 shards. The invocations for
    // what it sent: the pools, the switches. Each of their passes: the row, what GitHub and EC2 refused
    // after each answer of theirs, and whether a job waits for the room. 25 events of EC2, whose rows
    // have ended by then: the owners, the rows. Each runner is asked for, and removed. A call of EC2
    // ends 25 machines.
    let expected = Calls {
        reads: 29 + 2 * 2 + 100 * 5 + 8 * 2,
        terminates: 4,
        github: 200,
        github_lists: 0,
        ..Calls::default()
    };
    assert_eq!(cost, expected);
}

#[test]
fn a_tick_with_nothing_due_costs_one_query_a_shard_and_what_does_not_grow_with_the_fleet() {
    for count in [0, 10_000] {
        let bench = Bench::new().compared();
        let rows = bench.idle(count);
        bench.store(&rows);
        let (cost, invocations) = bench.tick();
        // 4 shards; 2 for the pool's waiting jobs, 1 for its oldest end and 1 for its counter; the pools, the
        // switches, the ledger, the interrupted jobs, the times of the last comparison and of the last look at
        // deliveries, what EC2 and GitHub refuse, the jobs that no pool serves, those that wait for
        // an approval, the repositories to ask about, the last prices, the last day that was
        // rolled up, and the images.
        assert_eq!(cost, Calls { reads: 4 + 4 + 13, ..Calls::default() }, "{count} rows");
        assert_eq!(invocations, 0);
    }
}

/// How many calls of a tick stand one behind the other, with so many pools, each with a waiting job
/// or none.
fn in_sequence(pools: u32, is_wanted: bool) -> Millis {
    let pool = |number| schedule::pool(&format!("p{number}"), &["linux"], 9, "spot", None);
    let bench = Bench::of((0..pools).map(pool).collect()).compared();
    // The first one puts the pools on record.
    bench.tick();
    for number in (0..pools).filter(|_| is_wanted) {
        let mut job = waiting(u64::from(number), bench.door.now());
        job.pool = Some(format!("p{number}").parse().expect("a pool"));
        bench.put(&[Change::create(job).into()]);
    }
    bench.drive(Pause::new(&bench.door.sim, 60_000));
    let sweep = invocations::run(Rc::clone(&bench.door.sim), Call::Sweep, 0, false);
    bench.in_sequence(sweep)
}

/// The pools; then all that a sweep reads; then the time of the last look at deliveries. If jobs wait,
/// also the instances that may serve them, and one call that wakes all their pools.
#[test]
fn a_tick_waits_for_three_calls_however_many_pools_there_are() {
    for pools in [1, 5] {
        assert_eq!(in_sequence(pools, false), 3, "{pools} pools");
        assert_eq!(in_sequence(pools, true), 5, "{pools} pools with demand");
    }
}

/// Records when each task of a tick must end.
struct Ends<'a> {
    bench: &'a Bench,
    ends: RefCell<Vec<Time>>,
}

impl TimeLimit for Ends<'_> {
    async fn within<R>(&self, left: Seconds, task: impl Future<Output = R>) -> Option<R> {
        self.ends.borrow_mut().push(self.bench.door.now() + left);
        Some(task.await)
    }
}

struct Nobody;

impl Receiver for Nobody {
    async fn address(&self, _: Time) -> Result<Option<String>, Unavailable> {
        Ok(None)
    }

    async fn post(&self, _: &Message) -> Result<usize, Unavailable> {
        Ok(0)
    }
}

/// However long the sweep takes: this many milliseconds for each of its calls.
#[test]
fn every_task_of_a_tick_ends_before_lambda_stops_it() {
    for millis in [1, 5_000] {
        let bench = Bench::new();
        let (door, settings) = (&bench.door, &bench.door.sim.settings);
        let begun = door.now();
        let limit = Ends { bench: &bench, ends: RefCell::default() };
        let tick = Tick {
            context: Context::new(door, door, door, door, settings),
            receiver: Some(&Nobody),
            limit: &limit,
            clock: &|| door.now(),
            deadline: begun + Seconds(60),
        };
        bench.drive_with(tick.run(), |_| bench.change(|world| world.now += millis));
        let ends = limit.ends.borrow();
        assert_eq!(ends.len(), 8, "{millis} ms");
        assert!(ends.iter().all(|end| *end <= begun + Seconds(55)), "{millis} ms: {ends:?}");
        assert!(millis == 1 || door.now() > begun + Seconds(5), "the sweep is slow");
    }
}

/// A mistake in a tag must not cost a fleet: a fifth of what EC2 lists, or five.
#[test]
fn few_strays_end_at_once_and_the_rest_is_left() {
    for (strays, owned, ended) in [(3, 0, 3), (40, 0, 8), (12, 0, 5), (40, 60, 20)] {
        let bench = Bench::new();
        let rows = bench.idle(owned);
        bench.store(&rows);
        for n in 0..strays {
            let launch = format!("lost-l{n}").parse().expect("a launch");
            bench.change(|world| world.make_machine(Some(launch)));
        }
        bench.change(|world| {
            for number in 0..owned + strays {
                world.ec2.cloud.at_mut(number as usize).launched_at -= AGE_MILLIS;
            }
        });
        let report = bench.drive(bench.sweep());
        let living = bench.change(|world| world.ec2.live());
        assert_eq!(living, (owned + strays - ended) as usize, "{strays} beside {owned}");
        assert_eq!(report.stopped_at_blast_radius, ended < strays);
        let told = report.measures(&bench.door.sim.settings);
        assert!(told.contains(&Measure::flag(Metric::BlastRadius, ended < strays)), "{told:?}");
        assert_eq!(bench.change(|world| world.calls.terminates), 1);
    }
}

/// What one sweep leaves the next ones do.
#[test]
fn no_aged_job_hides_behind_others() {
    let bench = Bench::new().compared();
    let door = &bench.door;
    let now = door.now();
    let hours = |hours: i64| Time::from_millis(now.as_millis() - hours * 3_600_000);
    let mut jobs: Vec<Job> = (0..150).map(|n| waiting(n, hours(1))).collect();
    // These wait for three days.
    jobs.extend((150..300).map(|n| waiting(n, hours(72))));
    for job in jobs {
        let write = Change::create(job).into();
        bench.drive(door.commit(&[write])).expect("stored");
    }
    let pass = Sweep { context: Context::new(door, door, door, &(), &door.sim.settings) };
    let expired: Vec<usize> = (0..3)
        .map(|_| {
            bench.drive(Pause::new(&door.sim, 60_000));
            bench.drive(pass.sweep(door.now())).expired
        })
        .collect();
    assert_eq!(expired, [100, 50, 0]);
}
