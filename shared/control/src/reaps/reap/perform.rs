//! The effects of a pass, and its wake-ups.

use crate::ports::{CommitError, Github, Launches, Queue, Table};
use futures_util::future::join;
use muster_domain::causes::with_causes;
use muster_domain::ids::{JobKey, PoolName, RunnerId};
use muster_domain::instance::Instance;
use muster_domain::launch::record::Cooldowns;
use muster_domain::message::WakePool;
use muster_domain::observation::{Observation, RunnerSeen};
use muster_domain::stored::Stored;
use muster_domain::time::{Seconds, Time};

use super::observe::answered;
use super::{Reap, registrar};
use crate::context::Ports;
use crate::launches::headroom;
use crate::launches::quota;
use crate::woken::Woken;
use crate::writes::{self, PassError};

impl<P: Ports> Reap<'_, P> {
    /// Removes the runner's registration from GitHub.
    pub(super) async fn deregister(
        &self,
        id: RunnerId,
        instance: &Instance,
        seen: &mut Observation,
        now: Time,
    ) -> Result<(), PassError> {
        let answer = self.context.github.deregister(&registrar(instance), id).await;
        self.note_health(&instance.entity, answer.as_ref().err(), now).await?;
        seen.deregistration = answered(answer);
        Ok(())
    }

    /// Wakes the pools that a step affects: that of a job that needs a new runner, which its pass
    /// reads by key and waits for while it is on hold; or those that may use the available
    /// capacity.
    pub(super) async fn wake(
        &self,
        instance: &Instance,
        gave_back: Option<JobKey>,
        asks: bool,
        ended: bool,
        now: Time,
    ) -> Result<(), PassError> {
        let mut woken = Woken::default();
        match gave_back {
            Some(job) => woken.for_job(instance.pool.clone(), job),
            None if asks => woken.whole(instance.pool.clone()),
            None => {}
        }
        if ended {
            let waiting =
                headroom::waiting_for(self.context.table, self.context.settings, instance);
            let (waiting, opened) = join(waiting, self.reopen_quota(instance, now)).await;
            waiting?.into_iter().for_each(|pool| woken.whole(pool));
            match opened {
                Ok(opened) => opened.into_iter().for_each(|pool| woken.whole(pool)),
                // Its back-off ends by itself.
                Err(error) => {
                    tracing::warn!(instance.id = %instance.name, error = with_causes(&error), "failed to reopen a quota");
                }
            }
        }
        let messages = woken.messages();
        if messages.is_empty() {
            return Ok(());
        }
        Ok(self.context.queue.send_wakes(&messages, Seconds(0)).await?)
    }

    /// Handles a probe whose runner is registered: ends the back-off of its pool, if that is
    /// enough, and wakes the pool, whose jobs may get machines now.
    pub(super) async fn report_probe(&self, probe: &Instance, now: Time) -> Result<(), PassError> {
        let is_up = probe.runner.id.is_some() && probe.runner.exit.is_none();
        if !probe.is_probe || !is_up || !probe.state().is_serving() {
            return Ok(());
        }
        if let Some(stored) = writes::readable(self.context.table.cooldowns().await)? {
            self.note_service(probe, stored, now).await?;
        }
        let wake = [WakePool::whole(probe.pool.clone())];
        Ok(self.context.queue.send_wakes(&wake, Seconds(0)).await?)
    }

    /// Ends the back-off of quotas that may have counted an ended machine.
    pub(super) async fn reopen_quota(
        &self,
        ended: &Instance,
        now: Time,
    ) -> Result<Vec<PoolName>, PassError> {
        match self.context.table.cooldowns().await? {
            Some(stored) => {
                let stored = self.note_service(ended, stored, now).await?;
                quota::reopen(self.context.table, self.context.settings, ended, &stored).await
            }
            None => Ok(Vec::new()),
        }
    }

    /// Ends the back-off of a machine's pool, because it ran a job.
    async fn note_service(
        &self,
        ended: &Instance,
        stored: Stored<Cooldowns>,
        now: Time,
    ) -> Result<Stored<Cooldowns>, PassError> {
        let Some(next) = stored.after_service(ended, now) else { return Ok(stored) };
        let change = stored.change(next);
        match self.context.table.commit(&[change.clone().into()]).await {
            Ok(committed) => Ok(change.stored(&committed)),
            // The faster writer knows of a different machine; the launch pass checks the live ones.
            Err(CommitError::Conflict) => Ok(stored),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes what GitHub may still have of an ended instance: the registration of a machine that
    /// died, and those of earlier names whose response was lost. Tried once, after everything else:
    /// nothing depends on it, no job can reach these runners, and GitHub removes an ephemeral
    /// runner that was offline for a day.
    pub(super) async fn forget(&self, instance: &Instance) {
        if self.deletes_off {
            return;
        }
        let registrar = registrar(instance);
        for name in instance.names_left() {
            let known = instance.runner.id.filter(|_| name == instance.runner_name());
            let id = match known {
                Some(id) => id,
                None => match self.context.github.runner_named(&registrar, &name).await {
                    Ok(
                        RunnerSeen::Busy(id) | RunnerSeen::NotBusy(id) | RunnerSeen::Offline(id),
                    ) => id,
                    Ok(RunnerSeen::Absent) | Err(_) => continue,
                },
            };
            let answer = self.context.github.deregister(&registrar, id).await;
            tracing::info!(instance.id = %instance.name, runner.name = name, runner.id = %id, ?answer,
                "removed a registration without a machine");
        }
    }
}
