//! The command line.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use muster_api::{MIN_REASON, is_reason};
use muster_domain::ids::{Entity, PoolName};
use muster_domain::time::{Seconds, Time};
use muster_domain::usage::{By, Date};
use serde::{Deserialize, Serialize};

use crate::app::{Host, Login, Owner};
use crate::simulate::Trial;
use crate::words::{read_pause, read_span};

/// Operate a Muster stack, which runs each GitHub Actions job on an EC2 machine that it launches for that job.
///
/// An instance is Muster's record of one machine. Where a command takes a NAME, any of these works: an instance name, an
/// EC2 instance ID, a runner name, or the URL of a job or run on GitHub.
///
/// Output goes to stdout, everything else to stderr. When piped, tables are tab-separated.
#[derive(Clone, Debug, Parser)]
#[command(name = "muster", version = env!("MUSTER_VERSION"), max_term_width = 100, after_help = AFTER_HELP)]
pub struct Muster {
    #[command(flatten)]
    pub global: GlobalArgs,
    /// The command to run; `status` if none is given.
    #[command(subcommand)]
    pub command: Option<Command>,
}

const AFTER_HELP: &str = "Examples:
  muster explain https://github.com/acme/app/actions/runs/9912/job/5511   Explain why a job waits
  muster doctor                                                           Find out why no job starts
  muster pause launches --for 2h --reason \"new network\"                  Resumes automatically

Run muster COMMAND --help for a command's options.

Exit codes: 0 success, 1 refused or failed, 2 usage error, 3 doctor found an error, 4 missing credentials or \
     permission";

/// Options that every command accepts.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Stack name [default: $MUSTER_STACK, else "muster", else the only Muster stack in the region]
    #[arg(long, global = true, env = "MUSTER_STACK", hide_env = true)]
    pub stack: Option<String>,
    /// AWS profile [default: same as the AWS CLI]
    #[arg(long, global = true)]
    pub profile: Option<String>,
    /// AWS region [default: same as the AWS CLI]
    #[arg(long, global = true)]
    pub region: Option<String>,
    /// Endpoint to use instead of AWS, for example of `make up` [default: same as the AWS CLI]
    #[arg(long, global = true, value_name = "URL")]
    pub endpoint_url: Option<String>,
    /// Print the response of the stack as JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Colour the output; auto: on a terminal, unless `NO_COLOR` is set
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub color: Color,
    /// Log each AWS request with its request ID
    #[arg(long, short, global = true)]
    pub verbose: bool,
}

/// When to colour the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

