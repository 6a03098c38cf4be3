//! Orders: what the pages show before and after, and that the terminal does the same.

use clap::Parser as _;
use muster_api::ImageOrder;
use muster_cli::failure::Failure;
use muster_cli::orders::outcome::Outcome;
use muster_cli::orders::plan::OrderPlan;
use muster_cli::orders::{Details, Order, Reason, Risk};
use muster_cli::ui::confirm::{self, ConfirmForm};
use muster_cli::ui::done::{self, OrderResult};
use muster_cli::ui::fields::Fields;
use muster_sigv4::encoded;
use serde_json::{Value, json};

use super::pages::{about, answer, is_text, lines, queue, spoilt};
use crate::fake::{Fake, NOW};
use crate::github::{installed, tested};
use crate::image::{family, status};
use crate::orders::says;
use crate::services::{attributes, queues};
use crate::{compare, recorded};

pub(crate) fn order(action: &str, fields: &str) -> Order {
    Order::read(action, &Fields::read(fields.as_bytes())).expect("an order")
}

pub(crate) fn plan(action: &str, fields: &str) -> OrderPlan {
    let order = order(action, fields);
    let first = order.lookup().map(|lookup| answer(&lookup.question()));
    let would = match &order {
        Order::Switch { .. } | Order::Redrive { .. } | Order::Adopt { .. } | Order::Hook(..) => {
            None
        }
        Order::Delete { .. } => Some(recorded("delete_dry_run")),
        Order::Apply { .. } | Order::Restore { .. } => Some(recorded("pools_dry_run")),
        Order::Canary { .. } => Some(recorded("canary_dry_run")),
        Order::Image { what, .. } => Some(images(*what)),
    };
    OrderPlan::read(&order, first, would).expect("a plan")
}

/// Each order that the pages offer, with the fields of its form.
const ORDERS: [(&str, &str); 23] = [
    ("pause", "what=launches"),
    ("resume", "what=gpu"),
    ("resume", "what=launches"),
    ("delete", "name=small-l0-0"),
    ("force", "name=small-l0-0"),
    ("kill", "name=small-l0-0"),
    ("bypass", "name=small-l0-0"),
    ("restore", "version=1"),
    ("apply", "file=pools%3A+%5B%5D"),
    ("canary", "pool=small"),
    ("canary", "pool=small&entity=acme"),
    ("redrive", "queue=jobs"),
    ("redrive", "queue=launches"),
    ("adopt", "repository=acme%2Fweb"),
    ("hook", "what=test"),
    ("hook", "what=set"),
    ("hook", "what=rotate"),
    ("hook", "what=remove"),
    ("image", "what=on"),
    ("image", "what=off"),
    ("image", "what=build&family=x64"),
    ("image", "what=rollback&family=x64"),
    ("image", "what=delete"),
];

#[test]
fn an_order_is_told_before_it_is_given() {
    let told = ORDERS.map(|(action, fields)| {
        let order = order(action, fields);
        let page = confirm::page(
            &order,
            &Ok(plan(action, fields)),
            &ConfirmForm::default(),
            None,
            "0a",
            &about(),
        );
        let (reason, by) = ("moving subnets".to_owned(), "mira".to_owned());
        let request = order.request(&Details { reason: Some(reason), by: Some(by), length: None });
        let request = request.map_or_else(|| "SQS".to_owned(), |request| request.to_string());
        format!("== {}\n{}→ {request}\n", order.confirmed_at(), lines(&page))
    });
    compare("ui_confirm.html", &told.join("\n"));
}

/// The number of an order's kind. A new kind needs a row above.
const fn kind(order: &Order) -> usize {
    match order {
        Order::Switch { .. } => 0,
        Order::Delete { .. } => 1,
        Order::Apply { .. } => 2,
        Order::Restore { .. } => 3,
        Order::Canary { .. } => 4,
        Order::Redrive { .. } => 5,
        Order::Adopt { .. } => 6,
        Order::Hook(..) => 7,
        Order::Image { .. } => 8,
    }
}

