//! The command line.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use muster_domain::ids::{Entity, PoolName};
use muster_domain::time::{Seconds, Time};
use muster_domain::usage::{By, Date};
use serde::{Deserialize, Serialize};

use crate::app::{Host, Login, Owner};
use crate::simulate::Trial;
use crate::words::{read_pause, read_span};

/// Looks after a Muster stack: what waits and why, what runs, and what is to end.
///
/// NAME is whatever you have: an instance, a machine id (i-…), a runner's name, a job key, or the address of a job or a
/// run at GitHub.
///
/// Answers go to stdout and everything else to stderr. Through a pipe, tables are lines with tabs.
#[derive(Clone, Debug, Parser)]
#[command(name = "muster", version = muster_control::RELEASE, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Muster {
    #[command(flatten)]
    pub global: Global,
    /// Without one: `status`.
    #[command(subcommand)]
    pub command: Option<Command>,
}

const EXIT_CODES: &str = "Exit codes: 0 done, 1 refused or failed, 2 wrong use, 3 doctor found an error, 4 no credentials or no right to \
     call";

/// What holds for every command.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Which stack, and how")]
pub struct Global {
    /// The stack [default: $MUSTER_STACK, else muster, else the only one]
    #[arg(long, global = true, env = "MUSTER_STACK", hide_env = true)]
    pub stack: Option<String>,
    /// The AWS profile [default: as for the AWS CLI]
    #[arg(long, global = true)]
    pub profile: Option<String>,
    /// The AWS region [default: as for the AWS CLI]
    #[arg(long, global = true)]
    pub region: Option<String>,
    /// Another address of AWS, such as the local stack's [default: as for the AWS CLI]
    #[arg(long, global = true, value_name = "URL")]
    pub endpoint_url: Option<String>,
    /// The answer as it is: the admin function's or AWS's
    #[arg(long, global = true)]
    pub json: bool,
    /// Colours; auto: on a terminal, unless `NO_COLOR` is set
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub color: Color,
    /// Tells each request, and AWS's id of it
    #[arg(long, short, global = true)]
    pub verbose: bool,
}

/// When there are colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

