//! What a pass does to the world, and whom it wakes.

use crate::ports::{CommitError, Github, Launches, Queue, Table};
use muster_domain::ids::{JobKey, PoolName, RunnerId};
use muster_domain::instance::Instance;
use muster_domain::launch::cooldown::Cooldowns;
use muster_domain::message::WakePool;
use muster_domain::observation::{Observation, RunnerSeen};
use muster_domain::stored::Stored;
use muster_domain::time::{Seconds, Time};

use super::observe::answered;
use super::{Reap, registrar};
use crate::causes::with_causes;
use crate::context::Ports;
use crate::launches::headroom;
use crate::launches::quota;
use crate::woken::Woken;
use crate::writes::PassError;

impl<P: Ports> Reap<'_, P> {
    /// Has GitHub remove the registration.
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

    /// Wakes those for whom a step has made something: a job that needs another runner, which its
    /// pass reads by key and waits for as long as it is held back; or room.
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
                headroom::waiting_for(self.context.table, self.context.settings, instance).await?;
            waiting.into_iter().for_each(|pool| woken.whole(pool));
            match self.reopen_quota(instance, now).await {
                Ok(opened) => opened.into_iter().for_each(|pool| woken.whole(pool)),
                // Its wait ends by itself.
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

    /// Reports a probe whose runner is registered: ends the trouble of its pool, if it serves, and
    /// wakes the pool, whose jobs may get their machines now.
    pub(super) async fn report_probe(&self, probe: &Instance, now: Time) -> Result<(), PassError> {
        let is_up = probe.runner.id.is_some() && probe.runner.exit.is_none();
        if !probe.is_probe || !is_up || !probe.state().is_serving() {
            return Ok(());
        }
        if let Some(stored) = self.context.table.cooldowns().await? {
            self.note_service(probe, stored, now).await?;
        }
        let wake = [WakePool::whole(probe.pool.clone())];
        Ok(self.context.queue.send_wakes(&wake, Seconds(0)).await?)
    }

    /// Opens the quotas that may have counted an ended machine.
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

    /// A machine that served ends the trouble of its pool.
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
            // Whoever was faster knows of another machine; the launch pass looks at those that live.
            Err(CommitError::Conflict) => Ok(stored),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes what GitHub may have kept of an instance that has ended: the registration of a
    /// machine that died, and those of earlier names whose answer was lost. Tried once, when all
    /// else is done: nobody waits for it, no job can reach them, and GitHub itself removes an
    /// ephemeral runner that was offline for a day.
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
