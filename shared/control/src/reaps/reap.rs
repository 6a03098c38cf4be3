//! The reap pass: observe, decide, commit, perform, settle, over one instance.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use muster_domain::entity::{Asked, EntityHealth};
use muster_domain::ids::{Entity, InstanceName, JobKey, MachineId, PoolName};
use muster_domain::instance::{DeleteReason, ErrorDetail, Instance, State};
use muster_domain::job::{Job, JobStatus};
use muster_domain::launch::cooldown::Cooldowns;
use muster_domain::lifecycle::{self, Effect, Need, Policy, Record, Step};
use muster_domain::message::SPOT_INTERRUPTION;
use muster_domain::observation::{Look, Observation, ProviderError, RunnerSeen, Termination};
use muster_domain::pool::Pool;
use muster_domain::pool::scale_down::{self, Listed, Standing};
use muster_domain::stored::{Change, Stored};
use muster_domain::time::{Seconds, Time};

use crate::Settings;
use crate::jobs::ingest::Ingest;
use crate::launches::headroom;
use crate::launches::quota;
use crate::ports::{CommitError, Compute, Github, Queue, ReadError, Registrar, Table, Write};
use crate::reaps::read_cache::ReadCache;
use crate::reaps::terminate_batch::TerminateBatcher;
use crate::woken::Woken;
use crate::writes::{self, CONFLICT_ROUNDS, PassError};

/// Most jobs that are counted as the demand that an idle runner may yet serve.
const MAX_DEMAND: u32 = 100;

/// Most decisions of one pass. A full delete takes seven.
const ROUNDS: usize = 16;

/// Waits up to this long are kept by the message itself; longer ones by the row and the sweep,
/// which costs no receive. SQS counts every hidden return as a receive.
const MAX_VISIBILITY: Seconds = Seconds(900);

/// After this many receives the message is let go, and the sweep sends a new one: only poison
/// is ever in the DLQ.
pub(crate) const MAX_RECEIVES: u32 = 50;

/// The message that carries a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Names the message among those for the same row.
    pub nonce: u64,
    /// How often it was received.
    pub receives: u32,
}

/// What to do with the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// Done with it.
    Ack,
    /// Hide it for this long, and report it as failed so that it stays.
    Hide(Seconds),
}

/// The reap pass.
pub struct Reap<'a, T, Q, C, G> {
    /// The tables.
    pub table: &'a T,
    /// The queues.
    pub queue: &'a Q,
    /// EC2.
    pub compute: &'a C,
    /// GitHub.
    pub github: &'a G,
    /// The stack.
    pub settings: &'a Settings,
    /// The passes of the same invocation.
    pub together: &'a TerminateBatcher<'a, C>,
    /// What they know in common.
    pub known: &'a BatchCache,
    /// Counts the machines whose end began because they were older than their pool allows.
    pub outlived: &'a Cell<u32>,
}

/// What the passes of one invocation read once.
#[derive(Debug, Default)]
pub struct BatchCache {
    /// Rows that were read before the passes began. Whoever finds one changed reads it again.
    pub(crate) rows: RefCell<BTreeMap<InstanceName, Stored<Instance>>>,
    /// Machines and their owners, who stay the same. One that has none here may have one by now.
    pub(crate) owners: RefCell<BTreeMap<MachineId, InstanceName>>,
    /// Whether deletes are switched off.
    deletes_off: ReadCache<(), bool>,
    /// What EC2 refused lately.
    cooldowns: ReadCache<(), Option<Stored<Cooldowns>>>,
    /// Entities that GitHub lets us work for, and that the table does not say otherwise of.
    healthy: ReadCache<Entity, ()>,
}

