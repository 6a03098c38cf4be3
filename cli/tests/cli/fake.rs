//! A world whose answers are told beforehand.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use clap::Parser as _;
use muster_cli::app::door::{BrowserRequest, BrowserResponse};
use muster_cli::args::Muster;
use muster_cli::failure::Failure;
use muster_cli::lambda;
use muster_cli::page::Screen;
use muster_cli::session::run;
use muster_cli::ui::Serving;
use muster_cli::world::{Cloud, Console, LocalPage, ProgramResult, Visit, Workstation};
use muster_domain::time::{Seconds, Time};
use muster_sigv4::Call;
use serde_json::{Value, json};

/// When everything is asked: the time of the recorded answers.
pub(crate) const NOW: Time = Time::from_millis(1_795_219_200_000);

/// Of the page on the loopback interface.
pub(crate) const PORT: u16 = 49_213;

pub(crate) struct Fake {
    /// The function's answers, in the order of the questions.
    pub(crate) answers: VecDeque<Value>,
    /// Why the function does not answer.
    pub(crate) failure: Option<Failure>,
    /// How many answers to a `create` do not come.
    pub(crate) lost: u32,
    /// Those of AWS's services.
    pub(crate) services: VecDeque<Result<Value, Failure>>,
    /// What S3 keeps.
    pub(crate) objects: VecDeque<Result<Vec<u8>, Failure>>,
    /// The stacks to look for, in that order.
    pub(crate) stacks: VecDeque<&'static str>,
    /// How often the person waits.
    pub(crate) patience: u32,
    /// The terminal's width; none: there is none.
    pub(crate) width: Option<u16>,
    /// The time, which goes on where something waits.
    pub(crate) time: Time,
    /// GitHub's.
    pub(crate) github: VecDeque<Option<Value>>,
    /// The operator's `GH_HOST`.
    pub(crate) usual_github: &'static str,
    /// What the person says; without anything nobody is there.
    pub(crate) says: VecDeque<&'static str>,
    /// The text of every file.
    pub(crate) file: &'static str,
    /// The files that are there besides.
    pub(crate) files: &'static [&'static str],
    /// What a program that was started comes to, after so many looks.
    pub(crate) child: VecDeque<Option<ProgramResult>>,
    /// Who comes to the page on the loopback interface.
    pub(crate) visits: VecDeque<Visit>,
    /// Whether the person has a browser.
    pub(crate) has_browser: bool,
    /// What happened, in order.
    pub(crate) log: String,
}

impl Default for Fake {
    fn default() -> Self {
        Self {
            answers: VecDeque::new(),
            failure: None,
            lost: 0,
            services: VecDeque::new(),
            objects: VecDeque::new(),
            stacks: VecDeque::from(["muster"]),
            patience: 0,
            width: Some(100),
            time: NOW,
            github: VecDeque::new(),
            usual_github: "github.com",
            says: VecDeque::new(),
            file: "",
            files: &[],
            child: VecDeque::new(),
            visits: VecDeque::new(),
            has_browser: true,
            log: String::new(),
        }
    }
}

impl Fake {
    /// Whose services of AWS answer this.
    pub(crate) fn aws(services: impl IntoIterator<Item = Result<Value, Failure>>) -> Self {
        Self { services: services.into_iter().collect(), ..Self::default() }
    }

    pub(crate) fn of(answers: impl IntoIterator<Item = Value>) -> Self {
        Self { answers: answers.into_iter().collect(), ..Self::default() }
    }