/// What is to be done.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// The pools and their use, and everything that is not as it should be
    Status,
    /// What keeps jobs from starting, each with its remedy: at GitHub, in the account, in the stack
    Doctor(Doctor),
    /// The jobs that wait, and why; those that no pool serves, and those that wait for an approval
    Jobs {
        #[command(flatten)]
        listing: Listing,
        /// Takes in what is queued in a repository, `OWNER/REPO`: jobs from before the webhook worked
        #[arg(long, value_name = "OWNER/REPO", conflicts_with_all = ["pool", "find", "limit"])]
        adopt: Option<Entity>,
    },
    /// Why a job waits, or an instance is where it is
    Explain {
        /// A job or an instance, by any of its names
        name: String,
    },
    /// The live instances
    List {
        #[command(flatten)]
        listing: Listing,
        /// Only those in this state, for example `running`
        #[arg(long)]
        state: Option<String>,
    },
    /// One instance: its story, what it waits for, and who ordered what
    Show {
        /// An instance, or its job, by any of its names
        name: String,
    },
    /// How long machines take from their plan to a job, phase by phase
    ///
    /// Of the live machines, and of those that ended in the last week. It says what each phase is, and where to look when
    /// it is long.
    Phases {
        /// Only this pool's
        #[arg(long)]
        pool: Option<PoolName>,
    },
    /// What machines cost: by repository, workflow, job, pool, type or day; and what was for nothing
    ///
    /// By EC2's spot prices of the hour and AWS's price list. Days are those of UTC.
    Costs(Costs),
    /// How long jobs waited for their first step, by pool, and what for
    Waits {
        /// How far back, for example `7d`, or the first day, for example `2026-11-01`
        #[arg(long, default_value = "7d", value_name = "SPAN|DAY")]
        since: Since,
        /// The last day [default: today]
        #[arg(long, value_name = "DAY")]
        until: Option<Date>,
        /// Only this pool's
        #[arg(long)]
        pool: Option<PoolName>,
    },
    /// What other pools would have cost, and done to the waits: the jobs of some days once more, in a model of the cloud
    ///
    /// First the pool file in force, beside what happened: that says how far the model is off. Boot times, prices and
    /// interruptions are those of the same days. What EC2 refuses and GitHub limits is not in it.
    Simulate(Simulate),
    /// The status and the last log lines, redrawn; with a name, a job or an instance to its end
    ///
    /// `q` ends it. With a name it ends by itself, with 0 if all went well. Without a terminal it writes what changes.
    Watch {
        /// A job or an instance, by any of its names
        name: Option<String>,
    },
    /// The same as pages in your browser: what wants you, jobs, machines, pools, audit; each order behind its own question
    ///
    /// The pages come from this machine alone, with your own rights. It ends with Ctrl-C, or an hour after the last page.
    Ui(Ui),
    /// What wants you, waits and costs of some days as one page to keep or send on: `muster report > week.html`
    Report(Report),
    /// The functions' logs, side by side; with `--machine`, what a machine left behind: its boot, agent and job
    Logs(Logs),
    /// A shell on a machine, by AWS's Session Manager: where the stack's parameter `Sessions` is yes
    Connect {
        /// An instance, or its job, by any of its names
        name: String,
        /// Writes the command of the AWS CLI, and does not run it
        #[arg(long)]
        print: bool,
    },
    /// The alarms, the red ones first, and what each asks of you
    Alarms {
        /// One of them, for example `delete-stuck`: all that is to be known of it
        name: Option<String>,
    },
    /// Whom the stack tells what somebody should look at: a channel of Slack or Teams, or your own service
    Notices {
        #[command(subcommand)]
        command: Option<NoticesCommand>,
    },
    /// What was given up: messages that failed too often
    DeadLetters(DeadLetters),
    /// Who ordered, refused, switched or applied what, newest first
    Audit {
        /// Only of an instance or a machine, by any of its names, of `switches` or of `pools`
        name: Option<String>,
        /// How far back, for example `2h` or `90d`
        #[arg(long, default_value = "7d", value_parser = read_span)]
        since: Seconds,
    },
    /// Ends an instance and its machine; asks first
    ///
    /// Refused while a job runs on it. Afterwards no job can start on it any more, and the reaper does the rest.
    Delete(Delete),
    /// Pauses launches, deletes or the launches of single pools
    Pause {
        #[command(flatten)]
        switch: Switch,
        /// Resumes by itself after this time, for example `2h`; 1m to 30d
        #[arg(long = "for", value_name = "TIME", value_parser = read_pause)]
        length: Option<Seconds>,
    },
    /// Resumes what was paused
    Resume(Switch),
    /// The pools: without another word, the pool file in force
    Pools {
        #[command(subcommand)]
        command: Option<Pools>,
    },
    /// From an account to a first job: finds a network, deploys, makes the GitHub App
    ///
    /// Asks at most five questions, each with an answer that Enter gives. Wherever it was stopped, the same command goes on: what
    /// is done is asked of the account and of GitHub.
    Setup(Setup),
    /// Deploys another release or other parameters; shows what changes and asks
    Upgrade(Upgrade),
    /// Takes the stack down, and leaves no machine behind; asks first
    ///
    /// No new machines, then the wait for the last one, then a look at EC2, and only then is the stack deleted.
    Teardown(Teardown),
    /// The GitHub App: without another word, what it is and what is wrong with it
    #[command(name = "github")]
    GitHub {
        /// Who; stands in the audit trail [default: $USER]
        #[arg(long, env = "USER", hide_env = true, global = true)]
        by: Option<String>,
        #[command(subcommand)]
        command: Option<GitHubCommand>,
    },
    /// Writes completions for a shell: `eval "$(muster completions bash)"`
    Completions { shell: Shell },
    /// Writes the man page: `muster man | man -l -`
    Man,
}

