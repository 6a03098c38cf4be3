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
            pub const fn as_str(self) -> &'static str {
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
    /// A record that has expired stays for hours more.
    TtlLate = "ttl_late",
    /// A message could not be sent.
    SendFailed = "send_failed",
    /// A message was sent, and the answer was lost.
    SendAnswerLost = "send_answer_lost",
    /// A message is there twice.
    MessageDoubled = "message_doubled",
    /// A message that only wakes somebody is lost.
    MessageLost = "message_lost",
    /// A message comes minutes late.
    MessageLate = "message_late",
    /// A message comes seconds late, and so behind younger ones.
    MessageReordered = "message_reordered",
    /// A hidden message gets older than its queue keeps messages, and is gone.
    MessageExpired = "message_expired",
    /// A message ends in the dead-letter queue before its time.
    MessageDead = "message_dead",
    /// A job event is lost on its way through the jobs queue.
    JobEventLost = "job_event_lost",
    /// A deleted message is delivered once more.
    MessageResurrected = "message_resurrected",
    /// Hiding a message failed.
    HideFailed = "hide_failed",
    /// An invocation is stopped between two calls.
    Crash = "crash",
    /// A call takes so long that the invocation is stopped for its time-out.
    Stall = "stall",
    /// The call that a stopped invocation had made takes effect later: the request was on its way,
    /// and nobody waits for its answer any more.
    CallLandsLate = "call_lands_late",
    /// Lambda has no room for an invocation.
    InvokeThrottled = "invoke_throttled",
    /// An invocation starts cold: late, and with empty caches.
    ColdStart = "cold_start",
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
    /// A type has no capacity in a subnet for a while, on one market.
    LaunchPlaceDry = "launch_place_dry",
    /// A quota of the account is used up for a while: of a bucket of families, on one market.
    LaunchQuota = "launch_quota",
    /// Too many calls.
    LaunchThrottled = "launch_throttled",
    /// Others in the account have emptied EC2's token bucket.
    BucketEmpty = "bucket_empty",
    /// EC2 refuses a pool's requests for a while.
    LaunchMisconfigured = "launch_misconfigured",
    /// The machine ends while it is pending.
    LaunchAborted = "launch_aborted",
    /// EC2 does not know a new machine yet.
    MachineHidden = "machine_hidden",
    /// EC2 denies for a while that it knows a machine, and maybe once more later.
    MachineDenied = "machine_denied",
    /// It does so for longer than two looks must be apart. AWS gives no bound: "eventual
    /// consistency … exponential backoff … several minutes"
    /// (docs.aws.amazon.com/ec2/latest/devguide, "Eventual consistency").
    MachineDeniedLong = "machine_denied_long",
    /// EC2 shows an earlier state of a machine.
    DescribeStale = "describe_stale",
    /// EC2 does not answer a question.
    DescribeFailed = "describe_failed",
    /// EC2 answers a listing with a few machines a page.
    ListPaged = "list_paged",
    /// Terminate failed.
    TerminateFailed = "terminate_failed",
    /// We may not terminate.
    TerminateDenied = "terminate_denied",
    /// Terminate is accepted, and nothing happens.
    TerminateStuck = "terminate_stuck",
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
    /// Spot takes a machine back, after a notice.
    SpotReclaim = "spot_reclaim",
    /// Spot takes a machine back without a notice.
    SpotWithoutNotice = "spot_without_notice",
    /// A machine is stopped by somebody.
    MachineStopped = "machine_stopped",
    /// A machine dies.
    MachineDies = "machine_dies",
    /// A machine hangs: EC2 shows it running, nothing runs.
    MachineHangs = "machine_hangs",
    /// Nothing ever boots.
    NeverBoots = "never_boots",
    /// The boot takes minutes.
    BootSlow = "boot_slow",
    /// The boot script fails and says so.
    BootFails = "boot_fails",
    /// The agent comes up, and ends without a job: its version is refused, a library is missing,
    /// its session is taken. `run.sh` exits with 0 all the same (actions/runner,
    /// run-helper.sh.template), and the registration stays.
    AgentGivesUp = "agent_gives_up",
    /// A machine's report gets lost on the way.
    ReportLost = "report_lost",
    /// The agent's hooks do not run.
    HooksLost = "hooks_lost",
    /// The machine does not shut itself down.
    NeverShutsDown = "never_shuts_down",
    /// GitHub gives a runner no job, as if its group had no access to the repository.
    RunnerBarred = "runner_barred",
    /// GitHub has no registration of an idle runner any more, and its agent goes on listening
    /// (actions/runner #4617).
    RunnerForgotten = "runner_forgotten",
    /// GitHub does not notice for minutes that an idle runner is gone, and gives it a job. Nobody
    /// takes the job, and after a minute it is queued again (docs.github.com/actions, "Routing
    /// precedence for self-hosted runners").
    RunnerMissed = "runner_missed",
    /// GitHub answers 5xx.
    GithubFails = "github_fails",
    /// GitHub made a registration, and the answer was lost.
    ConfigureAnswerLost = "configure_answer_lost",
    /// GitHub made a registration, and a repeated request was answered 409.
    ConfigureConflict = "configure_conflict",
    /// GitHub refuses the registration (422).
    ConfigureRefused = "configure_refused",
    /// The DELETE is done, and answered with 502.
    DeleteAnswerLost = "delete_answer_lost",
    /// GitHub's rate limit.
    RateLimited = "rate_limited",
    /// GitHub refuses our credentials.
    Unauthorized = "unauthorized",
    /// GitHub calls a runner idle in the first minute of its job.
    BusyLieEarly = "busy_lie_early",
    /// GitHub calls a runner idle in the middle of its job.
    BusyLieLate = "busy_lie_late",
    /// GitHub calls an idle runner busy, and answers its DELETE with 422.
    BusyLieIdle = "busy_lie_idle",
    /// GitHub answers 404 for a runner that it has.
    RunnerHidden = "runner_hidden",
    /// GitHub answers 404 for a job that it has: the App may not see its repository for now.
    JobHidden = "job_hidden",
    /// A list is answered from GitHub's cache.
    ListCached = "list_cached",
    /// GitHub does not know any more where a page of deliveries begins. It does not document how
    /// long it does.
    CursorExpired = "cursor_expired",
    /// A webhook is never delivered.
    WebhookLost = "webhook_lost",
    /// A webhook's payload cannot be read.
    WebhookUnreadable = "webhook_unreadable",
    /// A webhook is delivered twice.
    WebhookDoubled = "webhook_doubled",
    /// A webhook is delivered minutes late.
    WebhookLate = "webhook_late",
    /// A webhook is delivered seconds late, and so behind younger ones.
    WebhookReordered = "webhook_reordered",
    /// EC2 is away for minutes.
    OutageEc2 = "outage_ec2",
    /// A zone is away: its machines hang, and nothing is launched or terminated there.
    OutageZone = "outage_zone",
    /// GitHub is away for minutes.
    OutageGithub = "outage_github",
    /// GitHub has rejected the App's credentials for minutes.
    OutageCredentials = "outage_credentials",
    /// The tables are away for minutes.
    OutageTable = "outage_table",
    /// Others have used up the account's concurrency: no function of ours runs for minutes, and
    /// callers get 429 or 503 (docs.aws.amazon.com/lambda, "Understanding Lambda function
    /// scaling").
    OutageLambda = "outage_lambda",
    /// EC2 accepts every launch and ends its machine while it is pending, for up to an hour: as
    /// with a disk key that may not be used (AWS, "Instance terminates immediately").
    OutageBoots = "outage_boots",
    /// The webhook refuses every delivery for up to four hours: its secret or its address is wrong.
    OutageWebhook = "outage_webhook",
    /// `CreateImage` created an image, and the answer was lost.
    ImageAnswerLost = "image_answer_lost",
    /// `CreateImage` timed out and did nothing.
    ImageTimedOut = "image_timed_out",
    /// We may not create images.
    ImageDenied = "image_denied",
    /// An image is pending for hours.
    ImageSlow = "image_slow",
    /// An image fails once it has been pending.
    ImageFails = "image_fails",
    /// Machines of an image do not boot.
    ImageBroken = "image_broken",
    /// A builder's script fails.
    BuilderFails = "builder_fails",
    /// EC2 does not list a new image yet.
    ImageHidden = "image_hidden",
    /// `DeregisterImage` failed.
    DeregisterFailed = "deregister_failed",
    /// We may not deregister an image.
    DeregisterDenied = "deregister_denied",
    /// An image was deregistered, and the answer was lost.
    DeregisterAnswerLost = "deregister_answer_lost",
    /// An image is deregistered without its snapshots, and the answer says so.
    SnapshotStays = "snapshot_stays",
    /// Jobs were re-run, and the answer was lost.
    RerunAnswerLost = "rerun_answer_lost",
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
pub struct FaultRates([u32; KINDS]);

