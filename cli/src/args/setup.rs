//! Arguments of the commands that install, connect, update and remove a stack.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::app::{Host, Login, Owner};

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
    /// Remove an App that no pool uses from the stack (asks first)
    Remove {
        /// Skip the confirmation prompt
        #[arg(long, short)]
        yes: bool,
    },
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
    /// Build an image for the machines: `yes` or `no` [default: asks; with --yes, yes]
    #[arg(long, value_parser = yes_or_no)]
    pub image: Option<&'static str>,
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
    /// SSM parameter (/NAME) or S3 object (s3://BUCKET/KEY) with the certificates of your GitHub's private authority
    #[arg(long, value_name = "NAME", value_parser = plain)]
    pub github_ca_bundle: Option<String>,
    /// Subnets of the functions that call GitHub, for a GitHub in a private network
    #[arg(long, value_name = "SUBNETS", value_delimiter = ',', value_parser = plain)]
    pub function_subnets: Vec<String>,
    /// Security groups of these functions [default: those of the machines]
    #[arg(long, value_name = "GROUPS", value_delimiter = ',', value_parser = plain)]
    pub function_groups: Vec<String>,
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