impl Command {
    /// The command line that goes on where this was stopped.
    #[must_use]
    pub const fn goes_on(&self) -> Option<&'static str> {
        match self {
            Self::Setup(_) => Some("muster setup"),
            Self::Teardown(_) => Some("muster teardown"),
            Self::Upgrade(_) => Some("muster upgrade"),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, Args)]
pub struct Doctor {
    /// Also has CloudFormation compare every resource with the template: a minute or two
    #[arg(long)]
    pub deep: bool,
    /// Instead of all that: starts one machine that no job needs, follows it to its end, and says what it
    /// shows; asks first
    #[arg(long, conflicts_with = "deep")]
    pub canary: bool,
    #[command(flatten)]
    pub order: Canary,
}

#[derive(Clone, Debug, Args)]
pub struct Canary {
    /// Of this pool [default: the only one]
    #[arg(long, requires = "canary")]
    pub pool: Option<PoolName>,
    /// Where its runner is registered, of a pool that leaves that to its jobs
    #[arg(long, requires = "canary", value_name = "OWNER|OWNER/REPO")]
    pub entity: Option<Entity>,
    /// Who; stands in the audit trail [default: $USER]
    #[arg(long, env = "USER", hide_env = true)]
    pub by: Option<String>,
    /// Does not ask
    #[arg(long, short, requires = "canary")]
    pub yes: bool,
}

#[derive(Clone, Debug, Args)]
pub struct Costs {
    /// How far back, for example `30d`, or the first day, for example `2026-11-01`
    #[arg(long, default_value = "30d", value_name = "SPAN|DAY")]
    pub since: Since,
    /// The last day [default: today]
    #[arg(long, value_name = "DAY")]
    pub until: Option<Date>,
    /// What the rows are of: `repository`, `workflow`, `job`, `pool`, `type` or `day`
    #[arg(long, default_value = "repository", value_parser = by, value_name = "WHAT")]
    pub by: By,
    /// Only this pool's
    #[arg(long)]
    pub pool: Option<PoolName>,
    /// Only this repository's, `OWNER/REPO`
    #[arg(long, value_name = "OWNER/REPO")]
    pub repository: Option<String>,
    /// Divides what was idle or in vain over the jobs of the same pool and day, by their time
    #[arg(long)]
    pub spread: bool,
    /// Machine by machine instead, with what each waited for; with --json a line of JSON each
    #[arg(long, conflicts_with_all = ["by", "spread", "prices"])]
    pub rows: bool,
    /// As CSV, for a spreadsheet
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Your own prices, dollars an hour by type, and factors on others: docs/usage.md
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub struct Simulate {
    /// How far back, for example `30d`, or the first day, for example `2026-11-01`
    #[arg(long, default_value = "30d", value_name = "SPAN|DAY")]
    pub since: Since,
    /// Lines from a file instead, as `muster costs --rows --json` writes them
    #[arg(long, value_name = "FILE", conflicts_with = "since")]
    pub lines: Option<PathBuf>,
    /// Another pool file
    #[arg(long, value_name = "FILE")]
    pub pools: Option<PathBuf>,
    /// A row for each value of `max` or `min_idle`, for example `min_idle=0..5` or `max=10,20,40`
    #[arg(long = "try", value_name = "FIELD=A..B")]
    pub trial: Option<Trial>,
    /// Only this pool's machines and jobs are counted, and it is what --try changes [default: all; the only one]
    #[arg(long)]
    pub pool: Option<PoolName>,
    /// Decides all that is drawn: the same seed, the same answer
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
}

/// Where days begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// So many before now.
    Span(Seconds),
    /// On that day.
    Day(Date),
}

impl Since {
    /// The first day: `1d` is today.
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
                format!("{text:?} is neither a span, as 30d, nor a day, as 2026-11-01")
            }),
        }
    }
}

