//! Every scenario under `tests/scenarios` is told, and its timeline compared with the one beside
//! it; and every regression among them is told once more, under the policy that it names, and must
//! break there. Each is a test by its name: `cargo test -p muster-sim --test scenarios theft`.
//!
//! After a change that is meant to change the story: `UPDATE=1 cargo test -p muster-sim --test
//! scenarios`.

mod stories;

use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use muster_sim::naive::PeerPolicy;
use muster_sim::scenario::{Breakage, breakages, tell};

use self::stories::scenarios;

fn main() -> ExitCode {
    let mut trials = vec![
        Trial::test("every policy is named by a regression", every_policy_is_named),
        Trial::test("the page lists every regression", the_page_lists_every_regression),
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
        trials.push(Trial::test(name, move || tells_its_story(&path, &text)));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn tells_its_story(path: &Path, text: &str) -> Result<(), Failed> {
    let timeline = tell(text, None)?;
    let beside = path.with_extension("timeline");
    if std::env::var_os("UPDATE").is_some() {
        return Ok(std::fs::write(&beside, timeline)?);
    }
    let recorded = std::fs::read_to_string(&beside).unwrap_or_default();
    difference(&recorded, &timeline).map_or(Ok(()), |difference| Err(difference.into()))
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

/// The page that explains the language lists every regression as its file states it.
fn the_page_lists_every_regression() -> Result<(), Failed> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/README.md");
    let page = std::fs::read_to_string(page)?;
    let listed = page.lines().filter(|line| line.starts_with("| `") && line.contains("` | "));
    let listed: Vec<String> = listed.map(|line| line.replace('`', "")).collect();
    let mut stated = 0;
    for (_, name, text) in scenarios() {
        for Breakage { naive, breaks } in breakages(&text)? {
            let row = format!("| {name} | {} | {breaks} |", naive.as_str());
            if !listed.contains(&row) {
                return Err(format!("not on the page: {row}").into());
            }
            stated += 1;
        }
    }
    let on_page = listed.iter().filter(|row| row.matches(" | ").count() == 2).count();
    if on_page != stated {
        return Err("the page lists a regression that is not there".into());
    }
    Ok(())
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
