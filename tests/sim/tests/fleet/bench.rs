//! A world in which nothing happens but what a test does.

use std::future::Future;
use std::rc::Rc;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use muster_control::Settings;
use muster_control::context::Context;
use muster_control::launches::pass::{
    LaunchPass, LaunchReport, LaunchStopped, WakeUpReads, last_call,
};
use muster_control::ports::{Github, Operations, Registrar, Table, Write};
use muster_control::reaps::orphans::Ledger;
use muster_control::reaps::sweep::{Sweep, SweepReport};
use muster_domain::ids::{AppName, InstallationId, LaunchId, RunnerId};
use muster_domain::inquiry::Inquiries;
use muster_domain::instance::{DeleteOrder, DeleteReason, Instance, Slot, State};
use muster_domain::job::Job;
use muster_domain::message::WakePool;
use muster_domain::pool::Pool;
use muster_domain::pool::capacity::Capacity;
use muster_domain::pool_file::Rights;
use muster_domain::redelivery::Redeliveries;
use muster_domain::stored::Change;
use muster_domain::time::{Seconds, Time};
use muster_domain::timings::Timings;
use muster_domain::usage::{Learned, Prices};
use muster_sim::agenda::{Event, Millis, TaskId, Which};
use muster_sim::calls::Calls;
use muster_sim::door::Door;
use muster_sim::executor::{Pause, Sim, Work};
use muster_sim::fault::FaultRates;
use muster_sim::invocations::{self, Call};
use muster_sim::schedule;
use muster_sim::world::{CloudConfig, World};

const TEST: TaskId = TaskId { place: 0, age: 0 };
/// Long after every boot deadline, and before every age limit.
pub(crate) const AGE_MILLIS: Millis = 3_600_000;
const LATER: Seconds = Seconds(3_000);

