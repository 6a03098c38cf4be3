//! The record of sent notices, one for the whole stack.

use std::collections::BTreeMap;

use muster_api::answers::{AppStatus, Finding, Severity};
use muster_domain::SCHEMA;
use muster_domain::backoff::grown;
use muster_domain::ids::AppName;
use muster_domain::time::{Seconds, Time};
use muster_domain::timings::Timings;
use serde::{Deserialize, Serialize};

use super::{AppRecord, Notice, What};

/// Maximum number of findings in the record, most severe first.
const MAX_STANDING: usize = 100;
/// Maximum number of notices per call; the next sweep sends the rest.
const MAX_AT_ONCE: usize = 20;
/// How long a call is reserved for the sweep that makes it.
const CALL: Seconds = Seconds(60);
/// The delay after a failed call, which doubles up to the maximum below.
const FIRST_WAIT: Seconds = Seconds(60);
const LONGEST_WAIT: Seconds = Seconds(600);

/// The record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notices {
    /// The version of the record's format.
    pub schema: u16,
    /// A hash of the address that was notified last: the address itself is a secret.
    pub address: Option<String>,
    /// Findings, by key.
    pub standing: BTreeMap<String, TrackedFinding>,
    /// No call is made before this time.
    pub try_at: Option<Time>,
    /// Number of consecutive failed calls.
    pub failures: u32,
    /// The error of the last one.
    pub error: Option<String>,
    /// The findings of the last checks of each App.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub apps: BTreeMap<AppName, AppRecord>,
}

/// A current finding, or one that ended recently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrackedFinding {
    /// The severity.
    pub severity: Severity,
    /// Its message, as it was first seen.
    pub message: String,
    /// When it started, if known.
    pub since: Time,
    /// When a sweep first saw it.
    pub seen_at: Time,
    /// When its notification was sent; absent before that.
    pub told_at: Option<Time>,
    /// When it ended, if it did.
    pub gone_since: Option<Time>,
}

impl Default for Notices {
    /// Creates the record before any notification was sent.
    fn default() -> Self {
        Self {
            schema: SCHEMA,
            address: None,
            standing: BTreeMap::new(),
            try_at: None,
            failures: 0,
            error: None,
            apps: BTreeMap::new(),
        }
    }
}

impl Notices {
    /// Returns the record after a check of all Apps.
    #[must_use]
    pub fn with_apps(self, found: &[(AppName, AppStatus)], now: Time) -> Self {
        let after = |(app, found): &(AppName, AppStatus)| {
            let known = self.apps.get(app).cloned().unwrap_or_default();
            (*app, known.after(found, now))
        };
        Self { apps: found.iter().map(after).collect(), ..self }
    }

    /// Returns when the Apps were checked last, and the problems to report. `None` before the first
    /// check.
    #[must_use]
    pub fn app_status(&self, now: Time) -> Option<(Time, AppStatus)> {
        let at = self.apps.values().map(|record| record.at).min()?;
        Some((at, self.apps.iter().map(|(app, record)| record.reported(*app, now)).collect()))
    }

    /// Returns the record with the current findings. For a new address, all current findings are
    /// due again. A finding that ended before its notification was sent is dropped, and findings of
    /// severity `note` cause no notification.
    #[must_use]
    pub fn seen(&self, findings: &[Finding], address: &str, now: Time) -> Self {
        let mut next = self.clone();
        if self.is_news_to(address) {
            next.standing.retain(|_, one| one.gone_since.is_none());
            next.standing.values_mut().for_each(|one| one.told_at = None);
        }
        let is_so = |key: &str| findings.iter().any(|one| one.key == key);
        next.standing.retain(|key, one| one.told_at.is_some() || is_so(key));
        for (key, one) in &mut next.standing {
            // The finding may return shortly, for example a limit that is reached again and again.
            match is_so(key) {
                true => one.gone_since = None,
                false => one.gone_since = one.gone_since.or(Some(now)),
            }
        }
        let is_new = |finding: &&Finding| {
            finding.severity != Severity::Note && !next.standing.contains_key(&finding.key)
        };
        let mut new: Vec<&Finding> = findings.iter().filter(is_new).collect();
        new.sort_by_key(|finding| finding.severity);
        let room = MAX_STANDING.saturating_sub(next.standing.len());
        next.standing.extend(
            new.into_iter().take(room).map(|one| (one.key.clone(), TrackedFinding::new(one, now))),
        );
        next
    }

    /// Returns the notices to send: findings that have lasted for a while (errors immediately), and
    /// findings that ended a while ago.
    #[must_use]
    pub fn due(&self, findings: &[Finding], timings: &Timings, now: Time) -> Vec<Notice> {
        let (mut begun, mut over) = (Vec::new(), Vec::new());
        for (key, one) in &self.standing {
            let finding = findings.iter().find(|one| one.key == *key);
            match (finding, one.told_at, one.gone_since) {
                (Some(finding), None, _) if one.is_settled(timings, now) => {
                    begun.push(one.begun(finding));
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

    /// Returns whether this address was never notified.
    #[must_use]
    pub fn is_news_to(&self, address: &str) -> bool {
        self.address.as_deref() != Some(address)
    }

    /// Returns whether no call is in progress and no delay applies.
    #[must_use]
    pub fn may_try(&self, now: Time) -> bool {
        self.try_at.is_none_or(|at| now >= at)
    }

    /// Returns the record before a call.
    #[must_use]
    pub fn tried(&self, now: Time) -> Self {
        Self { try_at: Some(now + CALL), ..self.clone() }
    }

    /// Returns the record after these notices were sent.
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
                        one.message.clone_from(&notice.message);
                    }
                }
            }
        }
        next
    }

    /// Returns the record after a failed call.
    #[must_use]
    pub fn failed(&self, error: String, now: Time) -> Self {
        let failures = self.failures + 1;
        let wait = grown(FIRST_WAIT, failures, LONGEST_WAIT);
        Self { failures, try_at: Some(now + wait), error: Some(error), ..self.clone() }
    }
}

impl TrackedFinding {
    fn new(finding: &Finding, now: Time) -> Self {
        Self {
            severity: finding.severity,
            message: finding.message.clone(),
            since: finding.since.unwrap_or(now),
            seen_at: now,
            told_at: None,
            gone_since: None,
        }
    }

    fn is_settled(&self, timings: &Timings, now: Time) -> bool {
        self.severity == Severity::Error || now.is_past(self.seen_at, timings.notice_settle_seconds)
    }

    fn begun(&self, finding: &Finding) -> Notice {
        Notice {
            what: What::Begun,
            key: finding.key.clone(),
            severity: finding.severity,
            message: finding.message.clone(),
            since: self.since,
            until: None,
            fix: finding.fix.clone(),
        }
    }

    fn over(&self, key: &str, gone: Time) -> Notice {
        Notice {
            what: What::Over,
            key: key.to_owned(),
            severity: self.severity,
            message: self.message.clone(),
            since: self.since,
            until: Some(gone),
            fix: None,
        }
    }
}