impl FaultRates {
    /// Nothing goes wrong.
    #[must_use]
    pub const fn none() -> Self {
        Self([0; KINDS])
    }

    /// A random part of the faults, each at a random strength. Leaving most of them out under any
    /// one seed finds more than all of them always: some bugs need the quiet (Groce et al., "Swarm
    /// testing", 2012).
    pub fn swarm(rng: &mut Rng) -> Self {
        let mut fault_rates = Self::none();
        let share = [150_000, 300_000, 600_000][rng.index(3)];
        for fault in Fault::ALL {
            if rng.chance(share) {
                fault_rates.set(*fault, strength(*fault) * [1, 3, 10, 30][rng.index(4)] / 10);
            }
        }
        if rng.chance(300_000) {
            for fault in STORMS[rng.index(STORMS.len())] {
                let usual = strength(*fault);
                let more = if usual <= 10_000 { 3 } else { 8 };
                fault_rates.set(*fault, (usual * more).min(600_000));
            }
        }
        fault_rates
    }

    /// Sets the rates of one kind.
    pub const fn set(&mut self, fault: Fault, ppm: u32) {
        self.0[fault as usize] = ppm;
    }

    /// The rates of one kind.
    #[must_use]
    pub const fn of(&self, fault: Fault) -> u32 {
        self.0[fault as usize]
    }
}

