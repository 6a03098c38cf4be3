//! What days would have cost with other pools: the stack's own passes in the simulated cloud, on the jobs of real lines.
//! No I/O: lines and pool files come in, figures go out.

mod file;

use std::collections::BTreeSet;
use std::mem;
use std::str::FromStr;

use muster_domain::ids::PoolName;
use muster_domain::pool_file::PoolFile;
use muster_domain::time::Time;
use muster_domain::usage::{Date, Line};
pub use muster_sim::replay::owner;
use muster_sim::replay::{Measured, Only, Outcome, Replay};
use serde::Serialize;

pub use self::file::read as read_file;

/// Most values of one trial: each is a replay of its own.
const MOST_VALUES: usize = 24;
/// From here on the model is said to be off, in hundredths.
const OFF: u64 = 5;
/// Waits that differ by less are equal: chance alone makes as much. In hundredths.
const EQUAL: u64 = 2;

/// What `--try` changes, and to what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    pub field: Field,
    pub values: Vec<u32>,
}

/// A field of a pool's `limits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Field {
    Max,
    MinIdle,
}

impl Field {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Max => "max",
            Self::MinIdle => "min_idle",
        }
    }
}

impl FromStr for Trial {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is no trial; one looks like min_idle=0..5, max=20..30 or max=10,20,40"
            )
        };
        let (field, values) = text.split_once('=').ok_or_else(wrong)?;
        let field = match field {
            "max" => Field::Max,
            "min_idle" => Field::MinIdle,
            _ => return Err(wrong()),
        };
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
        let values: Vec<u32> = match values.split_once("..") {
            Some((from, to)) => {
                let to = number(to.trim_start_matches('='))?;
                (number(from)?..=to).take(MOST_VALUES + 1).collect()
            }
            None => values.split(',').map(number).collect::<Result<_, _>>()?,
        };
        if values.is_empty() || (field == Field::Max && values.contains(&0)) {
            return Err(wrong());
        }
        if values.len() > MOST_VALUES {
            return Err(format!(
                "more than {MOST_VALUES} values are too many; name some: {}=10,20,40",
                field.name()
            ));
        }
        Ok(Self { field, values })
    }
}

/// All that is told of it.
#[derive(Clone, Debug, Serialize)]
pub struct Told {
    /// The first day and the last.
    pub from: Date,
    pub to: Date,
    /// The pool that all of it is about; none: the stack.
    pub pool: Option<PoolName>,
    /// Decides what is drawn.
    pub seed: u64,
    /// Jobs that were replayed.
    pub jobs: usize,
    /// When the file in force was applied, if that was in this time.
    pub applied_at: Option<Time>,
    /// What happened, and what the model says of it with the file in force.
    pub real: Figures,
    pub predicted: Figures,
    /// How far the model is off in what is furthest, in hundredths; only what is more than five.
    pub off: Vec<(&'static str, u64)>,
    /// Pools that had machines in these days, and are not in the file in force.
    pub gone: Vec<PoolName>,
    /// With another file, by its name.
    pub new: Option<(String, Figures)>,
    /// With other values.
    pub tried: Option<Tried>,
    /// Rules of the simulator's judge that broke, with what was replayed.
    pub broken: Vec<(String, String)>,
}

/// Money is in millionths of a dollar, waits are in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    pub money: u64,
    pub p50: Option<u64>,
    pub p95: Option<u64>,
    pub p99: Option<u64>,
    pub machines: u64,
    /// Machines whose type has no price: not in the money.
    pub unpriced: u64,
    /// Jobs that had no runner: they wait at the end, or waited for a day.
    pub unserved: u64,
}

/// One row for each value.
#[derive(Clone, Debug, Serialize)]
pub struct Tried {
    pub field: Field,
    pub of: PoolName,
    pub rows: Vec<Row>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Row {
    pub value: u32,
    #[serde(flatten)]
    pub figures: Figures,
    /// No other row costs less and has waits as short.
    pub is_unbeaten: bool,
}

impl Figures {
    fn of(measured: &Measured) -> Self {
        let wait = |part| measured.wait(part);
        Self {
            money: measured.money,
            p50: wait(50),
            p95: wait(95),
            p99: wait(99),
            machines: measured.machines,
            unpriced: measured.unpriced,
            unserved: measured.unserved,
        }
    }

