//! The machine images: what is shown in each situation, what each order asks, and how a build is followed.

use muster_api::answers::ImagesStatus;
use muster_cli::page::Screen;
use muster_cli::views::images;
use serde_json::{Value, json};

use crate::fake::{Fake, NOW};
use crate::orders::{refused, says, told};
use crate::{compare, recorded};

pub(crate) fn image(id: &str, days: i64) -> Value {
    let built_at = muster_domain::time::Time::from_millis(NOW.as_millis() - days * 86_400_000);
    json!({ "id": id, "built_at": built_at, "agent": "2.330.0", "boot": "unit", "why": null, "disk_gib": 8,
        "used_bytes": 3_412_000_000_u64, "on_probation": null, "untried": null })
}

pub(crate) fn build(waits_for: &str) -> Value {
    json!({ "reason": "the image is a week old", "by": null, "since": "2026-11-20T23:56:00Z", "waits_for": waits_for,
        "pool": "small", "builder": "small-l0-0", "trial": null, "image": null })
}

pub(crate) const INSTALLS: &str = "the builder installs packages and the agent";
const NEW: &str = "ami-0b3a9f17c25e4d680";
const OLD: &str = "ami-0a1b2c3d4e5f60718";

/// A family without anything, changed.
pub(crate) fn family(changes: &Value) -> Value {
    let mut family = json!({ "family": "x64", "pools": ["small", "own"], "current": null, "previous": null,
        "build": null, "ordered_by": null, "failure": null, "next_build_at": null });
    for (name, value) in changes.as_object().expect("fields") {
        family[name] = value.clone();
    }
    family
}

pub(crate) fn status(on: bool, families: &[Value], unused: usize) -> Value {
    json!({ "version": 1, "ok": true, "on": on, "families": families, "unused": unused })
}

pub(crate) fn changed(mut answer: Value, changes: &[&str]) -> Value {
    answer["changes"] = json!(changes);
    answer
}

fn with(mut image: Value, changes: &Value) -> Value {
    for (name, value) in changes.as_object().expect("fields") {
        image[name] = value.clone();
    }
    image
}

/// One image in use, and one before it.
fn usual() -> Value {
    family(
        &json!({ "current": image(NEW, 3), "previous": image(OLD, 10), "next_build_at": "2026-11-25T00:00:00Z" }),
    )
}

fn one(changes: &Value) -> Value {
    status(true, &[family(changes)], 0)
}

const WHY: &str = "the builder did not finish in time: E: Unable to fetch some archives, maybe run apt-get update";

/// Each situation, with its answer.
fn situations() -> Vec<(&'static str, Value)> {
    let trial = with(
        build("a machine tries the image"),
        &json!({ "trial": "small-l1-0", "image": NEW, "reason": "an operator ordered it", "by": "mira" }),
    );
    let by_cloud_init = json!({ "boot": "cloud-init", "why": "A machine did not boot by the unit: exit status 1",
        "agent": null, "untried": "no pool names an owner on GitHub" });
    let arm = with(
        family(&json!({ "current": image(OLD, 1), "next_build_at": "2026-11-27T00:00:00Z" })),
        &json!({ "family": "arm64-0f3a9c21", "pools": ["arm"] }),
    );
    let orphaned = with(
        family(&json!({ "current": image(OLD, 9) })),
        &json!({ "family": "arm64", "pools": [] }),
    );
    let failure = |count: u32| json!({ "count": count, "at": "2026-11-20T23:30:00Z", "why": WHY });
    let probation = |launched: u32| {
        one(&json!({ "current": with(image(NEW, 0), &json!({ "on_probation": launched })),
            "next_build_at": "2026-11-28T00:00:00Z" }))
    };
    let tried = with(image(NEW, 0), &json!({ "on_probation": 2 }));
    vec![
        ("off", status(false, &[family(&json!({}))], 0)),
        ("off, with images", status(false, &[usual()], 1)),
        ("on, without pools that can use one", status(true, &[], 0)),
        ("before the first build", one(&json!({}))),
        ("the first build", one(&json!({ "build": build(INSTALLS) }))),
        ("a build that was ordered", one(&json!({ "ordered_by": "mira" }))),
        (
            "a build that is due, in a full pool",
            one(&json!({ "blocked": "pool small has its maximum of 1 machine" })),
        ),
        ("a usual day", status(true, &[usual(), arm], 2)),
        ("a rebuild, tried", one(&json!({ "current": image(OLD, 7), "build": trial }))),
        ("on probation, not launched", probation(0)),
        ("on probation, launched once", probation(1)),
        (
            "on probation, launched twice",
            one(
                &json!({ "current": tried, "previous": image(OLD, 7), "next_build_at": "2026-11-28T00:00:00Z" }),
            ),
        ),
        (
            "after a rollback",
            one(&json!({ "current": image(OLD, 10), "next_build_at": "2026-11-28T00:00:00Z" })),
        ),
        (
            "by cloud-init",
            one(&json!({ "current": with(image(NEW, 1), &by_cloud_init),
            "next_build_at": "2026-11-27T00:00:00Z" })),
        ),
        (
            "a failed build",
            one(&json!({ "failure": failure(1), "next_build_at": "2026-11-21T00:30:00Z" })),
        ),
        (
            "failed builds, and one more",
            one(
                &json!({ "failure": failure(3), "current": image(OLD, 9), "build": build(INSTALLS) }),
            ),
        ),
        ("a failed build that is due again", one(&json!({ "failure": failure(2) }))),
        ("a family without pools", status(true, &[usual(), orphaned], 0)),
    ]
}