/// Faults that hide a bug only together. Chance alone brings them together too rarely.
const STORMS: [&[Fault]; 8] = [
    // Nobody tells us that a job runs.
    &[
        Fault::HooksLost,
        Fault::WebhookLost,
        Fault::WebhookLate,
        Fault::JobEventLost,
        Fault::BusyLieEarly,
        Fault::BusyLieLate,
    ],
    // Jobs that nobody told us of take the runners of others.
    &[Fault::WebhookLost, Fault::JobEventLost, Fault::NeverBoots, Fault::LaunchNoCapacity],
    // Orders while GitHub does not answer.
    &[Fault::HooksLost, Fault::GithubFails, Fault::WebhookLate, Fault::OutageGithub],
    // EC2 has little, and says no in every way that it knows.
    &[
        Fault::LaunchPlaceDry,
        Fault::LaunchPartial,
        Fault::LaunchQuota,
        Fault::LaunchThrottled,
        Fault::LaunchMisconfigured,
        Fault::LaunchNoCapacity,
    ],
    // Nobody knows what a launch did.
    &[
        Fault::LaunchAnswerLost,
        Fault::LaunchLate,
        Fault::LaunchPartial,
        Fault::LaunchNoCapacity,
        Fault::MachineHidden,
        Fault::DescribeFailed,
    ],
    // Wake-ups are lost, and passes with them.
    &[
        Fault::MessageLost,
        Fault::MessageExpired,
        Fault::HideFailed,
        Fault::Crash,
        Fault::InvokeThrottled,
        Fault::TerminateFailed,
    ],
    // Nobody knows whether a runner is registered.
    &[
        Fault::ConfigureAnswerLost,
        Fault::ConfigureConflict,
        Fault::BootSlow,
        Fault::ReportLost,
        Fault::ListCached,
    ],
    // Everybody writes at once.
    &[
        Fault::CommitAnswerLost,
        Fault::CommitCollided,
        Fault::IndexLate,
        Fault::MessageDoubled,
        Fault::TickDoubled,
        Fault::Stall,
    ],
];

