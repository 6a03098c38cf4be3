//! Records in every condition that a test may need, created through the production functions.
//!
//! They share a timeline, in seconds after [`T0`]: launched at 0, machine bound at 5, configuration
//! requested at 30 and received at 31, runner started at 40, job started at 50, end of the job
//! reported by the hook at 100, exit at 110.

use proptest::test_runner::{Config as ProptestConfig, RngSeed};

use crate::absence::Absence;
use crate::ec2::{ErrorClass, LaunchError, StateReason};
use crate::ids::{AppName, JobKey, RunnerId};
pub(crate) use crate::instance::tests::{T0, at, machine, slot};
use crate::instance::{DeleteOrder, DeleteReason, Instance, ReportError, Start, StartReport};
use crate::job::labels::{LabelRows, Labels};
use crate::job::{Job, JobEvent, JobStatus, fold};
use crate::lifecycle::Policy;
use crate::pool::Pool;
use crate::provider::{ErrorDetail, ProviderError};
use crate::time::{Seconds, Time};
use crate::timings::Timings;

/// The registration of every configured fixture.
pub(crate) const RUNNER: RunnerId = RunnerId(900);
/// The job that every fixture claims: `slot(1)` is launched for it.
pub(crate) const CLAIMED: JobKey = JobKey { app: AppName::MAIN, repository: 1, job: 1 };
/// The maximum lifetime in the fixtures' pool.
pub(crate) const LIFETIME: u32 = 43_200;

/// Changes a value within an expression.
pub(crate) trait With: Sized {
    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

impl<T> With for T {}

pub(crate) fn timings() -> Timings {
    Timings { absence_confirm_seconds: Seconds(120), ..Timings::default() }
}

/// One denial of EC2.
pub(crate) fn absent(at: Time) -> Absence {
    Absence::denied(None, at)
}

pub(crate) fn policy(timings: &Timings) -> Policy<'_> {
    Policy { timings, max_lifetime: Seconds(LIFETIME), most_idle: 0 }
}

/// Returns the seconds of a time after [`T0`], for messages.
pub(crate) fn second(time: Time) -> i64 {
    (time.as_millis() - T0.as_millis()) / 1000
}

pub(crate) fn creating() -> Instance {
    Instance::planned(slot(1), T0, &timings())
}

pub(crate) fn refusal(class: ErrorClass) -> LaunchError {
    LaunchError::new(class, format!("{class:?}"), "no")
}

/// Waits for its second attempt since second 10.
pub(crate) fn retrying() -> Instance {
    creating().with(|i| i.launch_failed(&refusal(ErrorClass::Capacity), at(10), &timings()))
}

/// In its fifth and last attempt since second 100.
pub(crate) fn last_attempt() -> Instance {
    creating().with(|i| {
        for _ in 1..5 {
            i.launch_failed(&refusal(ErrorClass::Capacity), at(10), &timings());
            i.relaunch(i.launch.clone(), at(100), &timings());
        }
    })
}

pub(crate) fn error() -> Instance {
    last_attempt().with(|i| i.launch_failed(&refusal(ErrorClass::Capacity), at(110), &timings()))
}

pub(crate) fn booting() -> Instance {
    creating().with(|i| i.bind(machine(1), at(5), &timings()))
}

/// Its configuration request is in flight, or the response was lost.
pub(crate) fn asking() -> Instance {
    booting().with(|i| assert_eq!(i.ask_configuration(at(30)), Ok(None)))
}

pub(crate) fn installing() -> Instance {
    asking().with(|i| i.configured(RUNNER, at(31)))
}

pub(crate) fn idle() -> Instance {
    installing().with(|i| {
        let name = i.runner_name();
        i.runner_started(&name, at(40), &timings()).expect("its own name");
    })
}

pub(crate) fn report() -> StartReport {
    StartReport {
        repository: "acme/web".into(),
        private: Some(true),
        run: 3,
        name: "build".into(),
        pull_request: None,
    }
}

/// Reports a job start from its hook.
pub(crate) fn start(
    instance: &mut Instance,
    report: StartReport,
    at: Time,
) -> Result<Start, ReportError> {
    let name = instance.runner_name();
    instance.job_started(&name, report, &pool(), at, &timings())
}

/// Its hook reported a job start. GitHub's event has not arrived.
pub(crate) fn active() -> Instance {
    idle().with(|i| assert_eq!(start(i, report(), at(50)), Ok(Start::Accepted)))
}

/// GitHub's event reported a job start. The hook has not.
pub(crate) fn active_by_github() -> Instance {
    idle().with(|i| assert!(i.github_started(CLAIMED, at(50))))
}

/// Its hook reported the end of the job.
pub(crate) fn completed() -> Instance {
    active().with(|i| {
        let name = i.runner_name();
        i.job_completed(&name, at(100), &timings()).expect("its own name");
    })
}

pub(crate) fn exited() -> Instance {
    completed().with(|i| i.runner_ended(Some(0), None, at(110), &timings()))
}

