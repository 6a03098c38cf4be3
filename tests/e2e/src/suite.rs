//! Runs scenarios side by side in one process and says what each one shows.
//!
//! Not Rust's own harness, though it takes the options of that: these tests wait for most of their
//! time, so there are more of them at once than processors, and what they show is worth reading
//! when they pass as well.

use std::cell::RefCell;
use std::io::Write as _;
use std::pin::Pin;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, anyhow};
use libtest_mimic::Arguments;
use tokio::sync::{Mutex, MutexGuard, Semaphore};
use tokio::task::LocalSet;

use crate::Stack;

/// Scenarios at a time. Two processors carry this many: each sleeps most of the time.
const AT_ONCE: usize = 8;
/// A scenario that takes longer hangs, whatever else the machine does.
const LIMIT: Duration = Duration::from_secs(600);

/// Held by scenarios that measure times, and by those that use all processors: never two of them.
static QUIET: Mutex<()> = Mutex::const_new(());

type Run = Box<dyn Fn(Test) -> Pin<Box<dyn Future<Output = Result<()>>>>>;

/// A test.
pub struct Scenario {
    name: &'static str,
    claim: &'static str,
    run: Run,
    is_alone: bool,
}

impl Scenario {
    /// `claim` is the sentence that holds when the scenario passes.
    pub fn new<F>(name: &'static str, claim: &'static str, run: fn(Test) -> F) -> Self
    where
        F: Future<Output = Result<()>> + 'static,
    {
        Self { name, claim, run: Box::new(move |test| Box::pin(run(test))), is_alone: false }
    }

    /// It changes what all stacks share, so it runs when the others are over.
    #[must_use]
    pub fn alone(self) -> Self {
        Self { is_alone: true, ..self }
    }
}

/// A running scenario.
#[derive(Clone)]
pub struct Test {
    name: &'static str,
    shown: Rc<RefCell<Vec<String>>>,
    stacks: Rc<RefCell<Vec<Stack>>>,
}

impl Test {
    fn new(name: &'static str) -> Self {
        Self { name, shown: Rc::default(), stacks: Rc::default() }
    }

    /// Notes something that was seen, for the person who reads the report.
    pub fn shows(&self, what: impl Into<String>) {
        self.shown.borrow_mut().push(what.into());
    }

    /// Deploys a stack of the scenario's own. It is taken down when the scenario passes, and kept
    /// for a look when it fails.
    ///
    /// # Errors
    /// When it cannot be deployed.
    pub async fn stack(&self, parameters: &[(&str, &str)]) -> Result<Stack> {
        self.named_stack("", parameters).await
    }

    /// One of several stacks of a scenario.
    ///
    /// # Errors
    /// When it cannot be deployed.
    pub async fn named_stack(&self, which: &str, parameters: &[(&str, &str)]) -> Result<Stack> {
        let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        // Not unique for ever, but among the runs that one emulator sees.
        let run = clock.as_millis() % 100_000_000;
        let stack = Stack::deploy(&format!("{}{which}-{run:x}", self.name), parameters).await?;
        self.stacks.borrow_mut().push(stack.clone());
        Ok(stack)
    }

    /// Waits until no other scenario measures times or uses all processors, and keeps those
    /// waiting.
    pub async fn quiet(&self) -> MutexGuard<'static, ()> {
        QUIET.lock().await
    }

    /// Takes the stacks down after success; describes them after failure.
    async fn end(self, result: Result<()>) -> Result<Vec<String>, String> {
        let stacks = self.stacks.take();
        match result {
            Ok(()) => {
                for stack in stacks {
                    if let Err(error) = stack.tear_down().await {
                        self.shows(format!("left behind: stack {}: {error:#}", stack.name));
                    }
                }
                Ok(self.shown.take())
            }
            Err(error) => {
                let mut text = format!("{error:#}\n");
                for stack in stacks {
                    text += &stack.diagnosis().await;
                    text += "(the stack is kept until `make down`)\n";
                }
                Err(text)
            }
        }
    }
}

/// Whether the command line asks for this one.
fn is_wanted(arguments: &Arguments, name: &str) -> bool {
    let matches =
        |word: &String| if arguments.exact { name == word } else { name.contains(word.as_str()) };
    arguments.filter.as_ref().is_none_or(matches) && !arguments.skip.iter().any(matches)
}