/// What the compiler does not notice if it is missing for a new order: its form is read back as the same order, its plan
/// says something, and its command is one.
#[test]
fn every_order_is_read_planned_and_typed() {
    let mut kinds = std::collections::BTreeSet::new();
    for (action, fields) in ORDERS {
        let order = order(action, fields);
        kinds.insert(kind(&order));
        let form = order.fields().into_iter();
        let form =
            form.map(|(name, value)| [name.to_owned(), "=".to_owned(), encoded(&value)].concat());
        let form = Fields::read(form.collect::<Vec<_>>().join("&").as_bytes());
        assert_eq!(Order::read(order.action(), &form).as_ref(), Some(&order), "{action} {fields}");
        assert!(!plan(action, fields).sentences(&order).is_empty(), "{action} {fields}");
        let command = order.command().replace("…", "moving subnets");
        let words = command.split('"').enumerate().flat_map(|(index, part)| match index % 2 {
            0 => part.split_whitespace().collect::<Vec<_>>(),
            _ => vec![part],
        });
        let refused = muster_cli::args::Muster::try_parse_from(words).err();
        assert!(refused.is_none(), "{command}: {refused:?}");
    }
    assert!(kinds.into_iter().eq(0..9), "a kind of order has no row");
}

/// The answer to an order about images, and to its dry run.
fn images(what: ImageOrder) -> Value {
    let change = match what {
        ImageOrder::On => "images are on",
        ImageOrder::Off => "images are off",
        ImageOrder::Build => "an image for x64 is built as soon as a machine is available",
        ImageOrder::Rollback => "machines of x64 boot ami-0a instead of ami-0b",
        ImageOrder::Delete => "image ami-0b of x64 is deleted",
    };
    let mut answer = status(true, &[family(&json!({}))], 0);
    answer["changes"] = json!([change]);
    answer
}

fn done(action: &str, fields: &str, answer: Value) -> String {
    let order = order(action, fields);
    match done::of(&order, answer, NOW).expect("its answer") {
        OrderResult::At(page, sentences) => {
            format!("→ {}: {}\n", page.address(), sentences.join(" "))
        }
        OrderResult::Said(said) => lines(&done::page(&order, &said, &about())),
    }
}

#[test]
fn an_order_shows_what_came_of_it() {
    let mut canary = recorded("canary");
    canary["name"] = json!("small-l1-0");
    let all = [
        done("delete", "name=small-l0-0", recorded("delete")),
        done("canary", "pool=small", canary),
        done("redrive", "queue=jobs", queue("jobs", 2)),
        done("redrive", "queue=jobs", queue("jobs", 0)),
        done("adopt", "repository=acme%2Fweb", recorded("jobs_adopted")),
        done("adopt", "repository=acme%2Fweb", recorded("jobs_adopted_again")),
        done("hook", "what=test", tested(202)),
        done("hook", "what=test", tested(401)),
        done("hook", "what=rotate", installed()),
        done("image", "what=rollback&family=x64", images(ImageOrder::Rollback)),
        done("image", "what=build", images(ImageOrder::Build)),
    ];
    compare("ui_done.html", &all.join("\n"));
    let order = order("adopt", "repository=acme%2Fweb");
    let spoilt = spoilt(recorded("jobs_adopted"), "", &mut 0);
    let OrderResult::Said(said) = done::of(&order, spoilt, NOW).expect("its answer") else {
        panic!()
    };
    is_text("taken in", &done::page(&order, &said, &about()));
}

#[test]
fn what_makes_no_order_is_none() {
    for (action, fields) in [
        ("adopt", "repository=acme"),
        ("adopt", "repository="),
        ("adopt", "repository=%22%3E%3Cimg%2Fsrc"),
        ("canary", "pool=small&entity=a%2Fb%2Fc"),
        ("canary", "entity=acme"),
        ("redrive", "queue=nothing"),
        ("hook", "what=nothing"),
        ("image", "what=nothing"),
        ("image", "what=build&family=x+64"),
        ("nothing", "name=small-l0-0"),
    ] {
        assert_eq!(
            Order::read(action, &Fields::read(fields.as_bytes())),
            None,
            "{action} {fields}"
        );
        is_text(action, &confirm::unread(action, &about()));
    }
}

#[test]
fn an_order_wants_a_reason_and_a_name_where_something_may_be_lost() {
    let given = |reason: &str, typed: &str| ConfirmForm {
        reason: reason.to_owned(),
        typed: typed.to_owned(),
        ..ConfirmForm::default()
    };
    let plain = order("delete", "name=small-l0-0");
    let force = order("force", "name=small-l0-0");
    assert!(given("old image", "").check(&plain).is_ok());
    assert!(given(" old ", "").check(&plain).is_err());
    assert!(given("fives", "").check(&plain).is_ok());
    assert!(given("four", "").check(&plain).is_err());
    for action in ["force", "kill", "bypass"] {
        let grave = order(action, "name=small-l0-0");
        for (typed, is_right) in [
            ("small-l0-0", true),
            (" small-l0-0 ", true),
            ("small-l0-1", false),
            ("small-l0", false),
            ("small-l0-0-1", false),
            ("SMALL-L0-0", false),
            ("", false),
        ] {
            assert_eq!(
                given("old image", typed).check(&grave).is_ok(),
                is_right,
                "{action} {typed:?}"
            );
        }
    }
    assert!(given("old", "small-l0-0").check(&force).is_err());
}