    /// In hundredths of what was, where that is more than a few.
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

/// What is to be replayed.
#[derive(Debug)]
pub struct Question<'a> {
    pub lines: &'a [Line],
    pub in_force: PoolFile,
    /// Most machines of the stack, whatever a file says.
    pub most: Option<u32>,
    pub applied_at: Option<Time>,
    /// Another file, with its name.
    pub new: Option<(String, PoolFile)>,
    pub trial: Option<Trial>,
    pub pool: Option<PoolName>,
    pub seed: u64,
}

impl Question<'_> {
    /// The files to replay besides the one in force.
    ///
    /// # Errors
    /// What the trial lacks.
    fn trials(&self) -> Result<Option<(PoolName, Vec<PoolFile>)>, String> {
        let Some(trial) = &self.trial else { return Ok(None) };
        let base = self.new.as_ref().map_or(&self.in_force, |(_, file)| file);
        let of = match (&self.pool, base.pools.as_slice()) {
            (Some(pool), _) => pool.clone(),
            (None, [only]) => only.name.clone(),
            (None, _) => return Err("Which pool is --try about? Give --pool.".to_owned()),
        };
        let with = |value: &u32| {
            let mut file = base.clone();
            let pool = file.pools.iter_mut().find(|pool| pool.name == of);
            let pool = pool.ok_or_else(|| format!("There is no pool {of} in the file."))?;
            match trial.field {
                Field::Max => pool.max = *value,
                Field::MinIdle => pool.min_idle = *value,
            }
            if pool.min_idle > 0 && pool.entity.is_none() {
                return Err(format!(
                    "{of} keeps no runner idle: it has no entity where those are registered. Give it one in a file, with --pools."
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

    /// Replays all of it.
    ///
    /// # Errors
    /// What the question lacks.
    pub fn answer(self) -> Result<Told, String> {
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
        let outcomes = replay.run_all(&all, self.seed, &only);
        Ok(self.told(&replay, trials.map(|(of, _)| of), &outcomes, &only))
    }

    fn gone(&self) -> Vec<PoolName> {
        let has = |name: &PoolName| self.in_force.pools.iter().any(|pool| pool.name == *name);
        let of_machines = self.lines.iter().filter(|line| line.machine.is_some());
        let gone = of_machines.filter_map(|line| line.pool.clone()).filter(|name| !has(name));
        gone.collect::<BTreeSet<PoolName>>().into_iter().collect()
    }

    fn told(self, replay: &Replay, of: Option<PoolName>, all: &[Outcome], only: &Only) -> Told {
        let figures: Vec<Figures> = all.iter().map(|one| Figures::of(&one.measured)).collect();
        let real = Figures::of(&Measured::of(self.lines, only));
        let predicted = figures.first().copied().unwrap_or_default();
        let mut names = vec!["the file in force".to_owned()];
        names.extend(self.new.iter().map(|(name, _)| name.clone()));
        let trial = self.trial.as_ref();
        names.extend(trial.iter().flat_map(|trial| {
            trial.values.iter().map(|value| format!("{}={value}", trial.field.name()))
        }));
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
        Told {
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

/// A row is beaten by one that costs less, and whose waits are as short.
fn rows(values: &[u32], figures: &[Figures]) -> Vec<Row> {
    let is_as_short = |one: &Figures, other: &Figures| {
        let limit = |wait: Option<u64>| wait.map(|wait| wait + wait * EQUAL / 100);
        one.unserved <= other.unserved
            && one.p95.zip(limit(other.p95)).is_some_and(|(one, other)| one <= other)
    };
    let is_beaten = |own: &Figures| {
        figures.iter().any(|other| other.money < own.money && is_as_short(other, own))
    };
    let row = |(value, own): (&u32, &Figures)| Row {
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
            ("min_idle=0..3", vec![0, 1, 2, 3]),
            ("max=10..=11", vec![10, 11]),
            ("max=10,20,40", vec![10, 20, 40]),
            ("min_idle=2", vec![2]),
        ] {
            assert_eq!(text.parse::<Trial>().expect(text).values, values);
        }
        for wrong in ["", "min_idle", "idle=1..2", "max=0..2", "max=3..1", "max=a", "max=1..99"] {
            assert!(wrong.parse::<Trial>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_row_is_beaten_by_a_cheaper_one_that_waits_no_longer() {
        let of = |money, p95| Figures { money, p95: Some(p95), ..Figures::default() };
        let figures = [of(100, 92_000), of(150, 15_000), of(190, 4_000), of(250, 3_990)];
        let unbeaten: Vec<bool> =
            rows(&[0, 2, 3, 5], &figures).iter().map(|row| row.is_unbeaten).collect();
        assert_eq!(unbeaten, [true, true, true, false], "3.99 s are 4 s");
        let late = Figures { unserved: 9, ..of(50, 1_000) };
        assert!(rows(&[1, 2], &[late, of(100, 2_000)]).iter().all(|row| row.is_unbeaten));
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
