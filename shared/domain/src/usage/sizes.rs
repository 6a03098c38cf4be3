//! Which jobs fit half their machine, run out of memory, or would use more CPUs.
//!
//! The rules are careful in one direction: a job for which half the machine is not clearly enough
//! keeps its size. They use only what the machines measured, over many runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::line::Line;
use crate::ids::PoolName;
use crate::instance::Used;
use crate::job::labels::Labels;

/// Minimum number of successful runs for advice about CPUs, about half the machine, and about a
/// large disk.
pub const LEAST_RUNS: usize = 20;
/// Minimum measured time of a run, in seconds. It has one sample in two seconds.
const SHORTEST: u32 = 60;
/// Maximum share of stolen CPU time of a run that counts: a burstable or noisy machine shows little
/// about other machines. Shares are in percent here and below.
const MOST_STEAL: u8 = 3;
/// Half is enough if, at the 95th percentile, a job would take at most this much longer.
const MOST_LONGER: u8 = 5;
/// Half is enough if the memory peak is at most this share: it is 80 percent of half the machine.
const MOST_MEMORY: u32 = 40;
/// Half is enough if, at the 95th percentile, processes waited for CPUs at most this share of the
/// time: bursts that are shorter than a sample appear only there.
const MOST_CPU_WAIT: u8 = 10;
/// Half is enough if, at the 95th percentile, processes waited for memory at most this share.
const MOST_MEMORY_WAIT: u8 = 1;
/// A memory peak of this share is almost out of memory.
const TIGHT: u32 = 92;
/// More CPUs help if, in the median run, all CPUs were busy for at least this share of the time …
const LEAST_FULL: u8 = 60;
/// … and processes waited for a CPU for at least this share.
const LEAST_CPU_WAIT: u8 = 30;
/// A disk is almost full from this share.
const DISK_FULL: u32 = 85;
/// A disk is too large if each run used at most this share of it, …
const DISK_UNUSED: u32 = 30;
/// … and it has more than this, in MB.
const DISK_SMALL: u32 = 40_000;
/// Days of a month.
const MONTH: u64 = 30;

/// The verdicts on the jobs of a period.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sizes {
    /// One row per job, changes first.
    pub jobs: Vec<JobSize>,
    /// Number of runs.
    pub runs: u64,
    /// Number of runs without measurements.
    pub unmeasured: u64,
}

/// A job's size. Money is in millionths of a dollar per month of 30 days.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JobSize {
    /// `owner/repo`.
    pub repository: Arc<str>,
    /// The workflow's name.
    pub workflow: Option<Arc<str>>,
    /// The job's name, without the values of its matrix.
    pub job: String,
    /// Number of different names, one per combination of the matrix. The worst of them decides.
    pub legs: usize,
    /// The pool of most runs.
    pub pool: Option<PoolName>,
    /// The instance type of most runs.
    #[serde(rename = "type")]
    pub kind: Option<Arc<str>>,
    /// Half that type, if its family has it.
    pub half_type: Option<String>,
    /// The labels that the job requests.
    pub labels: Labels,
    /// Whether the repository is private.
    pub private: bool,
    /// What the runs that count used.
    pub used: SizeFigures,
    /// The runs that do not count.
    pub left_out: LeftOut,
    /// The verdict on its machine.
    pub verdict: SizeVerdict,
    /// The verdict on its disk, if it should change.
    pub disk: Option<DiskVerdict>,
    /// The cost of its machines. Machines without a price are not included.
    pub cost: u64,
    /// The saving with half the machine: half the price of the machines, without their disks. Zero
    /// with other verdicts.
    pub saves: u64,
}

/// What the runs of a job used; of a matrix, the worst combination. Shares are in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SizeFigures {
    /// Number of successful runs.
    pub runs: usize,
    /// The number of CPUs.
    pub cpus: u16,
    /// Mean utilization of the CPUs.
    pub cpu: u8,
    /// How much longer a run would take on half the CPUs, at least: the 95th percentile.
    pub half: u8,
    /// The share of time with all CPUs busy: the median.
    pub full: u8,
    /// The share of time in which a process waited for a CPU: the 95th percentile. `None` if a
    /// kernel did not measure it.
    pub cpu_wait: Option<u8>,
    /// The share of time in which a process waited for memory, likewise.
    pub memory_wait: Option<u8>,
    /// The largest memory peak, in MB.
    pub mem: u32,
    /// The memory of the machine with that peak, in MB.
    pub mem_of: u32,
    /// Number of runs in which the kernel killed a process because memory was used up.
    pub oom: usize,
    /// Number of runs that used at least 92 percent of the memory.
    pub tight: usize,
    /// The length of a run, in seconds: the median.
    pub seconds: u32,
}

