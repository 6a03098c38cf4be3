//! A world whose answers are told beforehand.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use clap::Parser as _;
use muster_cli::args::Muster;
use muster_cli::failure::Failure;
use muster_cli::page::Screen;
use muster_cli::session::{World, run};
use muster_domain::time::Time;
use serde_json::Value;

/// When everything is asked: the time of the recorded answers.
pub(crate) const NOW: Time = Time::from_millis(1_795_219_200_000);

#[derive(Default)]
pub(crate) struct Fake {
    /// The function's answers, in the order of the questions.
    pub(crate) answers: VecDeque<Value>,
    /// GitHub's.
    pub(crate) github: VecDeque<Option<Value>>,
    /// What the person says; without anything nobody is there.
    pub(crate) says: VecDeque<&'static str>,
    /// The text of every file.
    pub(crate) file: &'static str,
    /// What happened, in order.
    pub(crate) log: String,
}

impl Fake {
    pub(crate) fn of(answers: impl IntoIterator<Item = Value>) -> Self {
        Self { answers: answers.into_iter().collect(), ..Self::default() }
    }

    /// Runs a command line, and tells all that happened and what came of it.
    pub(crate) fn run(mut self, line: &[&str]) -> String {
        let args = Muster::try_parse_from(std::iter::once(&"muster").chain(line));
        let args = args.unwrap_or_else(|error| panic!("{line:?}: {error}"));
        let json = args.global.json;
        let outcome = {
            let running = pin!(run(args, Screen { width: Some(100), colour: false }, &mut self));
            finished(running)
        };
        let told = match outcome {
            Ok(text) => format!("{text}exit 0\n"),
            Err(failure) => {
                let json = if json { format!("{:#}\n", failure.json()) } else { String::new() };
                format!("{json}! {}\nexit {}\n", failure.sentence(), failure.exit())
            }
        };
        assert!(self.answers.is_empty(), "not asked for: {:?}\n{}", self.answers, self.log);
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

impl World for Fake {
    async fn admin(&mut self, request: &Value) -> Result<Value, Failure> {
        self.note(&format!("→ {request}"));
        Ok(self.answers.pop_front().expect("an answer"))
    }

    async fn github(&mut self, address: &str) -> Result<Option<Value>, Failure> {
        self.note(&format!("→ GET {address}"));
        Ok(self.github.pop_front().expect("an answer"))
    }

    fn read_file(&mut self, _: &str) -> Result<String, Failure> {
        Ok(self.file.to_owned())
    }

    fn is_attended(&self) -> bool {
        !self.says.is_empty() || self.log.contains("? ")
    }

    fn say(&mut self, text: &str) {
        self.note(&format!("  {}", text.replace('\n', "\n  ")));
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

    fn edit(&mut self, text: &str) -> Result<Option<String>, Failure> {
        let said = self.says.pop_front().expect("somebody");
        let (from, to) = said.split_once(" → ").expect("a change");
        self.note(&format!("? edits: {said}"));
        Ok(text.contains(from).then(|| text.replacen(from, to, 1)))
    }

    fn now(&self) -> Time {
        NOW
    }

    fn region(&self) -> String {
        "us-east-1".to_owned()
    }
}
