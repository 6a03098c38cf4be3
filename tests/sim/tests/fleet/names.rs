//! A pool file with names: what is asked, what is stored, and that nothing changes without an
//! answer.

use muster_control::admin::Admin;
use muster_control::context::Context;
use muster_domain::ec2::Arch;
use muster_domain::ids::{AppName, EntityKind};
use muster_domain::pool_file::{
    Answers, EntityId, FoundImage, FoundTemplate, ImageFilter, NamedTemplate, Rights, RunnerGroup,
};
use muster_sim::agenda::Millis;
use muster_sim::fault::Fault;
use muster_sim::world::Window;
use serde_json::{Value, json};

use crate::bench::Bench;

const ACME: EntityId =
    EntityId { app: AppName::MAIN, kind: EntityKind::Organization, number: 9919 };

fn names() -> Answers {
    let group = |id, name: &str| RunnerGroup::new(id, name);
    Answers {
        entities: [(ACME, Some("acme".parse().expect("an entity")))].into(),
        groups: [(
            "acme".parse().expect("an entity"),
            vec![group(1, "Default"), group(5, "Linux-Builders")],
        )]
        .into(),
        images: [(filter(), image("ami-00000001", "acme-runner-1"))].into(),
        ..Answers::default()
    }
}

fn filter() -> ImageFilter {
    ImageFilter { name: "acme-runner-*".to_owned(), owner: "self".to_owned(), arch: Arch::X64 }
}

fn image(id: &str, name: &str) -> Option<FoundImage> {
    Some(FoundImage { id: id.to_owned(), name: name.to_owned() })
}

/// A cloud with an organization, its groups and an image.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.change(|world| world.names = names());
    bench
}

/// A file with one pool of these fields, over what every pool needs.
fn file(fields: &Value) -> Value {
    let mut pool = json!({ "name": "small", "labels": ["linux"], "subnets": ["subnet-0a1b2c3d"],
        "instances": { "types": ["m7i.large"] }, "limits": { "max": 3 } });
    for (name, value) in fields.as_object().expect("fields") {
        pool[name] = value.clone();
    }
    json!({ "pools": [pool] })
}

fn named() -> Value {
    file(&json!({ "entity": { "organization": 9919 }, "runner_group": "linux-builders",
        "image": { "filter": { "name": "acme-runner-*" } } }))
}

fn ask(bench: &Bench, request: Value) -> Value {
    let mut request = request;
    request["version"] = json!(1);
    request["action"] = json!("pools");
    let door = &bench.door;
    let settings = &door.sim.settings;
    let pass = Admin { context: Context::new(door, door, door, door, settings) };
    json!(bench.drive(pass.answer(request, door.now())))
}

fn apply(bench: &Bench, file: &Value) -> Value {
    ask(bench, json!({ "file": file.to_string() }))
}

fn dry_run(bench: &Bench, file: &Value) -> Value {
    ask(bench, json!({ "file": file.to_string(), "dry_run": true }))
}

fn version(bench: &Bench) -> Value {
    ask(bench, json!({}))["pools_version"].clone()
}

/// How often GitHub and EC2 were asked so far.
fn asked(bench: &Bench) -> (u64, u64) {
    bench.change(|world| (world.calls.github, world.calls.looks))
}

fn silence(bench: &Bench, fault: Fault) {
    bench.change(|world| {
        world.windows.push(Window { fault, from: world.now, until: Millis::MAX });
    });
}

const RESOLVED: [&str; 3] = [
    "pools[0].entity: acme (organization 9919)",
    "pools[0].runner_group: 5 (Linux-Builders)",
    "pools[0].image: ami-00000001 (acme-runner-1)",
];

#[test]
fn what_is_stored_is_resolved() {
    let bench = bench();
    let answer = apply(&bench, &named());
    assert_eq!((&answer["applied"], &answer["resolved"]), (&json!(true), &json!(RESOLVED)));
    let pool = ask(&bench, json!({}))["file"]["pools"][0].clone();
    assert_eq!(pool["entity"], "acme");
    assert_eq!(pool["runner_group"], 5);
    assert_eq!(pool["image"], json!({ "id": "ami-00000001" }));
    assert_eq!(asked(&bench), (2, 1));
}

/// The list says what is launched for; who gets the runners, GitHub's group says.
#[test]
fn a_list_of_repositories_in_the_default_runner_group_is_warned_of() {
    let warned = |fields: Value| {
        let answer = dry_run(&bench(), &file(&fields));
        assert_eq!(answer["ok"], true, "{answer}");
        answer["lines"].to_string().contains("! pool small lists repositories")
    };
    let listed = |more: Value| {
        let mut fields = json!({ "repositories": ["acme/deploy"] });
        fields.as_object_mut().expect("fields").extend(more.as_object().expect("more").clone());
        warned(fields)
    };
    assert!(listed(json!({})));
    assert!(listed(json!({ "entity": "acme" })));
    assert!(!listed(json!({ "entity": "acme", "runner_group": 5 })));
    assert!(!listed(json!({ "entity": "acme/deploy" })), "a repository has no groups");
    assert!(!warned(json!({ "entity": "acme" })));
}

