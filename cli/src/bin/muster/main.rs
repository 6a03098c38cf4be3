//! `muster`, the operator's command.

mod aws;
mod browser;
mod child;
mod door;
mod host;
mod http;
mod keys;
mod loopback;
mod terminal;
mod ui;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use anstream::ColorChoice;
use muster_cli::args::{Color, Command, Muster};
use muster_cli::display::escaped_json;
use muster_cli::failure::Failure;
use muster_cli::help;
use muster_cli::page::Screen;
use muster_cli::session::run;

use crate::host::{print, say};
use crate::terminal::Terminal;

fn main() -> ExitCode {
    let args = help::parsed();
    let (screen, json) = (screen(args.global.color), args.global.json);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(async {
            http::trust(args.global.ca_bundle.as_deref())?;
            let mut world = Terminal::new(args.global.clone());
            match args.command.as_ref().and_then(Command::resume_command) {
                Some(command) => stoppable(command, args, screen, &mut world).await,
                None => run(args, screen, &mut world).await,
            }
        }),
        Err(error) => Err(Failure::Unknown(format!("Cannot start the async runtime: {error}"))),
    };
    match outcome {
        Ok(text) => {
            print(&text);
            ExitCode::SUCCESS
        }
        Err(failure @ Failure::Unwell(_)) => {
            print(&failure.sentence());
            ExitCode::from(failure.exit())
        }
        Err(failure) => {
            if json {
                print(&escaped_json(&format!("{:#}\n", failure.json())));
            }
            say(&failure.sentence());
            ExitCode::from(failure.exit())
        }
    }
}

/// Runs a command. If the user interrupts it, reports at which stage it stopped.
async fn stoppable(
    command: &str,
    args: Muster,
    screen: Screen,
    world: &mut Terminal,
) -> Result<String, Failure> {
    let outcome = tokio::select! {
        outcome = run(args, screen, world) => outcome,
        _ = tokio::signal::ctrl_c() => Err(Failure::Interrupted),
    };
    outcome.map_err(|failure| match failure {
        Failure::Interrupted => {
            let stage = world.stage.unwrap_or("the beginning");
            Failure::Ended(format!("Stopped. Run {command} to continue from \"{stage}\"."))
        }
        failure => failure,
    })
}

fn screen(color: Color) -> Screen {
    let out = std::io::stdout();
    let colour = match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => anstream::AutoStream::choice(&out) != ColorChoice::Never,
    };
    let width =
        out.is_terminal().then(|| terminal_size::terminal_size().map_or(80, |(width, _)| width.0));
    Screen { width, colour }
}
