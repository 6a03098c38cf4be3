//! The reap pass: observe, decide, commit, perform, settle, over one instance.

mod commit;
mod heard;
mod observe;
mod perform;
mod settle;

use std::cell::RefCell;
use std::collections::BTreeMap;

use muster_domain::ids::{Entity, EntityKind, InstanceName, MachineId};
use muster_domain::instance::Instance;
use muster_domain::job::Job;
use muster_domain::launch::cooldown::Cooldowns;
use muster_domain::lifecycle::{self, Effect, Policy, Record, Step};
use muster_domain::message::SPOT_INTERRUPTION;
use muster_domain::observation::Observation;
use muster_domain::pool::Pool;
use muster_domain::stored::Stored;
use muster_domain::time::{Seconds, Time};

use self::heard::Heard;
pub(crate) use self::settle::MAX_RECEIVES;

use crate::causes::with_causes;
use crate::context::{Context, Ports};
use crate::ports::{Instances, Operations, ReadError, Registrar};
use crate::reaps::read_cache::ReadCache;
use crate::reaps::terminate_batch::TerminateBatcher;
use crate::writes::{self, PassError};

/// Most decisions of one pass. A full delete takes seven.
const ROUNDS: usize = 16;

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
pub struct Reap<'a, P: Ports> {
    /// The world, with the pools as they are now.
    pub context: Context<'a, P>,
    /// The passes of the same invocation.
    pub together: &'a TerminateBatcher<'a, P::Compute>,
    /// What they know in common.
    pub known: &'a BatchCache,
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

impl<P: Ports> Reap<'_, P> {
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
        let machine_told_gone = matches!(what, "shutting-down" | "terminated");
        let told = Observation {
            machine_hint: true,
            machine_told_gone,
            spot_notice,
            ..Observation::default()
        };
        let known = self.known.owners.borrow().get(machine).cloned();
        let owner = match known {
            Some(owner) => Some(owner),
            None => self.context.table.owner_of(machine).await?,
        };
        match owner {
            Some(name) => self.pass_after(&name, ticket, told, now).await,
            None => Ok(Settlement::Ack),
        }
    }

    /// One pass.
    ///
    /// # Errors
    /// When a table or queue does not answer, or other writers kept being faster. The message stays
    /// and the pass is repeated.
    pub async fn pass(
        &self,
        name: &InstanceName,
        ticket: &Ticket,
        now: Time,
    ) -> Result<Settlement, PassError> {
        self.pass_after(name, ticket, Observation::default(), now).await
    }

    /// A pass that starts with what its message has told.
    async fn pass_after(
        &self,
        name: &InstanceName,
        ticket: &Ticket,
        message: Observation,
        now: Time,
    ) -> Result<Settlement, PassError> {
        let mut heard = Heard::by_message(message);
        writes::in_rounds(async || self.try_pass(name, ticket, &mut heard, now).await).await
    }

    /// One round of the pass.
    async fn try_pass(
        &self,
        name: &InstanceName,
        ticket: &Ticket,
        heard: &mut Heard,
        now: Time,
    ) -> Result<Settlement, PassError> {
        let mut instance = match self.row(name).await {
            Ok(Some(instance)) => instance,
            Ok(None) => return Ok(Settlement::Ack),
            Err(ReadError::Unreadable { key, why }) => {
                tracing::error!(
                    instance.id = %key,
                    error = with_causes(&why),
                    "skipped a record: not of this version"
                );
                return Ok(Settlement::Ack);
            }
            Err(error) => return Err(error.into()),
        };
        let pool = self.context.settings.pool(&instance.pool);
        let outdated = pool.is_some_and(|pool| instance.is_outdated(pool));
        let pool_removed = pool.is_some_and(Pool::is_removed);
        let mut seen = Observation { outdated, pool_removed, ..heard.about(&instance) };
        let timings = self.context.settings.timings_of(&instance.pool);
        let policy = Policy {
            timings: &timings,
            max_lifetime: self.context.settings.max_lifetime(&instance.pool),
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
                        heard.keep(&instance, &seen);
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
            None => self.context.table.instance(name).await,
        }
    }

    async fn deletes_off(&self) -> Result<bool, ReadError> {
        let read = async || {
            let switches = self.context.table.switches().await?;
            Ok(switches.is_some_and(|all| all.deletes_off().is_some()))
        };
        self.known.deletes_off.get(&(), self.together.moved(), read).await
    }
}

pub(crate) fn registrar(instance: &Instance) -> Registrar {
    Registrar { entity: instance.entity.clone(), installation: instance.installation }
}

/// As whom GitHub is asked for the job of an instance: what acts for an enterprise need not see a
/// repository.
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
