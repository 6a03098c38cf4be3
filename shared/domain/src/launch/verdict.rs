//! Decides whether a machine may be launched now, and why not. The plan, the overflow to other
//! pools and `explain` all use this function, so operators see exactly the launch pass's reasons.
//!
//! Each reason is a brake: one file with one pure function and its table of tests. To add one,
//! write its file and add it to [`ORDER`].

mod age;
mod conditions;
mod limit;
mod maximum;
mod mismatch;
mod reason;
mod refusal;
mod switch;
mod taken;
mod trouble;
pub mod withheld;

pub use self::conditions::Conditions;
pub use self::reason::{Wait, WaitReason};
use crate::ids::Entity;
use crate::instance::Instance;
use crate::job::Job;
use crate::launch::record::cooldown::LaunchOptions;
use crate::pool::Pool;
use crate::time::Time;

/// A reason that can prevent a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Brake {
    /// The pool does not serve the job.
    Mismatch,
    /// An operator has paused launches of the stack or of the pool.
    Switch,
    /// The job is younger than the pool's minimum age.
    Age,
    /// A runner has taken the job, but GitHub has not reported it yet.
    Taken,
    /// The pool is at its maximum.
    Maximum,
    /// The stack or the entity is at its limit.
    Limit,
    /// Recent machines of the pool or of the entity never ran a job.
    Trouble,
    /// GitHub does not assign the entity's jobs to its idle runners.
    Withheld,
    /// EC2 refuses everything that could be requested.
    Refusal,
}

/// The order in which the brakes are evaluated. Operators see the reason of the first one that
/// applies.
pub const ORDER: [Brake; 9] = [
    Brake::Mismatch,
    Brake::Switch,
    Brake::Age,
    Brake::Taken,
    Brake::Maximum,
    Brake::Limit,
    Brake::Trouble,
    Brake::Withheld,
    Brake::Refusal,
];

impl Brake {
    fn ask(self, case: &Case<'_>) -> Option<Block> {
        match self {
            Self::Mismatch => mismatch::brake(case),
            Self::Switch => switch::brake(case),
            Self::Age => age::brake(case),
            Self::Taken => taken::brake(case),
            Self::Maximum => maximum::brake(case),
            Self::Limit => limit::brake(case),
            Self::Trouble => trouble::brake(case),
            Self::Withheld => withheld::brake(case),
            Self::Refusal => refusal::brake(case),
        }
    }
}

/// The purpose of a launch.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// A job without a claim.
    Job(&'a Job),
    /// A slot of a launch that failed. Limits already count it.
    Slot(&'a Instance),
    /// The pool's idle runners (`min_idle`).
    Idle,
}

/// The input of a verdict: may `pool` launch this now?
pub struct Case<'a> {
    pool: &'a Pool,
    wanted: Wanted<'a>,
    /// The entity where the runner would be registered.
    entity: Option<Entity>,
    conditions: &'a Conditions,
    now: Time,
}

/// The scope of a block: the jobs that wait for this reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockScope {
    /// Every job of the pool.
    Pool,
    /// The jobs of this entity in this pool.
    Entity,
    /// This job.
    Job,
}

/// Why a machine is not launched now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The brake that applies.
    pub brake: Brake,
    /// When to check again. `None` if only an event ends it, which wakes the pool.
    pub until: Option<Time>,
    /// The reason, in a sentence without a full stop.
    pub why: String,
    /// What else waits for this reason.
    pub scope: BlockScope,
    /// Whether a different pool may launch instead.
    pub elsewhere: bool,
}

impl Block {
    /// Returns whether the pool launches machines but has no capacity for this one.
    #[must_use]
    pub const fn is_for_room(&self) -> bool {
        matches!(self.brake, Brake::Maximum | Brake::Limit)
    }
}

/// Returns the entity where the runner for `wanted` is registered.
#[must_use]
pub fn entity_of(pool: &Pool, wanted: Wanted<'_>) -> Option<Entity> {
    match wanted {
        Wanted::Job(job) => pool.entity_for(job),
        Wanted::Slot(slot) => Some(slot.entity.clone()),
        Wanted::Idle => pool.entity.clone(),
    }
}

/// Returns what to request from EC2 if `pool` may launch a machine now.
///
/// # Errors
/// The reason of the first brake in [`ORDER`] that applies.
pub fn verdict(
    pool: &Pool,
    wanted: Wanted<'_>,
    conditions: &Conditions,
    now: Time,
) -> Result<LaunchOptions, Block> {
    let case = Case { pool, wanted, entity: entity_of(pool, wanted), conditions, now };
    match ORDER.iter().find_map(|brake| brake.ask(&case)) {
        Some(block) => Err(block),
        None => refusal::offer(&case),
    }
}

#[cfg(test)]
mod tests;
