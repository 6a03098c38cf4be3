//! Every scenario under `tests/scenarios` is told, its `expect` lines are asked, and a short one's
//! timeline is compared with the one beside it. Every regression among them is told once more,
//! under the policy that it names, and must break there. Each is a test by its name:
//! `cargo test -p muster-sim --test scenarios theft`.
//!
//! After a change that is meant to change the story: `UPDATE=1 cargo test -p muster-sim --test
//! scenarios`. It writes the table of regressions on the page as well.

mod outcomes;
mod page;
mod stories;

use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use muster_sim::naive::PeerPolicy;
use muster_sim::scenario::{Breakage, breakages, commands, tell};

use self::stories::scenarios;

/// Longest timeline that is recorded. For a longer story, the `expect` lines and its outcome in
/// `outcomes/` are what a review checks.
const MAX_RECORDED: usize = 60;

fn main() -> ExitCode {
    let mut trials = vec![
        Trial::test("every policy is named by a regression", every_policy_is_named),
        Trial::test("the page lists every regression", the_page_lists_every_regression),
        Trial::test("the outcomes are those of the stories", the_outcomes_are_those_of_the_stories),
    ];
    for naive in PeerPolicy::ALL {
        let name = format!("policy {} can run a job", naive.as_str());
        trials.push(Trial::test(name, || can_run_a_job(*naive)));
    }
    for (path, name, text) in scenarios() {
        match breakages(&text) {
            Err(problem) => trials.push(Trial::test(&name, || Err(problem.into()))),
            Ok(all) => trials.extend(all.into_iter().map(|breakage| {
                let name = format!("{name} under {}", breakage.naive.as_str());
                let text = text.clone();
                Trial::test(name, move || breaks(&text, &breakage))
            })),
        }
        trials.push(Trial::test(&name.clone(), move || tells_its_story(&path, &name, &text)));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn tells_its_story(path: &Path, name: &str, text: &str) -> Result<(), Failed> {
    let (timeline, outcome) = tell(text, None)?;
    let same_outcome = outcomes::compare(name, &outcome);
    same_timeline(path, text, timeline)?;
    Ok(same_outcome?)
}

fn same_timeline(path: &Path, text: &str, timeline: String) -> Result<(), Failed> {
    let beside = path.with_extension("timeline");
    if timeline.lines().count() > MAX_RECORDED {
        return ends_with_a_question(text, &beside);
    }
    if std::env::var_os("UPDATE").is_some() {
        return Ok(std::fs::write(&beside, timeline)?);
    }
    if !beside.exists() {
        return ends_with_a_question(text, &beside);
    }
    let recorded = std::fs::read_to_string(&beside)?;
    difference(&recorded, &timeline).map_or(Ok(()), |difference| Err(difference.into()))
}

/// What a story without a timeline on record must have.
fn ends_with_a_question(text: &str, beside: &Path) -> Result<(), Failed> {
    if beside.exists() {
        if std::env::var_os("UPDATE").is_none() {
            let most = MAX_RECORDED;
            return Err(format!("over {most} lines, UPDATE=1 deletes what is on record").into());
        }
        std::fs::remove_file(beside)?;
    }
    match commands(text).last() {
        Some(last) if last.starts_with("expect ") => Ok(()),
        last => Err(format!("no timeline on record, and it ends with {last:?}").into()),
    }
}

/// A regression that cannot fail proves nothing.
fn breaks(text: &str, breakage: &Breakage) -> Result<(), Failed> {
    let Err(problem) = tell(text, Some(breakage.naive)) else {
        return Err("nothing breaks".into());
    };
    let first = problem.lines().next().unwrap_or_default();
    let wanted = format!(": {}", breakage.breaks);
    if first.contains(&format!("{wanted}: ")) || first.contains(&format!("{wanted} broken")) {
        return Ok(());
    }
    Err(format!("breaks otherwise than by {:?}: {problem}", breakage.breaks).into())
}

/// A policy that cannot even run a job would break anything.
fn can_run_a_job(naive: PeerPolicy) -> Result<(), Failed> {
    let all = scenarios();
    let happy = all.iter().find(|(_, name, _)| name == "happy-path");
    let (_, _, text) = happy.ok_or("no happy path")?;
    tell(text, Some(naive))?;
    Ok(())
}

fn every_policy_is_named() -> Result<(), Failed> {
    let all = scenarios();
    let named: Vec<PeerPolicy> = all
        .iter()
        .flat_map(|(_, _, text)| breakages(text).unwrap_or_default())
        .map(|breakage| breakage.naive)
        .collect();
    match PeerPolicy::ALL.iter().find(|naive| !named.contains(naive)) {
        Some(unused) => Err(format!("no scenario names {}", unused.as_str()).into()),
        None => Ok(()),
    }
}

/// A story that is gone leaves no outcome behind.
fn the_outcomes_are_those_of_the_stories() -> Result<(), Failed> {
    let names: Vec<String> = scenarios().into_iter().map(|(_, name, _)| name).collect();
    Ok(outcomes::belong_to(|name| {
        name.starts_with(outcomes::PASS) || names.iter().any(|one| one == name)
    })?)
}

/// The page that explains the language lists every regression as its file states it.
fn the_page_lists_every_regression() -> Result<(), Failed> {
    let mut rows = Vec::new();
    for (_, name, text) in scenarios() {
        for Breakage { naive, breaks } in breakages(&text)? {
            // A command or an expectation, or the name of a rule.
            let breaks = if breaks.contains(' ') { format!("`{breaks}`") } else { breaks };
            rows.push(format!("| `{name}` | {} | {breaks} |", naive.as_str()));
        }
    }
    Ok(page::table("scenarios/README.md", "| Story | Policy | Breaks |", &rows)?)
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
