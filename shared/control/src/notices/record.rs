//! What was told of what, on record. One record for the whole stack.

use std::collections::BTreeMap;

use muster_domain::SCHEMA;
use muster_domain::backoff::grown;
use muster_domain::time::{Seconds, Time};
use muster_domain::timings::Timings;
use serde::{Deserialize, Serialize};

use super::{Notice, What};
use crate::admin::answers::{Severity, Want};
use crate::app_watch::AppRecord;

/// Most that is on record at one time, the worst of it.
const MAX_STANDING: usize = 100;
/// Most notices of one call; the next sweep tells the others.
const MAX_AT_ONCE: usize = 20;
/// For so long a call belongs to the sweep that makes it.
const CALL: Seconds = Seconds(60);
/// The wait after a call that failed: it doubles up to the other.
const FIRST_WAIT: Seconds = Seconds(60);
const LONGEST_WAIT: Seconds = Seconds(600);

/// The record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notices {
    /// Version of the record's form.
    pub schema: u16,
    /// The address that was told last, as a hash: the address itself is a secret.
    pub address: Option<String>,
    /// What somebody should look at, by its key.
    pub standing: BTreeMap<String, Standing>,
    /// No call before this.
    pub try_at: Option<Time>,
    /// Calls in a row that failed.
    pub failures: u32,
    /// What was wrong with the last of them.
    pub error: Option<String>,
    /// What the last checks of the App found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<AppRecord>,
}

/// Something that somebody should look at, or should have until a moment ago.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// How bad it is.
    pub severity: Severity,
    /// What it is; as it was first seen.
    pub sentence: String,
    /// Since when, as far as is known.
    pub since: Time,
    /// When a sweep saw it first.
    pub seen_at: Time,
    /// When it was told; none while it was not.
    pub told_at: Option<Time>,
    /// Since when it is not so any more.
    pub gone_since: Option<Time>,
}

impl Default for Notices {
    /// Nothing was ever told.
    fn default() -> Self {
        Self {
            schema: SCHEMA,
            address: None,
            standing: BTreeMap::new(),
            try_at: None,
            failures: 0,
            error: None,
            app: None,
        }
    }
}

impl Notices {
    /// The record after a look. Another address knows of nothing: it is told all that stands. What
    /// was not told and is over is forgotten. What somebody may want to know calls nobody.
    #[must_use]
    pub fn seen(&self, wants: &[Want], address: &str, now: Time) -> Self {
        let mut next = self.clone();
        if self.is_news_to(address) {
            next.standing.retain(|_, one| one.gone_since.is_none());
            next.standing.values_mut().for_each(|one| one.told_at = None);
        }
        let is_so = |key: &str| wants.iter().any(|want| want.key == key);
        next.standing.retain(|key, one| one.told_at.is_some() || is_so(key));
        for (key, one) in &mut next.standing {
            // It may come back within the time, as a limit does that is reached again and again.
            match is_so(key) {
                true => one.gone_since = None,
                false => one.gone_since = one.gone_since.or(Some(now)),
            }
        }
        let is_new = |want: &&Want| {
            want.severity != Severity::Note && !next.standing.contains_key(&want.key)
        };
        let mut new: Vec<&Want> = wants.iter().filter(is_new).collect();
        new.sort_by_key(|want| want.severity);
        let room = MAX_STANDING.saturating_sub(next.standing.len());
        next.standing.extend(
            new.into_iter().take(room).map(|want| (want.key.clone(), Standing::new(want, now))),
        );
        next
    }

    /// What is to be told: what has stood for a while (an error at once) and what is over for a
    /// while.
    #[must_use]
    pub fn due(&self, wants: &[Want], timings: &Timings, now: Time) -> Vec<Notice> {
        let (mut begun, mut over) = (Vec::new(), Vec::new());
        for (key, one) in &self.standing {
            let want = wants.iter().find(|want| want.key == *key);
            match (want, one.told_at, one.gone_since) {
                (Some(want), None, _) if one.is_settled(timings, now) => {
                    begun.push(one.begun(want));
                }
                (None, Some(_), Some(gone)) if now.is_past(gone, timings.notice_over_seconds) => {
                    over.push(one.over(key, gone));
                }
                _ => {}
            }
        }
        begun.sort_by_key(|notice| notice.severity);
        begun.extend(over);
        begun.truncate(MAX_AT_ONCE);
        begun
    }

    /// Whether this address was never told anything.
    #[must_use]
    pub fn is_news_to(&self, address: &str) -> bool {
        self.address.as_deref() != Some(address)
    }

    /// Whether no call is on its way and no wait lasts.
    #[must_use]
    pub fn may_try(&self, now: Time) -> bool {
        self.try_at.is_none_or(|at| now >= at)
    }

    /// The record before a call.
    #[must_use]
    pub fn tried(&self, now: Time) -> Self {
        Self { try_at: Some(now + CALL), ..self.clone() }
    }

    /// The record after a call that told these.
    #[must_use]
    pub fn told(&self, notices: &[Notice], address: &str, now: Time) -> Self {
        let mut next = Self {
            address: Some(address.to_owned()),
            try_at: None,
            failures: 0,
            error: None,
            ..self.clone()
        };
        for notice in notices {
            match notice.what {
                What::Over => drop(next.standing.remove(&notice.key)),
                What::Begun => {
                    if let Some(one) = next.standing.get_mut(&notice.key) {
                        one.told_at = Some(now);
                        one.sentence.clone_from(&notice.sentence);
                    }
                }
            }
        }
        next
    }

    /// The record after a call that failed.
    #[must_use]
    pub fn failed(&self, error: String, now: Time) -> Self {
        let failures = self.failures + 1;
        let wait = grown(FIRST_WAIT, failures, LONGEST_WAIT);
        Self { failures, try_at: Some(now + wait), error: Some(error), ..self.clone() }
    }
}

impl Standing {
    fn new(want: &Want, now: Time) -> Self {
        Self {
            severity: want.severity,
            sentence: want.sentence.clone(),
            since: want.since.unwrap_or(now),
            seen_at: now,
            told_at: None,
            gone_since: None,
        }
    }

    fn is_settled(&self, timings: &Timings, now: Time) -> bool {
        self.severity == Severity::Error || now.is_past(self.seen_at, timings.notice_settle_seconds)
    }

    fn begun(&self, want: &Want) -> Notice {
        Notice {
            what: What::Begun,
            key: want.key.clone(),
            severity: want.severity,
            sentence: want.sentence.clone(),
            since: self.since,
            until: None,
            run: want.run.clone(),
        }
    }

    fn over(&self, key: &str, gone: Time) -> Notice {
        Notice {
            what: What::Over,
            key: key.to_owned(),
            severity: self.severity,
            sentence: self.sentence.clone(),
            since: self.since,
            until: Some(gone),
            run: None,
        }
    }
}
