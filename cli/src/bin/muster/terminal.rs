//! The real world: AWS, GitHub and the user at the terminal.

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use dialoguer::{Confirm, Editor, Input};
use muster_cli::app::door::BrowserResponse;
use muster_cli::args::GlobalArgs;
use muster_cli::display::{clean_lines, clean_page};
use muster_cli::failure::Failure;
use muster_cli::ui::Serving;
use muster_cli::words::decoded;
use muster_cli::world::{Cloud, Console, LocalPage, ProgramResult, Visit, Workstation};
use muster_domain::causes::with_causes;
use muster_domain::time::{Seconds, Time};
use muster_sigv4::Call;
use serde_json::Value;
use tokio::sync::Notify;

use crate::aws::Aws;
use crate::browser::{self, Handover};
use crate::child::{Child, not_started};
use crate::door::Listener;
use crate::host::{now, say};
use crate::http::github;
use crate::{host, keys, ui};

pub(crate) struct Terminal {
    global: GlobalArgs,
    /// Created on first use: checking a file needs no credentials.
    aws: Option<Aws>,
    /// Whether the screen was drawn before.
    is_drawn: bool,
    door: Option<Listener>,
    /// The file that redirects the browser to that page.
    handover: Option<Handover>,
    child: Option<Child>,
    /// The current stage, reported if the user interrupts the command.
    pub(crate) stage: Option<&'static str>,
    /// Whether stdin has ended.
    is_mute: bool,
    /// A Ctrl-C that arrived while interrupts were held.
    interrupted: Option<Arc<Notify>>,
}

/// How often stdin is polled while a page waits.
const TYPED: Duration = Duration::from_millis(200);

impl Terminal {
    pub(crate) const fn new(global: GlobalArgs) -> Self {
        Self {
            global,
            aws: None,
            is_drawn: false,
            door: None,
            handover: None,
            child: None,
            stage: None,
            is_mute: false,
            interrupted: None,
        }
    }

    async fn aws(&mut self) -> Result<&mut Aws, Failure> {
        let aws = match self.aws.take() {
            Some(aws) => aws,
            None => Aws::find(&self.global).await?,
        };
        Ok(self.aws.insert(aws))
    }

    /// Returns a command for a program that uses the same account and region as this command.
    fn command(&self, program: &str, line: &[String]) -> Command {
        let mut command = Command::new(program);
        command.args(line);
        if let Some(profile) = &self.global.profile {
            command.env("AWS_PROFILE", profile);
        }
        if let Some(aws) = &self.aws {
            command.env("AWS_REGION", &aws.region).env("AWS_DEFAULT_REGION", &aws.region);
        }
        if let Some(url) = &self.global.endpoint_url {
            command.env("AWS_ENDPOINT_URL", url);
        }
        command
    }

    /// Returns a typed line, if there is one.
    fn typed(&mut self) -> Option<String> {
        if self.is_mute || !keys::has_line() {
            return None;
        }
        let mut line = String::new();
        match std::io::stdin().read_line(&mut line) {
            Ok(1..) => Some(line),
            Ok(0) | Err(_) => {
                self.is_mute = true;
                None
            }
        }
    }
}

/// Maps a prompt error: stdin is no terminal, or the user pressed Ctrl-C.
fn no_terminal(error: &dialoguer::Error) -> Failure {
    let dialoguer::Error::IO(cause) = error;
    if cause.kind() == std::io::ErrorKind::Interrupted {
        return Failure::Interrupted;
    }
    Failure::Usage(format!("Cannot prompt: {}", with_causes(error)))
}

impl Cloud for Terminal {
    async fn admin(&mut self, request: &Value) -> Result<Value, Failure> {
        self.aws().await?.admin(request).await
    }

    async fn aws(&mut self, calls: Vec<Call>) -> Result<Vec<Result<Value, Failure>>, Failure> {
        Self::aws(self).await?.services(calls).await
    }

    async fn object(&mut self, call: Call) -> Result<Vec<u8>, Failure> {
        Self::aws(self).await?.object(call).await
    }

    async fn stack(&mut self) -> Result<String, Failure> {
        Ok(Self::aws(self).await?.stack.clone())
    }

    async fn other_stack(&mut self) -> Result<(), Failure> {
        Self::aws(self).await?.other_stack().await
    }

    async fn github(&mut self, address: &str) -> Result<Option<Value>, Failure> {
        github(address).await
    }

    fn usual_github(&self) -> String {
        let host = std::env::var("GH_HOST").ok().filter(|host| !host.is_empty());
        host.unwrap_or_else(|| "github.com".to_owned())
    }

    fn region(&self) -> String {
        self.aws.as_ref().map(|aws| aws.region.clone()).unwrap_or_default()
    }
}

impl Console for Terminal {
    fn is_attended(&self) -> bool {
        std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }

    fn say(&mut self, text: &str) {
        say(text);
    }

    fn show(&mut self, page: &str) {
        let page = clean_page(page);
        let _ = writeln!(anstream::AutoStream::auto(std::io::stderr()), "{page}");
    }

    fn print(&mut self, text: &str) {
        host::print(text);
    }

    /// Draws over the old lines, because clearing the screen first flickers.
    fn redraw(&mut self, text: &str) {
        let start = if self.is_drawn { "\u{1b}[H" } else { "\u{1b}[2J\u{1b}[H" };
        self.is_drawn = true;
        let text = clean_page(text);
        let lines: Vec<&str> = text.lines().take(usize::from(self.height())).collect();
        host::write(&format!("{start}{}\u{1b}[K\r\n\u{1b}[J", lines.join("\u{1b}[K\r\n")));
    }

