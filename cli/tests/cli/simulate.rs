//! `muster simulate`: its page, and what it does with lines and files.

use muster_cli::page::Screen;
use muster_cli::simulate::{Figures, Simulation, TrialRow, TrialValue, Tried};
use muster_cli::views::simulate::page;
use muster_domain::pool::MarketPolicy;
use muster_domain::time::Time;
use muster_domain::usage::Date;
use serde_json::{Value, json};

use crate::fake::{Fake, NOW};
use crate::{compare, recorded};

fn figures(money: u64, waits: [u64; 3]) -> Figures {
    let [p50, p95, p99] = waits.map(Some);
    Figures { money, p50, p95, p99, machines: 15_312, ..Figures::default() }
}

fn told() -> Simulation {
    let row = |(value, money, waits, is_unbeaten)| TrialRow {
        value: TrialValue::MinIdle(value),
        figures: figures(money, waits),
        is_unbeaten,
    };
    let rows = [
        (0, 106_880_000, [49_000, 92_700, 128_000], true),
        (1, 131_140_000, [3_400, 48_200, 66_000], true),
        (3, 192_400_000, [2_700, 4_000, 8_200], true),
        (5, 255_400_000, [2_700, 4_000, 4_100], false),
    ];
    let day = |text: &str| -> Date { text.parse().expect("a day") };
    Simulation {
        from: day("2026-10-27"),
        to: day("2026-11-25"),
        pool: None,
        seed: 1,
        jobs: 15_000,
        applied_at: None,
        real: figures(106_430_000, [48_500, 93_100, 131_000]),
        predicted: figures(106_880_000, [49_000, 92_700, 128_000]),
        off: Vec::new(),
        gone: Vec::new(),
        new: Some(("new.yaml".to_owned(), figures(106_780_000, [52_000, 195_800, 632_000]))),
        tried: Some(Tried {
            field: "min_idle",
            of: "default".parse().expect("a name"),
            rows: rows.map(row).to_vec(),
        }),
        broken: Vec::new(),
    }
}

#[test]
fn the_model_stands_beside_what_was_and_other_pools_below() {
    let doubted = Simulation {
        applied_at: Some(NOW),
        off: vec![("dollars", 12), ("p95", 4_100)],
        gone: vec!["old".parse().expect("a name")],
        new: None,
        predicted: Figures { unpriced: 4, unserved: 7, ..told().predicted },
        broken: vec![("min_idle=1".to_owned(), "I8: job 7 is still queued".to_owned())],
        ..told()
    };
    let spot = Figures { lost: 1_930_000, reruns: 214, ..told().predicted };
    let of = |market, figures| TrialRow {
        value: TrialValue::Market(market),
        figures,
        is_unbeaten: market == MarketPolicy::SpotThenOnDemand,
    };
    let rows = vec![
        of(MarketPolicy::OnDemand, figures(241_700_000, [49_000, 91_800, 125_000])),
        of(MarketPolicy::SpotThenOnDemand, spot),
        of(MarketPolicy::Spot, Figures { machines: 9, unpriced: 9, ..spot }),
    ];
    let market = Tried { field: "market", of: "default".parse().expect("a name"), rows };
    let interrupted = Simulation { predicted: spot, new: None, tried: Some(market), ..told() };
    let alone = Simulation { tried: None, new: None, pool: "gpu".parse().ok(), ..told() };
    let (wide, narrow) =
        (Screen { width: Some(120), colour: false }, Screen { width: Some(80), colour: false });
    let shown = [
        ("100 columns", page(&told(), Screen { width: Some(100), colour: false })),
        ("120 columns, doubted", page(&doubted, wide)),
        ("80 columns, nothing else asked", page(&alone, narrow)),
        (
            "100 columns, interrupted",
            page(&interrupted, Screen { width: Some(100), colour: false }),
        ),
        ("a pipe", page(&told(), Screen::PIPE)),
    ];
    for (title, text) in &shown[..4] {
        let longest = text.lines().map(|line| line.chars().count()).max().unwrap_or_default();
        assert!(title[..3].trim().parse::<usize>().is_ok_and(|width| longest <= width), "{text}");
    }
    let shown = shown.map(|(title, text)| format!("== {title}\n{text}"));
    compare("simulate.txt", &shown.join("\n"));
}

