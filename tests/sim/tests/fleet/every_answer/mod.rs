//! Each pass, with each of its calls answered in each way that its port may answer, and with
//! somebody else at work while the call is on its way. Afterwards the same is asked of the books.
//!
//! Nothing of it is written by hand but the stories (`passes.rs`), what others do (`others.rs`) and
//! the questions (`books.rs`): a first, undisturbed run lists the calls of the pass, and of each
//! the faults that its port asked for.
//!
//! Error branches of `shared/control` that no fast test reaches. They were found with
//! `-C instrument-coverage` over the unit tests, the stories, `burst`, `fleet` and the conformance
//! of the ports, and are left for these reasons:
//! - what only words a log line or a metric: the fields of `tracing`, `metrics()` of the jobs batch
//!   and of the recovery, `Metric::for_refusal`, `name` and `unit`;
//! - a request that the operator's own shape forbids: `explain` without a subject, `pools` or
//!   `switch` without one of its fields (`admin`);
//! - a cursor that another pass moves in the very moment: `overflow` and `allowances` leave the
//!   question to that pass, and a probe that cannot be put back waits longer;
//! - what a change of pools in the middle of a pass leaves: a job whose pool is gone, an instance
//!   whose pool is gone (`recover`, `observe`, `runner_api`);
//! - an end that the loop has not come to so far: `reap pass exceeded its maximum number of decisions`, a launch that
//!   somebody else has settled (`calls`), a capacity record that is gone (`lease`);
//! - more than a hundred failed deliveries, and three that fail in one run (`recover`).

mod books;
mod known;
mod others;
mod passes;

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use muster_sim::agenda::{MINUTE, Millis};
use muster_sim::chosen::{Answer, ChosenAnswers, MadeCall};
use muster_sim::fault::Fault;
use muster_sim::scenario::Stage;
use muster_sim::summary::{Kind, Summary};

use self::books::{Books, Ends, GRACE, after_the_pass, in_the_end};
use self::known::{KNOWN, Known, allowed};
use self::others::{OTHERS, Other, Stops, stops};
use self::passes::{PASSES, Pass};
use crate::outcomes;

/// What a call gets in place of the usual answer.
#[derive(Clone, Copy)]
enum Way {
    Once(Fault),
    /// And each later call that asks for the same.
    Always(Fault),
    /// A record of another version.
    Unreadable,
    Meanwhile(&'static Other),
    /// Listings come in pages of one, all through the pass.
    Pages,
    /// The call arrives when so many hundredths of the invocation's time are over.
    Late(Millis),
    /// The message was received 49 times before, and the call fails once more.
    Fiftieth(Fault),
}

/// In the middle of an invocation's time passes stop to begin anything, and soon after this they are
/// stopped.
const LATE: [Millis; 2] = [50, 99];

impl Way {
    fn told(self) -> String {
        match self {
            Self::Once(fault) => fault.as_str().to_owned(),
            Self::Always(fault) => format!("{} for ever", fault.as_str()),
            Self::Unreadable => "unreadable".to_owned(),
            Self::Meanwhile(other) => format!("meanwhile {}", other.name),
            Self::Pages => "listings in pages of one".to_owned(),
            Self::Late(hundredths) => format!("after {hundredths} % of the time"),
            Self::Fiftieth(fault) => format!("{} at the fiftieth receive", fault.as_str()),
        }
    }

    const fn kind(self) -> Kind {
        match self {
            Self::Once(_) | Self::Unreadable | Self::Fiftieth(_) => Kind::Once,
            Self::Late(_) => Kind::Interrupted,
            Self::Always(_) | Self::Pages => Kind::Always,
            Self::Meanwhile(_) => Kind::Meanwhile,
        }
    }

    const fn answer(self) -> Option<Answer> {
        match self {
            Self::Once(fault) | Self::Fiftieth(fault) => Some(Answer::Once(fault)),
            Self::Late(hundredths) => Some(Answer::Late(hundredths)),
            Self::Always(fault) => Some(Answer::Always(fault)),
            Self::Unreadable => Some(Answer::Unreadable),
            Self::Meanwhile(other) => Some(Answer::Meanwhile(other.act)),
            Self::Pages => None,
        }
    }

    const fn fault(self) -> Option<Fault> {
        match self {
            Self::Once(fault) | Self::Always(fault) | Self::Fiftieth(fault) => Some(fault),
            // Of a read, as if nothing had come.
            Self::Unreadable => Some(Fault::ReadFailed),
            Self::Meanwhile(_) | Self::Pages | Self::Late(_) => None,
        }
    }

