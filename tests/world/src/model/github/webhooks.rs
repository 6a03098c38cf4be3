//! Webhook deliveries: what is sent, and what happens to it on the way.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{GitHub, GitHubError};
use crate::model::{
    Happening, Millis,
    agenda::{Clockwork, Due},
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

/// What a rule does to a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookEffect {
    /// It is never sent.
    Suppress,
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
            Some(HookEffect::Suppress) => {}
            Some(HookEffect::Duplicate(more)) => (0..=more).for_each(|_| send(clockwork, now)),
            Some(HookEffect::DelayMs(delay)) => send(clockwork, now + delay),
            Some(HookEffect::AfterNext) => self.held.push(delivery.number),
        }
        self.deliveries.insert(delivery.number, delivery);
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
    pub(crate) fn delivery_answered(&mut self, number: u64, answer: String) {
        if let Some(delivery) = self.deliveries.get_mut(&number) {
            delivery.answer = Some(answer);
        }
    }
}
