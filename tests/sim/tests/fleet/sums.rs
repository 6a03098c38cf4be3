//! What machines cost and how long jobs waited, as operators are answered it.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_control::context::Context;
use muster_control::ports::Operations as _;
use muster_control::sums::{PriceWatch, RollUp, late_since};
use muster_domain::ids::MachineId;
use muster_domain::time::{Seconds, Time};
use muster_domain::usage::{Date, Line};
use serde_json::{Value, json};

use crate::answers::{NOW, ask, check, quiet};
use crate::bench::Bench;

/// A day, seconds.
const DAY: u32 = 86_400;

/// A machine's line, of so many seconds before now; each part in seconds.
struct Told {
    number: u32,
    ago: u32,
    pool: &'static str,
    kind: &'static str,
    market: &'static str,
    reason: &'static str,
    parts: Value,
}

impl Told {
    fn new(number: u32, ago: u32) -> Self {
        let (pool, kind, market) = ("small", "m7i.large", "spot");
        let reason = "runner_ended";
        Self { number, ago, pool, kind, market, reason, parts: json!({}) }
    }

    fn line(&self, job: Option<Value>, t: Value) -> Line {
        let Self { number, ago, pool, kind, market, reason, parts } = self;
        let at = NOW - Seconds(*ago);
        let part = |name: &str| parts[name].as_u64().unwrap_or(0) * 1000;
        let line = json!({
            "schema": muster_domain::SCHEMA, "kind": "machine", "at": at, "at_by": "event",
            "pool": pool, "job": job,
            "machine": {
                "id": format!("i-{number:017x}"), "instance": format!("{pool}-{number}-0"),
                "type": kind, "zone": "us-east-1a", "market": market, "template": "3",
                "generation": 1, "reason": reason, "cause": null,
            },
            "since": at - Seconds(600), "t": t,
            "parts": {
                "start": part("start"), "work": part("work"), "end": part("end"),
                "idle": part("idle"), "vain": part("vain"),
            },
        });
        serde_json::from_value(line).expect("a line")
    }

    /// It ran a job that waited for so many seconds.
    fn ran(self, repository: &str, workflow: &str, name: &str, waited: u32, worked: u32) -> Line {
        let done = waited + worked;
        let job = json!({
            "key": format!("1/{}", self.number), "repository": repository,
            "private": repository.ends_with("ml"), "run": 9_900 + self.number, "attempt": 1,
            "name": name, "workflow": workflow, "branch": "main", "labels": ["linux"],
            "conclusion": if self.number.is_multiple_of(3) { "failure" } else { "success" },
            "actor": self.number.is_multiple_of(2).then_some("mira"),
        });
        let t = |second: u32| i64::from(second) * 1000;
        let t = json!({
            "heard": 300, "planned": t(waited.saturating_sub(45)), "launched": t(waited - 42),
            "asked": t(waited - 12), "registered": t(waited - 11), "listening": t(waited - 8),
            "started": t(waited), "completed": t(done), "exited": t(done + 2),
            "ended": 600_000,
        });
        let parts = json!({ "start": 42, "work": worked, "end": 20 });
        let pull_request = [Some(7), Some(123), None][self.number as usize % 3];
        Line { pull_request, ..Self { parts, ..self }.line(Some(job), t) }
    }

    fn ran_none(self, parts: Value) -> Line {
        Self { parts, ..self }
            .line(None, json!({ "planned": 0, "launched": 2_000, "ended": 600_000 }))
    }
}

/// Four days: two repositories, a machine that was kept idle, two that were bought in vain, one of
/// which has no price.
fn lines() -> Vec<Line> {
    let mut lines: Vec<Line> = (1..=12)
        .map(|n| Told::new(n, n * DAY / 4).ran("acme/app", "CI", "test", 49 + n, 120 + 10 * n))
        .collect();
    lines.push(Told::new(13, DAY).ran("acme/ml", "train", "fit <b>", 900, 280));
    let own = Told { pool: "own", market: "on-demand", ..Told::new(14, 2 * DAY) };
    lines.push(own.ran("acme/app", "Release", "build", 60, 300));
    lines.push(Told::new(15, DAY).ran_none(json!({ "idle": 1800 })));
    let died = Told { reason: "boot_timeout", ..Told::new(16, DAY) };
    lines.push(died.ran_none(json!({ "vain": 300 })));
    let huge = Told { kind: "x9.metal", reason: "boot_timeout", ..Told::new(17, 2 * DAY) };
    lines.push(huge.ran_none(json!({ "vain": 300 })));
    lines
}

