//! Which jobs need machines of a different size.

use std::collections::BTreeMap;

use muster_domain::ids::PoolName;
use muster_domain::pool::{LabelMatch, Pool};
use muster_domain::time::Seconds;
use muster_domain::usage::{
    Date, DiskVerdict, JobSize, KeepReason, LEAST_RUNS, LeftOut, SizeFigures, SizeVerdict, Sizes,
};
use serde::Serialize;

use crate::money::{dollars, thousands};
use crate::page::{Screen, TextPage};
use crate::simulate::{Halves, Simulation};
use crate::table::{Cell, Column, DataTable, Text, TextStyle};
use crate::words::{count, span};

/// Maximum number of names in a sentence.
const MOST_NAMES: usize = 5;

/// The sizes of a period's jobs.
#[derive(Clone, Debug, Serialize)]
pub struct RightsizeList {
    /// The day of the first record, and today.
    pub from: Date,
    pub to: Date,
    pub jobs: Vec<RightsizeRow>,
    /// Number of jobs that ran, and of those without measurements.
    pub runs: u64,
    pub unmeasured: u64,
    /// What half the machines would have cost, if requested.
    #[serde(flatten)]
    pub simulation: Option<SimulatedHalves>,
}

/// The simulated changes, and the result if there are any.
#[derive(Clone, Debug, Serialize)]
pub struct SimulatedHalves {
    pub halves: Halves,
    pub simulation: Option<Simulation>,
}

/// A job's size, and the pool that has machines of half its size and serves it.
#[derive(Clone, Debug, Serialize)]
pub struct RightsizeRow {
    #[serde(flatten)]
    pub size: JobSize,
    pub half_pool: Option<PoolName>,
}

impl RightsizeList {
    /// Creates the list. `pools` are those of the file in force.
    #[must_use]
    pub fn new((from, to): (Date, Date), sizes: Sizes, pools: &[Pool]) -> Self {
        let Sizes { jobs, runs, unmeasured } = sizes;
        let row = |size: JobSize| {
            let half_pool = half_pool(pools, &size).filter(|_| size.verdict == SizeVerdict::Half);
            RightsizeRow { size, half_pool }
        };
        let jobs = jobs.into_iter().map(row).collect();
        Self { from, to, jobs, runs, unmeasured, simulation: None }
    }
}

/// Returns the first pool that has machines of half the size and serves the job.
fn half_pool(pools: &[Pool], job: &JobSize) -> Option<PoolName> {
    let half = job.half_type.as_deref()?;
    let is_half = |pool: &&Pool| {
        let has = |kind: &str| pool.instance_types.iter().any(|one| **one == *kind);
        has(half) && !job.kind.as_deref().is_some_and(has)
    };
    let serves = |pool: &&Pool| {
        let matches = pool.labels.iter().any(|row| match pool.label_match {
            LabelMatch::Superset => row.missing_for(&job.labels).is_empty(),
            LabelMatch::Exact => row.is_exactly(&job.labels),
        });
        let covers = pool.entity.as_ref().is_none_or(|entity| entity.covers(&job.repository));
        let admits = pool.admits(&job.repository, Some(job.private)).is_ok();
        pool.enabled && matches && covers && admits
    };
    pools.iter().filter(is_half).find(serves).map(|pool| pool.name.clone())
}

const COLUMNS: [Column; 9] = [
    Column::text("Job").at_least(18),
    Column::number("Saves"),
    Column::text("Verdict").at_least(18),
    Column::name("Try"),
    Column::number("A month").optional(),
    Column::number("Runs").optional(),
    Column::number("CPU").from(100),
    Column::short("Memory").from(110),
    Column::name("Pool").from(130),
];

/// Renders the list, and the simulation if there is one.
#[must_use]
pub fn page(list: &RightsizeList, screen: Screen) -> String {
    let mut text = sizes(list, screen);
    let Some(SimulatedHalves { halves, simulation }) = &list.simulation else { return text };
    let mut page = TextPage::new(screen);
    page.gap();
    if !page.is_piped() {
        let marked = |said| (Text::new("·", TextStyle::Dim), said);
        page.marked(changes(halves).into_iter().map(marked));
        page.gap();
    }
    text.push_str(&page.into_text());
    if let Some(simulation) = simulation {
        text.push_str(&super::simulate::page(simulation, screen));
    }
    text
}

