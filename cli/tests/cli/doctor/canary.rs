//! `doctor --canary`: what is asked and told, from the launch of a machine to its end.

use muster_cli::failure::Failure;
use muster_cli::xml;
use muster_domain::time::Seconds;
use serde_json::{Value, json};

use super::network;
use crate::fake::{Fake, NOW};
use crate::orders::{refused, says, told};
use crate::recorded;

type Answer = Result<Value, Failure>;

const NAME: &str = "default-l1-0";
const LINE: [&str; 7] = ["doctor", "--canary", "--pool", "small", "--entity", "acme", "--yes"];

fn at(second: u32) -> Value {
    json!(NOW + Seconds(second))
}

/// The answers before it is followed.
fn begun() -> [Value; 2] {
    let mut ordered = recorded("canary");
    ordered["name"] = json!(NAME);
    [recorded("canary_dry_run"), ordered]
}

/// The launch is written.
fn written() -> Value {
    let mut shown = recorded("show_planned");
    let one = &mut shown["instance"];
    (one["created_at"], one["since"]) = (at(0), at(0));
    shown
}

fn with(mut shown: Value, change: impl FnOnce(&mut Value)) -> Value {
    change(&mut shown["instance"]);
    shown
}

/// EC2 has made its machine.
fn launched() -> Value {
    with(written(), |one| {
        one["state"] = json!("running");
        one["machine"] = json!("i-0c0ffee0123456789");
        one["bound_at"] = at(2);
    })
}

/// It is registered.
fn registered() -> Value {
    with(launched(), |one| {
        one["phases"] = json!({ "running": at(6), "booted": at(15), "prepared": at(34), "registered": at(36),
            "started": null });
        one["runner"]["n"] = json!(1);
        one["runner"]["id"] = json!(7);
        one["runner"]["state"] = json!("installing");
    })
}

/// Its agent runs.
fn started() -> Value {
    with(registered(), |one| {
        one["phases"]["started"] = at(38);
        one["runner"]["state"] = json!("idle");
        one["runner"]["since"] = at(38);
    })
}

fn seen(how: &str) -> Value {
    let mut shown = started();
    shown["runner_seen"] = json!(how);
    shown
}

/// Its end is ordered.
fn marked(shown: Value, reason: &str) -> Value {
    let mark = json!({ "at": at(40), "reason": { "kind": reason }, "not_busy_since": null, "gate_passed": false,
        "removing_until": null, "deregistered": true, "waiting": null, "silences": 0, "kill_told": false });
    with(shown, |one| {
        one["mark"] = mark;
        one["state"] = json!("pending_delete");
    })
}

fn deleted(shown: Value) -> Value {
    with(marked(shown, "ordered"), |one| {
        one["state"] = json!("deleted");
        one["since"] = at(41);
    })
}

fn failed(code: &str, class: &str, message: &str) -> Value {
    with(written(), |one| {
        one["state"] = json!("pending_create");
        one["refused"] = json!(class);
        one["last_error"] =
            json!({ "at": at(2), "operation": "CreateFleet", "code": code, "message": message });
    })
}

fn machine() -> Answer {
    let text = "<R><reservationSet><item><instancesSet><item><instanceId>i-0c0ffee0123456789</instanceId>
        <instanceType>m7i-flex.large</instanceType><placement><availabilityZone>us-east-1b</availabilityZone></placement>
        <subnetId>subnet-0e1f2a3b</subnetId><instanceLifecycle>spot</instanceLifecycle>
        </item></instancesSet></item></reservationSet></R>";
    Ok(xml::read(text).expect("XML"))
}

fn denied(action: &str) -> Answer {
    let (action, said) = (action.to_owned(), "no".to_owned());
    Err(Failure::Service { action, code: "UnauthorizedOperation".to_owned(), said })
}

fn expired() -> Answer {
    Err(Failure::NoCredentials { profile: None, why: Some("expired".to_owned()) })
}

fn decoded(resource: &str, keys: &[&str]) -> Answer {
    let items: Vec<Value> =
        keys.iter().map(|key| json!({ "key": key, "values": { "items": [] } })).collect();
    let said = json!({ "allowed": false, "explicitDeny": false, "context": {
        "action": "RunInstances", "resource": resource, "conditions": { "items": items } } });
    Ok(json!({ "DecodeAuthorizationMessageResult": { "DecodedMessage": said.to_string() } }))
}

fn console(text: &str) -> Answer {
    let output = text.to_owned();
    Ok(json!({ "instanceId": "i-0c0ffee0123456789", "output": output }))
}

fn stack(public_ip: &str) -> Answer {
    let parameter =
        |(key, value): (&str, &str)| json!({ "ParameterKey": key, "ParameterValue": value });
    let parameters = [
        ("VpcId", "vpc-1"),
        ("Subnets", "subnet-0a1b2c3d,subnet-0e1f2a3b"),
        ("PublicIp", public_ip),
    ];
    let stack = json!({ "StackStatus": "CREATE_COMPLETE", "Outputs": [],
        "Parameters": parameters.map(parameter) });
    Ok(json!({ "DescribeStacksResult": { "Stacks": [stack] } }))
}

fn run(answers: Vec<Value>, services: Vec<Answer>) -> Fake {
    let answers = begun().into_iter().chain(answers).collect();
    Fake { answers, services: services.into(), patience: 400, ..Fake::default() }
}

fn well() -> Vec<Value> {
    let rest = [launched(), registered(), started(), seen("offline"), seen("online")];
    let end = [recorded("delete"), marked(seen("online"), "ordered"), deleted(started())];
    std::iter::once(written()).chain(rest).chain(end).collect()
}

