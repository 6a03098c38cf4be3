//! YAML, as operators write pool files.

use muster_control::admin::YamlError;
use muster_control::causes::Cause;
use serde_json::Value;

/// Reads a text. `yes` and `on` are texts and no truth values, and a field that is written twice is
/// a mistake.
///
/// # Errors
/// When it is not YAML.
pub fn read(text: &str) -> Result<Value, YamlError> {
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| YamlError(Cause::new(error)))
}

#[cfg(test)]
mod tests {
    use muster_control::causes::with_causes;

    use super::*;

    #[test]
    fn the_example_is_a_pool_file() {
        let text = include_str!("../../../infra/pools.example.yaml");
        let answers = muster_domain::pool_file::Answers::default();
        let file = read(text).map(|file| muster_domain::pool_file::read(file, &answers));
        // Two of its names are EC2's to know, and nothing of it is wrong.
        let Ok(Err(unread)) = &file else { panic!("{file:?}") };
        assert!(unread.open.len() == 2 && unread.problems.is_empty(), "{unread:?}");
    }

    #[test]
    fn what_people_may_mean_otherwise_is_not_guessed() {
        let value = read("a: yes\nb: true\nc: 12\nd: ~\ne: 15m\n").expect("YAML");
        assert_eq!(
            value,
            serde_json::json!({ "a": "yes", "b": true, "c": 12, "d": null, "e": "15m" })
        );
        // Ten or twelve? No whole number, so that no count takes it.
        assert_eq!(read("a: 012").expect("YAML")["a"].as_u64(), None);
    }

    #[test]
    fn a_mistake_is_told_with_its_line() {
        for (text, line) in
            [("a: 1\na: 2\n", "line 2"), ("a: [1\nb: 2", "line 2"), ("a:\n  b: 1\n c: 2", "line 3")]
        {
            let Err(error) = read(text) else { panic!("accepted: {text:?}") };
            let told = with_causes(&error);
            assert!(told.starts_with("not valid YAML: ") && told.contains(line), "{told}");
        }
    }
}
