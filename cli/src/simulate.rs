//! What `simulate` tries.

use std::fmt;

use muster_control::Settings;
use muster_domain::ids::PoolName;
use muster_domain::pool_file::{self, Answers};
use muster_domain::timings::Timings;
use muster_domain::usage::Line;
use muster_sim::replay::Outcome;
use serde_json::{Value, json};

/// Most values of a range.
const MOST_VALUES: u32 = 24;
/// What a pool file names and nobody asks for here: no answer depends on it.
const UNASKED: [&str; 4] = ["image", "runner_group", "launch_template", "placement"];

/// What came of one set of pools.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What it is of.
    pub name: String,
    /// What it amounts to.
    pub outcome: Outcome,
}

/// A value of one of a pool's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// `max` or `min_idle`.
    field: &'static str,
    value: u32,
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.field, self.value)
    }
}

/// `min_idle=0..5`, both included, or `max=10,20,40`.
///
/// # Errors
/// What is wrong with it.
pub fn wishes(text: &str) -> Result<Vec<Wish>, String> {
    let form = || format!("--try {text}: write min_idle=0..5, or max=10,20,40");
    let (field, values) = text.split_once('=').ok_or_else(form)?;
    let field = ["max", "min_idle"].into_iter().find(|known| *known == field).ok_or_else(form)?;
    let number = |text: &str| text.trim().parse::<u32>().map_err(|_| form());
    let values: Vec<u32> = match values.split_once("..") {
        Some((from, to)) => {
            let (from, to) = (number(from)?, number(to)?);
            if to < from || to - from >= MOST_VALUES {
                return Err(format!(
                    "--try {text}: {MOST_VALUES} values at most, the smallest first"
                ));
            }
            (from..=to).collect()
        }
        None => values.split(',').map(number).collect::<Result<_, _>>()?,
    };
    Ok(values.into_iter().map(|value| Wish { field, value }).collect())
}

/// The file with one value changed.
///
/// # Errors
/// When it is not clear of which pool.
pub fn changed(file: &Value, pool: Option<&PoolName>, wish: &Wish) -> Result<Value, String> {
    let mut file = file.clone();
    let pools = file["pools"].as_array_mut().ok_or("the pool file has no pools")?;
    let names: Vec<String> =
        pools.iter().filter_map(|one| one["name"].as_str().map(str::to_owned)).collect();
    let at = match pool {
        Some(wanted) => names.iter().position(|name| *name == wanted.as_str()),
        None if names.len() == 1 => Some(0),
        None => None,
    };
    let at = at.ok_or_else(|| format!("--pool takes one of: {}", names.join(", ")))?;
    pools[at]["limits"][wish.field] = json!(wish.value);
    Ok(file)
}

/// The settings that a pool file means, as far as a simulation needs them.
///
/// # Errors
/// What is wrong with the file.
pub fn settings(file: &Value, lines: &[Line], most: Option<u32>) -> Result<Settings, String> {
    let mut file = file.clone();
    let owner =
        lines.iter().find_map(|line| Some(line.job.as_ref()?.repository.split_once('/')?.0));
    let defaults = file.get("defaults").cloned().unwrap_or_default();
    if let Some(defaults) = file.get_mut("defaults").and_then(Value::as_object_mut) {
        UNASKED.iter().for_each(|name| drop(defaults.remove(*name)));
    }
    for pool in file["pools"].as_array_mut().into_iter().flatten() {
        let Some(pool) = pool.as_object_mut() else { continue };
        UNASKED.iter().for_each(|name| drop(pool.remove(*name)));
        // By its id it would be asked for; and idle runners need one.
        let entity = pool.get("entity").or(defaults.get("entity"));
        if let (Some(owner), false) = (owner, entity.is_some_and(Value::is_string)) {
            pool.insert("entity".to_owned(), json!(owner));
        }
    }
    let read = pool_file::read(file, &Answers::default()).map_err(|unread| {
        let said = unread.problems.first().map(ToString::to_string);
        said.unwrap_or_else(|| "it names what only the stack can look up".to_owned())
    })?;
    let mut settings =
        Settings::from_parameters("simulated".to_owned(), read.file.pools, Timings::default());
    settings.limits = read.file.limits;
    settings.balance = read.file.balance;
    Ok(match most {
        Some(most) => settings.with_at_most(most),
        None => settings,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_a_range_or_a_list() {
        let told = |text: &str| {
            let all = wishes(text)?.iter().map(ToString::to_string).collect::<Vec<_>>();
            Ok::<String, String>(all.join(" "))
        };
        assert_eq!(told("min_idle=0..2").as_deref(), Ok("min_idle=0 min_idle=1 min_idle=2"));
        assert_eq!(told("max=10,40").as_deref(), Ok("max=10 max=40"));
        for wrong in
            ["", "max", "max=", "max=a..b", "max=5..2", "max=1..500", "price=1..2", "max=-1"]
        {
            assert!(told(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_value_is_changed_of_one_pool() {
        let wish = wishes("max=7").expect("a wish")[0];
        let file = json!({ "pools": [{ "name": "a" }, { "name": "b", "limits": { "max": 2, "min_idle": 1 } }] });
        let name = "b".parse().expect("a name");
        let next = changed(&file, Some(&name), &wish).expect("changed");
        assert_eq!(next["pools"][1]["limits"], json!({ "max": 7, "min_idle": 1 }));
        assert_eq!(next["pools"][0], file["pools"][0]);
        assert_eq!(changed(&file, None, &wish), Err("--pool takes one of: a, b".to_owned()));
    }

    #[test]
    fn what_a_file_names_is_not_asked_for() {
        let file = json!({
            "limits": { "stack": 30 },
            "pools": [{
                "name": "linux", "labels": ["linux"], "subnets": ["subnet-0a1b2c3d"],
                "instances": { "types": ["m7i.large"] }, "image": { "filter": { "name": "x-*" } },
                "entity": { "organization": 7 }, "runner_group": "builders", "limits": { "max": 9 },
            }],
        });
        let read = settings(&file, &[], Some(20)).expect_err("nobody says whose the pool is");
        assert!(read.contains("look up"), "{read}");
        let mut file = file;
        file["pools"][0]["entity"] = json!("acme");
        let read = settings(&file, &[], Some(20)).expect("read");
        assert_eq!((read.pools[0].max, read.limits.stack), (9, Some(20)));
        file["pools"][0]["limits"]["max"] = json!("many");
        let wrong = settings(&file, &[], None).expect_err("no number");
        assert!(wrong.starts_with("pools[0].limits.max"), "{wrong}");
    }
}