#[test]
fn a_dry_run_asks_and_changes_nothing() {
    let bench = bench();
    let answer = dry_run(&bench, &named());
    assert_eq!((&answer["applied"], &answer["resolved"]), (&json!(false), &json!(RESOLVED)));
    assert_eq!((version(&bench), asked(&bench)), (json!(0), (2, 1)));
}

#[test]
fn a_file_that_names_nothing_makes_no_call() {
    let bench = bench();
    let plain = file(&json!({ "entity": "acme", "runner_group": 5, "image": { "ssm": "/a" } }));
    let answer = apply(&bench, &plain);
    assert_eq!((&answer["applied"], &answer["resolved"]), (&json!(true), &json!([])));
    assert_eq!(asked(&bench), (0, 0));
}

/// Its role and version are stored, and a boot that is not the stack's is told: machines of the
/// release before still run, so it is a warning.
#[test]
fn a_launch_template_of_a_pools_own_is_looked_up_and_compared_with_the_stacks() {
    let bench = bench();
    let own = bench.door.sim.settings.pools[0].clone();
    let named = |id: &str, version: Option<u64>| NamedTemplate { id: id.to_owned(), version };
    let found = |boot: &str| {
        Some(FoundTemplate {
            version: 4,
            is_ours: true,
            role: Some("AROA1".to_owned()),
            user_data: format!("#!/bin/bash\nexport A=1\n#!/usr/bin/env bash\n{boot}"),
            ..FoundTemplate::default()
        })
    };
    let know = |boot: &str| {
        bench.change(|world| {
            let templates = &mut world.names.templates;
            templates.insert(named("lt-0a1b2c3d", None), found(boot));
            templates.insert(named("lt-0a1b2c3d", Some(4)), found(boot));
            let stacks = named(&own.launch_template_id, own.launch_template_version.parse().ok());
            templates.insert(stacks, found("new"));
        });
    };
    let pools = file(&json!({ "launch_template": "lt-0a1b2c3d" }));
    know("old");
    let answer = dry_run(&bench, &pools);
    assert_eq!(answer["resolved"], json!(["pools[0].launch_template: lt-0a1b2c3d (version 4)"]));
    let told =
        "! version 4 of launch template lt-0a1b2c3d boots differently from the stack's template";
    assert!(answer["lines"].to_string().contains(told), "{answer}");
    know("new");
    let answer = apply(&bench, &pools);
    assert_eq!(answer["applied"], true);
    assert!(!answer["lines"].to_string().contains('!'), "{answer}");
    let pool = ask(&bench, json!({}))["file"]["pools"][0].clone();
    assert_eq!(pool["launch_template"], json!({ "id": "lt-0a1b2c3d", "version": 4 }));
    let settings = &bench.door.sim.settings;
    let pools = bench.drive(settings.current(&bench.door)).expect("read").pools.clone();
    assert_eq!(
        (&*pools[0].launch_template_id, &*pools[0].launch_template_version),
        ("lt-0a1b2c3d", "4")
    );
    assert_eq!(pools[0].machine_role().map(|role| &**role), Some("AROA1"));
    // It is not the stack's: nothing was changed.
    bench.change(|world| world.names.templates.clear());
    let theirs = FoundTemplate { version: 1, ..FoundTemplate::default() };
    bench.change(|world| world.names.templates.insert(named("lt-0a1b2c3e", None), Some(theirs)));
    let refused = apply(&bench, &file(&json!({ "launch_template": "lt-0a1b2c3e" })));
    assert_eq!(refused["error"]["errors"][0]["path"], "pools[0].launch_template", "{refused}");
}

/// What the stack's own role refuses is a mistake of the file.
#[test]
fn a_file_that_the_stacks_role_would_refuse_is_refused() {
    let bench = Bench::new().with_rights(Rights {
        stack: "muster".to_owned(),
        subnets: vec!["subnet-0000000a".into()],
        tag_keys: Vec::new(),
    });
    let refused = apply(&bench, &file(&json!({ "tags": { "team": "build" } })));
    let paths = |answer: &Value| -> Vec<Value> {
        let errors = answer["error"]["errors"].as_array().expect("mistakes");
        errors.iter().map(|wrong| wrong["path"].clone()).collect()
    };
    assert_eq!(paths(&refused), ["pools[0].subnets[0]", "pools[0].tags.team"]);
    let right = file(&json!({ "subnets": ["subnet-0000000a"] }));
    assert_eq!(apply(&bench, &right)["applied"], true);
}

