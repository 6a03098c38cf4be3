//! `muster rightsize` on a generated month.

use muster_domain::time::Time;
use muster_domain::usage::Used;
use serde_json::{Value, json};

use crate::fake::{Fake, NOW};
use crate::{compare, recorded};

/// A job of the month: what its run of a number used, and how it ended.
struct Planted {
    name: &'static str,
    runs: i64,
    run: fn(i64, &mut Used, &mut Value),
}

/// Ten jobs on machines with 4 CPUs and 16 GB: four fit half, one runs out of memory, one would use
/// more CPUs. The last four look as if they fitted half.
const PLANTED: [Planted; 10] = [
    Planted { name: "lint", runs: 90, run: |_, _, _| {} },
    Planted {
        name: "unit",
        runs: 90,
        run: |n, used, line| {
            line["job"]["name"] = json!(format!("unit (ubuntu, 3.{})", 10 + n % 3));
            used.mem = 2_000 + u32::try_from(n % 3).unwrap_or_default() * 2_000;
        },
    },
    Planted {
        name: "docs",
        runs: 30,
        run: |_, used, _| (used.disk, used.disk_of) = (6_000, 98_000),
    },
    Planted {
        name: "package",
        runs: 24,
        run: |n, used, line| {
            used.half = if n == 7 { 40 } else { 2 };
            line["job"]["labels"] = json!(["linux", "x64"]);
        },
    },
    Planted {
        name: "integration",
        runs: 40,
        run: |n, used, line| {
            used.mem = 14_200;
            if n % 20 == 0 {
                (used.oom, line["job"]["conclusion"]) = (2, json!("failure"));
            }
        },
    },
    Planted {
        name: "compile",
        runs: 60,
        run: |_, used, _| {
            (used.s, used.cpu, used.cpu95, used.half, used.full) = (1_440, 91, 100, 82, 84);
            used.wait = Some([55, 0, 2]);
        },
    },
    Planted { name: "greet (short)", runs: 90, run: |_, used, _| used.s = 41 },
    Planted { name: "bursty", runs: 60, run: |_, used, _| used.wait = Some([26, 0, 0]) },
    Planted {
        name: "nightly",
        runs: 30,
        run: |n, _, line| match n % 3 {
            0 => line["machine"]["cause"] = json!("spot_notice"),
            1 => line["job"]["conclusion"] = json!("cancelled"),
            _ => {}
        },
    },
    Planted {
        name: "bench",
        runs: 60,
        run: |n, used, line| {
            if n % 2 == 0 {
                (used.cpus, used.mem_of) = (8, 31_400);
                line["machine"]["type"] = json!("m7i.2xlarge");
            }
        },
    },
];

/// A run that clearly fits half its machine.
fn line(number: i64, name: &str, used: Option<Used>) -> Value {
    let since = NOW.as_millis() - 29 * 86_400_000 + number * 3_000_000;
    json!({
        "schema": muster_domain::SCHEMA, "kind": "machine", "at": Time::from_millis(since + 360_000),
        "at_by": "event", "pool": "large",
        "job": {
            "key": format!("1/{number}"), "repository": "acme/app", "private": true, "run": number,
            "attempt": 1, "name": name, "workflow": "CI", "branch": "main",
            "labels": ["linux", "large"], "conclusion": "success",
        },
        "machine": {
            "id": format!("i-{number:017x}"), "instance": format!("large-{number}-0"),
            "type": "m7i.xlarge", "zone": "us-east-1a", "market": "on-demand", "template": "3",
            "generation": 1, "reason": "runner_ended", "cause": null,
        },
        "since": Time::from_millis(since),
        "t": {
            "planned": 1_000, "launched": 3_000, "asked": 42_000, "listening": 47_000,
            "started": 50_000, "completed": 350_000, "ended": 360_000,
        },
        "parts": { "start": 47_000, "work": 300_000, "end": 10_000, "idle": 0, "vain": 0 },
        "price": { "machine": 201_600, "by": "list", "on_demand": 201_600, "disk": 4_000 },
        "used": used,
    })
}

fn month() -> Vec<Value> {
    let usual = Used {
        s: 300,
        cpus: 4,
        cpu: 22,
        cpu95: 47,
        half: 1,
        mem: 4_100,
        mem_of: 15_700,
        wait: Some([4, 0, 1]),
        disk: 14_000,
        disk_of: 39_000,
        ..Used::default()
    };
    let of_job = |(planted, Planted { name, runs, run }): (i64, &Planted)| {
        let one = |n: i64| {
            let (mut used, mut line) = (usual, line(n * 8, name, None));
            run(n, &mut used, &mut line);
            line["used"] = json!(used);
            line["job"]["key"] = json!(format!("{planted}/{n}"));
            line
        };
        (0..*runs).map(one).collect::<Vec<_>>()
    };
    let old = (0..12).map(|n| line(n, "deploy", None));
    (2..).zip(&PLANTED).flat_map(of_job).chain(old).collect()
}