/// A command.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Show pools, usage, and anything that needs attention (default)
    Status,
    /// Find out why jobs do not start, with a fix for each problem
    Doctor(DoctorArgs),
    /// List waiting jobs and why they wait, including those that no pool serves or that await approval on GitHub
    Jobs {
        #[command(flatten)]
        listing: ListingArgs,
        /// Import the queued jobs of a repository: jobs from before the webhook worked
        #[arg(long, value_name = "OWNER/REPO", conflicts_with_all = ["pool", "find", "limit"])]
        adopt: Option<Entity>,
    },
    /// Explain why a job is waiting or why a machine is in its current state
    Explain {
        /// Any name of a job or an instance
        name: String,
    },
    /// List live instances
    List {
        #[command(flatten)]
        listing: ListingArgs,
        /// Show only instances in this state, for example `running`
        #[arg(long)]
        state: Option<String>,
    },
    /// Show one instance: history, next step, and who requested which action
    Show {
        /// Any name of an instance or of its job
        name: String,
    },
    /// Show how long machines take from launch to job, phase by phase
    ///
    /// Covers the live machines and those that ended in the last week. Describes each phase, and where to look when it
    /// takes long.
    Phases {
        /// Show only this pool
        #[arg(long)]
        pool: Option<PoolName>,
    },
    /// Show costs by repository, workflow, job, pool, instance type or day
    ///
    /// Uses EC2's Spot prices of the hour and AWS's price list. Days are in UTC.
    Costs(CostsArgs),
    /// Show how long jobs waited for their first step, and why
    Waits {
        /// Start: a time span, for example `7d`, or a day, for example `2026-11-01`
        #[arg(long, default_value = "7d", value_name = "SPAN|DAY")]
        since: Since,
        /// Last day [default: today]
        #[arg(long, value_name = "DAY")]
        until: Option<Date>,
        /// Show only this pool
        #[arg(long)]
        pool: Option<PoolName>,
    },
    /// Replay past jobs against a different pool file to compare cost and wait times
    ///
    /// Replays the current pool file first and compares it with what happened, which shows the error of the model. Uses
    /// the boot times, prices and interruptions of the same days. Does not model EC2's refusals or GitHub's rate limits.
    Simulate(SimulateArgs),
    /// Follow the status and recent log lines live; with NAME, follow one job or machine until it ends
    ///
    /// Press `q` to quit. With NAME, exits when the job or machine ends, with 0 if all went well. Without a terminal,
    /// prints only changes.
    Watch {
        /// Any name of a job or an instance
        name: Option<String>,
    },
    /// Open the web interface in your browser
    ///
    /// The server listens only on this machine and uses your own AWS permissions. It stops on Ctrl-C, or an hour after
    /// the last request.
    Ui(UiArgs),
    /// Write a self-contained HTML report: needs attention, waits and costs
    Report(ReportArgs),
    /// Show the functions' logs; with --machine, the log that a machine uploaded before it ended
    Logs(LogsArgs),
    /// Open a shell on a machine through AWS Session Manager (needs the stack parameter Sessions=yes)
    Connect {
        /// Any name of an instance or of its job
        name: String,
        /// Print the AWS CLI command instead of running it
        #[arg(long)]
        print: bool,
    },
    /// List alarms, firing ones first, and what to do about each
    Alarms {
        /// Describe one alarm, for example `delete-stuck`
        name: Option<String>,
    },
    /// Configure notifications to Slack, Teams or a webhook
    Notices {
        #[command(subcommand)]
        command: Option<NoticesCommand>,
    },
    /// List, inspect or redrive messages in the dead-letter queues
    DeadLetters(DeadLettersArgs),
    /// Show who deleted, forced, refused, paused or applied what, newest first
    Audit {
        /// Show only entries about this instance or machine, about `switches`, or about `pools`
        name: Option<String>,
        /// Time span, for example `2h` or `90d`
        #[arg(long, default_value = "7d", value_parser = read_span)]
        since: Seconds,
    },
    /// Delete an instance and terminate its machine (asks first)
    ///
    /// Refused while a job runs on the machine. Once accepted, no job can start on it, and the reaper does the rest.
    Delete(DeleteArgs),
    /// Pause all launches, the launches of some pools, or all deletes; running jobs continue
    Pause {
        #[command(flatten)]
        switch: SwitchArgs,
        /// Resume automatically after this time, for example `2h` (1m to 30d)
        #[arg(long = "for", value_name = "TIME", value_parser = read_pause)]
        length: Option<Seconds>,
    },
    /// Resume what was paused
    Resume(SwitchArgs),
    /// Show, check, compare and apply the pool file
    Pools {
        #[command(subcommand)]
        command: Option<PoolsCommand>,
    },
    /// Set up Muster in an AWS account and on GitHub, step by step; safe to rerun
    ///
    /// Finds a network, deploys the stack and creates the GitHub App. Every question has a default that Enter accepts. If
    /// it is interrupted, run it again: it checks the account and GitHub, and continues where it stopped.
    Setup(SetupArgs),
    /// Deploy a new release or change parameters (shows the changes and asks)
    Upgrade(UpgradeArgs),
    /// Delete the stack after every machine has ended (asks first)
    ///
    /// Stops launches, waits until the last machine has ended, checks EC2, and only then deletes the stack.
    Teardown(TeardownArgs),
    /// Show, create or connect the GitHub App and manage its webhook
    #[command(name = "github")]
    GitHub {
        /// Your name, recorded in the audit log [default: $USER]
        #[arg(long, env = "USER", hide_env = true, global = true)]
        by: Option<String>,
        #[command(subcommand)]
        command: Option<GitHubCommand>,
    },
    /// Generate shell completions: `eval "$(muster completions bash)"`
    Completions { shell: Shell },
    /// Generate the man page: `muster man | man -l -`
    Man,
}

