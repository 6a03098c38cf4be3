//! The results of a sweep: its metrics and its log line.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use muster_domain::ids::PoolName;
use muster_domain::job::Job;
use muster_domain::launch::record::trouble::Trouble;
use muster_domain::orphan::Orphan;
use muster_domain::rerun::Rerun;
use muster_domain::stored::Stored;

use super::gauges::Gauges;
use crate::Settings;
use crate::metrics::{self, Measure, Metric};

/// The results of a sweep.
#[derive(Clone, Default, PartialEq)]
pub struct SweepReport {
    /// Rows sent to the reap queue.
    pub sent: usize,
    /// Pools woken.
    pub woken: usize,
    /// Jobs expired because GitHub must have cancelled them long ago.
    pub expired: usize,
    /// Machines in the orphan ledger that remain after a termination attempt.
    pub orphans: usize,
    /// The ledger, for the pass after this one; empty if terminations are off.
    pub ledger: Vec<Stored<Orphan>>,
    /// Whether the comparison stopped at the blast radius.
    pub stopped_at_blast_radius: bool,
    /// Age in seconds.
    pub oldest_pending_delete: u32,
    /// Age in seconds.
    pub oldest_queued_job: u32,
    /// Jobs that no pool serves and that have waited for a long time.
    pub unserved: usize,
    /// Whether a waiting job belongs to an account that, as far as we know, does not own the App,
    /// so that its pool refuses it.
    pub is_owner_doubted: bool,
    /// Pools whose launches EC2 refuses.
    pub refused_pools: usize,
    /// Pools whose last machines never ran a job.
    pub troubled_pools: usize,
    /// Consecutive machines that never ran a job, by pool.
    pub served_nothing: Vec<(PoolName, u32)>,
    /// Causes of wasted machines: pools, and entities that GitHub denies or limits.
    pub troubles: Vec<Trouble>,
    /// Seconds since the first of the current switches was turned off.
    pub switched_off: u32,
    /// Instance types in EC2's list.
    pub kinds: BTreeSet<Arc<str>>,
    /// Waiting jobs without a recent event, longest silence first.
    pub silent: Vec<Stored<Job>>,
    /// Workflow runs with interrupted jobs whose next look is due.
    pub reruns: Vec<Stored<Rerun>>,
    /// Values for dashboards, without an alarm.
    pub gauges: Gauges,
    /// Parts of the sweep that failed; the others ran.
    pub problems: Vec<String>,
}

impl SweepReport {
    /// Counts entities to which GitHub denies us access, for all pools or one. A rate limit ends by
    /// itself.
    fn refused(&self) -> usize {
        self.troubles.iter().filter(|one| one.is_refusal_of_github()).count()
    }

    /// Returns the metrics.
    #[must_use]
    pub fn measures(&self, settings: &Settings) -> Vec<Measure> {
        let age = |metric, seconds: u32| Measure::new(metric, f64::from(seconds));
        let mut all = vec![
            Measure::flag(Metric::ReaperTick, self.problems.is_empty()),
            age(Metric::OldestPendingDeleteAgeSeconds, self.oldest_pending_delete),
            age(Metric::OldestQueuedJobAgeSeconds, self.oldest_queued_job),
            Measure::count(Metric::JobsUnserved, self.unserved),
            Measure::count(Metric::PoolsRefused, self.refused_pools),
            Measure::count(Metric::PoolsInTrouble, self.troubled_pools),
            Measure::count(Metric::Orphans, self.orphans),
            Measure::count(Metric::EntitiesUnhealthy, self.refused()),
            age(Metric::SwitchedOffSeconds, self.switched_off),
            Measure::flag(Metric::BlastRadius, self.stopped_at_blast_radius),
        ];
        all.extend(self.served_nothing.iter().map(|(pool, count)| {
            let of = metrics::pool(settings, pool);
            Measure::of(of, Metric::MachinesServedNothing, f64::from(*count))
        }));
        all.extend(self.gauges.measures(settings));
        all
    }
}

/// Shows only fields that differ from a sweep with nothing to do, because the log has one every minute.
/// Leaves out the gauges, which the metrics have.
impl fmt::Debug for SweepReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (idle, mut shown) = (Self::default(), f.debug_struct("SweepReport"));
        macro_rules! show {
            ($($field:ident)*) => {
                // Fails to compile if a field is missing.
                let Self { gauges: _, $($field),* } = self;
                $(if *$field != idle.$field {
                    shown.field(stringify!($field), $field);
                })*
            };
        }
        show!(sent woken expired orphans ledger stopped_at_blast_radius oldest_pending_delete
            oldest_queued_job unserved is_owner_doubted refused_pools troubled_pools served_nothing
            troubles switched_off kinds silent reruns problems);
        shown.finish_non_exhaustive()
    }
}
