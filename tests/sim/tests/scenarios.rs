//! Every scenario under `tests/scenarios` is told, and its timeline compared with the one beside
//! it; and every regression among them is told once more, under the policy that it names, and must
//! break there.
//!
//! After a change that is meant to change the story: `UPDATE=1 cargo test -p muster-sim --test
//! scenarios`.

mod stories;

use std::path::Path;

use muster_sim::naive::PeerPolicy;
use muster_sim::scenario::{Breakage, breakages, tell};

use self::stories::scenarios;

#[test]
fn every_scenario_tells_its_story() {
    let mut problems = Vec::new();
    let all = scenarios();
    assert!(all.len() >= 40, "only {} scenarios found", all.len());
    for (path, name, text) in all {
        let beside = path.with_extension("timeline");
        match tell(&text, None) {
            Err(problem) => problems.push(format!("{name}: {problem}")),
            Ok(timeline) if std::env::var_os("UPDATE").is_some() => {
                std::fs::write(&beside, timeline).expect("writable");
            }
            Ok(timeline) => {
                let recorded = std::fs::read_to_string(&beside).unwrap_or_default();
                if let Some(difference) = difference(&recorded, &timeline) {
                    problems.push(format!("{name}: {difference}"));
                }
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

/// A regression that cannot fail proves nothing.
#[test]
fn every_regression_breaks_under_the_policy_that_it_names() {
    let (mut problems, mut broken) = (Vec::new(), Vec::new());
    for (_, name, text) in scenarios() {
        for breakage in breakages(&text).unwrap_or_else(|problem| panic!("{name}: {problem}")) {
            match unbroken(&text, &breakage) {
                Some(problem) => {
                    problems.push(format!("{name}, {}: {problem}", breakage.naive.as_str()));
                }
                None => broken.push(breakage.naive),
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
    assert!(broken.len() >= 21, "only {} regressions name a policy", broken.len());
    let unused = PeerPolicy::ALL.iter().find(|naive| !broken.contains(naive));
    assert_eq!(unused, None, "a policy that no scenario names");
}

/// A policy that cannot even run a job would break anything.
#[test]
fn every_policy_can_run_a_job() {
    let all = scenarios();
    let happy = all.iter().find(|(_, name, _)| name == "happy-path");
    let (_, _, text) = happy.expect("the happy path");
    for naive in PeerPolicy::ALL {
        if let Err(problem) = tell(text, Some(*naive)) {
            panic!("{}: {problem}", naive.as_str());
        }
    }
}

/// The page that explains the language lists every regression as its file states it.
#[test]
fn the_page_lists_every_regression() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/README.md");
    let page = std::fs::read_to_string(page).expect("readable");
    let listed = page.lines().filter(|line| line.starts_with("| `") && line.contains("` | "));
    let listed: Vec<String> = listed.map(|line| line.replace('`', "")).collect();
    let mut stated = 0;
    for (_, name, text) in scenarios() {
        for Breakage { naive, breaks } in breakages(&text).expect("policies") {
            let row = format!("| {name} | {} | {breaks} |", naive.as_str());
            assert!(listed.contains(&row), "not on the page: {row}");
            stated += 1;
        }
    }
    let on_page = listed.iter().filter(|row| row.matches(" | ").count() == 2).count();
    assert_eq!(on_page, stated, "the page lists a regression that is not there");
}

/// What is wrong, if the scenario does not break under the policy as it says.
fn unbroken(text: &str, breakage: &Breakage) -> Option<String> {
    match tell(text, Some(breakage.naive)) {
        Ok(_) => Some("nothing breaks".to_owned()),
        Err(problem) => {
            let first = problem.lines().next().unwrap_or_default();
            let wanted = format!(": {}", breakage.breaks);
            let breaks = first.contains(&format!("{wanted}: "))
                || first.contains(&format!("{wanted} broken"));
            (!breaks).then(|| format!("breaks otherwise than by {:?}: {problem}", breakage.breaks))
        }
    }
}

fn difference(recorded: &str, told: &str) -> Option<String> {
    if recorded == told {
        return None;
    }
    let (mut old, mut new) = (recorded.lines(), told.lines());
    for number in 1.. {
        let (was, is) = (old.next(), new.next());
        if was != is {
            return Some(format!("line {number} of the timeline\n  was {was:?}\n  is  {is:?}"));
        }
    }
    None
}
