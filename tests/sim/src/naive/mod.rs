//! What the peers do in place of one thing that we do: each policy is a public bug, small enough to
//! read.
//!
//! A regression that passes proves nothing until it has been seen to fail. So each named regression
//! is told twice: under our passes it must hold, and under the policy that it names it must break
//! as it says. Everything else in that second world is ours, and `happy-path.txt` holds under every
//! policy: a policy is no straw man that cannot run a job.

mod peer;
mod reaper;
mod rerun;
mod scale_up;

use muster_domain::timings::Timings;

use self::peer::Peer;
use crate::agenda::Which;
use crate::door::Door;
use crate::invocations::{Call, acknowledge, ours};

/// Longer than any scenario.
const NEVER: muster_domain::time::Seconds = muster_domain::time::Seconds(u32::MAX / 4);

macro_rules! policies {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)+) => {
        /// A policy of a peer.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum PeerPolicy {
            $($(#[$doc])* $name,)+
        }

        impl PeerPolicy {
            /// All policies.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The word in scenarios.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)+
                }
            }
        }
    };
}

policies! {
    /// The messages are the demand: one launch for each, and after failures the first ones come
    /// again.
    LaunchPerMessage = "launch-per-message",
    /// One loop over all machines: what GitHub does not call busy is ended, and the first error
    /// ends the loop.
    ScaleDownLoop = "scale-down-loop",
    /// Whatever EC2 answers to a terminate, the machine is taken for gone.
    TerminateIsBelieved = "terminate-is-believed",
    /// Messages alone wake a row; nobody looks for rows whose time has come.
    WakeUpsAreTheClock = "wake-ups-are-the-clock",
    /// The operator's delete is refused while the machine is made.
    CreatingCannotBeDeleted = "creating-cannot-be-deleted",
    /// Each call of a launch has a client token of its own.
    NewTokenPerCall = "new-token-per-call",
    /// GitHub's `completed` ends the runner at once.
    CompletedEndsTheRunner = "completed-ends-the-runner",
    /// A runner waits for its job for ever.
    RunnersWaitForEver = "runners-wait-for-ever",
    /// The delivery that is processed last says where a job is.
    LastDeliveryWins = "last-delivery-wins",
    /// After some failed launches a job is given up.
    RetriesRunOut = "retries-run-out",
    /// One owner's refusal fails the whole batch.
    OneRefusalFailsTheBatch = "one-refusal-fails-the-batch",
    /// A runner has one name, whichever call of the configuration it is.
    OneNameForEver = "one-name-for-ever",
    /// The runner that was launched for a job is the only one that is thought to serve it.
    OneRunnerOneJob = "one-runner-one-job",
    /// An agent that has once reported itself is thought to wait for a job ever after.
    AgentsAreBelieved = "agents-are-believed",
    /// Whichever jobs were interrupted, all that failed are run again.
    AllFailedAreRerun = "all-failed-are-rerun",
    /// A re-run that got no answer is asked for again later, without a look.
    ReRunsAreRetried = "re-runs-are-retried",
    /// Jobs are run again, and then that is noted.
    ActsThenNotes = "acts-then-notes",
    /// A run is looked at once, when its job has failed.
    LooksOnce = "looks-once",
    /// What EC2 has not said by then was not interrupted.
    NoSettleRule = "no-settle-rule",
    /// A run is run again whatever newer run there is.
    NoLookAtNewerRuns = "no-look-at-newer-runs",
    /// A later attempt is a job like any other.
    AttemptsAreAlike = "attempts-are-alike",
}

impl PeerPolicy {
    /// The policy of a word.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|policy| policy.as_str() == word)
    }

    /// Durations of which the peer knows nothing.
    #[must_use]
    pub fn timings(self) -> Timings {
        let ours = Timings::default();
        match self {
            Self::RunnersWaitForEver => {
                Timings { idle_limit_seconds: NEVER, claim_idle_seconds: NEVER, ..ours }
            }
            Self::OneRunnerOneJob => Timings { claim_idle_seconds: NEVER, ..ours },
            _ => ours,
        }
    }

    /// Runs an invocation as the peer would.
    pub(crate) async fn run(self, door: &Door, call: &Call) {
        let peer = Peer { door, naive: self };
        match (self, call) {
            (Self::LaunchPerMessage, Call::ScaleUp(batch)) => {
                scale_up::launch_per_message(door, batch).await;
            }
            // Its messages are its events; nobody else launches.
            (Self::LaunchPerMessage, Call::Launch(batch)) => {
                acknowledge(door, Which::Launch, &batch.iter().collect::<Vec<_>>()).await;
            }
            (Self::LastDeliveryWins, Call::ScaleUp(batch)) => {
                scale_up::write_as_delivered(door, batch).await;
                ours(door, call, door, door).await;
            }
            (Self::OneRefusalFailsTheBatch, Call::ScaleUp(batch)) => {
                if !scale_up::is_refused(door, batch).await {
                    ours(door, call, door, door).await;
                }
            }
            (Self::RetriesRunOut, Call::Launch(_)) => {
                scale_up::give_up_after_failures(door).await;
                ours(door, call, door, door).await;
            }
            (Self::OneRunnerOneJob, Call::ScaleUp(batch)) => {
                let rest = scale_up::keep_claims(door, batch).await;
                ours(door, &rest, door, door).await;
            }
            (Self::CompletedEndsTheRunner, Call::ScaleUp(batch)) => {
                reaper::end_completed(door, batch).await;
                ours(door, call, door, door).await;
            }
            (Self::ScaleDownLoop, Call::Sweep) => reaper::scale_down(door).await,
            (Self::WakeUpsAreTheClock, Call::Sweep) => reaper::sweep_without_rows(door).await,
            (Self::CreatingCannotBeDeleted, Call::Operator(number)) => {
                if !reaper::refuses_order(door, *number) {
                    ours(door, call, door, door).await;
                }
            }
            _ => ours(door, call, &peer, &peer).await,
        }
    }
}
