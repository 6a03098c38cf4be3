//! Each mistake at GitHub that keeps a first job from running: what `status` says of it.

use std::collections::BTreeSet;

use muster_api::answers::Severity;
use muster_control::Settings;
use muster_control::admin::{Admin, known_findings};
use muster_control::app_watch::AppWatch;
use muster_control::context::Context;
use muster_control::ports::Jobs as _;
use muster_domain::app::{AppProblem, AppSettings, Hook, HookAnswer, Installation, KeyProblem};
use muster_domain::ids::AppName;
use muster_domain::job::labels::Labels;
use muster_domain::pool_file::RunnerGroup;
use muster_domain::stored;
use muster_domain::text::sentence;
use muster_domain::time::Seconds;
use muster_sim::agenda::Millis;
use muster_sim::fault::Fault;
use muster_sim::world::{Window, World};
use serde_json::{Value, json};

use crate::bench::{Bench, waiting};

const OWN: &str = "https://a1b2c3d4e5.execute-api.us-east-1.amazonaws.com/webhook";

/// A stack that serves public repositories of whoever has installed the App.
fn serving_all(bench: &Bench) -> Settings {
    let mut settings = Settings {
        stack: "muster".to_owned(),
        webhook_url: Some(OWN.to_owned()),
        ..bench.door.sim.settings.clone()
    };
    settings.pools[0].public_repositories = true;
    settings
}

/// Asks a stack that serves public repositories of whoever has installed the App.
fn status(bench: &Bench, github: bool) -> Value {
    let door = &bench.door;
    let settings = serving_all(bench);
    let pass = Admin { context: Context::new(door, door, door, door, &settings) };
    let request = json!({ "version": 1, "action": "status", "github": github });
    json!(bench.drive(pass.answer(request, door.now())))
}

fn app(world: &mut World) -> &mut AppSettings {
    world.app.app.as_mut().expect("an App")
}

fn acme(world: &mut World) -> &mut Installation {
    &mut world.app.installations.as_mut().expect("installations")[0]
}

fn hook(world: &mut World) -> &mut Hook {
    world.app.hook.as_mut().expect("a hook")
}

/// The last answers to deliveries, the newest first.
fn answered(world: &mut World, newest: Option<u16>, before: u16) {
    let answer = |status| HookAnswer { event: "workflow_job".to_owned(), at: None, status };
    let all = [newest, newest, Some(before)].map(answer);
    world.app.deliveries = Ok(all.into());
}

fn group(world: &mut World, change: impl FnOnce(&mut RunnerGroup)) {
    let mut group = RunnerGroup::new(1, "Default");
    change(&mut group);
    world.names.groups.insert("acme".parse().expect("an entity"), vec![group]);
}