/// Its agent ended without a job.
pub(crate) fn exited_unused() -> Instance {
    idle().with(|i| i.runner_ended(Some(1), None, at(110), &timings()))
}

pub(crate) fn boot_failed() -> Instance {
    booting().with(|i| i.runner_ended(None, Some("no disk".to_owned()), at(110), &timings()))
}

/// Changes of a fixture, for use in table rows.
pub(crate) trait Story {
    fn unclaimed(self) -> Instance;
    fn marked(self, reason: DeleteReason, second: u32) -> Instance;
    fn due(self, second: u32) -> Instance;
    fn ordered(self, order: DeleteOrder) -> Instance;
    fn stopping(self, reason: DeleteReason, second: u32) -> Instance;
    fn through_gate(self) -> Instance;
    fn deregistered(self) -> Instance;
    fn deleting(self, second: u32) -> Instance;
}

impl Story for Instance {
    fn unclaimed(self) -> Self {
        self.with(|i| i.clear_claim(at(45), "the job was cancelled"))
    }

    fn marked(self, reason: DeleteReason, second: u32) -> Self {
        self.with(|i| i.set_mark(reason, at(second)))
    }

    fn due(self, second: u32) -> Self {
        self.with(|i| i.set_due(at(second)))
    }

    fn ordered(self, order: DeleteOrder) -> Self {
        self.with(|i| i.order_delete(&order, order.at))
    }

    fn stopping(self, reason: DeleteReason, second: u32) -> Self {
        self.with(|i| i.to_pending_delete(reason, at(second)))
    }

    fn through_gate(self) -> Self {
        self.with(|i| i.update_mark(|mark| mark.gate_passed = true))
    }

    fn deregistered(self) -> Self {
        self.with(|i| i.update_mark(|mark| mark.deregistered = true))
    }

    fn deleting(self, second: u32) -> Self {
        self.with(|i| i.to_deleting(at(second), "safe", &timings()))
    }
}

pub(crate) fn plain(second: u32) -> DeleteOrder {
    DeleteOrder {
        at: at(second),
        by: "ada".to_owned(),
        reason: "not needed".to_owned(),
        force: false,
        bypass_github_unauthorized: false,
        kill_running_job: false,
    }
}

pub(crate) fn forced(second: u32) -> DeleteOrder {
    DeleteOrder { force: true, ..plain(second) }
}

pub(crate) fn fault(code: &str) -> ErrorDetail {
    ErrorDetail {
        at: T0,
        operation: "test".to_owned(),
        code: code.to_owned(),
        message: "no".to_owned(),
    }
}

/// EC2's reason for a machine that it could not start.
pub(crate) fn aborted() -> StateReason {
    StateReason::new("Client.InternalError", "Client.InternalError: Client error on launch")
}

pub(crate) fn unauthorized() -> ProviderError {
    ProviderError::Unauthorized(fault("401"))
}

pub(crate) fn unavailable() -> ProviderError {
    ProviderError::Unavailable(fault("502"))
}

pub(crate) fn pool() -> Pool {
    Pool {
        labels: LabelRows::one(Labels::new(["linux", "x64"])),
        launch_template_id: "lt-1".into(),
        launch_template_version: "3".into(),
        app_owner: "acme".parse().ok(),
        instance_types: vec!["m7i.large".into(), "m7a.large".into()],
        subnets: vec!["subnet-a".into(), "subnet-b".into()],
        max: 10,
        max_lifetime_seconds: Seconds(LIFETIME),
        ..Pool::named("default".parse().expect("valid"))
    }
}

/// Creates a queued job of `acme/web`, matched to the pool, queued `n` seconds after [`T0`].
pub(crate) fn job(n: u32) -> Job {
    let said = JobEvent {
        key: JobKey { app: AppName::MAIN, repository: 1, job: u64::from(n) },
        status: JobStatus::Queued,
        repository: "acme/web".into(),
        private: true,
        user_owned: false,
        installation: None,
        run: 3,
        attempt: 1,
        name: "build".into(),
        workflow: Some("CI".into()),
        branch: Some("main".into()),
        actor: None,
        by_person: false,
        deploys: false,
        labels: Labels::new(["self-hosted", "linux"]),
        runner: None,
        runner_id: None,
        conclusion: None,
        queued_at: Some(at(n)),
        started_at: None,
        completed_at: None,
    };
    fold(None, said, at(n)).with(|job| job.pool = Some(pool().name))
}

/// Returns the configuration of a deterministic property test. `PROPTEST_RNG_SEED` changes its
/// seed, and `PROPTEST_CASES` its length.
pub(crate) fn searched(cases: u32) -> ProptestConfig {
    let found = ProptestConfig::default();
    let rng_seed = match found.rng_seed {
        RngSeed::Random => RngSeed::Fixed(20_261_121),
        given => given,
    };
    ProptestConfig { cases: cases.max(found.cases), rng_seed, failure_persistence: None, ..found }
}
