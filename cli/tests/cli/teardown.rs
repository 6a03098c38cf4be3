//! The end of a stack, and its change: in which order, what is waited for, and what is shown
//! before.

use serde_json::{Value, json};

use crate::fake::Fake;
use crate::github::{installed, none};
use crate::image::{self, changed};
use crate::orders::{refused, told};
use crate::recorded;
use crate::setup::{Answer, BUILT, TEMPLATE, ended, event, no_stack, resources, service, stack};

fn list(names: &[&str]) -> Value {
    let mut answer = recorded("list");
    let all = answer["instances"].as_array().expect("instances").clone();
    let named = names.iter().map(|name| {
        let mut one = all[0].clone();
        one["name"] = json!(name);
        one
    });
    answer["instances"] = named.collect();
    answer["unreadable"] = json!([]);
    answer
}

fn status(launches_off: bool) -> Value {
    let mut answer = recorded("status");
    answer["orphans"] = json!([]);
    let off = json!({ "since": "2026-11-20T23:00:00Z", "by": "mira", "reason": "moving" });
    answer["switches"] =
        json!({ "launches": launches_off.then_some(off), "deletes": null, "pools": {} });
    answer
}

/// Launches are off until noon.
fn paused() -> Value {
    let mut answer = status(true);
    answer["switches"]["launches"]["until"] = json!("2026-11-21T12:00:00Z");
    answer
}

fn orphaned() -> Value {
    let mut answer = status(true);
    answer["orphans"] = recorded("status")["orphans"].clone();
    assert!(answer["orphans"].as_array().is_some_and(|all| !all.is_empty()));
    answer
}

fn machines(ids: &[&str]) -> Answer {
    let all: Vec<Value> =
        ids.iter().map(|id| json!({ "instancesSet": [{ "instanceId": id }] })).collect();
    Ok(json!({ "reservationSet": all }))
}

/// The images while a stack is taken down.
fn images(unused: usize, builds: bool) -> Value {
    let build = builds.then(|| image::build(image::INSTALLS));
    image::status(false, &[image::family(&json!({ "build": build }))], unused)
}

fn at_ec2(ids: &[&str]) -> Answer {
    let all: Vec<Value> = ids.iter().map(|id| json!({ "imageId": id })).collect();
    Ok(json!({ "imagesSet": all }))
}

