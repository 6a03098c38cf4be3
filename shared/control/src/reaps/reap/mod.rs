//! The reap pass for one instance: observe, decide, commit, perform, settle.

mod commit;
mod heard;
mod observe;
mod perform;
mod settle;

use muster_domain::causes::with_causes;
use muster_domain::ids::{EntityKind, InstanceName, MachineId, PoolName};
use muster_domain::instance::Instance;
use muster_domain::job::Job;
use muster_domain::lifecycle::{self, Effect, Policy, Record, Step};
use muster_domain::message::SPOT_INTERRUPTION;
use muster_domain::observation::{Observation, Termination};
use muster_domain::pool::Pool;
use muster_domain::stored::Stored;
use muster_domain::time::{Seconds, Time};
use muster_domain::usage::{self, Loss};

use self::heard::PriorObservations;
pub(crate) use self::settle::MAX_RECEIVES;

use crate::context::{Context, Ports};
use crate::ports::{Instances, ReadError, Registrar};
use crate::writes::{self, PassError};

/// Maximum decisions per pass. A full delete takes seven.
const ROUNDS: usize = 16;

/// The message that started a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Identifies the message among those for the same row.
    pub nonce: u64,
    /// How often the message was received.
    pub receives: u32,
}

/// A message that arrives this late after its instance was due comes from the sweep, and an earlier
/// message failed.
const FAILED_BEFORE: Seconds = Seconds(90);
/// Maximum delay of a message that waited in the queue until its instance was due.
const ON_TIME: Seconds = Seconds(10);

impl Ticket {
    /// Whether an earlier pass may have failed: the message was received before, but was not
    /// waiting until now; or nothing was written about the instance long after it was due.
    fn follows_a_failure(&self, instance: &Instance, now: Time) -> bool {
        let is_late = |by: Seconds| instance.due_at().is_some_and(|due| now.is_past(due, by));
        let waited = instance.wake_nonce() == Some(self.nonce) && !is_late(ON_TIME);
        if self.receives > 1 { !waited } else { is_late(FAILED_BEFORE) }
    }
}

/// What to do with the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// Delete it.
    Ack,
    /// Hide it for this long, and report it as failed so that it stays.
    Hide(Seconds),
}

/// The reap passes of an invocation.
pub struct Reap<'a, P: Ports> {
    /// The ports, and the settings with the current pools.
    pub context: Context<'a, P>,
    /// Whether an operator has switched deletes off.
    pub deletes_off: bool,
}

/// The progress of one pass.
pub struct Pass {
    name: InstanceName,
    ticket: Ticket,
    heard: PriorObservations,
    /// Where to start, or to resume after the termination: the row as it is stored, and the
    /// observations so far.
    paused: Option<(Stored<Instance>, Observation)>,
    /// Whether no message of the row was live when the pass first read it. Its own commits change when
    /// the row is due.
    is_unattended: Option<bool>,
    /// What the end of the machine cost, once its record has ended.
    pub(super) lost: Option<(PoolName, Loss)>,
}

/// The progress of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Finished.
    Settled(Settlement),
    /// Its machine should be terminated, as its row records. Resumes with [`Pass::terminated`].
    Terminates(MachineId),
}

impl Pass {
    /// Creates a pass for an instance.
    #[must_use]
    pub fn new(name: InstanceName, ticket: Ticket) -> Self {
        Self::after(name, ticket, Observation::default())
    }

    /// Creates a pass over the owner of a machine after an event of EC2: `what` is the machine's new state, or
    /// [`SPOT_INTERRUPTION`].
    #[must_use]
    pub fn of_event(name: InstanceName, ticket: Ticket, what: &str, at: Option<Time>) -> Self {
        let told_gone = matches!(what, "shutting-down" | "terminated");
        let told = Observation {
            machine_hint: true,
            machine_told_gone: told_gone,
            machine_ended_at: at.filter(|_| told_gone),
            spot_notice: what == SPOT_INTERRUPTION,
            spot_notice_at: at.filter(|_| what == SPOT_INTERRUPTION),
            ..Observation::default()
        };
        Self::after(name, ticket, told)
    }

    /// Makes the pass start with an instance that was just read.
    pub(crate) fn over(self, instance: Stored<Instance>) -> Self {
        let seen = self.heard.about(&instance);
        Self { paused: Some((instance, seen)), ..self }
    }

    /// Creates a pass with the observations from its message.
    fn after(name: InstanceName, ticket: Ticket, message: Observation) -> Self {
        Self {
            name,
            ticket,
            heard: PriorObservations::by_message(message),
            paused: None,
            is_unattended: None,
            lost: None,
        }
    }

    /// Passes in EC2's answer to the termination.
    pub fn terminated(&mut self, answer: Termination) {
        let Some((instance, seen)) = &mut self.paused else { return };
        if let Termination::Failed(class, fault) = &answer {
            tracing::warn!(instance.id = %instance.name, machine.id = ?instance.machine(), ?class,
                code = fault.code, error = fault.message, "failed to terminate a machine");
        }
        seen.terminated(answer);
        self.heard.keep(instance, seen);
    }
}

