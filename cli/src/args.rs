//! The command line.

mod images;
mod orders;
mod queries;
mod setup;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use muster_domain::ids::{AppName, Entity, PoolName};
use muster_domain::time::Seconds;
use muster_domain::usage::Date;

pub use self::images::{FamilyArgs, ImageCommand, ImageOrderArgs, WatchArgs};
pub use self::orders::{
    Attribution, Dead, DeadLettersArgs, DeleteArgs, NoticeFormat, NoticesCommand, PoolsCommand,
    SwitchArgs,
};
pub use self::queries::{
    CanaryArgs, CostsArgs, DoctorArgs, ListingArgs, LogsArgs, ReportArgs, RightsizeArgs,
    SimulateArgs, Since, UiArgs,
};
pub(crate) use self::setup::plain;
pub use self::setup::{
    ConnectAppArgs, CreateAppArgs, GitHubCommand, HookArgs, HookWhat, OwnerArgs, ParameterArgs,
    SetupArgs, TeardownArgs, UpgradeArgs,
};
use crate::words::{read_pause, read_span};

/// Operate a Muster stack, which runs each GitHub Actions job on an EC2 machine that it launches for that job.
///
/// An instance is Muster's record of one EC2 machine. Where a command takes a NAME, any of these works: an instance name, an
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
    /// Endpoint for all AWS calls, for example an emulator's [default: same as the AWS CLI]
    #[arg(long, global = true, value_name = "URL")]
    pub endpoint_url: Option<String>,
    /// File with certificates to trust too, as PEM: of a private authority [default: $AWS_CA_BUNDLE]
    #[arg(long, global = true, value_name = "FILE", env = "AWS_CA_BUNDLE", hide_env = true)]
    pub ca_bundle: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// When to use colours; `auto`: on a terminal, unless `NO_COLOR` is set
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
    /// List waiting jobs with the reason: also jobs that no pool serves or that await approval
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
    /// Show one instance: its history, its next step, and its audit log
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
    /// Show costs by repository, workflow, job, pool, instance type, attempt or day
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
    /// Compare costs and wait times of pool files on past jobs, without launching anything
    ///
    /// Replays the current pool file first and compares it with what happened, which shows the error of the model. Uses
    /// the boot times, prices and interruptions of the same days. Does not model EC2's refusals or GitHub's rate limits.
    Simulate(SimulateArgs),
    /// Show which jobs fit half their machine, run out of memory, or would use more CPUs
    ///
    /// Uses what the machines measured. A job needs 20 successful runs of a minute or longer, on machines of one size. All
    /// combinations of a matrix are one job, and the worst one decides. Changes nothing.
    Rightsize(RightsizeArgs),
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
    /// Show the logs of the stack's Lambda functions; with --machine, a machine's last uploaded log
    Logs(LogsArgs),
    /// Open a shell on a machine through AWS Session Manager (needs `muster upgrade --sessions yes`)
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
    /// Show the audit log: who deleted, paused, resumed or applied what, and what was refused
    Audit {
        /// Show only entries about this instance or machine, or about `switches`, `pools` or `images`
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
    /// Resume what was paused, or retry now after failures
    Resume(SwitchArgs),
    /// Show, check, compare and apply the pool file
    Pools {
        #[command(subcommand)]
        command: Option<PoolsCommand>,
    },
    /// Show, build, roll back or delete the images that machines boot
    ///
    /// Muster builds an image with the packages and the agent, so that machines boot without installing them. Pools
    /// whose machines can boot the same image are a family.
    #[command(args_conflicts_with_subcommands = true)]
    Image {
        #[command(flatten)]
        watch: WatchArgs,
        #[command(subcommand)]
        command: Option<ImageCommand>,
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
    /// Show, create, connect or remove the GitHub App, and manage its webhook
    #[command(name = "github")]
    GitHub {
        /// Your name, recorded in the audit log [default: $USER]
        #[arg(long, env = "USER", hide_env = true, global = true)]
        by: Option<String>,
        /// The App, in a stack with several; `create` and `connect` add one with a new name
        #[arg(long, value_name = "NAME", default_value = "main", global = true)]
        app: AppName,
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
