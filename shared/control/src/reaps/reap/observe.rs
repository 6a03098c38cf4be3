//! The observations of a pass: the machine, the runner, the launch, the claimed job.

use muster_domain::ids::Entity;
use muster_domain::instance::Instance;
use muster_domain::job::{Job, JobStatus};
use muster_domain::launch::record::trouble::RequestKind;
use muster_domain::lifecycle::Need;
use muster_domain::lifecycle::surplus::is_surplus;
use muster_domain::observation::{Look, Observation, RunnerSeen};
use muster_domain::pool::Pool;
use muster_domain::pool::warm::Warm;
use muster_domain::provider::{ErrorDetail, ProviderError};
use muster_domain::stored::Stored;
use muster_domain::time::Time;

use super::{Reap, registrar, registrar_of_job};
use crate::context::Ports;
use crate::health::note_answer;
use crate::jobs::ingest::Ingest;
use crate::ports::{CommitError, Compute, Github, Instances, Jobs, Launches};
use crate::writes::{Before, PassError};

/// Maximum number of jobs counted as demand that an idle runner may serve.
const MAX_DEMAND: u32 = 100;

impl<P: Ports> Reap<'_, P> {
    pub(super) async fn look(
        &self,
        need: Need,
        instance: &Instance,
        seen: &mut Observation,
        now: Time,
    ) -> Result<(), PassError> {
        match need {
            Need::Machine => {
                let answer = match instance.machine() {
                    Some(machine) => self.context.compute.machine(machine).await,
                    None => Err(nothing_to_look_at(now, "DescribeInstances")),
                };
                let shown = answer.as_ref().ok();
                seen.machine_reason = shown.and_then(|shown| shown.reason.clone());
                // The event may have been lost, or may arrive later.
                let ended_at = shown.and_then(|shown| shown.ended_at);
                seen.machine_ended_at = seen.machine_ended_at.into_iter().chain(ended_at).min();
                seen.machine_make = shown.map(|shown| shown.make.clone()).unwrap_or_default();
                seen.machine = answered(answer.map(|seen| seen.state));
            }
            Need::Console => {
                seen.console = answered(match instance.machine() {
                    Some(machine) => self.context.compute.console(machine).await,
                    None => Err(nothing_to_look_at(now, "GetConsoleOutput")),
                });
            }
            Need::Runner => {
                let answer = self.runner(instance).await;
                self.note_health(&instance.entity, answer.as_ref().err(), now).await?;
                seen.runner = answered(answer);
            }
            Need::Launch => {
                // A launch that cannot be read has ended: its machine is found as one without a record.
                let launch = Before::of(self.context.table.launch(&instance.launch).await)?;
                let launch = launch.record();
                seen.launch = Look::Seen(launch.map(|launch| (launch.state, launch.lease_until)));
            }
            Need::Surplus => seen.surplus = Look::Seen(self.is_surplus(instance, now).await?),
            Need::ClaimedJob => {
                seen.claimed_job_waits = self.claimed_job(instance, now).await?;
            }
        }
        Ok(())
    }

    /// Whether an idle runner exceeds what its pool wants.
    pub(super) async fn is_surplus(
        &self,
        instance: &Instance,
        now: Time,
    ) -> Result<bool, PassError> {
        let Some(pool) = self.context.settings.pool(&instance.pool) else {
            return Ok(self.context.settings.unknown_pools().is_none());
        };
        let free = records(self.context.table.free_instances(&pool.name).await?);
        let demand = records(self.context.table.demand(&pool.name, MAX_DEMAND).await?);
        let warm = self.warm(pool).await?;
        Ok(is_surplus(instance, &pool.while_warm(&warm, now), &free, &demand))
    }

    /// Returns what recent events require of a pool. Read only if events can warm it.
    async fn warm(&self, pool: &Pool) -> Result<Vec<Warm>, PassError> {
        if pool.warm_on.is_empty() {
            return Ok(Vec::new());
        }
        let read = Before::of(self.context.table.capacity(&pool.name).await)?;
        Ok(read.record().map_or_else(Vec::new, |capacity| capacity.warm.clone()))
    }

    /// Returns whether the claimed job still waits. Our row may have missed an event, so this
    /// queries GitHub and folds the answer into the row.
    pub(super) async fn claimed_job(
        &self,
        instance: &Instance,
        now: Time,
    ) -> Result<Look<bool>, PassError> {
        let job = match instance.claim() {
            Some(key) => self.context.table.job(key).await?,
            None => None,
        };
        let claims =
            |job: &Stored<Job>| job.is_waiting() && job.claim.as_ref() == Some(&instance.name);
        let Some(job) = job.filter(claims) else { return Ok(Look::Seen(false)) };
        let registrar = registrar_of_job(instance, &job);
        let (repository, number) = (&*job.last_event.repository, job.key().job);
        let answer = self.context.github.job(&registrar, repository, number).await;
        self.note_health(&registrar.entity, answer.as_ref().err(), now).await?;
        match answer {
            Err(trouble) => Ok(Look::Failed(trouble)),
            // Jobs that GitHub does not show us may exist: keep the claim.
            Ok(None) => Ok(Look::Seen(true)),
            Ok(Some(shown)) if shown.status == JobStatus::Queued => Ok(Look::Seen(true)),
            Ok(Some(shown)) if shown.status == JobStatus::Waiting => {
                let ingest = Ingest { context: self.context };
                ingest.found_waiting(&job, now).await?;
                // The first such answer causes another query; the second ends the claim.
                Err(CommitError::Conflict.into())
            }
            Ok(Some(shown)) => {
                let ingest = Ingest { context: self.context };
                ingest.fold(&shown.event(job.into_record().last_event), now).await?;
                // The fold probably changed this instance too: start over with its current row.
                Err(CommitError::Conflict.into())
            }
        }
    }

    pub(super) async fn runner(&self, instance: &Instance) -> Result<RunnerSeen, ProviderError> {
        let registrar = registrar(instance);
        match instance.runner.id {
            Some(id) => self.context.github.runner(&registrar, id).await,
            None => self.context.github.runner_named(&registrar, &instance.runner_name()).await,
        }
    }

    /// Updates the entity's health from GitHub's answer.
    pub(super) async fn note_health(
        &self,
        entity: &Entity,
        trouble: Option<&ProviderError>,
        now: Time,
    ) -> Result<(), PassError> {
        note_answer(self.context.table, entity, RequestKind::Other, trouble, now).await
    }
}

fn records<T>(stored: Vec<Stored<T>>) -> Vec<T> {
    stored.into_iter().map(Stored::into_record).collect()
}

pub(super) fn answered<S>(answer: Result<S, ProviderError>) -> Look<S> {
    match answer {
        Ok(seen) => Look::Seen(seen),
        Err(trouble) => Look::Failed(trouble),
    }
}

fn nothing_to_look_at(now: Time, operation: &str) -> ProviderError {
    ProviderError::Unavailable(ErrorDetail {
        at: now,
        operation: operation.to_owned(),
        code: "NoMachine".to_owned(),
        message: "no machine is bound".to_owned(),
    })
}
