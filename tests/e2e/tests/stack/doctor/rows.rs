//! The table: what is wrong, and which check says what of it.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::faults::Fault;

/// A row.
pub(super) struct Row {
    /// What is wrong, for the report.
    pub(super) what: &'static str,
    /// How that is made.
    pub(super) fault: Fault,
    /// The key of its finding.
    pub(super) check: &'static str,
    /// How it ends.
    pub(super) level: &'static str,
    /// A part of its sentence. `STACK` is the stack's name.
    pub(super) words: &'static str,
}

const fn error(what: &'static str, fault: Fault, check: &'static str, words: &'static str) -> Row {
    Row { what, fault, check, level: "error", words }
}

const fn warn(what: &'static str, fault: Fault, check: &'static str, words: &'static str) -> Row {
    Row { what, fault, check, level: "warning", words }
}

/// Another key than the stack's.
const OTHER_KEY: &str = include_str!("../../../../cloud/src/github/keys/1.public");

fn by_nat(network: &mut Value, state: &str) {
    network["route_tables"][0]["routes"][1]["target"] = json!("nat-1");
    network["nat_gateways"] = json!([{ "id": "nat-1", "vpc": "vpc-00000001",
        "subnet": "subnet-00000001", "state": state, "failure": "no address was free" }]);
}

fn acl(network: &mut Value, egress: bool) {
    network["acls"][0]["entries"] = json!([{ "number": 100, "egress": egress, "allow": true,
        "protocol": "-1", "cidr": "0.0.0.0/0" }]);
}

fn hour_ago() -> Value {
    let ago = SystemTime::now() - Duration::from_secs(3600);
    let since = ago.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    json!(u64::try_from(since.as_millis()).unwrap_or_default())
}

