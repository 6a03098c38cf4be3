//! The webhook's handler alone, without runtime, TLS and queue: how many signed deliveries one
//! processor takes.

use std::cell::Cell;
use std::time::Instant;

use anyhow::ensure;
use muster_aws::secrets::SecretError;
use muster_aws::signature;
use muster_control::ports::{Queue, QueueError};
use muster_domain::ids::AppName;
use muster_domain::job::Actors;
use muster_domain::message::{JobsMessage, ReapMessage, WakePool};
use muster_domain::time::{Seconds, Time};
use muster_webhook::{GatewayEvent, Signatures, Webhook};

use crate::function::{WEBHOOK_SECRET, delivery};
use crate::report::{Report, Unit};

const DELIVERIES: u32 = 20_000;

struct Secret;

impl Signatures for Secret {
    async fn is_signed(
        &self,
        _app: AppName,
        body: &[u8],
        header: Option<&str>,
        _now: Time,
    ) -> Result<bool, SecretError> {
        Ok(signature::is_valid(&[WEBHOOK_SECRET], header, body))
    }
}

#[derive(Default)]
struct Counted(Cell<usize>);

impl Queue for Counted {
    async fn send_jobs(&self, messages: &[JobsMessage]) -> Result<(), QueueError> {
        let bytes: usize = messages
            .iter()
            .map(|message| muster_domain::message::to_ascii_json(message).len())
            .sum();
        self.0.set(self.0.get() + bytes);
        Ok(())
    }

    async fn send_wakes(&self, _wakes: &[WakePool], _delay: Seconds) -> Result<(), QueueError> {
        Ok(())
    }

    async fn send_reap(&self, _messages: &[ReapMessage]) -> Result<(), QueueError> {
        Ok(())
    }

    async fn hide(&self, _receipt: &str, _wait: Seconds) -> Result<(), QueueError> {
        Ok(())
    }

    async fn hide_job(&self, _receipt: &str, _wait: Seconds) -> Result<(), QueueError> {
        Ok(())
    }

    async fn hide_wake(&self, _receipt: &str, _wait: Seconds) -> Result<(), QueueError> {
        Ok(())
    }
}

/// Reads the gateway's event, checks, decides and writes the message, over and over.
pub(crate) fn measure(report: &mut Report) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let webhook = Webhook { signatures: Secret, queue: Counted::default(), actors: Actors::No };
    let text = delivery();
    let begun = Instant::now();
    for number in 0..DELIVERIES {
        let event: GatewayEvent = serde_json::from_slice(&text)?;
        let now = Time::from_millis(i64::from(number));
        let answer = runtime.block_on(webhook.handle(&event, now));
        ensure!(answer.status == 202, "{}", answer.reason);
    }
    let rate = f64::from(DELIVERIES) / begun.elapsed().as_secs_f64();
    report.add_at_least("webhook", "handler alone", rate, Unit::PerSecond, 3000.0);
    Ok(())
}
