//! What a machine asks of us: its configuration, and to hear its reports.

mod agents;
mod failure;
mod request;

use futures_util::future::join;
use muster_domain::agent::{AgentOffer, AgentReport};
use muster_domain::audit::{Audit, AuditKind};
use muster_domain::ids::{InstanceName, RunnerId};
use muster_domain::instance::{AfterEnd, Ages, Exit, Instance, ReportError, RunnerState, Start};
use muster_domain::launch::cooldown::Cooldowns;
use muster_domain::pool::Pool;
use muster_domain::stored::Stored;
use muster_domain::time::{Seconds, Time};
use muster_domain::timings::Timings;

pub use self::failure::Hindrance;
pub use self::request::{MachineReport, look};
use crate::causes::with_causes;
use crate::context::{Context, Wired};
use crate::health::note;
use crate::metrics::{self, Measure, Metric};
use crate::ports::{Github, Instances, Launches, Queue, ReadError, Registrar, Table, Write};
use crate::reaps::reap::registrar;
use crate::wake::reap_message;
use crate::writes::{self, MayConflict, PassError};

/// The configuration of a machine's runner.
pub struct Configuration {
    /// The runner's name.
    pub runner_name: String,
    /// What the agent takes as `--jitconfig`. A credential.
    pub encoded: String,
    /// The pool's environment for the runner.
    pub environment: std::collections::BTreeMap<String, String>,
    /// The pool's shell text to be run before the runner starts.
    pub boot_hook: Option<String>,
    /// Whether the runner's user may become root.
    pub sudo: bool,
    /// The agent that the machine takes before it starts, where its own will not do.
    pub agent: Option<AgentOffer>,
}

/// What became of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct Reported {
    /// What a machine does whose agent has ended: all others go on.
    pub after: AfterEnd,
    /// What CloudWatch is told.
    pub measures: Vec<Measure>,
}

/// Why a machine does not get what it asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunnerApiError {
    /// No instance of ours: it must shut down.
    #[error("this machine belongs to no instance")]
    UnknownMachine,
    /// It must shut down, or fail its job.
    #[error(transparent)]
    Refused(#[from] ReportError),
    /// Try again later.
    #[error("try again in {}: {why}", after)]
    Later {
        /// When.
        after: Seconds,
        /// Why, for the machine.
        hindrance: Hindrance,
        /// Why, in a sentence.
        why: String,
    },
    /// The table or the queue failed: try again.
    #[error("Muster's table or queue does not answer")]
    Pass(#[from] PassError),
}

impl MayConflict for RunnerApiError {
    fn is_conflict(&self) -> bool {
        matches!(self, Self::Pass(error) if error.is_conflict())
    }
}

/// A configuration call that is on record.
struct CountedCall {
    instance: Stored<Instance>,
    /// The registration of an earlier call.
    earlier: Option<RunnerId>,
    /// What GitHub refused before it was asked.
    known: Cooldowns,
}

/// The passes behind runner-api.
pub struct RunnerApi<'a, W: Wired> {
    /// The world, with the settings of [`look`].
    pub context: Context<'a, W>,
    /// The instance that owns the machine. It never changes.
    pub owner: InstanceName,
    /// The id of the role that signed; none for the stack's.
    pub role: Option<&'a str>,
}

