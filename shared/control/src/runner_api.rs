//! Machines' requests: runner configurations and reports.

mod agents;
mod failure;
mod request;

use futures_util::future::{join, join3};
use muster_domain::agent::{AgentOffer, AgentReport};
use muster_domain::audit::{Audit, AuditKind};
use muster_domain::causes::with_causes;
use muster_domain::ids::RunnerId;
use muster_domain::image;
use muster_domain::instance::{
    AfterEnd, Ages, Baked, BootMethod, Exit, Instance, ReportError, RunnerState, Start,
};
use muster_domain::launch::record::Cooldowns;
use muster_domain::pool::proxy::Proxy;
use muster_domain::pool::{Pool, RerunPolicy};
use muster_domain::stored::{Change, Stored};
use muster_domain::time::{Seconds, Time};
use muster_domain::timings::Timings;
use muster_domain::usage::JobFacts;

pub use self::failure::Hindrance;
pub use self::request::{MachineOwner, MachineReport, look};
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
    /// The value for the agent's `--jitconfig`. A credential.
    pub encoded: String,
    /// The pool's environment variables for the runner.
    pub environment: std::collections::BTreeMap<String, String>,
    /// The pool's shell script to run before the runner starts.
    pub boot_hook: Option<String>,
    /// Whether the runner's user can become root.
    pub sudo: bool,
    /// The agent to install before the runner starts, if the machine's own must not be used.
    pub agent: Option<AgentOffer>,
    /// The pool's proxy.
    pub proxy: Option<Proxy>,
    /// Whether a job that EC2 interrupts is re-run.
    pub reruns: bool,
}

/// What a builder of a machine image does instead of running jobs. It contains no credential: a builder never gets a
/// runner configuration.
pub struct BuildOrder {
    /// How machines of the image boot.
    pub boot: BootMethod,
    /// The agent to install; `None` if the base image has the newest one.
    pub agent: Option<AgentOffer>,
    /// The pool's environment variables.
    pub environment: std::collections::BTreeMap<String, String>,
    /// The pool's shell script for images.
    pub image_hook: Option<String>,
    /// Whether the runner's user can become root.
    pub sudo: bool,
    /// The pool's proxy.
    pub proxy: Option<Proxy>,
}

/// The answer to a machine's first request.
pub enum Handout {
    /// The configuration of a runner.
    Runner(Box<Configuration>),
    /// The machine builds an image.
    Builder(Box<BuildOrder>),
}

/// The result of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct Reported {
    /// What a machine should do after its agent ended; irrelevant for other reports.
    pub after: AfterEnd,
    /// What the job's log shows; only for the end of a job.
    pub facts: Option<JobFacts>,
    /// The metrics.
    pub measures: Vec<Measure>,
}

/// Why a machine's request is denied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunnerApiError {
    /// The machine belongs to no instance of ours and must shut down.
    #[error("this machine belongs to no instance")]
    UnknownMachine,
    /// The machine must shut down, or fail its job.
    #[error(transparent)]
    Refused(#[from] ReportError),
    /// The machine should retry later.
    #[error("try again in {}: {why}", after)]
    Later {
        /// The delay.
        after: Seconds,
        /// The reason, for the machine.
        hindrance: Hindrance,
        /// The reason, as a sentence.
        why: String,
    },
    /// The table or the queue failed; the machine should retry.
    #[error("Muster's table or queue does not answer")]
    Pass(#[from] PassError),
}

impl MayConflict for RunnerApiError {
    fn is_conflict(&self) -> bool {
        matches!(self, Self::Pass(error) if error.is_conflict())
    }
}

/// A recorded configuration call.
struct CountedCall {
    instance: Stored<Instance>,
    /// The runner ID of an earlier call's registration.
    earlier: Option<RunnerId>,
    /// GitHub's refusals as known before the call.
    known: Option<Stored<Cooldowns>>,
}

/// The passes of the runner-api function.
pub struct RunnerApi<'a, W: Wired> {
    /// The ports, and the settings from [`look`].
    pub context: Context<'a, W>,
    /// The instance that owns the machine.
    pub owner: MachineOwner,
    /// The ID of the role that signed the request; absent for the stack's own role.
    pub role: Option<&'a str>,
}