/// The usual rates: rarer for what has an opportunity at every call than for what has one in a
/// machine's life.
const fn strength(fault: Fault) -> u32 {
    match fault {
        Fault::ReadFailed | Fault::CommitRefused | Fault::CommitAnswerLost => 10_000,
        Fault::CommitCollided | Fault::Crash => 10_000,
        Fault::Stall => 3_000,
        Fault::IndexLate | Fault::ListPaged | Fault::BucketEmpty => 200_000,
        Fault::TickMissed | Fault::TickDoubled | Fault::ClockSkewed => 100_000,
        Fault::HideFailed | Fault::SendFailed | Fault::SendAnswerLost => 30_000,
        Fault::MessageResurrected | Fault::InvokeThrottled => 30_000,
        Fault::MessageDead | Fault::JobEventLost => 20_000,
        Fault::WebhookLost | Fault::WebhookUnreadable => 20_000,
        Fault::BusyLieEarly | Fault::BusyLieLate | Fault::ListCached => 500_000,
        Fault::CallLandsLate | Fault::RunnerMissed => 500_000,
        Fault::LaunchMisconfigured | Fault::LaunchQuota => 20_000,
        Fault::HooksLost | Fault::TtlLate => 100_000,
        Fault::MachineHidden | Fault::DescribeStale => 200_000,
        Fault::OutageEc2 | Fault::OutageGithub | Fault::OutageTable => 300_000,
        Fault::OutageZone | Fault::OutageCredentials | Fault::OutageBoots => 300_000,
        Fault::OutageLambda | Fault::OutageWebhook => 300_000,
        _ => 80_000,
    }
}

/// Chance, one stream for each kind of fault: leaving one kind out does not change when the others
/// strike, so a failing seed can be made shorter.
#[derive(Clone, Debug)]
pub struct FaultStreams([Rng; KINDS]);

impl FaultStreams {
    /// The streams of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut number = 0;
        Self([(); KINDS].map(|()| {
            number += 1;
            Rng::new(Rng::new(seed.wrapping_add(number)).next())
        }))
    }

    /// Whether the fault strikes at these rates.
    pub const fn strikes(&mut self, fault: Fault, ppm: u32) -> bool {
        self.0[fault as usize].chance(ppm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_counted_by_itself() {
        let mut counts = Counts::default();
        for (number, fault) in Fault::ALL.iter().enumerate() {
            (0..=number).for_each(|_| counts.add(*fault));
        }
        let mut twice = counts.clone();
        twice.merge(&counts);
        for (number, fault) in (1..).zip(Fault::ALL) {
            assert_eq!((counts.of(*fault), twice.of(*fault)), (number, 2 * number), "{fault:?}");
        }
    }

    #[test]
    fn every_kind_has_a_word_of_its_own() {
        let mut words: Vec<&str> = Fault::ALL.iter().map(|fault| fault.as_str()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Fault::ALL.len());
    }

    #[test]
    fn one_kind_less_does_not_change_when_another_strikes() {
        let strikes = |others: bool| {
            let mut fault_streams = FaultStreams::new(9);
            let mut told = Vec::new();
            for _ in 0..500 {
                if others {
                    fault_streams.strikes(Fault::Crash, 500_000);
                }
                told.push(fault_streams.strikes(Fault::Stall, 300_000));
            }
            told
        };
        assert_eq!(strikes(true), strikes(false));
        assert!(strikes(true).contains(&true) && strikes(true).contains(&false));
    }

    #[test]
    fn some_seed_brings_every_kind_and_some_seed_leaves_it_out() {
        let swarms: Vec<FaultRates> =
            (0..200).map(|seed| FaultRates::swarm(&mut Rng::new(seed))).collect();
        for fault in Fault::ALL {
            let with = swarms.iter().filter(|fault_rates| fault_rates.of(*fault) > 0).count();
            assert!((20..180).contains(&with), "{fault:?}: {with} of 200");
        }
    }
}