impl Command {
    /// Returns the command line that continues an interrupted run.
    #[must_use]
    pub const fn resume_command(&self) -> Option<&'static str> {
        match self {
            Self::Setup(_) => Some("muster setup"),
            Self::Teardown(_) => Some("muster teardown"),
            Self::Upgrade(_) => Some("muster upgrade"),
            _ => None,
        }
    }
}

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
    /// Group rows by `repository`, `workflow`, `job`, `pool`, `type` or `day`
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
    /// File with your own prices, in dollars per hour by type, and discount factors: see docs/usage.md
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
    serde_json::from_value(serde_json::json!(text))
        .map_err(|_| format!("{text:?} is not one of repository, workflow, job, pool, type, day"))
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

fn read_reason(text: &str) -> Result<String, String> {
    match is_reason(text) {
        true => Ok(text.to_owned()),
        false => Err(format!("a reason has at least {MIN_REASON} characters")),
    }
}

/// Who gives an order, and why: recorded in the audit log.
#[derive(Clone, Debug, Default, Args)]
pub struct Attribution {
    /// Reason, recorded in the audit log (at least 5 characters)
    #[arg(long, value_parser = read_reason)]
    pub reason: Option<String>,
    /// Your name, recorded in the audit log [default: $USER]
    #[arg(long, env = "USER", hide_env = true)]
    pub by: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub struct DeleteArgs {
    /// Any name of an instance or of its job
    pub name: String,
    #[command(flatten)]
    pub attribution: Attribution,
    /// Stop retrying after three EC2 errors and close the record; the machine goes to the orphan ledger
    #[arg(long)]
    pub force: bool,
    /// Delete even if a job is running on the machine
    #[arg(long)]
    pub kill_running_job: bool,
    /// Continue when GitHub answers 401 or 403
    #[arg(long)]
    pub bypass_github_unauthorized: bool,
    /// Show what would happen without doing it
    #[arg(long)]
    pub dry_run: bool,
    /// Skip the confirmation prompt (requires --reason)
    #[arg(long, short, requires = "reason")]
    pub yes: bool,
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

#[derive(Clone, Debug, Args)]
pub struct DeadLettersArgs {
    /// The queue whose messages to show
    #[arg(value_enum)]
    pub queue: Option<Dead>,
    /// Print the messages without removing them
    #[arg(long, requires = "queue", conflicts_with = "redrive")]
    pub show: bool,
    /// Send the messages back to be processed again (asks first)
    #[arg(long, requires = "queue")]
    pub redrive: bool,
    /// Skip the confirmation prompt
    #[arg(long, short)]
    pub yes: bool,
}

/// A dead-letter queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Dead {
    /// Job events
    Jobs,
    /// Wake-ups of pools
    Launches,
    /// Wake-ups of instances
    Reaps,
}

impl Dead {
    /// Returns its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Jobs => "jobs",
            Self::Launches => "launches",
            Self::Reaps => "reaps",
        }
    }

    /// Parses a name from the command line.
    #[must_use]
    pub fn read(name: &str) -> Option<Self> {
        Self::from_str(name, false).ok()
    }
}

#[derive(Clone, Debug, Args)]
pub struct SwitchArgs {
    /// `launches`, `deletes`, or names of pools
    #[arg(required = true, value_name = "WHAT")]
    pub what: Vec<String>,
    #[command(flatten)]
    pub attribution: Attribution,
}

/// A command about the pool file.
#[derive(Clone, Debug, Subcommand)]
pub enum PoolsCommand {
    /// Print the current pool file
    Show,
    /// Check a pool file without calling the stack
    Check {
        /// The pool file, YAML
        file: PathBuf,
    },
    /// Show what a pool file would change
    Diff {
        /// The pool file, YAML
        file: PathBuf,
    },
    /// Apply a pool file (shows the difference and asks)
    Apply {
        /// The pool file, YAML
        file: PathBuf,
        #[command(flatten)]
        attribution: Attribution,
        /// Skip the confirmation prompt
        #[arg(long, short)]
        yes: bool,
    },
    /// Open the current pool file in $EDITOR and apply what was saved
    Edit {
        #[command(flatten)]
        attribution: Attribution,
        /// Skip the confirmation prompt
        #[arg(long, short)]
        yes: bool,
    },
    /// List the stored versions
    History,
    /// Apply a stored version again (shows the difference and asks)
    Restore {
        /// A version number from `muster pools history`
        version: u64,
        #[command(flatten)]
        attribution: Attribution,
        /// Skip the confirmation prompt
        #[arg(long, short)]
        yes: bool,
    },
}