#[test]
fn a_pause_may_have_an_end_and_nothing_else_has_one() {
    let given = |length: &str| ConfirmForm { length: length.to_owned(), ..filled() };
    let pause = order("pause", "what=launches");
    for (length, seconds) in [("", None), (" 2h ", Some(7_200)), ("30d", Some(2_592_000))] {
        assert!(given(length).check(&pause).is_ok(), "{length}");
        let request = given(length).request(&pause, None).expect("a request");
        assert_eq!(request["for_seconds"].as_u64(), seconds, "{length}");
    }
    for length in ["59s", "31d", "soon"] {
        assert!(given(length).check(&pause).is_err(), "{length}");
    }
    let resume = order("resume", "what=launches");
    let request = given("2h").request(&resume, None).expect("a request");
    assert!(given("2h").check(&resume).is_ok() && request["for_seconds"].is_null(), "{request}");
}

fn filled() -> ConfirmForm {
    ConfirmForm { reason: "moving subnets".to_owned(), ..ConfirmForm::default() }
}

/// It writes the record of the pools again, follows renames, and retries delayed launches.
#[test]
fn an_unchanged_file_can_be_applied_again() {
    for (action, fields) in [("apply", "file=pools%3A+%5B%5D"), ("restore", "version=1")] {
        let order = order(action, fields);
        let plan = OrderPlan::read(&order, None, Some(recorded("pools_unchanged")));
        let plan = Ok(plan.expect("a plan"));
        let page = confirm::page(&order, &plan, &ConfirmForm::default(), None, "0a", &about());
        assert!(page.contains(&format!("action=\"/do/{action}\"")), "{page}");
    }
}

#[test]
fn a_pause_needs_no_answer_about_its_effect() {
    for (action, fields, is_offered) in [
        ("pause", "what=launches", true),
        ("resume", "what=gpu", true),
        ("delete", "name=small-l0-0", false),
        ("hook", "what=remove", false),
    ] {
        let order = order(action, fields);
        let failed = Err(Failure::NoAnswer { function: "ci-admin".to_owned() });
        let page = confirm::page(&order, &failed, &ConfirmForm::default(), None, "0a", &about());
        assert_eq!(page.contains("method=\"post\""), is_offered, "{action}: {page}");
    }
}

/// An order in both places: the command, the form, the function's answers to the terminal, and the answer to the order.
type Row = (Vec<&'static str>, &'static str, &'static str, Vec<Value>, Value);

fn image(word: &'static str, fields: &'static str, what: ImageOrder) -> Row {
    let answer = || images(what);
    let asks = matches!(what, ImageOrder::Off | ImageOrder::Rollback | ImageOrder::Delete);
    let answers = if asks { vec![answer(), answer()] } else { vec![answer()] };
    (vec!["image", word], "image", fields, answers, answer())
}

#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn rows() -> Vec<Row> {
    let (show, dry, deleted) = (recorded("show"), recorded("delete_dry_run"), recorded("delete"));
    let delete = || vec![show.clone(), dry.clone(), deleted.clone()];
    let name = "name=small-l0-0";
    let (dry_run, applied) = (recorded("pools_dry_run"), recorded("pools_applied"));
    let restored = recorded("pools_restored");
    let github = || answer(&muster_cli::ui::memory::PageQuery::GitHub);
    let switch = || recorded("switch");
    vec![
        (vec!["pause", "launches"], "pause", "what=launches", vec![switch()], switch()),
        (vec!["resume", "own"], "resume", "what=own", vec![switch()], switch()),
        (vec!["delete", "small-l0-0"], "delete", name, delete(), deleted.clone()),
        (vec!["delete", "small-l0-0", "--force"], "force", name, delete(), deleted.clone()),
        (
            vec!["delete", "small-l0-0", "--kill-running-job"],
            "kill",
            name,
            delete(),
            deleted.clone(),
        ),
        (
            vec!["delete", "small-l0-0", "--bypass-github-unauthorized"],
            "bypass",
            name,
            delete(),
            deleted.clone(),
        ),
        (
            vec!["pools", "apply", "a.yaml"],
            "apply",
            "file=pools%3A+%5B%5D",
            vec![dry_run.clone(), applied.clone()],
            applied,
        ),
        (
            vec!["pools", "restore", "1"],
            "restore",
            "version=1",
            vec![dry_run, restored.clone()],
            restored,
        ),
        (
            vec!["dead-letters", "jobs", "--redrive"],
            "redrive",
            "queue=jobs",
            vec![],
            queue("jobs", 2),
        ),
        (
            vec!["jobs", "--adopt", "acme/web"],
            "adopt",
            "repository=acme%2Fweb",
            vec![recorded("jobs_adopted")],
            recorded("jobs_adopted"),
        ),
        (vec!["github", "hook", "test"], "hook", "what=test", vec![tested(202)], tested(202)),
        (vec!["github", "hook", "set"], "hook", "what=set", vec![installed()], installed()),
        (
            vec!["github", "rotate"],
            "hook",
            "what=rotate",
            vec![github(), installed(), tested(202)],
            installed(),
        ),
        (
            vec!["github", "hook", "remove"],
            "hook",
            "what=remove",
            vec![github(), installed()],
            installed(),
        ),
        image("on", "what=on", ImageOrder::On),
        image("off", "what=off", ImageOrder::Off),
        image("build", "what=build", ImageOrder::Build),
        image("rollback", "what=rollback", ImageOrder::Rollback),
        image("delete", "what=delete", ImageOrder::Delete),
    ]
}