/// A change that is not wrong.
type Change = (&'static str, fn(&mut World));
/// What is wrong at GitHub, its name in an answer, and the beginning and the end of the one sentence
/// about it.
type Row = (&'static str, &'static str, fn(&mut World), &'static str, &'static str);

const ROWS: &[Row] = &[
    (
        "no key",
        "key",
        |world| {
            let why = KeyProblem::Unset.sentence("muster/app-key", AppName::MAIN);
            world.app.app = Err(AppProblem::NoKey(why));
        },
        "the App's key was never stored in secret muster/app-key; set it with: jq ",
        "--secret-id muster/app-key --secret-string file:///dev/stdin",
    ),
    (
        "a bare PEM",
        "key-form",
        |world| {
            let why = KeyProblem::BarePem.sentence("muster/app-key", AppName::MAIN);
            world.app.app = Err(AppProblem::BadKey(why));
        },
        "secret muster/app-key contains only a private key; it must be JSON that includes the \
         App's ID",
        "--secret-string file:///dev/stdin",
    ),
    (
        "the key of another App",
        "key-owner",
        |world| world.app.app = Err(AppProblem::Refused { app: "4242".to_owned(), ahead: 3 }),
        "the private key in secret muster/app-key is not one of App 4242, or that id is mistyped",
        "--secret-string file:///dev/stdin",
    ),
    (
        "clocks",
        "clock",
        |world| world.app.app = Err(AppProblem::Refused { app: "4242".to_owned(), ahead: -75 }),
        "the clocks of AWS and GitHub are 75 s apart, so GitHub rejects the App's tokens: try \
         again",
        "(NTP)",
    ),
    (
        "no such App",
        "exists",
        |world| world.app.app = Err(AppProblem::Unknown { app: "4242".to_owned() }),
        "GitHub knows no App 4242: it was deleted, or its id in secret muster/app-key is mistyped",
        "--secret-string file:///dev/stdin",
    ),
    (
        "no event",
        "event",
        |world| app(world).events = vec!["push".to_owned()],
        "the App is not subscribed to the event \"Workflow job\"",
        "Subscribe to events, Workflow job",
    ),
    (
        "a missing permission",
        "permissions",
        |world| drop(app(world).permissions.remove("actions")),
        "the App lacks the repository permission \"Actions\" (read)",
        "waiting jobs cannot be looked up",
    ),
    (
        "not installed anywhere",
        "installed",
        |world| world.app.installations = Ok(Vec::new()),
        "the App is not installed anywhere, so GitHub sends no job events: install it at ",
        "https://github.com/apps/muster-acme/installations/new",
    ),
    (
        "suspended",
        "suspended",
        |world| acme(world).suspended_at = Some("2026-11-24T08:00:00Z".parse().expect("a time")),
        "account acme suspended the App at 2026-11-24 08:00:00, so GitHub sends no job events for it",
        "https://github.com/organizations/acme/settings/installations/77",
    ),
    (
        "a permission that was added later",
        "accepted",
        |world| drop(acme(world).permissions.remove("organization_self_hosted_runners")),
        "account acme has not accepted the App's new permission \"Self-hosted runners\": accept it at ",
        "https://github.com/organizations/acme/settings/installations/77",
    ),
    (
        "a permission that grew later",
        "accepted",
        |world| {
            acme(world).permissions.insert("administration".to_owned(), "read".to_owned());
        },
        "account acme has not accepted the App's new permission \"Administration\": accept it at ",
        "https://github.com/organizations/acme/settings/installations/77",
    ),
    (
        "no webhook",
        "hook",
        |world| hook(world).url = String::new(),
        "the App has no webhook: in its settings (General, Webhook) tick Active and set the URL \
         to ",
        OWN,
    ),
    (
        "the webhook of another stack",
        "hook-address",
        |world| hook(world).url = "https://old.example/webhook".to_owned(),
        "GitHub sends events to https://old.example/webhook, not to this stack: ",
        OWN,
    ),
    (
        "a form",
        "hook-content",
        |world| hook(world).content_type = "form".to_owned(),
        "GitHub sends events as \"form\", which the webhook refuses: set content_type to \"json\"",
        "the settings page does not show it)",
    ),
    (
        "any certificate",
        "hook-tls",
        |world| hook(world).insecure = true,
        "GitHub does not verify the TLS certificate of the webhook: ",
        "enable SSL verification",
    ),
    (
        "a webhook that is not active",
        "hook-active",
        |world| {
            acme(world).created_at = Some(world.time() - Seconds(2 * 86_400));
            world.app.deliveries = Ok(Vec::new());
        },
        "GitHub has sent no event, though the App was installed at ",
        "in https://github.com/apps/muster-acme (General, Webhook) tick Active",
    ),
    (
        "401",
        "deliveries",
        |world| answered(world, Some(401), 202),
        "2 of GitHub's last 3 deliveries were answered 401, the newest among them: the webhook's \
         secret at GitHub differs from secret muster/webhook-secret",
        "save that one in the App's settings",
    ),
    (
        "503",
        "deliveries",
        |world| answered(world, Some(503), 202),
        "2 of GitHub's last 3 deliveries were answered 503, the newest among them: find out why \
         with: ",
        "aws logs tail /aws/lambda/muster-webhook --since 1h",
    ),
    (
        "no connection",
        "deliveries",
        |world| answered(world, None, 202),
        "2 of GitHub's last 3 deliveries got no connection, the newest among them: ",
        "check the URL of the webhook in the App's settings",
    ),
    (
        "a group without public repositories",
        "group-public",
        |world| group(world, |group| group.refuses_public = true),
        "runner group \"Default\" of acme refuses public repositories, and pool small serves them: ",
        "allow public repositories in the group's settings",
    ),
    (
        "a group of some workflows",
        "group-workflows",
        |world| group(world, |group| group.restricted_to_workflows = true),
        "runner group \"Default\" of acme accepts only selected workflows, but pool small serves \
         any",
        "check the group's settings",
    ),
];

#[test]
fn each_mistake_at_github_is_a_sentence_with_its_remedy() {
    let mut wrong = Vec::new();
    for (name, check, change, begins, ends) in ROWS {
        let bench = Bench::new();
        bench.change(change);
        let shown = of_app(&status(&bench, true));
        let begins = sentence(begins);
        // Nobody refuses what he was not asked.
        let is_told = |told: &str| {
            told.starts_with(begins.trim_end_matches('.'))
                && told.trim_end_matches('.').ends_with(ends.trim_end_matches('.'))
                && !told.contains("GitHub refuses")
        };
        let is_found = |one: &Value| {
            one["key"] == format!("app-{check}")
                && one["severity"] == "error"
                && one["message"].as_str().is_some_and(is_told)
        };
        if !matches!(&shown[..], [one] if is_found(one)) {
            wrong.push((name, shown));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The findings about the App.
fn of_app(answer: &Value) -> Vec<Value> {
    let all = answer["findings"].as_array().expect("a list").iter();
    let is_of_app = |one: &&Value| one["key"].as_str().is_some_and(|key| key.starts_with("app-"));
    all.filter(is_of_app).cloned().collect()
}

/// What the scheduled check has recorded by this minute, as notifications and the overview see it.
fn recorded(bench: &Bench, minute: u32) -> Vec<(String, Severity)> {
    let door = &bench.door;
    let settings = serving_all(bench);
    let context = Context::new(door, door, door, door, &settings);
    let now = door.now() + Seconds(60 * minute);
    bench.drive(AppWatch { context }.check(now)).expect("recorded");
    let findings = bench.drive(known_findings(context, now)).expect("read");
    findings.into_iter().map(|one| (one.key, one.severity)).collect()
}

/// Every problem of the App reaches those who do not ask GitHub, and stays there while GitHub does
/// not answer. It ends when it is fixed.
#[test]
fn each_problem_of_the_app_is_reported_until_it_is_fixed() {
    let away = |world: &mut World, until| {
        let (fault, from) = (Fault::OutageGithub, world.now);
        world.windows.push(Window { fault, from, until });
    };
    let not_installed = ("not installed for a pool", "installed-for-pool");
    let rows = ROWS.iter().map(|(name, check, change, ..)| (*name, *check, Some(*change)));
    let mut seen = BTreeSet::new();
    for (name, check, change) in rows.chain([(not_installed.0, not_installed.1, None)]) {
        let bench = match change {
            Some(_) => Bench::new(),
            None => Bench::new().belonging_to("Elsewhere/web"),
        };
        let (right, groups) = bench.change(|world| (world.app.clone(), world.names.groups.clone()));
        if let Some(change) = change {
            bench.change(change);
        }
        let expected = vec![(format!("app-{check}"), Severity::Error)];
        // A failed delivery may be a restart of the function: it must last.
        let is_late = check == "deliveries";
        assert_eq!(recorded(&bench, 0), if is_late { vec![] } else { expected.clone() }, "{name}");
        if is_late {
            // The same problem, with other counts in its sentence.
            bench.change(|world| {
                let all = world.app.deliveries.as_mut().expect("a list");
                all.insert(0, all[0].clone());
            });
        }
        assert_eq!(recorded(&bench, 5), expected, "{name}");
        bench.change(|world| away(world, Millis::MAX));
        assert_eq!(recorded(&bench, 8), expected, "{name}: GitHub does not answer");
        bench.change(|world| {
            world.windows.clear();
            (world.app, world.names.groups) = (right, groups);
        });
        let fixed = if change.is_some() { vec![] } else { expected };
        assert_eq!(recorded(&bench, 11), fixed, "{name}: fixed");
        seen.insert(check);
    }
    let all = [
        "key",
        "key-form",
        "key-owner",
        "clock",
        "exists",
        "event",
        "permissions",
        "installed",
        "installed-for-pool",
        "suspended",
        "accepted",
        "hook",
        "hook-address",
        "hook-content",
        "hook-tls",
        "hook-active",
        "deliveries",
        "group-public",
        "group-workflows",
    ];
    assert_eq!(seen, BTreeSet::from(all), "all that is looked for");
}

#[test]
fn a_short_silence_of_github_is_not_reported_and_checks_are_two_minutes_apart() {
    let bench = Bench::new();
    let asked = |bench: &Bench| bench.change(|world| world.calls.github);
    assert_eq!(
        (recorded(&bench, 0), asked(&bench)),
        (vec![], 6),
        "four calls, and two about groups"
    );
    assert_eq!((recorded(&bench, 1), asked(&bench)), (vec![], 6));
    bench.change(|world| {
        let (fault, from) = (Fault::OutageGithub, world.now);
        world.windows.push(Window { fault, from, until: Millis::MAX });
    });
    assert_eq!((recorded(&bench, 2), asked(&bench)), (vec![], 10));
    assert_eq!(recorded(&bench, 4), vec![]);
    let long = vec![("app-unknown".to_owned(), Severity::Warning)];
    assert_eq!(recorded(&bench, 7), long);
    bench.change(|world| world.windows.clear());
    assert_eq!(recorded(&bench, 9), vec![]);
}

/// Nobody need wait for the sweep.
#[test]
fn status_notes_whose_the_app_is() {
    let owner = |github| {
        let bench = Bench::new();
        bench.change(|world| world.tables.pools = None);
        status(&bench, github);
        bench.change(|world| world.tables.pools.clone()).and_then(|set| set.app_owner.clone())
    };
    assert_eq!((owner(false), owner(true)), (None, "acme".parse().ok()));
}

#[test]
fn a_sweep_says_anew_why_a_job_is_not_served() {
    let bench = Bench::new();
    let now = bench.door.now();
    let mut job = waiting(1, now);
    (job.pool, job.last_event.repository) = (None, "stranger/web".into());
    job.last_event.labels = Labels::new(["linux"]);
    job.unmatched = Some("nobody knows whose the App is".to_owned());
    bench.put(&[stored::Change::create(job.clone()).into()]);
    assert!(bench.drive(bench.sweep()).is_owner_doubted);
    let stored = bench.drive(bench.door.job(job.key())).expect("read").expect("stored");
    let why = stored.unmatched.clone().expect("a reason");
    assert!(why.starts_with("pool small: without entity and repositories it serves only acme"));
}

#[test]
fn nothing_is_said_of_what_is_right() {
    let rows: &[Change] = &[
        ("as the README says", |_| ()),
        ("failures before the newest delivery", |world| answered(world, Some(200), 401)),
        ("a quiet week", |world| {
            acme(world).created_at = Some(world.time() - Seconds(4 * 86_400));
            world.app.deliveries = Ok(Vec::new());
        }),
        ("a person, who has no organization's permissions", |world| {
            let acme = acme(world);
            acme.is_person = true;
            acme.permissions.remove("organization_self_hosted_runners");
        }),
        ("a webhook's address in capitals", |world| hook(world).url = OWN.to_uppercase()),
    ];
    for (name, change) in rows {
        let bench = Bench::new();
        bench.change(change);
        assert_eq!(of_app(&status(&bench, true)), Vec::<Value>::new(), "{name}");
    }
}

#[test]
fn a_pool_of_somebody_who_has_not_installed_the_app_is_told() {
    let bench = Bench::new().belonging_to("Elsewhere/web");
    let shown = of_app(&status(&bench, true));
    assert_eq!((shown.len(), &shown[0]["key"]), (1, &json!("app-installed-for-pool")));
    let told = shown[0]["message"].as_str().expect("a sentence");
    let begins = "Pool small registers at Elsewhere/web, where the App is not installed: ";
    assert!(told.starts_with(begins), "{told}");
}

/// Without the App's own answer, its runner groups would only be refused.
#[test]
fn no_group_is_asked_for_while_the_app_does_not_answer() {
    for (is_known, calls) in [(true, 6), (false, 4)] {
        let bench = Bench::new();
        if !is_known {
            let refused = AppProblem::Unknown { app: "4242".to_owned() };
            bench.change(|world| world.app.app = Err(refused));
        }
        status(&bench, true);
        assert_eq!(bench.change(|world| world.calls.github), calls, "{is_known}");
    }
}

/// What cannot be found out hides nothing else, and GitHub is asked only where that is wanted.
#[test]
fn what_github_does_not_say_is_unknown() {
    let bench = Bench::new();
    let asked = |bench: &Bench| bench.change(|world| world.calls.github);
    assert_eq!((&status(&bench, false)["app_checked_at"], asked(&bench)), (&Value::Null, 0));
    bench.change(|world| {
        let (fault, from) = (Fault::OutageGithub, world.now);
        world.windows.push(Window { fault, from, until: Millis::MAX });
    });
    let told = status(&bench, true);
    assert!(told["pools"].is_array(), "{told}");
    let [shown] = &of_app(&told)[..] else { panic!("{told}") };
    let why = "GitHub did not answer get-app: simulated (502); try again.";
    assert_eq!((&shown["key"], &shown["message"]), (&json!("app-unknown"), &json!(why)));
    assert_eq!(asked(&bench), 4, "no group is asked for");
}