/// Numbers of measured runs that do not count, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Interrupted or cancelled.
    pub interrupted: usize,
    /// Shorter than a minute.
    pub short: usize,
    /// The hypervisor gave more than 3 percent of the CPU time to others.
    pub steal: usize,
    /// Did not succeed, and did not run out of memory.
    pub failed: usize,
}

/// The verdict on the machine of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SizeVerdict {
    /// It runs out of memory.
    MoreMemory,
    /// Half the machine is enough.
    Half,
    /// It would use more CPUs.
    MoreCpus,
    /// It keeps its size, for this reason.
    Keep(KeepReason),
    /// It ran on machines of different sizes: their runs cannot be compared.
    TwoSizes,
    /// Too few runs count.
    TooFewRuns,
}

/// Why half the machine is not enough, or not certain to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeepReason {
    /// It would take longer.
    Cpu,
    /// It needs more than 80 percent of half the memory.
    Memory,
    /// A run ran out of memory.
    OutOfMemory,
    /// Processes waited for CPUs.
    CpuWait,
    /// Processes waited for memory.
    MemoryWait,
    /// A kernel does not measure how long processes wait.
    WaitUnknown,
    /// The family has no machine of half the size.
    NoHalfType,
}

/// The verdict on the disk of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskVerdict {
    /// Almost full in at least one run.
    TooSmall,
    /// More than 40 GB, of which no run used more than 30 percent.
    TooLarge,
}

/// Accumulates records, so that they need not be kept in memory.
#[derive(Clone, Debug, Default)]
pub struct SizesFold {
    jobs: BTreeMap<JobName, JobRuns>,
    runs: u64,
    unmeasured: u64,
}

/// Repository, workflow and job.
type JobName = (Arc<str>, Option<Arc<str>>, String);

/// The runs of a job.
#[derive(Clone, Debug, Default)]
struct JobRuns {
    /// The runs that count, by the job's full name.
    legs: BTreeMap<Arc<str>, Vec<Run>>,
    pools: BTreeMap<PoolName, usize>,
    kinds: BTreeMap<Arc<str>, usize>,
    labels: Labels,
    private: bool,
    left_out: LeftOut,
    /// Whether any measured run was out of memory, also one that does not count.
    had_oom: bool,
    cost: u64,
    /// The part of the cost that depends on the machine's size.
    machines: u64,
}

/// A run that counts.
#[derive(Clone, Copy, Debug)]
struct Run {
    used: Used,
    succeeded: bool,
}

impl SizesFold {
    /// Adds a record, which must have its price. Records without a job on a machine do not count.
    pub fn add(&mut self, line: &Line) {
        let (Some(job), Some(machine)) = (&line.job, &line.machine) else { return };
        self.runs += 1;
        let Some(used) = line.used.map(Used::bounded).filter(|used| used.mem_of > 0) else {
            self.unmeasured += 1;
            return;
        };
        let name = (job.repository.clone(), job.workflow.clone(), without_matrix(&job.name));
        let runs = self.jobs.entry(name).or_default();
        runs.labels.clone_from(&job.labels);
        runs.private = job.private;
        line.pool.iter().for_each(|pool| *runs.pools.entry(pool.clone()).or_default() += 1);
        let kind = machine.make.kind.iter();
        kind.for_each(|kind| *runs.kinds.entry(kind.clone()).or_default() += 1);
        runs.had_oom |= used.oom > 0;
        runs.cost += line.cost().unwrap_or_default().sum();
        runs.machines += line.price.map_or(0, |price| line.parts.at(price.machine).sum());
        let conclusion = job.conclusion.as_deref();
        let succeeded = conclusion == Some("success");
        let left_out = &mut runs.left_out;
        if machine.cause.is_some() || conclusion == Some("cancelled") {
            left_out.interrupted += 1;
        } else if used.s < SHORTEST {
            left_out.short += 1;
        } else if used.steal > MOST_STEAL {
            left_out.steal += 1;
        } else if !succeeded && used.oom == 0 {
            left_out.failed += 1;
        } else {
            runs.legs.entry(job.name.clone()).or_default().push(Run { used, succeeded });
        }
    }

    /// Returns the verdicts. `days`: the length of the period, to calculate costs of a month.
    #[must_use]
    pub fn sizes(self, days: u64) -> Sizes {
        let a_month = |money: u64| money * MONTH / days.max(1);
        let mut jobs: Vec<JobSize> =
            self.jobs.into_iter().map(|(name, runs)| runs.size(name, a_month)).collect();
        jobs.sort_by_key(|job| (job.verdict.rank(), std::cmp::Reverse((job.saves, job.cost))));
        Sizes { jobs, runs: self.runs, unmeasured: self.unmeasured }
    }
}

