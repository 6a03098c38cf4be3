//! Webhook deliveries: what is sent, and what happens to it on the way.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{GitHub, GitHubError, Job};
use crate::{Millis, rfc3339, scramble, uuid};

/// One delivery: an event about a job, as the job was then.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub number: u64,
    pub job: Job,
    pub created_at: Millis,
    /// How often it left GitHub.
    pub sent: u32,
    /// Never sent by itself, because a rule says so.
    pub suppressed: bool,
    /// The last answer: a status code, or what went wrong.
    pub answer: Option<String>,
    /// GitHub keeps an attempt of it.
    pub is_tried: bool,
}

impl Delivery {
    /// `X-GitHub-Delivery`; a redelivery carries the same one.
    #[must_use]
    pub fn guid(&self) -> String {
        guid_of(self.number)
    }

    /// The word for what happened to the job.
    #[must_use]
    pub const fn action(&self) -> &'static str {
        self.job.status.name()
    }

    /// The account whose App gets it.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.job.repository.owner
    }
}

pub(super) fn guid_of(number: u64) -> String {
    let half = scramble(number);
    uuid(half, scramble(half))
}

/// A delivery as it leaves GitHub.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Webhook {
    pub number: u64,
    pub guid: String,
    pub owner: String,
    pub app_id: String,
    pub event: String,
    pub action: String,
    pub job: u64,
    #[serde(skip)]
    pub body: Value,
}

/// An attempt to deliver, as GitHub keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Grows from one to the next.
    pub id: u64,
    /// The delivery.
    pub number: u64,
    /// When it was over.
    pub at: Millis,
    /// The answer's status code; none without an answer.
    pub code: Option<u16>,
    /// Not the first one.
    pub again: bool,
}

impl Attempt {
    /// The receiver took it.
    #[must_use]
    pub fn has_arrived(&self) -> bool {
        self.code.is_some_and(|code| (200..300).contains(&code))
    }
}

/// How long GitHub keeps attempts.
const KEPT: Millis = 3 * 24 * 3_600_000;

/// A page of attempts, the newest first.
#[derive(Clone, Debug)]
pub struct AttemptPage<'a> {
    pub attempts: Vec<&'a Attempt>,
    /// The attempt with which the next page begins.
    pub next: Option<u64>,
}

/// What a rule does to a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookEffect {
    /// It is never sent.
    Suppress,
    /// It finds no one: GitHub keeps a failed attempt.
    Fail,
    /// It is sent this many times more.
    Duplicate(u32),
    /// It is sent this much later.
    DelayMs(Millis),
    /// It is sent after the next delivery for the same job.
    AfterNext,
}

/// A rule for deliveries. The first rule that matches decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HookRule {
    #[serde(default)]
    pub owner: Option<String>,
    /// `queued`, `in_progress` or `completed`.
    #[serde(default)]
    pub action: Option<String>,
    #[serde(default)]
    pub job: Option<u64>,
    /// How many deliveries; all that follow without it.
    #[serde(default)]
    pub times: Option<u32>,
    pub effect: HookEffect,
}

impl HookRule {
    fn matches(&self, delivery: &Delivery) -> bool {
        self.owner.as_ref().is_none_or(|owner| owner.eq_ignore_ascii_case(delivery.owner()))
            && self.action.as_ref().is_none_or(|action| *action == delivery.action())
            && self.job.is_none_or(|job| job == delivery.job.id)
    }
}

impl GitHub {
    /// Adds a rule for deliveries.
    pub fn add_hook_rule(&mut self, rule: HookRule) {
        self.rules.push(rule);
    }

    /// Forgets the rules of one owner, or all.
    pub fn clear_hook_rules(&mut self, owner: Option<&str>) {
        self.rules.retain(|rule| owner.is_some() && rule.owner.as_deref() != owner);
    }

    /// An event gets a delivery of its own. Numbers grow from one to the next.
    pub fn deliver(&mut self, number: u64, job: Job, now: Millis) {
        let delivery = Delivery {
            number,
            job,
            created_at: now,
            sent: 0,
            suppressed: false,
            answer: None,
            is_tried: false,
        };
        self.deliveries.insert(number, delivery);
    }

    /// What the rules do to a new delivery.
    pub(crate) fn effect_on(&mut self, number: u64) -> Option<HookEffect> {
        let delivery = self.deliveries.get_mut(&number)?;
        let index = self.rules.iter().position(|rule| rule.matches(delivery))?;
        let rule = &mut self.rules[index];
        let effect = rule.effect;
        match &mut rule.times {
            Some(times) if *times <= 1 => {
                self.rules.remove(index);
            }
            Some(times) => *times -= 1,
            None => {}
        }
        delivery.suppressed = effect == HookEffect::Suppress;
        if effect == HookEffect::AfterNext {
            self.held.push(number);
        }
        Some(effect)
    }