pub(crate) struct Bench {
    pub(crate) door: Door,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::of(vec![schedule::pool("small", &["linux"], 20_000, "spot", None)])
    }

    /// Its pool belongs to this entity.
    pub(crate) fn belonging_to(self, entity: &str) -> Self {
        let entity = entity.parse().expect("an entity");
        let pool = self.door.sim.settings.pools[0].clone();
        Self::of(vec![Pool { entity: Some(entity), ..pool }])
    }

    pub(crate) fn of(pools: Vec<Pool>) -> Self {
        let cloud_config = CloudConfig {
            replay_shows_machines: true,
            slowest_call: 20,
            redrives: true,
            by_hand: true,
        };
        let mut world = World::new(1, &pools, FaultRates::none(), cloud_config);
        world.github.install("acme");
        let timings = Timings::default();
        let settings = Settings::from_parameters(schedule::STACK.into(), pools, timings);
        let sim = Rc::new(Sim { world: world.into(), settings });
        Self { door: Door { sim, skew: 0, cold: false.into(), is_api: false } }
    }

    /// The stack may have so many machines, whatever a pool file says.
    pub(crate) fn with_at_most(self, machines: u32) -> Self {
        let Sim { world, settings } = Rc::into_inner(self.door.sim).expect("nobody else's");
        let sim = Rc::new(Sim { world, settings: settings.with_at_most(machines) });
        Self { door: Door { sim, ..self.door } }
    }

    /// Scale-up's role opens this, and a pool file may ask for no more.
    pub(crate) fn with_rights(self, rights: Rights) -> Self {
        let Sim { world, settings } = Rc::into_inner(self.door.sim).expect("nobody else's");
        let sim = Rc::new(Sim { world, settings: Settings { rights: Some(rights), ..settings } });
        Self { door: Door { sim, ..self.door } }
    }

    /// The comparison with EC2, the look at GitHub's deliveries and the round over its repositories
    /// have just been, as in four of
    /// five ticks: they are not part of what is counted.
    pub(crate) fn compared(self) -> Self {
        let now = self.door.now();
        for cursor in ["reconciled", "rolled-up"] {
            self.drive(self.door.move_cursor(cursor, None, now)).expect("moved");
        }
        let mut read = Redeliveries::new(AppName::MAIN, now);
        read.release(None, now);
        self.put(&[Change::create(read).into()]);
        // All repositories have had their turn.
        let mut asked = Inquiries::default();
        asked.turn.listed(Vec::new(), None, None, &[AppName::MAIN], now);
        self.put(&[Change::create(asked).into()]);
        let pools = self.door.sim.settings.pools.iter();
        let kinds = pools.flat_map(|pool| &pool.instance_types);
        let mut prices = Prices::default();
        prices.note_used(&kinds.cloned().collect(), now);
        for kind in prices.types.clone().into_keys() {
            prices.learn(Learned::Spot(kind.clone(), <_>::default()), now);
            prices.learn(Learned::List(kind, None), now);
        }
        prices.learn(Learned::Disk(None), now);
        self.put(&[Change::create(prices).into()]);
        self
    }

    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut World) -> R) -> R {
        change(&mut self.door.sim.world.borrow_mut())
    }

    /// How many calls stood one behind the other: each takes a millisecond, and those that are made
    /// side by side take the same one.
    pub(crate) fn in_sequence(&self, work: impl Future<Output = ()>) -> Millis {
        let slowest =
            self.change(|world| std::mem::replace(&mut world.cloud_config.slowest_call, 1));
        let begun = self.change(|world| world.now);
        self.drive(work);
        self.change(|world| {
            world.cloud_config.slowest_call = slowest;
            world.now - begun
        })
    }

    /// Runs something to its end, in virtual time; nothing else runs.
    pub(crate) fn drive<R>(&self, work: impl Future<Output = R>) -> R {
        self.drive_with(work, |_| ())
    }

    /// The same, with something done before each call is carried out; it is told which.
    pub(crate) fn drive_with<R>(
        &self,
        work: impl Future<Output = R>,
        mut before: impl FnMut(usize),
    ) -> R {
        let mut work = Work::new(work);
        for call in 0.. {
            before(call);
            self.change(|world| world.current = Some(TEST));
            let poll = work.poll();
            self.change(|world| world.current = None);
            if let std::task::Poll::Ready(done) = poll {
                return done;
            }
            self.change(until_woken);
        }
        unreachable!("it ends")
    }

    /// Runs something until it makes its next call after so many, and leaves it there as a function
    /// is left that ends; none then. The call is not carried out.
    pub(crate) fn drive_in_part<R>(
        &self,
        work: impl Future<Output = R>,
        calls: usize,
    ) -> Option<R> {
        let mut work = Work::new(work);
        for _ in 0..=calls {
            self.change(|world| world.current = Some(TEST));
            let poll = work.poll();
            self.change(|world| world.current = None);
            if let std::task::Poll::Ready(done) = poll {
                return Some(done);
            }
            self.change(until_woken);
        }
        None
    }

    /// Idle runners that were launched an hour ago; nothing is due about them.
    pub(crate) fn idle(&self, count: u32) -> Vec<Instance> {
        let now = self.door.now();
        let timings = Timings::default();
        let born = Time::from_millis(now.as_millis() - AGE_MILLIS);
        let mut rows = Vec::new();
        for n in 0..count {
            let launch: LaunchId = format!("small-l{n}").parse().expect("a launch");
            let machine = self.change(|world| world.make_machine(Some(launch.clone())));
            let machine = self.change(|world| world.ec2.at(machine).id.clone());
            let slot = Slot {
                name: format!("small-l{n}-0").parse().expect("a name"),
                pool: "small".parse().expect("a pool"),
                entity: "acme".parse().expect("an entity"),
                installation: Some(InstallationId(7)),
                launch,
                claim: None,
            };
            let mut row = Instance::planned(slot, born, &timings);
            row.bind(machine, born, &timings);
            row.ask_configuration(born).expect("asked");
            row.configured(RunnerId(1_000_000 + u64::from(n)), born);
            let name = row.runner_name();
            row.runner_started(&name, born, &timings).expect("started");
            row.set_due(now + LATER);
            rows.push(row);
        }
        rows
    }

    /// A machine that has not asked for its configuration yet.
    pub(crate) fn booting(&self) -> Instance {
        let idle = self.idle(1).remove(0);
        let machine = idle.machine().expect("a machine").clone();
        let Instance { name, pool, entity, installation, launch, .. } = idle;
        let slot = Slot { name, pool, entity, installation, launch, claim: None };
        let mut booting = Instance::planned(slot, self.door.now(), &Timings::default());
        booting.bind(machine, self.door.now(), &Timings::default());
        booting
    }

    /// Makes a row one that has been marked as idle and found not busy long enough ago: all that is
    /// left is GitHub's word, its DELETE, and EC2.
    pub(crate) fn make_due(&self, row: &mut Instance) {
        let now = self.door.now();
        let ago = |seconds: i64| Time::from_millis(now.as_millis() - 1000 * seconds);
        let registrar = Registrar { entity: row.entity.clone(), installation: row.installation };
        let name = row.runner_name();
        let labels = ["linux".to_owned()];
        let configured = self.drive(self.door.configure(&registrar, &name, &labels, 1));
        let id = configured.unwrap_or_else(|_| panic!("not configured")).runner;
        row.configured(id, ago(3_600));
        row.runner_started(&name, ago(3_600), &Timings::default()).expect("started");
        row.set_mark(DeleteReason::Idle, ago(400));
        row.update_mark(|mark| mark.not_busy_since = Some(ago(400)));
        row.set_due(ago(1));
    }

    /// The same, and an operator orders its end: nothing keeps it any more.
    pub(crate) fn order(&self, row: &mut Instance) {
        self.make_due(row);
        let order = DeleteOrder {
            at: self.door.now(),
            by: "ada".to_owned(),
            reason: "a test".to_owned(),
            force: false,
            bypass_github_unauthorized: false,
            kill_running_job: false,
        };
        row.order_delete(&order, order.at);
    }

    /// Records from nowhere, which breaks rules: those are forgotten.
    pub(crate) fn put(&self, writes: &[Write]) {
        self.drive(self.door.commit(writes)).expect("stored");
        self.change(|world| world.violation = None);
    }

    /// The rows as they would stand. They come from nowhere, which breaks rules: those are
    /// forgotten.
    pub(crate) fn store(&self, rows: &[Instance]) {
        for row in rows {
            let mut writes = vec![Change::create(row.clone()).into()];
            writes.extend(row.machine().map(|machine| Write::BindMachine {
                machine: machine.clone(),
                instance: row.name.clone(),
            }));
            self.drive(self.door.commit(&writes)).expect("stored");
        }
        let mut counter = Capacity::empty("small".parse().expect("a pool"));
        counter.live = u32::try_from(rows.len()).expect("few");
        let counter = Change::create(counter).into();
        self.drive(self.door.commit(&[counter])).expect("counted");
        self.change(|world| world.violation = None);
    }

    /// A launch pass that has all the time it needs.
    pub(crate) fn launch_pass<'a>(&'a self, settings: &'a Settings) -> Launches<'a> {
        let door = &self.door;
        LaunchPass {
            context: muster_control::context::Context::new(door, door, door, &(), settings),
            holder: "test",
            seed: 1,
            last_call: Time::from_millis(i64::MAX),
            clock: &|| Time::from_millis(0),
        }
    }

    /// A sweep and the pass over the ledger after it.
    pub(crate) async fn sweep(&self) -> SweepReport {
        let (door, settings) = (&self.door, &self.door.sim.settings);
        let begun = door.now();
        let pass = Sweep { context: Context::new(door, door, door, &(), settings) };
        let report = pass.sweep(begun).await;
        let ledger = Ledger { context: Context::new(door, &(), door, &(), settings) };
        let last_call = last_call(begun, begun + Seconds(60));
        ledger.work(report.ledger.clone(), last_call, || door.now()).await;
        report
    }

    /// The minute's sweep, and then an invocation for each batch that it filled. Answers what it
    /// cost, and how many invocations there were.
    pub(crate) fn tick(&self) -> (Calls, usize) {
        let before = self.change(|world| world.calls);
        self.invoke(Call::Sweep);
        let mut invocations = 0;
        loop {
            self.drive(Pause::new(&self.door.sim, 1_000));
            let now = self.change(|world| world.now);
            let batch = self.change(|world| world.queues.of(Which::Reap).receive(50, now));
            if batch.is_empty() {
                break;
            }
            invocations += 1;
            self.invoke(Call::Reap(Rc::new(batch)));
        }
        let after = self.change(|world| world.calls);
        let cost = Calls {
            reads: after.reads - before.reads,
            terminates: after.terminates - before.terminates,
            github: after.github - before.github,
            github_lists: after.github_lists - before.github_lists,
            ..Calls::default()
        };
        (cost, invocations)
    }

    fn invoke(&self, call: Call) {
        self.drive(invocations::run(Rc::clone(&self.door.sim), call, 0, false));
        assert_eq!(self.change(|world| world.violation.take()).map(|one| format!("{one:?}")), None);
    }

    pub(crate) fn in_state(&self, state: State) -> usize {
        self.change(|world| {
            world.tables.instances.values().filter(|row| row.state() == state).count()
        })
    }
}

