//! Every scenario under `tests/scenarios` is told, and its timeline compared with the one beside it.
//!
//! After a change that is meant to change the story: `UPDATE=1 cargo test -p sim --test scenarios`.

use std::path::Path;

#[test]
fn every_scenario_tells_its_story() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let mut problems = Vec::new();
    let mut told = 0;
    let mut files: Vec<_> = std::fs::read_dir(&directory)
        .expect("the scenarios")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    for path in files {
        told += 1;
        let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let text = std::fs::read_to_string(&path).expect("readable");
        let beside = path.with_extension("timeline");
        match sim::scenario::tell(&text) {
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
    assert!(told >= 13, "only {told} scenarios found");
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
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
