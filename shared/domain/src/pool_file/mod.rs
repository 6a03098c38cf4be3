//! The pool file that operators write. It is validated as a whole: every problem is reported with
//! its path, and a file with a problem changes nothing.
//!
//! `infra/pools.example.yaml` shows the format, and `infra/pools.schema.json` describes it for
//! editors. The admin function parses the YAML; this module reads a tree of values. Names that must
//! be resolved are queried by the caller ([`Question`]); a file without such names needs no query.

pub mod fields;
mod named;
mod names;
mod node;
mod proxy;
mod read;
mod rights;
mod rules;
mod shape;
#[cfg(test)]
mod tests;
mod values;
mod write;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::names::Names;
use self::node::{Node, NodeKind, merged};
use self::read::{Section, Wrongs};
use self::shape::WrittenPool;
use crate::ids::Entity;
use crate::pool::Pool;
use crate::pool::limits::{BALANCES, Balance, Limits};

pub use self::named::{EntityId, NamedTemplate};
pub use self::names::{
    Answers, FoundImage, FoundPlacement, FoundTemplate, ImageFilter, Question, RunnerGroup,
};
pub use self::rights::Rights;
pub use self::write::{pool as written, stack as written_stack};

/// Maximum size of the set of pools, as JSON. DynamoDB accepts items of 400 KB, and its own format
/// is somewhat longer.
const MAX_BYTES: usize = 250_000;

/// A problem in the file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Problem {
    /// The path, for example `pools[2].instances.types[0]`; empty for the file itself.
    pub path: String,
    /// The problem, and what to write instead.
    #[serde(rename = "error")]
    pub what: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = if self.path.is_empty() { "the file" } else { &self.path };
        write!(f, "{path}: {}", self.what)
    }
}

/// A valid pool file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolFile {
    /// The pools, in the file's order. Without launch templates and generations, which do not come
    /// from the file.
    pub pools: Vec<Pool>,
    /// Maxima in addition to the pools' own.
    pub limits: Limits,
    /// How equal pools share jobs.
    pub balance: Balance,
}

/// The result of reading a valid file completely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadPoolFile {
    /// The file, with all names resolved.
    pub file: PoolFile,
    /// The resolved names, one line each: `pools[2].image: ami-0a1b2c3d (acme-runner-2026-11-01)`.
    pub resolved: Vec<String>,
}

/// Why a file could not be read completely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadPoolFile {
    /// The queries to answer first. If empty, the problems are complete.
    pub open: BTreeSet<Question>,
    /// Problems that do not depend on any answer.
    pub problems: Vec<Problem>,
}

/// Reads a file with the answers known so far.
///
/// Answered queries are not repeated, and answering all of `open` allows reading further: IDs
/// first, then the runner groups of the entities that they identify.
///
/// # Errors
///
/// The open queries, and all problems found so far.
pub fn read(file: Value, answers: &Answers) -> Result<ReadPoolFile, UnreadPoolFile> {
    let mut problems = Wrongs::default();
    let mut names = Names::new(answers);
    let file = Section::open(Node::new(file, String::new()), fields::FILE, &mut problems);
    let limits = stack_limits(&file, &mut problems);
    let balance = file.read("balance", &mut problems, |node, w| read::one_of(node, BALANCES, w));
    let pools = pools(&file, &mut names, &mut problems);
    unique(&pools, &mut problems);
    leave_room(&pools, &limits, &mut problems);
    let pools: Vec<Pool> = pools.into_iter().filter_map(|(_, pool)| pool).collect();
    if let Some(what) = too_large(&pools) {
        problems.add("pools", what);
    }
    let Names { open, resolved, .. } = names;
    if problems.is_empty() && open.is_empty() {
        let file = PoolFile { pools, limits, balance: balance.unwrap_or_default() };
        return Ok(ReadPoolFile { file, resolved });
    }
    Err(UnreadPoolFile { open, problems: problems.into_list() })
}

/// Returns why pools cannot be stored: together they exceed the maximum size of a record.
#[must_use]
pub fn too_large(pools: &[Pool]) -> Option<String> {
    let size = serde_json::to_string(pools).map_or(0, |text| text.len());
    (size > MAX_BYTES).then(|| format!("{size} bytes in all; at most {MAX_BYTES}"))
}

