//! Why a job waits, as one value of a closed list, for counts over many jobs. `explain` has the
//! full sentences.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use super::{Block, Brake, Conditions, Wanted, entity_of, verdict};
use crate::job::Job;
use crate::pool::Pool;
use crate::time::Time;

/// What a waiting job waits for.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum WaitReason {
    /// Its machine, which exists or is about to be launched.
    Starting,
    /// Capacity under a maximum of the pool, entity or stack.
    Room,
    /// EC2, which refuses everything that could be requested.
    Ec2,
    /// GitHub, which refuses or limits requests, or must confirm the job.
    Github,
    /// The pool's machines, which recently never ran a job.
    Failures,
    /// An operator, who has paused launches or changed which jobs the pool serves.
    SwitchedOff,
    /// The minimum age that its pool requires.
    Young,
    /// GitHub, which leaves connected runners idle while the job waits.
    PassedOver,
}

impl WaitReason {
    /// All reasons.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Returns the name used in tables and responses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns the reason of a waiting job of `pool`: see [`Wait::of`].
    #[must_use]
    pub fn of(job: &Job, pool: &Pool, conditions: &mut Conditions, now: Time) -> Self {
        Wait::of(job, pool, conditions, now).reason
    }

    fn from_block(block: &Block, pool: &Pool, wanted: Wanted<'_>, conditions: &Conditions) -> Self {
        match block.brake {
            Brake::Mismatch | Brake::Switch => Self::SwitchedOff,
            Brake::Age => Self::Young,
            Brake::Taken => Self::Starting,
            Brake::Maximum | Brake::Limit => Self::Room,
            Brake::Withheld => Self::PassedOver,
            Brake::Refusal => Self::Ec2,
            Brake::Trouble => {
                let entity = entity_of(pool, wanted);
                let first = conditions.troubles(entity.as_ref()).find(|(_, most)| *most == 0);
                match first.and_then(|(trouble, _)| trouble.scope.entity()) {
                    Some(_) => Self::Github,
                    None => Self::Failures,
                }
            }
        }
    }
}

/// Why a job waits: the reason, and the block of its machine, if any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The reason.
    pub reason: WaitReason,
    /// The block, with its sentence.
    pub block: Option<Block>,
}

impl Wait {
    /// Returns why a job of `pool` waits, as the next launch pass will see it. For claimed jobs,
    /// [`Conditions::with_slots`] provides the slots. If a machine would be launched for the job, its
    /// capacity is deducted from `conditions`.
    #[must_use]
    pub fn of(job: &Job, pool: &Pool, conditions: &mut Conditions, now: Time) -> Self {
        let unblocked = |reason| Self { reason, block: None };
        if job.claim.is_some() {
            let is_refused = conditions.is_refused(job.key());
            return unblocked(if is_refused { WaitReason::Ec2 } else { WaitReason::Starting });
        }
        if !job.is_demand() {
            return unblocked(WaitReason::Github);
        }
        let wanted = Wanted::Job(job);
        match verdict(pool, wanted, conditions, now) {
            Err(block) => {
                let reason = WaitReason::from_block(&block, pool, wanted, conditions);
                Self { reason, block: Some(block) }
            }
            Ok(_) => {
                if let Some(entity) = entity_of(pool, wanted) {
                    conditions.take(wanted, &entity);
                }
                unblocked(WaitReason::Starting)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Scene, now, put};
    use super::{Brake, WaitReason};
    use crate::job::run::Doubt;
    use crate::testkit::{With as _, at, booting, creating, fault, slot};

    /// Columns: the expected reason, the brakes that apply, and further changes to the scene.
    type Row = (&'static str, &'static [Brake], fn(&mut Scene));

    fn claimed(all: &mut Scene) {
        all.job.claim = Some(slot(1).name);
    }

    /// The job's slot waits for its next launch.
    fn slot_waits(all: &mut Scene, is_refused: bool) {
        claimed(all);
        let slot = creating().with(|slot| {
            slot.last_error = is_refused.then(|| fault("InsufficientInstanceCapacity"));
        });
        all.conditions = all.conditions.clone().with_slots(&[slot]);
    }

    /// The pool's machines never ran a job, and it is too early for a probe.
    fn fail(all: &mut Scene) {
        for n in 1..=3 {
            let one = booting().with(|one| {
                (one.name, one.created_at) = (slot(n).name, at(900));
            });
            let known = all.conditions.cooldowns.after_failure(&one, "dead".to_owned(), at(900));
            all.conditions.cooldowns = known.expect("a failure");
        }
    }

    #[test]
    fn each_wait_has_one_of_few_words() {
        let rows: [Row; 14] = [
            ("starting", &[], |_| ()),
            ("starting", &[Brake::Maximum], claimed),
            ("starting", &[Brake::Maximum], |all| slot_waits(all, false)),
            ("ec2", &[Brake::Maximum], |all| slot_waits(all, true)),
            ("starting", &[Brake::Taken], |_| ()),
            ("room", &[Brake::Maximum], |_| ()),
            ("room", &[Brake::Limit], |_| ()),
            ("ec2", &[Brake::Refusal], |_| ()),
            ("github", &[Brake::Trouble], |_| ()),
            ("github", &[], |all| all.job.doubt = Some(Doubt::Old)),
            ("failures", &[], fail),
            ("switched_off", &[Brake::Switch, Brake::Maximum], |_| ()),
            ("young", &[Brake::Age], |_| ()),
            ("passed_over", &[Brake::Withheld], |_| ()),
        ];
        for (word, brakes, change) in rows {
            let all = Scene::new().with(|all| {
                brakes.iter().for_each(|brake| put(all, *brake));
                change(all);
            });
            assert_eq!(all.reason().as_str(), word, "{brakes:?}");
        }
    }

    #[test]
    fn two_jobs_do_not_share_the_last_place() {
        let all = Scene::new().with(|all| all.pool.max = 1);
        let mut conditions = all.judged();
        let mut of = || WaitReason::of(&all.job, &all.pool, &mut conditions, now());
        assert_eq!((of(), of()), (WaitReason::Starting, WaitReason::Room));
    }
}
