//! Estimates what past days would have cost with different pools: it runs the stack's own passes in the simulated cloud
//! on the jobs of real usage lines. It has no I/O: lines and pool files are inputs, figures are outputs.

mod file;
mod halves;

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::mem;
use std::str::FromStr;

use muster_domain::ids::PoolName;
use muster_domain::pool::{MarketPolicy, RerunPolicy};
use muster_domain::pool_file::PoolFile;
use muster_domain::time::Time;
use muster_domain::usage::{Date, Line};
pub use muster_sim::replay::owner;
use muster_sim::replay::{Measured, Only, Outcome, Replay};
use serde::Serialize;
use serde_json::{Value, json};

pub use self::file::read as read_file;
pub use self::halves::Halves;

/// Maximum number of values in one trial: each requires its own replay.
const MOST_VALUES: usize = 24;
/// Error of the model from which it is reported, in hundredths.
const OFF: u64 = 5;
/// Waits that differ by less count as equal, because chance alone causes that much. In hundredths.
const EQUAL: u64 = 2;

/// The field that `--try` changes, and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    pub field: &'static str,
    pub values: Vec<TrialValue>,
}

/// A value of a field of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum TrialValue {
    Max(u32),
    MinIdle(u32),
    Market(MarketPolicy),
    RerunOnInterruption(bool),
}

impl Display for TrialValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match json!(self) {
            Value::String(text) => f.write_str(&text),
            value => value.fmt(f),
        }
    }
}

impl FromStr for Trial {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is not a trial; examples: min_idle=0..5, max=10,20,40, \
                market=on-demand,spot-then-on-demand,spot, rerun_on_interruption=false,true"
            )
        };
        let (field, values) = text.split_once('=').ok_or_else(wrong)?;
        let each = values.split(',').map(str::trim);
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
        let numbers = |value: fn(u32) -> TrialValue| -> Result<Vec<TrialValue>, String> {
            match values.split_once("..") {
                Some((from, to)) => {
                    let to = number(to.trim_start_matches('='))?;
                    Ok((number(from)?..=to).take(MOST_VALUES + 1).map(value).collect())
                }
                None => each.clone().map(|text| number(text).map(value)).collect(),
            }
        };
        let (field, values) = match field {
            "max" => ("max", numbers(TrialValue::Max)?),
            "min_idle" => ("min_idle", numbers(TrialValue::MinIdle)?),
            "market" => {
                let market = |text| serde_json::from_value(json!(text)).map(TrialValue::Market);
                let values: Result<_, _> = each.map(market).collect();
                ("market", values.map_err(|_| wrong())?)
            }
            "rerun_on_interruption" => {
                let rerun = |text: &str| text.parse().map(TrialValue::RerunOnInterruption);
                let values: Result<_, _> = each.map(rerun).collect();
                ("rerun_on_interruption", values.map_err(|_| wrong())?)
            }
            _ => return Err(wrong()),
        };
        if values.is_empty() || values.contains(&TrialValue::Max(0)) {
            return Err(wrong());
        }
        if values.len() > MOST_VALUES {
            return Err(format!(
                "at most {MOST_VALUES} values are allowed; list some: {field}=10,20,40"
            ));
        }
        Ok(Self { field, values })
    }
}

/// The result of a simulation.
#[derive(Clone, Debug, Serialize)]
pub struct Simulation {
    /// The first day and the last.
    pub from: Date,
    pub to: Date,
    /// The pool that the result is limited to; `None` for the whole stack.
    pub pool: Option<PoolName>,
    /// The seed of the random numbers.
    pub seed: u64,
    /// Jobs that were replayed.
    pub jobs: usize,
    /// When the file in force was applied, if that was in this period.
    pub applied_at: Option<Time>,
    /// What happened, and what the model predicts for it with the file in force.
    pub real: Figures,
    pub predicted: Figures,
    /// The largest errors of the model, in hundredths, if above five.
    pub off: Vec<(&'static str, u64)>,
    /// Pools that had machines in these days, and are not in the file in force.
    pub gone: Vec<PoolName>,
    /// The figures with a different file, and its name.
    pub new: Option<(String, Figures)>,
    /// The figures of a trial.
    pub tried: Option<Tried>,
    /// Invariants of the simulator that broke, each with the file that was replayed.
    pub broken: Vec<(String, String)>,
}

impl Simulation {
    /// Iterates over the figures of all rows.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Figures> {
        let tried = self.tried.iter().flat_map(|tried| &tried.rows).map(|row| &row.figures);
        let new = self.new.iter().map(|(_, figures)| figures);
        [&self.real, &self.predicted].into_iter().chain(new).chain(tried)
    }
}

