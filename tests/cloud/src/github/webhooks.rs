//! Webhook deliveries: what is sent, and what happens to it on the way.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{GitHub, GitHubError};
use crate::{
    Happening, Millis,
    agenda::{Clockwork, Due},
    rfc3339,
};

/// One delivery.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Delivery {
    pub number: u64,
    /// `X-GitHub-Delivery`; a redelivery carries the same one.
    pub guid: String,
    pub owner: String,
    pub app_id: String,
    pub event: String,
    pub action: String,
    pub job: u64,
    pub created_at: Millis,
    /// How often it left GitHub.
    pub sent: u32,
    /// Never sent by itself, because a rule says so.
    pub suppressed: bool,
    /// The last answer: a status code, or what went wrong.
    pub answer: Option<String>,
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
        self.owner.as_ref().is_none_or(|owner| owner.eq_ignore_ascii_case(&delivery.owner))
            && self.action.as_ref().is_none_or(|action| *action == delivery.action)
            && self.job.is_none_or(|job| job == delivery.job)
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

    /// Queues a `workflow_job` delivery.
    pub(super) fn tell(&mut self, clockwork: &mut Clockwork, job: u64, action: &str, now: Millis) {
        let Some((owner, body)) = self.workflow_job_event(job, action) else { return };
        let Some(app_id) = self.owner(&owner).map(|owner| owner.spec.app_id.clone()) else {
            return;
        };
        let mut delivery = Delivery {
            number: clockwork.ids.large(),
            guid: clockwork.ids.uuid(),
            owner,
            app_id,
            event: "workflow_job".to_owned(),
            action: action.to_owned(),
            job,
            created_at: now,
            sent: 0,
            suppressed: false,
            answer: None,
            body,
        };
        let effect = self.effect_on(&delivery);
        delivery.suppressed = effect == Some(HookEffect::Suppress);
        let send = |clockwork: &mut Clockwork, at| {
            clockwork.at(at, Due::Deliver(Box::new(delivery.clone())));
        };
        match effect {
            None => send(clockwork, now),
            Some(HookEffect::Suppress | HookEffect::Fail) => {}
            Some(HookEffect::Duplicate(more)) => (0..=more).for_each(|_| send(clockwork, now)),
            Some(HookEffect::DelayMs(delay)) => send(clockwork, now + delay),
            Some(HookEffect::AfterNext) => self.held.push(delivery.number),
        }
        let number = delivery.number;
        self.deliveries.insert(number, delivery);
        if effect == Some(HookEffect::Fail) {
            self.attempted(number, None, now);
        }
    }

    fn effect_on(&mut self, delivery: &Delivery) -> Option<HookEffect> {
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
        Some(effect)
    }

    /// A delivery leaves GitHub, and lets those go that waited for it.
    pub(crate) fn depart(&mut self, clockwork: &mut Clockwork, delivery: &Delivery) {
        if let Some(known) = self.deliveries.get_mut(&delivery.number) {
            known.sent += 1;
        }
        clockwork.happened.push(Happening::Webhook(delivery.clone()));
        let waiting: Vec<u64> = self
            .held
            .iter()
            .filter(|number| self.deliveries.get(number).is_some_and(|d| d.job == delivery.job))
            .copied()
            .collect();
        self.held.retain(|number| !waiting.contains(number));
        for number in waiting {
            if let Some(held) = self.deliveries.get(&number).cloned() {
                self.depart(clockwork, &held);
            }
        }
    }

    /// Sends a delivery (again), whatever the rules say.
    pub(crate) fn redeliver(
        &mut self,
        clockwork: &mut Clockwork,
        number: u64,
        now: Millis,
    ) -> Result<(), GitHubError> {
        let delivery = self.deliveries.get(&number).ok_or_else(GitHubError::not_found)?;
        clockwork.at(now, Due::Deliver(Box::new(delivery.clone())));
        Ok(())
    }

    /// What the receiver said.
    pub(crate) fn delivery_answered(&mut self, number: u64, answer: String, now: Millis) {
        self.attempted(number, answer.parse().ok(), now);
        if let Some(delivery) = self.deliveries.get_mut(&number) {
            delivery.answer = Some(answer);
        }
    }

    fn attempted(&mut self, number: u64, code: Option<u16>, now: Millis) {
        let id = 1 + self.attempts.len() as u64;
        let again = self.attempts.iter().any(|one| one.number == number);
        self.attempts.push(Attempt { id, number, at: now, code, again });
    }

    /// The attempts of an App's webhook, the newest first, as `GET /app/hook/deliveries` shows
    /// them.
    #[must_use]
    pub fn attempts_view(&self, app: &str) -> Vec<Value> {
        let of_app = |one: &&Attempt| self.delivery_of(one).is_some_and(|it| it.app_id == app);
        let attempts = self.attempts.iter().rev().filter(of_app);
        attempts.filter_map(|one| Some(view(one, self.delivery_of(one)?))).collect()
    }

    fn delivery_of(&self, attempt: &Attempt) -> Option<&Delivery> {
        self.deliveries.get(&attempt.number)
    }

    /// `POST /app/hook/deliveries/{id}/attempts`: tries an attempt's delivery once more.
    pub(crate) fn attempt_again(
        &mut self,
        clockwork: &mut Clockwork,
        app: &str,
        id: u64,
        now: Millis,
    ) -> Result<(), GitHubError> {
        let attempt = self.attempts.iter().find(|one| one.id == id);
        let delivery = attempt.and_then(|one| self.delivery_of(one));
        let delivery = delivery.filter(|one| one.app_id == app);
        let number = delivery.ok_or_else(GitHubError::not_found)?.number;
        self.redeliver(clockwork, number, now)
    }
}

fn view(attempt: &Attempt, delivery: &Delivery) -> Value {
    let status = match attempt.code {
        Some(200..300) => "OK".to_owned(),
        Some(code) => format!("Invalid HTTP Response: {code}"),
        None => "failed to connect to host".to_owned(),
    };
    json!({
        "id": attempt.id,
        "guid": delivery.guid,
        "delivered_at": rfc3339(attempt.at),
        "redelivery": attempt.again,
        "duration": 0.1,
        "status": status,
        "status_code": attempt.code.unwrap_or(0),
        "event": delivery.event,
        "action": delivery.action,
        "throttled_at": null,
    })
}
