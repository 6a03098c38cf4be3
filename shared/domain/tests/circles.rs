//! No module depends on a module that depends on it. A circle has no first file to read, and a
//! change of any of its modules can break all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The path of a module in its crate: `["launch", "plan"]`.
type Module = Vec<String>;

/// The dependencies between modules of the same parent, each with an example.
type Edges = BTreeMap<(String, String), String>;

/// Returns a file without comments and without its inline tests.
fn code(text: &str) -> String {
    let shipped = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = shipped.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Reads the modules below a folder. `root` is the crate's own file: `lib` or `main`.
fn modules(folder: &Path, root: &str, at: &[String], all: &mut BTreeMap<Module, String>) {
    for entry in fs::read_dir(folder).expect("the folder is readable") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let is_root = name == "mod" || (at.is_empty() && name == root);
        let module: Module = at.iter().cloned().chain((!is_root).then(|| name.clone())).collect();
        if path.is_dir() && name != "bin" && name != "tests" {
            modules(&path, root, &module, all);
        } else if path.extension().is_some_and(|kind| kind == "rs")
            && !["tests", "testkit"].contains(&name.as_str())
        {
            all.insert(module, code(&fs::read_to_string(&path).expect("the file is readable")));
        }
    }
}

/// Returns the paths of a `use` tree: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn paths(tree: &str) -> Vec<String> {
    let Some((before, rest)) = tree.split_once('{') else {
        return vec![tree.split(" as ").next().unwrap_or_default().trim().to_owned()];
    };
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let (mut depth, mut parts) = (0_i32, vec![String::new()]);
    for letter in inner.chars() {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        match (letter, parts.last_mut()) {
            (',', _) if depth == 0 => parts.push(String::new()),
            (_, Some(part)) => part.push(letter),
            (_, None) => {}
        }
    }
    let all = parts.iter().filter(|part| !part.trim().is_empty()).flat_map(|part| paths(part));
    all.map(|path| format!("{}{path}", before.trim())).collect()
}

/// Returns the trees of a file's `use` statements, each with whether it is public.
fn uses(text: &str) -> Vec<(bool, String)> {
    let mut all = Vec::new();
    for statement in text.split(';') {
        let lines = statement.lines().map(str::trim_start);
        let Some((begin, line)) = lines.clone().enumerate().find(|(_, line)| {
            line.starts_with("use ") || (line.starts_with("pub") && line.contains(" use "))
        }) else {
            continue;
        };
        let whole: Vec<&str> = lines.skip(begin).collect();
        let tree = whole.join(" ").split_once("use ").map(|(_, tree)| tree.to_owned());
        all.push((line.starts_with("pub"), tree.unwrap_or_default()));
    }
    all
}

/// Returns the paths that a file's code names outside of its `use` statements.
fn inline(text: &str) -> Vec<String> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let words = text.split(|letter| !is_part(letter));
    let own =
        |word: &&str| ["crate::", "super::", "self::"].iter().any(|own| word.starts_with(own));
    words.filter(own).map(str::to_owned).collect()
}

/// Returns where a path leads, from the root of the crate. `None` for a path into other crates.
fn resolved(from: &Module, path: &str) -> Option<Module> {
    let mut parts = path.split("::").map(str::trim).filter(|part| !part.is_empty()).peekable();
    let mut base = from.clone();
    match *parts.peek()? {
        "crate" => base.clear(),
        "self" | "super" => {}
        _ => return None,
    }
    for part in parts {
        match part {
            "crate" | "self" => {}
            "super" => drop(base.pop()),
            name => base.push(name.to_owned()),
        }
    }
    Some(base)
}