    /// How much later it may all end, besides what the rules wait.
    const fn takes(self) -> Millis {
        match self {
            Self::Late(_) => TIME_LIMIT,
            // A message comes again later with each receive.
            Self::Fiftieth(_) => 6 * MINUTE,
            _ => 0,
        }
    }
}

/// The longest that an invocation runs.
const TIME_LIMIT: Millis = MINUTE;

/// A run of a pass.
struct Run {
    calls: Vec<MadeCall>,
    after: Books,
    ends: Ends,
    wrong: Vec<String>,
    /// What is left in the end.
    left: Vec<String>,
    /// The outcome in the end.
    outcome: Summary,
    /// What happened.
    story: String,
}

/// The story up to some seconds after the pass.
fn play(pass: &Pass, at: Option<(usize, Way)>) -> (Stage, Books) {
    let story = |told: Result<(), String>| {
        told.unwrap_or_else(|wrong| panic!("{}: {wrong}", pass.name));
    };
    let (pools, before) = pass.before.split_once('\n').unwrap_or((pass.before, ""));
    let mut stage = Stage::set(pools).expect("pools");
    stage.change(pass.prepare);
    story(stage.tell(before));
    let before = stage.change(|world| {
        let answer = at.and_then(|(number, way)| Some((number, way.answer()?)));
        world.chosen = Some(ChosenAnswers::of(pass.function, answer));
        if matches!(at, Some((_, Way::Pages))) {
            world.tables.page = 1;
        }
        if matches!(at, Some((_, Way::Fiftieth(_)))) {
            world.queues.age(49);
        }
        Books::of(world)
    });
    let told = stage.tell(pass.then);
    stage.change(|world| world.queues.age(0));
    if matches!(at, Some((_, Way::Late(_)))) {
        let _ = stage.tell("advance 1m");
    }
    // In a disturbed one what cannot be done is left out.
    if at.is_none() {
        story(told);
    }
    (stage, before)
}

fn undisturbed(pass: &Pass) -> Run {
    let (mut stage, _) = play(pass, None);
    let (calls, after) =
        stage.change(|world| (world.chosen.take().map(|chosen| chosen.calls), Books::of(world)));
    let mut wrong = stage.change(|world| after_the_pass(world, pass, &after, &after));
    let recorded = outcomes::compare(&format!("{}{}", outcomes::PASS, pass.name), &stage.outcome());
    wrong.extend(recorded.err());
    stage.come_to_rest(MINUTE);
    let (ends, left) = stage.change(|world| (Ends::of(world), in_the_end(world)));
    if !pass.keeps_runners() {
        wrong.extend(left.clone());
    }
    let calls = calls.unwrap_or_default();
    Run { calls, after, ends, wrong, left, outcome: stage.outcome(), story: String::new() }
}

fn disturbed(pass: &Pass, number: usize, way: Way, usual: &Run) -> Run {
    let (mut stage, before) = play(pass, Some((number, way)));
    let (calls, after) =
        stage.change(|world| (world.chosen.take().map(|chosen| chosen.calls), Books::of(world)));
    let calls = calls.unwrap_or_default();
    let name = &usual.calls[number].name;
    let mut wrong = stage.change(|world| after_the_pass(world, pass, &after, &usual.after));
    if matches!(way, Way::Always(_)) && name == "commit of Capacity" {
        // What cannot be written is over some time later.
        wrong.retain(|wrong| !wrong.ends_with("is still held"));
    }
    // A job that comes in between may have the runner first, for a minute.
    let patience = way.fault().map_or(MINUTE, |fault| allowed(fault, name));
    match way {
        Way::Once(fault) | Way::Always(fault) => {
            wrong.extend(after.later_than(&usual.after, patience));
            if is_not_found(fault) {
                wrong.extend(after.is_driven_on(&before, &usual.after));
            }
            if fault == Fault::RateLimited {
                wrong.extend(asks_on(&calls, number));
            }
        }
        Way::Late(hundredths) => wrong.extend(begins_late(pass, &calls, number, hundredths)),
        Way::Fiftieth(_) => {}
        Way::Unreadable | Way::Pages => wrong.extend(after.later_than(&usual.after, patience)),
        Way::Meanwhile(other) => wrong.extend(stops(other, &mut stage, &calls, number)),
    }
    // An operator who was told of an error orders once more.
    let _ = stage.tell(pass.again);
    stage.come_to_rest(MINUTE);
    let (ends, left) = stage.change(|world| (Ends::of(world), in_the_end(world)));
    // How many runners a pool keeps for the moment is no matter of this test.
    let is_asked = |one: &&String| !pass.keeps_runners() || !is_count(one);
    let more = left.iter().filter(|one| !usual.left.contains(one));
    wrong.extend(more.filter(is_asked).cloned());
    let asks_when = match way {
        Way::Meanwhile(other) if other.stops != Stops::Nothing => None,
        Way::Meanwhile(_) => Some(false),
        _ => Some(!pass.keeps_runners()),
    };
    let late = asks_when.map(|with_machines| ends.latest(&usual.ends, with_machines));
    if let Some((late, what)) =
        late.filter(|(late, _)| *late > grace(pass, way) + patience + way.takes())
    {
        wrong.push(format!("{what} {} s later", late / 1000));
    }
    let outcome = stage.outcome();
    // A job waits for as long as what it needs is paused.
    let is_paused = matches!(way, Way::Meanwhile(other) if other.stops != Stops::Nothing);
    let differs = outcome.differs_from(&usual.outcome, way.kind());
    wrong.extend(differs.into_iter().filter(|what| !(is_paused && what.starts_with("waited"))));
    let story = if wrong.is_empty() { String::new() } else { stage.timeline() };
    Run { calls, after, ends, wrong, left, outcome, story }
}

/// What a pass begins when its time is nearly over. A fleet whose intent is on record is asked for.
fn begins_late(pass: &Pass, calls: &[MadeCall], late: usize, hundredths: Millis) -> Option<String> {
    let begins = ["launch", "redeliver", "deliveries", "queued_jobs", "repositories_from"];
    // A sweep may begin one more listing: what it read is stored, and the next sweep continues there.
    if pass.function != "launch" {
        return None;
    }
    let most = 1;
    // Other calls of a sweep are on their way at the same time.
    let later = calls.iter().skip(late + 1).filter(|call| call.at > calls[late].at);
    let begun: Vec<&str> =
        later.map(|call| &*call.name).filter(|name| begins.contains(name)).collect();
    (hundredths > 50 && begun.len() > most).then(|| format!("begins {} late", begun.join(", ")))
}

/// Whether this is how many of something are left.
fn is_count(left: &str) -> bool {
    left.starts_with(|first: char| first.is_ascii_digit())
}

/// How much later than usual it may all end. The message of a pass that fails comes again by
/// itself within seconds; what only wakes somebody, and what is not asked by a message, is left to
/// the sweep.
fn grace(pass: &Pass, way: Way) -> Millis {
    let has_message = matches!(pass.function, "scale-up" | "reaper");
    let fails = matches!(
        way,
        Way::Once(Fault::ReadFailed | Fault::CommitRefused | Fault::CommitCollided)
            | Way::Always(Fault::ReadFailed | Fault::CommitRefused | Fault::CommitCollided)
    );
    if has_message && fails { 20_000 } else { GRACE }
}

/// GitHub's limit ends after five seconds. The App's own calls and those of an installation have
/// limits of their own.
/// Source: docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
fn asks_on(calls: &[MadeCall], limited: usize) -> Option<String> {
    const LIMIT: Millis = 5_000;
    let is_apps = |call: &MadeCall| matches!(&*call.name, "deliveries" | "redeliver");
    let asks = ["configure", "runner", "runner_named", "deregister", "deliveries", "redeliver"];
    let first = &calls[limited];
    let rest = calls.iter().enumerate().skip(limited + 1);
    let mut asked = rest.filter(|(_, call)| {
        let is_githubs = call.faults.contains(&Fault::RateLimited);
        (is_githubs || asks.contains(&&*call.name))
            && is_apps(call) == is_apps(first)
            && (first.at + 1..first.at + LIMIT).contains(&call.at)
    });
    let (number, call) = asked.next()?;
    Some(format!("call {number} ({}) asks GitHub within its limit", call.name))
}

const fn is_not_found(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::RunnerHidden | Fault::JobHidden | Fault::MachineDenied | Fault::ListCached
    )
}

