//! The two state words of an instance and the table of legal moves.

use serde::{Deserialize, Serialize};
use strum::VariantArray as _;

/// Where an instance is in its life, spelt as GARM spells it.
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
    /// Waits for its next launch attempt; EC2 holds nothing for it.
    PendingCreate,
    /// Slot of an open launch: EC2 was or is being called.
    Creating,
    /// A machine is bound to it.
    Running,
    /// The launch failed for good.
    Error,
    /// On its way out, by the graceful stop.
    PendingDelete,
    /// On its way out, and provider errors do not hold it up.
    PendingForceDelete,
    /// EC2 is asked to terminate the machine.
    Deleting,
    /// EC2 said that the machine is gone, or force gave it to the orphan ledger. Absorbing.
    Deleted,
}

impl State {
    /// All states, in the order of life.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The word in tables, logs and answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Everything but `deleted`: counts against the pool's maximum.
    #[must_use]
    pub const fn is_live(self) -> bool {
        !matches!(self, Self::Deleted)
    }

    /// May still get or hold a job: nobody has decided against it.
    #[must_use]
    pub const fn is_serving(self) -> bool {
        matches!(self, Self::PendingCreate | Self::Creating | Self::Running)
    }

    /// Whether the table below allows the move.
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
    /// None: the record is made.
    pub from: Option<State>,
    /// The next state.
    pub to: State,
    /// What causes it.
    pub cause: &'static str,
}

const fn from(from: State, to: State, cause: &'static str) -> Transition {
    Transition { from: Some(from), to, cause }
}

/// Every legal move. There is no other way to change a state; docs/design/deletes.md shows this
/// table, and a test holds the two together.
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
        from(PendingCreate, PendingDelete, "delete ordered, or no job needs it any more"),
        from(Creating, PendingDelete, "delete ordered, or the launch was given up"),
        from(
            Running,
            PendingDelete,
            "delete ordered, or the kill gate is passed, or the machine ended",
        ),
        from(PendingCreate, PendingForceDelete, "forced delete ordered"),
        from(Creating, PendingForceDelete, "forced delete ordered"),
        from(Running, PendingForceDelete, "forced delete ordered"),
        from(Error, PendingForceDelete, "forced delete ordered"),
        from(PendingDelete, PendingForceDelete, "forced delete ordered"),
        from(
            Deleting,
            PendingForceDelete,
            "forced delete ordered, or what leads back to pending_delete, of a forced delete",
        ),
        from(PendingDelete, Deleting, "graceful stop says go"),
        from(PendingForceDelete, Deleting, "graceful stop says go"),
        from(
            Deleting,
            PendingDelete,
            "provider error; waits before the next attempt; or a job became known before EC2 acted",
        ),
        from(
            Deleting,
            Deleted,
            "EC2 says the machine is gone, or force gave it to the orphan ledger",
        ),
    ]
};

/// Where the runner software on the machine is.
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
    /// Has not asked for its configuration yet.
    Pending,
    /// Has been given a configuration.
    Installing,
    /// Reported that its agent runs and waits for a job.
    Idle,
    /// Runs a job.
    Active,
    /// Reported that it could not start.
    Failed,
    /// Its agent ended.
    Terminated,
}

impl RunnerState {
    /// The word in tables, logs and answers.
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
