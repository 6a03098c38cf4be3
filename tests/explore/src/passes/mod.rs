//! The real passes of the `control` crate, stopped at each call that they make to the outside.
//!
//! A pass under exploration is data: what it was started for, and what its calls were answered so
//! far. To take it a step further it is begun anew and told the same answers; at the first call
//! that has none it is left, and the call is handed to whoever explores. A pass does not look at a
//! clock, so it asks the same each time; that is checked at every call.

mod ports;
mod table;

use std::sync::Arc;

use futures_util::FutureExt as _;
use muster_control::Settings;
use muster_control::admin::Admin;
use muster_control::context::Context;
use muster_control::ports::Write;
use muster_control::reaps::reap::{Pass as ReapPass, Progress, Reap, Ticket};
use muster_control::reaps::terminate;
use muster_domain::ids::{MachineId, RunnerId};
use muster_domain::instance::Instance;
use muster_domain::observation::{Deregistration, MachineSeen, RunnerSeen, Termination};
use muster_domain::provider::ProviderError;
use muster_domain::stored::Stored;
use muster_domain::time::Time;
use serde_json::json;

use self::ports::Replayed;

/// What a pass is started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// A message asks for a pass over the row.
    Row,
    /// A message tells this of the machine.
    Machine(&'static str),
    /// An operator orders a delete.
    Order(Flags),
}

/// What an operator's order says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    /// Provider errors do not hold the delete up.
    pub force: bool,
    /// 401 and 403 from GitHub do not hold the delete up.
    pub bypass_github_unauthorized: bool,
    /// A running job is killed.
    pub kill_running_job: bool,
}

/// A call to the outside that may be answered in several ways, or that others can notice.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// Reads the row. Answered at once, with the row as it is.
    Row,
    /// DescribeInstances.
    Machine,
    /// GitHub is asked for a runner by its number.
    Runner(RunnerId),
    /// GitHub is asked for a runner by its name.
    RunnerNamed(String),
    /// GitHub is asked to remove a registration.
    Deregister(RunnerId),
    /// TerminateInstances.
    Terminate,
    /// A commit.
    Commit(Vec<Write>),
}

/// What a call is answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// To [`Call::Machine`].
    Machine(Result<MachineSeen, ProviderError>),
    /// To [`Call::Runner`] and [`Call::RunnerNamed`].
    Runner(Result<RunnerSeen, ProviderError>),
    /// To [`Call::Deregister`].
    Deregistered(Result<Deregistration, ProviderError>),
    /// To [`Call::Terminate`].
    Terminated(Termination),
    /// To [`Call::Commit`]: written, or another writer was faster.
    Committed(bool),
}

/// A call and its answer.
#[derive(Debug)]
struct Said {
    call: Arc<Call>,
    answer: Told,
}

#[derive(Clone, Debug)]
enum Told {
    Row(Arc<Stored<Instance>>),
    Answer(Answer),
}

/// A pass that waits for the answer to a call.
#[derive(Clone, Debug)]
pub struct Pass {
    /// What it was started for.
    pub cause: Cause,
    /// When.
    pub at: Time,
    said: Vec<Arc<Said>>,
    /// The call that it waits for.
    pub call: Arc<Call>,
    /// The row as it has read or committed it last.
    pub row: Arc<Stored<Instance>>,
    /// The answers that it may still lean on: the last of each kind. A look is forgotten when the
    /// row is read anew.
    pub heard: Vec<Answer>,
}

impl Pass {
    /// A pass that begins now. None when it ends without a call that anybody could notice.
    #[must_use]
    pub fn begin(
        cause: Cause,
        at: Time,
        row: &Arc<Stored<Instance>>,
        settings: &Settings,
    ) -> Option<Self> {
        let call = Arc::new(Call::Row);
        let pass = Self { cause, at, said: Vec::new(), call, row: row.clone(), heard: Vec::new() };
        pass.run(row, settings)
    }