#[test]
fn each_situation_is_shown() {
    for (title, screen) in [
        ("image_80.txt", Screen { width: Some(80), colour: false }),
        ("image.txt", Screen { width: Some(120), colour: false }),
        ("image_piped.txt", Screen::PIPE),
    ] {
        let pages = situations().into_iter().map(|(situation, answer)| {
            let status: ImagesStatus = serde_json::from_value(answer).expect("an answer");
            let text = images::page(&status, NOW, screen);
            let longest = text.lines().map(|line| line.chars().count()).max().unwrap_or_default();
            let width = screen.width.map_or(usize::MAX, usize::from);
            assert!(longest <= width, "{situation}: {longest} columns\n{text}");
            format!("== {situation}\n{text}")
        });
        compare(title, &pages.collect::<Vec<_>>().join("\n"));
    }
}

#[test]
fn the_images_are_shown_and_ordered() {
    let on = "images are on: a build starts within a minute for each family without one";
    let off =
        "images are off: machines boot the launch template's image, and existing images are kept";
    let builds = "an image for x64 is built as soon as a machine is available";
    let back = format!(
        "machines of x64 boot {OLD} instead of {NEW}; no build starts by itself before 2026-11-28T00:00:00.000Z"
    );
    let gone = ["images are off".to_owned(), format!("image {NEW} of x64 is deleted")];
    let gone = [&*gone[0], &*gone[1], "image ami-0c, which is no longer used, is deleted"];
    let usual = || status(true, &[usual()], 0);
    let none = || status(true, &[family(&json!({}))], 0);
    let both = |changes: &[&str]| [changed(usual(), changes), changed(usual(), changes)];
    let several = || refused("bad_request", "name a \"family\": x64, arm64");
    told(
        "run_image",
        [
            (Fake::of([usual()]), vec!["image"]),
            (Fake { width: None, ..Fake::of([usual()]) }, vec!["image", "status"]),
            (Fake::of([usual()]), vec!["image", "--json"]),
            (Fake::of([refused("bad_request", "unknown variant `images`")]), vec!["image"]),
            (Fake::of([changed(none(), &[on])]), vec!["image", "on", "--by", "mira"]),
            (Fake::of([none()]), vec!["image", "on", "--by", "mira"]),
            (Fake::of([changed(none(), &[on])]), vec!["image", "on", "--by", "mira", "--dry-run"]),
            (
                says(both(&[off]), &["y"]),
                vec!["image", "off", "--by", "mira", "--reason", "compare the times"],
            ),
            (Fake::of([status(false, &[], 0)]), vec!["image", "off", "--by", "mira"]),
            (Fake::of([changed(usual(), &[off])]), vec!["image", "off", "--by", "mira"]),
            (
                Fake::of([changed(usual(), &[builds])]),
                vec!["image", "build", "--by", "mira", "--family", "x64", "--json"],
            ),
            (Fake::of([changed(usual(), &[builds])]), vec!["image", "build", "--by", "mira"]),
            (
                Fake::of([refused(
                    "bad_request",
                    "images are off; turn them on first: muster image on",
                )]),
                vec!["image", "build", "--by", "mira"],
            ),
            (says(both(&[&back]), &["y"]), vec!["image", "rollback", "--by", "mira"]),
            (says([changed(usual(), &[&back])], &["n"]), vec!["image", "rollback", "--by", "mira"]),
            (Fake::of([several()]), vec!["image", "rollback", "--by", "mira"]),
            (says(both(&gone), &["y"]), vec!["image", "delete", "--by", "mira"]),
            (
                Fake::of(both(&gone[1..2])),
                vec!["image", "delete", "--by", "mira", "--family", "x64", "--yes"],
            ),
            (
                Fake::of([changed(usual(), &gone)]),
                vec!["image", "delete", "--by", "mira", "--dry-run", "--json"],
            ),
            (Fake::of([status(false, &[], 3)]), vec!["image", "delete", "--by", "mira"]),
            (Fake::of([recorded("audit")]), vec!["image", "history", "--since", "7d"]),
            (Fake::of([recorded("audit")]), vec!["audit", "images"]),
        ],
    );
}