/// What others do meanwhile is asked before each call that changes something.
fn changes_something(call: &MadeCall) -> bool {
    let changes = |fault: &Fault| {
        matches!(
            fault,
            Fault::CommitRefused
                | Fault::LaunchTimedOut
                | Fault::TerminateFailed
                | Fault::DeleteAnswerLost
                | Fault::ConfigureAnswerLost
        )
    };
    call.faults.iter().any(changes)
}

/// Which answers are tried. The other faults befall messages on their way, machines and webhooks.
const fn is_answer(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::CommitRefused
            | Fault::CommitAnswerLost
            | Fault::CommitCollided
            | Fault::ReadFailed
            | Fault::IndexLate
            | Fault::SendFailed
            | Fault::SendAnswerLost
            | Fault::MessageLost
            | Fault::HideFailed
            | Fault::LaunchAnswerLost
            | Fault::LaunchTimedOut
            | Fault::LaunchLate
            | Fault::LaunchNoCapacity
            | Fault::LaunchPartial
            | Fault::LaunchQuota
            | Fault::LaunchThrottled
            | Fault::LaunchMisconfigured
            | Fault::MachineHidden
            | Fault::MachineDenied
            | Fault::DescribeStale
            | Fault::DescribeFailed
            | Fault::ListPaged
            | Fault::TerminateFailed
            | Fault::TerminateDenied
            | Fault::TerminateStuck
            | Fault::TerminateAnswerLost
            | Fault::GithubFails
            | Fault::ConfigureAnswerLost
            | Fault::ConfigureConflict
            | Fault::ConfigureRefused
            | Fault::DeleteAnswerLost
            | Fault::RateLimited
            | Fault::Unauthorized
            | Fault::BusyLieIdle
            | Fault::RunnerHidden
            | Fault::JobHidden
            | Fault::ListCached
    )
}

