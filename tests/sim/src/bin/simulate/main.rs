//! `simulate`: runs days of the simulated cloud, one a seed, and stops at the first that breaks an
//! invariant. Or tells a scenario over and over, with one call gone wrong each time.

mod arguments;
mod progress;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use muster_sim::many::run_many;
use muster_sim::run::{SeedOutcome, play};
use muster_sim::scenario::{Disturbance, disturb_each, tell as tell_story};
use muster_sim::schedule::Plan;
use muster_sim::shrink::shrink;
use muster_sim::summary::Summary;
use muster_sim::totals::Totals;

use crate::arguments::{Arguments, USAGE};
use crate::progress::Progress;

/// How much of a shrunk trace is shown: its end.
const LINES_SHOWN: usize = 300;
/// How often a story tells how far it is.
const BETWEEN_LINES: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let arguments = match Arguments::read(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(problem) => {
            let _ = writeln!(io::stderr(), "{problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match simulate(&arguments, &mut io::stdout().lock()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) | Err(_) => ExitCode::FAILURE,
    }
}

fn simulate(arguments: &Arguments, out: &mut impl Write) -> io::Result<bool> {
    if let Some(file) = &arguments.story {
        return disturb(file, arguments, out);
    }
    if arguments.trace {
        return trace(arguments, out);
    }
    let seeds = arguments.from..arguments.from + arguments.seeds;
    let mut progress = Progress::new(arguments.seeds);
    let plan = |seed| plan(seed, arguments);
    let stop = !arguments.keep_going;
    let (totals, failed) =
        run_many(seeds, arguments.threads, stop, plan, |totals| progress.show(totals));
    progress.end();
    if arguments.keep_going {
        for outcome in &failed {
            tell(outcome, arguments, out)?;
        }
    } else if let Some(outcome) = failed.first() {
        tell(outcome, arguments, out)?;
        if arguments.shrink {
            tell_shrunk(outcome, arguments, out)?;
        }
    }
    write!(out, "{}{}", totals.faults(), totals.summary())?;
    if let Some(file) = &arguments.record {
        std::fs::write(file, record(arguments, &totals))?;
    }
    let complaints = totals.complaints(&arguments.without);
    for complaint in &complaints {
        writeln!(out, "FAILED: {complaint}")?;
    }
    let (took, cpu) = (progress.elapsed().as_secs_f64(), cpu_seconds());
    let rate = totals.seeds as f64 / took.max(0.001);
    let cpu = cpu.map(|cpu| format!(", {:.1} ms CPU a seed", cpu * 1e3 / totals.seeds as f64));
    writeln!(
        out,
        "{} seeds from {}, 24 virtual hours each, {} events, {} failed: {took:.1} s, \
         {rate:.0} schedules/s{}",
        totals.seeds,
        arguments.from,
        totals.steps,
        totals.failed,
        cpu.unwrap_or_default()
    )?;
    Ok(complaints.is_empty())
}

/// The day of a seed, without the faults that are left out.
fn plan(seed: u64, arguments: &Arguments) -> Plan {
    Plan::of(seed).without(&arguments.without)
}

/// A scenario, with each of its calls gone wrong in turn, or each pair of them.
fn disturb(file: &Path, arguments: &Arguments, out: &mut impl Write) -> io::Result<bool> {
    let text = std::fs::read_to_string(file)
        .inspect_err(|error| _ = writeln!(io::stderr(), "{}: {error}", file.display()))?;
    // Disturbed, a story leaves out what it cannot do. So it must hold undisturbed.
    if let Err(problem) = tell_story(&text, None) {
        let what = problem.lines().next().unwrap_or_default();
        writeln!(out, "undisturbed: story broken: {what}")?;
        writeln!(io::stderr(), "{}: {problem}", file.display())?;
        return Ok(false);
    }
    let mut shown = Instant::now();
    let watch = |told: usize, _: &[Disturbance], _: &Summary| {
        if shown.elapsed() >= BETWEEN_LINES {
            shown = Instant::now();
            let _ = writeln!(io::stderr(), "told {told} times");
        }
    };
    match disturb_each(&text, if arguments.twice { 2 } else { 1 }, watch) {
        Ok(times) => writeln!(out, "told {times} times, nothing broken")?,
        Err(broken) => {
            if arguments.trace {
                write!(out, "{}", broken.trace)?;
            }
            let tell = |one: &Disturbance| format!("call {}, {:?}", one.call, one.way);
            let told: Vec<String> = broken.disturbances.iter().map(tell).collect();
            writeln!(out, "{}: {}", told.join("; "), broken.what)?;
            return Ok(false);
        }
    }
    Ok(true)
}

/// Everything that happens, seed by seed.
fn trace(arguments: &Arguments, out: &mut impl Write) -> io::Result<bool> {
    for seed in arguments.from..arguments.from + arguments.seeds {
        let outcome = play(seed, &plan(seed, arguments), true);
        write!(out, "{}", outcome.trace)?;
        if outcome.violation.is_some() {
            tell(&outcome, arguments, out)?;
            return Ok(false);
        }
    }
    Ok(true)
}

fn tell(outcome: &SeedOutcome, arguments: &Arguments, out: &mut impl Write) -> io::Result<()> {
    let Some(violation) = &outcome.violation else { return Ok(()) };
    let seed = outcome.seed;
    writeln!(out, "seed {seed}: {} broken: {}", violation.rule, violation.what)?;
    write!(
        out,
        "  replay: cargo run --profile fast -p muster-sim --bin simulate -- --trace --seeds 1 --from {seed}"
    )?;
    for fault in &arguments.without {
        write!(out, " --without {}", fault.as_str())?;
    }
    writeln!(out)
}

fn tell_shrunk(
    outcome: &SeedOutcome,
    arguments: &Arguments,
    out: &mut impl Write,
) -> io::Result<()> {
    let Some(shrunk) = shrink(outcome.seed, &plan(outcome.seed, arguments)) else {
        return Ok(());
    };
    writeln!(out, "\nthe same broken in a shorter day:\n{}", shrunk.plan.tell())?;
    let lines: Vec<&str> = shrunk.outcome.trace.lines().collect();
    let cut = lines.len().saturating_sub(LINES_SHOWN);
    if cut > 0 {
        writeln!(out, "({cut} lines before)")?;
    }
    writeln!(out, "{}\n", lines[cut..].join("\n"))
}

/// What a run has shown, the same for the same code wherever and however fast it ran.
fn record(arguments: &Arguments, totals: &Totals) -> String {
    let (from, to) = (arguments.from, arguments.from + arguments.seeds);
    format!(
        "seeds {from}..{to}: {} days of 24 virtual hours, {} events\n\n{}\n{}",
        totals.seeds,
        totals.steps,
        totals.summary(),
        totals.faults()
    )
}

/// Processor time of all threads so far, where the system tells.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // After the program's name in brackets; user and system time are the 12th and 13th word from
    // there, in ticks.
    let words: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = words.get(11)?.parse::<f64>().ok()? + words.get(12)?.parse::<f64>().ok()?;
    Some(ticks / 100.0)
}
