//! Every duration of Muster, in one place: production defaults, short ones for the local stack.

use serde::{Deserialize, Serialize};

use crate::time::Seconds;

macro_rules! timings {
    ($($(#[doc = $doc:literal])* $field:ident = $default:literal,)+) => {
        /// Every duration Muster waits for. The parameter `Timings` changes some of them, as JSON
        /// of the fields' names.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Timings {
            $($(#[doc = $doc])* pub $field: Seconds,)+
        }

        impl Default for Timings {
            fn default() -> Self {
                Self { $($field: Seconds($default),)+ }
            }
        }

        impl Timings {
            /// Every field: its name, its default, and what it is, for the page on configuration.
            pub const FIELDS: &[(&str, Seconds, &str)] =
                &[$((stringify!($field), Seconds($default), concat!($($doc),*))),+];
        }
    };
}

timings! {
    /// From launch to the runner's start report; later than this the machine is given up.
    boot_deadline_seconds = 600,
    /// How long a launch belongs to the pass that called EC2, at least twice its time-out.
    creating_lease_seconds = 120,
    /// How long a call that removes a registration or terminates a machine belongs to the pass that
    /// made it.
    deleting_lease_seconds = 120,
    /// How long an ambiguous launch is looked up by token and by tag before its slots are free
    /// again.
    launch_lookup_seconds = 300,
    /// How long a claimed runner may sit idle beside its queued job before the claim ends.
    claim_idle_seconds = 60,
    /// Distance of the two "not busy" reads before a runner is removed that may still take a job.
    /// GitHub shows a started job as idle for 25 to 60 seconds (terraform-aws-github-runner #5228).
    busy_reads_apart_seconds = 180,
    /// How often a runner that must finish its job first is looked at.
    busy_poll_seconds = 60,
    /// So long EC2 must deny at every look that it knows a machine before it counts as gone.
    /// Counted from the start of the pass that looked first, which may have come to that a minute
    /// later.
    absence_confirm_seconds = 1200,
    /// Younger than this, a machine that EC2 does not know yet is not absent but new.
    absence_limit_seconds = 600,
    /// Older than this, a machine with our tag and without a record is an orphan.
    orphan_age_seconds = 900,
    /// How long a runner without a claim may idle.
    idle_limit_seconds = 300,
    /// How long a machine may take to shut itself down after its runner ended.
    shutdown_grace_seconds = 120,
    /// How long after GitHub's `completed` the machine's own report may follow.
    completed_grace_seconds = 300,
    /// How long to leave GitHub alone after it answered 401 or 403.
    unauthorized_retry_seconds = 300,
    /// After this long a forced delete gives up on EC2 and writes the orphan ledger.
    force_give_up_seconds = 600,
    /// How long a configuration call to GitHub may be in flight.
    register_lease_seconds = 60,
    /// How long the launch pass of a pool belongs to one invocation.
    pool_lease_seconds = 90,
    /// How much later than the message's own retry the sweep looks after a row.
    sweep_slack_seconds = 60,
    /// First wait of the delete ladder: 0, 1, 2, 4 … steps.
    retry_step_seconds = 1,
    /// Longest wait of the delete ladder.
    retry_cap_seconds = 300,
    /// A job still queued after this long is taken for ended; GitHub cancels after 24 to 48 hours.
    job_expiry_seconds = 172_800,
    /// How long an ended job's record is kept.
    job_ttl_seconds = 604_800,
    /// How long a deleted instance's record is kept, so that a late event finds a tombstone.
    tombstone_ttl_seconds = 604_800,
    /// How long a line of usage is kept.
    usage_ttl_seconds = 7_776_000,
    /// First wait before a failed launch is tried again; doubles with each attempt.
    launch_retry_seconds = 15,
    /// First time without launch calls after EC2 throttled one; doubles with each refusal in a row,
    /// up to eight times, as the next three do.
    throttle_wait_seconds = 5,
    /// First time in which a type is not asked for in a subnet that had no capacity for it.
    place_wait_seconds = 60,
    /// First time in which the types are left alone whose quota is used up. Each machine that ends
    /// makes room in it.
    quota_wait_seconds = 30,
    /// First pause of a pool whose request EC2 refuses as wrong or not allowed.
    pool_pause_seconds = 120,
    /// How long after a pool's configuration was first seen such refusals are taken for EC2 not
    /// knowing it yet.
    settling_seconds = 600,
    /// How long something must last before it is told as a notice, unless it is an error.
    notice_settle_seconds = 120,
    /// How long it must be over before that is told.
    notice_over_seconds = 600,
}
