//! Records to write.

use domain::audit::{Audit, AuditKind};
use domain::ids::{InstallationId, JobKey, MachineId, PoolName};
use domain::instance::{DeleteReason, Instance, Order, Slot};
use domain::job::{Job, JobEvent, JobStatus, fold};
use domain::labels::Labels;
use domain::launch::{Launch, LaunchRequest, Market, Override};
use domain::orphan::Orphan;
use domain::time::{Seconds, Time};
use domain::timings::Timings;

pub(crate) const T0: Time = Time::from_millis(1_795_000_000_000);

pub(crate) fn at(seconds: u32) -> Time {
    T0 + Seconds(seconds)
}

pub(crate) fn pool() -> PoolName {
    "default".parse().expect("valid")
}

pub(crate) fn key(n: u64) -> JobKey {
    JobKey { repository: 1, job: n }
}

pub(crate) fn machine(n: u32) -> MachineId {
    format!("i-{n:017x}").parse().expect("valid")
}

/// A slot that was planned at second `n`, with a claim or without.
pub(crate) fn planned(n: u32, claim: Option<JobKey>) -> Instance {
    let slot = Slot {
        name: format!("default-l{n}-0").parse().expect("valid"),
        pool: pool(),
        entity: "acme".parse().expect("valid"),
        installation: Some(InstallationId(7)),
        launch: format!("default-l{n}").parse().expect("valid"),
        claim,
    };
    Instance::planned(slot, at(n), &Timings::default())
}

/// A slot with a machine, and its first generation.
pub(crate) fn running(n: u32, claim: Option<JobKey>) -> Instance {
    let mut instance = planned(n, claim);
    instance.bind(machine(n), at(n + 3), &Timings::default());
    instance
}

pub(crate) fn ending(n: u32, marked: u32) -> Instance {
    let mut instance = running(n, None);
    instance.to_pending_delete(DeleteReason::Idle, at(marked));
    instance
}

pub(crate) fn deleted(instance: &Instance, second: u32) -> Instance {
    let mut instance = instance.clone();
    instance.order_delete(&order(second), at(second));
    instance.to_deleting(at(second), "test", &Timings::default());
    instance.to_deleted(at(second), "test");
    instance
}

pub(crate) fn order(second: u32) -> Order {
    Order {
        at: at(second),
        by: "somebody".into(),
        reason: "a test".into(),
        force: true,
        bypass_github_unauthorized: false,
        kill_running_job: false,
    }
}

pub(crate) fn event(n: u64, status: JobStatus) -> JobEvent {
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
        labels: Labels::new(["self-hosted", "linux"]),
        runner: None,
        conclusion: None,
        queued_at: Some(at(u32::try_from(n).expect("small"))),
        started_at: None,
        completed_at: (status == JobStatus::Completed).then(|| at(5000)),
    }
}

/// A job that was queued at second `n`.
pub(crate) fn queued(n: u64) -> Job {
    let mut job = fold(None, event(n, JobStatus::Queued), at(60));
    job.pool = Some(pool());
    job
}

pub(crate) fn launch(n: u32) -> Launch {
    let request = LaunchRequest {
        template_id: "lt-1".into(),
        template_version: "3".into(),
        overrides: vec![Override { instance_type: "m7i.large".into(), subnet: "subnet-a".into() }],
        requirements: None,
        market: Market::Spot,
        allocation: None,
        max_price: None,
        image: None,
        disk: None,
        capacity: 1,
        tags: vec![("muster:stack".into(), "s".into())],
    };
    let slots = vec![planned(n, None).name];
    let id = format!("default-l{n}").parse().expect("valid");
    Launch::open(id, pool(), request, slots, at(n), &Timings::default())
}

pub(crate) fn orphan(n: u32) -> Orphan {
    Orphan {
        schema: domain::SCHEMA,
        generation: 0,
        machine: machine(n),
        instance: Some(planned(n, None).name),
        since: at(n),
        attempts: 0,
        last_error: None,
        absent_since: None,
    }
}

pub(crate) fn audit(second: u32, why: &str) -> Audit {
    Audit::of(&planned(1, None).name, AuditKind::Ordered, "somebody", why, at(second))
}