/// With the prices that the world has.
fn told() -> Bench {
    let bench = quiet();
    let door = &bench.door;
    let watch = PriceWatch { context: Context::new(door, &(), door, &(), &door.sim.settings) };
    let seen = BTreeSet::new();
    let first = NOW - Seconds(5 * DAY);
    assert_eq!(bench.drive(watch.look(&seen, first)).expect("learned"), [] as [String; 0]);
    bench.change(|world| {
        for line in lines() {
            world.tables.usage.insert((line.at, line.subject()), line);
        }
    });
    bench
}

#[test]
fn costs_are_answered_by_what_is_asked_for() {
    let bench = told();
    check(&bench, "costs", json!({ "action": "costs" }));
    check(&bench, "costs_by_type", json!({ "action": "costs", "by": "type" }));
    let jobs = json!({ "action": "costs", "by": "job", "spread": true, "since": "2026-11-18" });
    check(&bench, "costs_spread", jobs);
    for (by, name) in [("pull-request", "costs_by_pull_request"), ("actor", "costs_by_actor")] {
        check(&bench, name, json!({ "action": "costs", "by": by }));
    }
    let own = json!({ "spot": { "x9.metal": 3.6 }, "factor": { "on-demand": 0.5 } });
    let own = json!({ "action": "costs", "by": "pool", "prices": own });
    check(&bench, "costs_at_own_prices", own);
    check(&quiet(), "costs_none", json!({ "action": "costs" }));
    let wrong = json!({ "action": "costs", "since": "2026-12-01" });
    assert_eq!(ask(&bench, wrong)["error"]["code"], "bad_request");
    let wrong = json!({ "action": "costs", "by": "job", "since": "2026-01-01" });
    assert_eq!(ask(&bench, wrong)["error"]["code"], "bad_request");
}

/// The last number of days that a request may go back, and the first that is too many.
#[test]
fn a_range_of_days_has_a_maximum() {
    let bench = quiet();
    let ago = |days: u32| Date::of(NOW - Seconds(days * DAY)).to_string();
    let rows = [
        (json!({ "action": "costs" }), 400),
        (json!({ "action": "costs", "by": "job" }), 92),
        (json!({ "action": "costs", "by": "pull-request" }), 92),
        (json!({ "action": "waits" }), 400),
        (json!({ "action": "waits", "hourly": true }), 3),
        (json!({ "action": "lines" }), 92),
    ];
    for (request, most) in rows {
        let tomorrow = Date::of(NOW + Seconds(DAY)).to_string();
        let (last, first, today) = (ago(most - 1), ago(most), ago(0));
        for (since, until, is_accepted) in [
            (&last, &today, true),
            (&last, &tomorrow, true),
            (&first, &today, false),
            (&today, &today, true),
            (&tomorrow, &tomorrow, false),
        ] {
            let mut request = request.clone();
            (request["since"], request["until"]) = (json!(since), json!(until));
            let answer = ask(&bench, request);
            let expected = if is_accepted { Value::Null } else { json!("bad_request") };
            assert_eq!(answer["error"]["code"], expected, "{since} to {until}, {most} days");
        }
    }
}

/// A day may have more lines than a page of the table.
#[test]
fn sums_are_the_same_where_lines_come_in_pages() {
    let bench = told();
    for page in [1, 3] {
        bench.change(|world| world.tables.page = page);
        check(&bench, "costs", json!({ "action": "costs" }));
        check(&bench, "waits", json!({ "action": "waits" }));
        let hourly =
            json!({ "action": "waits", "hourly": true, "since": "2026-11-19", "pool": "own" });
        check(&bench, "waits_by_the_hour", hourly);
    }
}

