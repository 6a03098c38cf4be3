//! The simulated cloud as plain data: no clock, no I/O, no randomness.
//!
//! Time is an argument of every method that changes something. An answer is returned; everything
//! else that happened meanwhile (a webhook, a state-change event, a machine that lost its power) is
//! collected and handed out by [`World::take_happenings`]. What is due later waits in the agenda
//! until [`World::advance`] is called, so a driver may use the real clock or a virtual one.

pub mod agenda;
pub mod calls;
pub mod ec2;
pub mod faults;
pub mod github;
pub mod machines;
pub mod queue;
mod world;

use serde::{Deserialize, Serialize};

pub use self::world::{Stack, World};

/// Milliseconds since the Unix epoch (or since anything else, in virtual time).
pub type Millis = i64;

/// How long the simulated cloud takes for things. Every field can be changed while it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Timings {
    /// `pending` → `running`.
    pub pending_ms: Millis,
    /// `running` → the boot script starts.
    pub boot_ms: Millis,
    /// `shutting-down` → `terminated`.
    pub shutting_down_ms: Millis,
    /// `stopping` → `stopped`.
    pub stopping_ms: Millis,
    /// How long EC2 denies knowing a new instance (eventual consistency).
    pub visible_after_ms: Millis,
    /// How long a terminated instance can still be described.
    pub terminated_visible_ms: Millis,
    /// From `CreateImage` until the image is available, or has failed.
    pub image_pending_ms: Millis,
    /// From the spot interruption warning to the reclaim.
    pub spot_notice_ms: Millis,
    /// How long GitHub calls a silent runner online.
    pub offline_after_ms: Millis,
    /// How long GitHub waits for the runner of a running job before it fails the job.
    pub lost_communication_ms: Millis,
    /// Lifetime of an installation token.
    pub token_ms: Millis,
    /// How long a manifest's code is good.
    pub code_ms: Millis,
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            pending_ms: 500,
            boot_ms: 0,
            shutting_down_ms: 500,
            stopping_ms: 500,
            visible_after_ms: 0,
            terminated_visible_ms: 3_600_000,
            image_pending_ms: 500,
            spot_notice_ms: 120_000,
            offline_after_ms: 60_000,
            lost_communication_ms: 600_000,
            token_ms: 3_600_000,
            code_ms: github::CODE_LIFETIME_MS,
        }
    }
}

/// Something that happened in the model and that a driver has to carry out or pass on.
#[derive(Clone, Debug, PartialEq)]
pub enum Happening {
    /// An EC2 instance changed its state. `stack` is the value of its `muster:stack` tag.
    StateChange { stack: Option<String>, instance: String, state: ec2::InstanceState, at: Millis },
    /// EC2 warned that it will reclaim a spot instance.
    SpotWarning { stack: Option<String>, instance: String, at: Millis },
    /// A machine has power and starts its boot script.
    PowerOn { instance: String },
    /// A machine lost its power: whatever runs on it is gone.
    PowerOff { instance: String },
    /// GitHub sends a webhook delivery.
    Webhook(github::Webhook),
}

/// Distinct, reproducible numbers. Two worlds with different seeds do not share identifiers, so a
/// world that is started again does not hand out ids that an older table still remembers.
#[derive(Clone, Debug)]
pub struct Ids {
    seed: u64,
    count: u64,
    in_order: bool,
}

/// Where the ids of instances begin that are numbered in order.
const FIRST_INSTANCE: u64 = 0x0a00_0000_0000;

impl Ids {
    /// Identifiers derived from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, count: 0, in_order: false }
    }

    /// Identifiers of which those of instances tell the order of their launches, so that a reader
    /// can follow one, and [`Self::number`] find it.
    #[must_use]
    pub fn in_order() -> Self {
        Self { seed: 0, count: 0, in_order: true }
    }

    /// The id of the instance that is this one in the order of all launches, from 1.
    pub(crate) fn instance(&mut self, order: u64) -> String {
        if self.in_order {
            return format!("i-{:017x}", FIRST_INSTANCE + order - 1);
        }
        self.resource("i")
    }

    /// The place in the order of launches, from 0, that an id in order tells.
    #[must_use]
    pub fn number(instance: &str) -> Option<u32> {
        let digits = instance.strip_prefix("i-")?;
        let number = u64::from_str_radix(digits, 16).ok()?.checked_sub(FIRST_INSTANCE)?;
        u32::try_from(number).ok()
    }

    /// Small numbers that go on from this one, for a world whose numbers are read by people.
    #[must_use]
    pub fn after(count: u64) -> Self {
        Self { seed: 0, count, in_order: false }
    }

    /// The next number for things of which GitHub has few: fits 32 bits, as clients expect.
    pub fn small(&mut self) -> u64 {
        self.count += 1;
        (self.seed % 100_000) * 20_000 + self.count
    }

    /// The next number for things of which GitHub has many: far beyond 32 bits, and still exact in
    /// a JSON reader that only knows doubles.
    pub fn large(&mut self) -> u64 {
        self.count += 1;
        30_000_000_000 + (self.seed % 100_000_000) * 10_000 + self.count
    }

    /// A 64-bit value that looks random and is not.
    pub fn scrambled(&mut self) -> u64 {
        self.count += 1;
        scramble(self.seed ^ self.count.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// `prefix` and 17 hexadecimal digits: the shape of EC2's identifiers.
    pub fn resource(&mut self, prefix: &str) -> String {
        format!("{prefix}-0{:016x}", self.scrambled())
    }

    /// The shape of a UUID.
    pub fn uuid(&mut self) -> String {
        uuid(self.scrambled(), self.scrambled())
    }
}

/// The shape of a UUID, made of two numbers.
pub(crate) fn uuid(a: u64, b: u64) -> String {
    format!(
        "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
        a >> 32,
        (a >> 16) & 0xffff,
        a & 0xfff,
        b >> 52,
        b & 0xffff_ffff_ffff
    )
}

/// One round of `splitmix64`: spreads consecutive numbers over the whole range.
#[must_use]
pub fn scramble(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// RFC 3339 in whole seconds, as both AWS and GitHub write times.
#[must_use]
pub fn rfc3339(at: Millis) -> String {
    jiff::Timestamp::from_second(at / 1000).unwrap_or(jiff::Timestamp::MAX).to_string()
}