pub(super) const ROWS: &[Row] = &[
    // The App.
    error(
        "the key was never put in",
        Fault::Secret(|_| json!({ "placeholder": true }).to_string()),
        "app-key",
        "The App's key was never stored in secret STACK/app-key",
    ),
    error(
        "a bare key",
        Fault::Secret(|kept| kept["private_key"].as_str().unwrap_or_default().to_owned()),
        "app-key-form",
        "contains only a private key",
    ),
    error(
        "the key of another App",
        Fault::Account(|account| {
            let key = format!("-----BEGIN PUBLIC KEY-----\n{OTHER_KEY}-----END PUBLIC KEY-----\n");
            account["app_public_key"] = json!(key);
        }),
        "app-key-owner",
        "is not one of App",
    ),
    error(
        "an App that GitHub does not know",
        Fault::Secret(|kept| {
            let mut kept = kept.clone();
            kept["app_id"] = json!("999999");
            kept.to_string()
        }),
        "app-exists",
        "GitHub knows no App 999999",
    ),
    error(
        "no event",
        Fault::App(|app| app["settings"]["events"] = json!(["push"])),
        "app-event",
        "The App is not subscribed to the event \"Workflow job\"",
    ),
    error(
        "no permission",
        Fault::App(|app| app["settings"]["permissions"] = json!({ "metadata": "read" })),
        "app-permissions",
        "The App lacks the repository permission \"Actions\"",
    ),
    error(
        "not installed anywhere",
        Fault::Account(|account| account["app_id"] = json!("1")),
        "app-installed",
        "The App is not installed anywhere",
    ),
    error(
        "a pool of somebody else",
        Fault::Pool("    entity: elsewhere\n"),
        "app-installed-for-pool",
        "registers at elsewhere, where the App is not installed",
    ),
    error(
        "app-suspended",
        Fault::Account(|account| account["suspended_at"] = hour_ago()),
        "app-suspended",
        "suspended the App at",
    ),
    error(
        "a new permission that waits for its yes",
        Fault::Account(|account| account["accepted"] = json!({ "actions": "read" })),
        "app-accepted",
        "has not accepted the App's new permission",
    ),
    error(
        "no webhook",
        Fault::App(|app| app["hook"]["url"] = Value::Null),
        "app-hook",
        "The App has no webhook",
    ),
    error(
        "the webhook of another stack",
        Fault::App(|app| app["hook"]["url"] = json!("https://old.example/webhook")),
        "app-hook-address",
        "GitHub sends events to https://old.example/webhook, not to this stack",
    ),
    error(
        "events as a form",
        Fault::App(|app| app["hook"]["content_type"] = json!("form")),
        "app-hook-content",
        "GitHub sends events as \"form\"",
    ),
    error(
        "any certificate",
        Fault::App(|app| app["hook"]["insecure_ssl"] = json!("1")),
        "app-hook-tls",
        "does not verify the TLS certificate",
    ),
    error(
        "a webhook that is not active",
        Fault::Account(|account| account["installed_at"] = hour_ago()),
        "app-hook-active",
        "GitHub has sent no event, though the App was installed at",
    ),
    error(
        "a group without public repositories",
        Fault::Pool("    public_repositories: true\n"),
        "app-group-public",
        "refuses public repositories, and pool default serves them",
    ),
    error(
        "a group of some workflows",
        Fault::Pool("    entity: OWNER\n    runner_group: 7\n    public_repositories: true\n"),
        "app-group-workflows",
        "accepts only selected workflows",
    ),
    // The network.
    error(
        "a subnet is gone",
        Fault::Network(|network| {
            network["subnets"].as_array_mut().map(|all| all.remove(0));
        }),
        "network-subnets",
        "There is no subnet subnet-00000001",
    ),
    error(
        "a subnet of another VPC",
        Fault::Network(|network| network["subnets"][0]["vpc"] = json!("vpc-2")),
        "network-subnets",
        "subnet-00000001 is in vpc-2, and the stack is in vpc-00000001.",
    ),
    warn(
        "a subnet is nearly full",
        Fault::Network(|network| network["subnets"][0]["free_addresses"] = json!(6)),
        "network-subnets",
        "subnet-00000001 (us-east-1a) has 6 free addresses",
    ),
    error(
        "no default route",
        Fault::Network(|network| {
            network["route_tables"][0]["routes"].as_array_mut().map(|all| all.remove(1));
        }),
        "network-way-out",
        "subnet-00000001 has no route out (rtb-00000001)",
    ),
    error(
        "a route to what is gone",
        Fault::Network(|network| {
            network["route_tables"][0]["routes"][1]["state"] = json!("blackhole");
        }),
        "network-way-out",
        "leads to igw-00000001, which no longer exists",
    ),
    error(
        "an internet gateway, and no public address",
        Fault::Network(|network| network["subnets"][0]["gives_public_ip"] = json!(false)),
        "network-way-out",
        "subnet-00000001 has an internet gateway and assigns no public address",
    ),
    error(
        "a NAT gateway that failed",
        Fault::Network(|network| by_nat(network, "failed")),
        "network-way-out",
        "routes through nat-1, which is in state failed (no address was free)",
    ),
    warn(
        "a NAT gateway that is being made",
        Fault::Network(|network| by_nat(network, "pending")),
        "network-way-out",
        "routes through nat-1, which is in state pending",
    ),
    error(
        "an ACL that lets nothing out",
        Fault::Network(|network| acl(network, false)),
        "network-acl",
        "refuses TCP port 443 out",
    ),
    error(
        "an ACL that lets no answer in",
        Fault::Network(|network| acl(network, true)),
        "network-acl",
        "refuses the answers, TCP ports 32768-60999 in",
    ),
    error(
        "an endpoint in place of the runner API",
        Fault::Network(|network| {
            network["endpoints"] = json!([{ "id": "vpce-1", "vpc": "vpc-00000001",
                "service": "com.amazonaws.us-east-1.execute-api", "private_dns": true }]);
        }),
        "network-endpoint",
        "has an execute-api endpoint with private DNS (vpce-1)",
    ),
    error(
        "names that nobody resolves",
        Fault::Network(|network| network["vpcs"][0]["dns_support"] = json!(false)),
        "network-dns",
        "DNS support of vpc-00000001 is off",
    ),
    error(
        "a security group is gone",
        Fault::Network(|network| network["security_groups"] = json!([])),
        "network-security-groups",
        "There is no security group sg-00000001",
    ),
    error(
        "a security group of another VPC",
        Fault::Network(|network| network["security_groups"][0]["vpc"] = json!("vpc-2")),
        "network-security-groups",
        "sg-00000001 is in vpc-2, and the stack is in vpc-00000001",
    ),
    error(
        "a security group that lets nothing out",
        Fault::Network(|network| network["security_groups"][0]["out"] = json!([])),
        "network-security-groups",
        "sg-00000001 allows no outbound traffic on TCP port 443",
    ),
    // The machines.
    error(
        "types that no zone offers",
        Fault::Network(|network| {
            network["not_offered"] = json!([
                ["m7i.large", "us-east-1a"],
                ["m7i.large", "us-east-1b"],
                ["m7a.large", "us-east-1a"],
                ["m7a.large", "us-east-1b"]
            ]);
        }),
        "machines-types",
        "No type of pool default is offered in the zones of its subnets (us-east-1a, us-east-1b).",
    ),
    warn(
        "types that a zone lacks",
        Fault::Network(|network| {
            network["not_offered"] =
                json!([["m7i.large", "us-east-1b"], ["m7a.large", "us-east-1b"]]);
        }),
        "machines-types",
        "No type of pool default is offered in us-east-1b",
    ),
    error(
        "an image that is not ready",
        Fault::Image(|image| image["state"] = json!("failed")),
        "machines-image",
        "the image of pool default, is in state failed",
    ),
    error(
        "an image for other processors",
        Fault::Image(|image| image["architecture"] = json!("arm64")),
        "machines-image",
        "is arm64, and m7i.large is x64",
    ),
    error(
        "an image that is not there",
        Fault::Pool("    image: { id: ami-0123456789abcdef0 }\n"),
        "machines-image",
        "ami-0123456789abcdef0, the image of pool default, does not exist",
    ),
    error(
        "a parameter that is not there",
        Fault::Pool("    image: { ssm: /STACK/images/none }\n"),
        "machines-image",
        "There is no parameter /STACK/images/none",
    ),
    warn(
        "another root device",
        Fault::Image(|image| image["root_device"] = json!("/dev/xvda")),
        "machines-disk",
        "boots from /dev/xvda, and the disk of the stack's launch template is on /dev/sda1",
    ),
    // The stack.
    error("no tick", Fault::Rule, "stack-rules", "is disabled: the reaper does not sweep"),
    warn("a dead letter", Fault::DeadLetter, "stack-queues", "1 message failed too often"),
    // The jobs.
    warn("launches are off", Fault::Switch, "launches-paused", "Launches were paused by mira"),
    warn("a label with a typo", Fault::Typo, "unserved", "No pool serves 1 job"),
    // The last, since it leaves deliveries.
    error(
        "another secret at GitHub",
        Fault::Signature,
        "app-deliveries",
        "were answered 401, the newest among them: the webhook's secret at GitHub differs",
    ),
];
