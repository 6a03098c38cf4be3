//! How others re-run interrupted jobs: what is changed of our calls and records.

use muster_control::ports::Write;
use muster_domain::rerun::{Rerun, RerunOutcome, RerunState, RerunWait};
use muster_domain::stored::{Change, Stored};

use super::PeerPolicy;
use crate::world::World;

/// The same change with another record.
fn with<T: Clone>(change: &Change<T>, next: T) -> Change<T> {
    match change.replaces() {
        Some(version) => Stored::read(next.clone(), version).change(next),
        None => Change::create(next),
    }
}

impl PeerPolicy {
    /// What the peer writes in place of ours. Nothing for what it does not write.
    fn write_of(self, write: &Write) -> Option<Write> {
        match (self, write) {
            (Self::ActsThenNotes, Write::Rerun(next))
                if matches!(next.state, RerunState::Intended { .. }) =>
            {
                None
            }
            (Self::LooksOnce, Write::Rerun(next)) => {
                let waits = matches!(&next.state, RerunState::Open(watch)
                    if watch.wait == RerunWait::Run && watch.looks > 0);
                let done = RerunState::Done { at: next.opened_at, outcome: RerunOutcome::InTime };
                let other = Rerun { state: done, ..next.next().clone() };
                Some(if waits { with(next, other).into() } else { write.clone() })
            }
            (Self::AttemptsAreAlike, Write::Job(next)) => {
                let mut other = next.next().clone();
                other.rerun = false;
                Some(with(next, other).into())
            }
            _ => Some(write.clone()),
        }
    }
}

impl World {
    /// The writes of a commit, as the peer would make them.
    pub(crate) fn naive_writes(&self, writes: &[Write]) -> Vec<Write> {
        match self.naive {
            None => writes.to_vec(),
            Some(naive) => writes.iter().filter_map(|write| naive.write_of(write)).collect(),
        }
    }
}