/// Runs the command in a pipe, where nothing is wrapped.
fn terminal(
    row: &Row,
    reason: Option<&'static str>,
    said: &[&'static str],
    answers: usize,
) -> String {
    let (line, action, _, all, _) = row;
    let is_redrive = *action == "redrive";
    let services = match (is_redrive, answers) {
        (false, _) => vec![],
        (true, 0) => vec![queues(), attributes(2, 0)],
        (true, _) => vec![queues(), attributes(2, 0), Ok(json!({}))],
    };
    let reason = reason.into_iter().flat_map(|reason| ["--reason", reason]);
    let line: Vec<&str> = line.iter().copied().chain(reason).collect();
    let fake = says(all.iter().take(answers).cloned(), said);
    Fake { width: None, file: "pools: []", services: services.into(), ..fake }.run(&line)
}

#[test]
fn an_order_is_the_same_in_the_terminal_and_in_the_browser() {
    for row in rows() {
        let (line, action, fields, all, answer) = &row;
        let order = order(action, fields);
        let is_told = order.reason() != Reason::None;
        let reason = is_told.then_some("moving subnets");
        let confirmation: &[&'static str] = match order.risk() {
            Risk::None => &[],
            Risk::Confirm => &["y"],
            Risk::Type(_) => &["small-l0-0"],
        };
        let is_asked = order.risk() != Risk::None && !matches!(order, Order::Redrive { .. });
        let questions = [order.lookup().is_some(), order.dry_run(None).is_some()];
        let before = questions.iter().filter(|asked| **asked && is_asked).count();
        let told = terminal(&row, reason, confirmation, all.len().max(1));
        assert!(told.contains("exit 0"), "{line:?}: {told}");
        let plan = plan(action, fields);
        if order.risk() != Risk::None {
            for sentence in plan.sentences(&order) {
                assert!(told.contains(&sentence), "{line:?} plans {sentence:?}: {told}");
            }
        }
        for sentence in
            Outcome::read(&order, answer.clone(), NOW).expect("its answer").sentences(NOW)
        {
            assert!(told.contains(&sentence), "{line:?} ends with {sentence:?}: {told}");
        }
        // Neither place goes on without the confirmation.
        let given =
            ConfirmForm { reason: reason.unwrap_or_default().to_owned(), ..ConfirmForm::default() };
        if order.risk() != Risk::None {
            let told = terminal(&row, reason, &["small-l0"], before);
            assert!(!told.contains("exit 0"), "{line:?}: {told}");
        }
        let typed = ConfirmForm { typed: "small-l0".to_owned(), ..given.clone() };
        let is_typed = matches!(order.risk(), Risk::Type(_));
        assert_eq!(typed.check(&order).is_err(), is_typed, "{line:?}");
        let typed = ConfirmForm { typed: "small-l0-0".to_owned(), ..given };
        assert_eq!(typed.check(&order), Ok(()), "{line:?}");
        // Nor without the reason.
        if order.reason() == Reason::Required {
            let told = terminal(&row, None, &[], before);
            assert!(told.contains("Pass a reason"), "{line:?}: {told}");
            assert!(
                ConfirmForm { reason: String::new(), ..typed }.check(&order).is_err(),
                "{line:?}"
            );
        }
    }
}