    /// Runs a command line, and tells all that happened and what came of it.
    pub(crate) fn run(mut self, line: &[&str]) -> String {
        let args = Muster::try_parse_from(std::iter::once(&"muster").chain(line));
        let args = args.unwrap_or_else(|error| panic!("{line:?}: {error}"));
        let json = args.global.json;
        let outcome = {
            let screen = Screen { width: self.width, colour: false };
            let running = pin!(run(args, screen, &mut self));
            finished(running)
        };
        let told = match outcome {
            Ok(text) => format!("{text}exit 0\n"),
            Err(failure @ Failure::Unwell(_)) => {
                format!("{}exit {}\n", failure.sentence(), failure.exit())
            }
            Err(failure) => {
                let json = if json { format!("{:#}\n", failure.json()) } else { String::new() };
                format!("{json}! {}\nexit {}\n", failure.sentence(), failure.exit())
            }
        };
        assert!(self.answers.is_empty(), "not asked for: {:?}\n{}", self.answers, self.log);
        assert!(self.visits.is_empty(), "nobody let in: {:?}\n{}", self.visits, self.log);
        assert!(self.services.is_empty(), "not asked for: {:?}\n{}", self.services, self.log);
        assert!(self.objects.is_empty(), "not asked for: {:?}\n{}", self.objects, self.log);
        format!("$ muster {}\n{}{told}", line.join(" "), self.log)
    }

    fn note(&mut self, line: &str) {
        self.log.push_str(line);
        self.log.push('\n');
    }
}

/// Nothing here waits.
fn finished<T>(mut future: impl Future<Output = T> + Unpin) -> T {
    match pin!(&mut future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("the fake world waits for nothing"),
    }
}

impl Cloud for Fake {
    async fn admin(&mut self, request: &Value) -> Result<Value, Failure> {
        self.note(&format!("→ {request}"));
        if self.lost > 0 && request.get("create").is_some() {
            self.lost -= 1;
            return Err(Failure::NoAnswer { function: "muster-admin".to_owned() });
        }
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(self.answers.pop_front().expect("an answer")),
        }
    }

    async fn aws(&mut self, calls: Vec<Call>) -> Result<Vec<Result<Value, Failure>>, Failure> {
        let mut answers = Vec::new();
        for call in calls {
            // `status` and `explain` check the queues of every stack: these are empty unless a test says otherwise.
            if self.services.is_empty() && is_of_queues(&call) {
                answers.push(Ok(json!({})));
                continue;
            }
            self.note(&format!("→ {} {}", lambda::action(&call), call.body));
            answers.push(self.services.pop_front().expect("an answer"));
        }
        Ok(answers)
    }

    async fn object(&mut self, call: Call) -> Result<Vec<u8>, Failure> {
        self.note(&format!("→ {} {}", lambda::action(&call), call.path));
        self.objects.pop_front().expect("an answer")
    }

    async fn stack(&mut self) -> Result<String, Failure> {
        Ok((*self.stacks.front().expect("a stack")).to_owned())
    }

    async fn other_stack(&mut self) -> Result<(), Failure> {
        let stack = self.stacks.pop_front().expect("a stack").to_owned();
        match self.stacks.front() {
            Some(_) => Ok(()),
            None => Err(Failure::NoFunction { stack, region: self.region(), stacks: Some(vec![]) }),
        }
    }

    async fn github(&mut self, address: &str) -> Result<Option<Value>, Failure> {
        self.note(&format!("→ GET {address}"));
        Ok(self.github.pop_front().expect("an answer"))
    }

    fn usual_github(&self) -> String {
        self.usual_github.to_owned()
    }

    fn region(&self) -> String {
        "us-east-1".to_owned()
    }
}

impl Console for Fake {
    fn is_attended(&self) -> bool {
        !self.says.is_empty() || self.log.contains("? ")
    }

    fn say(&mut self, text: &str) {
        self.note(&format!("  {}", text.replace('\n', "\n  ")));
    }

    fn show(&mut self, page: &str) {
        self.say(page);
    }

    fn print(&mut self, text: &str) {
        self.log.push_str(text);
    }

    fn redraw(&mut self, text: &str) {
        self.note(&format!("[screen]\n{}\n[end]", text.trim_end()));
    }

    fn height(&self) -> u16 {
        20
    }

    async fn wait(&mut self, time: Seconds) -> bool {
        self.note(&format!("… {} s", time.0));
        self.time = self.time + time;
        self.patience = self.patience.saturating_sub(1);
        self.patience > 0
    }

    async fn hold(&mut self) {
        self.note("— Ctrl-C is held");
    }

    fn confirm(&mut self, question: &str) -> Result<bool, Failure> {
        let said = self.says.pop_front().expect("somebody");
        self.note(&format!("? {question} {said}"));
        Ok(said == "y")
    }

