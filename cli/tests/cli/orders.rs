//! What a command asks of the stack and of the person, and what it does without a yes.

use serde_json::{Value, json};

use crate::fake::Fake;
use crate::github::none;
use crate::{compare, recorded};

/// Runs several, each in its world, and records them as one file.
pub(crate) fn told(name: &str, runs: impl IntoIterator<Item = (Fake, Vec<&'static str>)>) {
    let all: Vec<String> = runs.into_iter().map(|(world, line)| world.run(&line)).collect();
    compare(&format!("{name}.txt"), &without_repeats(&all.join("\n")));
}

/// Replaces calls that were made in the same order before by their number.
fn without_repeats(text: &str) -> String {
    let (mut told, mut before): (String, Vec<Vec<&str>>) = (String::new(), Vec::new());
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    for block in all.chunk_by(|one, next| one.starts_with("→ ") == next.starts_with("→ ")) {
        let alike =
            |old: &Vec<&str>| old.iter().zip(block).take_while(|(one, two)| one == two).count();
        let known = before.iter().map(alike).max().filter(|known| *known > 3).unwrap_or_default();
        if block[0].starts_with("→ ") {
            before.push(block.to_vec());
        }
        if known > 0 {
            told.push_str(&format!("→ {known} calls as above\n"));
        }
        told.extend(block[known..].iter().copied());
    }
    told
}

pub(crate) fn says(answers: impl IntoIterator<Item = Value>, says: &[&'static str]) -> Fake {
    Fake { says: says.iter().copied().collect(), ..Fake::of(answers) }
}

pub(crate) fn refused(code: &str, message: &str) -> Value {
    json!({ "version": 1, "ok": false, "error": { "code": code, "message": message } })
}

const NAME: &str = "small-l0-0";

#[test]
fn a_delete_says_what_would_end_and_asks() {
    let (show, dry, done) = (recorded("show"), recorded("delete_dry_run"), recorded("delete"));
    let all = || [show.clone(), dry.clone(), done.clone()];
    let looked = || [show.clone(), dry.clone()];
    told(
        "run_delete",
        [
            (Fake::of(looked()), vec!["delete", NAME, "--dry-run"]),
            (says(all(), &["old image", "y"]), vec!["delete", NAME, "--by", "mira"]),
            (says(looked(), &["n"]), vec!["delete", NAME, "--by", "mira", "--reason", "old image"]),
            (
                says(all(), &[NAME]),
                vec![
                    "delete",
                    NAME,
                    "--by",
                    "mira",
                    "--reason",
                    "old image",
                    "--force",
                    "--kill-running-job",
                ],
            ),
            (
                says(looked(), &["y"]),
                vec!["delete", NAME, "--by", "mira", "--reason", "old image", "--force"],
            ),
            (Fake::of(looked()), vec!["delete", NAME, "--by", "mira"]),
            (Fake::of(looked()), vec!["delete", NAME, "--by", "mira", "--reason", "old image"]),
            (
                Fake::of(all()),
                vec!["delete", NAME, "--by", "mira", "--reason", "old image", "--yes", "--json"],
            ),
            (
                Fake::of([show.clone(), recorded("error_busy")]),
                vec!["delete", NAME, "--by", "mira", "--reason", "old image", "--yes"],
            ),
        ],
    );
}

#[test]
fn a_reason_goes_with_every_yes_to_an_end() {
    use clap::Parser as _;
    let line = ["muster", "delete", NAME, "--yes"];
    let refused = muster_cli::args::Muster::try_parse_from(line).map(|_| ());
    assert_eq!(refused.map_err(|error| error.exit_code()), Err(2));
}

#[test]
fn switches_take_many_names() {
    let answer = || recorded("switch");
    let mut ends = answer();
    ends["switches"]["launches"]["until"] = json!("2026-11-21T14:00:00Z");
    told(
        "run_switch",
        [
            (
                Fake::of([answer()]),
                vec!["pause", "launches", "own", "--reason", "moving subnets", "--by", "mira"],
            ),
            (Fake::of([answer()]), vec!["resume", "deletes", "--by", "mira"]),
            (Fake::of([]), vec!["pause", "launches"]),
            // A reason that is too short is asked for again.
            (says([answer()], &["", "x", "new subnets"]), vec!["pause", "deletes", "--by", "mira"]),
            // With an end.
            (
                Fake::of([ends]),
                vec![
                    "pause",
                    "launches",
                    "--for",
                    "2h",
                    "--reason",
                    "moving subnets",
                    "--by",
                    "mira",
                ],
            ),
        ],
    );
}

/// What may kill a job or leave something behind requires the whole name, as in the browser.
#[test]
fn a_risky_delete_requires_the_typed_name() {
    let flags: [&[&str]; 5] = [
        &[],
        &["--force"],
        &["--kill-running-job"],
        &["--bypass-github-unauthorized"],
        &["--force", "--kill-running-job"],
    ];
    for flags in flags {
        for typed in [NAME, "small-l0", "SMALL-L0-0", "", "y"] {
            let expected = if flags.is_empty() { typed == "y" } else { typed == NAME };
            let mut answers = vec![recorded("show"), recorded("delete_dry_run")];
            answers.extend(expected.then(|| recorded("delete")));
            let line = ["delete", NAME, "--by", "mira", "--reason", "old image"];
            let line: Vec<&str> = line.iter().chain(flags).copied().collect();
            let end = says(answers, &[typed]).run(&line);
            let is_sent = end.contains("exit 0");
            assert_eq!(is_sent, expected, "{flags:?}, typed {typed:?}: {end}");
        }
    }
}

#[test]
fn a_reason_is_checked_before_anything_is_asked() {
    use clap::Parser as _;
    let orders: [&[&str]; 4] = [
        &["delete", NAME],
        &["pause", "launches"],
        &["pools", "apply", "a.yaml"],
        &["pools", "restore", "2"],
    ];
    for order in orders {
        for (reason, is_right) in [("", false), ("  x   ", false), ("four", false), ("fives", true)]
        {
            let line = [&["muster"], order, &["--reason", reason]].concat();
            let read = muster_cli::args::Muster::try_parse_from(line);
            assert_eq!(read.is_ok(), is_right, "{order:?} {reason:?}");
        }
    }
}

#[test]
fn a_pause_ends_between_a_minute_and_thirty_days() {
    use clap::Parser as _;
    for length in ["59s", "31d", "2", "soon", "-2h", ""] {
        let line = ["muster", "pause", "launches", "--for", length];
        let refused = muster_cli::args::Muster::try_parse_from(line).map(|_| ());
        assert_eq!(refused.map_err(|error| error.exit_code()), Err(2), "{length}");
    }
    let resume = ["muster", "resume", "launches", "--for", "2h"];
    assert!(muster_cli::args::Muster::try_parse_from(resume).is_err());
}

/// A program gets all that there is, and a person what a screen holds.
#[test]
fn lists_are_asked_for_page_by_page() {
    let first = recorded("list_in_part");
    let mut last = recorded("list");
    last["instances"].as_array_mut().expect("a list").remove(0);
    let none = json!({ "ok": true, "instances": [], "unreadable": [], "more": false });
    let pages = || Fake::of([first.clone(), last.clone()]);
    let (mut day, next_day) = (recorded("lines"), recorded("lines"));
    day["next"] = json!("2026-11-21|");
    let of_costs = || Fake { width: None, ..Fake::of([day.clone(), next_day.clone()]) };
    told(
        "run_lists",
        [
            (Fake { width: None, ..pages() }, vec!["list"]),
            (Fake { width: None, ..pages() }, vec!["list", "--json"]),
            (pages(), vec!["list", "--find", "SMALL"]),
            (Fake::of([first.clone()]), vec!["list", "--limit", "1"]),
            (Fake::of([none]), vec!["list", "--find", "gpu"]),
            (Fake::of([recorded("jobs_in_part")]), vec!["jobs", "--find", "acme", "--limit", "4"]),
            // GitHub's names have no case.
            (of_costs(), vec!["costs", "--rows", "--repository", "Acme/ML"]),
            (of_costs(), vec!["costs", "--rows", "--repository", "acme/m"]),
        ],
    );
}

#[test]
fn every_name_finds_its_job_or_instance() {
    let (jobs, list) = (recorded("jobs"), recorded("list"));
    let (job, instance) = (recorded("explain_job"), recorded("explain_instance"));
    let missing =
        || refused("not_found", "there is no instance or machine \"small-l1-0-1\"; see list");
    let page = "https://github.com/acme/web/actions/runs/9/job/2";
    let other = "https://github.com/acme/web/actions/runs/9/job/77";
    let with = |answers: Vec<Value>, github: Vec<Option<Value>>| Fake {
        github: github.into(),
        ..Fake::of(answers)
    };
    let run = json!({ "repository": { "id": 1 } });
    let of_run = json!({ "jobs": [{ "id": 2 }, { "id": 3 }] });
    let gone = || refused("not_found", "job 1/3 has no record");
    let mut claimed = job.clone();
    claimed["job"]["claim"] = json!(NAME);
    told(
        "run_names",
        [
            (Fake::of([job.clone()]), vec!["explain", "1/2"]),
            (Fake::of([jobs.clone(), job.clone()]), vec!["explain", page]),
            // Running: known by the claim of its instance.
            (
                Fake::of([recorded("jobs_of_a_pool"), list.clone(), job.clone()]),
                vec!["explain", "https://github.com/acme/web/actions/runs/9/job/1"],
            ),
            (
                with(
                    vec![jobs.clone(), list.clone(), none(), job.clone()],
                    vec![Some(json!({ "id": 1 }))],
                ),
                vec!["explain", other],
            ),
            (with(vec![jobs.clone(), list.clone(), none()], vec![None]), vec!["explain", other]),
            (
                with(vec![none(), job.clone(), gone()], vec![Some(run), Some(of_run)]),
                vec!["explain", "https://github.com/acme/web/actions/runs/9"],
            ),
            (Fake::of([missing(), instance.clone()]), vec!["explain", "small-l1-0-1"]),
            (Fake::of([missing(), missing()]), vec!["explain", "small-l1-0-1"]),
            (Fake::of([claimed, recorded("show")]), vec!["show", "1/2"]),
            (Fake::of([job.clone()]), vec!["show", "1/2"]),
            (Fake::of([]), vec!["explain", "https://github.com/acme/web/pull/7"]),
        ],
    );
}

/// Jobs that wait for a machine, a pool or an approval, and running ones, on the first and on the second page of their
/// list: GitHub is not asked.
#[test]
fn a_job_of_any_list_is_found_by_its_address() {
    let entry = |list: &str| {
        let mut entry = recorded("jobs_in_part")[list][0].clone();
        entry["job"] = json!("9/77");
        entry
    };
    let page = |list: &str, entry: Option<Value>, next: Option<&str>| {
        let mut answer = match list {
            "instances" => json!({ "ok": true, "instances": [], "unreadable": [] }),
            _ => json!({ "ok": true, "jobs": [], "unserved": [], "waiting_for_approval": [] }),
        };
        answer["more"] = json!(next.is_some());
        answer["next"] = json!(next);
        // A job with the same number at the host of another App comes first.
        let other = entry.clone().map(|mut other| {
            other[if list == "instances" { "claim" } else { "job" }] = json!("ghes:8/77");
            other
        });
        answer[list] = json!(other.into_iter().chain(entry).collect::<Vec<_>>());
        answer
    };
    let mut running = recorded("list")["instances"][0].clone();
    running["claim"] = json!("9/77");
    for (list, entry) in [
        ("jobs", entry("jobs")),
        ("unserved", entry("unserved")),
        ("waiting_for_approval", entry("waiting_for_approval")),
        ("instances", running),
    ] {
        for is_second in [false, true] {
            let mut answers = Vec::new();
            answers.extend((list == "instances").then(|| page("jobs", None, None)));
            answers.extend(is_second.then(|| page(list, None, Some("2"))));
            answers.extend([page(list, Some(entry.clone()), None), recorded("explain_job")]);
            let told = Fake::of(answers)
                .run(&["explain", "https://github.com/acme/web/actions/runs/9/job/77"]);
            let is_asked = told.contains(r#""job":"9/77""#) && told.contains("exit 0");
            assert!(is_asked, "{list}, second page: {is_second}: {told}");
        }
    }
}

/// GitHub returns a hundred jobs per page.
#[test]
fn a_run_has_all_its_jobs() {
    let page = |ids: std::ops::Range<u64>| {
        let jobs: Vec<Value> = ids.map(|id| json!({ "id": id })).collect();
        Some(json!({ "jobs": jobs }))
    };
    for (pages, last) in
        [(vec![0..99], 98), (vec![0..100, 0..0], 99), (vec![0..100, 100..101], 100)]
    {
        let run = Some(json!({ "repository": { "id": 1 } }));
        let github = std::iter::once(run).chain(pages.into_iter().map(page)).collect();
        let world = Fake { github, ..Fake::of([none()]) };
        let told = world.run(&["show", "https://github.com/acme/web/actions/runs/9"]);
        assert!(told.contains(&format!("1/{},", last - 1)), "{told}");
        assert!(told.contains(&format!("1/{last}\n")), "{told}");
    }
}

#[test]
fn pools_change_after_a_look_and_a_yes() {
    let (dry, done) = (recorded("pools_dry_run"), recorded("pools_applied"));
    let unchanged = recorded("pools_unchanged");
    // It replaces the stack's parameters, although it equals them.
    let mut first = unchanged.clone();
    first["pools_version"] = json!(0);
    let file = |answers: Vec<Value>, said: &[&'static str]| Fake {
        file: "pools: []",
        ..says(answers, said)
    };
    let mut other = dry.clone();
    other["pools_version"] = json!(7);
    let mut of_one = dry.clone();
    of_one["pools_version"] = json!(1);
    let edit = "max: 4 → max: 6";
    told(
        "run_pools",
        [
            (Fake::of([recorded("pools")]), vec!["pools"]),
            (file(vec![dry.clone()], &[]), vec!["pools", "diff", "pools.yaml"]),
            (file(vec![recorded("error_of_a_file")], &[]), vec!["pools", "diff", "pools.yaml"]),
            (
                file(vec![dry.clone(), done.clone()], &["y"]),
                vec!["pools", "apply", "pools.yaml", "--reason", "more room", "--by", "mira"],
            ),
            (file(vec![dry.clone()], &["n"]), vec!["pools", "apply", "pools.yaml", "--by", "mira"]),
            (file(vec![dry.clone()], &[]), vec!["pools", "apply", "pools.yaml", "--by", "mira"]),
            (
                file(vec![unchanged.clone(), unchanged], &[]),
                vec!["pools", "apply", "pools.yaml", "--by", "mira"],
            ),
            (file(vec![first], &["n"]), vec!["pools", "apply", "pools.yaml", "--by", "mira"]),
            (
                Fake::of([of_one.clone(), recorded("pools_restored")]),
                vec!["pools", "restore", "1", "--yes", "--by", "mira"],
            ),
            (
                says([recorded("pools"), of_one, done], &[edit, "y"]),
                vec!["pools", "edit", "--by", "mira"],
            ),
            (
                says([recorded("pools"), recorded("error_of_a_file")], &[edit, "n"]),
                vec!["pools", "edit", "--by", "mira"],
            ),
            (says([recorded("pools"), other], &[edit]), vec!["pools", "edit", "--by", "mira"]),
            (
                says([recorded("pools")], &["nothing of it → x"]),
                vec!["pools", "edit", "--by", "mira"],
            ),
            (Fake::of([]), vec!["pools", "edit", "--by", "mira"]),
        ],
    );
}

#[test]
fn a_file_is_checked_without_the_stack() {
    let file = |file| Fake { file, ..Fake::default() };
    let by_names = "pools: [{name: small, labels: [linux], entity: {organization: 7}, instances: {types: [m7i.large]}, \
                    subnets: [subnet-0a1b2c3d], limits: {max: 4}}]";
    told(
        "run_check",
        [
            (
                file(include_str!("../../../infra/pools.example.yaml")),
                vec!["pools", "check", "example.yaml"],
            ),
            (file(by_names), vec!["pools", "check", "names.yaml"]),
            (file(by_names), vec!["pools", "check", "names.yaml", "--json"]),
            (file("pools: [{name: a b}]"), vec!["pools", "check", "wrong.yaml"]),
            (file("pools: [{name: a b}]"), vec!["pools", "check", "wrong.yaml", "--json"]),
            (file("pools: [1"), vec!["pools", "check", "wrong.yaml"]),
        ],
    );
}

#[test]
fn answers_of_other_releases_are_not_guessed() {
    told(
        "run_other_releases",
        [
            (Fake::of([json!({ "ok": true, "jobs": 7 })]), vec!["jobs"]),
            (Fake::of([refused("bad_request", "unknown variant `status`")]), vec!["status"]),
            (Fake::of([refused("of_tomorrow", "no")]), vec!["status", "--json"]),
            (Fake::of([json!({ "ok": false })]), vec!["status"]),
            (Fake::of([]), vec!["list", "--state", "sleeping"]),
        ],
    );
}

#[test]
fn json_is_the_functions_answer() {
    for (line, name) in [
        (vec![], "status"),
        (vec!["jobs"], "jobs"),
        (vec!["list", "--state", "running", "--pool", "small", "--limit", "7"], "list"),
        (vec!["show", NAME], "show"),
        (vec!["explain", "1/2"], "explain_job"),
        (vec!["pools"], "pools"),
        (vec!["pools", "history"], "pools_history"),
    ] {
        let mut line = line;
        line.push("--json");
        let told = Fake::of([recorded(name)]).run(&line);
        let body = told.split_once("}\n{").map_or_else(
            || panic!("no answer in {told}"),
            |(_, rest)| format!("{{{}", rest.trim_end_matches("exit 0\n")),
        );
        let answer: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(answer, recorded(name), "{name}");
    }
}
