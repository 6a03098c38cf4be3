//! Registrations that GitHub refused: what is recorded, and when the machine retries.

use futures_util::future::join;
use muster_domain::backoff;
use muster_domain::causes::with_causes;
use muster_domain::instance::registration::{NAME_TAKEN, RATE_LIMIT, cause};
use muster_domain::instance::{Instance, ReportError};
use muster_domain::launch::record::Cooldowns;
use muster_domain::launch::record::trouble::{RequestKind, blames_group};
use muster_domain::pool::Pool;
use muster_domain::provider::{ErrorDetail, ProviderError};
use muster_domain::stored::Stored;
use muster_domain::time::{Seconds, Time};

use super::{RunnerApi, RunnerApiError};
use crate::context::Wired;
use crate::health::{note, note_answer};
use crate::ports::{Github, JitError, Queue, Table};
use crate::writes::PassError;

/// The call that registers a runner, as records name it.
const REGISTRATION: &str = "generate-jitconfig";

/// Why a machine must retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hindrance {
    /// No record of the machine exists yet.
    NotKnownYet,
    /// A later request of this machine is in progress.
    Overtaken,
    /// GitHub is removing the runner and has not answered.
    RemovalPending,
    /// The runner's name is in use.
    NameTaken,
    /// GitHub refused the registration.
    Refused,
    /// GitHub, or the store of the App's key, did not answer.
    Unavailable,
    /// GitHub's rate limit.
    RateLimit,
    /// The password of the pool's proxy cannot be read.
    NoPassword,
}

impl Hindrance {
    /// The code that the machine gets and prints.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotKnownYet => "not_known_yet",
            Self::Overtaken => "later_request",
            Self::RemovalPending => "removal_pending",
            Self::NameTaken => "name_taken",
            Self::Refused => "github_refuses",
            Self::Unavailable => "github_unavailable",
            Self::RateLimit => "github_rate_limit",
            Self::NoPassword => "no_proxy_password",
        }
    }
}

impl<W: Wired<Table: Table, Queue: Queue, Github: Github>> RunnerApi<'_, W> {
    /// Records why GitHub did not grant a registration. Returns the error for the machine.
    pub(super) async fn not_granted(
        &self,
        instance: &Stored<Instance>,
        pool: &Pool,
        error: JitError,
        now: Time,
    ) -> Result<RunnerApiError, PassError> {
        match error {
            JitError::Refused(fault) => self.refused(instance, pool, fault, now).await,
            JitError::ProviderError(ProviderError::Unauthorized(fault))
                if blames_group(pool, &fault) =>
            {
                let group = pool.runner_group_id;
                let message = format!("{} (runner group {group})", fault.message);
                self.refused(instance, pool, ErrorDetail { message, ..fault }, now).await
            }
            // An earlier call succeeded after all; the next one has a new name.
            JitError::NameTaken => {
                let message = "the runner's name is in use".to_owned();
                let fault = registration_error(NAME_TAKEN, message, now);
                self.failed(instance, fault, Hindrance::NameTaken, Seconds(1)).await
            }
            JitError::ProviderError(error) => self.no_answer(instance, error, now).await,
        }
    }

    /// GitHub refuses the configuration and would refuse it again. After several refusals the
    /// machine ends, and its job waits with GitHub's message. The pool then launches one machine at
    /// a time for that entity until a registration succeeds.
    async fn refused(
        &self,
        instance: &Stored<Instance>,
        pool: &Pool,
        fault: ErrorDetail,
        now: Time,
    ) -> Result<RunnerApiError, PassError> {
        let timings = &self.context.settings.timings_of(&instance.pool);
        let mut ends = false;
        let stored = self
            .change(instance.clone(), |next| {
                // If a later request of this machine is in progress, its answer counts.
                let is_last = next.runner_name() == instance.runner_name();
                ends = is_last && next.configuration_refused(fault.clone(), now, timings);
                Ok(())
            })
            .await;
        Ok(match stored {
            Err(denied) => denied,
            Ok(stored) if ends => {
                let noted = |known: &Cooldowns| {
                    known.after_refused_configuration(pool, &instance.entity, &fault)
                };
                note(self.context.table, noted).await?;
                tracing::warn!(instance.id = %stored.name, code = fault.code, error = fault.message,
                    "GitHub refuses the configuration: the machine ends");
                self.nudge(&stored, now).await;
                ReportError::Ended.into()
            }
            Ok(_) => {
                later(instance, Hindrance::Refused, timings.launch_retry_seconds, cause(&fault))
            }
        })
    }

    /// GitHub refuses the App, limits it or does not answer.
    async fn no_answer(
        &self,
        instance: &Stored<Instance>,
        error: ProviderError,
        now: Time,
    ) -> Result<RunnerApiError, PassError> {
        let step = self.context.settings.timings.launch_retry_seconds;
        let entity = &instance.entity;
        let noted =
            note_answer(self.context.table, entity, RequestKind::Registration, Some(&error), now);
        let (fault, hindrance, after) = match &error {
            ProviderError::RateLimited(until) => {
                let message = format!("until {}", until.clock(now));
                let fault = registration_error(RATE_LIMIT, message, now);
                (fault, Hindrance::RateLimit, until.since(now).max(step))
            }
            // Usually lasts until an operator fixes it, so the wait grows.
            ProviderError::Unauthorized(fault) => {
                let wait = backoff::launch_wait(instance.runner.n, &self.context.settings.timings);
                (fault.clone(), Hindrance::Refused, wait)
            }
            ProviderError::Unavailable(fault) => (fault.clone(), Hindrance::Unavailable, step),
        };
        let (told, noted) = join(self.failed(instance, fault, hindrance, after), noted).await;
        noted?;
        told
    }

    /// Records a failed registration on its instance and, unless GitHub refused or limited it, for
    /// its entity.
    async fn failed(
        &self,
        instance: &Stored<Instance>,
        fault: ErrorDetail,
        hindrance: Hindrance,
        after: Seconds,
    ) -> Result<RunnerApiError, PassError> {
        let recorded = self.change(instance.clone(), |next| {
            if next.runner_name() == instance.runner_name() {
                next.registration_failed(&fault);
            }
            Ok(())
        });
        let of_entity = async {
            if matches!(hindrance, Hindrance::Unavailable | Hindrance::NameTaken) {
                let entity = &instance.entity;
                let next = |known: &Cooldowns| known.after_failed_registration(entity, &fault);
                note(self.context.table, next).await?;
            }
            Ok::<(), PassError>(())
        };
        let (recorded, of_entity) = join(recorded, of_entity).await;
        of_entity?;
        match recorded {
            Ok(_) => Ok(later(instance, hindrance, after, cause(&fault))),
            Err(RunnerApiError::Pass(error)) => {
                tracing::warn!(instance.id = %instance.name, error = with_causes(&error),
                    "failed to record why a registration failed");
                Ok(later(instance, hindrance, after, cause(&fault)))
            }
            // Marked for delete meanwhile.
            Err(denied) => Ok(denied),
        }
    }
}

fn registration_error(code: &str, message: String, at: Time) -> ErrorDetail {
    ErrorDetail { at, operation: REGISTRATION.to_owned(), code: code.to_owned(), message }
}

fn later(instance: &Instance, hindrance: Hindrance, after: Seconds, why: String) -> RunnerApiError {
    tracing::warn!(instance.id = %instance.name, why, "failed to register a runner");
    RunnerApiError::Later { after, hindrance, why }
}