fn fake(answers: Vec<Value>, services: Vec<Answer>, says: &[&'static str]) -> Fake {
    let says = says.iter().copied().collect();
    Fake { services: services.into(), says, patience: 19, ..Fake::of(answers) }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn what_knows_about_the_machines_goes_last() {
    let line = || vec!["teardown", "--by", "mira"];
    let yes = || vec!["teardown", "--by", "mira", "--yes"];
    let empty = || [images(0, false), list(&[]), status(true)];
    let gone = || {
        service(
            "cloudformation:DescribeStacks",
            "ValidationError",
            "Stack with id x does not exist",
        )
    };
    let no_notices = |code| service("secretsmanager:DeleteSecret", code, "no");
    let failed = json!({ "DescribeStackEventsResult": { "StackEvents": [
        event("SecurityGroup", "DELETE_FAILED", "resource sg-1 has a dependent object") ] } });
    told(
        "run_teardown",
        [
            (
                fake(
                    vec![
                        status(false),
                        recorded("switch"),
                        changed(
                            images(2, true),
                            &["images are off", "image ami-0a of x64 is deleted"],
                        ),
                        list(&["default-l0-0", "default-l0-1"]),
                        status(true),
                        list(&["default-l0-0", "default-l0-1"]),
                        status(true),
                        list(&["default-l0-1"]),
                        status(true),
                        list(&[]),
                        orphaned(),
                        list(&[]),
                        status(true),
                        images(2, true),
                        images(1, false),
                        images(1, false),
                        images(0, false),
                        installed(),
                    ],
                    vec![
                        stack("CREATE_COMPLETE"),
                        machines(&["i-0a"]),
                        machines(&[]),
                        Ok(json!({})),
                        stack("DELETE_IN_PROGRESS"),
                        stack("DELETE_COMPLETE"),
                        at_ec2(&[]),
                        Ok(json!({})),
                    ],
                    &["muster", "y"],
                ),
                line(),
            ),
            // Launches are off; GitHub and the App are past asking.
            (
                fake(
                    [vec![status(true)], empty().to_vec(), vec![refused("unavailable", "no")]]
                        .concat(),
                    vec![
                        stack("UPDATE_IN_PROGRESS"),
                        stack("UPDATE_ROLLBACK_FAILED"),
                        machines(&[]),
                        Ok(json!({})),
                        stack("UPDATE_ROLLBACK_FAILED"),
                        gone(),
                        at_ec2(&[]),
                        no_notices("ResourceNotFoundException"),
                    ],
                    &[],
                ),
                yes(),
            ),
            // Launches are paused for a while, which must not end now.
            (
                fake(
                    [
                        vec![paused(), recorded("switch")],
                        vec![refused("bad_request", "unknown variant `images`")],
                        empty()[1..].to_vec(),
                        vec![refused("unavailable", "no")],
                    ]
                    .concat(),
                    vec![
                        stack("CREATE_COMPLETE"),
                        machines(&[]),
                        Ok(json!({})),
                        gone(),
                        at_ec2(&[]),
                        no_notices("ResourceNotFoundException"),
                    ],
                    &[],
                ),
                yes(),
            ),
            // Stopped while it was being deleted, and again.
            (
                fake(
                    vec![],
                    vec![
                        stack("DELETE_IN_PROGRESS"),
                        machines(&[]),
                        gone(),
                        at_ec2(&[]),
                        no_notices("ResourceNotFoundException"),
                    ],
                    &[],
                ),
                yes(),
            ),
            // It was never there as a whole.
            (
                fake(
                    vec![],
                    vec![
                        stack("ROLLBACK_COMPLETE"),
                        machines(&[]),
                        Ok(json!({})),
                        gone(),
                        service(
                            "ec2:DescribeImages",
                            "UnauthorizedOperation",
                            "You are not authorized",
                        ),
                        no_notices("AccessDeniedException"),
                    ],
                    &[],
                ),
                yes(),
            ),
            // Enough before the last machine is gone.
            (
                Fake {
                    patience: 1,
                    ..fake(
                        vec![status(true), images(0, false), list(&["default-l0-0"]), status(true)],
                        vec![stack("CREATE_COMPLETE")],
                        &[],
                    )
                },
                yes(),
            ),
            (
                fake(
                    [vec![status(true)], empty().to_vec(), vec![none()]].concat(),
                    vec![
                        stack("CREATE_COMPLETE"),
                        machines(&[]),
                        Ok(json!({})),
                        stack("DELETE_FAILED"),
                        Ok(failed),
                    ],
                    &[],
                ),
                yes(),
            ),
            // Whoever may not look does not delete.
            (
                fake(
                    [vec![status(true)], empty().to_vec()].concat(),
                    vec![
                        stack("CREATE_COMPLETE"),
                        service(
                            "ec2:DescribeInstances",
                            "UnauthorizedOperation",
                            "You are not authorized",
                        ),
                    ],
                    &[],
                ),
                yes(),
            ),
            (fake(vec![], vec![stack("CREATE_COMPLETE")], &["mustre"]), line()),
            (fake(vec![], vec![stack("CREATE_COMPLETE")], &["must"]), line()),
            (fake(vec![], vec![stack("CREATE_COMPLETE")], &[]), line()),
            (fake(vec![], vec![no_stack()], &[]), yes()),
        ],
    );
}

/// The end lists them with the command that deletes them.
#[test]
fn images_that_ec2_keeps_do_not_keep_the_stack() {
    let before = vec![status(true), images(2, false), list(&[]), status(true)];
    let waits = std::iter::repeat_n(images(2, false), 201);
    let answers = before.into_iter().chain(waits).chain([none()]).collect();
    let gone =
        service("cloudformation:DescribeStacks", "ValidationError", "Stack x does not exist");
    let no_notices = service("secretsmanager:DeleteSecret", "ResourceNotFoundException", "no");
    let services = vec![
        stack("CREATE_COMPLETE"),
        machines(&[]),
        Ok(json!({})),
        gone,
        at_ec2(&["ami-0a", "ami-0b"]),
        no_notices,
    ];
    let world = Fake { patience: 999, ..fake(answers, services, &[]) };
    let told = world.run(&["teardown", "--by", "mira", "--yes"]);
    for said in [
        "2 machine images left; this takes a few minutes",
        "! 2 machine images left after 10 min; for the reason: muster logs reaper",
        "stack muster is deleted",
        "- the machine images ami-0a, ami-0b with their snapshots; for each of them: aws ec2",
        "exit 0",
    ] {
        assert!(told.contains(said), "{said}: {told}");
    }
}

fn changes() -> Answer {
    let change = |action: &str, id: &str, kind: &str, replacement: &str| {
        json!({ "Type": "Resource", "ResourceChange": {
            "Action": action, "LogicalResourceId": id, "ResourceType": kind, "Replacement": replacement } })
    };
    Ok(json!({ "DescribeChangeSetResult": { "Changes": [
        change("Modify", "ReaperFunction", "AWS::Lambda::Function", "False"),
        change("Modify", "InstanceRole", "AWS::IAM::Role", "True"),
        change("Add", "NewAlarm", "AWS::CloudWatch::Alarm", ""),
        change("Remove", "OldTable", "AWS::DynamoDB::Table", ""),
    ] } }))
}

#[test]
fn what_changes_is_shown_before_it_is_done() {
    const SET: &str = "Changeset created successfully. arn:aws:cloudformation:us-east-1:1:changeSet/samcli-deploy1/9\n";
    let line = || vec!["upgrade", "--mail", "ops@acme.io"];
    let upgrade = |services: Vec<Answer>, said: &str, is_good, says: &[&'static str]| Fake {
        files: BUILT,
        file: TEMPLATE,
        child: [None, ended(is_good, said)].into(),
        ..fake(vec![status(false)], [vec![stack("CREATE_COMPLETE")], services].concat(), says)
    };
    let done = || Ok(json!({}));
    let runs = || {
        vec![stack("UPDATE_IN_PROGRESS"), resources(&[("ReaperFunction", "UPDATE_IN_PROGRESS")])]
    };
    // Nothing moves yet: what was before is no success.
    let before = || vec![stack("UPDATE_COMPLETE"), resources(&[]), stack("UPDATE_COMPLETE")];
    let denied = json!({ "DescribeStackEventsResult": { "StackEvents": [
        event("InstanceRole", "UPDATE_FAILED", "User is not authorized to perform: iam:PassRole") ] } });
    told(
        "run_upgrade",
        [
            (
                upgrade(
                    [
                        vec![changes(), done()],
                        before(),
                        runs(),
                        vec![stack("UPDATE_IN_PROGRESS")],
                        runs(),
                        vec![stack("UPDATE_COMPLETE")],
                    ]
                    .concat(),
                    SET,
                    true,
                    &["y"],
                ),
                line(),
            ),
            (upgrade(vec![changes(), done()], SET, true, &["n"]), line()),
            (
                upgrade(vec![changes(), done()], SET, true, &[]),
                [line(), vec!["--dry-run"]].concat(),
            ),
            (
                upgrade(vec![], "No changes to deploy. Stack muster is up to date\n", true, &[]),
                vec!["upgrade"],
            ),
            (
                upgrade(vec![], "Error: Rule Network: each of Subnets\n", false, &[]),
                vec!["upgrade", "--subnets", "subnet-1"],
            ),
            (
                upgrade(
                    [
                        vec![changes(), done()],
                        runs(),
                        vec![stack("UPDATE_ROLLBACK_IN_PROGRESS")],
                        runs(),
                        vec![stack("UPDATE_ROLLBACK_COMPLETE"), Ok(denied)],
                    ]
                    .concat(),
                    SET,
                    true,
                    &[],
                ),
                [line(), vec!["--yes"]].concat(),
            ),
            (fake(vec![], vec![no_stack()], &[]), vec!["upgrade"]),
            (fake(vec![], vec![stack("UPDATE_ROLLBACK_FAILED")], &[]), vec!["upgrade"]),
        ],
    );
}