/// A launch pass in the simulated cloud.
pub(crate) type Launches<'a> = LaunchPass<'a, (Door, Door, Door, ())>;

/// Looks, and runs the pass after it, as an invocation does.
pub(crate) async fn look_and_pass(
    work: &Launches<'_>,
    wake: &WakePool,
    receives: u32,
    now: Time,
) -> Result<LaunchReport, LaunchStopped> {
    let looked = WakeUpReads::read(work.context.table, wake, now).await?;
    work.run(looked, wake, receives).await
}

fn until_woken(world: &mut World) {
    loop {
        let (when, event) = world.agenda.next(Millis::MAX).expect("something to wait for");
        world.now = when;
        match event {
            Event::Wake(task) if task == TEST => return world.wakers.wake(TEST),
            Event::Wake(_) | Event::Kill(_) | Event::Poll(_) | Event::Tick => {}
            Event::Start(number) => drop(world.take_pending(number)),
            other => world.happen(other),
        }
    }
}

/// A job of the pool.
pub(crate) fn waiting(n: u64, queued_at: Time) -> Job {
    let mut job = muster_conformance::records::queued(n);
    job.last_event.queued_at = Some(queued_at);
    job.pool = Some("small".parse().expect("a pool"));
    job
}

/// A set of futures asks again only those whose waker was woken.
#[test]
fn a_set_of_futures_hears_of_each_moment() {
    let bench = Bench::new();
    let sim = &bench.door.sim;
    let now = || bench.change(|world| world.now);
    let pauses: FuturesUnordered<_> = [30, 10, 20, 10]
        .into_iter()
        .map(|length| async move {
            Pause::new(sim, length).await;
            length
        })
        .collect();
    let began = now();
    let ended = pauses.map(|length| (length, now() - began)).collect::<Vec<_>>();
    assert_eq!(bench.drive(ended), [(10, 10), (10, 10), (20, 20), (30, 30)]);
}
