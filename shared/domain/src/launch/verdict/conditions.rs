//! All that may stand in the way of a pool's launches, as one pass or one question has read it.

use std::collections::BTreeMap;

use super::withheld::{self, Withheld};
use super::{Wanted, taken};
use crate::ids::{Entity, JobKey};
use crate::instance::Instance;
use crate::job::Job;
use crate::launch::cooldown::Cooldowns;
use crate::launch::trouble::{Finding, Trouble, TroubleScope};
use crate::pool::Pool;
use crate::pool::limits::Headroom;
use crate::switches::Switches;
use crate::time::Time;
use crate::timings::Timings;

/// The conditions of one pool. What is launched is taken from them.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// What operators have switched off.
    pub switches: Switches,
    /// What EC2 refused lately, and what made machines for nothing.
    pub cooldowns: Cooldowns,
    /// Live instances of the pool.
    pub live: u32,
    /// What the limits of stack and entities leave.
    pub headroom: Headroom,
    /// What the pool's launches wait for, each with how many machines may find out now.
    troubles: Vec<(Trouble, u32)>,
    /// Owners whose jobs GitHub gives to none of their idle runners.
    withheld: BTreeMap<Entity, Withheld>,
    /// Jobs that a runner has taken, as its hook says, and until when that is believed.
    taken: BTreeMap<JobKey, Time>,
    is_over: bool,
}

impl Conditions {
    /// These records, before the pool's instances and its demand are known.
    #[must_use]
    pub fn new(switches: Switches, cooldowns: Cooldowns, live: u32, headroom: Headroom) -> Self {
        Self { switches, cooldowns, live, headroom, ..Self::default() }
    }

    /// Whether the pool's live instances are needed to judge.
    #[must_use]
    pub fn needs_instances(&self, pool: &Pool, demand: &[impl AsRef<Job>]) -> bool {
        self.cooldowns.trouble(pool).is_some() || withheld::is_suspected(demand)
    }

    /// With what the pool's instances and its demand say: all its jobs without a claim. `free`: those
    /// that a job may be meant for. `live`: all, where [`Self::needs_instances`] asks for them.
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
                Finding::Over => self.is_over = true,
                Finding::Most(_) if is_past_limit(trouble, now) => {}
                Finding::Most(most) => self.troubles.push((trouble.clone(), most)),
            }
        }
        self.taken = taken::judge(demand, free, now);
        self.withheld = withheld::judge(pool, demand, live, now, timings);
        self
    }

    /// Whether a live machine shows that the trouble of the pool's machines is over.
    #[must_use]
    pub const fn trouble_is_over(&self) -> bool {
        self.is_over
    }

    /// Whether launches of the pool wait for a trouble, be it of one entity.
    #[must_use]
    pub const fn are_troubled(&self) -> bool {
        !self.troubles.is_empty()
    }

    /// Until when a runner is believed to have taken this job.
    #[must_use]
    pub fn taken_until(&self, job: JobKey) -> Option<Time> {
        self.taken.get(&job).copied()
    }

    /// No machine is to find out here: somebody waits who would be first.
    pub fn leave_finding_out(&mut self) {
        self.troubles.iter_mut().for_each(|(_, most)| *most = 0);
    }

    /// Whether a machine for this entity would be one that finds out.
    #[must_use]
    pub fn finds_out(&self, entity: &Entity) -> bool {
        self.troubles(Some(entity)).next().is_some()
    }

    /// Counts a machine that is launched.
    pub fn take(&mut self, wanted: Wanted<'_>, entity: &Entity) {
        if !matches!(wanted, Wanted::Slot(_)) {
            self.live += 1;
            self.headroom.count(entity);
            if let Some(withheld) = self.withheld.get_mut(entity) {
                withheld.most = withheld.most.saturating_sub(1);
            }
        }
        for (trouble, most) in &mut self.troubles {
            if trouble.scope.entity().is_none_or(|own| own.same_as(entity)) {
                *most = most.saturating_sub(1);
            }
        }
    }

    /// What machines for this entity wait for, the pool's own trouble first.
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
        self.withheld.get(entity)
    }
}

/// A limit ends by itself, and stands on record until GitHub's next answer.
fn is_past_limit(trouble: &Trouble, now: Time) -> bool {
    matches!(trouble.scope, TroubleScope::Limit(_)) && now >= trouble.until
}
