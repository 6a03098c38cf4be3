//! How our calls about registrations ended: what the judge holds against what we do then.

use std::collections::BTreeMap;

use muster_domain::instance::Instance;

use super::Github;
use crate::agenda::{MINUTE, Millis, TaskId};

/// How a call about a registration ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// Answered, and not "busy".
    Answered,
    /// "Busy".
    Busy,
    /// 401 or 403.
    Refused,
    /// No answer, or a 5xx.
    Silent,
    /// The rate limit.
    Limited,
}

/// The end of a call about a registration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    /// Whose call it was.
    pub(super) caller: Option<TaskId>,
    pub(super) at: Millis,
    pub(super) how: CallOutcome,
}

/// How the last minute's calls about a registration ended, the last one of each caller and the
/// newest at the end; by its number or, where we know none, by its name.
pub(super) type Outcomes = BTreeMap<String, Vec<Ended>>;

/// A pass lasts no longer.
const MAX_PASS: Millis = MINUTE;

/// What a row's calls ask for.
fn about(row: &Instance) -> String {
    row.runner.id.map_or_else(|| row.runner_name(), |id| id.to_string())
}

impl Github {
    /// A call about a registration has ended.
    pub(super) fn note_outcome(&mut self, about: String, ended: Ended) {
        let all = self.outcomes.entry(about).or_default();
        all.retain(|one| one.caller != ended.caller && one.at >= ended.at - MAX_PASS);
        all.push(ended);
    }

    /// How our last call about this row's registration ended.
    #[must_use]
    pub fn last_outcome(&self, row: &Instance) -> Option<CallOutcome> {
        self.outcomes.get(&about(row))?.last().map(|one| one.how)
    }

    /// How this caller's own last call about it ended, in the pass that it is in. Another pass may
    /// have heard otherwise.
    #[must_use]
    pub fn outcome_for(
        &self,
        caller: Option<TaskId>,
        row: &Instance,
        now: Millis,
    ) -> Option<CallOutcome> {
        let all = self.outcomes.get(&about(row))?;
        let own = all.iter().find(|one| one.caller == caller && one.at >= now - MAX_PASS)?;
        Some(own.how)
    }
}
