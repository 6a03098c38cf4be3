//! The pages, from answers that were recorded in the simulated cloud.

use muster_cli::failure::Failure;
use muster_cli::ui::confirm::{self, ConfirmForm};
use muster_cli::ui::fields::Fields;
use muster_cli::ui::frame::About;
use muster_cli::ui::go::{self, Way};
use muster_cli::ui::memory::{Memory, PageQuery};
use muster_cli::ui::page::UiPage;
use muster_cli::ui::{render, report};
use muster_domain::time::Seconds;
use serde_json::{Value, json};

use super::orders::{order, plan};
use crate::fake::NOW;
use crate::github::{installed, with};
use crate::{compare, drawn, recorded};

pub(crate) fn about() -> About {
    About {
        stack: "ci".to_owned(),
        region: "us-east-1".to_owned(),
        release: "0.3.0".to_owned(),
        github: "github.com".to_owned(),
        is_read_only: false,
        draft: "0a".to_owned(),
    }
}

fn page(address: &str) -> UiPage {
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    UiPage::read(path, &Fields::read(query.as_bytes())).unwrap_or_else(|| panic!("{address}"))
}

/// What the function says to a question.
pub(crate) fn answer(question: &PageQuery) -> Value {
    match question {
        PageQuery::Overview => overview(),
        PageQuery::Status => drawn("status"),
        PageQuery::Costs(..) => recorded("costs"),
        PageQuery::Waits(2) => recorded("waits_by_the_hour"),
        PageQuery::Waits(_) => recorded("waits"),
        PageQuery::Trend => json!({
            "jobs": [null, 0, 3, 14, 2], "machines": [4, null, 8, 10, 10], "failed": null,
        }),
        PageQuery::List => drawn("list"),
        PageQuery::Show(_) => recorded("show"),
        PageQuery::Jobs => drawn("jobs"),
        PageQuery::Explain(key) if key.job == 7 => recorded("explain_job_over"),
        PageQuery::Explain(_) => recorded("explain_job"),
        PageQuery::Pools => recorded("pools"),
        PageQuery::History => recorded("pools_history"),
        PageQuery::Phases(pool) => {
            let mut answer = recorded("phases");
            answer["pools"][0]["pool"] = json!(pool);
            answer
        }
        PageQuery::Audit(_) => recorded("audit"),
        PageQuery::GitHub => with(
            installed(),
            json!({
                "hook": { "url": "https://old.example.com/webhook", "ours": false },
                "lacks": ["GitHub sends events to https://old.example.com/webhook, not to this stack: muster github hook set"],
                "unknown": ["the groups of acme cannot be read"],
                "deliveries": [
                    { "event": "workflow_job", "status": 503, "at": "2026-11-20T23:59:00.000Z" },
                    { "event": "workflow_job", "status": null, "at": "2026-11-20T23:58:00.000Z" },
                    { "event": "ping", "status": 202, "at": null },
                ],
            }),
        ),
        PageQuery::DeadLetters => {
            json!([queue("jobs", 2), queue("launches", 0), queue("reaps", 7)])
        }
        PageQuery::Letters(name) => json!({
            "queue": queue(name.name(), 3),
            "messages": [
                { "sent_at": "2026-11-20T23:59:00.000Z", "body": r#"{"job":"1/1"}"# },
                { "sent_at": null, "body": "{" },
            ],
        }),
    }
}

/// As SQS counts it.
pub(crate) fn queue(name: &str, messages: u64) -> Value {
    json!({ "queue": name, "messages": messages, "hidden": messages / 4, "url": "https://sqs/1/q", "arn": "arn" })
}

/// The drawn status, without what only the careful answer has.
fn overview() -> Value {
    let mut answer = drawn("status");
    for field in ["cooldowns", "switched", "app", "entities", "orphans"] {
        answer.as_object_mut().expect("fields").remove(field);
    }
    answer["findings"] = recorded("overview")["findings"].clone();
    answer
}

/// All that a page asks for, answered a while ago.
fn known(page: &UiPage, change: impl Fn(Value) -> Value) -> Memory {
    let mut memory = Memory::default();
    for question in page.questions() {
        assert!(memory.is_due(&question, NOW - Seconds(3)));
        memory.learn(&question, Ok(change(answer(&question))), NOW - Seconds(3));
    }
    memory
}

fn shown(address: &str) -> String {
    let page = page(address);
    render(&page, &known(&page, |answer| answer), &about(), NOW)
}

/// Returns the page inside its frame with one line per block element or table row.
pub(crate) fn lines(html: &str) -> String {
    const BLOCKS: [&str; 16] = [
        "h1", "h2", "h3", "p", "section", "ul", "li", "tr", "form", "div", "dl", "dt", "label",
        "svg", "g", "rect",
    ];
    let main = html.split_once("<main").and_then(|(_, rest)| rest.split_once("</main>"));
    let (main, _) = main.expect("a page");
    let is_block = |tag: &str| {
        let name = tag.split([' ', '>']).next().unwrap_or_default();
        BLOCKS.contains(&name)
    };
    let mut parts = main.split("><");
    let mut text = format!("<main{}", parts.next().unwrap_or_default());
    for part in parts {
        text.push_str(if is_block(part) { ">\n<" } else { "><" });
        text.push_str(part);
    }
    text + "\n"
}

const ADDRESSES: [&str; 18] = [
    "/",
    "/machines",
    "/machines?state=orphan",
    "/machines/small-l0-0",
    "/jobs",
    "/jobs/1/2",
    "/jobs/1/7",
    "/pools",
    "/pools/gpu",
    "/costs",
    "/costs?since=7d&by=pool",
    "/costs?since=7d&by=job&repository=acme%2Fapp",
    "/costs?pool=gpu",
    "/audit",
    "/audit?back=3",
    "/dead-letters",
    "/dead-letters/jobs",
    "/github",
];

#[test]
fn pages_are_as_recorded() {
    for (name, address) in [
        ("overview", "/"),
        ("machines", "/machines"),
        ("machine", "/machines/small-l0-0"),
        ("jobs", "/jobs"),
        ("job", "/jobs/1/7"),
        ("pool", "/pools/gpu"),
        ("costs", "/costs"),
        ("dead_letters", "/dead-letters"),
        ("letters", "/dead-letters/jobs"),
        ("github", "/github"),
    ] {
        compare(&format!("ui_{name}.html"), &lines(&shown(address)));
    }
}

#[test]
fn each_address_is_that_of_its_page() {
    for address in ADDRESSES {
        assert_eq!(page(address).address(), address);
    }
    let all = "/jobs?state=waiting&pool=gpu&q=a%26b+%C3%BC&from=100";
    assert_eq!(page(all).address(), all);
    for address in [
        "/nothing",
        "/jobs/1",
        "/jobs/x/2",
        "/machines/a/b",
        "//evil.example",
        "/pools/a/b/c",
        "/dead-letters/nothing",
        "jobs",
    ] {
        assert_eq!(UiPage::read(address, &Fields::default()), None, "{address}");
    }
}

#[test]
fn a_list_is_narrowed_and_has_an_end() {
    let many = |mut answer: Value| {
        if let Some(one) = answer.pointer("/instances/0").cloned() {
            let row = |n: usize| {
                let mut row = one.clone();
                row["name"] = json!(format!("default-{n}-0-0"));
                row
            };
            answer["instances"] = (0..250).map(row).collect();
        }
        answer
    };
    let rows = |address: &str| {
        let page = page(address);
        let html = render(&page, &known(&page, many), &about(), NOW);
        let rows: Vec<&str> = html.split("<tr><th class=\"own\" scope=\"row\">").skip(1).collect();
        let first = rows.first().and_then(|row| row.split("<bdi>").nth(1)?.split("</bdi>").next());
        (rows.len(), first.unwrap_or_default().to_owned())
    };
    assert_eq!(rows("/machines"), (100, "default-0-0-0".to_owned()));
    assert_eq!(rows("/machines?from=200"), (50, "default-200-0-0".to_owned()));
    assert_eq!(rows("/machines?from=9000"), (50, "default-200-0-0".to_owned()));
    assert_eq!(rows("/machines?q=-11-"), (1, "default-11-0-0".to_owned()));
    assert_eq!(rows("/machines?state=busy").0, 100);
    for address in [
        "/machines?state=ending",
        "/machines?pool=gpu",
        "/machines?state=nothing",
        "/machines?q=nothing",
    ] {
        assert_eq!(rows(address).0, 0, "{address}");
    }
}

/// What others may write. Each is shown, and none is markup.
const HOSTILE: [&str; 7] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)' x='",
    "\u{1b}[31mred\u{1b}[0m\u{7}\0",
    "\u{202e}gnp.exe\u{2066} שלום",
    "javascript:alert(1)",
    "</main></body>{{7*7}}",
];