/// Returns the dependencies between the children of each module.
fn edges(all: &BTreeMap<Module, String>) -> BTreeMap<Module, Edges> {
    let mut renamed: BTreeMap<Module, Module> = BTreeMap::new();
    for (module, text) in all {
        for path in
            uses(text).iter().filter(|(public, _)| *public).flat_map(|(_, tree)| paths(tree))
        {
            let Some(target) = resolved(module, &path) else { continue };
            let name = target.last().cloned();
            renamed.insert(module.iter().cloned().chain(name).collect(), target);
        }
    }
    let mut edges: BTreeMap<Module, Edges> = BTreeMap::new();
    for (module, text) in all {
        let used = uses(text).into_iter().flat_map(|(_, tree)| paths(&tree));
        for path in used.chain(inline(text)) {
            let Some(mut target) = resolved(module, &path) else { continue };
            // A re-export may lead to another one.
            for _ in 0..3 {
                target = renamed.get(&target).cloned().unwrap_or(target);
            }
            while !target.is_empty() && !all.contains_key(&target) {
                target.pop();
            }
            let shared = module.iter().zip(&target).take_while(|(a, b)| a == b).count();
            if let (Some(from), Some(to)) = (module.get(shared), target.get(shared)) {
                let edge = edges.entry(module[..shared].to_vec()).or_default();
                let example = format!("{} uses {path}", module.join("::"));
                edge.insert((from.clone(), to.clone()), example);
            }
        }
    }
    edges
}

/// Returns everything that can be reached from a module.
fn reached<'a>(edges: &'a Edges, from: &'a str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&str> = vec![from];
    while let Some(at) = open.pop() {
        let next = edges.keys().filter(|(begin, _)| begin == at).map(|(_, end)| end.as_str());
        open.extend(next.filter(|end| found.insert(*end)));
    }
    found
}

/// Returns the dependencies that are part of a circle, one per line.
fn circles(all: &BTreeMap<Module, String>) -> Vec<String> {
    let edges = edges(all);
    let in_circles = edges.values().flat_map(|edges| {
        let is_back = |edge: &(&(String, String), &String)| {
            reached(edges, &edge.0.1).contains(edge.0.0.as_str())
        };
        edges
            .iter()
            .filter(is_back)
            .map(|((from, to), example)| format!("{from} -> {to}: {example}"))
    });
    in_circles.collect()
}

#[test]
fn no_module_uses_one_that_uses_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (folder, file, least) in [
        ("shared/domain/src", "lib", 60),
        ("shared/api/src", "lib", 10),
        ("shared/control/src", "lib", 60),
        ("cli/src", "lib", 80),
        ("cli/src/bin/muster", "main", 10),
    ] {
        let mut all = BTreeMap::new();
        modules(&root.join(folder), file, &[], &mut all);
        assert!(all.len() >= least, "{folder}: {} modules, the test reads wrongly", all.len());
        let circles = circles(&all);
        assert!(circles.is_empty(), "{folder}:\n{}", circles.join("\n"));
    }
}

#[test]
fn every_way_to_name_a_module_counts() {
    let rows = [
        ("use crate::b::{C, D};", "", true),
        ("use super::b;", "", true),
        ("use crate::{b, c};", "", true),
        ("use crate::c::{self, d::{E, F}};", "use crate::c;", false),
        ("fn f() { crate::b::g() }", "", true),
        ("// See crate::b::g.", "", false),
        ("use super::B;", "pub use self::b::B;", true),
        ("use super::B;", "pub struct B;", false),
        ("#[cfg(test)]\nmod tests {\n    use crate::b;\n}", "", false),
        ("use other::b;", "", false),
    ];
    for (a, root, is_circle) in rows {
        let module = |name: &str| vec![name.to_owned()];
        let texts = [
            (vec![], root),
            (module("a"), a),
            (module("b"), "use crate::a::A;"),
            (module("c"), ""),
        ];
        let all =
            texts.into_iter().map(|(name, text)| (name, code(&format!("\n{text}")))).collect();
        assert_eq!(!circles(&all).is_empty(), is_circle, "{a} {root}: {:?}", circles(&all));
    }
}
