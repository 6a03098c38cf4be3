//! What can go wrong, how likely each of it is under a seed, and how often it did.

use crate::rng::Rng;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)+) => {
        /// A kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(usize)]
        pub enum Fault {
            $($(#[$doc])* $name,)+
        }

        impl Fault {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The word in traces and counters.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)+
                }
            }
        }
    };
}

faults! {
    /// The table refuses a commit; nothing was written.
    CommitRefused = "commit_refused",
    /// The commit happened, and its answer was lost.
    CommitAnswerLost = "commit_answer_lost",
    /// The commit collided with one that then did not happen either (`TransactionConflict`).
    CommitCollided = "commit_collided",
    /// A read got no answer.
    ReadFailed = "read_failed",
    /// An index shows a write late.
    IndexLate = "index_late",
    /// A message could not be sent.
    SendFailed = "send_failed",
    /// A message was sent, and the answer was lost.
    SendAnswerLost = "send_answer_lost",
    /// A message is there twice.
    MessageDoubled = "message_doubled",
    /// A message that only wakes somebody is lost.
    MessageLost = "message_lost",
    /// A message comes late, and so behind younger ones.
    MessageLate = "message_late",
    /// A deleted message is delivered once more.
    MessageResurrected = "message_resurrected",
    /// Hiding a message failed.
    HideFailed = "hide_failed",
    /// An invocation is stopped between two calls.
    Crash = "crash",
    /// A call takes so long that the invocation is stopped for its time-out.
    Stall = "stall",
    /// The schedule skips a tick.
    TickMissed = "tick_missed",
    /// The schedule ticks twice.
    TickDoubled = "tick_doubled",
    /// The clock of an invocation is off.
    ClockSkewed = "clock_skewed",
    /// `CreateFleet` launched, and the answer was lost.
    LaunchAnswerLost = "launch_answer_lost",
    /// `CreateFleet` timed out and did nothing.
    LaunchTimedOut = "launch_timed_out",
    /// `CreateFleet` timed out and took effect later.
    LaunchLate = "launch_late",
    /// No capacity at all.
    LaunchNoCapacity = "launch_no_capacity",
    /// A part of the fleet got no capacity.
    LaunchPartial = "launch_partial",
    /// Too many calls.
    LaunchThrottled = "launch_throttled",
    /// The request is wrong.
    LaunchMisconfigured = "launch_misconfigured",
    /// The machine ends while it is pending.
    LaunchAborted = "launch_aborted",
    /// EC2 does not know a new machine yet.
    MachineHidden = "machine_hidden",
    /// EC2 shows an earlier state of a machine.
    DescribeStale = "describe_stale",
    /// EC2 does not answer a question.
    DescribeFailed = "describe_failed",
    /// Terminate was refused.
    TerminateFailed = "terminate_failed",
    /// Terminate worked, and the answer was lost.
    TerminateAnswerLost = "terminate_answer_lost",
    /// The machine is protected for a while: every terminate fails.
    TerminateBlocked = "terminate_blocked",
    /// A state event is lost.
    StateEventLost = "state_event_lost",
    /// A state event comes late.
    StateEventLate = "state_event_late",
    /// A state event comes twice.
    StateEventDoubled = "state_event_doubled",
    /// Spot takes a machine back.
    SpotReclaim = "spot_reclaim",
    /// A machine is stopped by somebody.
    MachineStopped = "machine_stopped",
    /// A machine hangs: EC2 shows it running, nothing runs.
    MachineHangs = "machine_hangs",
    /// Nothing ever boots.
    NeverBoots = "never_boots",
    /// The boot takes minutes.
    BootSlow = "boot_slow",
    /// The boot script fails and says so.
    BootFails = "boot_fails",
    /// A machine's report gets lost on the way.
    ReportLost = "report_lost",
    /// The agent's hooks do not run.
    HooksMissing = "hooks_missing",
    /// The machine does not shut itself down.
    NeverShutsDown = "never_shuts_down",
    /// GitHub answers 5xx.
    GithubFails = "github_fails",
    /// GitHub did it, and the answer was lost.
    GithubAnswerLost = "github_answer_lost",
    /// GitHub's rate limit.
    RateLimited = "rate_limited",
    /// GitHub refuses our credentials.
    Unauthorized = "unauthorized",
    /// GitHub calls a runner idle in the first minute of its job.
    BusyLieEarly = "busy_lie_early",
    /// GitHub calls a runner idle in the middle of its job.
    BusyLieLate = "busy_lie_late",
    /// A list is answered from GitHub's cache.
    ListCached = "list_cached",
    /// A webhook is never delivered.
    WebhookLost = "webhook_lost",
    /// A webhook is delivered twice.
    WebhookDoubled = "webhook_doubled",
    /// A webhook is delivered late, and so behind younger ones.
    WebhookLate = "webhook_late",
    /// EC2 is away for minutes.
    OutageEc2 = "outage_ec2",
    /// GitHub is away for minutes.
    OutageGithub = "outage_github",
    /// The tables are away for minutes.
    OutageTable = "outage_table",
}