impl<W: Wired<Table: Table, Queue: Queue, Github: Github>> RunnerApi<'_, W> {
    /// Hands out a fresh configuration. Repeatable as long as the agent has not started: the answer
    /// may be lost on its way. The registration of an earlier call is removed. `agent`: what the
    /// machine has, where it can take another. `ages`: how the machine came so far.
    ///
    /// # Errors
    /// What the machine is to do instead.
    pub async fn configure(
        &self,
        agent: Option<AgentReport>,
        ages: Ages,
        now: Time,
    ) -> Result<Configuration, RunnerApiError> {
        let CountedCall { instance, earlier, known } = self.ask(ages, now).await?;
        let registrar = registrar(&instance);
        self.remove_earlier(&registrar, &instance, earlier).await;
        let Some(pool) = self.context.settings.pool(&instance.pool) else {
            return Err(ReportError::Draining.into());
        };
        let name = instance.runner_name();
        let labels: Vec<String> = pool.labels.carried().iter().map(str::to_owned).collect();
        let answer =
            self.context.github.configure(&registrar, &name, &labels, pool.runner_group_id);
        // The list is not waited for by itself.
        let (answer, told) = join(answer, self.told_of_agents(&registrar, agent)).await;
        let config = match answer {
            Ok(config) => config,
            Err(error) => return Err(self.not_granted(&instance, pool, error, now).await?),
        };
        let id = config.runner;
        let (offer, newest) =
            told.as_ref().map(|told| told.offer(&known.agents, now)).unwrap_or_default();
        let stored = self.change(instance.clone(), |next| {
            // A later call of the same machine counts on; this answer is not the newest then.
            if next.runner_name() != name {
                return Err(RunnerApiError::Refused(ReportError::OtherRegistration));
            }
            // Marked for delete while GitHub was asked: recorded, so that the reaper removes it,
            // but not handed out.
            next.configured(id, now);
            if let Some(told) = &told {
                next.runs_agent(told.own(), offer.as_ref(), newest, now);
            }
            Ok(())
        });
        // The one that fails fails the call, and does not keep the other from its record.
        let noted = self.note_configured(&instance, &known, pool, told.as_ref(), now);
        let (stored, noted) = join(stored, noted).await;
        if let Err(RunnerApiError::Refused(_)) = stored {
            // No record will ever lead to it.
            self.remove_earlier(&registrar, &instance, Some(id)).await;
        }
        let stored = stored?;
        noted?;
        if stored.is_probe && known.has_entity(&stored.entity) {
            self.nudge(&stored, now).await;
        }
        if stored.mark().is_some() {
            return Err(ReportError::Draining.into());
        }
        Ok(Configuration {
            runner_name: name,
            encoded: config.encoded,
            environment: pool.environment.clone(),
            boot_hook: pool.boot_hook.clone(),
            sudo: pool.sudo,
            agent: offer.map(|offer| agents::from_mirror(offer, pool)),
        })
    }

    /// Takes a report.
    ///
    /// # Errors
    /// What the machine is to do instead.
    pub async fn report(
        &self,
        report: &MachineReport,
        now: Time,
    ) -> Result<Reported, RunnerApiError> {
        let instance = self.instance().await?;
        let settings = self.context.settings;
        let timings = &settings.timings_of(&instance.pool);
        let pool = settings.pool(&instance.pool);
        let (mut ends, mut refused_agent, mut came) = (false, None, None);
        let mut after = AfterEnd::ShutsDown;
        let stored = self
            .change(instance, |next| {
                let before = next.clone();
                take(report, next, pool, now, timings)?;
                if matches!(report, MachineReport::Exited { .. }) {
                    after = next.after_end(pool, now);
                }
                ends = before.runner.exit.is_none() && next.runner.exit.is_some();
                refused_agent = before.agent_refused_by(next);
                came = next.start_time().filter(|_| before.start_time().is_none());
                Ok(())
            })
            .await?;
        // Once: a machine may say it as often as it likes.
        if ends && stored.runner.state == RunnerState::Failed {
            tracing::warn!(instance.id = %stored.name, log = stored.last_words().last(), "a machine reported a failed boot");
        }
        if let Some(version) = refused_agent {
            self.note_refused_agent(version, &stored, now).await;
        }
        if ends && !stored.runner.has_taken_job() {
            self.nudge(&stored, now).await;
        }
        if stored.is_probe && matches!(report, MachineReport::JobStarted { .. }) {
            self.nudge(&stored, now).await;
        }
        match (report, &stored.runner.exit) {
            (MachineReport::JobStarted { .. }, Some(Exit { foreign: Some(what), .. })) => {
                tracing::warn!(instance.id = %stored.name, what, "GitHub gave a runner a job that its pool does not serve");
                Err(ReportError::ForeignJob.into())
            }
            _ => Ok(Reported { after, measures: self.start(&stored, came) }),
        }
    }

    /// Of a machine whose agent has just said that it listens.
    fn start(&self, instance: &Instance, millis: Option<u32>) -> Vec<Measure> {
        let of = metrics::pool(self.context.settings, &instance.pool);
        let seconds = millis.map(|millis| f64::from(millis) / 1000.0);
        let measure = seconds.map(|value| Measure::of(of, Metric::MachineStartSeconds, value));
        measure.into_iter().collect()
    }

    /// Wakes the reaper. A runner that ended without a job may hold a claim, which is given back at
    /// once; a probe that came up opens its pool. If the message is lost, the sweep does both.
    async fn nudge(&self, instance: &Stored<Instance>, now: Time) {
        if let Err(error) = self.context.queue.send_reap(&[reap_message(instance, now)]).await {
            tracing::warn!(instance.id = %instance.name, error = with_causes(&error), "failed to wake the reaper; the next sweep does");
        }
    }

    /// Counts the configuration call before it is made. What GitHub refuses is read beside it.
    async fn ask(&self, ages: Ages, now: Time) -> Result<CountedCall, RunnerApiError> {
        let instance = self.instance().await?;
        let mut earlier = None;
        let counted = self.change(instance, |next| {
            if next.is_overtaken(now) {
                let why = "a later request of this machine is answered".to_owned();
                let hindrance = Hindrance::Overtaken;
                return Err(RunnerApiError::Later { after: Seconds(2), hindrance, why });
            }
            earlier = next.ask_configuration(now)?;
            next.came_up(ages, now);
            Ok(())
        });
        let (counted, known) = join(counted, self.context.table.cooldowns()).await;
        let (instance, known) = (counted?, known?);
        let known = known.map(Stored::into_record).unwrap_or_default();
        Ok(CountedCall { instance, earlier, known })
    }

    /// GitHub registers runners for the entity, and lists agents. Where either is news, what is known
    /// is read again, since others may know better by now.
    async fn note_configured(
        &self,
        instance: &Instance,
        before: &Cooldowns,
        pool: &Pool,
        told: Option<&agents::Told>,
        now: Time,
    ) -> Result<(), PassError> {
        let after = |known: &Cooldowns| {
            let opened = known.after_registration(pool, &instance.entity);
            let base = opened.as_ref().unwrap_or(known);
            told.and_then(|told| told.after(base, &pool.name, now)).or(opened)
        };
        match after(before) {
            Some(_) => note(self.context.table, after).await,
            None => Ok(()),
        }
    }

    /// Removes the registration of a call whose answer the machine did not get. Best effort: what
    /// is left was never started, so GitHub gives it no job, and GitHub removes it after a day.
    async fn remove_earlier(
        &self,
        registrar: &Registrar,
        instance: &Instance,
        earlier: Option<RunnerId>,
    ) {
        if let Some(id) = earlier
            && let Err(trouble) = self.context.github.deregister(registrar, id).await
        {
            tracing::warn!(instance.id = %instance.name, runner.id = %id,
                error = with_causes(&trouble), "failed to remove an earlier registration");
        }
    }

    async fn instance(&self) -> Result<Stored<Instance>, RunnerApiError> {
        let instance = self.context.table.instance(&self.owner).await?;
        instance
            .filter(|instance| self.is_signed_for(instance))
            .ok_or(RunnerApiError::UnknownMachine)
    }

    /// A machine has the role that its instance was launched with. Whoever signs with another one
    /// is not that machine, whatever name its session has.
    fn is_signed_for(&self, instance: &Instance) -> bool {
        instance.role.as_deref() == self.role
    }

    /// Changes and commits an instance as it was read. When somebody else was faster, it is read
    /// again.
    async fn change(
        &self,
        read: Stored<Instance>,
        mut change: impl FnMut(&mut Instance) -> Result<(), RunnerApiError>,
    ) -> Result<Stored<Instance>, RunnerApiError> {
        let (name, mut read) = (read.name.clone(), Some(read));
        writes::in_rounds(async || {
            let before = match read.take() {
                Some(read) => read,
                None => {
                    let stored = self.context.table.instance(&name).await;
                    stored.map_err(PassError::from)?.ok_or(RunnerApiError::UnknownMachine)?
                }
            };
            // A tombstone is not written again.
            if !before.state().is_live() {
                return Err(ReportError::Draining.into());
            }
            let mut next = before.record().clone();
            change(&mut next)?;
            let Some(changed) = before.changed(next) else { return Ok(before) };
            let mut writes = vec![changed.clone().into()];
            writes.extend(refused_job(&before, &changed).map(Write::Audit));
            let committed = self.context.table.commit(&writes).await.map_err(PassError::from)?;
            Ok(changed.stored(&committed))
        })
        .await
    }
}