/// GitHub's names have no case. Names of pools have.
#[test]
fn costs_are_those_of_the_repository_and_the_pool_that_are_asked_for() {
    let bench = told();
    // Columns: the filter; the rows, all machines, those of no repository, and the jobs whose waits are summed up.
    let asked = [
        ("repository", "acme/app", [1, 13, 0, 14]),
        ("repository", "Acme/APP", [1, 13, 0, 14]),
        ("repository", "acme/ap", [0, 0, 0, 14]),
        ("repository", "acme", [0, 0, 0, 14]),
        ("pool", "own", [1, 1, 0, 1]),
        ("pool", "small", [2, 16, 3, 13]),
        ("pool", "OWN", [0, 0, 0, 0]),
    ];
    for (key, name, expected) in asked {
        let answer = ask(&bench, json!({ "action": "costs", "by": "repository", key: name }));
        let rows = answer["rows"].as_array().map_or(0, Vec::len) as u64;
        let number = |of: &Value| of.as_u64().unwrap_or_default();
        let rest = number(&answer["rest"]["machines"]);
        let (all, jobs) =
            (number(&answer["all"]["machines"]), number(&answer["waits"]["all"]["jobs"]));
        assert_eq!([rows, all, rest, jobs], expected, "{key} {name}");
    }
    // A repository's part of idle time does not depend on which repositories are asked for.
    let row = |spread: bool, repository: Option<&str>| {
        let request = json!({ "action": "costs", "by": "repository", "spread": spread, "repository": repository });
        let answer = ask(&bench, request);
        let rows = answer["rows"].as_array().expect("rows").clone();
        rows.into_iter().find(|row| row["name"] == "acme/app").expect("its row")
    };
    assert_eq!(row(true, Some("acme/app")), row(true, None));
    assert_ne!(row(true, None), row(false, None), "it has a part of idle time");
}

#[test]
fn waits_are_answered_by_pool_and_by_what_they_were_for() {
    let bench = told();
    check(&bench, "waits", json!({ "action": "waits" }));
    let hourly = json!({ "action": "waits", "hourly": true, "since": "2026-11-19", "pool": "own" });
    check(&bench, "waits_by_the_hour", hourly);
    // Each hour's jobs are those of the days.
    let by_the_hour = json!({ "action": "waits", "hourly": true, "since": "2026-11-19" });
    let answer = ask(&bench, by_the_hour);
    let hours = answer["series"].as_array().expect("hours").iter();
    let sum: u64 = hours.filter_map(|hour| hour["jobs"].as_u64()).sum();
    assert_eq!(answer["all"]["jobs"].as_u64(), Some(sum), "{answer}");
    assert!(sum > 5, "{sum} jobs of two days");
    let gone = json!({ "action": "waits", "pool": "gone" });
    assert_eq!(ask(&bench, gone)["error"]["code"], "not_found");
}

#[test]
fn lines_come_page_by_page_with_their_prices() {
    let bench = told();
    let day = json!({ "action": "lines", "since": "2026-11-20", "until": "2026-11-20" });
    check(&bench, "lines", day);
    bench.change(|world| world.tables.page = 3);
    let (mut found, mut page) = (Vec::new(), Value::Null);
    loop {
        let answer = ask(&bench, json!({ "action": "lines", "page": page }));
        let lines = answer["lines"].as_array().expect("lines").clone();
        assert!(!lines.is_empty() || answer["next"].is_null(), "an empty page: {answer}");
        found.extend(lines.into_iter().map(|line| serde_json::from_value(line).expect("a line")));
        page = answer["next"].clone();
        if page.is_null() {
            break;
        }
    }
    let ids = |lines: &[Line]| -> BTreeSet<MachineId> {
        lines.iter().map(|line| line.machine.as_ref().expect("a machine").id.clone()).collect()
    };
    assert_eq!((found.len(), ids(&found)), (lines().len(), ids(&lines())));
    let unpriced = found.iter().filter(|line| line.price.is_none()).count();
    assert_eq!(unpriced, 1, "the one of which nobody knows a price");
    let wrong = json!({ "action": "lines", "page": "nonsense" });
    assert_eq!(ask(&bench, wrong)["error"]["code"], "bad_request");
}

