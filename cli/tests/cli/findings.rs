//! Every finding on every screen: the same message and the same way to fix it, made by one function.

use muster_api::answers::{
    AppStatus, ExplainedJob, Finding, LimitStatus, NoteKind, OrphanStatus, Overview, Severity,
    ShownSwitches, StackStatus,
};
use muster_cli::doctor::checks;
use muster_cli::page::Screen;
use muster_cli::ui::memory::{Memory, PageQuery};
use muster_cli::ui::page::UiPage;
use muster_cli::ui::render;
use muster_cli::views;
use muster_control::admin::findings::{StackFacts, findings};
use muster_control::notices::Notices;
use muster_domain::app::AppCheck;
use muster_domain::ec2::{CooldownScope, ErrorClass};
use muster_domain::launch::record::cooldown::Cooldown;
use muster_domain::launch::record::trouble::{Trouble, TroubleScope};
use muster_domain::pool::limits::Scope;
use muster_domain::rerun::Rerun;
use muster_domain::switches::SwitchedOff;
use muster_domain::time::Seconds;
use muster_domain::timings::Timings;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::fake::NOW;
use crate::recorded;
use crate::ui::pages::about;

fn read<T: DeserializeOwned>(answer: Value) -> T {
    serde_json::from_value(answer).expect("an answer")
}

/// A stack without a finding, and what is known apart from its overview.
struct Known {
    overview: Overview,
    app: AppStatus,
    troubles: Vec<Trouble>,
    cooldowns: Vec<Cooldown>,
    reruns: Vec<Rerun>,
    orphans: Vec<OrphanStatus>,
}

impl Known {
    fn new() -> Self {
        let overview: StackStatus = read(recorded("status_quiet"));
        let overview = overview.overview;
        let (troubles, cooldowns, reruns, orphans) = <_>::default();
        Self { overview, app: AppStatus::default(), troubles, cooldowns, reruns, orphans }
    }

    fn findings(&self) -> Vec<Finding> {
        findings(&StackFacts {
            overview: &self.overview,
            app: Some(&self.app),
            failing: &[],
            foreign: &[],
            troubles: &self.troubles,
            cooldowns: &self.cooldowns,
            reclaimed: &[],
            reruns: &self.reruns,
            orphans: &self.orphans,
            notices: None,
            refused_prices: None,
            images: None,
        })
    }

    /// Jobs that wait in the first pool, which launches nothing for this reason.
    fn noted(&mut self, kind: NoteKind, message: &str) {
        let pool = &mut self.overview.pools[0];
        (pool.waiting_jobs, pool.oldest_waiting_job_seconds) = (2, Some(Seconds(7_200)));
        let note = json!({ "kind": kind, "severity": "warning", "message": message });
        pool.note = Some(read(note));
    }

    fn lacks(&mut self, check: AppCheck, why: &str) {
        (self.app.lacks, self.app.checks) = (vec![why.to_owned()], vec![check]);
    }

    fn troubled(&mut self, scope: TroubleScope) {
        let trouble = Trouble {
            scope,
            generation: 0,
            by_machine: true,
            since: NOW - Seconds(86_400),
            at: NOW,
            failures: 4,
            probes: 1,
            certain: false,
            probed_at: None,
            until: NOW + Seconds(70),
            fixed_at: None,
            last: None,
            reason: "403: no".to_owned(),
        };
        self.troubles.push(trouble);
    }

    /// A workflow run with an interrupted job.
    fn interrupted(&mut self, state: Value) {
        let mut rerun = json!({ "schema": 1, "run": 7, "repository": "acme/app", "pool": "small",
            "opened_at": NOW, "lost": [] });
        let fields = state.as_object().expect("fields").clone();
        rerun.as_object_mut().expect("an object").extend(fields);
        self.reruns.push(read(rerun));
    }

    fn refused(&mut self, closed: CooldownScope, class: ErrorClass) {
        let (at, until) = (NOW, NOW + Seconds(70));
        let (code, message) = ("Code".to_owned(), "not now".to_owned());
        self.cooldowns.push(Cooldown {
            closed,
            since: at,
            at,
            until,
            times: 2,
            class,
            code,
            message,
        });
    }
}

fn off() -> SwitchedOff {
    SwitchedOff { since: NOW, by: "ada".to_owned(), reason: "moving".to_owned(), until: None }
}

fn waits(wait: &str) -> Value {
    json!({ "state": "open", "due": NOW, "looks": 1, "wait": wait, "since": NOW })
}