    /// Returns one row less than the screen has: the cursor is in the last one.
    fn height(&self) -> u16 {
        terminal_size::terminal_size().map_or(24, |(_, height)| height.0).saturating_sub(1)
    }

    async fn wait(&mut self, time: Seconds) -> bool {
        let time = Duration::from_secs(u64::from(time.0));
        let interrupted = self.interrupted.clone();
        let held = async {
            match interrupted {
                Some(interrupted) => interrupted.notified().await,
                None => std::future::pending().await,
            }
        };
        // On a terminal the wait reads the key itself; a Ctrl-C that came before is in `interrupted`.
        let left = match keys::wait(time) {
            Some(false) => return false,
            Some(true) => Duration::ZERO,
            None => time,
        };
        tokio::select! {
            biased;
            () = held => false,
            () = tokio::time::sleep(left) => true,
        }
    }

    async fn hold(&mut self) {
        let interrupted = Arc::clone(self.interrupted.insert(Arc::default()));
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                interrupted.notify_one();
                if tokio::signal::ctrl_c().await.is_ok() {
                    std::process::exit(130);
                }
            }
        });
        // Yields, so that the listener is registered before the next call.
        tokio::task::yield_now().await;
    }

    fn confirm(&mut self, question: &str) -> Result<bool, Failure> {
        let asked = Confirm::new().with_prompt(clean_lines(question)).default(false).interact();
        asked.map_err(|error| no_terminal(&error))
    }

    fn ask(&mut self, question: &str) -> Result<String, Failure> {
        let asked = Input::new().with_prompt(clean_lines(question)).interact_text();
        asked.map_err(|error| no_terminal(&error))
    }

    fn offer(&mut self, question: &str, usual: &str) -> Result<String, Failure> {
        let prompt = Input::new().with_prompt(clean_lines(question));
        let asked = prompt.default(clean_lines(usual)).interact_text();
        asked.map_err(|error| no_terminal(&error))
    }

    fn edit(&mut self, text: &str) -> Result<Option<String>, Failure> {
        Editor::new().extension(".yaml").edit(text).map_err(|error| no_terminal(&error))
    }

    fn now(&self) -> Time {
        now()
    }

    fn stage(&mut self, name: &'static str) {
        self.stage = Some(name);
    }
}

impl Workstation for Terminal {
    fn read_file(&mut self, path: &str) -> Result<String, Failure> {
        let mut bytes = Vec::new();
        let read = match path {
            "-" => std::io::stdin().read_to_end(&mut bytes).map(drop),
            _ => std::fs::read(path).map(|all| bytes = all),
        };
        let failed = |why| Failure::File { path: path.to_owned(), why };
        read.map_err(|error| failed(with_causes(&error)))?;
        decoded(bytes).map_err(|why| failed(why.to_owned()))
    }

    fn exists(&mut self, path: &str) -> bool {
        std::path::Path::new(path).is_file()
    }

    fn start(&mut self, program: &str, line: &[String], folder: &str) -> Result<(), Failure> {
        let mut command = self.command(program, line);
        command.current_dir(folder).env("SAM_CLI_TELEMETRY", "0");
        self.child = Some(Child::start(program, &mut command)?);
        Ok(())
    }

    fn hand_over(&mut self, program: &str, line: &[String]) -> Failure {
        not_started(program, &self.command(program, line).exec())
    }

    fn ended(&mut self) -> Result<Option<ProgramResult>, Failure> {
        match &mut self.child {
            Some(child) => child.ended(),
            None => Ok(None),
        }
    }

    fn browse(&mut self, address: &str) -> bool {
        browser::open(address)
    }

    fn browse_privately(&mut self, address: &str) -> bool {
        self.handover = Handover::open(address);
        self.handover.is_some()
    }

    fn random<const N: usize>(&mut self) -> Result<[u8; N], Failure> {
        host::random()
    }
}

impl LocalPage for Terminal {
    async fn listen(&mut self) -> Result<u16, Failure> {
        Ok(self.door.insert(Listener::open().await?).port)
    }

    async fn visit(&mut self, typed: bool, time: Seconds) -> Result<Visit, Failure> {
        let until = tokio::time::Instant::now() + Duration::from_secs(u64::from(time.0));
        loop {
            if let Some(line) = typed.then(|| self.typed()).flatten() {
                return Ok(Visit::Typed(line));
            }
            let Some(door) = &mut self.door else { return Ok(Visit::Nobody) };
            let look = (tokio::time::Instant::now() + TYPED).min(until);
            match tokio::time::timeout_at(look, door.next()).await {
                Ok(Some(asked)) => return Ok(Visit::Asked(asked)),
                Ok(None) => return Ok(Visit::Nobody),
                Err(_) if look == until => return Ok(Visit::Nobody),
                Err(_) => {}
            }
        }
    }

    async fn reply(&mut self, reply: BrowserResponse) {
        if let Some(door) = &mut self.door {
            door.reply(reply).await;
        }
    }

    fn close(&mut self) {
        (self.door, self.handover) = (None, None);
    }

    async fn serve(&mut self, serving: Serving) -> Result<(), Failure> {
        let aws = Self::aws(self).await?.clone();
        ui::serve(aws, serving).await
    }
}