/// Money is in millionths of a dollar, waits are in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    pub money: u64,
    /// The part of the money that was spent on jobs that EC2 interrupted.
    pub lost: u64,
    /// Jobs that ran again after an interruption.
    pub reruns: u64,
    pub p50: Option<u64>,
    pub p95: Option<u64>,
    pub p99: Option<u64>,
    pub machines: u64,
    /// Machines whose type has no price; not included in the money.
    pub unpriced: u64,
    /// Jobs that got no runner by the end or within a day.
    pub unserved: u64,
}

/// One row for each value.
#[derive(Clone, Debug, Serialize)]
pub struct Tried {
    pub field: &'static str,
    pub of: PoolName,
    pub rows: Vec<TrialRow>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct TrialRow {
    pub value: TrialValue,
    #[serde(flatten)]
    pub figures: Figures,
    /// Whether no other row costs less and has waits as short.
    pub is_unbeaten: bool,
}

impl Figures {
    fn of(measured: &Measured) -> Self {
        let wait = |part| measured.wait(part);
        Self {
            money: measured.money,
            lost: measured.lost,
            reruns: measured.reruns,
            p50: wait(50),
            p95: wait(95),
            p99: wait(99),
            machines: measured.machines,
            unpriced: measured.unpriced,
            unserved: measured.unserved,
        }
    }

    /// Returns the differences to the real figures in hundredths, if above a few.
    fn off(&self, real: &Self) -> Vec<(&'static str, u64)> {
        let pairs = [
            ("dollars", Some(self.money), Some(real.money)),
            ("p50", self.p50, real.p50),
            ("p95", self.p95, real.p95),
            ("machines", Some(self.machines), Some(real.machines)),
        ];
        let off = |(name, own, real): (_, Option<u64>, Option<u64>)| {
            let (own, real) = own.zip(real)?;
            Some((name, (own.abs_diff(real) * 100 + real / 2).checked_div(real)?))
        };
        pairs.into_iter().filter_map(off).filter(|(_, off)| *off > OFF).collect()
    }
}

/// The input of a simulation.
#[derive(Debug)]
pub struct SimulationInput<'a> {
    pub lines: &'a [Line],
    pub in_force: PoolFile,
    /// Maximum number of machines of the stack, which a file cannot raise.
    pub most: Option<u32>,
    pub applied_at: Option<Time>,
    /// A different file, with its name.
    pub new: Option<(String, PoolFile)>,
    /// The lines to replay with that file, if they differ.
    pub new_lines: Option<&'a [Line]>,
    pub trial: Option<Trial>,
    pub pool: Option<PoolName>,
    pub seed: u64,
}