/// The day has prices of other types, and the new one is learned on the next day.
#[test]
fn a_type_that_is_new_at_the_end_of_a_day_has_the_price_of_the_next() {
    let bench = quiet();
    let door = &bench.door;
    let watch = PriceWatch { context: Context::new(door, &(), door, &(), &door.sim.settings) };
    let line = Told { kind: "c7a.large", ..Told::new(1, DAY) };
    let line = line.ran("acme/app", "CI", "test", 60, 120);
    bench.change(|world| world.tables.usage.insert((line.at, line.subject()), line));
    let day = Date::of(NOW - Seconds(DAY));
    let request = json!({ "action": "lines", "since": day, "until": day });
    let before: &[Arc<str>] = &[];
    for (seen, at, is_priced) in
        [(before, NOW - Seconds(DAY), false), (&["c7a.large".into()], NOW, true)]
    {
        let seen = seen.iter().cloned().collect();
        assert_eq!(bench.drive(watch.look(&seen, at)).expect("learned"), [] as [String; 0]);
        assert!(bench.change(|world| !world.tables.prices_by_hour.is_empty()), "of other types");
        let answer = ask(&bench, request.clone());
        assert_eq!(answer["lines"][0]["price"].is_object(), is_priced, "{seen:?}: {answer}");
    }
}

/// A year later somebody asks for the same days.
#[test]
fn days_that_were_rolled_up_say_the_same_without_their_lines() {
    let bench = told();
    let door = &bench.door;
    let days = RollUp { context: Context::new(door, &(), &(), &(), &door.sim.settings) };
    let asked = |by: &str| {
        let (since, until) = ("2026-11-17", "2026-11-20");
        json!({ "action": "costs", "by": by, "since": since, "until": until })
    };
    let early = |answer: Value| [answer["rows"].clone(), answer["all"].clone()];
    let before = ["repository", "workflow", "day"].map(|by| early(ask(&bench, asked(by))));
    // Each day has three chances, and the last of these days is over.
    for day in 0..4 {
        let now = NOW + Seconds(day * DAY) - Seconds(2 * DAY);
        let one = |minute: u32| bench.drive(days.run(now + Seconds(60 * minute))).expect("read");
        let morning = Date::of(now - Seconds(3_600));
        let before = [morning.before(), morning.before().before()];
        let expected = [before[0], before[1], before[1].before()].map(Some);
        assert_eq!([0, 1, 2].map(one), expected, "one day each sweep");
        assert_eq!(one(3), None, "nothing to do");
    }
    bench.change(|world| {
        let last: Date = "2026-11-17".parse().expect("a day");
        assert!(world.tables.days.keys().any(|(date, _)| *date == last));
        world.tables.usage.clear();
        world.tables.prices_by_hour.clear();
    });
    let later = Time::from_millis(NOW.as_millis() + 86_400_000 * 300);
    let after = ["repository", "workflow", "day"]
        .map(|by| early(crate::answers::ask_at(&bench, asked(by), later)));
    assert_eq!(after, before);
}

#[test]
fn prices_are_asked_for_once_an_hour_and_when_a_type_is_new() {
    let bench = quiet();
    let door = &bench.door;
    let watch = PriceWatch { context: Context::new(door, &(), door, &(), &door.sim.settings) };
    let calls = |second: u32, seen: &[&str]| {
        let before = bench.change(|world| world.calls.looks);
        let seen = seen.iter().map(|kind| (*kind).into()).collect();
        let told = bench.drive(watch.look(&seen, NOW + Seconds(second))).expect("learned");
        assert_eq!(told, [] as [String; 0]);
        bench.change(|world| world.calls.looks) - before
    };
    // Spot's prices, the list's of two types, and disks'.
    assert_eq!(calls(0, &[]), 4);
    assert_eq!(calls(60, &[]), 0);
    assert_eq!(calls(120, &["c7a.large"]), 2);
    assert_eq!(calls(180, &["c7a.large"]), 0);
    assert_eq!(calls(3_800, &[]), 1, "the list is asked once a day");
    assert_eq!(calls(DAY + 180, &[]), 5);
}

