//! Arguments of the commands that show something.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use muster_domain::ids::{Entity, PoolName};
use muster_domain::time::{Seconds, Time};
use muster_domain::usage::{By, Date};

use crate::simulate::Trial;
use crate::words::read_span;

#[derive(Clone, Debug, Args)]
pub struct DoctorArgs {
    /// Also compare every resource with the template through CloudFormation; takes a minute or two
    #[arg(long)]
    pub deep: bool,
    /// Launch one test machine that no job needs, follow it until it ends, and report what it shows (asks first)
    #[arg(long, conflicts_with = "deep")]
    pub canary: bool,
    #[command(flatten)]
    pub order: CanaryArgs,
}

#[derive(Clone, Debug, Args)]
pub struct CanaryArgs {
    /// Pool of the test machine [default: the only pool]
    #[arg(long, requires = "canary")]
    pub pool: Option<PoolName>,
    /// Where to register its runner, for a pool that registers runners where its jobs are
    #[arg(long, requires = "canary", value_name = "OWNER|OWNER/REPO")]
    pub entity: Option<Entity>,
    /// Boot the launch template's image instead of the one that Muster built, to compare the two
    #[arg(long, requires = "canary")]
    pub template_image: bool,
    /// Your name, recorded in the audit log [default: $USER]
    #[arg(long, env = "USER", hide_env = true)]
    pub by: Option<String>,
    /// Skip the confirmation prompt
    #[arg(long, short, requires = "canary")]
    pub yes: bool,
}

#[derive(Clone, Debug, Args)]
pub struct CostsArgs {
    /// Start: a time span, for example `30d`, or a day, for example `2026-11-01`
    #[arg(long, default_value = "30d", value_name = "SPAN|DAY")]
    pub since: Since,
    /// Last day [default: today]
    #[arg(long, value_name = "DAY")]
    pub until: Option<Date>,
    /// Group rows by `repository`, `workflow`, `job`, `pull-request`, `actor`, `pool`, `type`, `attempt` or `day`
    #[arg(long, default_value = "repository", value_parser = by, value_name = "WHAT")]
    pub by: By,
    /// Show only this pool
    #[arg(long)]
    pub pool: Option<PoolName>,
    /// Show only this repository
    #[arg(long, value_name = "OWNER/REPO")]
    pub repository: Option<String>,
    /// Divide idle and wasted cost among the jobs of the same pool and day, by their duration
    #[arg(long)]
    pub spread: bool,
    /// Print one row per machine, with what its job waited for; with --json, one JSON object per line
    #[arg(long, conflicts_with_all = ["by", "spread", "prices"])]
    pub rows: bool,
    /// Print CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// File with your own prices, in dollars per hour by type, discount factors, and GitHub's rates: see docs/usage.md
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub struct SimulateArgs {
    /// Start: a time span, for example `30d`, or a day, for example `2026-11-01`
    #[arg(long, default_value = "30d", value_name = "SPAN|DAY")]
    pub since: Since,
    /// Read usage records from a file written by `muster costs --rows --json`
    #[arg(long, value_name = "FILE", conflicts_with = "since")]
    pub lines: Option<PathBuf>,
    /// Pool file to try
    #[arg(long, value_name = "FILE")]
    pub pools: Option<PathBuf>,
    /// Compare values of `max` or `min_idle`, for example `min_idle=0..5` or `max=10,20,40`
    #[arg(long = "try", value_name = "FIELD=A..B")]
    pub trial: Option<Trial>,
    /// Count only this pool, and apply --try to it [default: count all pools; --try needs a single pool]
    #[arg(long)]
    pub pool: Option<PoolName>,
    /// Random seed: the same seed gives the same result
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
}

#[derive(Clone, Debug, Args)]
pub struct RightsizeArgs {
    /// Start: a time span, for example `30d`, or a day, for example `2026-11-01`
    #[arg(long, default_value = "30d", value_name = "SPAN|DAY")]
    pub since: Since,
}

/// The start of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// A time span before now.
    Span(Seconds),
    /// A day, UTC.
    Day(Date),
}

impl Since {
    /// Returns the first day of the period: `1d` is today.
    #[must_use]
    pub fn day(self, now: Time) -> Date {
        const DAY: u32 = 86_400;
        match self {
            Self::Span(Seconds(span)) => Date::of(now - Seconds(span.saturating_sub(DAY))),
            Self::Day(day) => day,
        }
    }
}

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(day) => Ok(Self::Day(day)),
            Err(_) => read_span(text).map(Self::Span).map_err(|_| {
                format!("{text:?} is neither a time span such as 30d nor a day such as 2026-11-01")
            }),
        }
    }
}

/// Parses a grouping by the names that the admin API uses.
fn by(text: &str) -> Result<By, String> {
    serde_json::from_value(serde_json::json!(text)).map_err(|_| {
        let known = "repository, workflow, job, pull-request, actor, pool, type, attempt, day";
        format!("{text:?} is not one of {known}")
    })
}

/// Options that limit a list.
#[derive(Clone, Debug, Args)]
pub struct ListingArgs {
    /// Show only this pool
    #[arg(long)]
    pub pool: Option<PoolName>,
    /// Show only rows that contain this text (case-insensitive)
    #[arg(long, value_name = "TEXT")]
    pub find: Option<String>,
    /// Maximum number of rows [default: 200 on a terminal, otherwise all]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
}

#[derive(Clone, Debug, Args)]
pub struct ReportArgs {
    /// Start: a time span, for example `7d`, or a day, for example `2026-11-01`
    #[arg(long, default_value = "7d", value_name = "SPAN|DAY")]
    pub since: Since,
}

#[derive(Clone, Debug, Args)]
pub struct UiArgs {
    /// Port to listen on [default: any free port]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Show everything but allow no orders
    #[arg(long)]
    pub read_only: bool,
    /// Print the address instead of opening a browser
    #[arg(long)]
    pub no_open: bool,
    /// Your name, recorded in the audit log [default: $USER]
    #[arg(long, env = "USER", hide_env = true)]
    pub by: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub struct LogsArgs {
    /// `webhook`, `scale-up`, `reaper`, `runner-api`, `admin` or `api` (the access log); or any name of a job, an
    /// instance or a machine [default: all]
    #[arg(value_name = "FUNCTION|NAME")]
    pub what: Option<String>,
    /// Show the log that the machine uploaded before it ended: boot, agent and worker
    #[arg(long, short, requires = "what", conflicts_with_all = ["follow", "since"])]
    pub machine: bool,
    /// Keep printing new lines
    #[arg(long, short)]
    pub follow: bool,
    /// Time span, for example `90s`, `15m`, `2h` or `1d`
    #[arg(long, default_value = "1h", value_parser = read_span)]
    pub since: Seconds,
}
