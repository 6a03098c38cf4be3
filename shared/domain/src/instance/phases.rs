//! How far a machine has come, and how long machines take for it.

use serde::{Deserialize, Serialize};

use super::Instance;
use crate::time::{Seconds, Time};

/// A moment on the way from a plan to a job, in order.
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
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Phase {
    /// Its slot stands on record.
    Planned,
    /// EC2's machine is bound to it.
    Launched,
    /// The machine's kernel began.
    Running,
    /// The machine is up: its supervisor began.
    Booted,
    /// The machine is prepared: the agent is there.
    Prepared,
    /// GitHub was asked for the registration that is on record.
    Registered,
    /// The agent runs, as its supervisor reports.
    Started,
    /// The hook reports its job's start.
    Job,
}

impl Phase {
    /// All that come after the plan, in order.
    #[must_use]
    pub fn after_plan() -> &'static [Self] {
        &<Self as strum::VariantArray>::VARIANTS[1..]
    }

    /// The word in tables and answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// How long ago a machine got how far, in milliseconds, as it tells with its request. A span needs
/// no clock that is right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ages {
    /// Since its kernel began.
    pub running: Option<u32>,
    /// Since its supervisor began.
    pub booted: Option<u32>,
    /// Since the agent has been there.
    pub prepared: Option<u32>,
}

/// When an instance got how far, each the first time, where no other field of the record says so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Phases {
    running: Option<Time>,
    booted: Option<Time>,
    prepared: Option<Time>,
    registered: Option<Time>,
    started: Option<Time>,
}

impl Phases {
    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn registers(&mut self, now: Time) {
        self.registered.get_or_insert(now);
    }

    pub(super) fn starts(&mut self, now: Time) {
        self.started.get_or_insert(now);
    }
}

impl Instance {
    /// Its machine asks for a configuration, and tells how it came so far.
    pub fn came_up(&mut self, ages: Ages, now: Time) {
        // Nothing of it was before its launch, whatever its machine counts.
        let earliest = self.launched_at();
        let before = |age: Option<u32>| {
            age.map(|age| Time::from_millis(now.as_millis() - i64::from(age)).max(earliest))
        };
        let Phases { running, booted, prepared, .. } = &mut self.phases;
        *running = running.or(before(ages.running));
        *booted = booted.or(before(ages.booted));
        *prepared = prepared.or(before(ages.prepared));
    }

    /// How long its machine took until its agent listened, in milliseconds; none before that.
    #[must_use]
    pub fn start_time(&self) -> Option<u32> {
        let millis = self.phases.started?.as_millis() - self.bound_at?.as_millis();
        Some(u32::try_from(millis.max(0)).unwrap_or(u32::MAX))
    }

    /// When it got how far, as far as that is known, in the order of the phases. An answer of EC2
    /// that was lost binds a machine that has been running for a while.
    #[must_use]
    pub fn phases(&self) -> Vec<(Phase, Time)> {
        let Phases { running, booted, prepared, registered, started } = &self.phases;
        let known = [
            (Phase::Planned, Some(self.created_at)),
            (Phase::Launched, self.bound_at),
            (Phase::Running, *running),
            (Phase::Booted, *booted),
            (Phase::Prepared, *prepared),
            (Phase::Registered, *registered),
            (Phase::Started, *started),
            (Phase::Job, self.runner.started.as_ref().map(|job| job.at)),
        ];
        known.into_iter().filter_map(|(phase, at)| Some((phase, at?))).collect()
    }
}

/// How long machines took to get to a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// The phase.
    pub phase: Phase,
    /// How many machines got there.
    pub machines: usize,
    /// Half of them took no longer since the phase before that is known of them.
    pub p50_seconds: Seconds,
    /// Nineteen of twenty took no longer.
    pub p95_seconds: Seconds,
    /// Half of them took no longer since their plan.
    pub p50_since_planned_seconds: Seconds,
    /// Nineteen of twenty took no longer.
    pub p95_since_planned_seconds: Seconds,
}

/// The paces of these instances, phase by phase. One that no machine reached is left out.
#[must_use]
pub fn paces<'a>(instances: impl IntoIterator<Item = &'a Instance>) -> Vec<Pace> {
    let lives: Vec<Vec<(Phase, Time)>> =
        instances.into_iter().filter(|one| one.machine().is_some()).map(Instance::phases).collect();
    let pace = |phase: &Phase| {
        let (mut steps, mut whole) = (Vec::new(), Vec::new());
        for life in &lives {
            for pair in life.windows(2).filter(|pair| pair[1].0 == *phase) {
                steps.push(pair[1].1.since(pair[0].1));
                whole.push(pair[1].1.since(life[0].1));
            }
        }
        let machines = steps.len();
        Some(Pace {
            phase: *phase,
            machines,
            p50_seconds: quantile(&mut steps, 50)?,
            p95_seconds: quantile(&mut steps, 95)?,
            p50_since_planned_seconds: quantile(&mut whole, 50)?,
            p95_since_planned_seconds: quantile(&mut whole, 95)?,
        })
    };
    <Phase as strum::VariantArray>::VARIANTS.iter().filter_map(pace).collect()
}

/// The smallest of the values that at least so many of a hundred do not exceed.
fn quantile(values: &mut [Seconds], percent: usize) -> Option<Seconds> {
    values.sort_unstable();
    let rank = (values.len() * percent).div_ceil(100).max(1);
    values.get(rank - 1).copied()
}

#[cfg(test)]
mod tests;