/// Every text that others word says something hostile.
pub(crate) fn spoilt(value: Value, key: &str, turn: &mut usize) -> Value {
    const OWN: [&str; 12] = [
        "pool", "state", "kind", "machine", "launch", "job", "claim", "key", "status", "class",
        "phase", "entity",
    ];
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, inner)| {
                let inner = spoilt(inner, &name, turn);
                (name, inner)
            })
            .collect(),
        Value::Array(all) => all.into_iter().map(|one| spoilt(one, key, turn)).collect(),
        Value::String(text) => {
            let is_time = text.ends_with('Z') && text.contains("T");
            let is_worded = [
                "repository",
                "reason",
                "why",
                "message",
                "by",
                "what",
                "branch",
                "workflow",
                "explanation",
                "hint",
                "code",
                "subject",
                "body",
                "lacks",
                "unknown",
                "owner",
                "slug",
                "account",
                "html_url",
                "url",
                "event",
            ]
            .contains(&key);
            let is_label = key == "labels" && !text.is_empty();
            if OWN.contains(&key) || is_time || !(is_worded || is_label) {
                return Value::String(text);
            }
            *turn += 1;
            Value::String(format!(
                "{}{}",
                HOSTILE[*turn % HOSTILE.len()],
                "y".repeat(*turn % 3 * 100)
            ))
        }
        plain => plain,
    }
}

