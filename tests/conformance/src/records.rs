//! Records to write, by a number that is also the second of their making.

use muster_domain::audit::{Audit, AuditKind};
use muster_domain::ec2::{ErrorClass, LaunchError, Make, Market, Override};
use muster_domain::ids::{AppName, InstallationId, JobKey, MachineId, PoolName};
use muster_domain::instance::{DeleteReason, Instance, Slot};
use muster_domain::job::labels::Labels;
use muster_domain::job::{Job, JobEvent, JobStatus, fold};
use muster_domain::launch::plan::{LAUNCH_TAG, STACK_TAG};
use muster_domain::launch::{Launch, LaunchRequest};
use muster_domain::orphan::Orphan;
use muster_domain::pool::capacity::Capacity;
use muster_domain::pool::{Allocation, Placement};
use muster_domain::rerun::{Rerun, RerunState};
use muster_domain::time::{Seconds, Time};
use muster_domain::timings::Timings;

/// The pool of all records, and of [`pool`].
pub const POOL: &str = "default";
/// A pool without records.
pub const OTHER_POOL: &str = "other";

const T0: Time = Time::from_millis(1_795_000_000_000);

/// A moment.
#[must_use]
pub fn at(seconds: u32) -> Time {
    T0 + Seconds(seconds)
}

/// The pool of all records.
#[must_use]
pub fn pool() -> PoolName {
    POOL.parse().expect("a pool's name")
}

/// Another pool.
#[must_use]
pub fn other_pool() -> PoolName {
    OTHER_POOL.parse().expect("a pool's name")
}

/// A job's key.
#[must_use]
pub const fn key(n: u64) -> JobKey {
    JobKey { app: AppName::MAIN, repository: 1, job: n }
}

/// A machine's id.
#[must_use]
pub fn machine(n: u32) -> MachineId {
    format!("i-{n:017x}").parse().expect("a machine's id")
}

/// A slot, with a claim or without.
#[must_use]
pub fn planned(n: u32, claim: Option<JobKey>) -> Instance {
    let slot = Slot {
        name: format!("{POOL}-l{n}-0").parse().expect("an instance's name"),
        pool: pool(),
        entity: "acme".parse().expect("an entity"),
        installation: Some(InstallationId(7)),
        launch: format!("{POOL}-l{n}").parse().expect("a launch's id"),
        claim,
    };
    Instance::planned(slot, at(n), &Timings::default())
}

/// A slot with a machine, as its first record.
#[must_use]
pub fn running(n: u32, claim: Option<JobKey>) -> Instance {
    let mut instance = planned(n, claim);
    instance.bind(machine(n), at(n + 3), &Timings::default());
    instance.make = make();
    instance
}

/// What every machine is.
fn make() -> Make {
    Make {
        kind: Some("m7i.large".into()),
        zone: Some("us-east-1a".into()),
        subnet: Some("subnet-a".into()),
        market: Some(Market::Spot),
    }
}

/// A slot whose launch failed once.
#[must_use]
pub fn failed(n: u32, claim: Option<JobKey>) -> Instance {
    let mut instance = planned(n, claim);
    let error = LaunchError::new(ErrorClass::Capacity, "None", "left");
    instance.launch_failed(&error, at(50), &Timings::default());
    instance
}

/// A slot on its way out, marked at a moment.
#[must_use]
pub fn ending(n: u32, marked: u32) -> Instance {
    let mut instance = running(n, None);
    instance.to_pending_delete(DeleteReason::Idle, at(marked));
    instance
}

/// The instance's tombstone.
#[must_use]
pub fn deleted(instance: &Instance) -> Instance {
    let mut next = instance.clone();
    next.to_pending_delete(DeleteReason::Idle, at(100));
    next.to_deleting(at(100), "a check", &Timings::default());
    next.to_deleted(at(100), "a check");
    next
}

/// What GitHub says of a job.
#[must_use]
pub fn event(n: u64, status: JobStatus) -> JobEvent {
    JobEvent {
        key: key(n),
        status,
        repository: "acme/web".into(),
        private: true,
        user_owned: false,
        installation: Some(InstallationId(7)),
        run: 9_007_199_254_740_993,
        attempt: 1,
        name: "build 👷".into(),
        workflow: Some("CI".into()),
        branch: Some("main".into()),
        actor: Some("mira".into()),
        by_person: false,
        deploys: false,
        labels: Labels::new(["self-hosted", "linux"]),
        runner: None,
        runner_id: None,
        conclusion: None,
        queued_at: Some(at(u32::try_from(n).expect("small"))),
        started_at: None,
        completed_at: (status == JobStatus::Completed).then(|| at(5000)),
    }
}

/// A job that waits.
#[must_use]
pub fn queued(n: u64) -> Job {
    let mut job = fold(None, event(n, JobStatus::Queued), at(60));
    job.pool = Some(pool());
    job
}

/// A fleet request of a stack.
#[must_use]
pub fn request(stack: &str, launch: &str, capacity: u32) -> LaunchRequest {
    let choice =
        |subnet: &str| Override { instance_type: "m7i.large".into(), subnet: subnet.into() };
    LaunchRequest {
        template_id: "lt-1".into(),
        template_version: "3".into(),
        overrides: vec![choice("subnet-a"), choice("subnet-b")],
        requirements: None,
        market: Market::Spot,
        allocation: Allocation::PriceCapacityOptimized,
        max_price: None,
        image: None,
        disk: None,
        omitted_device: None,
        placement: Some(Placement { group: Some("acme".to_owned()), dedicated: true }),
        reserved_first: true,
        capacity,
        tags: [(STACK_TAG.into(), stack.into()), (LAUNCH_TAG.into(), launch.into())].into(),
    }
}

/// An open launch.
#[must_use]
pub fn launch(n: u32) -> Launch {
    let id = format!("{POOL}-l{n}");
    let (request, slots) = (request("s", &id, 1), vec![planned(n, None).name]);
    let id = id.parse().expect("a launch's id");
    Launch::open(id, pool(), request, slots, at(n), &Timings::default())
}

/// An entry of the orphan ledger.
#[must_use]
pub fn orphan(n: u32) -> Orphan {
    Orphan {
        schema: muster_domain::SCHEMA,
        machine: machine(n),
        instance: Some(planned(n, None).name),
        launch: Some(planned(n, None).launch),
        make: make(),
        costs_since: Some(at(n)),
        since: at(n),
        attempts: 0,
        last_error: None,
        absence: None,
        looked_at: None,
    }
}

/// The record of a workflow run with an interrupted job.
#[must_use]
pub fn rerun(run: u64, state: RerunState) -> Rerun {
    Rerun {
        schema: muster_domain::SCHEMA,
        run,
        repository: "acme/app".into(),
        repository_id: Some(1),
        installation: Some(InstallationId(1)),
        pool: pool(),
        opened_at: at(0),
        lost: Vec::new(),
        ours: vec![2],
        denied_since: None,
        state,
    }
}

/// A line of the audit trail.
#[must_use]
pub fn audit(second: u32, why: &str) -> Audit {
    Audit::new(&planned(1, None).name, AuditKind::Ordered, "somebody", why, at(second))
}

/// A pool's counter and the holder of its lease.
#[must_use]
pub fn capacity(live: u32, holder: Option<&str>) -> Capacity {
    Capacity { live, holder: holder.map(str::to_owned), ..Capacity::empty(pool()) }
}
