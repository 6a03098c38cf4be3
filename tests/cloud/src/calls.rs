//! The log of everything that came through a door, for tests to count and to time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Millis;

/// What is known of a call when it arrives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CallInfo {
    pub door: &'static str,
    pub operation: String,
    /// The Muster stack, where the call tells.
    pub stack: Option<String>,
    /// The GitHub account, where the call tells.
    pub owner: Option<String>,
    pub targets: Vec<String>,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Call {
    pub number: u64,
    pub at_ms: Millis,
    #[serde(flatten)]
    pub info: CallInfo,
    /// When it was answered, or dropped.
    pub done_ms: Option<Millis>,
    /// `ok`, `error <status> <code>`, `dropped`, or `open`.
    pub outcome: String,
    pub performed: bool,
    /// The fault that hit it.
    pub fault: Option<u64>,
}

/// Which calls to look at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CallFilter {
    pub door: Option<String>,
    pub operation: Option<String>,
    pub stack: Option<String>,
    pub owner: Option<String>,
    pub target: Option<String>,
    /// Only calls with a higher number.
    pub after: Option<u64>,
}

impl CallFilter {
    fn matches(&self, call: &Call) -> bool {
        let same = |wanted: &Option<String>, value: Option<&str>| {
            wanted
                .as_deref()
                .is_none_or(|wanted| value.is_some_and(|value| wanted.eq_ignore_ascii_case(value)))
        };
        same(&self.door, Some(call.info.door))
            && same(&self.operation, Some(&call.info.operation))
            && same(&self.stack, call.info.stack.as_deref())
            && same(&self.owner, call.info.owner.as_deref())
            && self.after.is_none_or(|after| call.number > after)
            && self
                .target
                .as_ref()
                .is_none_or(|wanted| call.info.targets.iter().any(|t| t.contains(wanted)))
    }
}

/// The call log. Numbers go on rising when it is emptied.
#[derive(Clone, Debug, Default)]
pub struct CallLog {
    calls: Vec<Call>,
    count: u64,
}

impl CallLog {
    /// A call arrives.
    pub fn arrive(&mut self, info: CallInfo, fault: Option<u64>, now: Millis) -> u64 {
        self.count += 1;
        self.calls.push(Call {
            number: self.count,
            at_ms: now,
            info,
            done_ms: None,
            outcome: "open".to_owned(),
            performed: false,
            fault,
        });
        self.count
    }

    /// The call was carried out, whatever the caller hears of it. What only the answer tells about
    /// the targets is filled in.
    pub fn performed(&mut self, number: u64, more_targets: Vec<String>) {
        if let Some(call) = self.find(number) {
            call.performed = true;
            call.info.targets.extend(more_targets);
        }
    }

    /// The caller got its answer, or none.
    pub fn done(&mut self, number: u64, outcome: &str, now: Millis) {
        if let Some(call) = self.find(number) {
            outcome.clone_into(&mut call.outcome);
            call.done_ms = Some(now);
        }
    }

    fn find(&mut self, number: u64) -> Option<&mut Call> {
        let index = self.calls.binary_search_by_key(&number, |call| call.number).ok()?;
        self.calls.get_mut(index)
    }

    /// The calls that a filter lets through, in the order of their arrival.
    pub fn select(&self, filter: &CallFilter) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(move |call| filter.matches(call))
    }

    /// How many calls there were, as `door:operation`.
    #[must_use]
    pub fn count(&self, filter: &CallFilter) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for call in self.select(filter) {
            *counts.entry(format!("{}:{}", call.info.door, call.info.operation)).or_default() += 1;
        }
        counts
    }

    /// Forgets the calls that a filter lets through.
    pub fn forget(&mut self, filter: &CallFilter) {
        self.calls.retain(|call| !filter.matches(call));
    }
}
