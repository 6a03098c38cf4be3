//! The dependencies between crates, as ARCHITECTURE.md shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Dependencies that the rules and the passes must not have.
const OUTSIDE: &[&str] =
    &["aws-", "aws_", "lambda_", "octocrab", "tokio", "hyper", "reqwest", "rand"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The names under `[dependencies]` of a manifest; workspace crates without `muster-`.
fn dependencies(manifest: &Path) -> Vec<String> {
    let text = fs::read_to_string(manifest).expect("manifest is readable");
    text.lines()
        .skip_while(|line| line.trim() != "[dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['=', '.', ' ']).next())
        .filter(|name| !name.is_empty() && !name.starts_with('#'))
        .map(|name| name.strip_prefix("muster-").unwrap_or(name).to_owned())
        .collect()
}

fn crates() -> BTreeMap<String, Vec<String>> {
    let folders = ["shared", "functions", "tests"].iter();
    let inside =
        folders.flat_map(|folder| fs::read_dir(root().join(folder)).expect("folder is readable"));
    inside
        .map(|entry| entry.expect("entry is readable").path())
        .chain([root().join("cli")])
        .filter(|path| path.join("Cargo.toml").exists())
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, dependencies(&path.join("Cargo.toml")))
        })
        .collect()
}

/// The arrows between crates in ARCHITECTURE.md: lines of the form `aws, github ─▶ control, domain`.
fn drawn() -> BTreeSet<(String, String)> {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the page is readable");
    let table = page.split("depends on exactly these crates:").nth(1).expect("a table");
    let rows = table.lines().skip_while(|line| line.is_empty()).take_while(|line| !line.is_empty());
    let names = |text: &str| -> Vec<String> {
        text.split(',').map(|name| name.trim().to_owned()).collect()
    };
    rows.flat_map(|row| {
        let (from, to) = row.split_once("─▶").unwrap_or_else(|| panic!("no arrow: {row}"));
        let to = names(to);
        names(from)
            .into_iter()
            .flat_map(move |from| to.clone().into_iter().map(move |to| (from.clone(), to)))
    })
    .collect()
}

#[test]
fn the_page_draws_every_dependency_between_crates() {
    let crates = crates();
    let real: BTreeSet<(String, String)> = crates
        .iter()
        .flat_map(|(from, all)| all.iter().map(move |to| (from.clone(), to.clone())))
        .filter(|(_, to)| crates.contains_key(to))
        .collect();
    let drawn = drawn();
    let missing: Vec<_> = real.difference(&drawn).collect();
    let wrong: Vec<_> = drawn.difference(&real).collect();
    assert!(missing.is_empty() && wrong.is_empty(), "not drawn: {missing:?}; not real: {wrong:?}");
}

#[test]
fn rules_and_passes_know_no_sdk_and_no_runtime() {
    let crates = crates();
    for name in ["domain", "api", "control"] {
        assert!(!crates[name].is_empty(), "{name}: no dependency found, the test reads wrongly");
        for dependency in &crates[name] {
            let outside = OUTSIDE.iter().any(|prefix| dependency.starts_with(prefix));
            assert!(!outside, "{name} must not use {dependency}");
        }
    }
}

#[test]
fn only_functions_that_need_ec2_build_it() {
    let users: Vec<String> = crates()
        .into_iter()
        .filter(|(_, dependencies)| dependencies.iter().any(|name| name == "ec2"))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(users, ["admin", "reaper", "scale-up"]);
}
