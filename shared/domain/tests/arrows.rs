//! The arrows between crates, as ARCHITECTURE.md draws them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Which crates of ours each crate may use.
const ARROWS: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("control", &["domain"]),
    ("aws", &["control", "domain"]),
    ("ec2", &["aws", "control", "domain"]),
    ("github", &["control", "domain"]),
    ("notices", &["aws", "control", "domain"]),
    ("sigv4", &[]),
    ("stack", &["aws", "control", "domain", "github"]),
    ("yaml", &["control", "domain"]),
    ("webhook", &["aws", "control", "domain"]),
    ("scale-up", &["aws", "control", "domain", "ec2", "stack"]),
    ("reaper", &["aws", "control", "domain", "ec2", "notices", "stack"]),
    ("runner-api", &["aws", "control", "domain", "stack"]),
    ("admin", &["aws", "control", "domain", "ec2", "stack", "yaml"]),
];

/// What must never come near the rules and the passes.
const OUTSIDE: &[&str] =
    &["aws-", "aws_", "lambda_", "octocrab", "tokio", "hyper", "reqwest", "rand"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The names under `[dependencies]` of a manifest, ours without `muster-`.
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
    ["shared", "functions"]
        .iter()
        .flat_map(|folder| fs::read_dir(root().join(folder)).expect("folder is readable"))
        .map(|entry| entry.expect("entry is readable").path())
        .filter(|path| path.join("Cargo.toml").exists())
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, dependencies(&path.join("Cargo.toml")))
        })
        .collect()
}

#[test]
fn crates_use_only_what_lies_below_them() {
    let crates = crates();
    let known: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    assert_eq!(crates.len(), known.len(), "a crate without a place: {:?}", crates.keys());
    for (name, dependencies) in &crates {
        let allowed = known.get(name.as_str()).unwrap_or_else(|| panic!("{name} has no place"));
        for dependency in dependencies.iter().filter(|other| known.contains_key(other.as_str())) {
            assert!(allowed.contains(&dependency.as_str()), "{name} must not use {dependency}");
        }
    }
}

#[test]
fn rules_and_passes_know_no_sdk_and_no_runtime() {
    let crates = crates();
    for name in ["domain", "control"] {
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
