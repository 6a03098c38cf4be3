//! Each machine's instance metadata service (version 2 only), below a path of its own.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::{ConnectInfo, Path, State},
    http::{HeaderMap, Method, Response},
    routing::any,
};
use serde_json::json;

use super::{
    cloud::{Cloud, lock, now},
    emulator::RoleCredentials,
    gate::{self, Reply},
    listener::Cut,
    sigv4::hmac_sha256,
};
use muster_cloud::{
    Millis,
    calls::CallInfo,
    ec2::{Instance, Market},
    rfc3339,
};

pub(super) fn router() -> Router<Arc<Cloud>> {
    Router::new().route("/imds/{instance}/{*path}", any(handle))
}

struct Request {
    instance: String,
    path: String,
    put: bool,
    token: Option<String>,
    ttl: Option<String>,
}

async fn handle(
    State(cloud): State<Arc<Cloud>>,
    ConnectInfo(cut): ConnectInfo<Cut>,
    Path((instance, path)): Path<(String, String)>,
    method: Method,
    headers: HeaderMap,
) -> Response<Body> {
    let text =
        |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let stack = cloud.look(|world, _| {
        world.ec2.instance(&instance).and_then(Instance::stack).map(str::to_owned)
    });
    let info = CallInfo {
        door: "imds",
        operation: path.clone(),
        stack,
        owner: None,
        targets: vec![instance.clone()],
    };
    let request = Request {
        instance,
        path,
        put: method == Method::PUT,
        token: text("x-aws-ec2-metadata-token"),
        ttl: text("x-aws-ec2-metadata-token-ttl-seconds"),
    };
    gate::pass(
        &cloud,
        &cut,
        info,
        write_error,
        |cloud| async move { answer(&cloud, &request).await },
    )
    .await
}

fn write_error(status: u16, _code: &str, message: &str) -> Reply {
    Reply::text(status, message)
}

async fn answer(cloud: &Cloud, request: &Request) -> Reply {
    let instance = cloud.look(|world, _| world.ec2.instance(&request.instance).cloned());
    let Some(instance) = instance else { return Reply::text(404, "no such machine") };
    if request.path == "latest/api/token" {
        return issue(request);
    }
    let valid = request.token.as_ref().is_some_and(|token| is_valid(token, &request.instance));
    if !valid {
        return Reply::text(401, "Unauthorized");
    }
    let credentials = "latest/meta-data/iam/security-credentials/";
    if let Some(role) = request.path.strip_prefix(credentials).filter(|role| !role.is_empty()) {
        return role_credentials(cloud, &instance, role).await;
    }
    let found = match request.path.as_str() {
        "latest/meta-data/instance-id" => Some(instance.id),
        "latest/meta-data/ami-id" => Some(instance.image_id),
        "latest/meta-data/instance-type" => Some(instance.instance_type),
        "latest/meta-data/placement/region" => Some(cloud.region.clone()),
        "latest/meta-data/placement/availability-zone" => Some(instance.zone),
        "latest/meta-data/iam/security-credentials"
        | "latest/meta-data/iam/security-credentials/" => {
            role_of(cloud, &instance).map(|arn| role_name(&arn).to_owned())
        }
        "latest/meta-data/instance-life-cycle" => {
            let is_spot = instance.market == Market::Spot;
            Some(if is_spot { "spot" } else { "on-demand" }.to_owned())
        }
        "latest/meta-data/spot/instance-action" => instance
            .reclaim_at
            .map(|at| json!({ "action": "terminate", "time": rfc3339(at) }).to_string()),
        "latest/dynamic/instance-identity/document" => Some(
            json!({
                "accountId": cloud.account,
                "availabilityZone": instance.zone,
                "imageId": instance.image_id,
                "instanceId": instance.id,
                "instanceType": instance.instance_type,
                "pendingTime": rfc3339(instance.launched_at),
                "region": cloud.region,
                "version": "2017-09-30",
            })
            .to_string(),
        ),
        _ => None,
    };
    found.map_or_else(|| Reply::text(404, "Not Found"), |text| Reply::text(200, text))
}

const MAX_TTL_SECONDS: Millis = 21_600;

fn issue(request: &Request) -> Reply {
    let ttl: Option<Millis> = request.ttl.as_ref().and_then(|ttl| ttl.parse().ok());
    match ttl {
        _ if !request.put => Reply::text(405, "Not Allowed"),
        Some(ttl @ 1..=MAX_TTL_SECONDS) => {
            let ends = now() + ttl * 1000;
            let mut reply = Reply::text(200, token(&request.instance, ends));
            let header = "x-aws-ec2-metadata-token-ttl-seconds".to_owned();
            reply.headers.push((header, ttl.to_string()));
            reply
        }
        _ => Reply::text(400, "Bad Request"),
    }
}

/// The token says itself for which machine and how long it is good.
fn token(instance: &str, ends: Millis) -> String {
    let mac = hmac_sha256(b"imds", format!("{instance} {ends}").as_bytes());
    format!("{ends}-{}", hex::encode(&mac[..16]))
}

fn is_valid(presented: &str, instance: &str) -> bool {
    let ends = presented.split('-').next().and_then(|ends| ends.parse::<Millis>().ok());
    ends.is_some_and(|ends| now() < ends && presented == token(instance, ends))
}

fn role_of(cloud: &Cloud, instance: &Instance) -> Option<String> {
    cloud.look(|world, _| world.stacks.get(instance.stack()?)?.role_arn.clone())
}

fn role_name(arn: &str) -> &str {
    arn.rsplit('/').next().unwrap_or(arn)
}

async fn role_credentials(cloud: &Cloud, instance: &Instance, role: &str) -> Reply {
    let Some(arn) = role_of(cloud, instance).filter(|arn| role_name(arn) == role) else {
        return Reply::text(404, "Not Found");
    };
    match fresh_credentials(cloud, &instance.id, &arn).await {
        Ok(role) => {
            let document = json!({
                "Code": "Success",
                "LastUpdated": rfc3339(now()),
                "Type": "AWS-HMAC",
                "AccessKeyId": role.credentials.access_key_id,
                "SecretAccessKey": role.credentials.secret_access_key,
                "Token": role.credentials.session_token,
                "Expiration": role.expiration,
            });
            // Printed over several lines, as the real service does: scripts get to meet that.
            let text = serde_json::to_string_pretty(&document).unwrap_or_default();
            Reply { content_type: "text/plain", ..Reply::text(200, text) }
        }
        Err(error) => Reply::text(500, format!("world: {error}")),
    }
}

/// Credentials are good for an hour; the real service renews them long before.
const RENEW_AFTER_MS: Millis = 45 * 60 * 1000;

async fn fresh_credentials(
    cloud: &Cloud,
    instance: &str,
    arn: &str,
) -> Result<RoleCredentials, String> {
    let known = lock(&cloud.credentials).get(instance).cloned();
    if let Some((at, credentials)) = known
        && now() < at + RENEW_AFTER_MS
    {
        return Ok(credentials);
    }
    let emulator = cloud.emulator.as_ref().ok_or("the world was started without an emulator")?;
    let fresh = emulator.assume_role(arn, instance).await?;
    lock(&cloud.credentials).insert(instance.to_owned(), (now(), fresh.clone()));
    Ok(fresh)
}