    /// The same pass with its call answered; `row` is what stands in the table after that. None
    /// when it has ended.
    #[must_use]
    pub fn answered(
        &self,
        answer: Answer,
        row: &Arc<Stored<Instance>>,
        settings: &Settings,
    ) -> Option<Self> {
        let mut pass = self.clone();
        if answer == Answer::Committed(true) && writes_row(&self.call) {
            pass.row = row.clone();
        }
        if !matches!(answer, Answer::Committed(_)) {
            let kind = std::mem::discriminant(&answer);
            pass.heard.retain(|heard| std::mem::discriminant(heard) != kind);
            pass.heard.push(answer.clone());
        }
        let said = Said { call: self.call.clone(), answer: Told::Answer(answer) };
        pass.said.push(Arc::new(said));
        pass.run(row, settings)
    }

    /// It was answered to something that it has done.
    #[must_use]
    pub fn has_acted(&self) -> bool {
        let is_act = |heard: &Answer| match heard {
            Answer::Deregistered(_) | Answer::Terminated(_) => true,
            Answer::Machine(_) | Answer::Runner(_) | Answer::Committed(_) => false,
        };
        self.heard.iter().any(is_act)
    }

    /// It leans on no answer, and makes the call that a pass would make that begins now.
    #[must_use]
    pub fn is_like_new(&self, row: &Arc<Stored<Instance>>, settings: &Settings) -> bool {
        self.heard.is_empty()
            && Self::begin(self.cause, self.at, row, settings)
                .is_some_and(|new| new.call == self.call)
    }

    /// Begins the pass anew, tells it all that it was told, and takes it to its next call.
    fn run(mut self, row: &Arc<Stored<Instance>>, settings: &Settings) -> Option<Self> {
        let ports = Replayed::new(&self.said, row);
        match self.cause {
            Cause::Row => {
                let _ = reap(&ports, None, &self.row, self.at, settings).now_or_never();
            }
            Cause::Machine(what) => {
                let _ = reap(&ports, Some(what), &self.row, self.at, settings).now_or_never();
            }
            Cause::Order(flags) => {
                let _ = order(&ports, flags, &self.row, self.at, settings).now_or_never();
            }
        }
        let (read, call) = ports.into_end();
        if !read.is_empty() {
            self.row = row.clone();
            self.heard.retain(|heard| !matches!(heard, Answer::Machine(_) | Answer::Runner(_)));
        }
        self.said.extend(read.into_iter().map(Arc::new));
        self.call = Arc::new(call?);
        Some(self)
    }
}

/// Whether a call writes the row.
#[must_use]
pub fn writes_row(call: &Call) -> bool {
    let Call::Commit(writes) = call else { return false };
    writes.iter().any(|write| matches!(write, Write::Instance(_)))
}

/// All copies of a message have one nonce, and here all messages.
const TICKET: Ticket = Ticket { nonce: 1, receives: 1 };

async fn reap(
    ports: &Replayed<'_>,
    what: Option<&str>,
    row: &Instance,
    at: Time,
    settings: &Settings,
) {
    let context = Context::new(ports, ports, ports, ports, settings);
    let reap = Reap { context, deletes_off: false };
    // An error ends the invocation, and its message comes again: a pass may begin at any time.
    let mut pass = match (what, row.machine()) {
        (Some(what), Some(_)) => ReapPass::of_event(row.name.clone(), TICKET, what, None),
        _ => ReapPass::new(row.name.clone(), TICKET),
    };
    while let Ok(Progress::Terminates(machine)) = reap.advance(&mut pass, at).await {
        let mut answers = terminate::all(ports, [machine.clone()].into(), at).await;
        pass.terminated(answers.remove(&machine).expect("the machine's answer"));
    }
}

async fn order(ports: &Replayed<'_>, flags: Flags, row: &Instance, at: Time, settings: &Settings) {
    let admin = Admin { context: Context::new(ports, ports, ports, ports, settings) };
    let request = json!({
        "version": muster_api::VERSION,
        "action": "delete",
        "name": row.name,
        "by": "operator",
        "reason": "reason",
        "force": flags.force,
        "bypass_github_unauthorized": flags.bypass_github_unauthorized,
        "kill_running_job": flags.kill_running_job,
    });
    let _ = admin.answer(request, at).await;
}

/// The answer about one machine, as EC2 gives it for a call.
fn about(machine: &MachineId, answer: Termination) -> ports::Terminated {
    use muster_control::ports::TerminationError;
    match answer {
        Termination::Accepted(state) => Ok([(machine.clone(), state)].into()),
        answer => Err(TerminationError { answer, named: [].into() }),
    }
}
