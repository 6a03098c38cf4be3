//! Records that cannot be read: each in turn, and every pass. A record stops only the passes that need it; no event is
//! lost and no machine is left.
//!
//! The webhook reads no table. Lines of the audit trail and of usage and roll-ups are read by listings, which leave out
//! what cannot be read (`shared/aws/tests/emulator/listings.rs`).

use std::collections::BTreeSet;
use std::rc::Rc;

use muster_control::context::Context;
use muster_control::jobs::batch::JobsBatch;
use muster_control::launches::wake_up::WakeUp;
use muster_control::ports::Received;
use muster_control::ports::Write;
use muster_control::reaps::batch::{self, Batch};
use muster_control::runner_api::{MachineReport, RunnerApi, look};
use muster_control::settings_cache::SettingsCache;
use muster_domain::ids::{AppName, InstanceName, JobKey, LaunchId, MachineId, RunnerId};
use muster_domain::instance::{Instance, Slot, StartReport, State};
use muster_domain::job::labels::Labels;
use muster_domain::job::{Job, JobEvent, JobStatus};
use muster_domain::message::{JobsMessage, ReapMessage, WakePool};
use muster_domain::orphan::Orphan;
use muster_domain::pool::limits::Scope;
use muster_domain::redelivery::Redeliveries;
use muster_domain::stored::Change;
use muster_domain::time::{Seconds, Time};
use muster_domain::timings::Timings;
use muster_domain::usage::Prices;
use muster_sim::agenda::Which;
use muster_sim::ec2::End;
use muster_sim::invocations::{self, Call};
use serde_json::json;

use super::bench::{AGE_MILLIS, Bench, waiting};
use super::damage::ask;

/// A job whose record is damaged, and that an ended machine claims.
const DAMAGED: u64 = 7;
/// A job that an idle runner is meant for, and takes.
const TAKEN: u64 = 8;
const WAITS: u64 = 9;
const WAITS_ELSEWHERE: u64 = 30;
const NEW: u64 = 20;

/// Two pools of two owners, and one record for each thing that a pass does.
struct Scene {
    bench: Bench,
    rows: BTreeSet<InstanceName>,
    stray: MachineId,
}

fn instance(bench: &Bench, name: &str, claim: Option<JobKey>, born: Time) -> Instance {
    let launch: LaunchId = format!("small-{name}").parse().expect("a launch");
    let machine = bench.change(|world| world.make_machine(Some(launch.clone())));
    let machine = bench.change(|world| world.ec2.at(machine).id.clone());
    let slot = Slot {
        name: format!("small-{name}-0").parse().expect("a name"),
        pool: "small".parse().expect("a pool"),
        entity: "acme".parse().expect("an entity"),
        installation: None,
        launch,
        claim,
    };
    let mut row = Instance::planned(slot, born, &Timings::default());
    row.bind(machine, born, &Timings::default());
    row.pool_generation = 99;
    row.set_due(bench.door.now() + Seconds(3_000));
    row
}

fn idle(bench: &Bench, name: &str, id: u64, claim: Option<JobKey>) -> Instance {
    let born = bench.door.now() - Seconds(600);
    let mut row = instance(bench, name, claim, born);
    row.ask_configuration(born).expect("asked");
    row.configured(RunnerId(id), born);
    let runner = row.runner_name();
    row.runner_started(&runner, born, &Timings::default()).expect("started");
    row.set_due(bench.door.now() + Seconds(3_000));
    row
}

fn job(n: u64, now: Time, claim: Option<&Instance>) -> Job {
    Job { claim: claim.map(|row| row.name.clone()), ..waiting(n, now - Seconds(30)) }
}