impl<T: Table, Q: Queue, C: Compute, G: Github> Reap<'_, T, Q, C, G> {
    /// A pass for the owner of a machine that something happened to: EC2's word for its state, or
    /// [`SPOT_INTERRUPTION`]. A machine without an owner costs one read: the sweep looks after
    /// those.
    ///
    /// # Errors
    /// As [`Self::pass`].
    pub async fn machine_changed(
        &self,
        machine: &MachineId,
        what: &str,
        ticket: &Ticket,
        now: Time,
    ) -> Result<Settlement, PassError> {
        let spot_notice = what == SPOT_INTERRUPTION;
        let heard = Observation { machine_hint: true, spot_notice, ..Observation::default() };
        let known = self.known.owners.borrow().get(machine).cloned();
        let owner = match known {
            Some(owner) => Some(owner),
            None => self.table.owner_of(machine).await?,
        };
        match owner {
            Some(name) => self.pass_after(&name, ticket, &heard, now).await,
            None => Ok(Settlement::Ack),
        }
    }

    /// One pass.
    ///
    /// # Errors
    /// When a table or queue does not answer. The message stays and the pass is repeated.
    pub async fn pass(
        &self,
        name: &InstanceName,
        ticket: &Ticket,
        now: Time,
    ) -> Result<Settlement, PassError> {
        self.pass_after(name, ticket, &Observation::default(), now).await
    }

    /// A pass that starts with what its message has told.
    async fn pass_after(
        &self,
        name: &InstanceName,
        ticket: &Ticket,
        heard: &Observation,
        now: Time,
    ) -> Result<Settlement, PassError> {
        for _ in 0..CONFLICT_ROUNDS {
            match self.try_pass(name, ticket, heard, now).await {
                Err(PassError::Commit(CommitError::Conflict)) => {}
                other => return other,
            }
        }
        // Whoever is so busy with this row also looks after it.
        tracing::warn!(instance.id = %name, "left an instance to other passes: every commit met a conflict");
        Ok(Settlement::Ack)
    }

    async fn try_pass(
        &self,
        name: &InstanceName,
        ticket: &Ticket,
        heard: &Observation,
        now: Time,
    ) -> Result<Settlement, PassError> {
        let mut instance = match self.row(name).await {
            Ok(Some(instance)) => instance,
            Ok(None) => return Ok(Settlement::Ack),
            Err(ReadError::Unreadable { key, why }) => {
                tracing::error!(instance.id = %key, why, "skipped a record: not of this version");
                return Ok(Settlement::Ack);
            }
            Err(error) => return Err(error.into()),
        };
        let pool = self.settings.pool(&instance.pool);
        let outdated = pool.is_some_and(|pool| instance.is_outdated(pool));
        let pool_removed = pool.is_some_and(Pool::is_removed);
        let mut seen = Observation { outdated, pool_removed, ..heard.clone() };
        let timings = self.settings.timings_of(&instance.pool);
        let policy = Policy {
            timings: &timings,
            max_lifetime: self.settings.max_lifetime(&instance.pool),
            min_idle: pool.map_or(0, Pool::idle_wanted),
        };
        let mut knows_switches = false;
        for _ in 0..ROUNDS {
            let mut step = lifecycle::decide(&instance, &seen, &policy, now);
            // Read only by a pass that is about to end something: most are not.
            if !knows_switches && lifecycle::asks_switch(&instance, &step) {
                knows_switches = true;
                seen.deletes_off = self.deletes_off().await?;
                step = lifecycle::decide(&instance, &seen, &policy, now);
            }
            match step {
                Step::Look(need) => self.look(need, &instance, &mut seen, now).await?,
                Step::Act { next, records, effect } => {
                    // Room in the pool, or a job that needs another runner.
                    let ended = instance.state().is_live() && !next.state().is_live();
                    let is_given_up =
                        records.iter().any(|record| matches!(record, Record::Orphan(_)));
                    let (stored, gave_back) = self.commit(&instance, &next, records, now).await?;
                    let asks = effect == Some(Effect::WakePool);
                    instance = stored;
                    if let Some(effect) = effect {
                        self.perform(effect, &instance, &mut seen, now).await?;
                    }
                    self.wake(&instance, gave_back, asks, ended, now).await?;
                    if ended && !is_given_up {
                        self.forget(&instance).await;
                    }
                }
                Step::Rest(next) => return self.settle(&instance, *next, ticket, now).await,
                Step::Done => return Ok(Settlement::Ack),
            }
        }
        tracing::error!(instance.id = %instance.name, "reap pass did not come to rest");
        Ok(Settlement::Ack)
    }

    /// The row as it was read with those of the batch; read anew from the second look on.
    async fn row(&self, name: &InstanceName) -> Result<Option<Stored<Instance>>, ReadError> {
        let read = {
            let mut rows = self.known.rows.borrow_mut();
            match rows.get(name) {
                // What is deleted does not change any more.
                Some(row) if !row.state().is_live() => Some(row.clone()),
                _ => rows.remove(name),
            }
        };
        match read {
            Some(row) => Ok(Some(row)),
            None => self.table.instance(name).await,
        }
    }

    /// Opens the quotas that may have counted an ended machine.
    async fn reopen_quota(&self, ended: &Instance) -> Result<Vec<PoolName>, PassError> {
        let read = async || self.table.cooldowns().await;
        let stored = self.known.cooldowns.get(&(), self.together.moved(), read).await?;
        match stored {
            Some(stored) => quota::reopen(self.table, self.settings, ended, &stored).await,
            None => Ok(Vec::new()),
        }
    }

    async fn deletes_off(&self) -> Result<bool, ReadError> {
        let read = async || {
            let switches = self.table.switches().await?;
            Ok(switches.is_some_and(|all| all.deletes_off().is_some()))
        };
        self.known.deletes_off.get(&(), self.together.moved(), read).await
    }

    async fn look(
        &self,
        need: Need,
        instance: &Instance,
        seen: &mut Observation,
        now: Time,
    ) -> Result<(), PassError> {
        match need {
            Need::Machine => {
                let answer = match instance.machine() {
                    Some(machine) => self.compute.machine(machine).await,
                    None => Err(nothing_to_look_at(now, "DescribeInstances")),
                };
                seen.machine_reason = answer.as_ref().ok().and_then(|seen| seen.reason.clone());
                seen.machine = look(answer.map(|seen| seen.state));
            }
            Need::Runner => {
                let answer = self.runner(instance).await;
                self.note_health(instance, answer.as_ref().err(), now).await?;
                seen.runner = look(answer);
            }
            Need::Launch => {
                let launch = self.table.launch(&instance.launch).await?;
                seen.launch = Look::Seen(launch.map(|launch| (launch.state, launch.lease_until)));
            }
            Need::Standing => seen.standing = self.standing(instance, now).await?,
            Need::ClaimedJob => {
                seen.claimed_job_waits = self.claimed_job(instance, now).await?;
            }
        }
        Ok(())
    }

    /// Where an idle runner stands among those of its pool.
    async fn standing(&self, instance: &Instance, now: Time) -> Result<Look<Standing>, PassError> {
        let Some(pool) = self.settings.pool(&instance.pool) else {
            return Ok(Look::Seen(Standing::default()));
        };
        let capacity = self.table.capacity(&pool.name).await?;
        let listed = Listed {
            free: records(self.table.free_instances(&pool.name).await?),
            marked: records(self.table.marked_instances(&pool.name).await?),
            demand: records(self.table.demand(&pool.name, MAX_DEMAND).await?),
            scaled_up_at: capacity.and_then(|capacity| capacity.scaled_up_at),
        };
        let timings = &self.settings.timings;
        Ok(Look::Seen(scale_down::standing(instance, pool, &listed, timings, now)))
    }

    /// Whether the claimed job still waits. The row may have missed an event, so GitHub is asked,
    /// and what it says is folded into the row.
    async fn claimed_job(&self, instance: &Instance, now: Time) -> Result<Look<bool>, PassError> {
        let job = match instance.claim() {
            Some(key) => self.table.job(key).await?,
            None => None,
        };
        let claims =
            |job: &Stored<Job>| job.is_waiting() && job.claim.as_ref() == Some(&instance.name);
        let Some(job) = job.filter(claims) else { return Ok(Look::Seen(false)) };
        let registrar = registrar(instance);
        let (repository, number) = (&*job.last_event.repository, job.key().job);
        let answer = self.github.job(&registrar, repository, number).await;
        self.note_health(instance, answer.as_ref().err(), now).await?;
        match answer {
            Err(trouble) => Ok(Look::Failed(trouble)),
            // Not shown to us: no reason to drop a job.
            Ok(None) => Ok(Look::Seen(true)),
            Ok(Some(shown)) if shown.status == JobStatus::Queued => Ok(Look::Seen(true)),
            Ok(Some(shown)) if shown.status == JobStatus::Waiting => {
                let ingest = Ingest { table: self.table, settings: self.settings };
                ingest.found_waiting(&job, now).await?;
                // The first such answer is a reason to ask again, the second takes the claim.
                Err(CommitError::Conflict.into())
            }
            Ok(Some(shown)) => {
                let ingest = Ingest { table: self.table, settings: self.settings };
                ingest.fold(&shown.event(job.into_record().last_event), now).await?;
                // The fold has most likely changed this instance too: start over with what stands
                // now.
                Err(CommitError::Conflict.into())
            }
        }
    }

    async fn runner(&self, instance: &Instance) -> Result<RunnerSeen, ProviderError> {
        let registrar = registrar(instance);
        match instance.runner.id {
            Some(id) => self.github.runner(&registrar, id).await,
            None => self.github.runner_named(&registrar, &instance.runner_name()).await,
        }
    }

    /// Answers with the instance as it is stored then, and the job that became demand again.
    async fn commit(
        &self,
        before: &Stored<Instance>,
        next: &Instance,
        records: Vec<Record>,
        now: Time,
    ) -> Result<(Stored<Instance>, Option<JobKey>), PassError> {
        let timings = &self.settings.timings;
        let mut writes = writes::for_instance(self.table, before, next, now, timings).await?;
        writes.extend(records.into_iter().map(|record| match record {
            Record::Audit(audit) => Write::Audit(audit),
            Record::Orphan(orphan) => Change::create(orphan).into(),
        }));
        writes.extend(self.idle_failure(before, next, now).await?);
        if writes.is_empty() {
            return Ok((before.clone(), None));
        }
        let gave_back = writes.iter().find_map(|write| match write {
            Write::Job(job) => Some(job.key()),
            _ => None,
        });
        let committed = match self.table.commit(&writes).await {
            Ok(committed) => committed,
            Err(error) => {
                let uncounted = match error {
                    CommitError::Conflict => headroom::uncounted(self.table, &writes).await?,
                    CommitError::Unavailable(_) => Vec::new(),
                };
                if uncounted.is_empty() {
                    return Err(error.into());
                }
                tracing::error!(instance.id = %next.name, ?uncounted,
                    "a counter is at zero beside a live record: not counted down");
                writes.retain(|write| !uncounted.contains(write));
                self.table.commit(&writes).await?
            }
        };
        if before.state() != next.state() {
            tracing::info!(instance.id = %next.name, from = %before.state(), to = %next.state(),
                reason = next.events.last().map(|event| &*event.what), "instance changed state");
            let outlived =
                next.drain().is_some_and(|drain| drain.reason == DeleteReason::MaxLifetime);
            if before.state() == State::Running && outlived {
                self.outlived.set(self.outlived.get() + 1);
            }
        }
        let change = before.changed(next.clone());
        let stored = change.map_or_else(|| before.clone(), |change| change.stored(&committed));
        Ok((stored, gave_back))
    }

    /// Holds the min idle of the pool back after a machine that no job needed yet brought no
    /// runner.
    async fn idle_failure(
        &self,
        before: &Instance,
        next: &Instance,
        now: Time,
    ) -> Result<Option<Write>, PassError> {
        let keeps_idle = self.settings.pool(&next.pool).is_some_and(|pool| pool.idle_wanted() > 0);
        let Some(why) = before.failed_idle(next).filter(|_| keeps_idle) else { return Ok(None) };
        let Some(stored) = self.table.capacity(&next.pool).await? else { return Ok(None) };
        let held = stored.idle_failed(why, now, &self.settings.timings);
        Ok(Some(stored.change(held).into()))
    }

    /// Removes what GitHub may have kept of an instance that has ended: the registration of a
    /// machine that died, and those of earlier names whose answer was lost. Tried once, when all
    /// else is done: nobody waits for it, no job can reach them, and GitHub itself removes an
    /// ephemeral runner that was offline for a day.
    async fn forget(&self, instance: &Instance) {
        let names = instance.names_left();
        // Without an answer nothing is removed on a guess.
        if names.is_empty() || !matches!(self.deletes_off().await, Ok(false)) {
            return;
        }
        let registrar = registrar(instance);
        for name in names {
            let known = instance.runner.id.filter(|_| name == instance.runner_name());
            let id = match known {
                Some(id) => id,
                None => match self.github.runner_named(&registrar, &name).await {
                    Ok(
                        RunnerSeen::Busy(id) | RunnerSeen::NotBusy(id) | RunnerSeen::Offline(id),
                    ) => id,
                    Ok(RunnerSeen::Absent) | Err(_) => continue,
                },
            };
            let answer = self.github.deregister(&registrar, id).await;
            tracing::info!(instance.id = %instance.name, runner.name = name, runner.id = %id, ?answer,
                "removed a registration without a machine");
        }
    }

    async fn perform(
        &self,
        effect: Effect,
        instance: &Instance,
        seen: &mut Observation,
        now: Time,
    ) -> Result<(), PassError> {
        match effect {
            Effect::Deregister(id) => {
                let answer = self.github.deregister(&registrar(instance), id).await;
                self.note_health(instance, answer.as_ref().err(), now).await?;
                seen.deregistration = look(answer);
            }
            Effect::Terminate(machine) => {
                let answer = self.together.terminate(&machine).await;
                if let Termination::Failed(class, fault) = &answer {
                    tracing::warn!(instance.id = %instance.name, machine.id = %machine, ?class,
                        code = fault.code, error = fault.message, "failed to terminate a machine");
                }
                seen.machine = Look::Unknown;
                seen.termination = Some(answer);
            }
            // Sent with whatever else the step wakes.
            Effect::WakePool => {}
        }
        Ok(())
    }

    /// Wakes those for whom a step has made something: a job that needs another runner, which its
    /// pass reads by key and waits for as long as it is held back; or room.
    async fn wake(
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
            let waiting = headroom::waiting_for(self.table, self.settings, instance, now).await?;
            waiting.into_iter().for_each(|pool| woken.whole(pool));
            match self.reopen_quota(instance).await {
                Ok(opened) => opened.into_iter().for_each(|pool| woken.whole(pool)),
                // Its wait ends by itself.
                Err(error) => {
                    tracing::warn!(instance.id = %instance.name, %error, "failed to reopen a quota");
                }
            }
        }
        let messages = woken.messages();
        if messages.is_empty() {
            return Ok(());
        }
        Ok(self.queue.send_wakes(&messages, Seconds(0)).await?)
    }

    /// Keeps the entity's health in step with GitHub's answers.
    async fn note_health(
        &self,
        instance: &Instance,
        trouble: Option<&ProviderError>,
        now: Time,
    ) -> Result<(), PassError> {
        let healthy = &self.known.healthy;
        if trouble.is_some() {
            healthy.forget(&instance.entity);
            return note_health(self.table, &instance.entity, Asked::Other, trouble, now).await;
        }
        let read =
            async || note_health(self.table, &instance.entity, Asked::Other, None, now).await;
        healthy.get(&instance.entity, self.together.moved(), read).await
    }

    /// The row gets its due time, and the message goes, or hides until then. Only one message a row
    /// may hide: the one whose nonce stands in the row, or any one when no other is alive.
    async fn settle(
        &self,
        before: &Stored<Instance>,
        mut next: Instance,
        ticket: &Ticket,
        now: Time,
    ) -> Result<Settlement, PassError> {
        let wait = next.due_at().map_or(MAX_VISIBILITY, |due| wait_until(due, now));
        let chain_is_dead = before.wake_nonce().is_none()
            || before
                .due_at()
                .is_none_or(|due| due + self.settings.timings.sweep_slack_seconds <= now);
        let mine = before.wake_nonce() == Some(ticket.nonce) || chain_is_dead;
        let hides =
            retries_soon(&next) && mine && wait < MAX_VISIBILITY && ticket.receives < MAX_RECEIVES;
        let wake = match (hides, before.wake_nonce() == Some(ticket.nonce)) {
            (true, _) => Some(ticket.nonce),
            (false, true) => None,
            (false, false) => before.wake_nonce(),
        };
        next.set_wake(wake);
        self.commit(before, &next, Vec::new(), now).await?;
        Ok(if hides { Settlement::Hide(wait) } else { Settlement::Ack })
    }
}