#[test]
fn text_of_others_stays_text() {
    let mut spoilt_texts = 0;
    for address in ADDRESSES {
        let page = page(address);
        let turn = std::cell::Cell::new(0);
        let memory = known(&page, |answer| {
            let mut n = turn.get();
            let answer = spoilt(answer, "", &mut n);
            turn.set(n);
            answer
        });
        spoilt_texts += turn.get();
        is_text(address, &render(&page, &memory, &about(), NOW));
    }
    assert!(spoilt_texts > 100, "{spoilt_texts}");
    let memory = Memory::default();
    for text in HOSTILE {
        let address = format!("/machines/{}", muster_cli::ui::fields::part(text));
        is_text(&address, &render(&page(&address), &memory, &about(), NOW));
        let query =
            format!("/machines?q={0}&state={0}&pool={0}", muster_cli::ui::fields::part(text));
        let page = page(&query);
        is_text(&query, &render(&page, &known(&page, |answer| answer), &about(), NOW));
        let given = ConfirmForm {
            reason: text.to_owned(),
            typed: text.to_owned(),
            length: text.to_owned(),
        };
        let failure = Failure::Usage(text.to_owned());
        let plan = Ok(plan("force", "name=small-l0-0"));
        let order = order("force", "name=small-l0-0");
        is_text(text, &confirm::page(&order, &plan, &given, Some(text), "00", &about()));
        is_text(text, &confirm::refused(&order, &failure, &about()));
    }
}

pub(crate) fn is_text(what: &str, html: &str) {
    for markup in [
        "<script>",
        "<img",
        "onerror=alert(1)>",
        "\" onmouseover",
        "href=\"javascript",
        "</main></body>{{",
    ] {
        assert!(!html.contains(markup), "{what}: {markup}");
    }
    let is_unseen = |c: char| {
        (c.is_control() && c != '\n')
            || ('\u{202a}'..='\u{202e}').contains(&c)
            || ('\u{2066}'..='\u{2069}').contains(&c)
    };
    assert!(
        !html.contains(is_unseen),
        "{what}: {:?}",
        html.split(is_unseen).next().map(|before| before
            .chars()
            .rev()
            .take(90)
            .collect::<String>())
    );
    assert_eq!(html.matches("<script").count(), 1, "{what}");
    assert_eq!(html.matches(" style=").count(), 0, "{what}: the policy lets no style through");
}

#[test]
fn a_delete_that_github_holds_up_has_a_way_without_it() {
    let offered = |waiting: &str| {
        let page = page("/machines/small-l0-0");
        let mark = json!({
            "at": "2026-11-20T23:36:10.000Z", "reason": { "kind": "runner_ended" }, "not_busy_since": null, "gate_passed": false,
            "removing_until": null, "deregistered": false, "waiting": { "kind": waiting }, "silences": 0, "kill_told": false,
        });
        let memory = known(&page, |mut answer| {
            answer["instance"]["state"] = json!("pending_delete");
            answer["instance"]["mark"] = mark.clone();
            answer
        });
        let html = render(&page, &memory, &about(), NOW);
        assert!(html.contains("Evidence for the delete"), "{html}");
        html.contains("/confirm/bypass?name=small-l0-0")
    };
    assert!(offered("unauthorized"));
    assert!(!offered("provider"));
}