impl JobRuns {
    fn size(self, (repository, workflow, job): JobName, a_month: impl Fn(u64) -> u64) -> JobSize {
        let kind = most(&self.kinds);
        let half_type = kind.as_deref().and_then(half_type);
        let used = SizeFigures::of(&self.legs);
        let verdict = self.verdict(&used, half_type.is_some());
        let is_half = verdict == SizeVerdict::Half;
        JobSize {
            repository,
            workflow,
            job,
            legs: self.legs.len(),
            pool: most(&self.pools),
            kind,
            half_type,
            disk: self.disk(&used),
            labels: self.labels,
            private: self.private,
            used,
            left_out: self.left_out,
            verdict,
            cost: a_month(self.cost),
            saves: if is_half { a_month(self.machines / 2) } else { 0 },
        }
    }

    fn all(&self) -> impl Iterator<Item = &Run> {
        self.legs.values().flatten()
    }

    fn verdict(&self, used: &SizeFigures, has_half_type: bool) -> SizeVerdict {
        let counted = self.all().count();
        let is_often = |runs: usize, share: usize| runs > 0 && runs * 100 >= counted * share;
        if counted == 0 {
            return SizeVerdict::TooFewRuns;
        }
        if self.has_two_sizes() {
            return SizeVerdict::TwoSizes;
        }
        if used.oom >= 2 || is_often(used.oom, 5) || is_often(used.tight, 10) {
            return SizeVerdict::MoreMemory;
        }
        if used.runs < LEAST_RUNS {
            return SizeVerdict::TooFewRuns;
        }
        if self.legs.values().any(|leg| lacks_cpus(leg)) {
            return SizeVerdict::MoreCpus;
        }
        let keeps = match (used.cpu_wait, used.memory_wait) {
            _ if self.had_oom => Some(KeepReason::OutOfMemory),
            _ if used.half > MOST_LONGER => Some(KeepReason::Cpu),
            _ if !is_at_most(used.mem, MOST_MEMORY, used.mem_of) => Some(KeepReason::Memory),
            (None, _) | (_, None) => Some(KeepReason::WaitUnknown),
            (Some(cpu), _) if cpu > MOST_CPU_WAIT => Some(KeepReason::CpuWait),
            (_, Some(memory)) if memory > MOST_MEMORY_WAIT => Some(KeepReason::MemoryWait),
            _ if !has_half_type => Some(KeepReason::NoHalfType),
            _ => None,
        };
        keeps.map_or(SizeVerdict::Half, SizeVerdict::Keep)
    }

    /// Returns whether its runs had different numbers of CPUs, or memory that differs by more than
    /// a tenth. Types of one size differ by a few percent, in what the kernel reserves.
    fn has_two_sizes(&self) -> bool {
        let cpus = || self.all().map(|run| run.used.cpus);
        let memory = || self.all().map(|run| u64::from(run.used.mem_of));
        let (least, most) = (memory().min().unwrap_or(0), memory().max().unwrap_or(0));
        cpus().min() != cpus().max() || least * 10 < most * 9
    }

    fn disk(&self, used: &SizeFigures) -> Option<DiskVerdict> {
        let is_full = |run: &Run| is_at_least(run.used.disk, DISK_FULL, run.used.disk_of);
        let is_unused = |run: &Run| {
            run.used.disk_of > DISK_SMALL
                && is_at_most(run.used.disk, DISK_UNUSED, run.used.disk_of)
        };
        if self.all().any(is_full) {
            return Some(DiskVerdict::TooSmall);
        }
        let is_too_large = used.runs >= LEAST_RUNS && self.all().all(is_unused);
        is_too_large.then_some(DiskVerdict::TooLarge)
    }
}

impl SizeFigures {
    fn of(legs: &BTreeMap<Arc<str>, Vec<Run>>) -> Self {
        let all = || legs.values().flatten();
        let worst =
            |of: &dyn Fn(&[Run]) -> Option<u8>| legs.values().filter_map(|leg| of(leg)).max();
        let share = |of: fn(&Used) -> u8, percent| {
            worst(&|leg| percentile(leg, percent, of)).unwrap_or_default()
        };
        let wait = |what: usize| {
            let is_known = all().all(|run| run.used.wait.is_some());
            let of = |used: &Used| used.wait.map_or(0, |wait| wait[what]);
            worst(&|leg| percentile(leg, 95, of)).filter(|_| is_known)
        };
        let peak = all().map(|run| run.used).max_by(|a, b| {
            let part = |one: &Used, other: &Used| u64::from(one.mem) * u64::from(other.mem_of);
            part(a, b).cmp(&part(b, a))
        });
        let is_tight = |run: &&Run| is_at_least(run.used.mem, TIGHT, run.used.mem_of);
        Self {
            runs: all().filter(|run| run.succeeded).count(),
            cpus: all().map(|run| run.used.cpus).max().unwrap_or_default(),
            cpu: worst(&|leg| mean(leg, |used| used.cpu)).unwrap_or_default(),
            half: share(|used| used.half, 95),
            full: share(|used| used.full, 50),
            cpu_wait: wait(0),
            memory_wait: wait(1),
            mem: peak.map_or(0, |used| used.mem),
            mem_of: peak.map_or(0, |used| used.mem_of),
            oom: all().filter(|run| run.used.oom > 0).count(),
            tight: all().filter(is_tight).count(),
            seconds: legs
                .values()
                .filter_map(|leg| percentile(leg, 50, |used| used.s))
                .max()
                .unwrap_or(0),
        }
    }
}

