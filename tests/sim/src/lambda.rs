//! What AWS itself counts of the stack's functions, and how a test makes the invocations of one fail.

use crate::agenda::{Millis, SECOND, Which};
use crate::invocations::{Call, Reply};
use crate::world::World;

/// A function, as the template calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// The webhook.
    Webhook,
    /// Scale-up.
    ScaleUp,
    /// The reaper.
    Reaper,
    /// runner-api.
    RunnerApi,
    /// Admin, whose caller sees what fails.
    Admin,
}

/// How all invocations of a function fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// Lambda has no capacity for it.
    Throttled,
    /// It ends before its first call.
    NoStart,
    /// It makes no call until its time-out.
    TimedOut,
}

/// What AWS counts, and what fails there.
#[derive(Clone, Debug, Default)]
pub struct Lambda {
    /// The function that fails.
    pub failing: Option<(Function, Failing)>,
    /// Queues that accept no message.
    pub full: Vec<Which>,
    /// Queues that nobody reads: their event source mapping is disabled.
    pub unread: Vec<Which>,
    /// The values in CloudWatch: when, the template's resource and the metric, and the value.
    pub counted: Vec<(Millis, String, f64)>,
}

/// Whose invocation it is.
pub(crate) const fn function_of(call: &Call) -> Function {
    match call {
        Call::ScaleUp(_) | Call::Launch(_) => Function::ScaleUp,
        Call::Reap(_) | Call::Sweep => Function::Reaper,
        Call::Api(_) => Function::RunnerApi,
        Call::Operator(_) => Function::Admin,
        Call::Webhook(_) => Function::Webhook,
    }
}

/// The function that a queue invokes.
pub(crate) const fn consumer_of(which: Which) -> Function {
    match which {
        Which::Jobs | Which::Launch => Function::ScaleUp,
        Which::Reap => Function::Reaper,
    }
}

impl World {
    /// How the invocations of a function fail now.
    pub(crate) fn failing(&self, function: Function) -> Option<Failing> {
        self.lambda.failing.filter(|(own, _)| *own == function).map(|(_, how)| how)
    }

    /// A metric of AWS, where a test reads them.
    pub(crate) fn aws_counts(&mut self, metric: String, value: f64) {
        if self.measures.is_some() {
            self.lambda.counted.push((self.now, metric, value));
        }
    }

    /// An invocation ended with an error. API Gateway answers 5xx.
    pub(crate) fn count_error(&mut self, function: Function) {
        match function {
            Function::Webhook | Function::RunnerApi => self.aws_counts("Api 5xx".to_owned(), 1.0),
            Function::ScaleUp | Function::Reaper | Function::Admin => {
                self.aws_counts(format!("{function:?}Function Errors"), 1.0);
            }
        }
    }

    /// An invocation does not take place. Whoever waits for its answer gets an error.
    pub(crate) fn is_not_run(&mut self, call: &Call, how: Failing) {
        let function = function_of(call);
        match call {
            Call::Webhook(number) => self.delivered(*number, false),
            Call::Api(number) => return self.reply(*number, Reply::Broken),
            Call::ScaleUp(_)
            | Call::Launch(_)
            | Call::Reap(_)
            | Call::Sweep
            | Call::Operator(_) => {}
        }
        let is_throttled = how == Failing::Throttled;
        if is_throttled && matches!(function, Function::ScaleUp | Function::Reaper) {
            return self.aws_counts(format!("{function:?}Function Throttles"), 1.0);
        }
        self.count_error(function);
    }

    /// SQS's metric of the jobs queue. It leaves out messages that were received, as all are here
    /// that a function has had.
    pub(crate) fn count_age(&mut self) {
        let now = self.now;
        let seen = self.queues.of(Which::Jobs).next_visible().filter(|seen| *seen < now);
        let Some(seen) = seen else { return };
        #[expect(clippy::cast_precision_loss, reason = "seconds")]
        let age = ((now - seen) / SECOND) as f64;
        self.aws_counts("JobsQueue ApproximateAgeOfOldestMessage".to_owned(), age);
    }
}