/// What was tried, and what was wrong.
#[derive(Default)]
struct Found {
    runs: usize,
    wrong: Vec<(String, String)>,
}

impl Found {
    fn try_all(&mut self, pass: &Pass) {
        let usual = undisturbed(pass);
        assert!(usual.wrong.is_empty(), "{}: {:?}", pass.name, usual.wrong);
        assert!(!usual.calls.is_empty(), "{} does not run", pass.name);
        if let Some(only) = pass.only {
            let other = OTHERS.iter().find(|other| other.name == only).expect("one of them");
            for (number, _) in usual.calls.iter().enumerate() {
                self.attempt(pass, number, Way::Meanwhile(other), &usual);
            }
            return;
        }
        self.attempt(pass, 0, Way::Pages, &usual);
        for (number, call) in usual.calls.iter().enumerate() {
            for fault in call.faults.iter().copied().filter(|fault| is_answer(*fault)) {
                let done = self.attempt(pass, number, Way::Once(fault), &usual);
                if done.calls[number + 1..].iter().any(|later| later.name == call.name) {
                    self.attempt(pass, number, Way::Always(fault), &usual);
                }
            }
            if call.faults.contains(&Fault::ReadFailed) {
                self.attempt(pass, number, Way::Unreadable, &usual);
            }
            for hundredths in LATE {
                self.attempt(pass, number, Way::Late(hundredths), &usual);
            }
            if let Some(fault) = call.faults.iter().copied().find(|fault| is_answer(*fault)) {
                self.attempt(pass, number, Way::Fiftieth(fault), &usual);
            }
            let concerns = |other: &&Other| other.stops != Stops::Pools || pass.removes_a_pool();
            for other in OTHERS.iter().filter(|_| changes_something(call)).filter(concerns) {
                self.attempt(pass, number, Way::Meanwhile(other), &usual);
            }
        }
    }

    fn attempt(&mut self, pass: &Pass, number: usize, way: Way, usual: &Run) -> Run {
        self.runs += 1;
        let done = disturbed(pass, number, way, usual);
        let (call, told) = (&usual.calls[number].name, way.told());
        for wrong in &done.wrong {
            let wrong = format!("{}, call {number} ({call}): {told}: {wrong}", pass.name);
            self.wrong.push((wrong, done.story.clone()));
        }
        done
    }
}

#[test]
fn no_answer_to_any_call_of_a_pass_leaves_anything_wrong() {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Found::default()));
    let try_some = || {
        while let Some(pass) = PASSES.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut own = Found::default();
            own.try_all(pass);
            let mut all = found.lock().expect("no panic");
            all.runs += own.runs;
            all.wrong.append(&mut own.wrong);
        }
    };
    thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(try_some))));
    let found = found.into_inner().expect("no panic");
    let is_pass = |name: &str| PASSES.iter().any(|pass| pass.name == name);
    let recorded =
        outcomes::belong_to(|name| name.strip_prefix(outcomes::PASS).is_none_or(is_pass));
    assert_eq!(recorded, Ok(()));
    let is_known = |wrong: &str| KNOWN.iter().any(|known| known.is_about(wrong));
    let new: Vec<_> = found.wrong.iter().filter(|(wrong, _)| !is_known(wrong)).collect();
    let mut told = format!("{} runs\n", found.runs);
    for (wrong, _) in &new {
        writeln!(told, "{wrong}").expect("written");
    }
    let is_found = |known: &&Known| found.wrong.iter().any(|(wrong, _)| known.is_about(wrong));
    let gone: Vec<&Known> = KNOWN.iter().filter(|known| !is_found(known)).collect();
    for known in &gone {
        writeln!(told, "known, and not so any more: {:?}: {}", known.told, known.why)
            .expect("written");
    }
    if let Some((wrong, story)) = new.first() {
        writeln!(told, "{wrong}, up to some seconds after the pass:\n{story}").expect("written");
    }
    assert!(new.is_empty() && gone.is_empty(), "{told}");
}