const KINDS: usize = Fault::ALL.len();

/// How often each kind struck.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts([u64; KINDS]);

impl Default for Counts {
    fn default() -> Self {
        Self([0; KINDS])
    }
}

impl Counts {
    /// How often this kind struck.
    #[must_use]
    pub const fn of(&self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }

    /// One more.
    pub const fn add(&mut self, fault: Fault) {
        self.0[fault as usize] += 1;
    }

    /// All of another run.
    pub fn merge(&mut self, other: &Self) {
        for (own, more) in self.0.iter_mut().zip(other.0) {
            *own += more;
        }
    }
}

/// How likely each kind is, in parts per million of its opportunities.
#[derive(Clone, Debug)]
pub struct Odds([u32; KINDS]);

impl Odds {
    /// Nothing goes wrong.
    #[must_use]
    pub const fn none() -> Self {
        Self([0; KINDS])
    }

    /// A random part of the faults, each at a random strength. Leaving most of them out under any one
    /// seed finds more than all of them always: some bugs need the quiet (Groce et al., "Swarm
    /// testing", 2012).
    pub fn swarm(rng: &mut Rng) -> Self {
        let mut odds = Self::none();
        let share = [150_000, 300_000, 600_000][rng.index(3)];
        for fault in Fault::ALL {
            if rng.chance(share) {
                odds.set(*fault, strength(*fault) * [1, 3, 10, 30][rng.index(4)] / 10);
            }
        }
        odds
    }

    /// Sets the odds of one kind.
    pub const fn set(&mut self, fault: Fault, ppm: u32) {
        self.0[fault as usize] = ppm;
    }

    /// The odds of one kind.
    #[must_use]
    pub const fn of(&self, fault: Fault) -> u32 {
        self.0[fault as usize]
    }
}

/// The usual odds: rarer for what has an opportunity at every call than for what has one in a machine's life.
const fn strength(fault: Fault) -> u32 {
    match fault {
        Fault::ReadFailed | Fault::CommitRefused | Fault::CommitAnswerLost => 10_000,
        Fault::CommitCollided | Fault::Crash => 10_000,
        Fault::Stall => 3_000,
        Fault::IndexLate => 200_000,
        Fault::TickMissed | Fault::TickDoubled | Fault::ClockSkewed => 100_000,
        Fault::HideFailed | Fault::SendFailed | Fault::SendAnswerLost => 30_000,
        Fault::MessageResurrected => 30_000,
        Fault::BusyLieEarly | Fault::BusyLieLate => 500_000,
        Fault::LaunchMisconfigured => 20_000,
        Fault::HooksMissing => 100_000,
        Fault::MachineHidden | Fault::DescribeStale => 200_000,
        Fault::OutageEc2 | Fault::OutageGithub | Fault::OutageTable => 300_000,
        Fault::WebhookLost => 30_000,
        _ => 80_000,
    }
}