fn sizes(list: &RightsizeList, screen: Screen) -> String {
    let mut page = TextPage::new(screen);
    if page.is_piped() {
        page.table(&DataTable::new(COLUMNS, list.jobs.iter().map(row)));
        return page.into_text();
    }
    let title = format!("{} to {} · {} jobs", list.from, list.to, thousands(list.runs));
    page.line([Text::new(title, TextStyle::Strong)]);
    page.gap();
    if list.runs == 0 {
        page.line(["No jobs ran in this period.".into()]);
        return page.into_text();
    }
    if !list.jobs.is_empty() {
        page.table(&DataTable::new(COLUMNS, list.jobs.iter().map(row)));
        page.gap();
        page.marked(pools(list));
        page.gap();
    }
    page.marked(notes(list).into_iter().map(|said| (Text::new("·", TextStyle::Dim), said)));
    page.into_text()
}

/// Describes the simulated changes, one sentence each.
fn changes(halves: &Halves) -> Vec<Text> {
    let mut changes = Vec::new();
    let named = |names: Vec<String>| names.join(", ");
    if halves.is_empty() {
        let said = "No change to simulate: in each pool, a job does not fit half the machine or is \
            unknown, and no smaller pool serves those that do.";
        changes.push(Text::from(said));
    }
    if !halves.pools.is_empty() {
        let pools = named(halves.pools.iter().map(ToString::to_string).collect());
        changes.push(Text::from(format!("Simulated with types of half the size: {pools}.")));
    }
    for (pool, jobs) in &halves.moved {
        let jobs = count(*jobs, "job");
        changes.push(Text::from(format!("Simulated in the smaller pool {pool}: {jobs}.")));
    }
    if !halves.assumed.is_empty() {
        let type_of = |(half, kind): (_, _)| format!("{half} (half of {kind})");
        let types = named(halves.assumed.iter().map(type_of).collect());
        let said = format!(
            "Assumed prices, because these types were not used: {types}. Boot times are those of the \
            larger types."
        );
        changes.push(Text::new(said, TextStyle::Warning));
    }
    changes
}

fn row(RightsizeRow { size, half_pool }: &RightsizeRow) -> Vec<Cell> {
    let SizeFigures { runs, cpu, mem, mem_of, .. } = size.used;
    let is_half = size.verdict == SizeVerdict::Half;
    let has_runs = mem_of > 0;
    let instead = || half_pool.as_ref().map(ToString::to_string).or_else(|| size.half_type.clone());
    let known = |is_known: bool, text: String| if is_known { text.into() } else { Text::none() };
    vec![
        name(size).into(),
        known(is_half && size.cost > 0, dollars(size.saves)).into(),
        verdict(size).into(),
        Text::known(instead().filter(|_| is_half)).into(),
        match size.cost {
            0 => Text::new("no price", TextStyle::Warning),
            cost => dollars(cost).into(),
        }
        .into(),
        thousands(runs as u64).into(),
        known(has_runs, format!("{cpu} %")).into(),
        known(has_runs, format!("{} of {} GB", gigabytes(mem), gigabytes(mem_of))).into(),
        Cell::pool(size.pool.as_ref()),
    ]
}

fn name(size: &JobSize) -> String {
    let workflow = size.workflow.as_deref().unwrap_or("?");
    let legs = if size.legs > 1 { format!(" ({} ×)", size.legs) } else { String::new() };
    format!("{} · {workflow} · {}{legs}", size.repository, size.job)
}

