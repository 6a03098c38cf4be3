//! Whether a machine may be launched now, and why not. The plan, the overflow to other pools and
//! `explain` ask this one function, so an operator is told what the launch pass does.
//!
//! Each reason is a brake: one file with one pure function and its table of tests. To add one, write
//! its file and give it a place in [`ORDER`].

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
use crate::launch::cooldown::LaunchOptions;
use crate::pool::Pool;
use crate::time::Time;

/// What may stand in the way of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Brake {
    /// The pool does not serve the job.
    Mismatch,
    /// An operator has switched launches off, or the pool is held.
    Switch,
    /// The job is younger than the pool asks.
    Age,
    /// A runner has taken the job, and GitHub has not said so yet.
    Taken,
    /// The pool is at its maximum.
    Maximum,
    /// The stack is, or the entity.
    Limit,
    /// Machines of the pool, or of the entity, served nothing lately.
    Trouble,
    /// GitHub gives the entity's jobs to none of its idle runners.
    Withheld,
    /// EC2 refuses all that could be asked for.
    Refusal,
}

/// The order in which the brakes are asked: what the first one says is what people are told.
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

/// For what a machine is wanted.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// A job without a claim.
    Job(&'a Job),
    /// A slot of a launch that failed. It is counted already.
    Slot(&'a Instance),
    /// The pool's min idle.
    Idle,
}

/// The question: may `pool` launch this now?
pub struct Case<'a> {
    pool: &'a Pool,
    wanted: Wanted<'a>,
    /// Where the runner would be registered.
    entity: Option<Entity>,
    conditions: &'a Conditions,
    now: Time,
}

/// Who waits for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockScope {
    /// Every job of the pool.
    Pool,
    /// Those of the job's entity in this pool.
    Entity,
    /// This job.
    Job,
}

/// Why nothing is launched now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Which brake.
    pub brake: Brake,
    /// When to look again; none where only an event ends it, which wakes the pool.
    pub until: Option<Time>,
    /// A sentence without its full stop.
    pub why: String,
    /// Who waits with it.
    pub scope: BlockScope,
    /// Another pool may launch meanwhile.
    pub elsewhere: bool,
}

impl Block {
    /// Whether the pool launches machines, and this one is not among those that it has room for.
    #[must_use]
    pub const fn is_for_room(&self) -> bool {
        matches!(self.brake, Brake::Maximum | Brake::Limit)
    }
}

/// Where the runner for `wanted` is registered.
#[must_use]
pub fn entity_of(pool: &Pool, wanted: Wanted<'_>) -> Option<Entity> {
    match wanted {
        Wanted::Job(job) => pool.entity_for(job),
        Wanted::Slot(slot) => Some(slot.entity.clone()),
        Wanted::Idle => pool.entity.clone(),
    }
}

/// Whether `pool` may launch a machine now, and what it then asks of EC2.
///
/// # Errors
/// What the first brake of [`ORDER`] says.
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
