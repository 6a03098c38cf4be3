//! The conditions that can prevent a pool's launches, as read by one pass or one query.

use std::collections::{BTreeMap, BTreeSet};

use super::withheld::{self, Withheld};
use super::{Wanted, taken};
use crate::ids::{Entity, JobKey};
use crate::instance::Instance;
use crate::job::Job;
use crate::launch::record::Cooldowns;
use crate::launch::record::trouble::{Trouble, TroubleScope, TroubleStatus};
use crate::pool::Pool;
use crate::pool::limits::Headroom;
use crate::switches::Switches;
use crate::time::Time;
use crate::timings::Timings;

/// The conditions of one pool. Launches planned so far are deducted.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// What operators have paused.
    pub switches: Switches,
    /// Recent refusals by EC2, and failures that waste machines.
    pub cooldowns: Cooldowns,
    /// Number of live instances of the pool.
    pub live: u32,
    /// The headroom of the stack's and the entities' limits.
    pub headroom: Headroom,
    /// The troubles that the pool's launches wait for, each with the number of probes allowed now.
    troubles: Vec<(Trouble, u32)>,
    /// Entities whose jobs GitHub does not assign to their idle runners.
    withheld: BTreeMap<Entity, Withheld>,
    /// Jobs that a runner has taken according to its hook, and until when that is assumed.
    taken: BTreeMap<JobKey, Time>,
    /// Jobs whose slot waits for its next launch, because EC2 refused the last one.
    refused: BTreeSet<JobKey>,
    is_over: bool,
}

impl Conditions {
    /// Creates conditions from these records, before the pool's instances and demand are known.
    #[must_use]
    pub fn new(switches: Switches, cooldowns: Cooldowns, live: u32, headroom: Headroom) -> Self {
        Self { switches, cooldowns, live, headroom, ..Self::default() }
    }

    /// Returns whether the pool's live instances are needed for a verdict.
    #[must_use]
    pub fn needs_instances(&self, pool: &Pool, demand: &[impl AsRef<Job>]) -> bool {
        self.cooldowns.trouble(pool).is_some() || withheld::is_suspected(demand)
    }

    /// Adds the information from the pool's instances and demand. `demand`: all jobs without a
    /// claim. `free`: instances that a job can claim. `live`: all live instances, if
    /// [`Self::needs_instances`] requires them.
    #[must_use]
    pub fn judged_by(
        mut self,
        pool: &Pool,
        demand: &[impl AsRef<Job>],
        free: &[impl AsRef<Instance>],
        live: &[impl AsRef<Instance>],
        now: Time,
        timings: &Timings,
    ) -> Self {
        self.troubles.clear();
        self.is_over = false;
        for trouble in self.cooldowns.troubles_of(pool) {
            match trouble.finding(live, now) {
                TroubleStatus::Over => self.is_over = true,
                TroubleStatus::Most(_) if is_past_limit(trouble, now) => {}
                TroubleStatus::Most(most) => self.troubles.push((trouble.clone(), most)),
            }
        }
        self.taken = taken::judge(demand, free, now);
        self.withheld = withheld::judge(pool, demand, live, now, timings);
        self
    }

    /// Adds which claimed jobs wait for EC2. `slots`: the pool's instances in `pending_create`.
    #[must_use]
    pub fn with_slots(mut self, slots: &[impl AsRef<Instance>]) -> Self {
        let refused = slots.iter().map(AsRef::as_ref).filter(|slot| slot.last_error.is_some());
        self.refused = refused.filter_map(Instance::claim).collect();
        self
    }

    /// Whether EC2 refused the last launch for this claimed job.
    pub(super) fn is_refused(&self, job: JobKey) -> bool {
        self.refused.contains(&job)
    }

    /// Returns whether a live machine shows that the trouble of the pool's machines has ended.
    #[must_use]
    pub const fn trouble_is_over(&self) -> bool {
        self.is_over
    }

    /// Returns whether launches of the pool, or for an entity in it, wait for a trouble.
    #[must_use]
    pub const fn are_troubled(&self) -> bool {
        !self.troubles.is_empty()
    }

    /// Returns until when a runner is assumed to have taken this job.
    #[must_use]
    pub fn taken_until(&self, job: JobKey) -> Option<Time> {
        self.taken.get(&job).copied()
    }

    /// Disallows probes: a waiting job has precedence.
    pub fn leave_finding_out(&mut self) {
        self.troubles.iter_mut().for_each(|(_, most)| *most = 0);
    }

    /// Returns whether a machine for this entity would be a probe.
    #[must_use]
    pub fn finds_out(&self, entity: &Entity) -> bool {
        self.troubles(Some(entity)).next().is_some()
    }

    /// Counts a machine as launched.
    pub fn take(&mut self, wanted: Wanted<'_>, entity: &Entity) {
        if !matches!(wanted, Wanted::Slot(_)) {
            self.live += 1;
            self.headroom.count(entity);
            if let Some(withheld) = self.withheld.get_mut(&entity.lower_case()) {
                withheld.most = withheld.most.saturating_sub(1);
            }
        }
        for (trouble, most) in &mut self.troubles {
            if trouble.scope.entity().is_none_or(|own| own.same_as(entity)) {
                *most = most.saturating_sub(1);
            }
        }
    }

    /// Returns the troubles that machines for this entity wait for, the pool's own trouble first.
    pub(super) fn troubles(
        &self,
        entity: Option<&Entity>,
    ) -> impl Iterator<Item = (&Trouble, u32)> {
        let concerns = move |trouble: &Trouble| {
            let own = trouble.scope.entity();
            own.is_none_or(|own| entity.is_some_and(|entity| own.same_as(entity)))
        };
        let all = self.troubles.iter().map(|(trouble, most)| (trouble, *most));
        all.filter(move |(trouble, _)| concerns(trouble))
    }

    pub(super) fn withheld(&self, entity: &Entity) -> Option<&Withheld> {
        self.withheld.get(&entity.lower_case())
    }
}

/// Returns whether a limit has ended. It stays recorded until GitHub's next response.
fn is_past_limit(trouble: &Trouble, now: Time) -> bool {
    matches!(trouble.scope, TroubleScope::Limit(_)) && now >= trouble.until
}
