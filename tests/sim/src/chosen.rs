//! A test chooses what one call of one invocation is answered.
//!
//! Without a choice it lists the calls of that invocation, each with the faults that its port asked
//! for: those are the answers that may come in place of the usual one. So whoever wants to try them
//! all need not know what a pass calls.

use std::any::type_name;

use muster_control::ports::Write;

use crate::agenda::{Millis, SECOND, TaskId};
use crate::fault::Fault;
use crate::invocations::Call;
use crate::world::World;

/// What is chosen.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// This call meets the fault.
    Once(Fault),
    /// This call meets the fault, and so does each later one that asks for the same.
    Always(Fault),
    /// The record that this read is about is of another version.
    Unreadable,
    /// The call arrives when so many hundredths of the invocation's time are over.
    Late(Millis),
    /// The call is on its way for two seconds, and this happens at their beginning.
    Meanwhile(fn(&mut World)),
}

/// A call that the invocation made.
#[derive(Clone, Debug)]
pub struct MadeCall {
    /// The port's method; of a commit also the kinds of its records.
    pub name: String,
    /// When it was carried out.
    pub at: Millis,
    /// What its port asked for.
    pub faults: Vec<Fault>,
}

/// The calls of the next invocation of a function, and which of them gets which answer.
#[derive(Debug)]
pub struct ChosenAnswers {
    function: &'static str,
    chosen: Option<(usize, Answer)>,
    task: Option<TaskId>,
    /// When the invocation began, and how long it may take.
    time: (Millis, Millis),
    /// The call that is being carried out.
    open: Option<usize>,
    /// Its calls so far.
    pub calls: Vec<MadeCall>,
}

impl ChosenAnswers {
    /// Of the next invocation whose trace begins with this word. Its calls count from 0.
    #[must_use]
    pub const fn of(function: &'static str, chosen: Option<(usize, Answer)>) -> Self {
        Self { function, chosen, task: None, time: (0, 0), open: None, calls: Vec::new() }
    }

    fn strikes(&mut self, fault: Fault) -> bool {
        let Some(open) = self.open else { return false };
        let call = &mut self.calls[open];
        if !call.faults.contains(&fault) {
            call.faults.push(fault);
        }
        match self.chosen {
            Some((call, Answer::Once(chosen))) => call == open && chosen == fault,
            Some((call, Answer::Always(chosen))) => {
                let first = self.calls.get(call).map(|first| &first.name);
                chosen == fault && open >= call && first == Some(&self.calls[open].name)
            }
            Some((_, Answer::Unreadable | Answer::Late(_) | Answer::Meanwhile(_))) | None => false,
        }
    }
}

impl World {
    /// An invocation begins: the task that runs now.
    pub(crate) fn note_invocation(&mut self, call: &Call) {
        let (current, now, name) = (self.current, self.now, call.name());
        if let Some(answers) = &mut self.chosen
            && answers.task.is_none()
            && name.starts_with(answers.function)
        {
            answers.task = current;
            answers.time = (now, call.time_limit());
        }
    }

    /// A call has been made, by the task that runs now. Returns its number, if it is one of those,
    /// and how much longer than usual it is on its way.
    pub(crate) fn call_is_made<F>(&mut self, _: &F) -> (Option<usize>, Millis) {
        let (current, now) = (self.current, self.now);
        let Some(answers) = self.chosen.as_mut().filter(|one| one.task == current) else {
            return (None, 0);
        };
        let number = answers.calls.len();
        let name = method(type_name::<F>());
        answers.calls.push(MadeCall { name, at: 0, faults: Vec::new() });
        match answers.chosen {
            Some((call, Answer::Meanwhile(other))) if call == number => {
                other(self);
                (Some(number), 2 * SECOND)
            }
            Some((call, Answer::Late(hundredths))) if call == number => {
                let (begun, limit) = answers.time;
                (Some(number), (begun + limit * hundredths / 100 - now).max(0))
            }
            _ => (Some(number), 0),
        }
    }

    /// The call of this number is carried out, or none any more.
    pub(crate) fn carry_out(&mut self, call: Option<usize>) {
        let now = self.now;
        let Some(answers) = &mut self.chosen else { return };
        answers.open = call;
        if let Some(call) = call {
            answers.calls[call].at = now;
        }
    }

    /// Whether the call that is carried out is to meet a record of another version.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.chosen.as_ref().is_some_and(|chosen| {
            let unreadable = |(call, answer): (usize, Answer)| {
                chosen.open == Some(call) && matches!(answer, Answer::Unreadable)
            };
            chosen.chosen.is_some_and(unreadable)
        })
    }

    /// The call that is carried out is a commit of these.
    pub(crate) fn note_writes(&mut self, writes: &[Write]) {
        let Some(answers) = &mut self.chosen else { return };
        let Some(open) = answers.open else { return };
        let mut kinds: Vec<String> = writes.iter().map(kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        answers.calls[open].name = format!("commit of {}", kinds.join(", "));
    }

    /// Whether the fault is chosen for the call that is carried out.
    pub(crate) fn is_chosen(&mut self, fault: Fault) -> bool {
        self.chosen.as_mut().is_some_and(|answers| answers.strikes(fault))
    }
}

/// The port's method that a closure stands in.
fn method(closure: &str) -> String {
    let closure = closure.trim_end_matches("::{{closure}}");
    let own = closure.rsplit_once("Door>::").map(|(_, own)| own);
    let own = own.or_else(|| closure.split('<').next()?.rsplit("::").next()).unwrap_or(closure);
    let word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    own.split(|letter: char| !word(letter)).next().unwrap_or(own).to_owned()
}

/// The record that a write is of.
fn kind(write: &Write) -> String {
    let told = format!("{write:?}");
    told.split(|letter: char| !letter.is_ascii_alphabetic()).next().unwrap_or_default().to_owned()
}