fn pools() -> Value {
    let pool = |name: &str, labels: Value, kind: &str| {
        json!({
            "name": name, "labels": labels, "entity": "acme", "limits": { "max": 4 },
            "instances": { "types": [kind] }, "subnets": ["subnet-0a1b2c3d"],
        })
    };
    json!({
        "ok": true, "version": 1, "pools_version": 3, "applied_at": null, "by": null, "draining": [],
        "file": { "pools": [
            pool("large", json!(["linux", "large", "x64"]), "m7i.xlarge"),
            pool("small", json!(["linux", "x64"]), "m7i.large"),
        ] },
    })
}

fn rightsize(lines: &[Value], width: Option<u16>, more: &[&str]) -> String {
    let half = lines.len() / 2;
    let page = |lines: &[Value], next: Option<&str>| json!({ "ok": true, "version": 1, "lines": lines, "unreadable": [], "next": next });
    let mut answers =
        vec![page(&lines[..half], Some("2026-11-20|x")), page(&lines[half..], None), pools()];
    if more.contains(&"--simulate") {
        answers.push(recorded("overview"));
    }
    let line: Vec<&str> = ["rightsize"].iter().chain(more).copied().collect();
    Fake { width, ..Fake::of(answers) }.run(&line)
}

#[test]
fn a_month_names_exactly_the_jobs_that_need_another_size() {
    let month = month();
    let shown = [Some(80), Some(140), None].map(|width| {
        let text = rightsize(&month, width, &[]);
        let page = text.lines().filter(|line| !line.starts_with(['→', '$']));
        let longest = page.map(|line| line.chars().count()).max().unwrap_or_default();
        assert!(width.is_none_or(|width| longest <= usize::from(width)), "{text}");
        text
    });
    compare("run_rightsize.txt", &shown.join("\n"));

    let told = json_of(&rightsize(&month, None, &["--json"]));
    let of = |verdict: &str| {
        let jobs = told["jobs"].as_array().expect("jobs").iter();
        let mut names: Vec<&str> = jobs
            .filter(|job| job["verdict"] == verdict)
            .filter_map(|job| job["job"].as_str())
            .collect();
        names.sort_unstable();
        names
    };
    assert_eq!(of("half"), ["docs", "lint", "package", "unit"]);
    assert_eq!(of("more_memory"), ["integration"]);
    assert_eq!(of("more_cpus"), ["compile"]);
    assert_eq!((&told["runs"], &told["unmeasured"]), (&json!(586), &json!(12)));
}

fn json_of(told: &str) -> Value {
    let body = told.split_once("\n{\n").map(|(_, body)| format!("{{{body}"));
    let body = body.expect("an answer");
    serde_json::from_str(body.trim_end_matches("exit 0\n")).expect("JSON")
}

/// Figures are compared roughly, because the rules may change their last digits.
#[test]
fn half_the_machines_cost_half_in_the_simulation() {
    let month = month();
    let of = |names: &[&str]| -> Vec<Value> {
        let is_of = |line: &&Value| names.iter().any(|name| line["job"]["name"] == **name);
        month.iter().filter(is_of).cloned().collect()
    };
    // The price of a disk stays: 2 % of the whole.
    for (names, pools, moved, saved) in [
        (["lint", "package"], json!(["large"]), json!({}), 49),
        (["integration", "package"], json!([]), json!({ "small": 1 }), 49 * 24 / 64),
    ] {
        let told = json_of(&rightsize(&of(&names), None, &["--simulate", "--json"]));
        let assumed = json!({ "m7i.large": "m7i.xlarge" });
        let halves = json!({ "pools": pools, "moved": moved, "assumed": assumed });
        assert_eq!(told["halves"], halves);
        let simulation = &told["simulation"];
        assert_eq!((&simulation["broken"], &simulation["off"]), (&json!([]), &json!([])));
        let [now, half] = [&simulation["predicted"], &simulation["new"][1]];
        assert_eq!((&now["unpriced"], &half["unpriced"]), (&json!(0), &json!(0)));
        let money = |of: &Value| of["money"].as_u64().expect("money");
        let share = (money(now) - money(half)) * 100 / money(now);
        assert!(share.abs_diff(saved) < 2, "{share} instead of {saved}: {simulation:#}");
    }
    let text = rightsize(&of(&["lint", "package"]), Some(100), &["--simulate"]);
    for said in [
        "Simulated with types of half the size: large.",
        "were not used: m7i.large (half of m7i.xlarge)",
        "half the machines, model",
    ] {
        assert!(text.contains(said), "{text}");
    }
}

#[test]
fn without_measurements_there_is_no_table() {
    let old: Vec<Value> = month().into_iter().filter(|line| line["used"].is_null()).collect();
    let none = rightsize(&[], Some(80), &[]);
    assert!(none.contains("No jobs ran in this period."), "{none}");
    let text = rightsize(&old, Some(80), &["--since", "7d"]);
    assert!(
        text.contains("12 of 12 jobs have no measurements yet") && !text.contains("JOB"),
        "{text}"
    );
}