impl SimulationInput<'_> {
    /// Returns the files to replay in addition to the one in force.
    ///
    /// # Errors
    /// Explains what the trial lacks.
    fn trials(&self) -> Result<Option<(PoolName, Vec<PoolFile>)>, String> {
        let Some(trial) = &self.trial else { return Ok(None) };
        let base = self.new.as_ref().map_or(&self.in_force, |(_, file)| file);
        let of = match (&self.pool, base.pools.as_slice()) {
            (Some(pool), _) => pool.clone(),
            (None, [only]) => only.name.clone(),
            (None, _) => return Err("--try changes one pool. Pass --pool.".to_owned()),
        };
        let with = |value: &TrialValue| {
            let mut file = base.clone();
            let pool = file.pools.iter_mut().find(|pool| pool.name == of);
            let pool = pool.ok_or_else(|| format!("There is no pool {of} in the file."))?;
            match *value {
                TrialValue::Max(max) => pool.max = max,
                TrialValue::MinIdle(min_idle) => pool.min_idle = min_idle,
                TrialValue::Market(market) => pool.market = market,
                TrialValue::RerunOnInterruption(reruns) => {
                    let policy = if reruns { RerunPolicy::Interrupted } else { RerunPolicy::Off };
                    pool.rerun_on_interruption = Some(policy);
                }
            }
            if pool.min_idle > 0 && pool.entity.is_none() {
                return Err(format!(
                    "{of} cannot keep runners idle: it has no entity to register them at. Set its \
                    entity in a file, with --pools."
                ));
            }
            if pool.min_idle > pool.max {
                let (idle, max) = (pool.min_idle, pool.max);
                return Err(format!("{of} cannot keep {idle} runners idle with a max of {max}."));
            }
            Ok(file)
        };
        let files: Result<Vec<PoolFile>, String> = trial.values.iter().map(with).collect();
        files.map(|files| Some((of, files)))
    }

    /// Runs all replays.
    ///
    /// # Errors
    /// Explains what the input lacks.
    pub fn answer(self) -> Result<Simulation, String> {
        let trials = self.trials()?;
        let has = |file: &PoolFile| {
            self.pool.as_ref().is_none_or(|pool| file.pools.iter().any(|one| one.name == *pool))
        };
        let files = [Some(&self.in_force), self.new.as_ref().map(|(_, file)| file)];
        if !files.into_iter().flatten().any(has) {
            return Err(format!(
                "There is no pool {}.",
                self.pool.as_ref().map_or("", |it| it.as_str())
            ));
        }
        let only = self.pool.clone().map_or(Only::All, Only::Pool);
        let replay = Replay::of(self.lines);
        let mut all = vec![self.in_force.clone()];
        all.extend(self.new.iter().map(|(_, file)| file.clone()));
        all.extend(trials.iter().flat_map(|(_, files)| files.clone()));
        for file in &mut all {
            file.limits = mem::take(&mut file.limits).below(self.most);
        }
        let outcomes = match self.new_lines.zip(all.get(1)) {
            None => replay.run_all(&all, self.seed, &only),
            Some((lines, file)) => {
                let new = Replay::of(lines).run(file, self.seed, &only);
                let mut outcomes = replay.run_all(&all[..1], self.seed, &only);
                outcomes.push(new);
                outcomes
            }
        };
        Ok(self.told(&replay, trials.map(|(of, _)| of), &outcomes, &only))
    }

    fn gone(&self) -> Vec<PoolName> {
        let has = |name: &PoolName| self.in_force.pools.iter().any(|pool| pool.name == *name);
        let of_machines = self.lines.iter().filter(|line| line.machine.is_some());
        let gone = of_machines.filter_map(|line| line.pool.clone()).filter(|name| !has(name));
        gone.collect::<BTreeSet<PoolName>>().into_iter().collect()
    }

    fn told(
        self,
        replay: &Replay,
        of: Option<PoolName>,
        all: &[Outcome],
        only: &Only,
    ) -> Simulation {
        let figures: Vec<Figures> = all.iter().map(|one| Figures::of(&one.measured)).collect();
        let real = Figures::of(&Measured::of(self.lines, only));
        let predicted = figures.first().copied().unwrap_or_default();
        let mut names = vec!["the file in force".to_owned()];
        names.extend(self.new.iter().map(|(name, _)| name.clone()));
        let trial = self.trial.as_ref();
        names.extend(
            trial.iter().flat_map(|trial| {
                trial.values.iter().map(|value| format!("{}={value}", trial.field))
            }),
        );
        let broken = names.into_iter().zip(all).filter_map(|(name, one)| {
            let broken = one.violation.as_ref()?;
            Some((name, format!("{}: {}", broken.rule, broken.what)))
        });
        let begin = self.lines.iter().map(|line| line.since).min().unwrap_or_default();
        let end = self.lines.iter().map(|line| line.at).max().unwrap_or_default();
        let first = 1 + usize::from(self.new.is_some());
        let tried = trial.zip(of).map(|(trial, of)| Tried {
            field: trial.field,
            of,
            rows: rows(&trial.values, figures.get(first..).unwrap_or_default()),
        });
        Simulation {
            from: Date::of(begin),
            to: Date::of(end),
            jobs: replay.jobs.len(),
            applied_at: self.applied_at.filter(|at| *at > begin),
            off: predicted.off(&real),
            gone: self.gone(),
            real,
            predicted,
            broken: broken.collect(),
            new: self.new.map(|(name, _)| name).zip(figures.get(1).copied()),
            tried,
            pool: self.pool,
            seed: self.seed,
        }
    }
}

