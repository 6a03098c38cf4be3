//! Measures the release binaries of the functions and prints the numbers beside the goals.
//!
//! Each function runs as Lambda runs it: a process that asks a Runtime API for events. That API,
//! AWS and GitHub are stubs in this program, over TLS with the system's trusted roots plus our own,
//! and answer at once: what is measured is the function. Numbers of one run can be compared with
//! each other, and with another run on the same quiet machine; they are not Lambda's.
//!
//! The functions are taken from where `make build` left them, or all from the folder that
//! `MUSTER_BIN` names.
//!
//! `muster-bench [--rounds N] [--events N] [--only NAME] [--asleep] [RESULT.json]`
//!
//! `--asleep` lets idle cores sleep, see [`awake`].

mod awake;
mod function;
mod handler;
mod http;
mod measure;
mod process;
mod report;
mod runtime_api;
mod stubs;
mod tls;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};

use crate::awake::Awake;
use crate::function::Function;
use crate::measure::Bench;
use crate::report::Report;

/// What the command line asks for.
struct Options {
    /// Cold starts per function.
    rounds: usize,
    /// Warm events per function.
    events: usize,
    /// Idle cores may sleep.
    asleep: bool,
    /// One function only.
    only: Option<String>,
    /// Where the result goes as JSON.
    output: Option<PathBuf>,
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(awake::SPIN) {
        awake::spin();
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Missed goals are printed, not failed: the machine may be busy. What does not run at all is an
/// error.
fn run() -> anyhow::Result<()> {
    let options = read_options(std::env::args().skip(1))?;
    let bench = Bench::start(Binaries::find()?, options.rounds, options.events)?;
    let _awake = if options.asleep { None } else { Some(Awake::start()?) };
    let mut report = Report::default();
    for function in function::all() {
        if options.only.as_ref().is_some_and(|only| only != function.name) {
            continue;
        }
        bench
            .measure(&function, &mut report)
            .with_context(|| format!("measuring {}", function.name))?;
    }
    if options.only.as_deref().is_none_or(|only| only == "webhook") {
        handler::measure(&mut report)?;
    }
    report.print();
    if let Some(path) = options.output {
        report.write(&path).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// Where the functions are.
pub(crate) enum Binaries {
    /// All in one folder.
    Folder(PathBuf),
    /// In Cargo's target folder, each under the profile that it is deployed from.
    Target(PathBuf),
}

impl Binaries {
    fn find() -> anyhow::Result<Self> {
        if let Some(folder) = std::env::var_os("MUSTER_BIN") {
            return Ok(Self::Folder(folder.into()));
        }
        let own = std::env::current_exe().context("own path")?;
        let target = own.parent().and_then(Path::parent).context("target folder")?;
        Ok(Self::Target(target.to_owned()))
    }

    /// The program of a function.
    pub(crate) fn of(&self, function: &Function) -> PathBuf {
        let name = format!("muster-{}", function.binary);
        match self {
            Self::Folder(folder) => folder.join(name),
            Self::Target(target) => target.join(function.profile).join(name),
        }
    }
}

fn read_options(arguments: impl Iterator<Item = String>) -> anyhow::Result<Options> {
    let mut options = Options { rounds: 15, events: 5000, asleep: false, only: None, output: None };
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--asleep" => options.asleep = true,
            "--rounds" => options.rounds = value()?.parse().context("--rounds")?,
            "--events" => options.events = value()?.parse().context("--events")?,
            "--only" => options.only = Some(value()?),
            path if !path.starts_with('-') => options.output = Some(path.into()),
            other => bail!("unknown option {other}"),
        }
    }
    if options.rounds == 0 || options.events < 500 {
        bail!("at least one round and 500 events");
    }
    Ok(options)
}