impl Scene {
    fn new() -> Self {
        let bench = Bench::new();
        let now = bench.door.now();
        let pool = |name: &str, label: &str, entity: &str| {
            json!({ "name": name, "labels": [label], "entity": entity,
                "subnets": ["subnet-0a1b2c3d"], "instances": { "types": ["m7i.large"] },
                "limits": { "max": 20 } })
        };
        bench.change(|world| world.github.install("globex"));
        for max in [30, 31, 32] {
            let file = json!({ "limits": { "stack": max, "entities": { "acme": 25 } },
                "pools": [pool("small", "linux", "acme"), pool("large", "big", "globex")] });
            let applied = ask(&bench, &json!({ "action": "pools", "file": file.to_string() }));
            assert_eq!(applied["applied"], true, "{applied}");
        }
        let key = |n| waiting(n, now).key();
        let mut ordered = idle(&bench, "ordered", 1, None);
        bench.order(&mut ordered);
        let taker = idle(&bench, "taker", 2, Some(key(TAKEN)));
        let claims = idle(&bench, "claims", 3, Some(key(DAMAGED)));
        let mut failed = instance(&bench, "failed", None, now - Seconds(60));
        failed.bought_for_job = true;
        let mut due = idle(&bench, "due", 6, None);
        due.set_due(now - Seconds(1));
        let rows = [
            idle(&bench, "ended", 4, None),
            ordered,
            claims,
            taker,
            failed,
            instance(&bench, "boots", None, now - Seconds(30)),
            idle(&bench, "starts", 5, None),
            due,
            idle(&bench, "damaged", 7, None),
        ];
        bench.store(&rows);
        for name in ["ended", "claims", "failed"] {
            let launch = format!("small-{name}");
            let row = rows.iter().find(|row| row.launch.as_str() == launch).expect("a row");
            bench.change(|world| {
                let number = world.ec2.number(row.machine().expect("a machine")).expect("known");
                world.end_machine(number, &End::HostLost);
            });
        }
        let stray = bench.change(|world| {
            let number = world.make_machine(Some("small-stray".parse().expect("a launch")));
            world.ec2.cloud.at_mut(number as usize).launched_at -= AGE_MILLIS;
            world.ec2.at(number).id.clone()
        });
        let mut elsewhere = job(WAITS_ELSEWHERE, now, None);
        elsewhere.pool = Some("large".parse().expect("a pool"));
        elsewhere.last_event.labels = Labels::new(["self-hosted", "big"]);
        elsewhere.last_event.repository = "globex/web".into();
        bench.put(&[
            Change::create(job(DAMAGED, now, Some(&rows[2]))).into(),
            Change::create(job(TAKEN, now, Some(&rows[3]))).into(),
            Change::create(job(WAITS, now, None)).into(),
            Change::create(elsewhere).into(),
            Change::create(muster_domain::switches::Switches::default()).into(),
            Change::create(muster_domain::launch::record::Cooldowns::default()).into(),
            Change::create(muster_domain::inquiry::Inquiries::default()).into(),
            Change::create(Redeliveries::new(AppName::MAIN, now)).into(),
            Change::create(Prices::default()).into(),
        ]);
        // These take the runners that are free, so that the job above needs a machine.
        let older: Vec<Write> =
            (40..46).map(|n| Change::create(job(n, now - Seconds(60), None)).into()).collect();
        bench.put(&older);
        bench.change(|world| {
            let count = u32::try_from(rows.len()).expect("few");
            world.tables.counters.insert(Scope::Stack, count);
            world.tables.counters.insert(Scope::Entity("acme".parse().expect("an entity")), count);
        });
        let rows = rows.into_iter().map(|row| row.name).collect();
        Self { bench, rows, stray }
    }

    fn machine(&self, name: &str) -> MachineId {
        let name = format!("small-{name}-0").parse().expect("a name");
        self.bench.change(|world| world.tables.instances[&name].machine().cloned().expect("bound"))
    }

    fn state(&self, name: &str) -> State {
        let name = format!("small-{name}-0").parse().expect("a name");
        self.bench.change(|world| world.tables.instances[&name].state())
    }

    fn job(&self, n: u64) -> Option<Job> {
        let key = waiting(n, self.bench.door.now()).key();
        self.bench.change(|world| world.tables.jobs.get(&key).map(|job| job.record().clone()))
    }

    /// Handles an event. Whether it is done with it; otherwise the message stays.
    fn takes_in(&self, event: JobEvent) -> bool {
        let door = &self.bench.door;
        let context = Context::new(door, door, &(), &(), &door.sim.settings);
        let message = JobsMessage::JobEvent { event: Box::new(event), delivery: "d".to_owned() };
        let (id, receipt) = ("1".to_owned(), "1/1".to_owned());
        let received = Received { message: Some(message), id, receipt, receives: 1 };
        let pass = JobsBatch { context, cache: &SettingsCache::default(), clock: &|| door.now() };
        self.bench.drive(pass.run(&[received])).acked == [true]
    }

