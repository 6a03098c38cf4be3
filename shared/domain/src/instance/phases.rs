//! Boot phases of machines, and statistics of how long each takes.

use serde::{Deserialize, Serialize};

use super::Instance;
use crate::time::{Seconds, Time};

/// A point between plan and job, in order.
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
    /// Its slot is recorded.
    Planned,
    /// EC2's machine is bound to it.
    Launched,
    /// The machine's kernel started.
    Running,
    /// The machine is up: its supervisor started.
    Booted,
    /// The machine is prepared: the agent is installed.
    Prepared,
    /// GitHub was asked for the registration that is recorded.
    Registered,
    /// The agent runs, as its supervisor reports.
    Started,
    /// The hook reported the start of its job.
    Job,
}

impl Phase {
    /// Returns all phases after the plan, in order.
    #[must_use]
    pub fn after_plan() -> &'static [Self] {
        &<Self as strum::VariantArray>::VARIANTS[1..]
    }

    /// Returns the name used in tables and responses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// How long ago a machine reached each phase, in milliseconds, as its request reports. Durations do
/// not depend on a correct clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ages {
    /// Time since its kernel started.
    pub running: Option<u32>,
    /// Time since its supervisor started.
    pub booted: Option<u32>,
    /// Time since the agent was installed.
    pub prepared: Option<u32>,
}

/// When an instance first reached each phase, for phases that no other field records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Phases {
    running: Option<Time>,
    booted: Option<Time>,
    prepared: Option<Time>,
    registered: Option<Time>,
    started: Option<Time>,
}

impl Phases {
    /// Returns whether no phase is recorded.
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
    /// Records the phases that the machine reports with its request for a configuration.
    pub fn came_up(&mut self, ages: Ages, now: Time) {
        // No phase precedes the launch, even if the machine reports so.
        let earliest = self.launched_at();
        let before = |age: Option<u32>| {
            age.map(|age| Time::from_millis(now.as_millis() - i64::from(age)).max(earliest))
        };
        let Phases { running, booted, prepared, .. } = &mut self.phases;
        *running = running.or(before(ages.running));
        *booted = booted.or(before(ages.booted));
        *prepared = prepared.or(before(ages.prepared));
    }

    /// Returns how long the machine took from binding until its agent listened, in milliseconds.
    /// `None` before that.
    #[must_use]
    pub fn start_time(&self) -> Option<u32> {
        let millis = self.phases.started?.as_millis() - self.bound_at?.as_millis();
        Some(u32::try_from(millis.max(0)).unwrap_or(u32::MAX))
    }

    /// Returns the known phases with their times, in order. If EC2's launch response was lost, the
    /// machine ran for a while before it was bound.
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

/// Statistics of the time that machines took to reach a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// The phase.
    pub phase: Phase,
    /// Number of machines that reached it.
    pub machines: usize,
    /// Median time since the previous known phase.
    pub p50_seconds: Seconds,
    /// 95th percentile of that time.
    pub p95_seconds: Seconds,
    /// Median time since the plan.
    pub p50_since_planned_seconds: Seconds,
    /// 95th percentile of that time.
    pub p95_since_planned_seconds: Seconds,
}

/// Returns the statistics of each phase. Omits phases that no machine reached.
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

/// Returns the smallest value that at least `percent` of the values do not exceed. Sorts the
/// values.
fn quantile(values: &mut [Seconds], percent: usize) -> Option<Seconds> {
    values.sort_unstable();
    let rank = (values.len() * percent).div_ceil(100).max(1);
    values.get(rank - 1).copied()
}

#[cfg(test)]
mod tests;