fn stack_limits(file: &Section, problems: &mut Wrongs) -> Limits {
    let of = file.section("limits", fields::STACK_LIMITS, problems);
    let most = |node: &Node, problems: &mut Wrongs| read::count(node, 1..=u32::MAX, problems);
    let entities = of.read("entities", problems, |node, problems| {
        let named = read::named(node, problems, |name, node, problems| {
            let key = Node { path: node.path.clone(), value: NodeKind::Text(name.to_owned()) };
            let entity = values::entity(&key, problems);
            Some((entity?, most(node, problems)?))
        })?;
        Some(named.into_values().collect::<BTreeMap<Entity, u32>>())
    });
    Limits { stack: of.read("stack", problems, most), entities: entities.unwrap_or_default() }
}

/// Reads the pools, each with its path. `None` for pools with problems.
fn pools(
    file: &Section,
    names: &mut Names<'_>,
    problems: &mut Wrongs,
) -> Vec<(String, Option<Pool>)> {
    let defaults = file.get("defaults").map(|node| {
        let known: Vec<&str> =
            fields::POOL.iter().copied().filter(|name| *name != "name").collect();
        let section = Section::open(node.clone(), &known, problems);
        // Reports problems in defaults that no pool uses; the others are read again with each pool.
        WrittenPool::read(&section, problems);
        node.clone()
    });
    let Some(list) = file.get("pools") else {
        if !file.is_other {
            problems.add("", "pools is missing");
        }
        return Vec::new();
    };
    let read = read::list(list, "pools", problems, |node, problems| {
        let node = match &defaults {
            Some(defaults) => merged(defaults, node.clone(), fields::WHOLE),
            None => node.clone(),
        };
        let path = node.path.clone();
        // Unknown fields of the defaults are already reported at their own path.
        let section = Section::open(node, fields::POOL, problems);
        let mut written = WrittenPool::read(&section, problems);
        names.resolve(&mut written, &section, problems);
        Some((path, rules::pool(written, &section, problems)))
    });
    read.unwrap_or_default()
}

/// Checks that idle runners alone cannot exhaust a limit: otherwise jobs that they cannot serve
/// would wait forever.
fn leave_room(pools: &[(String, Option<Pool>)], limits: &Limits, problems: &mut Wrongs) {
    let idle = |is_counted: &dyn Fn(&Pool) -> bool| -> (u32, bool) {
        let pools = pools.iter().filter_map(|(_, pool)| pool.as_ref());
        let counted: Vec<&Pool> = pools.filter(|pool| is_counted(pool)).collect();
        let idle = counted.iter().map(|pool| pool.most_idle()).fold(0, u32::saturating_add);
        (idle, counted.iter().any(|pool| pool.most_idle() > pool.idle_wanted()))
    };
    let mut check = |path: String, most: u32, (idle, by_events): (u32, bool)| {
        if idle >= most {
            let by = if by_events { "min_idle and warm_on" } else { "min_idle" };
            let what =
                format!("the pools keep {idle} idle ({by}), which leaves no capacity for jobs");
            problems.add(&path, what);
        }
    };
    if let Some(most) = limits.stack {
        check("limits.stack".to_owned(), most, idle(&|_| true));
    }
    for (entity, most) in &limits.entities {
        let is_of = |pool: &Pool| pool.entity.as_ref().is_some_and(|one| one.same_as(entity));
        check(format!("limits.entities.{entity}"), *most, idle(&is_of));
    }
}

/// Checks that the pools' names and name prefixes are unique.
fn unique(pools: &[(String, Option<Pool>)], problems: &mut Wrongs) {
    let whole: Vec<(&String, &Pool)> =
        pools.iter().filter_map(|(path, pool)| Some((path, pool.as_ref()?))).collect();
    for (index, (path, pool)) in whole.iter().enumerate() {
        let earlier = &whole[..index];
        let same = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
        if let Some((other, _)) =
            earlier.iter().find(|(_, other)| same(other.name.as_str(), pool.name.as_str()))
        {
            problems
                .add(&format!("{path}.name"), format!("{} is the name of {other} too", pool.name));
            continue;
        }
        let prefix = rules::prefix(pool);
        if let Some((other, _)) =
            earlier.iter().find(|(_, other)| same(rules::prefix(other).as_str(), prefix.as_str()))
        {
            let what = format!("the names of {other}'s machines begin with {prefix} too");
            problems.add(&format!("{path}.name_prefix"), what);
        }
    }
}