/// A command about notifications.
#[derive(Clone, Debug, Subcommand)]
pub enum NoticesCommand {
    /// Set or replace the address that receives notifications; stored in AWS Secrets Manager
    Set {
        /// Who receives the notifications
        form: NoticeFormat,
        /// File that contains the address; `-` is stdin. Not an argument, because the address is a secret
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Stop notifications and delete the address
    Off {
        /// Skip the confirmation prompt
        #[arg(long)]
        yes: bool,
    },
}

/// The format of notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NoticeFormat {
    /// A Slack incoming webhook, or a service that accepts the same format
    Slack,
    /// A Teams workflow that posts webhook requests to a channel
    Teams,
    /// JSON, for your own service
    Json,
}

impl NoticeFormat {
    /// Returns its name in the secret.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Slack => "slack",
            Self::Teams => "teams",
            Self::Json => "json",
        }
    }
}

/// A command about the GitHub App.
#[derive(Clone, Debug, Subcommand)]
pub enum GitHubCommand {
    /// Show the App, its installations and its webhook, with any problems
    Status,
    /// Create the App in your browser, and wait until GitHub's events arrive
    ///
    /// The App's private key goes from GitHub into your AWS account and is never on this machine. If it is interrupted,
    /// run it again: it continues where it stopped.
    Create(CreateAppArgs),
    /// Print instructions for an organization owner who is someone else
    Link {
        #[command(flatten)]
        of: OwnerArgs,
        /// Your GitHub: github.com, a tenant of ghe.com, or GitHub Enterprise Server
        #[arg(long, value_name = "URL", default_value = "https://github.com", value_parser = Host::read)]
        github: Host,
    },
    /// Connect an existing App
    Connect(ConnectAppArgs),
    /// Show, set, test or remove the webhook's address
    Hook(HookArgs),
    /// Create a new webhook secret in the stack and on GitHub; the old one stays valid for a day
    Rotate {
        /// Skip the confirmation prompt
        #[arg(long, short)]
        yes: bool,
    },
}

/// The owner of the App.
#[derive(Clone, Debug, Default, Args)]
#[group(multiple = false)]
pub struct OwnerArgs {
    /// Organization whose repositories Muster serves
    #[arg(long, value_parser = Login::read)]
    pub org: Option<Login>,
    /// Your own account: runners are registered per repository
    #[arg(long)]
    pub user: bool,
}

impl From<Owner> for OwnerArgs {
    fn from(owner: Owner) -> Self {
        match owner {
            Owner::Organization(name) => Self { org: Some(name), user: false },
            Owner::Person => Self { org: None, user: true },
        }
    }
}

#[derive(Clone, Debug, Args)]
pub struct CreateAppArgs {
    #[command(flatten)]
    pub of: OwnerArgs,
    /// Your GitHub: github.com, a tenant of ghe.com, or GitHub Enterprise Server
    #[arg(long, value_name = "URL", default_value = "https://github.com", value_parser = Host::read)]
    pub github: Host,
    /// Do not open a browser; prompt for the URL that GitHub redirects to, or for the App's ID
    #[arg(long)]
    pub no_browser: bool,
    /// Replace the App that is connected
    #[arg(long)]
    pub replace: bool,
}

#[derive(Clone, Debug, Args)]
pub struct ConnectAppArgs {
    /// App ID, from its settings page
    #[arg(long, value_name = "ID")]
    pub app_id: u64,
    /// File with the private key; `-` is stdin
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// Your GitHub: github.com, a tenant of ghe.com, or GitHub Enterprise Server
    #[arg(long, value_name = "URL", default_value = "https://github.com", value_parser = Host::read)]
    pub github: Host,
    /// Skip the confirmation prompt
    #[arg(long, short)]
    pub yes: bool,
}

