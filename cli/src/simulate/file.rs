//! Reads a pool file offline. Runner groups, images, launch templates and placement groups only have to exist for the
//! model.

use muster_domain::ids::Entity;
use muster_domain::pool_file::{
    self, Answers, FoundImage, FoundPlacement, FoundTemplate, PoolFile, Problem, Question,
    RunnerGroup,
};
use serde_json::Value;

/// Maximum number of rounds to resolve names: entities, then their groups, then none.
const ROUNDS: usize = 4;

/// Reads a pool file. `owner` is the owner of the jobs, for pools that identify theirs by GitHub's number.
///
/// # Errors
/// Returns the errors in the file, or the names that cannot be resolved offline.
pub fn read(file: &Value, owner: Option<&Entity>) -> Result<PoolFile, Vec<Problem>> {
    let mut answers = Answers::default();
    for _ in 0..ROUNDS {
        let open = match pool_file::read(file.clone(), &answers) {
            Ok(read) => return Ok(read.file),
            Err(unread) if unread.problems.is_empty() => unread.open,
            Err(unread) => return Err(unread.problems),
        };
        for question in open {
            answer(question, file, owner, &mut answers)?;
        }
    }
    Err(vec![Problem { path: String::new(), what: "its names cannot be resolved".to_owned() }])
}

fn answer(
    question: Question,
    file: &Value,
    owner: Option<&Entity>,
    answers: &mut Answers,
) -> Result<(), Vec<Problem>> {
    match question {
        Question::Entity(id) => {
            let unknown = || {
                let what = format!("{id}: only GitHub knows its name; write the name here");
                vec![Problem { path: "entity".to_owned(), what }]
            };
            let owner = owner.ok_or_else(unknown)?.clone();
            answers.entities.insert(id, Some(owner));
        }
        Question::Groups(entity) => {
            let mut names = Vec::new();
            groups(file, &mut names);
            let group = |(number, name): (u64, &str)| RunnerGroup::new(number, name);
            let groups = (1_000..).zip(names).map(group).collect();
            answers.groups.insert(entity, groups);
        }
        Question::Image(filter) => {
            let found = FoundImage { id: "ami-0123456789abcdef0".to_owned(), name: String::new() };
            answers.images.insert(filter, Some(found));
        }
        Question::Template(named) => {
            let found = FoundTemplate {
                version: named.version.unwrap_or(1),
                is_ours: true,
                role: Some("AROA0123456789ABCDEFG".to_owned()),
                ..FoundTemplate::default()
            };
            answers.templates.insert(named, Some(found));
        }
        Question::Placement(name) => {
            let found = FoundPlacement { is_ours: true, is_cluster: false };
            answers.placements.insert(name, Some(found));
        }
    }
    Ok(())
}

/// Collects the names of runner groups anywhere in the file.
fn groups<'a>(value: &'a Value, names: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str().filter(|_| name == "runner_group") {
                    Some(group) if !names.contains(&group) => names.push(group),
                    Some(_) => {}
                    None => groups(value, names),
                }
            }
        }
        Value::Array(all) => all.iter().for_each(|one| groups(one, names)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn the_example_is_read_without_anybody_to_ask() {
        let example = include_str!("../../../infra/pools.example.yaml");
        let file = muster_api::yaml::read(example).expect("YAML");
        assert_eq!(read(&file, None).expect("a pool file").pools.len(), 3);
        let mut named = file;
        named["pools"][2]["runner_group"] = "Releases".into();
        let group = read(&named, None).expect("a pool file").pools[2].runner_group_id;
        assert!(group >= 1_000);
        named["defaults"]["entity"] = serde_json::json!({ "organization": 9919 });
        assert!(read(&named, None).is_err(), "nobody knows whose number that is");
        let acme = "acme".parse().expect("an owner");
        let owned = read(&named, Some(&acme)).expect("a pool file");
        assert_eq!(owned.pools[2].entity, Some(acme));
    }
}