/// Returns the rows of a trial. A row is beaten by one that costs less and has waits as short.
fn rows(values: &[TrialValue], figures: &[Figures]) -> Vec<TrialRow> {
    let is_as_short = |one: &Figures, other: &Figures| {
        let limit = |wait: Option<u64>| wait.map(|wait| wait + wait * EQUAL / 100);
        one.unserved <= other.unserved
            && one.p95.zip(limit(other.p95)).is_some_and(|(one, other)| one <= other)
    };
    // A row without prices costs an unknown amount.
    let is_unpriced = |one: &Figures| one.machines > 0 && one.unpriced == one.machines;
    let is_beaten = |own: &Figures| {
        let costs_less =
            |other: &Figures| !is_unpriced(other) && (is_unpriced(own) || other.money < own.money);
        figures.iter().any(|other| costs_less(other) && is_as_short(other, own))
    };
    let row = |(value, own): (&TrialValue, &Figures)| TrialRow {
        value: *value,
        figures: *own,
        is_unbeaten: !is_beaten(own),
    };
    values.iter().zip(figures).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_names_a_field_and_its_values() {
        for (text, values) in [
            ("min_idle=0..3", "0 1 2 3"),
            ("max=10..=11", "10 11"),
            ("max=10,20,40", "10 20 40"),
            ("min_idle=2", "2"),
            ("market=on-demand, spot-then-on-demand,spot", "on-demand spot-then-on-demand spot"),
            ("rerun_on_interruption=false,true", "false true"),
        ] {
            let trial: Trial = text.parse().expect(text);
            let told: Vec<String> = trial.values.iter().map(ToString::to_string).collect();
            assert_eq!(told.join(" "), values);
        }
        for wrong in [
            "",
            "min_idle",
            "idle=1..2",
            "max=0..2",
            "max=3..1",
            "max=a",
            "max=1..99",
            "market=cheap",
            "market=",
            "rerun_on_interruption=all",
        ] {
            assert!(wrong.parse::<Trial>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_row_is_beaten_by_a_cheaper_one_that_waits_no_longer() {
        let of = |money, p95| Figures { money, p95: Some(p95), ..Figures::default() };
        let figures = [of(100, 92_000), of(150, 15_000), of(190, 4_000), of(250, 3_990)];
        let unbeaten: Vec<bool> = rows(&[0, 2, 3, 5].map(TrialValue::MinIdle), &figures)
            .iter()
            .map(|row| row.is_unbeaten)
            .collect();
        assert_eq!(unbeaten, [true, true, true, false], "3.99 s are 4 s");
        let unpriced = Figures { machines: 7, unpriced: 7, ..of(0, 1_000) };
        let values = [1, 2].map(TrialValue::Max);
        let unbeaten = rows(&values, &[unpriced, of(100, 1_000)]);
        assert_eq!([unbeaten[0].is_unbeaten, unbeaten[1].is_unbeaten], [false, true]);
        let late = Figures { unserved: 9, ..of(50, 1_000) };
        let values = [1, 2].map(TrialValue::MinIdle);
        assert!(rows(&values, &[late, of(100, 2_000)]).iter().all(|row| row.is_unbeaten));
    }

    #[test]
    fn what_is_further_off_than_a_twentieth_is_told() {
        let real = Figures { money: 100, p95: Some(100), machines: 100, ..Figures::default() };
        let near = Figures { money: 95, p95: Some(105), machines: 100, ..Figures::default() };
        assert_eq!(near.off(&real), []);
        let far = Figures { money: 80, p50: Some(1), ..near };
        assert_eq!(far.off(&real), [("dollars", 20)]);
    }
}