/// The steps of a build, as they are seen.
fn steps(last: Value) -> Vec<Value> {
    let seen = |waits_for: &str, changes: &Value| {
        one(&json!({ "current": image(OLD, 7), "build": with(build(waits_for), changes) }))
    };
    let ordered = one(
        &json!({ "current": image(OLD, 7), "ordered_by": "mira", "next_build_at": "2026-11-25T00:00:00Z" }),
    );
    let trial = json!({ "trial": "small-l1-0", "image": NEW });
    vec![
        ordered,
        seen(INSTALLS, &json!({})),
        seen(INSTALLS, &json!({})),
        seen("EC2 creates the image", &json!({ "image": NEW })),
        seen("a machine tries the image", &trial),
        last,
    ]
}

#[test]
fn a_build_is_followed_to_its_end() {
    let before =
        || one(&json!({ "current": image(OLD, 7), "next_build_at": "2026-11-25T00:00:00Z" }));
    let made = one(&json!({ "current": with(image(NEW, 0), &json!({ "on_probation": 0 })),
        "previous": image(OLD, 7), "next_build_at": "2026-11-28T00:00:00Z" }));
    let failed = one(&json!({ "current": image(OLD, 7), "next_build_at": "2026-11-21T01:01:00Z",
        "failure": { "count": 1, "at": "2026-11-21T00:00:40Z", "why": WHY } }));
    let builds = "an image for x64 is built as soon as a machine is available";
    let ordered = |last: Value| {
        let first = [before(), changed(before(), &[builds])];
        first.into_iter().chain(steps(last)).collect::<Vec<_>>()
    };
    let follows = |answers: Vec<Value>| Fake { patience: 99, ..Fake::of(answers) };
    let build = || vec!["image", "build", "--by", "mira", "--watch"];
    let off = status(false, &[family(&json!({ "current": image(OLD, 7) }))], 0);
    // A builder that Spot took back: nothing is left of the build, and the next one starts later.
    let lost = std::iter::repeat_n(before(), 15);
    let mut answers = steps(before());
    answers.pop();
    let stays_lost = answers.iter().cloned().chain(lost).collect();
    let again = [before(), before(), one(&json!({ "build": json!(build_again()) })), made.clone()];
    let retried = answers.iter().cloned().chain(again).collect();
    told(
        "run_image_watch",
        [
            (follows(ordered(made.clone())), build()),
            (Fake { width: None, ..follows(ordered(made.clone())) }, build()),
            (follows(ordered(failed)), build()),
            (follows(steps(off)), vec!["image", "--watch"]),
            (follows(stays_lost), vec!["image", "--watch"]),
            (follows(retried), vec!["image", "status", "--watch"]),
            (follows(steps(made.clone())), vec!["image", "--watch", "--json"]),
            (follows(vec![made.clone()]), vec!["image", "--watch"]),
            (follows(vec![status(false, &[], 0)]), vec!["image", "--watch"]),
            // A failed check is tried again; whoever has seen enough leaves the build alone.
            (
                Fake {
                    patience: 3,
                    ..Fake::of([
                        steps(Value::Null)[1].clone(),
                        refused("unavailable", "the tables do not answer"),
                        steps(Value::Null)[1].clone(),
                    ])
                },
                vec!["image", "--watch"],
            ),
        ],
    );
}

fn build_again() -> Value {
    with(build(INSTALLS), &json!({ "builder": "small-l2-0" }))
}

#[test]
fn what_makes_no_command_is_refused() {
    use clap::Parser as _;
    for line in [
        &["image", "on", "--family", "x64"][..],
        &["image", "--watch", "build"],
        &["image", "build", "--watch", "--dry-run"],
        &["image", "rollback", "--reason", "no"],
        &["image", "build", "--family", "x 64"],
    ] {
        let line = std::iter::once(&"muster").chain(line);
        let refused = muster_cli::args::Muster::try_parse_from(line).map(|_| ());
        assert_eq!(refused.map_err(|error| error.exit_code()), Err(2));
    }
}
