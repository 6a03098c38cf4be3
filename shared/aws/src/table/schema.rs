//! Records of the schema before this one.
//!
//! A deployment replaces functions one by one while records live on, so every function reads what
//! the version before it wrote, and writes its own form. Whoever changes the form of a record
//! raises [`muster_domain::SCHEMA`], replaces the steps here by those from the now previous form,
//! and records items of that form as fixtures of the test below.

use aws_sdk_dynamodb::types::AttributeValue;
use muster_domain::{OLDEST_SCHEMA, SCHEMA};

use crate::item::Item;

/// The kinds of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Instance,
    Job,
    Launch,
    Capacity,
    Orphan,
    Audit,
    Entity,
    Switches,
    Cooldowns,
    Pools,
}

/// A record that is not to be written or read in the present form.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FormError {
    #[error("the record is not a map")]
    NoMap,
    #[error(transparent)]
    Value(#[from] serde_dynamo::Error),
    #[error("its schema is {0}, and this version reads {OLDEST_SCHEMA} to {SCHEMA}")]
    Schema(u64),
}

/// Brings a record's fields to the present form.
pub(crate) fn upgrade(form: Form, schema: u64, body: &mut Item) -> Result<(), FormError> {
    if !(u64::from(OLDEST_SCHEMA)..=u64::from(SCHEMA)).contains(&schema) {
        return Err(FormError::Schema(schema));
    }
    if schema < u64::from(SCHEMA) {
        from_previous(form, body);
        // The next write is in the present form and must say so.
        body.insert("schema".to_owned(), AttributeValue::N(SCHEMA.to_string()));
    }
    Ok(())
}

/// What schema 1 did not have. Fields that may be none need no step: a missing attribute reads as
/// none (an instance's `wake` and `absence`, a job's `hold`, an orphan's `absence`).
fn from_previous(form: Form, body: &mut Item) {
    let mut default = |name: &str, value: AttributeValue| {
        body.entry(name.to_owned()).or_insert(value);
    };
    match form {
        Form::Instance => default("passed_over", AttributeValue::Bool(false)),
        Form::Job => default("expired", AttributeValue::Bool(false)),
        Form::Launch => default("calls", AttributeValue::N("1".to_owned())),
        Form::Capacity => default("wakes", AttributeValue::N("0".to_owned())),
        Form::Orphan
        | Form::Audit
        | Form::Entity
        | Form::Switches
        | Form::Cooldowns
        | Form::Pools => {}
    }
}

#[cfg(test)]
mod tests {
    use muster_domain::audit::Audit;
    use muster_domain::entity::EntityHealth;
    use muster_domain::instance::{Instance, State};
    use muster_domain::job::Job;
    use muster_domain::launch::Launch;
    use muster_domain::orphan::Orphan;
    use muster_domain::pool::capacity::Capacity;
    use muster_domain::stored::{Stored, Version};
    use muster_domain::timings::Timings;
    use serde_json::Value;

    use super::super::keys;
    use super::super::row::{self, Record};
    use super::*;

    /// Items as a function of schema 1 left them in the tables, by key, in DynamoDB's own JSON.
    const RECORDED: &str = include_str!("../../tests/fixtures/schema1.json");

    fn attribute(json: &Value) -> AttributeValue {
        let (kind, value) = json.as_object().and_then(|one| one.iter().next()).expect("typed");
        let text = || value.as_str().expect("a text").to_owned();
        match kind.as_str() {
            "S" => AttributeValue::S(text()),
            "N" => AttributeValue::N(text()),
            "BOOL" => AttributeValue::Bool(value.as_bool().expect("a truth value")),
            "L" => {
                let list = value.as_array().expect("a list");
                AttributeValue::L(list.iter().map(attribute).collect())
            }
            "M" => AttributeValue::M(item(value)),
            other => panic!("type {other}"),
        }
    }

    fn item(json: &Value) -> Item {
        let map = json.as_object().expect("a map");
        map.iter().map(|(name, value)| (name.clone(), attribute(value))).collect()
    }

    /// Reads a recorded item, and checks that it is written in the present form and reads the same.
    fn read<R: Record + Clone + PartialEq + std::fmt::Debug>(key: &str) -> Stored<R> {
        let recorded: Value = serde_json::from_str(RECORDED).expect("JSON");
        let item = item(&recorded[key]);
        assert_eq!(item[keys::SCHEMA], AttributeValue::N("1".to_owned()), "{key}");
        let record: Stored<R> = row::read(item).expect(key);
        let mut written = row::write(record.record(), &Timings::default()).expect(key);
        written.insert(keys::VERSION.to_owned(), keys::n(record.version().0));
        assert_eq!(written[keys::SCHEMA], AttributeValue::N("2".to_owned()), "{key}");
        let again: Stored<R> = row::read(written).expect(key);
        assert_eq!(again, record);
        record
    }

    #[test]
    fn records_of_the_schema_before_are_read() {
        let live: Stored<Instance> = read("default-l1-0");
        assert_eq!((live.schema, live.state(), live.passed_over), (2, State::Running, false));
        assert_eq!((live.wake_nonce(), live.absence, live.version()), (None, None, Version(6)));
        let gone: Stored<Instance> = read("default-l2-0");
        assert_eq!(gone.state(), State::Deleted);
        assert!(gone.is_forced());

        let waiting: Stored<Job> = read("1/1");
        assert!(waiting.is_waiting() && !waiting.is_demand());
        let ended: Stored<Job> = read("1/2");
        assert_eq!((ended.schema, ended.version(), ended.expired), (2, Version(3), false));

        let launch: Stored<Launch> = read("launch#default-l1");
        assert_eq!((launch.schema, launch.calls), (2, 1));
        let capacity: Stored<Capacity> = read("pool#default");
        assert_eq!((capacity.schema, capacity.wakes), (2, 0));
        assert!(capacity.is_held_by("worker-1"));
        let orphan: Stored<Orphan> = read("orphan#i-00000000000000003");
        assert_eq!((orphan.schema, orphan.absence), (2, None));
        let audit: Stored<Audit> =
            read("audit#default-l1-0#2026-11-18T11:06:45.000Z#8246c79b0cb9fcde");
        assert_eq!(audit.why, "stuck");
        let health: Stored<EntityHealth> = read("entity#acme/web");
        assert!(health.unauthorized_since.is_some());
    }

    #[test]
    fn schemas_that_are_too_old_or_too_new_are_left_alone() {
        for (schema, accepted) in [(0, false), (1, true), (2, true), (3, false), (u64::MAX, false)]
        {
            let outcome = upgrade(Form::Instance, schema, &mut Item::new());
            assert_eq!(outcome.is_ok(), accepted, "{schema}: {outcome:?}");
        }
    }

    #[test]
    fn what_an_old_record_says_is_not_overwritten() {
        let yes = AttributeValue::Bool(true);
        let mut body = Item::from([("passed_over".to_owned(), yes.clone())]);
        upgrade(Form::Instance, 1, &mut body).expect("accepted");
        assert_eq!(body["passed_over"], yes);
    }
}