/// By the words that the function has as well.
fn by(text: &str) -> Result<By, String> {
    serde_json::from_value(serde_json::json!(text))
        .map_err(|_| format!("{text:?} is none of repository, workflow, job, pool, type and day"))
}

/// How much of a list.
#[derive(Clone, Debug, Args)]
pub struct Listing {
    /// Only this pool's
    #[arg(long)]
    pub pool: Option<PoolName>,
    /// Only what has this text in it, in whatever case: a name, a repository, a label, a type
    #[arg(long, value_name = "TEXT")]
    pub find: Option<String>,
    /// At most so many [default: 200 on a terminal, else all]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
}

/// Who gives an order, and why.
#[derive(Clone, Debug, Args)]
pub struct Order {
    /// Why; stands in the audit trail
    #[arg(long)]
    pub reason: Option<String>,
    /// Who; stands in the audit trail [default: $USER]
    #[arg(long, env = "USER", hide_env = true)]
    pub by: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub struct Delete {
    /// An instance, or its job, by any of its names
    pub name: String,
    #[command(flatten)]
    pub order: Order,
    /// Errors of EC2 do not hold it up: after three of them the record closes
    #[arg(long)]
    pub force: bool,
    /// Ends a job that runs on it
    #[arg(long)]
    pub kill_running_job: bool,
    /// 401 and 403 from GitHub do not hold it up
    #[arg(long)]
    pub bypass_github_unauthorized: bool,
    /// Says what would happen
    #[arg(long)]
    pub dry_run: bool,
    /// Does not ask; needs --reason
    #[arg(long, short, requires = "reason")]
    pub yes: bool,
}

#[derive(Clone, Debug, Args)]
pub struct Report {
    /// How far back, for example `7d`, or the first day, for example `2026-11-01`
    #[arg(long, default_value = "7d", value_name = "SPAN|DAY")]
    pub since: Since,
}

#[derive(Clone, Debug, Args)]
pub struct Ui {
    /// Where it listens on this machine [default: any port that is free]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Shows everything, and has no orders
    #[arg(long)]
    pub read_only: bool,
    /// Opens no browser; prints the address
    #[arg(long)]
    pub no_open: bool,
    /// Who gives orders; stands in the audit trail [default: $USER]
    #[arg(long, env = "USER", hide_env = true)]
    pub by: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub struct Logs {
    /// `webhook`, `scale-up`, `reaper`, `runner-api`, `admin` or `api` (its access log); or a job, an instance or a
    /// machine by any of its names [default: all]
    #[arg(value_name = "FUNCTION|NAME")]
    pub what: Option<String>,
    /// What its machine sent to the stack's bucket before it ended: boot, agent and worker
    #[arg(long, short, requires = "what", conflicts_with_all = ["follow", "since"])]
    pub machine: bool,
    /// Goes on with what comes
    #[arg(long, short)]
    pub follow: bool,
    /// How far back, for example `90s`, `15m`, `2h` or `1d`
    #[arg(long, default_value = "1h", value_parser = read_span)]
    pub since: Seconds,
}

#[derive(Clone, Debug, Args)]
pub struct DeadLetters {
    /// Of this queue only
    #[arg(value_enum)]
    pub queue: Option<Dead>,
    /// What the messages say; they stay where they are
    #[arg(long, requires = "queue", conflicts_with = "redrive")]
    pub show: bool,
    /// Sends them back to be handled again; asks first
    #[arg(long, requires = "queue")]
    pub redrive: bool,
    /// Does not ask
    #[arg(long, short)]
    pub yes: bool,
}

/// A queue of messages that were given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Dead {
    /// Events of jobs
    Jobs,
    /// Wake-ups of pools
    Launches,
    /// Wake-ups of instances
    Reaps,
}

impl Dead {
    /// As the command line has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Jobs => "jobs",
            Self::Launches => "launches",
            Self::Reaps => "reaps",
        }
    }

    /// As the command line takes it.
    #[must_use]
    pub fn read(name: &str) -> Option<Self> {
        Self::from_str(name, false).ok()
    }
}