impl<P: Ports> Reap<'_, P> {
    /// Runs a pass to its end, or until its machine should be terminated: the caller terminates the
    /// machines of many passes in one call.
    ///
    /// # Errors
    /// When a table or queue does not answer, or too many concurrent writes conflict. The message
    /// stays and the pass is repeated.
    pub async fn advance(&self, pass: &mut Pass, now: Time) -> Result<Progress, PassError> {
        writes::in_rounds(async || self.round(pass, now).await).await
    }

    /// Runs one round of the pass.
    async fn round(&self, pass: &mut Pass, now: Time) -> Result<Progress, PassError> {
        let (mut instance, mut seen) = match pass.paused.take() {
            Some(paused) => paused,
            None => match self.context.table.instance(&pass.name).await {
                Ok(Some(instance)) => {
                    let seen = pass.heard.about(&instance);
                    (instance, seen)
                }
                Ok(None) => return Ok(Progress::Settled(Settlement::Ack)),
                Err(ReadError::Unreadable { key, why }) => {
                    tracing::error!(
                        instance.id = %key,
                        error = with_causes(&why),
                        "skipped a record that this version cannot read"
                    );
                    return Ok(Progress::Settled(Settlement::Ack));
                }
                Err(error) => return Err(error.into()),
            },
        };
        let is_unattended =
            *pass.is_unattended.get_or_insert_with(|| self.is_unattended(&instance, now));
        if !instance.state().is_live() && seen.spot_notice && instance.spot_notice_at.is_none() {
            self.note_late_notice(&instance, &seen, now).await?;
        }
        if instance.state().is_live() && pass.ticket.follows_a_failure(&instance, now) {
            // Proves that the table accepts writes before the pass spends quota on reads.
            instance = self.write_again(&instance).await?;
        }
        self.report_probe(&instance, now).await?;
        let pool = self.context.settings.pool(&instance.pool);
        seen.outdated = pool.is_some_and(|pool| instance.is_outdated(pool));
        seen.deletes_off = self.deletes_off;
        seen.pool_removed = pool.is_some_and(Pool::is_removed);
        let timings = self.context.settings.timings_of(&instance.pool);
        let policy = Policy {
            timings: &timings,
            max_lifetime: self.context.settings.max_lifetime(&instance.pool),
            most_idle: pool.map_or(0, Pool::most_idle),
        };
        for _ in 0..ROUNDS {
            match lifecycle::decide(&instance, &seen, &policy, now) {
                Step::Look(need) => self.look(need, &instance, &mut seen, now).await?,
                Step::Act { next, records, effect } => {
                    // Capacity in the pool, or a job that needs a new runner.
                    let ended = instance.state().is_live() && !next.state().is_live();
                    let is_given_up =
                        records.iter().any(|record| matches!(record, Record::Orphan(_)));
                    let (stored, gave_back) = self.commit(&instance, &next, records, now).await?;
                    instance = stored;
                    if ended {
                        let loss = usage::loss(&instance);
                        pass.lost = loss.map(|loss| (instance.pool.clone(), loss));
                    }
                    if let Some(Effect::Deregister(id)) = effect {
                        self.deregister(id, &instance, &mut seen, now).await?;
                        pass.heard.keep(&instance, &seen);
                    }
                    let asks = effect == Some(Effect::WakePool);
                    self.wake(&instance, gave_back, asks, ended, now).await?;
                    if let Some(Effect::Terminate(machine)) = effect {
                        pass.paused = Some((instance, seen));
                        return Ok(Progress::Terminates(machine));
                    }
                    if ended && !is_given_up {
                        self.forget(&instance).await;
                    }
                }
                Step::Rest(next) => {
                    let settled =
                        self.settle(&instance, *next, &pass.ticket, is_unattended, now).await?;
                    return Ok(Progress::Settled(settled));
                }
                Step::Done => return Ok(Progress::Settled(Settlement::Ack)),
            }
        }
        tracing::error!(instance.id = %instance.name, "reap pass exceeded its maximum number of decisions");
        Ok(Progress::Settled(Settlement::Ack))
    }
}

pub(crate) fn registrar(instance: &Instance) -> Registrar {
    Registrar { entity: instance.entity.clone(), installation: instance.installation }
}

/// Returns the registrar for querying an instance's job: an enterprise's installation may
/// not have access to the repository.
fn registrar_of_job(instance: &Instance, job: &Job) -> Registrar {
    match (instance.entity.kind(), job.home()) {
        (EntityKind::Enterprise, Some(entity)) => {
            Registrar { entity, installation: job.last_event.installation }
        }
        (EntityKind::Enterprise | EntityKind::Organization | EntityKind::Repository, _) => {
            registrar(instance)
        }
    }
}
