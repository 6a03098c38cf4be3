//! What docs/conformance.md and docs/findings.md cite is in the tree, and the simulated queues are
//! those of the template.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|problem| panic!("{path}: {problem}"))
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

/// The page of the architecture names for each invariant the file that asks it.
#[test]
fn every_invariant_is_asked_where_the_page_says() {
    let page = text("ARCHITECTURE.md");
    let (_, list) = page.split_once("## Invariants").expect("a section");
    for number in 1..=14 {
        let (_, said) = list.split_once(&format!("I{number} ")).expect("every invariant");
        let file = said.split('`').skip(1).step_by(2).find(|code| code.ends_with(".rs"));
        let file = format!("tests/sim/src/{}", file.expect("a file"));
        assert!(text(&file).contains(&format!("\"I{number}\"")), "{file} does not ask I{number}");
    }
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