    fn launches(&self, pool: &str, jobs: &[u64]) -> bool {
        let door = &self.bench.door;
        let now = door.now();
        let message = WakePool {
            pool: pool.parse().expect("a pool"),
            jobs: jobs.iter().map(|n| waiting(*n, now).key()).collect(),
        };
        let received =
            Received { message, id: "1".to_owned(), receipt: "1/1".to_owned(), receives: 1 };
        let context = Context::new(door, door, door, &(), &door.sim.settings);
        let deadline = now + Seconds(60);
        let pass = WakeUp { context, invocation: "test", deadline, clock: &|| door.now() };
        self.bench.drive(pass.run(&received));
        let claim = self.job(jobs[0]).and_then(|job| job.claim);
        claim.is_some_and(|name| !self.rows.contains(&name))
    }

    fn reaps(&self, message: ReapMessage) {
        let door = &self.bench.door;
        let received = batch::ReceivedReap::new(message, "1", 1, "1/1".to_owned());
        let pass = Batch { context: Context::new(door, door, door, door, &door.sim.settings) };
        let (deadline, clock) = (door.now() + Seconds(60), || door.now());
        self.bench.drive(pass.run(std::slice::from_ref(&received), deadline, &clock));
    }

    fn has_ended(&self, name: &str) -> bool {
        let (machine, what) = (self.machine(name), "terminated".to_owned());
        self.reaps(ReapMessage::MachineChanged { machine, what, at: None });
        self.state(name) == State::Deleted
    }

    fn reports(&self, name: &str, report: Option<MachineReport>) -> bool {
        let (door, machine, now) = (&self.bench.door, self.machine(name), self.bench.door.now());
        self.bench.drive(async {
            let looked = look(&door.sim.settings, door, &machine, report.as_ref()).await;
            let Ok((settings, owner)) = looked else {
                return false;
            };
            let context = Context::new(door, door, door, door, &settings);
            let pass = RunnerApi { context, owner, role: None };
            match report {
                Some(report) => pass.report(&report, now).await.is_ok(),
                None => pass.configure(None, Default::default(), now).await.is_ok(),
            }
        })
    }

    fn sweep(&self) {
        self.bench.drive(invocations::run(Rc::clone(&self.bench.door.sim), Call::Sweep, 0, false));
    }
}

