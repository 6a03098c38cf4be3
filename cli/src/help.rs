//! The command line with its help, in which the commands are grouped.

use clap::{CommandFactory as _, FromArgMatches as _};

use crate::args::Muster;
use crate::page::{Screen, TextPage};

/// The width of the list of commands: that of a small terminal.
const WIDTH: u16 = 80;

/// The groups of commands, in display order.
const GROUPS: [(&str, &[&str]); 5] = [
    (
        "See what happens, and why",
        &[
            "status", "doctor", "jobs", "explain", "list", "show", "watch", "ui", "logs", "alarms",
            "audit",
        ],
    ),
    ("Costs and waiting times", &["costs", "waits", "phases", "simulate", "rightsize", "report"]),
    (
        "Intervene",
        &["delete", "pause", "resume", "pools", "image", "connect", "dead-letters", "notices"],
    ),
    ("Install and update", &["setup", "upgrade", "teardown", "github"]),
    ("Shell", &["completions", "man", "help"]),
];

/// Returns the command line's definition.
#[must_use]
pub fn command() -> clap::Command {
    let mut command = Muster::command();
    command.build();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}Global options:\n{{options}}{{after-help}}",
        commands(&command)
    );
    Muster::command().help_template(template)
}

/// Parses the process's arguments. Prints an error or the help, and exits, as clap does.
#[must_use]
pub fn parsed() -> Muster {
    let matches = command().get_matches();
    Muster::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Lists the commands by group.
fn commands(command: &clap::Command) -> String {
    let about = |name: &str| {
        let about = command.find_subcommand(name)?.get_about()?;
        Some((format!("  {name:13}").into(), about.to_string().into()))
    };
    let mut text = String::new();
    for (title, names) in GROUPS {
        let mut page = TextPage::new(Screen { width: Some(WIDTH), colour: false });
        page.marked(names.iter().filter_map(|name| about(name)));
        text.push_str(&format!("{title}:\n{}\n", page.into_text()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let mut command = Muster::command();
        command.build();
        let mut all: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        all.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, all);
    }
}
