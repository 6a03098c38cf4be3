//! `simulate --seeds N --from S [--day] [--trace]`: runs seeds, stops at the first that breaks an invariant.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use sim::fault::{Counts, Fault};
use sim::run::{self, Outcome};
use sim::schedule::Length;

struct Arguments {
    seeds: u64,
    from: u64,
    length: Length,
    trace: bool,
    keep_going: bool,
}

fn arguments() -> Result<Arguments, String> {
    let mut read =
        Arguments { seeds: 1000, from: 0, length: Length::Short, trace: false, keep_going: false };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || {
            let value = words.next().ok_or(format!("{word} takes a number"))?;
            value.parse().map_err(|_| format!("{word}: {value:?} is no number"))
        };
        match word.as_str() {
            "--seeds" => read.seeds = number()?,
            "--from" => read.from = number()?,
            "--day" => read.length = Length::Day,
            "--trace" => read.trace = true,
            "--keep-going" => read.keep_going = true,
            other => return Err(format!("unknown argument {other:?}")),
        }
    }
    Ok(read)
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(problem) => {
            let _ = writeln!(
                std::io::stderr(),
                "{problem}\nusage: simulate --seeds N --from S [--day] [--trace] [--keep-going]"
            );
            return ExitCode::from(2);
        }
    };
    let mut out = std::io::stdout().lock();
    match simulate(&arguments, &mut out) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) | Err(_) => ExitCode::FAILURE,
    }
}

fn simulate(arguments: &Arguments, out: &mut impl std::io::Write) -> std::io::Result<bool> {
    let begun = Instant::now();
    let mut counts = Counts::default();
    let mut failed = 0;
    let mut steps = 0;
    let mut tallies = sim::world::Tally::default();
    for number in 0..arguments.seeds {
        let seed = arguments.from + number;
        let outcome = run::run(seed, arguments.length, arguments.trace);
        counts.merge(&outcome.counts);
        steps += outcome.steps;
        tallies.add(&outcome.tally);
        if arguments.trace {
            write!(out, "{}", outcome.trace)?;
        }
        if outcome.violation.is_some() {
            failed += 1;
            tell(&outcome, arguments, out)?;
            if !arguments.keep_going {
                return Ok(false);
            }
        }
        if (number + 1) % 1000 == 0 {
            let rate = (number + 1) as f64 / begun.elapsed().as_secs_f64();
            writeln!(out, "{} seeds, {failed} failed, {rate:.0} seeds/s", number + 1)?;
        }
    }
    let took = begun.elapsed();
    writeln!(out, "{} seeds in {took:.1?}, {steps} events, {failed} failed", arguments.seeds)?;
    for fault in Fault::ALL {
        writeln!(out, "{:>24} {:>9}", fault.word(), counts.of(*fault))?;
    }
    writeln!(out, "{tallies:#?}")?;
    Ok(failed == 0)
}

fn tell(
    outcome: &Outcome,
    arguments: &Arguments,
    out: &mut impl std::io::Write,
) -> std::io::Result<()> {
    let Some(violation) = &outcome.violation else { return Ok(()) };
    let day = if arguments.length == Length::Day { " --day" } else { "" };
    writeln!(out, "seed {}: {} broken: {}", outcome.seed, violation.rule, violation.what)?;
    writeln!(
        out,
        "  replay: cargo run -p sim --bin simulate -- --seeds 1 --from {}{day} --trace",
        outcome.seed
    )
}