/// The runners would idle beside the jobs, and nothing at GitHub says so.
#[test]
fn a_runner_group_that_keeps_public_repositories_out_is_a_warning() {
    let bench = bench();
    bench.change(|world| {
        let groups = world.names.groups.values_mut().next().expect("groups");
        groups[1].refuses_public = true;
    });
    let public = |group: u64| {
        file(&json!({ "entity": "acme", "runner_group": group, "public_repositories": true }))
    };
    let warning = |answer: &Value| {
        let lines = answer["lines"].as_array().expect("lines").clone();
        lines.into_iter().find(|line| line.as_str().is_some_and(|line| line.starts_with("! ")))
    };
    for answer in [dry_run(&bench, &public(5)), apply(&bench, &public(5))] {
        let told = warning(&answer).expect("a warning").to_string();
        assert!(told.contains("group \\\"Linux-Builders\\\" of acme refuses public"), "{told}");
    }
    assert_eq!(warning(&apply(&bench, &public(1))), None, "this group takes them");
    // Without an answer the file counts all the same.
    silence(&bench, Fault::OutageGithub);
    let answer = apply(&bench, &public(5));
    assert_eq!((&answer["applied"], warning(&answer)), (&json!(true), None));
}

#[test]
fn without_an_answer_nothing_changes() {
    for (outage, whom, code) in [
        (Fault::OutageGithub, "GitHub", "unavailable"),
        (Fault::OutageEc2, "EC2", "unavailable"),
        (Fault::OutageCredentials, "GitHub", "not_allowed"),
    ] {
        let bench = bench();
        silence(&bench, outage);
        for answer in [apply(&bench, &named()), dry_run(&bench, &named())] {
            assert_eq!((&answer["ok"], &answer["error"]["code"]), (&json!(false), &json!(code)));
            let message = answer["error"]["message"].as_str().expect("a sentence");
            let told = format!("nothing was changed: {whom}");
            assert!(message.starts_with(&told), "{message}");
        }
        assert_eq!(version(&bench), 0);
        bench.change(|world| world.windows.clear());
        assert_eq!(apply(&bench, &named())["applied"], true);
    }
}

#[test]
fn what_is_not_there_is_told_with_every_other_mistake() {
    let bench = bench();
    let wrong = file(&json!({ "entity": { "organization": 7 }, "limits": { "max": 0 },
        "image": { "filter": { "name": "acme-runner-*", "owner": "amazon" } } }));
    let paths = |answer: &Value| -> Vec<Value> {
        let errors = answer["error"]["errors"].as_array().expect("mistakes");
        errors.iter().map(|wrong| wrong["path"].clone()).collect()
    };
    let answer = apply(&bench, &wrong);
    assert_eq!(answer["error"]["code"], "bad_pool_file");
    assert_eq!(paths(&answer), ["pools[0].limits.max", "pools[0].entity", "pools[0].image"]);
    // A mistake needs no answer to be one.
    silence(&bench, Fault::OutageGithub);
    let answer = apply(&bench, &wrong);
    assert_eq!(answer["error"]["code"], "bad_pool_file");
    assert_eq!(paths(&answer), ["pools[0].limits.max"]);
    assert_eq!(version(&bench), 0);
}

#[test]
fn applied_again_it_follows_a_rename_and_moves_to_the_newest_image() {
    let bench = bench();
    apply(&bench, &named());
    assert_eq!(apply(&bench, &named())["applied"], false, "nothing has changed");
    let renamed = "acme-inc".parse().expect("an entity");
    bench.change(|world| {
        let groups = world.names.groups.values().next().cloned().expect("groups");
        world.names.groups.insert("acme-inc".parse().expect("an entity"), groups);
        world.names.entities.insert(ACME, Some(renamed));
        world.names.images.insert(filter(), image("ami-00000002", "acme-runner-2"));
    });
    let answer = apply(&bench, &named());
    assert_eq!((&answer["applied"], &answer["pools_version"]), (&json!(true), &json!(2)));
    let lines = answer["lines"].to_string();
    for word in ["acme-inc", "ami-00000001", "ami-00000002"] {
        assert!(lines.contains(word), "{word}: {lines}");
    }
    // What was resolved then is what is restored, whatever the names mean now.
    let before = asked(&bench);
    let restored = ask(&bench, json!({ "restore": 1 }));
    assert_eq!((&restored["applied"], &restored["resolved"]), (&json!(true), &json!([])));
    let pool = ask(&bench, json!({}))["file"]["pools"][0].clone();
    assert_eq!((&pool["entity"], &pool["image"]["id"]), (&json!("acme"), &json!("ami-00000001")));
    assert_eq!(asked(&bench), before);
}

#[test]
fn a_text_that_is_not_yaml_is_refused_with_its_readers_reason() {
    let refused = ask(&Bench::new(), json!({ "file": "a: 'x" }));
    let told = refused["error"]["errors"][0]["error"].as_str().unwrap_or_default();
    assert!(told.starts_with("not valid YAML: line 1, column 4: unclosed quote"), "{refused}");
}