type Row = (&'static str, fn(&mut Known));

/// The key of the finding, and what causes it.
const ROWS: [Row; 24] = [
    ("app-installed", |known| known.lacks(AppCheck::Installed, "the App is installed nowhere")),
    ("app-hook-address", |known| {
        known.lacks(AppCheck::HookAddress, "GitHub sends events to https://old.example, not here");
    }),
    ("app-warm-event", |known| known.lacks(AppCheck::WarmEvent, "no push warms pool small")),
    ("app-reruns", |known| known.lacks(AppCheck::Reruns, "jobs of pool small are not re-run")),
    ("app-unknown", |known| known.app.unknown.push("GitHub gives no answer".to_owned())),
    ("launches-paused", |known| known.overview.switches.launches = Some(off())),
    ("deletes-paused", |known| known.overview.switches.deletes = Some(off())),
    ("pool-paused:small", |known| {
        let switches = &mut known.overview.switches;
        *switches = ShownSwitches {
            pools: [("small".parse().expect("a name"), off())].into(),
            ..switches.clone()
        };
    }),
    ("pool-disabled:small", |known| known.noted(NoteKind::Disabled, "not enabled")),
    ("pool-removed:small", |known| {
        known.noted(NoteKind::Removed, "removed; its machines finish their jobs");
    }),
    ("pool-maximum:small", |known| known.noted(NoteKind::Maximum, "at its maximum")),
    ("pool-withheld:small", |known| known.noted(NoteKind::Withheld, "GitHub leaves runners idle")),
    ("pool-unserved:small", |known| known.noted(NoteKind::Unserved, "its labels changed")),
    ("pool-failing:small", |known| {
        known.troubled(TroubleScope::Pool("small".parse().expect("a name")));
    }),
    ("entity-refused:acme", |known| {
        known.troubled(TroubleScope::Entity("acme".parse().expect("one")));
    }),
    ("github-limit:acme", |known| {
        known.troubled(TroubleScope::Limit("acme".parse().expect("one")));
    }),
    ("limit-reached:stack", |known| {
        known.overview.limits = vec![LimitStatus { of: Scope::Stack, max: Some(3), live: 3 }];
    }),
    ("ec2-refuses-pool:small", |known| {
        let pool = CooldownScope::Pool("small".parse().expect("a name"));
        known.refused(pool, ErrorClass::Configuration);
    }),
    ("ec2-calls", |known| known.refused(CooldownScope::Calls, ErrorClass::Throttle)),
    ("rerun-waiting", |known| known.interrupted(waits("run"))),
    ("rerun-too-often:acme/app/runs/7", |known| known.interrupted(waits("too_often"))),
    ("rerun-denied:acme", |known| {
        let mut denied = waits("run");
        denied["denied_since"] = json!(NOW);
        known.interrupted(denied);
    }),
    ("rerun-outcomes", |known| {
        let superseded = json!({ "kind": "superseded" });
        known.interrupted(json!({ "state": "done", "at": NOW, "outcome": superseded }));
    }),
    ("orphans", |known| {
        let orphan = json!({ "machine": "i-0000000000000000f", "instance": null, "launch": "small-l1",
            "since": NOW, "attempts": 3, "last_error": null });
        known.orphans.push(read(orphan));
    }),
];

const SCREEN: Screen = Screen { width: Some(2_000), colour: false };

/// The text of each screen that shows these findings.
fn screens(known: &Known, all: &[Finding]) -> Vec<(&'static str, String)> {
    let overview = Overview { findings: all.to_vec(), ..known.overview.clone() };
    let status = views::status::page(&overview, "us-east-1", SCREEN);
    let piped = views::status::talk(&overview);
    let watch = views::watch::stack(Some(&overview), "us-east-1", &[], None, 200, NOW, SCREEN);
    let mut facts = super::doctor::well();
    let running = facts.running.as_mut().expect("a stack");
    running.status.as_mut().expect("a status").overview = overview.clone();
    let doctor = views::doctor::page(&facts, &checks(&facts), SCREEN);
    let mut job: ExplainedJob = read(recorded("explain_job"));
    job.findings = all.to_vec();
    let explain = views::job::page(&job, SCREEN);
    let mut memory = Memory::default();
    for (question, answer) in [
        (PageQuery::Overview, json!(overview)),
        (PageQuery::Waits(2), recorded("waits_by_the_hour")),
    ] {
        assert!(memory.is_due(&question, NOW));
        memory.learn(&question, Ok(answer), NOW);
    }
    let html = render(&UiPage::Overview, &memory, &about(), NOW);
    let html = html
        .replace("&quot;", "\"")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    let sent = Notices::default().seen(all, "address", NOW);
    let sent = sent.due(all, &Timings::default(), NOW + Seconds(600));
    let sent = sent
        .iter()
        .map(|one| format!("{}\n{}\n", one.message, one.fix.clone().unwrap_or_default()));
    vec![
        ("status", status),
        ("status, through a pipe", piped),
        ("watch", watch),
        ("doctor", doctor),
        ("explain", explain),
        ("the overview page", html),
        ("a notification", sent.collect()),
    ]
}

#[test]
fn every_screen_shows_the_same_finding() {
    assert_eq!(Known::new().findings(), [], "it is well");
    for (key, cause) in ROWS {
        let mut known = Known::new();
        cause(&mut known);
        let all = known.findings();
        let [one] = &all[..] else { panic!("{key}: {all:#?}") };
        assert_eq!(one.key, key);
        let fix = one.fix.as_deref().unwrap_or_else(|| panic!("{key} says nothing to do"));
        assert!(one.message.ends_with('.') && !one.message.contains("T00:"), "{}", one.message);
        assert_eq!(one.kind(), one.kind().to_lowercase());
        for (screen, text) in screens(&known, &all) {
            // A note is not sent.
            if screen == "a notification" && one.severity == Severity::Note {
                continue;
            }
            assert!(text.contains(&one.message), "{key} on {screen}: {} in {text}", one.message);
            assert!(text.contains(fix), "{key} on {screen}: {fix} in {text}");
        }
    }
}

/// A green page says what it did not check, and so does one with findings.
#[test]
fn a_screen_names_what_it_did_not_check() {
    let known = Known::new();
    for (screen, text) in screens(&known, &[]) {
        let is_checked_elsewhere = ["status", "watch", "the overview page"].contains(&screen);
        assert_eq!(text.contains("Not checked here"), is_checked_elsewhere, "{screen}: {text}");
    }
}

#[test]
fn errors_come_first() {
    let mut known = Known::new();
    for (_, cause) in ROWS {
        cause(&mut known);
    }
    let all: Vec<Severity> = known.findings().iter().map(|one| one.severity).collect();
    assert!(all.is_sorted() && all.contains(&Severity::Error), "{all:?}");
}
