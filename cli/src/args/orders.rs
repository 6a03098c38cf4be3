//! Arguments of the commands that change something in a stack.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use muster_api::{MIN_REASON, is_reason};
use serde::{Deserialize, Serialize};

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