#[derive(Clone, Debug, Args)]
pub struct Switch {
    /// `launches`, `deletes`, or pools by their names
    #[arg(required = true, value_name = "WHAT")]
    pub what: Vec<String>,
    #[command(flatten)]
    pub order: Order,
}

/// What is to be done with the pools.
#[derive(Clone, Debug, Subcommand)]
pub enum Pools {
    /// The pool file in force
    Show,
    /// Whether a file is right, without asking the stack
    Check { file: PathBuf },
    /// What a file would change
    Diff { file: PathBuf },
    /// Makes a file the set of pools; shows the difference and asks
    Apply {
        file: PathBuf,
        #[command(flatten)]
        order: Order,
        /// Does not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Opens the file in force in $EDITOR, and applies what was saved
    Edit {
        #[command(flatten)]
        order: Order,
        /// Does not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// The versions that are kept
    History,
    /// Applies a kept version again; shows the difference and asks
    Restore {
        version: u64,
        #[command(flatten)]
        order: Order,
        /// Does not ask
        #[arg(long, short)]
        yes: bool,
    },
}

/// What is to be done with notices.
#[derive(Clone, Debug, Subcommand)]
pub enum NoticesCommand {
    /// Another address, or the first one; kept as a secret of the account
    Set {
        form: Form,
        /// Where the address stands; `-` is stdin. Never an argument: who has it can write to the channel
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Nobody any more; deletes the address
    Off {
        #[arg(long)]
        yes: bool,
    },
}

/// In which form notices are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// An incoming webhook of Slack, or of whoever takes its form
    Slack,
    /// A workflow of Teams that posts what a webhook request tells it
    Teams,
    /// The facts, for a service of your own
    Json,
}

impl Form {
    /// As the secret has it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Slack => "slack",
            Self::Teams => "teams",
            Self::Json => "json",
        }
    }
}

/// What is to be done with the GitHub App.
#[derive(Clone, Debug, Subcommand)]
pub enum GitHubCommand {
    /// The App, where it is installed, its webhook, and what is wrong with them
    Status,
    /// Makes the App with your browser, and goes on until GitHub's events arrive
    ///
    /// The key goes from GitHub into the account and is never on this machine. What was interrupted goes on where it was.
    Create(CreateApp),
    /// What to send to an owner who is somebody else
    Link {
        #[command(flatten)]
        of: Of,
        #[arg(long, value_name = "URL", default_value = "https://github.com", value_parser = Host::read)]
        github: Host,
    },
    /// Takes an App that exists
    Connect(ConnectApp),
    /// Where GitHub sends events
    Hook(HookOrder),
    /// Makes another webhook secret, here and at GitHub; the old one is taken for another day
    Rotate {
        /// Does not ask
        #[arg(long, short)]
        yes: bool,
    },
}

/// Whose App it is.
#[derive(Clone, Debug, Default, Args)]
#[group(multiple = false)]
pub struct Of {
    /// The organization whose repositories are served
    #[arg(long, value_parser = Login::read)]
    pub org: Option<Login>,
    /// Your own account: runners of single repositories
    #[arg(long)]
    pub user: bool,
}

impl From<Owner> for Of {
    fn from(owner: Owner) -> Self {
        match owner {
            Owner::Organization(name) => Self { org: Some(name), user: false },
            Owner::Person => Self { org: None, user: true },
        }
    }
}

#[derive(Clone, Debug, Args)]
pub struct CreateApp {
    #[command(flatten)]
    pub of: Of,
    /// A tenant of ghe.com, or GitHub Enterprise Server
    #[arg(long, value_name = "URL", default_value = "https://github.com", value_parser = Host::read)]
    pub github: Host,
    /// Opens no browser; takes the address that GitHub answers with, or the App's id
    #[arg(long)]
    pub no_browser: bool,
    /// Another App in the place of the one that is connected
    #[arg(long)]
    pub replace: bool,
}

