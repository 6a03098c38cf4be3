//! No circle between the modules of a crate: whoever reads one of them can read downwards. A module
//! and its own submodules are one room.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

type Module = Vec<String>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The source folders of what is deployed.
fn sources() -> Vec<PathBuf> {
    let folders = ["shared", "functions"].map(|folder| root().join(folder));
    let crates = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("a folder"));
    let source = crates.map(|entry| entry.expect("an entry").path().join("src"));
    source.filter(|path| path.exists()).collect()
}

/// The modules of a crate with their code, tests left out.
fn modules(source: &Path) -> BTreeMap<Module, String> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![source.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if stem == "tests" || stem == "testkit" {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let inside = path.with_extension("");
                let inside = inside.strip_prefix(source).expect("inside");
                let parts = inside.iter().map(|part| part.to_string_lossy().into_owned());
                let name = parts.filter(|part| part != "mod" && part != "lib").collect();
                let text = fs::read_to_string(&path).expect("readable");
                let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
                found.insert(name, code.to_owned());
            }
        }
    }
    found
}

/// The paths of a `use` tree: `a::{b, c::d}` are `a::b` and `a::c::d`.
fn paths(prefix: &str, tree: &str, all: &mut Vec<String>) {
    let Some((before, rest)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default().trim();
        return all.push(format!("{prefix}{path}"));
    };
    let prefix = format!("{prefix}{}", before.trim());
    let inner = rest.trim_end().strip_suffix('}').unwrap_or(rest);
    let (mut depth, mut item) = (0, String::new());
    for letter in inner.chars().chain([',']) {
        match letter {
            ',' if depth == 0 => {
                if !item.trim().is_empty() {
                    paths(&prefix, item.trim(), all);
                }
                item.clear();
                continue;
            }
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        item.push(letter);
    }
}

/// The modules that a module names, in `use` lines or in full.
fn uses(me: &Module, code: &str, all: &BTreeMap<Module, String>) -> BTreeSet<Module> {
    let mut named = Vec::new();
    for statement in code.split(';') {
        let Some((_, tree)) = statement.rsplit_once("use ") else { continue };
        if ["crate::", "super::", "self::"].iter().any(|start| tree.trim().starts_with(start)) {
            paths("", tree.trim(), &mut named);
        }
    }
    for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
        let is_of_path = |letter: char| letter.is_alphanumeric() || "_:".contains(letter);
        let starts = line.match_indices("crate::").map(|(at, _)| &line[at..]);
        named.extend(starts.map(|path| path.chars().take_while(|c| is_of_path(*c)).collect()));
    }
    let absolute = |path: &String| -> Option<Module> {
        let mut parts: Vec<String> = path.split("::").map(|part| part.trim().to_owned()).collect();
        let mut base = if parts[0] == "crate" { Vec::new() } else { me.clone() };
        if parts[0] != "super" {
            parts.remove(0);
        }
        while parts.first().is_some_and(|part| part == "super") {
            parts.remove(0);
            base.pop();
        }
        base.extend(parts);
        (1..=base.len()).rev().map(|end| base[..end].to_vec()).find(|name| all.contains_key(name))
    };
    let is_other = |other: &Module| !other.starts_with(me) && !me.starts_with(other);
    named.iter().filter_map(absolute).filter(is_other).collect()
}

/// What is left after everything that uses nothing left has been taken away again and again.
fn circles(mut uses: BTreeMap<Module, BTreeSet<Module>>) -> BTreeMap<Module, BTreeSet<Module>> {
    loop {
        let free: Vec<Module> =
            uses.iter().filter(|(_, used)| used.is_empty()).map(|(name, _)| name.clone()).collect();
        if free.is_empty() {
            return uses;
        }
        for name in free {
            uses.remove(&name);
            for used in uses.values_mut() {
                used.remove(&name);
            }
        }
    }
}

#[test]
fn no_crate_has_a_circle_of_modules() {
    for source in sources() {
        let all = modules(&source);
        let graph = all.iter().map(|(me, code)| (me.clone(), uses(me, code, &all))).collect();
        let left = circles(graph);
        assert!(left.is_empty(), "{}: {left:#?}", source.display());
    }
}

/// Every file of Rust, of all crates.
fn files() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        ["shared", "functions", "tests"].map(|folder| root().join(folder)).into();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                files.push(path);
            }
        }
    }
    files
}

/// docs/style.md's limit; clippy holds the one for functions.
#[test]
fn no_file_has_more_than_five_hundred_lines() {
    let lines = |path: &PathBuf| fs::read_to_string(path).expect("readable").lines().count();
    let mut all = files();
    all.retain(|path| lines(path) > 500);
    assert!(all.is_empty(), "{all:#?}");
}

/// Rustfmt wraps code at 100 columns and leaves comments alone. Addresses and tables stay whole.
#[test]
fn no_comment_is_wider_than_code() {
    let mut wide = Vec::new();
    for path in files() {
        let text = fs::read_to_string(&path).expect("readable");
        let comments = text.lines().filter(|line| line.trim_start().starts_with("//"));
        let of_prose = comments.filter(|line| !line.contains(".com/") && !line.contains('|'));
        let beyond = of_prose.filter(|line| line.chars().count() > 100);
        wide.extend(beyond.map(|line| format!("{}: {line}", path.display())));
    }
    assert!(wide.is_empty(), "{wide:#?}");
}

#[test]
fn a_circle_is_found() {
    let all: BTreeMap<Module, String> = [("a", "use crate::b::{X, Y};"), ("b", "use super::a;")]
        .map(|(name, code)| (vec![name.to_owned()], code.to_owned()))
        .into();
    let graph = all.iter().map(|(me, code)| (me.clone(), uses(me, code, &all))).collect();
    assert_eq!(circles(graph).len(), 2);
}