fn gigabytes(megabytes: u32) -> String {
    let tenths = (megabytes + 50) / 100;
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn verdict(size: &JobSize) -> Text {
    let used = &size.used;
    match size.verdict {
        SizeVerdict::MoreMemory if used.oom > 0 => {
            let said = format!("needs more memory: {} out of memory", count(used.oom, "run"));
            Text::new(said, TextStyle::Bad)
        }
        SizeVerdict::MoreMemory => {
            let said = format!("needs more memory: {} used 92 % or more", count(used.tight, "run"));
            Text::new(said, TextStyle::Bad)
        }
        SizeVerdict::Half => Text::new("fits half the machine", TextStyle::Good),
        SizeVerdict::MoreCpus => {
            let [now, best] = [used.seconds, used.seconds / 2].map(|time| span(Seconds(time)));
            let said = format!("would use more CPUs: {best} instead of {now}, at best");
            Text::new(said, TextStyle::Warning)
        }
        SizeVerdict::Keep(reason) => Text::from(format!("keeps its size: {}", keeps(reason, used))),
        SizeVerdict::TwoSizes => "unknown: ran on machines of two sizes".into(),
        SizeVerdict::TooFewRuns => {
            let said =
                format!("unknown: {} of {LEAST_RUNS} runs{}", used.runs, left_out(size.left_out));
            Text::new(said, TextStyle::Dim)
        }
    }
}

fn keeps(reason: KeepReason, used: &SizeFigures) -> String {
    let wait = |share: Option<u8>, what: &str| format!("waits {} % for {what}", share.unwrap_or(0));
    match reason {
        KeepReason::Cpu => format!("{} % longer on half the CPUs", used.half),
        KeepReason::Memory => {
            let share = u64::from(used.mem) * 100 / u64::from(used.mem_of.max(1));
            format!("uses {share} % of the memory")
        }
        KeepReason::OutOfMemory => "out of memory once".to_owned(),
        KeepReason::CpuWait => wait(used.cpu_wait, "a CPU"),
        KeepReason::MemoryWait => wait(used.memory_wait, "memory"),
        KeepReason::WaitUnknown => "its kernel measures no waiting".to_owned(),
        KeepReason::NoHalfType => "its family has no smaller type".to_owned(),
    }
}

fn left_out(LeftOut { interrupted, short, steal, failed }: LeftOut) -> String {
    let all = [
        (interrupted, "interrupted or cancelled"),
        (short, "under a minute"),
        (steal, "with stolen CPU time"),
        (failed, "failed"),
    ];
    let parts: Vec<String> = all
        .iter()
        .filter(|(runs, _)| *runs > 0)
        .map(|(runs, why)| format!("{runs} {why}"))
        .collect();
    if parts.is_empty() { String::new() } else { format!("; not counted: {}", parts.join(", ")) }
}

/// Returns a sentence for each pool: which of its jobs prevent machines of half the size.
fn pools(list: &RightsizeList) -> Vec<(Text, Text)> {
    let mut pools: BTreeMap<&PoolName, [Vec<String>; 3]> = BTreeMap::new();
    for size in list.jobs.iter().map(|row| &row.size) {
        let Some(pool) = &size.pool else { continue };
        let group = match size.verdict {
            SizeVerdict::Half => 0,
            SizeVerdict::MoreMemory | SizeVerdict::MoreCpus | SizeVerdict::Keep(_) => 1,
            SizeVerdict::TwoSizes | SizeVerdict::TooFewRuns => 2,
        };
        pools.entry(pool).or_default()[group].push(size.job.clone());
    }
    let sentence = |(pool, [half, not, unknown]): (&PoolName, [Vec<String>; 3])| {
        let all = half.len() + not.len() + unknown.len();
        let mut said = format!("{} of {} would fit half", half.len(), count(all, "job"));
        for (jobs, what) in [(not, "would not"), (unknown, "are unknown")] {
            if !jobs.is_empty() {
                said.push_str(&format!("; {} {what}: {}", jobs.len(), names(&jobs)));
            }
        }
        (Text::new(pool.as_str(), TextStyle::Strong), Text::from(said + "."))
    };
    pools.into_iter().map(sentence).collect()
}

fn names(jobs: &[String]) -> String {
    let more = jobs.len().saturating_sub(MOST_NAMES);
    let shown = jobs[..jobs.len() - more].join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

fn notes(list: &RightsizeList) -> Vec<Text> {
    let mut notes = Vec::new();
    if list.unmeasured > 0 {
        let (unmeasured, runs) = (thousands(list.unmeasured), thousands(list.runs));
        let said = format!(
            "{unmeasured} of {runs} jobs have no measurements yet: their machines did not report any."
        );
        notes.push(Text::new(said, TextStyle::Warning));
    }
    for (what, said) in [
        (DiskVerdict::TooSmall, "The disk was at least 85 % full in a run"),
        (DiskVerdict::TooLarge, "No run used more than 30 % of the disk"),
    ] {
        let of = list.jobs.iter().filter(|row| row.size.disk == Some(what));
        let jobs: Vec<String> = of.map(|row| row.size.job.clone()).collect();
        if !jobs.is_empty() {
            notes.push(Text::from(format!("{said}: {}.", names(&jobs))));
        }
    }
    let has = |verdict| list.jobs.iter().any(|row| row.size.verdict == verdict);
    if has(SizeVerdict::Half) {
        let said = "SAVES is per month: half the machines' price, without disks, if the jobs take no longer. \
            This is the ratio of the prices; --simulate replays the jobs.";
        notes.push(Text::from(said));
    }
    if has(SizeVerdict::MoreCpus) {
        let said = "Twice the CPUs cost no more only if a job then takes half the time.";
        notes.push(Text::from(said));
    }
    let said = "Machines report what they measured, and a job with root rights can change that. CPU is \
        the mean and memory the peak; of a matrix, both are of the worst combination.";
    notes.push(Text::new(said, TextStyle::Dim));
    notes
}