impl SizeVerdict {
    const fn rank(self) -> u8 {
        match self {
            Self::MoreMemory => 0,
            Self::Half => 1,
            Self::MoreCpus => 2,
            Self::Keep(_) => 3,
            Self::TwoSizes => 4,
            Self::TooFewRuns => 5,
        }
    }
}

fn lacks_cpus(leg: &[Run]) -> bool {
    let full = percentile(leg, 50, |used| used.full);
    // An unknown wait counts as zero.
    let wait = percentile(leg, 50, |used| used.wait.map_or(0, |[cpu, ..]| cpu));
    full >= Some(LEAST_FULL) && wait >= Some(LEAST_CPU_WAIT)
}

/// Returns a percentile over the successful runs, by the nearest rank.
fn percentile<T: Ord + Copy>(
    runs: &[Run],
    of_hundred: usize,
    of: impl Fn(&Used) -> T,
) -> Option<T> {
    let mut all: Vec<T> =
        runs.iter().filter(|run| run.succeeded).map(|run| of(&run.used)).collect();
    all.sort_unstable();
    let rank = (all.len() * of_hundred).div_ceil(100);
    all.get(rank.checked_sub(1)?).copied()
}

/// Returns the mean over the successful runs.
fn mean(runs: &[Run], of: impl Fn(&Used) -> u8) -> Option<u8> {
    let all: Vec<u64> =
        runs.iter().filter(|run| run.succeeded).map(|run| u64::from(of(&run.used))).collect();
    let mean = all.iter().sum::<u64>().checked_div(all.len() as u64)?;
    u8::try_from(mean).ok()
}

fn is_at_least(part: u32, share: u32, whole: u32) -> bool {
    whole > 0 && u64::from(part) * 100 >= u64::from(share) * u64::from(whole)
}

fn is_at_most(part: u32, share: u32, whole: u32) -> bool {
    u64::from(part) * 100 <= u64::from(share) * u64::from(whole)
}

fn most<T: Clone>(counts: &BTreeMap<T, usize>) -> Option<T> {
    counts.iter().max_by_key(|(_, count)| **count).map(|(one, _)| one.clone())
}

/// Returns a job's name without the values of its matrix, which GitHub adds in parentheses:
/// `test (ubuntu, 3.12)` is `test`, and `call (a) / build (b)` is `call / build`.
#[must_use]
pub fn without_matrix(name: &str) -> String {
    let (mut stem, mut depth) = (String::new(), 0_usize);
    for one in name.chars() {
        match one {
            '(' if depth > 0 || stem.ends_with(' ') => {
                depth += 1;
                stem.truncate(stem.trim_end().len());
            }
            ')' if depth > 0 => depth -= 1,
            _ if depth == 0 => stem.push(one),
            _ => {}
        }
    }
    if stem.trim().is_empty() { name.to_owned() } else { stem }
}

/// Returns the type with half the CPUs and half the memory in the same family, if it has one. Only
/// for compute, general and memory families: half of other types lacks something that is not
/// measured here, such as CPU credits, accelerators or local disks.
/// Source: docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-type-specifications.html
#[must_use]
pub fn half_type(kind: &str) -> Option<String> {
    let (family, size) = kind.split_once('.')?;
    let generation = family.strip_prefix(['c', 'm', 'r'])?;
    let maker = generation.trim_start_matches(|one: char| one.is_ascii_digit());
    if maker.len() == generation.len() {
        return None;
    }
    let half = match size {
        // Graviton families have a type with one CPU, and so have AMD's since the seventh
        // generation.
        "large" if maker.starts_with('g') || ["7a", "8a"].contains(&generation) => "medium",
        "xlarge" => "large",
        "2xlarge" => "xlarge",
        "4xlarge" => "2xlarge",
        "8xlarge" => "4xlarge",
        "16xlarge" => "8xlarge",
        "18xlarge" => "9xlarge",
        "24xlarge" => "12xlarge",
        "32xlarge" => "16xlarge",
        "48xlarge" => "24xlarge",
        "96xlarge" => "48xlarge",
        _ => return None,
    };
    Some(format!("{family}.{half}"))
}