impl<W: Wired<Table: Table, Queue: Queue, Github: Github>> RunnerApi<'_, W> {
    /// Returns a new configuration, or a builder's order. Repeatable until the agent has started, because a response
    /// may be lost; an earlier call's registration is removed. `agent` is the machine's agent, if it
    /// can use a different one; `ages` are the times of the boot so far.
    ///
    /// # Errors
    /// What the machine should do instead.
    pub async fn configure(
        &self,
        agent: Option<AgentReport>,
        ages: Ages,
        now: Time,
    ) -> Result<Handout, RunnerApiError> {
        self.require_pools()?;
        let CountedCall { instance, earlier, known } = self.ask(ages, now).await?;
        if let Some(boot) = instance.builds() {
            return self.build_order(&instance, boot, agent, known.as_ref(), now).await;
        }
        let registrar = registrar(&instance);
        let Some(pool) = self.context.settings.pool(&instance.pool) else {
            self.remove_earlier(&registrar, &instance, earlier).await;
            return Err(ReportError::Draining.into());
        };
        let name = instance.runner_name();
        let labels: Vec<String> = match instance.build {
            // GitHub gives it no job: none asks for this label.
            Some(_) => vec![trial_label(&instance)],
            None => pool.labels.carried().iter().map(str::to_owned).collect(),
        };
        let answer =
            self.context.github.configure(&registrar, &name, &labels, pool.runner_group_id);
        // Concurrent: no call needs another's answer, and each registration has its own name.
        let removed = self.remove_earlier(&registrar, &instance, earlier);
        let told = self.told_of_agents(&registrar, agent);
        let (answer, told, ()) = join3(answer, told, removed).await;
        let config = match answer {
            Ok(config) => config,
            Err(error) => return Err(self.not_granted(&instance, pool, error, now).await?),
        };
        let id = config.runner;
        let none = Cooldowns::default();
        let record = known.as_deref().unwrap_or(&none);
        let (offer, newest) =
            told.as_ref().map(|told| told.offer(&record.agents, now)).unwrap_or_default();
        let stored = self.change(instance.clone(), |next| {
            // A later call of the same machine is newer than this answer.
            if next.runner_name() != name {
                return Err(RunnerApiError::Refused(ReportError::OtherRegistration));
            }
            // If the instance was marked for delete during the call, record the registration so
            // that the reaper removes it, but do not return it.
            next.configured(id, now);
            if let Some(told) = &told {
                next.runs_agent(told.own(), offer.as_ref(), newest, now);
            }
            Ok(())
        });
        // Each of the two writes happens even if the other fails; an error of either fails the
        // call.
        let noted = self.note_configured(&instance, known.as_ref(), pool, told.as_ref(), now);
        let (stored, noted) = join(stored, noted).await;
        if let Err(RunnerApiError::Refused(_)) = stored {
            // No record refers to it.
            self.remove_earlier(&registrar, &instance, Some(id)).await;
        }
        let stored = stored?;
        noted?;
        if stored.is_probe && record.has_entity(&stored.entity) {
            self.nudge(&stored, now).await;
        }
        if stored.mark().is_some() {
            return Err(ReportError::Draining.into());
        }
        Ok(Handout::Runner(Box::new(Configuration {
            runner_name: name,
            encoded: config.encoded,
            environment: pool.environment.clone(),
            boot_hook: boot_hook(pool, &stored),
            sudo: pool.sudo,
            agent: offer.map(|offer| agents::from_mirror(offer, pool)),
            proxy: pool.proxy.clone(),
            reruns: pool.reruns() != RerunPolicy::Off,
        })))
    }

    /// Returns a builder's order, with the newest agent.
    async fn build_order(
        &self,
        instance: &Stored<Instance>,
        boot: BootMethod,
        agent: Option<AgentReport>,
        known: Option<&Stored<Cooldowns>>,
        now: Time,
    ) -> Result<Handout, RunnerApiError> {
        let Some(pool) = self.context.settings.pool(&instance.pool) else {
            return Err(ReportError::Draining.into());
        };
        let none = Cooldowns::default();
        let record = known.map_or(&none, Stored::record);
        // Unlike the machine of a job, an image gets the newest agent even if GitHub still accepts its own.
        let own = agent.and_then(|report| report.version);
        let report = agent.map(|report| AgentReport { version: None, ..report });
        let told = match image::home(pool) {
            Some(_) => self.told_of_agents(&registrar(instance), report).await,
            None => None,
        };
        let listed = told.as_ref().and_then(|told| told.offer(&record.agents, now).0);
        let last = || {
            let newest = record.agents.newest_for(report?.arch, None);
            newest.cloned().map(AgentOffer::Download)
        };
        let offer = listed.or_else(last).unwrap_or(AgentOffer::Newest);
        let is_newest = match (&offer, own) {
            (AgentOffer::Download(newest), Some(own)) => own >= newest.version,
            (AgentOffer::Newest, own) => own.is_some(),
            (AgentOffer::Download(_), None) => false,
        };
        let agent = (!is_newest).then(|| agents::from_mirror(offer, pool));
        Ok(Handout::Builder(Box::new(BuildOrder {
            boot,
            agent,
            environment: pool.environment.clone(),
            image_hook: pool.image_hook.clone(),
            sudo: pool.sudo,
            proxy: pool.proxy.clone(),
        })))
    }

    /// Handles a report.
    ///
    /// # Errors
    /// What the machine should do instead.
    pub async fn report(
        &self,
        report: &MachineReport,
        now: Time,
    ) -> Result<Reported, RunnerApiError> {
        if matches!(report, MachineReport::JobStarted { .. }) {
            self.require_pools()?;
        }
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
        // Logged once: a machine may repeat the report.
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
                tracing::warn!(instance.id = %stored.name, what, "GitHub assigned a job to a runner whose pool does not serve it");
                Err(ReportError::ForeignJob.into())
            }
            _ => {
                let facts = self.facts(report, &stored, now);
                Ok(Reported { after, facts, measures: self.start(&stored, came) })
            }
        }
    }

    /// Fails while the pools are unknown: the pool may still exist.
    fn require_pools(&self) -> Result<(), PassError> {
        match self.context.settings.unknown_pools() {
            Some(error) => Err(error.clone().into()),
            None => Ok(()),
        }
    }

    /// Returns the metrics of a machine whose agent started to listen.
    fn start(&self, instance: &Instance, millis: Option<u32>) -> Vec<Measure> {
        let of = metrics::pool(self.context.settings, &instance.pool);
        let seconds = millis.map(|millis| f64::from(millis) / 1000.0);
        let measure = seconds.map(|value| Measure::of(of, Metric::MachineStartSeconds, value));
        measure.into_iter().collect()
    }

    /// Returns what the log of a job that has ended shows.
    fn facts(&self, report: &MachineReport, instance: &Instance, now: Time) -> Option<JobFacts> {
        let MachineReport::JobCompleted { .. } = report else { return None };
        let pool = self.context.settings.pool(&instance.pool);
        JobFacts::new(instance, pool, self.owner.prices.as_ref(), now)
    }

    /// Wakes the reaper: a runner that ended without a job may have a claim to release, and a
    /// successful probe ends its pool's back-off. If the message is lost, the sweep does both.
    async fn nudge(&self, instance: &Stored<Instance>, now: Time) {
        if let Err(error) = self.context.queue.send_reap(&[reap_message(instance, now)]).await {
            tracing::warn!(instance.id = %instance.name, error = with_causes(&error), "failed to wake the reaper; the next sweep does");
        }
    }

    /// Records the configuration call before it is made. Reads GitHub's known refusals
    /// concurrently.
    async fn ask(&self, ages: Ages, now: Time) -> Result<CountedCall, RunnerApiError> {
        // The record has usually not changed since the bind, which the commit checks. Before the
        // request is refused, the current record is read.
        let bound = self.owner.bound.clone().filter(|bound| self.is_signed_for(bound));
        if let Some(bound) = bound {
            let counted = self.count(bound, ages, now).await;
            if matches!(counted, Ok(_) | Err(RunnerApiError::Pass(_))) {
                return counted;
            }
        }
        self.count(self.instance().await?, ages, now).await
    }

    async fn count(
        &self,
        instance: Stored<Instance>,
        ages: Ages,
        now: Time,
    ) -> Result<CountedCall, RunnerApiError> {
        let mut earlier = None;
        let counted = self.change(instance, |next| {
            if next.is_overtaken(now) {
                let why = "a later request of this machine is in progress".to_owned();
                let hindrance = Hindrance::Overtaken;
                return Err(RunnerApiError::Later { after: Seconds(2), hindrance, why });
            }
            if next.builds().is_some() {
                next.ask_script(now)?;
            } else {
                earlier = next.ask_configuration(now)?;
            }
            next.came_up(ages, now);
            Ok(())
        });
        let (counted, known) = join(counted, self.context.table.cooldowns()).await;
        let (instance, known) = (counted?, writes::readable(known)?);
        Ok(CountedCall { instance, earlier, known })
    }

    /// Records that GitHub registers runners for the entity, and the agents that GitHub lists, if either
    /// is new. After a conflict only the former is written again: all machines that register at the
    /// same time see the same list, so one of them writes it.
    async fn note_configured(
        &self,
        instance: &Instance,
        before: Option<&Stored<Cooldowns>>,
        pool: &Pool,
        told: Option<&agents::ReportedAgent>,
        now: Time,
    ) -> Result<(), PassError> {
        let after = |known: &Cooldowns| {
            let opened = known.after_registration(pool, &instance.entity);
            let base = opened.as_ref().unwrap_or(known);
            told.and_then(|told| told.after(base, &pool.name, now)).or(opened)
        };
        let none = Cooldowns::default();
        let record = before.map_or(&none, Stored::record);
        let Some(next) = after(record) else { return Ok(()) };
        if record.after_registration(pool, &instance.entity).is_some() {
            return note(self.context.table, after).await;
        }
        let change = Change::from_read(before, next).into();
        writes::commit_unless_changed(self.context.table, &[change]).await?;
        Ok(())
    }

    /// Removes the registration of a call whose response the machine did not get. Best effort: such
    /// a runner never starts, so GitHub assigns no job to it, and removes it after a day.
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
        let instance = match &self.owner.read {
            Some(read) => Some(read.clone()),
            None => self.context.table.instance(&self.owner.name).await?,
        };
        instance
            .filter(|instance| self.is_signed_for(instance))
            .ok_or(RunnerApiError::UnknownMachine)
    }

    /// Whether the request was signed with the role that the instance was launched with. A
    /// different role means a different machine, whatever its session name is.
    fn is_signed_for(&self, instance: &Instance) -> bool {
        instance.role.as_deref() == self.role
    }

    /// Changes an instance and commits it; after a conflict, reads it again.
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
            // An ended record is not written again.
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