/// The line about a job that the pool does not serve.
fn refused_job(before: &Instance, next: &Instance) -> Option<Audit> {
    let exit = next.runner.exit.as_ref().filter(|_| before.runner.exit.is_none())?;
    let what = exit.foreign.as_ref()?;
    Some(Audit::new(&next.name, AuditKind::JobRefused, "muster", what, exit.at))
}

/// What a report makes of the record. The pool is none where there is none of that name any more.
fn take(
    report: &MachineReport,
    next: &mut Instance,
    pool: Option<&Pool>,
    now: Time,
    timings: &Timings,
) -> Result<(), RunnerApiError> {
    match report {
        MachineReport::RunnerStarted { runner } => Ok(next.runner_started(runner, now, timings)?),
        MachineReport::JobStarted { runner, job } => {
            // As for a configuration: a pool that is gone has no machine.
            let pool = pool.ok_or(ReportError::Draining)?;
            match next.job_started(runner, job.clone(), pool, now, timings)? {
                // What is foreign stands on record first.
                Start::Accepted | Start::Foreign => Ok(()),
                Start::Undecided => {
                    let why = "GitHub is removing this runner and has not answered".to_owned();
                    let hindrance = Hindrance::RemovalPending;
                    Err(RunnerApiError::Later { after: Seconds(2), hindrance, why })
                }
            }
        }
        MachineReport::JobCompleted { runner } => Ok(next.job_completed(runner, now, timings)?),
        MachineReport::Exited { code } => {
            next.runner_ended(Some(*code), None, now, timings);
            Ok(())
        }
        MachineReport::BootFailed { log } => {
            next.runner_ended(None, Some(log.clone()), now, timings);
            Ok(())
        }
    }
}

impl From<ReadError> for RunnerApiError {
    fn from(error: ReadError) -> Self {
        Self::Pass(error.into())
    }
}
