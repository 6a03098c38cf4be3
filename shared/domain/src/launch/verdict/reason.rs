//! Why a job waits, in one word of a closed list: for counts over many jobs. The sentences are
//! `explain`'s.

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
    /// Its machine, which is there or about to be launched.
    Starting,
    /// Room under a maximum of pool, entity or stack.
    Room,
    /// EC2, which refuses what could be asked for.
    Ec2,
    /// GitHub, which refuses or limits us, or is to confirm the job.
    Github,
    /// The pool's machines, which served nothing lately.
    Failures,
    /// An operator, who has switched launches off, or has changed what the pool serves.
    SwitchedOff,
    /// The age that its pool asks of it.
    Young,
    /// GitHub, which leaves connected runners idle beside it.
    PassedOver,
}

impl WaitReason {
    /// The word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The word of a waiting job of `pool`: see [`Wait::of`].
    #[must_use]
    pub fn of(job: &Job, pool: &Pool, conditions: &mut Conditions, now: Time) -> Self {
        Wait::of(job, pool, conditions, now).reason
    }

    fn of_block(block: &Block, pool: &Pool, wanted: Wanted<'_>, conditions: &Conditions) -> Self {
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

/// Why a job waits: the word, and what stands in the way of its machine, where something does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The word.
    pub reason: WaitReason,
    /// The brake, with its sentence.
    pub block: Option<Block>,
}

impl Wait {
    /// Why a waiting job of `pool` waits, as the next launch pass has it. A job for which a machine
    /// would be launched takes its room from `conditions`.
    #[must_use]
    pub fn of(job: &Job, pool: &Pool, conditions: &mut Conditions, now: Time) -> Self {
        let unblocked = |reason| Self { reason, block: None };
        if job.claim.is_some() {
            return unblocked(WaitReason::Starting);
        }
        if !job.is_demand() {
            return unblocked(WaitReason::Github);
        }
        let wanted = Wanted::Job(job);
        match verdict(pool, wanted, conditions, now) {
            Err(block) => {
                let reason = WaitReason::of_block(&block, pool, wanted, conditions);
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
    use crate::testkit::{With as _, at, booting, slot};

    /// The word, the brakes that are on, and what else there is.
    type Row = (&'static str, &'static [Brake], fn(&mut Scene));

    fn claimed(all: &mut Scene) {
        all.job.claim = Some(slot(1).name);
    }

    /// Machines of the pool served nothing, and it is too early for one that finds out.
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
        let rows: [Row; 12] = [
            ("starting", &[], |_| ()),
            ("starting", &[Brake::Maximum], claimed),
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