/// Runs the scenarios that the command line asks for; the longest should come first.
#[must_use]
pub fn main(scenarios: Vec<Scenario>) -> ExitCode {
    let arguments = Arguments::from_args();
    let all = scenarios.len();
    let scenarios: Vec<Scenario> =
        scenarios.into_iter().filter(|one| is_wanted(&arguments, one.name)).collect();
    if arguments.list {
        scenarios.iter().for_each(|scenario| say(&format!("{}: test", scenario.name)));
        return ExitCode::SUCCESS;
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            say(&format!("error: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let others = all - scenarios.len();
    let failed = LocalSet::new()
        .block_on(&runtime, run(scenarios, arguments.test_threads.unwrap_or(AT_ONCE), others));
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Whether one failed.
async fn run(scenarios: Vec<Scenario>, at_once: usize, others: usize) -> bool {
    let begun = Instant::now();
    let count = scenarios.len();
    say(&format!("\nrunning {count} scenarios on the local stack, {at_once} at a time"));
    let turns = Rc::new(Semaphore::new(at_once.max(1)));
    let (alone, beside): (Vec<_>, Vec<_>) =
        scenarios.into_iter().partition(|scenario| scenario.is_alone);
    let tasks: Vec<_> = beside
        .into_iter()
        .map(|scenario| {
            let scenario = Rc::new(scenario);
            let run = one(Rc::clone(&scenario), Rc::clone(&turns));
            (scenario, tokio::task::spawn_local(run))
        })
        .collect();
    let mut again = Vec::new();
    for (scenario, task) in tasks {
        // A panic has been reported by then; it is a failure like any other.
        if !task.await.unwrap_or(false) {
            again.push(scenario);
        }
    }
    for scenario in alone.into_iter().map(Rc::new) {
        let run = one(Rc::clone(&scenario), Rc::clone(&turns));
        if !tokio::task::spawn_local(run).await.unwrap_or(false) {
            again.push(scenario);
        }
    }
    // Many scenarios measure times, and a shared machine can stand still for seconds: what failed
    // beside others gets one more try alone, and the report shows both.
    let (mut failed, mut flaky) = (Vec::new(), Vec::new());
    for scenario in again {
        say(&format!("once more, alone: {}", scenario.name));
        let run = one(Rc::clone(&scenario), Rc::clone(&turns));
        let passed = tokio::task::spawn_local(run).await.unwrap_or(false);
        let kind = if passed { &mut flaky } else { &mut failed };
        kind.push(scenario.name);
    }
    let result = if failed.is_empty() { "ok" } else { "FAILED" };
    say(&format!(
        "\ntest result: {result}. {} passed, {} of them flaky; {} failed; {others} filtered out; \
         finished in {:.1}s",
        count - failed.len(),
        flaky.len(),
        failed.len(),
        begun.elapsed().as_secs_f64()
    ));
    flaky.iter().for_each(|name| say(&format!("    flaky: {name} (passed only alone)")));
    failed.iter().for_each(|name| say(&format!("    failed: {name}")));
    !failed.is_empty()
}

async fn one(scenario: Rc<Scenario>, turns: Rc<Semaphore>) -> bool {
    let Ok(_turn) = turns.acquire().await else { return false };
    let begun = Instant::now();
    let test = Test::new(scenario.name);
    let result = match tokio::time::timeout(LIMIT, (scenario.run)(test.clone())).await {
        Ok(result) => result,
        Err(_) => Err(anyhow!("not finished after {} s", LIMIT.as_secs())),
    };
    let seconds = begun.elapsed().as_secs_f64();
    match test.end(result).await {
        Ok(shown) => {
            let mut text = format!("ok    {seconds:5.1} s  {}: {}", scenario.name, scenario.claim);
            for what in shown {
                text += &format!("\n               · {what}");
            }
            say(&text);
            true
        }
        Err(why) => {
            let why = why.trim_end().replace('\n', "\n      ");
            say(&format!(
                "FAIL  {seconds:5.1} s  {}: {}\n      {why}",
                scenario.name, scenario.claim
            ));
            false
        }
    }
}

fn say(text: &str) {
    // Whoever reads may have gone; the exit code still says how it went.
    let _ = writeln!(std::io::stdout(), "{text}");
}