/// A machine's line: a job of five minutes that waited for fifty seconds, one every ten minutes.
fn line(number: i64) -> Value {
    let since = NOW.as_millis() - 86_400_000 + number * 600_000;
    let at = |after: i64| json!(Time::from_millis(since + after));
    json!({
        "schema": muster_domain::SCHEMA, "kind": "machine", "at": at(360_000), "at_by": "event", "pool": "small",
        "job": {
            "key": format!("1/{number}"), "repository": "acme/app", "private": true, "run": number, "attempt": 1,
            "name": "test", "workflow": "CI", "branch": "main", "labels": ["linux"], "conclusion": "success",
        },
        "machine": {
            "id": format!("i-{number:017x}"), "instance": format!("small-{number}-0"), "type": "m7i.large",
            "zone": "us-east-1a", "market": "on-demand", "template": "3", "generation": 1,
            "reason": "runner_ended", "cause": null,
        },
        "since": at(0),
        "t": {
            "heard": 700, "planned": 1_000, "launched": 3_000, "asked": 42_000, "registered": 42_500,
            "listening": 47_000, "started": 50_000, "completed": 350_000, "exited": 352_000, "ended": 360_000,
        },
        "parts": { "start": 47_000, "work": 300_000, "end": 10_000, "idle": 0, "vain": 0 },
        "price": { "machine": 100_800, "by": "list", "on_demand": 100_800 },
    })
}

fn pools() -> Value {
    json!({
        "ok": true, "version": 1, "pools_version": 3, "applied_at": null, "by": null, "draining": [],
        "file": { "pools": [{
            "name": "small", "labels": ["linux"], "entity": "acme", "limits": { "max": 4 },
            "instances": { "types": ["m7i.large"] }, "subnets": ["subnet-0a1b2c3d"],
        }] },
    })
}

fn lines(from: i64, next: Option<&str>) -> Value {
    let lines: Vec<Value> = (from..from + 20).map(line).collect();
    json!({ "ok": true, "version": 1, "lines": lines, "unreadable": [], "next": next })
}

/// What follows the requests, without the figures' last digits: the rules may change them.
#[test]
fn the_jobs_of_all_pages_run_once_more() {
    let run = |more: &[&str]| {
        let answers =
            [lines(0, Some("2026-11-20|x")), lines(20, None), pools(), recorded("overview")];
        let line: Vec<&str> = ["simulate", "--json"].iter().chain(more).copied().collect();
        let told = Fake::of(answers).run(&line);
        assert!(told.ends_with("exit 0\n"), "{told}");
        let body = told
            .split_once("\n{\n")
            .map(|(_, body)| format!("{{{}", body.trim_end_matches("exit 0\n")));
        serde_json::from_str::<Value>(&body.expect("an answer")).expect("JSON")
    };
    let told = run(&["--try", "min_idle=0..1"]);
    assert_eq!((&told["jobs"], &told["real"]["machines"]), (&json!(40), &json!(40)));
    assert_eq!((&told["off"], &told["broken"]), (&json!([]), &json!([])), "{told:#}");
    assert_eq!(told["predicted"], run(&[])["predicted"], "the same seed, the same answer");
    let rows = told["tried"]["rows"].as_array().expect("rows");
    let (money, p50) = (|n: usize| rows[n]["money"].as_u64(), |n: usize| rows[n]["p50"].as_u64());
    assert!(money(0) < money(1) && p50(0) > p50(1), "an idle runner costs, and is there: {told:#}");
    assert_eq!(rows[0]["is_unbeaten"], true);
}

#[test]
fn what_cannot_be_replayed_is_said() {
    let with = |file: &'static str, answers: Vec<Value>| Fake { file, ..Fake::of(answers) };
    let none = json!({ "ok": true, "version": 1, "lines": [], "unreadable": [], "next": null });
    let mut nobodys = pools();
    nobodys["file"]["pools"][0].as_object_mut().expect("a pool").remove("entity");
    for (fake, line, said) in [
        (Fake::of([none]), "simulate", "No jobs ended in this period."),
        (with("{", vec![]), "simulate --lines a.jsonl", "a.jsonl, line 1: "),
        (with("pools: [", vec![]), "simulate --pools a.yaml", "a.yaml has "),
        (
            with("pools: [{name: a b}]", vec![lines(0, None)]),
            "simulate --pools a.yaml",
            "a.yaml has ",
        ),
        (
            Fake::of([lines(0, None), pools(), recorded("overview")]),
            "simulate --pool gone",
            "There is no pool gone.",
        ),
        (
            Fake::of([lines(0, None), nobodys, recorded("overview")]),
            "simulate --try min_idle=1",
            "small cannot keep runners idle: it has no entity",
        ),
        (
            Fake::of([lines(0, None), pools(), recorded("overview")]),
            "simulate --try min_idle=9",
            "small cannot keep 9 runners idle with a max of 4.",
        ),
    ] {
        let line: Vec<&str> = line.split(' ').collect();
        let told = fake.run(&line);
        assert!(told.contains(said) && !told.ends_with("exit 0\n"), "{told}");
    }
}