/// Returns the only label of a trial's runner.
fn trial_label(instance: &Instance) -> String {
    format!("muster-trial-{}", instance.name)
}

/// Returns the script to run before the agent starts. A machine without an image of its family runs the image hook
/// first, so that its jobs find the same programs; each hook has its own shell.
fn boot_hook(pool: &Pool, instance: &Instance) -> Option<String> {
    let image_hook = pool.image_hook.as_ref().filter(|_| instance.image.is_none());
    match (image_hook, &pool.boot_hook) {
        (Some(first), Some(then)) => Some(format!("(\n{first}\n)\n{then}")),
        (Some(only), None) | (None, Some(only)) => Some(only.clone()),
        (None, None) => None,
    }
}

/// Returns the audit line about a job that the pool does not serve.
fn refused_job(before: &Instance, next: &Instance) -> Option<Audit> {
    let exit = next.runner.exit.as_ref().filter(|_| before.runner.exit.is_none())?;
    let what = exit.foreign.as_ref()?;
    Some(Audit::new(&next.name, AuditKind::JobRefused, "muster", what, exit.at))
}

/// Applies a report to the record. The pool is absent if it no longer exists.
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
            // As for configurations: a machine of a pool that no longer exists gets no job.
            let pool = pool.ok_or(ReportError::Draining)?;
            match next.job_started(runner, job.clone(), pool, now, timings)? {
                // A foreign job is recorded first.
                Start::Accepted | Start::Foreign => Ok(()),
                Start::Undecided => {
                    let why = "GitHub is removing this runner and has not answered".to_owned();
                    let hindrance = Hindrance::RemovalPending;
                    Err(RunnerApiError::Later { after: Seconds(2), hindrance, why })
                }
            }
        }
        MachineReport::JobCompleted { runner, used } => {
            next.job_completed(runner, now, timings)?;
            next.job_used(*used);
            Ok(())
        }
        MachineReport::Interrupted { runner } => Ok(next.interrupted(runner, now)?),
        MachineReport::Exited { code, stopped_for, used, .. } => {
            next.job_used(*used);
            match stopped_for {
                Some(why) => next.runner_stopped(*why, *code, now, timings),
                None => next.runner_ended(Some(*code), None, now, timings),
            }
            Ok(())
        }
        MachineReport::Baked { agent, boot, why, disk_bytes } => {
            Ok(next.disk_is_ready(Baked::new(now, *agent, *boot, why.as_deref(), *disk_bytes))?)
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