#[test]
fn the_search_field_finds_pools_jobs_and_machines() {
    let mut memory = Memory::default();
    for question in go::QUESTIONS {
        assert!(memory.is_due(&question, NOW));
        memory.learn(&question, Ok(answer(&question)), NOW);
    }
    for (text, address) in [
        ("gpu", "/pools/gpu"),
        (" default ", "/pools/default"),
        ("984223540044", "/jobs/447080009/984223540044"),
        ("447080002/984223540003", "/jobs/447080002/984223540003"),
        ("default-4kq7v2-0-1", "/machines/default-4kq7v2-0-1"),
        ("i-0b2f6dcfdb79386ac", "/machines/i-0b2f6dcfdb79386ac"),
        ("acme/ml", "/jobs?q=acme%2Fml"),
        ("Train", "/jobs?q=Train"),
        ("m7i-flex", "/machines?q=m7i-flex"),
        ("ended-l0-0", "/machines/ended-l0-0"),
        ("", "/"),
    ] {
        let found = match go::way(text, &memory, "github.com") {
            Way::To(page) => page.address(),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(found, address, "{text}");
    }
}

/// A pool's own switch has no effect while the stack's is off.
#[test]
fn a_pools_page_offers_the_switch_that_is_off() {
    let offered = |of_stack: Value, of_pool: Value| {
        let page = page("/pools/default");
        let memory = known(&page, |mut answer| {
            if answer["pools"][0]["max"].is_number() {
                answer["switches"]["launches"] = of_stack.clone();
                answer["pools"][0]["launches_off"] = of_pool.clone();
            }
            answer
        });
        let html = render(&page, &memory, &about(), NOW);
        let link = html.split("href=\"/confirm/").find(|link| link.contains("what="));
        link.and_then(|link| link.split('"').next()).expect("a link").to_owned()
    };
    let off = || json!({ "since": NOW, "by": "mira", "reason": "new network", "until": null });
    assert_eq!(offered(Value::Null, Value::Null), "pause?what=default");
    assert_eq!(offered(Value::Null, off()), "resume?what=default");
    assert_eq!(offered(off(), off()), "resume?what=launches");
}

#[test]
fn without_an_answer_the_last_one_stays_with_its_age() {
    let page = page("/");
    let mut memory = known(&page, |answer| answer);
    let failure = Failure::NoAnswer { function: "ci-admin".to_owned() };
    memory.learn(&PageQuery::Overview, Err(failure.clone()), NOW);
    let html = render(&page, &memory, &about(), NOW);
    for told in
        ["3 s old", "No update since", "ci-admin did not answer in time.", "Needs attention"]
    {
        assert!(html.contains(told), "{told}: {html}");
    }
    let mut memory = Memory::default();
    memory.learn(&PageQuery::Overview, Err(failure), NOW);
    let html = render(&page, &memory, &about(), NOW);
    assert!(
        html.contains("ci-admin did not answer in time.") && !html.contains("No newer"),
        "{html}"
    );
}

#[test]
fn a_question_is_asked_once_at_a_time_and_anew_behind_an_order() {
    let (mut memory, question) = (Memory::default(), PageQuery::Overview);
    let all = [question.clone()];
    assert!(memory.is_due(&question, NOW) && memory.is_wanting(&all));
    assert!(!memory.is_due(&question, NOW + Seconds(60)), "it is on its way");
    memory.learn(&question, Ok(overview()), NOW + Seconds(1));
    assert!(!memory.is_due(&question, NOW + Seconds(4)) && !memory.is_wanting(&all));
    assert!(memory.is_due(&question, NOW + Seconds(5)), "it is five seconds old");
    memory.expire(NOW + Seconds(6));
    memory.learn(&question, Ok(overview()), NOW + Seconds(7));
    assert!(memory.is_wanting(&all), "that answer was made before the order");
    assert!(memory.is_due(&question, NOW + Seconds(7)));
    memory.learn(&question, Ok(overview()), NOW + Seconds(8));
    assert!(!memory.is_wanting(&all));
    assert!(memory.is_due(&question, NOW + Seconds(14)) && !memory.is_wanting(&all));
    memory.learn(&question, Ok(overview()), NOW + Seconds(15));
    assert!(memory.is_due(&question, NOW + Seconds(90)));
    assert!(memory.is_wanting(&all), "nobody has looked for a minute");
    memory.learn(&question, Ok(overview()), NOW + Seconds(91));
    assert!(!memory.is_wanting(&all));
}

#[test]
fn read_only_has_no_buttons() {
    let about = About { is_read_only: true, ..about() };
    for address in ADDRESSES {
        let page = page(address);
        let html = render(&page, &known(&page, |answer| answer), &about, NOW);
        assert!(!html.contains("/confirm/") && !html.contains("method=\"post\""), "{address}");
    }
}

#[test]
fn a_report_stands_by_itself() {
    let mut memory = Memory::default();
    for question in report::questions(7) {
        memory.is_due(&question, NOW);
        memory.learn(&question, Ok(answer(&question)), NOW);
    }
    let html = report::page(7, &memory, &about(), NOW);
    for told in ["Needs attention", "Wait until the first step", "Costs, ", "Pools", "<style>"] {
        assert!(html.contains(told), "{told}");
    }
    for other in ["<script", " href=\"", "src=", "/confirm/"] {
        assert!(!html.contains(other), "{other}");
    }
    // What the pages show too is on record once.
    let pages = ["/", "/costs?since=7d"].map(|address| lines(&shown(address))).join("");
    let own = lines(&html);
    let own = own.split_inclusive('\n').filter(|line| !pages.contains(*line));
    compare("ui_report.html", &own.collect::<String>());
}