fn records<T>(stored: Vec<Stored<T>>) -> Vec<T> {
    stored.into_iter().map(Stored::into_record).collect()
}

/// On its way out, and kept from it by something that a retry may overcome in seconds. All other
/// waits are the row's, and the sweep's minute is exact enough for them.
fn retries_soon(instance: &Instance) -> bool {
    matches!(instance.state(), State::PendingDelete | State::PendingForceDelete | State::Deleting)
}

/// At least one second: zero would show the message again before the row is read.
fn wait_until(due: Time, now: Time) -> Seconds {
    let millis = (due.as_millis() - now.as_millis()).max(0);
    Seconds(u32::try_from((millis + 999) / 1000).unwrap_or(u32::MAX).max(1))
}

pub(crate) fn registrar(instance: &Instance) -> Registrar {
    Registrar { entity: instance.entity.clone(), installation: instance.installation }
}

fn look<S>(answer: Result<S, ProviderError>) -> Look<S> {
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

/// Keeps an entity's health in step with an answer of GitHub's.
pub(crate) async fn note_health<T: Table>(
    table: &T,
    entity: &Entity,
    asked: Asked,
    trouble: Option<&ProviderError>,
    now: Time,
) -> Result<(), PassError> {
    if matches!(trouble, Some(ProviderError::Unavailable(_))) {
        return Ok(());
    }
    note(table, entity, |known| known.after(asked, trouble, now)).await
}

/// Keeps what is known of an entity. Written only when it changes.
pub(crate) async fn note<T: Table>(
    table: &T,
    entity: &Entity,
    after: impl FnOnce(&EntityHealth) -> EntityHealth,
) -> Result<(), PassError> {
    let known = table.entity_health(entity).await?;
    let known = known.unwrap_or_else(|| EntityHealth::well(entity.clone()));
    let next = after(&known);
    if next != known {
        table.set_entity_health(&next).await?;
    }
    Ok(())
}