/// What a pass does, and whether it did.
type Work = (&'static str, fn(&Scene) -> bool);

const WORKS: [Work; 12] = [
    ("event", |all| {
        let event = waiting(NEW, all.bench.door.now()).last_event;
        let done = all.takes_in(event);
        assert_eq!(done, all.job(NEW).is_some(), "an event is lost");
        done
    }),
    ("start", |all| {
        let now = all.bench.door.now();
        let event = JobEvent {
            status: JobStatus::InProgress,
            runner: Some("small-taker-0-1".to_owned()),
            runner_id: Some(RunnerId(2)),
            started_at: Some(now),
            ..waiting(TAKEN, now).last_event
        };
        all.takes_in(event)
    }),
    ("launch", |all| all.launches("small", &[WAITS, DAMAGED])),
    ("launch elsewhere", |all| all.launches("large", &[WAITS_ELSEWHERE])),
    ("end", |all| all.has_ended("ended")),
    ("end of a claim", |all| all.has_ended("claims")),
    ("end of a failure", |all| all.has_ended("failed")),
    ("delete", |all| {
        let name = "small-ordered-0".parse().expect("a name");
        all.reaps(ReapMessage::Reap { name, nonce: 1 });
        let machine = all.machine("ordered");
        all.bench.change(|world| world.ec2.is_gone(world.ec2.number(&machine).expect("known")))
    }),
    ("registration", |all| all.reports("boots", None)),
    ("job start", |all| {
        let (runner, name) = ("small-starts-0-1".to_owned(), "build".to_owned());
        let job = StartReport::new("acme/web", Some(true), 1, &name, "");
        all.reports("starts", Some(MachineReport::JobStarted { runner, job }))
    }),
    ("due", |all| {
        all.sweep();
        let sent = all.bench.change(|world| {
            let now = world.now + 1_000;
            world.queues.of(Which::Reap).receive(50, now).len()
        });
        sent > 0
    }),
    ("stray", |all| {
        all.sweep();
        all.bench.change(|world| world.ec2.is_gone(world.ec2.number(&all.stray).expect("known")))
    }),
];

#[test]
fn a_record_that_cannot_be_read_stops_only_the_passes_that_need_it() {
    let unknown =
        &["event", "start", "launch", "launch elsewhere", "registration", "job start", "stray"][..];
    let launch = &["launch", "launch elsewhere"][..];
    let stray = Scene::new().stray;
    let (orphan, owner) = (format!("orphan#{stray}"), format!("machine#{stray}"));
    let table: [(&[&str], &[&str]); 17] = [
        (&[], &[]),
        // The stored version of the same file takes its place.
        (&["pools"], &[]),
        (&["pools", "pools#3"], unknown),
        (&["pools#3"], &[]),
        // An operator may have paused either.
        (&["switches"], &["launch", "launch elsewhere", "delete", "stray"]),
        // Until the next sweep: see below.
        (&["cooldowns"], launch),
        (&["pool#small"], &["launch"]),
        (&["limit#stack"], launch),
        (&["limit#entity#acme"], &["launch"]),
        (&["inquiries"], &[]),
        (&["redeliveries"], &[]),
        (&["notices"], &[]),
        (&["prices"], &[]),
        // Its claim is removed with the instance. Otherwise the repaired job would wait forever.
        (&["job#1/7"], &["end of a claim"]),
        (&["small-damaged-0"], &[]),
        (&[&orphan], &[]),
        // It was bound to an instance, which may run a job on it.
        (&[&owner], &["stray"]),
    ];
    let mut wrong = Vec::new();
    for (records, needed_by) in table {
        for (name, works) in WORKS {
            let scene = Scene::new();
            if records.contains(&orphan.as_str()) {
                let entry = Orphan::found(scene.stray.clone(), None, scene.bench.door.now());
                scene.bench.put(&[Change::create(entry).into()]);
            }
            scene.bench.change(|world| {
                world.tables.broken.extend(records.iter().map(|one| (*one).to_owned()));
            });
            if works(&scene) == needed_by.contains(&name) {
                wrong.push(format!("{records:?}: {name}"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// What Muster learns by itself is written anew by the next sweep, and then nothing waits for it.
#[test]
fn the_sweep_writes_learned_records_anew() {
    for record in ["cooldowns", "inquiries", "redeliveries", "prices"] {
        for (name, works) in WORKS {
            let scene = Scene::new();
            scene.bench.change(|world| world.tables.broken.insert(record.to_owned()));
            scene.sweep();
            assert_eq!(scene.bench.change(|world| world.tables.broken.clone()), BTreeSet::new());
            assert!(name == "due" || works(&scene), "{record}: {name}");
        }
    }
}

/// A slot whose launch cannot be read is launched again. Its machine, if there is one, is a stray.
#[test]
fn a_launch_that_cannot_be_read_keeps_no_job_waiting() {
    for is_broken in [false, true] {
        let scene = Scene::new();
        let (bench, now) = (&scene.bench, scene.bench.door.now());
        let born = now - Seconds(600);
        let mut row = instance(bench, "slot", Some(waiting(WAITS, now).key()), born);
        let slot = Slot {
            name: row.name.clone(),
            pool: row.pool.clone(),
            entity: row.entity.clone(),
            installation: None,
            launch: row.launch.clone(),
            claim: row.claim(),
        };
        row = Instance::planned(slot, born, &Timings::default());
        row.set_due(born);
        let launch = muster_domain::launch::Launch {
            id: row.launch.clone(),
            ..muster_conformance::records::launch(1)
        };
        bench.put(&[Change::create(row).into(), Change::create(launch).into()]);
        if is_broken {
            bench.change(|world| world.tables.broken.insert("launch#small-slot".to_owned()));
        }
        let name = "small-slot-0".parse().expect("a name");
        scene.reaps(ReapMessage::Reap { name, nonce: 1 });
        let expected = if is_broken { State::PendingCreate } else { State::Creating };
        assert_eq!(scene.state("slot"), expected);
    }
}
