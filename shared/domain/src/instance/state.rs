//! The states of an instance and of its runner, and the table of legal transitions.

use serde::{Deserialize, Serialize};
use strum::VariantArray as _;

/// The state of an instance, in GARM's spelling.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum State {
    /// Waiting for the next launch attempt; EC2 has no machine for it.
    PendingCreate,
    /// Slot of an open launch: EC2 was or is being called.
    Creating,
    /// A machine is bound to it.
    Running,
    /// The launch failed permanently.
    Error,
    /// Being deleted by the graceful stop.
    PendingDelete,
    /// Being deleted regardless of errors from EC2 and GitHub.
    PendingForceDelete,
    /// EC2 was asked to terminate the machine.
    Deleting,
    /// EC2 reported that the machine is gone, or force moved it to the orphan ledger. Final.
    Deleted,
}

impl State {
    /// All states, in life-cycle order.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Returns the name used in tables, logs and responses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns whether it counts against the pool's maximum: every state except `deleted`.
    #[must_use]
    pub const fn is_live(self) -> bool {
        !matches!(self, Self::Deleted)
    }

    /// Returns whether it can still get or keep a job, because no delete was decided.
    #[must_use]
    pub const fn is_serving(self) -> bool {
        matches!(self, Self::PendingCreate | Self::Creating | Self::Running)
    }

    /// Returns whether [`TRANSITIONS`] allows the move.
    #[must_use]
    pub fn may_become(self, to: Self) -> bool {
        TRANSITIONS.iter().any(|move_| move_.from == Some(self) && move_.to == to)
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One legal move and its cause.
#[derive(Clone, Copy, Debug)]
pub struct Transition {
    /// The current state. `None` when the record is created.
    pub from: Option<State>,
    /// The next state.
    pub to: State,
    /// What causes it.
    pub cause: &'static str,
}

const fn from(from: State, to: State, cause: &'static str) -> Transition {
    Transition { from: Some(from), to, cause }
}

/// Every legal transition. There is no other way to change a state. docs/design/deletes.md shows
/// this table; a test keeps the two consistent.
pub const TRANSITIONS: &[Transition] = {
    use State::{
        Creating, Deleted, Deleting, Error, PendingCreate, PendingDelete, PendingForceDelete,
        Running,
    };
    &[
        Transition { from: None, to: PendingCreate, cause: "a launch plans a slot" },
        from(PendingCreate, Creating, "its launch is committed; EC2 is called next"),
        from(Creating, Running, "a machine is bound to the slot"),
        from(Creating, PendingCreate, "definite, retryable launch error; attempts are left"),
        from(Creating, Error, "definite launch error; no retry or no attempts left"),
        from(Error, PendingDelete, "next pass"),
        from(PendingCreate, PendingDelete, "delete ordered, or no job needs it any longer"),
        from(Creating, PendingDelete, "delete ordered, or the launch was abandoned"),
        from(Running, PendingDelete, "delete ordered, kill gate passed, or the machine ended"),
        from(PendingCreate, PendingForceDelete, "forced delete ordered"),
        from(Creating, PendingForceDelete, "forced delete ordered"),
        from(Running, PendingForceDelete, "forced delete ordered"),
        from(Error, PendingForceDelete, "forced delete ordered"),
        from(PendingDelete, PendingForceDelete, "forced delete ordered"),
        from(
            Deleting,
            PendingForceDelete,
            "forced delete ordered, or a return to pending_delete during a forced delete",
        ),
        from(PendingDelete, Deleting, "graceful stop is complete"),
        from(PendingForceDelete, Deleting, "graceful stop is complete"),
        from(
            Deleting,
            PendingDelete,
            "provider error, waits before the next attempt; or a job was reported before EC2 acted",
        ),
        from(
            Deleting,
            Deleted,
            "EC2 reports that the machine is gone, or force moved it to the orphan ledger",
        ),
    ]
};

/// The state of the runner software on the machine.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum RunnerState {
    /// Has not requested its configuration yet.
    Pending,
    /// Was given a configuration.
    Installing,
    /// Reported that its agent runs; waits for a job.
    Idle,
    /// Runs a job.
    Active,
    /// Reported that it could not start.
    Failed,
    /// Its agent ended.
    Terminated,
}

impl RunnerState {
    /// Returns the name used in tables, logs and responses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deleted_is_absorbing_and_force_is_not_downgraded() {
        for to in State::ALL.iter().copied() {
            assert!(!State::Deleted.may_become(to), "deleted → {to}");
        }
        assert!(!State::PendingForceDelete.may_become(State::PendingDelete));
    }

    #[test]
    fn force_is_allowed_in_every_live_state() {
        for state in State::ALL.iter().copied() {
            let stays = matches!(state, State::PendingForceDelete | State::Deleted);
            assert_eq!(state.may_become(State::PendingForceDelete), !stays, "{state}");
        }
    }

    #[test]
    fn every_state_leads_to_deleted() {
        let mut reaches = vec![State::Deleted];
        while let Some(next) = TRANSITIONS.iter().find_map(|move_| {
            let from = move_.from?;
            (reaches.contains(&move_.to) && !reaches.contains(&from)).then_some(from)
        }) {
            reaches.push(next);
        }
        assert_eq!(reaches.len(), State::ALL.len());
    }
}