    /// A delivery leaves GitHub, and lets those go that waited for it: all that leave now.
    pub(crate) fn depart(&mut self, number: u64) -> Vec<u64> {
        let Some(job) = self.deliveries.get(&number).map(|delivery| delivery.job.id) else {
            return Vec::new();
        };
        let deliveries = &self.deliveries;
        let waits = |held: &mut u64| deliveries.get(held).is_some_and(|one| one.job.id == job);
        let mut leaving = vec![number];
        leaving.extend(self.held.extract_if(.., waits));
        for number in &leaving {
            if let Some(delivery) = self.deliveries.get_mut(number) {
                delivery.sent += 1;
            }
        }
        leaving
    }

    /// What the receiver said.
    pub(crate) fn delivery_answered(&mut self, number: u64, answer: String, now: Millis) {
        self.attempted(number, answer.parse().ok(), now);
        if let Some(delivery) = self.deliveries.get_mut(&number) {
            delivery.answer = Some(answer);
        }
    }

    /// GitHub keeps an attempt to deliver: its answer, or that there was none.
    pub fn attempted(&mut self, number: u64, code: Option<u16>, now: Millis) {
        let is_tried = match self.deliveries.get_mut(&number) {
            Some(delivery) => &mut delivery.is_tried,
            None => match self.app_deliveries.get_mut(&number) {
                Some(delivery) => &mut delivery.is_tried,
                None => return,
            },
        };
        let again = std::mem::replace(is_tried, true);
        let id = 1 + self.attempts.len() as u64;
        let attempt = Attempt { id, number, at: now, code, again };
        if attempt.has_arrived() {
            self.undelivered.remove(&number);
        } else if !again && self.deliveries.contains_key(&number) {
            self.undelivered.insert(number);
        }
        self.attempts.push(attempt);
    }

    /// The attempts to deliver, in the order in which they were over.
    #[must_use]
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// The last attempt to deliver what never arrived.
    #[must_use]
    pub fn undelivered(&self) -> Option<&Attempt> {
        if self.undelivered.is_empty() {
            return None;
        }
        self.attempts.iter().rev().find(|one| self.undelivered.contains(&one.number))
    }

    /// A page of the attempts of an App's webhook that GitHub still keeps: from this attempt on,
    /// or from the newest. None when it does not keep that attempt.
    #[must_use]
    pub fn attempts_page(
        &self,
        app: &str,
        from: Option<u64>,
        size: usize,
        now: Millis,
    ) -> Option<AttemptPage<'_>> {
        let is_of_app = |one: &Attempt| {
            self.delivery_of(app, one).is_some() || self.is_about_app(app, one.number)
        };
        let newest = self.attempts.len() as u64;
        let from = from.unwrap_or(newest).min(newest);
        let is_kept = |one: &&Attempt| one.at > now - KEPT;
        let older = &self.attempts[..usize::try_from(from).ok()?];
        if from < newest && !older.last().as_ref().is_some_and(is_kept) {
            return None;
        }
        let mut attempts: Vec<&Attempt> = older
            .iter()
            .rev()
            .take_while(is_kept)
            .filter(|one| is_of_app(one))
            .take(size + 1)
            .collect();
        let next = attempts.get(size).map(|one| one.id);
        attempts.truncate(size);
        Some(AttemptPage { attempts, next })
    }

    /// An attempt as `GET /app/hook/deliveries` shows it.
    #[must_use]
    pub fn attempt_view(&self, app: &str, one: &Attempt) -> Value {
        match self.delivery_of(app, one) {
            Some(job) => view(one, &job.guid(), "workflow_job", Some(job.action())),
            None => {
                let Some(Webhook { guid, event, action, .. }) = self.app_webhook(one.number) else {
                    return Value::Null;
                };
                view(one, &guid, &event, Some(action.as_str()).filter(|it| !it.is_empty()))
            }
        }
    }

    /// What an attempt is of, if that is sent to this App.
    fn delivery_of(&self, app: &str, attempt: &Attempt) -> Option<&Delivery> {
        let delivery = self.deliveries.get(&attempt.number)?;
        let owner = self.owner(delivery.owner())?;
        (owner.spec.app_id == app).then_some(delivery)
    }

    /// `POST /app/hook/deliveries/{id}/attempts`: which delivery is to be tried once more.
    pub fn attempt_again(&self, app: &str, id: u64) -> Result<&Delivery, GitHubError> {
        let attempt = id.checked_sub(1).and_then(|index| self.attempts.get(index as usize));
        let delivery = attempt.and_then(|attempt| self.delivery_of(app, attempt));
        delivery.ok_or_else(GitHubError::not_found)
    }
}

fn view(attempt: &Attempt, guid: &str, event: &str, action: Option<&str>) -> Value {
    let status = match attempt.code {
        Some(200..300) => "OK".to_owned(),
        Some(code) => format!("Invalid HTTP Response: {code}"),
        None => "failed to connect to host".to_owned(),
    };
    json!({
        "id": attempt.id,
        "guid": guid,
        "delivered_at": rfc3339(attempt.at),
        "redelivery": attempt.again,
        "duration": 0.1,
        "status": status,
        "status_code": attempt.code.unwrap_or(0),
        "event": event,
        "action": action,
        "throttled_at": null,
    })
}
