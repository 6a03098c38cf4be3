//! One instance: what it is, what ends it, and the states it goes through.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Market, STACK_TAG, ShutdownBehavior};
use crate::Millis;

/// The states of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InstanceState {
    Pending,
    Running,
    ShuttingDown,
    Terminated,
    Stopping,
    Stopped,
}

impl InstanceState {
    /// The word EC2 uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::ShuttingDown => "shutting-down",
            Self::Terminated => "terminated",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
        }
    }

    /// The number EC2 uses.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Pending => 0,
            Self::Running => 16,
            Self::ShuttingDown => 32,
            Self::Terminated => 48,
            Self::Stopping => 64,
            Self::Stopped => 80,
        }
    }

    /// On the way out, or there: never comes back.
    #[must_use]
    pub const fn is_ending(self) -> bool {
        matches!(self, Self::ShuttingDown | Self::Terminated)
    }

    /// Whether the machine may have power.
    #[must_use]
    pub const fn is_up(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }

    /// Whether the next state comes by itself.
    const fn leads_to(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Pending, Self::Running)
                | (Self::ShuttingDown, Self::Terminated)
                | (Self::Stopping, Self::Stopped)
        )
    }
}

/// What ends an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Somebody calls TerminateInstances.
    Terminated,
    /// Its operating system shuts down, and its template makes that an end.
    ShutItselfDown,
    /// EC2 needs the spot capacity.
    Reclaimed,
    /// Its host is lost.
    HostLost,
    /// EC2 cannot start what it has accepted: the disk's key may not be used, say. The code is the
    /// state reason's.
    LaunchFailed(String),
}

impl End {
    /// In a few words.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Terminated => "terminated",
            Self::ShutItselfDown => "shut itself down",
            Self::Reclaimed => "reclaimed by spot",
            Self::HostLost => "host lost",
            Self::LaunchFailed(_) => "launch failed",
        }
    }

    /// As EC2 says it: the code once more before the sentence.
    /// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_StateReason.html
    #[must_use]
    pub fn reason(&self) -> Reason {
        let (code, message) = match self {
            Self::Terminated => ("Client.UserInitiatedShutdown", "User initiated shutdown"),
            Self::ShutItselfDown => {
                ("Client.InstanceInitiatedShutdown", "Instance initiated shutdown")
            }
            Self::Reclaimed => (
                "Server.SpotInstanceTermination",
                "Instance terminated due to Spot Instance termination",
            ),
            Self::HostLost => ("Server.InternalError", "the host was lost"),
            Self::LaunchFailed(code) => (code.as_str(), "Client error on launch"),
        };
        Reason { code: code.to_owned(), message: format!("{code}: {message}") }
    }

    /// What comes of an instance that ends so. One that never started has nothing to shut down.
    const fn next(&self) -> InstanceState {
        match self {
            Self::LaunchFailed(_) => InstanceState::Terminated,
            _ => InstanceState::ShuttingDown,
        }
    }
}

/// Why an instance is in its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    pub code: String,
    pub message: String,
}

/// One instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Instance {
    pub id: String,
    pub reservation: String,
    pub launch_index: u32,
    /// Position in the order of all launches, from 1: what pages are cut by.
    pub order: u64,
    pub image_id: String,
    pub instance_type: String,
    pub subnet_id: Option<String>,
    pub zone: String,
    pub market: Market,
    pub client_token: String,
    pub fleet_id: Option<String>,
    pub launched_at: Millis,
    pub state: InstanceState,
    /// The state before …
    #[serde(skip)]
    pub previous: InstanceState,
    /// … which describes show until then. EC2 is consistent in the end.
    /// Source: docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html
    #[serde(skip)]
    pub stale_until: Millis,
    pub since: Millis,
    /// When it left life, which EC2 shows with the reason.
    #[serde(skip)]
    pub ended_at: Option<Millis>,
    pub reason: Option<Reason>,
    pub tags: BTreeMap<String, String>,
    #[serde(skip)]
    pub user_data: String,
    /// The size of its disk.
    #[serde(skip)]
    pub disk_gib: u32,
    /// What stands on its console.
    #[serde(skip)]
    pub console: String,
    pub instance_profile: Option<String>,
    pub on_shutdown: ShutdownBehavior,
    pub protected: bool,
    /// EC2 denies knowing the instance until then.
    pub visible_from: Millis,
    /// When EC2 takes a spot instance back, once it has said so.
    pub reclaim_at: Option<Millis>,
}

/// The size of a disk that a launch does not name.
pub(super) const DISK_GIB: u32 = 40;

impl Instance {
    /// The Muster stack that launched it, by its tag.
    #[must_use]
    pub fn stack(&self) -> Option<&str> {
        self.tags.get(STACK_TAG).map(String::as_str)
    }

    /// Whether the API admits that it exists. A terminated one is shown for a while.
    #[must_use]
    pub fn is_visible(&self, now: Millis, kept_ms: Millis) -> bool {
        let forgotten = self.state == InstanceState::Terminated && now >= self.since + kept_ms;
        now >= self.visible_from && !forgotten
    }

    /// The state that a describe shows.
    #[must_use]
    pub const fn shown_state(&self, now: Millis) -> InstanceState {
        if now < self.stale_until { self.previous } else { self.state }
    }

    /// Reaches a state that it is on the way to. False, and nothing happens, if it is not.
    pub fn arrive(&mut self, state: InstanceState, now: Millis) -> bool {
        let leads = self.state.leads_to(state);
        if leads {
            self.set(state, now);
        }
        leads
    }

    /// The one way out of life. False, and nothing happens, if it has ended before.
    pub fn end(&mut self, end: &End, now: Millis) -> bool {
        let lives = !self.state.is_ending();
        if lives {
            self.reason = Some(end.reason());
            self.ended_at = Some(now);
            self.set(end.next(), now);
        }
        lives
    }

    /// Somebody, or its own system, stops it. False if it is not up.
    pub fn stop(&mut self, now: Millis) -> bool {
        let is_up = self.state.is_up();
        if is_up {
            self.set(InstanceState::Stopping, now);
        }
        is_up
    }

    fn set(&mut self, state: InstanceState, now: Millis) {
        self.previous = self.state;
        self.state = state;
        self.since = now;
    }
}