/// What is refused, the types that pools name, and then: the types with a Spot price and with a list
/// price, how many calls the next sweep and the next hour's make, and the sources that are reported
/// until they answer.
#[test]
fn a_refusal_ends_no_other_price_waits_an_hour_and_is_reported() {
    let three = ["a1.large", "b1.large", "c1.large"];
    let bulk: Vec<String> = (0..250).map(|n| format!("t{n}.large")).collect();
    let bulk: Vec<&str> = bulk.iter().map(String::as_str).collect();
    let both = ["spot", "list"];
    #[expect(clippy::type_complexity, reason = "a table")]
    let rows: &[(&[&'static str], &[&str], [usize; 2], [u64; 2], &[&str])] = &[
        (&[], &three, [3, 3], [0, 1], &[]),
        (&["DescribeSpotPriceHistory"], &three, [0, 3], [0, 4], &["spot"]),
        (&["GetProducts"], &three, [3, 0], [0, 5], &["list"]),
        (&["DescribeSpotPriceHistory", "GetProducts"], &three, [0, 0], [0, 8], &both),
        (&["b1.large"], &three, [2, 2], [0, 5], &both),
        (&["disk"], &three, [3, 3], [0, 2], &["list"]),
        (&[], &bulk, [250, 250], [0, 3], &[]),
        (&["t7.large"], &bulk, [249, 249], [0, 54], &both),
    ];
    for (refused, kinds, priced, calls, reported) in rows {
        let bench = Bench::of(vec![]);
        let door = &bench.door;
        let watch = PriceWatch { context: Context::new(door, &(), door, &(), &door.sim.settings) };
        let seen: BTreeSet<Arc<str>> = kinds.iter().map(|kind| (*kind).into()).collect();
        bench.change(|world| world.ec2.without_prices = refused.to_vec());
        let look = |second: u32| {
            let before = bench.change(|world| world.calls.looks);
            let told = bench.drive(watch.look(&seen, NOW + Seconds(second))).expect("looked");
            (told, bench.change(|world| world.calls.looks) - before)
        };
        let (problems, _) = look(0);
        assert_eq!(problems.is_empty(), refused.is_empty(), "{refused:?}: {problems:?}");
        let known =
            bench.change(|world| world.tables.prices.clone()).expect("learned").into_record();
        let spot = known.spot.values().filter(|zones| !zones.is_empty()).count();
        assert_eq!([spot, known.list.len()], *priced, "{refused:?}");
        assert_eq!([look(60).1, look(3_600).1].map(u64::from), *calls, "{refused:?}");
        let findings = |second| {
            let overview = json!({ "action": "overview" });
            let answer = crate::answers::ask_at(&bench, overview, NOW + Seconds(second));
            let all = answer["findings"].as_array().expect("a list").clone();
            all.into_iter().map(|one| one["key"].as_str().expect("a key").to_owned())
        };
        let expected = reported.iter().map(|source| format!("prices-refused:{source}"));
        assert!(
            findings(3_601).eq(expected),
            "{refused:?}: {:?}",
            findings(3_601).collect::<Vec<_>>()
        );
        bench.change(|world| world.ec2.without_prices.clear());
        look(7_200);
        assert_eq!(findings(7_201).next(), None, "{refused:?}");
    }
}

/// Stopped after the roll-up began: an hour later only that day is repeated, and `status` knows when
/// that lasts.
#[test]
fn a_roll_up_that_does_not_end_is_repeated_and_reported() {
    let bench = told();
    let door = &bench.door;
    let days = RollUp { context: Context::new(door, &(), &(), &(), &door.sim.settings) };
    let after = |hours: u32| NOW + Seconds(hours * 3_600);
    let run = |hours| bench.drive(days.run(after(hours))).expect("read").map(|day| day.to_string());
    let late = |hours| bench.drive(late_since(door, after(hours))).expect("read");
    assert_eq!(late(2), None, "a new stack");
    assert_eq!(run(1).as_deref(), Some("2026-11-20"));
    // A sweep begins the next day and is killed.
    let begun = bench.drive(door.cursor("roll-up-begun")).expect("read");
    bench.drive(door.move_cursor("roll-up-begun", begun, after(3))).expect("begun");
    assert_eq!(run(3), None, "the next minute does not try again");
    assert_eq!((late(6), late(7)), (None, Some(after(1))));
    let status = crate::answers::ask_at(&bench, json!({ "action": "overview" }), after(7));
    assert!(
        status["findings"].to_string().contains("Costs have not been rolled up since"),
        "{status}"
    );
    assert_eq!(run(4).as_deref(), Some("2026-11-19"), "only that day is repeated");
    assert_eq!(run(4).as_deref(), Some("2026-11-18"));
    assert_eq!((run(4), late(24)), (None, None));
    assert_eq!(late(31), Some(after(25)));
}