#[test]
fn a_machine_is_followed_from_its_launch_to_its_end() {
    let json = [&LINE[..], &["--json"]].concat();
    told(
        "run_canary",
        [
            (run(well(), vec![machine()]), LINE.to_vec()),
            (
                Fake { width: None, ..run(well(), vec![denied("ec2:DescribeInstances")]) },
                LINE.to_vec(),
            ),
            (run(well(), vec![machine()]), json),
        ],
    );
}

#[test]
fn nothing_is_started_without_a_yes_and_nothing_where_the_stack_says_no() {
    let full = "no machine is launched now: pool small is at its maximum (20 of 20)";
    let homeless = "pool small registers each runner where its job comes from; name an \"entity\" for this one: an organization, or owner/repo";
    told(
        "run_canary_refused",
        [
            (says([recorded("canary_dry_run")], &["n"]), LINE[..6].to_vec()),
            (Fake::of([recorded("canary_dry_run")]), LINE[..6].to_vec()),
            (Fake::of([refused("not_launched", full)]), LINE.to_vec()),
            (Fake::of([refused("not_launched", homeless)]), vec!["doctor", "--canary", "--yes"]),
            (
                Fake::of([refused("not_launched", "name a \"pool\": small, own")]),
                vec!["doctor", "--canary", "--yes"],
            ),
            (
                Fake::of([refused(
                    "bad_request",
                    "unknown variant `canary`, expected one of `list`, `show`",
                )]),
                vec!["doctor", "--canary", "--yes"],
            ),
        ],
    );
}

#[test]
fn what_ec2_refuses_is_decoded() {
    let code = "aB3-_".repeat(20);
    let message = format!(
        "You are not authorized to perform this operation. Encoded authorization failure message: {code}"
    );
    let may_not = || failed("UnauthorizedOperation", "authorization", &message);
    let of = |shown: Value, services| run(vec![written(), shown], services);
    let all = |kind: &str| format!("arn:aws:ec2:us-east-1:111122223333:{kind}/*");
    let line = || LINE.to_vec();
    told(
        "run_canary_refused_by_ec2",
        [
            (
                of(may_not(), vec![decoded(&all("instance"), &["ec2:InstanceType", "ec2:Region"])]),
                line(),
            ),
            (of(may_not(), vec![decoded(&all("network-interface"), &["ec2:Vpc"])]), line()),
            (of(may_not(), vec![decoded(&all("instance"), &["ec2:LaunchTemplate"])]), line()),
            (of(may_not(), vec![denied("sts:DecodeAuthorizationMessage")]), line()),
            // The credentials expire before the evidence is complete: its end is ordered nevertheless.
            (run(vec![written(), may_not(), recorded("delete")], vec![expired()]), line()),
            (
                of(
                    failed(
                        "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
                        "capacity",
                        "The provided credentials do not have permission to create the service-linked role for EC2 Spot Instances.",
                    ),
                    vec![],
                ),
                line(),
            ),
        ],
    );
}

#[test]
fn a_machine_that_never_calls_is_looked_at() {
    let printed =
        "Ym9vdDogY3VybDogKDI4KSBDb25uZWN0aW9uIHRpbWVkIG91dAptdXN0ZXI6IGJvb3RpbmcgZmFpbGVkCg==";
    // Eight minutes of looks.
    let silent = || {
        let looks = std::iter::once(written()).chain((0..241).map(|_| launched()));
        let end = [recorded("delete"), deleted(launched())];
        looks.chain(end).collect::<Vec<_>>()
    };
    let services = |printed: &str, public_ip: &str| {
        let network = std::iter::once(stack(public_ip)).chain(network::answers().map(Ok));
        [machine(), console(printed)].into_iter().chain(network).collect()
    };
    let blind =
        vec![machine(), denied("ec2:GetConsoleOutput"), denied("cloudformation:DescribeStacks")];
    let short = |fake: Fake| {
        let text = fake.run(&LINE);
        // The looks are all the same.
        let mut lines: Vec<&str> = Vec::new();
        for line in text.lines() {
            let is_look = line.starts_with("… ") || line.contains(r#""action":"show""#);
            if !is_look || !lines.contains(&line) {
                lines.push(line);
            }
        }
        lines.join("\n")
    };
    let all = [services(printed, "no"), services("", "subnet"), blind]
        .map(|services| short(run(silent(), services)));
    crate::compare("run_canary_mute.txt", &(all.join("\n\n") + "\n"));
}

#[test]
fn a_job_may_take_it_and_it_may_be_lost() {
    let taken = || {
        with(started(), |one| {
            one["runner"]["state"] = json!("active");
            one["runner"]["started"] = json!({ "at": at(39), "repository": "acme/web", "run": 3,
                "name": "test", "completed_at": null });
        })
    };
    let reclaimed = marked(registered(), "spot_notice");
    let gone = || [recorded("delete"), deleted(registered())];
    let mut stopped = run(vec![written(), launched(), recorded("delete")], vec![machine()]);
    stopped.patience = 2;
    told(
        "run_canary_otherwise",
        [
            (run(vec![written(), launched(), taken()], vec![machine()]), LINE.to_vec()),
            // GitHub gave it a job while its end was being ordered.
            (
                run(
                    vec![written(), launched(), started(), seen("online"), recorded("error_busy")],
                    vec![machine()],
                ),
                LINE.to_vec(),
            ),
            (
                run(
                    [written(), launched(), reclaimed].into_iter().chain(gone()).collect(),
                    vec![machine()],
                ),
                LINE.to_vec(),
            ),
            (stopped, LINE.to_vec()),
        ],
    );
}