#[derive(Clone, Debug, Args)]
pub struct HookArgs {
    /// What to do [default: show]
    #[arg(value_enum)]
    pub what: Option<HookWhat>,
    /// Skip the confirmation prompt
    #[arg(long, short)]
    pub yes: bool,
}

/// An action on the webhook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum HookWhat {
    /// Show its address
    #[default]
    Show,
    /// Point it to this stack, with this stack's secret
    Set,
    /// Ask GitHub to redeliver an event, and show the result
    Test,
    /// Remove its address (asks first)
    Remove,
}

#[derive(Clone, Debug, Args)]
pub struct SetupArgs {
    /// Unpacked release, or a checkout after `make build`
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub from: PathBuf,
    #[command(flatten)]
    pub of: OwnerArgs,
    /// Your GitHub: github.com, a tenant of ghe.com, or GitHub Enterprise Server
    #[arg(long, value_name = "URL", default_value = "https://github.com", value_parser = Host::read)]
    pub github: Host,
    /// Do not open a browser; prompt for the URL that GitHub redirects to, or for the App's ID
    #[arg(long)]
    pub no_browser: bool,
    #[command(flatten)]
    pub parameters: ParameterArgs,
    /// Your name, recorded in the audit log [default: $USER]
    #[arg(long, env = "USER", hide_env = true)]
    pub by: Option<String>,
    /// Accept every default without prompting (requires --org or --user)
    #[arg(long, short)]
    pub yes: bool,
}

#[derive(Clone, Debug, Args)]
pub struct UpgradeArgs {
    /// Unpacked release, or a checkout after `make build`
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub from: PathBuf,
    #[command(flatten)]
    pub parameters: ParameterArgs,
    /// Show what would change without doing it
    #[arg(long)]
    pub dry_run: bool,
    /// Skip the confirmation prompt
    #[arg(long, short)]
    pub yes: bool,
}

#[derive(Clone, Debug, Args)]
pub struct TeardownArgs {
    /// Your name, recorded in the audit log [default: $USER]
    #[arg(long, env = "USER", hide_env = true)]
    pub by: Option<String>,
    /// Skip the confirmation prompt
    #[arg(long, short)]
    pub yes: bool,
}

/// Stack parameters that operators choose.
#[derive(Clone, Debug, Default, Args)]
pub struct ParameterArgs {
    /// VPC of the machines [default in setup: the default VPC]
    #[arg(long, value_parser = plain)]
    pub vpc: Option<String>,
    /// Subnets, one per zone [default in setup: those with a route to GitHub]
    #[arg(long, value_delimiter = ',', value_parser = plain)]
    pub subnets: Vec<String>,
    /// Public IP address for machines: `yes`, `no`, or `subnet` for the subnet's setting
    #[arg(long, value_parser = public_ip)]
    pub public_ip: Option<&'static str>,
    /// Maximum number of machines at the same time
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub max: Option<u32>,
    /// Email address that receives alarms
    #[arg(long, value_name = "ADDRESS", value_parser = plain)]
    pub mail: Option<String>,
    /// Let operators open a shell on machines: `yes` or `no`; jobs get the same role permissions
    #[arg(long, value_parser = yes_or_no)]
    pub sessions: Option<&'static str>,
    /// Permissions boundary that every role of the account must have
    #[arg(long, value_name = "ARN", value_parser = plain)]
    pub boundary: Option<String>,
}

/// Parses a value that can be quoted on another command line.
pub(crate) fn plain(text: &str) -> Result<String, String> {
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !"'\"\\`$".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is empty, or contains a space or a quote")),
    }
}

fn public_ip(text: &str) -> Result<&'static str, String> {
    one_of(text, &["yes", "no", "subnet"])
}

fn yes_or_no(text: &str) -> Result<&'static str, String> {
    one_of(text, &["yes", "no"])
}

fn one_of(text: &str, all: &[&'static str]) -> Result<&'static str, String> {
    let found = all.iter().find(|one| **one == text).copied();
    found.ok_or_else(|| format!("{text:?} is not one of {}", all.join(", ")))
}