    fn ask(&mut self, question: &str) -> Result<String, Failure> {
        let said = self.says.pop_front().expect("somebody");
        self.note(&format!("? {question}: {said}"));
        Ok(said.to_owned())
    }

    fn offer(&mut self, question: &str, usual: &str) -> Result<String, Failure> {
        let said = self.says.pop_front().expect("somebody");
        self.note(&format!("? {question} [{usual}]: {said}"));
        Ok(if said.is_empty() { usual } else { said }.to_owned())
    }

    fn edit(&mut self, text: &str) -> Result<Option<String>, Failure> {
        let said = self.says.pop_front().expect("somebody");
        let (from, to) = said.split_once(" → ").expect("a change");
        self.note(&format!("? edits: {said}"));
        Ok(text.contains(from).then(|| text.replacen(from, to, 1)))
    }

    fn now(&self) -> Time {
        self.time
    }

    fn stage(&mut self, name: &'static str) {
        self.note(&format!("— {name}"));
    }
}

impl Workstation for Fake {
    fn read_file(&mut self, path: &str) -> Result<String, Failure> {
        Ok(if path.ends_with("/architecture") { "arm64\n" } else { self.file }.to_owned())
    }

    fn exists(&mut self, path: &str) -> bool {
        self.files.contains(&path)
    }

    fn start(&mut self, program: &str, line: &[String], folder: &str) -> Result<(), Failure> {
        self.note(&format!("→ in {folder}: {program} {}", line.join(" ")));
        Ok(())
    }

    fn hand_over(&mut self, program: &str, line: &[String]) -> Failure {
        self.note(&format!("→ {program} {}", line.join(" ")));
        Failure::Usage(format!("There is no {program} in a test."))
    }

    fn ended(&mut self) -> Result<Option<ProgramResult>, Failure> {
        Ok(self.child.pop_front().expect("a program"))
    }

    fn browse(&mut self, address: &str) -> bool {
        self.note(&format!("  browser: {address}"));
        self.has_browser
    }

    fn browse_privately(&mut self, address: &str) -> bool {
        self.note(&format!("  browser, privately: {address}"));
        self.has_browser
    }

    /// What a person would not guess, and a test does.
    fn random<const N: usize>(&mut self) -> Result<[u8; N], Failure> {
        Ok([u8::try_from(N).unwrap_or_default(); N])
    }
}

impl LocalPage for Fake {
    async fn listen(&mut self) -> Result<u16, Failure> {
        Ok(PORT)
    }

    async fn visit(&mut self, typed: bool, time: Seconds) -> Result<Visit, Failure> {
        let visit = self.visits.pop_front().unwrap_or(Visit::Nobody);
        match &visit {
            Visit::Asked(BrowserRequest { method, target, host }) => {
                self.note(&format!("← {method} {target} at {host}"));
            }
            Visit::Typed(line) => {
                assert!(typed, "nobody is listened to");
                self.note(&format!("? {line}"));
            }
            Visit::Nobody => {
                self.note("… until it is over");
                self.time = self.time + time;
            }
        }
        Ok(visit)
    }

    async fn reply(&mut self, reply: BrowserResponse) {
        let to = reply.headers.iter().find(|(name, _)| *name == "location");
        let to = to.map(|(_, to)| format!(" to {to}")).unwrap_or_default();
        let text = reply.body.split("<p>").nth(1).and_then(|rest| rest.split("</p>").next());
        self.note(&format!("  page {}{to}: {}", reply.status, text.unwrap_or_default()));
    }

    fn close(&mut self) {
        self.note("  the page is closed");
    }

    async fn serve(&mut self, serving: Serving) -> Result<(), Failure> {
        let Serving { about, port, opens, by } = serving;
        self.note(&format!("  serves {about:?} at {port:?} for {by:?}, browser: {opens}"));
        Ok(())
    }
}

fn is_of_queues(call: &Call) -> bool {
    let action = lambda::action(call);
    action == "sqs:ListQueues" || call.path.ends_with("/concurrency")
}
