//! Carries out what happens in the model: webhooks, EC2 events, power.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use super::{cloud::Cloud, emulator::client, sigv4::hmac_sha256};
use crate::machine::Rack;
use muster_cloud::{Happening, Millis, github::Webhook, rfc3339, scramble};

/// Deliveries about the same job, or the same instance, keep their order; others do not wait for
/// each other.
const LANES: usize = 8;

/// GitHub waits this long for an answer to a delivery.
const WEBHOOK_PATIENCE: Duration = Duration::from_secs(10);

type Parcel = Box<dyn Future<Output = ()> + Send + Unpin>;

/// Performs happenings for ever.
pub(super) async fn run(
    cloud: Arc<Cloud>,
    rack: Arc<Rack>,
    mut happened: mpsc::UnboundedReceiver<Happening>,
) {
    let lanes: Vec<_> = (0..LANES).map(|_| lane()).collect();
    let http = client();
    while let Some(happening) = happened.recv().await {
        let (key, parcel): (u64, Parcel) = match happening {
            Happening::PowerOn { instance } => {
                rack.start(&cloud, &instance);
                continue;
            }
            Happening::PowerOff { instance } => {
                rack.kill(&instance);
                continue;
            }
            Happening::Webhook(delivery) => {
                let key = delivery.job;
                let post = post_webhook(Arc::clone(&cloud), http.clone(), delivery);
                (key, Box::new(Box::pin(post)))
            }
            Happening::StateChange { stack, instance, state, at } => {
                let wanted = stack.as_ref().is_some_and(|stack| {
                    cloud.look(|world, _| {
                        world.stacks.get(stack).is_some_and(|s| s.event_states.contains(&state))
                    })
                });
                let Some(stack) = stack.filter(|_| wanted) else { continue };
                let detail = json!({ "instance-id": instance, "state": state.name() });
                let event = ec2_event(
                    &cloud,
                    "EC2 Instance State-change Notification",
                    &instance,
                    &detail,
                    at,
                );
                let send = send_event(Arc::clone(&cloud), stack, event);
                (key_of(&instance), Box::new(Box::pin(send)))
            }
            Happening::SpotWarning { stack, instance, at } => {
                let Some(stack) = stack else { continue };
                let detail = json!({ "instance-id": instance, "instance-action": "terminate" });
                let name = "EC2 Spot Instance Interruption Warning";
                let event = ec2_event(&cloud, name, &instance, &detail, at);
                let send = send_event(Arc::clone(&cloud), stack, event);
                (key_of(&instance), Box::new(Box::pin(send)))
            }
        };
        let index = usize::try_from(scramble(key) % LANES as u64).unwrap_or(0);
        let _ = lanes[index].send(parcel);
    }
}

fn lane() -> mpsc::UnboundedSender<Parcel> {
    let (sender, mut parcels) = mpsc::unbounded_channel::<Parcel>();
    tokio::spawn(async move {
        while let Some(parcel) = parcels.recv().await {
            parcel.await;
        }
    });
    sender
}

fn key_of(instance: &str) -> u64 {
    instance.bytes().fold(0, |sum, byte| scramble(sum ^ u64::from(byte)))
}

/// EventBridge's envelope around an EC2 event.
fn ec2_event(cloud: &Cloud, name: &str, instance: &str, detail: &Value, at: Millis) -> Value {
    let digest = hex::encode(Sha256::digest(format!("{name} {detail} {at}")));
    let (account, region) = (&cloud.account, &cloud.region);
    json!({
        "version": "0",
        "id": format!(
            "{}-{}-4{}-a{}-{}",
            &digest[..8], &digest[8..12], &digest[13..16], &digest[17..20], &digest[20..32],
        ),
        "detail-type": name,
        "source": "aws.ec2",
        "account": account,
        "time": rfc3339(at),
        "region": region,
        "resources": [format!("arn:aws:ec2:{region}:{account}:instance/{instance}")],
        "detail": detail,
    })
}

async fn send_event(cloud: Arc<Cloud>, stack: String, event: Value) {
    let queue = cloud.look(|world, _| {
        let stack = world.stacks.get(&stack).filter(|stack| !stack.loses_events)?;
        stack.reap_queue_url.clone()
    });
    let (Some(queue), Some(emulator)) = (queue, &cloud.emulator) else { return };
    if let Err(error) = emulator.send_message(&queue, &event.to_string()).await {
        eprintln!("world: an EC2 event of stack {stack} was lost: {error}");
    }
}

async fn post_webhook(cloud: Arc<Cloud>, http: reqwest::Client, delivery: Webhook) {
    let hook = cloud.look(|world, _| world.github.target(&delivery));
    let answer = match hook {
        None => "no webhook URL".to_owned(),
        Some((url, secret)) => {
            let body = delivery.body.to_string();
            let signature = hex::encode(hmac_sha256(secret.as_bytes(), body.as_bytes()));
            let request = http
                .post(url)
                .timeout(WEBHOOK_PATIENCE)
                .header("content-type", "application/json")
                .header("user-agent", "GitHub-Hookshot/0000000")
                .header("x-github-event", &delivery.event)
                .header("x-github-delivery", &delivery.guid)
                .header("x-github-hook-id", "1")
                .header("x-github-hook-installation-target-type", "integration")
                .header("x-github-hook-installation-target-id", &delivery.app_id)
                .header("x-hub-signature-256", format!("sha256={signature}"))
                .body(body);
            match request.send().await {
                Ok(answer) => answer.status().as_u16().to_string(),
                Err(error) => format!("{error:?}"),
            }
        }
    };
    cloud.with(|world, now| world.delivery_answered(delivery.number, answer, now));
}
