//! The command line.

use std::path::PathBuf;

use muster_sim::fault::Fault;
use muster_sim::many;

pub(crate) const USAGE: &str = "\
usage: simulate [--seeds N] [--from S] [--threads T] [--record FILE] [--without FAULT]…
                [--keep-going] [--no-shrink] [--trace]
       simulate --story FILE [--twice] [--trace]

  --seeds N         how many days to run, one a seed (1000)
  --from S          the first seed (0)
  --threads T       as many as there are cores
  --record FILE     write seed range, counters and zeros as text: the same for the same code
  --without FAULT   leave a kind of fault out; `all` leaves out every kind
  --keep-going      tell every failing seed instead of stopping at the first
  --no-shrink       do not look for a shorter day with the same failure
  --trace           print everything that happens
  --story FILE      tell a scenario with each of its calls gone wrong in turn, and stop at the first broken rule
  --twice           two calls in each telling";

/// What is asked for.
pub(crate) struct Arguments {
    pub(crate) seeds: u64,
    pub(crate) from: u64,
    pub(crate) threads: usize,
    pub(crate) record: Option<PathBuf>,
    pub(crate) without: Vec<Fault>,
    pub(crate) trace: bool,
    pub(crate) keep_going: bool,
    pub(crate) shrink: bool,
    pub(crate) story: Option<PathBuf>,
    pub(crate) twice: bool,
}

impl Arguments {
    /// Reads the words after the program's name.
    pub(crate) fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut read = Self {
            seeds: 1000,
            from: 0,
            threads: many::threads(),
            record: None,
            without: Vec::new(),
            trace: false,
            keep_going: false,
            shrink: true,
            story: None,
            twice: false,
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} takes a value"));
            match word.as_str() {
                "--seeds" => read.seeds = number(&value()?)?,
                "--from" => read.from = number(&value()?)?,
                "--threads" => read.threads = usize::try_from(number(&value()?)?).unwrap_or(1),
                "--record" => read.record = Some(value()?.into()),
                "--without" => read.without.extend(faults(&value()?)?),
                "--story" => read.story = Some(value()?.into()),
                "--twice" => read.twice = true,
                "--trace" => read.trace = true,
                "--no-shrink" => read.shrink = false,
                "--keep-going" => read.keep_going = true,
                other => return Err(format!("unknown argument {other:?}")),
            }
        }
        Ok(read)
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is no number"))
}

fn faults(word: &str) -> Result<Vec<Fault>, String> {
    if word == "all" {
        return Ok(Fault::ALL.to_vec());
    }
    let found = Fault::ALL.iter().find(|fault| fault.as_str() == word);
    found.map(|fault| vec![*fault]).ok_or(format!("there is no fault {word:?}"))
}
