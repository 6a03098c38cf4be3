//! The editors' schema and the reader agree.

use serde_json::Value;

use super::{EXAMPLE, yaml};
use crate::pool::limits::BALANCES;
use crate::pool::warm::WarmEvent;
use crate::pool_file::fields;

const SCHEMA: &str = include_str!("../../../../../infra/pools.schema.json");

fn schema() -> Value {
    serde_json::from_str(SCHEMA).expect("JSON")
}

fn names(of: &Value) -> Vec<String> {
    let fields = of["properties"].as_object().unwrap_or_else(|| panic!("no properties: {of}"));
    assert_eq!(of["additionalProperties"], false, "unknown fields are refused: {fields:?}");
    let mut names: Vec<String> = fields.keys().cloned().collect();
    names.sort();
    names
}

fn sorted(names: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    names.sort();
    names
}

#[test]
fn both_know_the_same_fields() {
    let schema = schema();
    let defs = &schema["$defs"];
    let without_name: Vec<&str> =
        fields::POOL.iter().copied().filter(|name| *name != "name").collect();
    for (of, known) in [
        (&schema, fields::FILE),
        (&schema["properties"]["limits"], fields::STACK_LIMITS),
        (&defs["pool"], fields::POOL),
        (&defs["defaults"], &without_name[..]),
        (&defs["instances"], fields::INSTANCES),
        (&defs["range"], fields::RANGE),
        (&defs["entity_id"], fields::ENTITY),
        (&defs["image"], fields::IMAGE),
        (&defs["filter"], fields::FILTER),
        (&defs["disk"], fields::DISK),
        (&defs["placement"], fields::PLACEMENT),
        (&defs["proxy"], fields::PROXY),
        (&defs["launch_template"]["anyOf"][1], fields::LAUNCH_TEMPLATE),
        (&defs["limits"], fields::LIMITS),
        (&defs["warm_rule"], fields::WARM_RULE),
    ] {
        assert_eq!(names(of), sorted(known));
    }
}

#[test]
fn both_know_the_same_words() {
    fn words<T>(of: &[(&str, T)]) -> Value {
        of.iter().map(|(name, _)| Value::from(*name)).collect()
    }
    let schema = schema();
    let defs = &schema["$defs"];
    for (of, known) in [
        (&schema["properties"]["balance"], words(BALANCES)),
        (&defs["match"], words(fields::MATCHES)),
        (&defs["market"], words(fields::MARKETS)),
        (&defs["merge_queue"], words(fields::MERGE_QUEUES)),
        (&defs["arch"], words(fields::ARCHES)),
        (&defs["allocation"], words(fields::ALLOCATIONS)),
        (&defs["warm_rule"]["properties"]["event"], words(WarmEvent::ALL)),
    ] {
        assert_eq!(of["enum"], known);
    }
}

/// A pool and the defaults differ only in the name and in required fields.
#[test]
fn defaults_are_a_pools_fields() {
    let schema = schema();
    let (pool, defaults) = (&schema["$defs"]["pool"], &schema["$defs"]["defaults"]);
    for (name, field) in defaults["properties"].as_object().expect("fields") {
        assert_eq!(field, &pool["properties"][name], "{name}");
    }
    assert!(pool.get("required").is_some() && defaults.get("required").is_none());
}

/// Every field is in the example, with a comment, and editors can find the schema.
#[test]
fn the_example_shows_every_field() {
    let first = EXAMPLE.lines().next();
    assert_eq!(first, Some("# yaml-language-server: $schema=pools.schema.json"));
    let value = yaml(EXAMPLE);
    let pools = value["pools"].as_array().expect("pools");
    let has =
        |name: &str| pools.iter().chain([&value["defaults"]]).any(|pool| !pool[name].is_null());
    let hidden: Vec<&&str> = fields::POOL.iter().filter(|name| !has(name)).collect();
    assert!(hidden.is_empty(), "{hidden:?}");
}
