//! ARCHITECTURE.md says how large each test is. What can be counted is counted here, in code or in
//! its text, so that the page cannot fall behind.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use muster_conformance::{differences, ec2, github, names, queue, table};
use muster_sim::scenario::breakages;

/// Projects whose bugs the regressions are named after.
const PROJECTS: [&str; 7] =
    ["arc-", "cdk-", "garm-", "incumbent-", "jit-runners-", "runner-", "runs-on-"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|problem| panic!("{path}: {problem}"))
}

/// The files of a directory whose names end like this: name without the ending, and text.
fn files(directory: &str, ending: &str) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(root().join(directory)).expect("a directory");
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let named = |name: String| {
        let stem = name.strip_suffix(ending)?.to_owned();
        Some((stem, text(&format!("{directory}/{name}"))))
    };
    names.filter_map(named).collect()
}

#[test]
fn the_page_says_how_large_each_test_is() {
    let page = text("ARCHITECTURE.md");
    let table = page.split("## How it is shown").nth(1).expect("the section");
    let table = table.split("\n## ").next().expect("its end");
    let (regressions, named) = regressions();
    let (checks, passed) = conformance_checks();
    let facts = [
        format!("| {} worlds, ", worlds()),
        format!("; {} naive rules, each caught |", naive_rules()),
        format!("| {regressions} regressions, {named} of them named bugs of other projects; "),
        format!("| {checks} checks through the real adapters, {passed} of them in the simulator"),
        format!("| {} scenarios on real binaries |", scenarios()),
    ];
    let missing: Vec<&String> = facts.iter().filter(|fact| !table.contains(*fact)).collect();
    assert!(missing.is_empty(), "what is so and not on the page: {missing:#?}");
}

/// The worlds that every run explores to their end; those of `make explore` are not among them.
fn worlds() -> usize {
    let worlds = ["stop", "triangle"].map(|name| text(&format!("tests/explore/tests/{name}.rs")));
    worlds
        .iter()
        .map(|text| text.matches("#[test]\n").count() - text.matches("#[ignore").count())
        .sum()
}

/// A rule counts once, in however many worlds it is caught.
fn naive_rules() -> usize {
    let text = text("tests/explore/tests/naive.rs");
    let uses = text.split("naive::").skip(1).filter_map(|rest| rest.split_once("()"));
    let is_name = |name: &&str| name.chars().all(|letter| letter.is_lowercase() || letter == '_');
    uses.map(|(name, _)| name).filter(is_name).collect::<BTreeSet<&str>>().len()
}

/// All, and those that are named after another project.
fn regressions() -> (usize, usize) {
    let stories = files("tests/scenarios", ".txt");
    let breaks = |text: &str| !breakages(text).expect("policies").is_empty();
    let named = |name: &str| PROJECTS.iter().any(|project| name.starts_with(project));
    let all: Vec<&String> =
        stories.iter().filter(|(_, text)| breaks(text)).map(|(name, _)| name).collect();
    (all.len(), all.iter().filter(|name| named(name)).count())
}

/// All, and those that the simulator passes.
fn conformance_checks() -> (usize, usize) {
    let checks = [ec2::CHECKS, github::CHECKS, names::CHECKS, table::CHECKS, queue::CHECKS];
    let differences = [
        differences::SIMULATOR_EC2,
        differences::SIMULATOR_GITHUB,
        differences::SIMULATOR_NAMES,
        differences::SIMULATOR_TABLE,
        differences::SIMULATOR_QUEUE,
    ];
    let all: usize = checks.iter().map(|part| part.len()).sum();
    let different: usize = differences.iter().map(|part| part.len()).sum();
    (all, all - different)
}

fn scenarios() -> usize {
    text("tests/e2e/tests/stack/main.rs").matches("Scenario::new(").count()
}

/// The cases of a section of the page: number, verdict, and what it is shown by.
fn cases(page: &str, letter: char) -> Vec<(usize, &str, Vec<&str>)> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_prefix(letter));
    rows.filter_map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [number, _, verdict, shown, ""] = cells[..] else { return None };
        let shown = shown.split('`').skip(1).step_by(2).collect();
        Some((number.parse().ok()?, verdict, shown))
    })
    .collect()
}

