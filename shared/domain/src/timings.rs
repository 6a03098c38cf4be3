//! Every duration of Muster: production defaults, and short ones for the local stack.

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
    /// Time from launch to the runner's start report; after that, the machine is replaced.
    boot_deadline_seconds = 600,
    /// How long a launch belongs to the pass that called EC2, at least twice its time-out.
    creating_lease_seconds = 120,
    /// How long a call that deregisters a runner or terminates a machine belongs to the pass that
    /// made it.
    deleting_lease_seconds = 120,
    /// How long an ambiguous launch is looked up by token and by tag before its slots can be
    /// launched again.
    launch_lookup_seconds = 300,
    /// How long a claimed runner can be idle while its job stays queued, before the claim ends.
    claim_idle_seconds = 60,
    /// Time between the two "not busy" reads before a runner that may still get a job is
    /// deregistered. GitHub shows a started job as idle for 25 to 60 seconds
    /// (terraform-aws-github-runner #5228).
    busy_reads_apart_seconds = 180,
    /// How often a runner that must finish its job first is checked.
    busy_poll_seconds = 60,
    /// How long EC2 must deny, at every check, that it knows a machine before the machine counts as
    /// gone. Counted from the start of the pass that checked first, which may have reached the
    /// check a minute later.
    absence_confirm_seconds = 1200,
    /// Age below which a machine that EC2 does not know counts as new, not as absent.
    absence_limit_seconds = 600,
    /// Age from which a machine with the stack's tag and without a record is an orphan.
    orphan_age_seconds = 900,
    /// How long a runner without a claim can be idle.
    idle_limit_seconds = 300,
    /// How long a machine can take to shut itself down after its runner ended.
    shutdown_grace_seconds = 120,
    /// How long after GitHub's `completed` the machine's own report can arrive.
    completed_grace_seconds = 300,
    /// How long to wait before calling GitHub again after a 401 or 403.
    unauthorized_retry_seconds = 300,
    /// Time after which a forced delete stops retrying EC2 and moves the machine to the orphan
    /// ledger.
    force_give_up_seconds = 600,
    /// How long a configuration call to GitHub can be in progress.
    register_lease_seconds = 60,
    /// How long the launch pass of a pool belongs to one invocation.
    pool_lease_seconds = 90,
    /// How much later than the message's own retry the sweep processes a record.
    sweep_slack_seconds = 60,
    /// First wait of the delete back-off: 0, 1, 2, 4 … steps.
    retry_step_seconds = 1,
    /// Longest wait of the delete back-off.
    retry_cap_seconds = 300,
    /// Time after which a job that is still queued counts as ended; GitHub cancels after 24 to 48
    /// hours.
    job_expiry_seconds = 172_800,
    /// How long an ended job's record is kept.
    job_ttl_seconds = 604_800,
    /// How long a deleted instance's record is kept, so that late events still find it.
    tombstone_ttl_seconds = 604_800,
    /// How long a usage record is kept.
    usage_ttl_seconds = 7_776_000,
    /// First wait before a failed launch is retried; doubles with each attempt.
    launch_retry_seconds = 15,
    /// First pause of launch calls after EC2 throttled one; doubles with each consecutive refusal,
    /// up to eight times the first, like the next three.
    throttle_wait_seconds = 5,
    /// First pause for a type in a subnet that had no capacity for it.
    place_wait_seconds = 60,
    /// First pause for the types whose quota is used up. Each machine that ends frees some of the
    /// quota.
    quota_wait_seconds = 30,
    /// First pause of a pool whose request EC2 refuses as invalid or unauthorized.
    pool_pause_seconds = 120,
    /// How long after a pool's configuration was first seen such refusals count as EC2's eventual
    /// consistency.
    settling_seconds = 600,
    /// How long a warning must last before a notification is sent; errors are sent at once.
    notice_settle_seconds = 120,
    /// How long the cause must be gone before the end is sent.
    notice_over_seconds = 600,
}