#[derive(Clone, Debug, Args)]
pub struct ConnectApp {
    /// The App's id, from its settings
    #[arg(long, value_name = "ID")]
    pub app_id: u64,
    /// The file of its private key; `-` is stdin
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// A tenant of ghe.com, or GitHub Enterprise Server
    #[arg(long, value_name = "URL", default_value = "https://github.com", value_parser = Host::read)]
    pub github: Host,
    /// Does not ask
    #[arg(long, short)]
    pub yes: bool,
}

#[derive(Clone, Debug, Args)]
pub struct HookOrder {
    /// [default: show]
    #[arg(value_enum)]
    pub what: Option<HookWhat>,
    /// Does not ask
    #[arg(long, short)]
    pub yes: bool,
}

/// What is to be done with the webhook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum HookWhat {
    /// Its address
    #[default]
    Show,
    /// Points it to this stack, with this stack's secret
    Set,
    /// Has GitHub repeat a delivery, and says what came of it
    Test,
    /// Takes its address away; asks first
    Remove,
}

#[derive(Clone, Debug, Args)]
pub struct Setup {
    /// An unpacked release, or a checkout after `make build`
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub from: PathBuf,
    #[command(flatten)]
    pub of: Of,
    /// A tenant of ghe.com, or GitHub Enterprise Server
    #[arg(long, value_name = "URL", default_value = "https://github.com", value_parser = Host::read)]
    pub github: Host,
    /// Opens no browser; takes the address that GitHub answers with, or the App's id
    #[arg(long)]
    pub no_browser: bool,
    #[command(flatten)]
    pub parameters: Parameters,
    /// Who; stands in the audit trail [default: $USER]
    #[arg(long, env = "USER", hide_env = true)]
    pub by: Option<String>,
    /// Takes every default and does not ask; needs --org or --user
    #[arg(long, short)]
    pub yes: bool,
}

#[derive(Clone, Debug, Args)]
pub struct Upgrade {
    /// An unpacked release, or a checkout after `make build`
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub from: PathBuf,
    #[command(flatten)]
    pub parameters: Parameters,
    /// Says what would change
    #[arg(long)]
    pub dry_run: bool,
    /// Does not ask
    #[arg(long, short)]
    pub yes: bool,
}

#[derive(Clone, Debug, Args)]
pub struct Teardown {
    /// Who; stands in the audit trail [default: $USER]
    #[arg(long, env = "USER", hide_env = true)]
    pub by: Option<String>,
    /// Does not ask
    #[arg(long, short)]
    pub yes: bool,
}

/// Parameters of the stack that people choose.
#[derive(Clone, Debug, Default, Args)]
pub struct Parameters {
    /// Where machines live [default of setup: the default VPC]
    #[arg(long, value_parser = plain)]
    pub vpc: Option<String>,
    /// One for each zone [default of setup: those with a way out to GitHub]
    #[arg(long, value_delimiter = ',', value_parser = plain)]
    pub subnets: Vec<String>,
    /// Whether machines get a public address: `yes`, `no`, or as the `subnet` has it
    #[arg(long, value_parser = public_ip)]
    pub public_ip: Option<&'static str>,
    /// Most machines at once
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub max: Option<u32>,
    /// Who hears alarms
    #[arg(long, value_name = "ADDRESS", value_parser = plain)]
    pub mail: Option<String>,
    /// Whether operators may open a shell on machines: `yes` or `no`; jobs get the same rights of the role
    #[arg(long, value_parser = yes_or_no)]
    pub sessions: Option<&'static str>,
    /// A policy that every role of the account must have as its boundary
    #[arg(long, value_name = "ARN", value_parser = plain)]
    pub boundary: Option<String>,
}

/// A value that stands in quotes on another command line.
pub(crate) fn plain(text: &str) -> Result<String, String> {
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !"'\"\\`$".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} has a space or a quote, or nothing")),
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
    found.ok_or_else(|| format!("{text:?} is none of {}", all.join(", ")))
}