/// Every case is there once, in order, and has what its verdict asks for.
#[test]
fn every_case_of_the_conformance_page_is_shown_by_a_test_that_exists() {
    let page = text("docs/conformance.md");
    let mut problems = Vec::new();
    for (letter, count) in [('G', 64), ('W', 19), ('U', 19), ('D', 14)] {
        let cases = cases(&page, letter);
        let numbers: Vec<usize> = cases.iter().map(|(number, ..)| *number).collect();
        assert_eq!(numbers, (1..=count).collect::<Vec<_>>(), "the cases {letter}");
        for (number, verdict, shown) in cases {
            let fits = match verdict.chars().next() {
                Some('=' | '>') => !shown.is_empty(),
                Some('–') => verdict.len() > 20,
                _ => verdict == "open" && shown.is_empty(),
            };
            if !fits {
                problems.push(format!("{letter}{number}: {verdict:?} with {shown:?}"));
            }
            let missing = shown.into_iter().filter(|name| !is_in_the_tree(name));
            problems.extend(missing.map(|name| format!("{letter}{number}: there is no {name}")));
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

/// Every finding is there once, and what is not open cites what shows it.
#[test]
fn every_mended_finding_is_shown_by_a_test_that_exists() {
    let page = text("docs/findings.md");
    let rows = page.lines().filter(|line| {
        let reports = ["launch ", "machine ", "real-aws ", "features "];
        reports.iter().any(|report| line.starts_with(&format!("| {report}")))
    });
    let (mut problems, mut seen) = (Vec::new(), BTreeSet::new());
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [finding, _, verdict, shown] = cells[..] else {
            problems.push(format!("not four cells: {row}"));
            continue;
        };
        if !seen.insert(finding) {
            problems.push(format!("{finding}: twice"));
        }
        let places: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
        if (verdict == "open") != places.is_empty() {
            problems.push(format!("{finding}: {verdict:?} with {places:?}"));
        }
        let missing = places.into_iter().filter(|place| !is_in_the_tree(place));
        problems.extend(missing.map(|place| format!("{finding}: there is no {place}")));
    }
    assert!(seen.len() >= 40, "the page has lost rows: {seen:?}");
    assert!(problems.is_empty(), "{problems:#?}");
}

/// A file, or a test or check in it: `path#name`.
fn is_in_the_tree(place: &str) -> bool {
    let (path, name) =
        place.split_once('#').map_or((place, None), |(path, name)| (path, Some(name)));
    let Ok(text) = std::fs::read_to_string(root().join(path)) else { return false };
    name.is_none_or(|name| {
        [
            format!("fn {name}("),
            format!("fn {name}<"),
            format!("def {name}("),
            format!("\"{name}\""),
        ]
        .iter()
        .any(|written| text.contains(written))
            || (path.ends_with("/mod.rs") && text.contains(&format!("    {name},")))
    })
}

#[test]
fn what_is_not_in_the_tree_is_found_to_be_missing() {
    let here = "tests/sim/tests/architecture.rs";
    assert!(is_in_the_tree(here) && is_in_the_tree(&format!("{here}#is_in_the_tree")));
    // Put together here, so that the name does not stand in this file.
    let (gone, nowhere) = (format!("{here}#is_{}", "nowhere"), "tests/sim/tests/nowhere.rs");
    assert!(!is_in_the_tree(&gone) && !is_in_the_tree(nowhere));
}

/// A simulator with other queues than the template's would show another product.
#[test]
fn the_simulated_queues_are_the_templates() {
    let template = text("template.yaml");
    let told = |key: &str| -> Vec<u64> {
        let told = template.split(key).skip(1);
        let number = |rest: &str| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
        told.filter_map(number).collect()
    };
    let ours = [muster_sim::queue::JOBS, muster_sim::queue::LAUNCH, muster_sim::queue::REAP];
    assert_eq!(told("maxReceiveCount: "), ours.map(|one| u64::from(one.most_receives)));
    assert_eq!(told("BatchSize: "), ours.map(|one| one.batch));
    assert_eq!(told("MaximumConcurrency: "), ours.map(|one| u64::from(one.concurrency)));
}
