use serde::de::value::Error;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};
use serde_json::{Value, json};

use muster_domain::instance::Slot;

use super::*;

#[test]
fn ages_beyond_the_horizon_are_one() {
    let timings = Timings::default();
    let fingerprint = |age: i64| {
        let mut key = Key::new(Time::from_millis(1_000_000), &timings, None);
        key.age(Time::from_millis(1_000_000 - age), Seconds(2));
        key.finish()
    };
    assert_eq!(fingerprint(2000), fingerprint(9000));
    assert_ne!(fingerprint(1000), fingerprint(2000));
}

#[test]
fn small_numbers_do_not_collide() {
    let timings = Timings::default();
    let mut seen = std::collections::HashSet::new();
    for a in 0..300 {
        for b in 0..300 {
            let mut key = Key::new(Time::default(), &timings, None);
            key.num(a);
            key.num(b);
            assert!(seen.insert(key.finish()), "{a} {b}");
        }
    }
}

/// Each field of an instance, with another value, and whether it tells states apart. Those that do
/// not are for people, or stay the same in this world.
fn fields() -> Vec<(&'static str, Value, bool)> {
    let early = "1970-01-01T00:00:07Z";
    let detail = json!({"at": early, "operation": "Call", "code": "Code", "message": "sentence"});
    let mark = json!({
        "at": early, "reason": {"kind": "idle"}, "not_busy_since": null, "gate_passed": false,
        "removing_until": null, "deregistered": false, "waiting": null, "silences": 0,
        "kill_told": false,
    });
    let order = json!({
        "at": early, "by": "operator", "reason": "reason", "force": false,
        "bypass_github_unauthorized": false, "kill_running_job": false,
    });
    let runner = json!({
        "state": "idle", "since": early, "n": 1, "asking_since": null, "id": null,
        "started": null, "github_job": null, "github_completed_at": null, "exit": null,
    });
    let unregistered = json!({"since": early, "tries": 1, "last": detail});
    vec![
        ("schema", json!(9), false),
        ("name", json!("p-l-1"), true),
        ("state", json!("running"), true),
        // Only of a slot that waits for its next launch.
        ("since", json!(early), false),
        ("created_at", json!(early), true),
        ("pool", json!("q"), false),
        ("entity", json!("other"), false),
        ("installation", json!(7), false),
        ("relaunched_at", json!(early), true),
        ("launch", json!("p-m"), true),
        ("template_version", json!("7"), false),
        ("role", json!("AROA1"), false),
        ("counted_in", json!(["stack"]), false),
        ("pool_generation", json!(7), false),
        ("prefers_on_demand", json!(true), false),
        ("is_probe", json!(true), false),
        ("image", json!("ami-0a1b2c3d"), false),
        // No image is built in this world.
        ("build", json!("trial"), false),
        ("machine", json!("i-00000002"), true),
        ("bound_at", json!(early), true),
        ("make", json!({ "type": "m7i.large" }), false),
        ("bought_for_job", json!(true), false),
        ("ended_at", json!(early), false),
        ("phases", json!({ "running": early }), false),
        ("claim", json!("1/7"), true),
        ("claimed_at", json!(early), true),
        ("passed_over", json!(true), true),
        ("runner", runner, true),
        ("unregistered", unregistered, false),
        ("mark", mark, true),
        ("order", order, true),
        ("attempts", json!(1), true),
        ("refused", json!("throttle"), false),
        ("last_error", detail, false),
        ("absence", json!({"since": early, "last": early}), true),
        ("spot_notice_at", json!(early), true),
        ("kept_until", json!(early), false),
        ("console", json!("sentence"), false),
        ("due_at", json!(early), true),
        ("wake", json!(7), true),
        ("events", json!([]), false),
    ]
}

/// A new field stands in no row of the list. One that is in the list and forgotten in the key does
/// not make the difference that the list says.
#[test]
fn each_field_of_an_instance_counts_as_the_list_says() {
    let listed: Vec<_> = fields().into_iter().map(|(field, ..)| field).collect();
    assert_eq!(fields_of::<Instance>(), listed, "the key must deal with each field");
    let row = row();
    for (field, other, counts) in fields() {
        let mut changed = row.clone();
        changed[field] = other;
        assert_eq!(fingerprint(&changed) != fingerprint(&row), counts, "{field}");
    }
}

/// An idle runner's instance, as JSON: the one form in which a private field can be changed.
fn row() -> Value {
    let slot = Slot {
        name: "p-l-0".parse().expect("a name"),
        pool: "p".parse().expect("a pool"),
        entity: "acme".parse().expect("an entity"),
        installation: None,
        launch: "p-l".parse().expect("a launch"),
        claim: None,
    };
    let mut row = Instance::planned(slot, Time::default(), &Timings::default());
    row.runner.state = RunnerState::Idle;
    serde_json::to_value(&row).expect("an instance is JSON")
}

fn fingerprint(row: &Value) -> u64 {
    let row: Instance = serde_json::from_value(row.clone()).expect("an instance");
    let timings = Timings::default();
    let mut key = Key::new(Time::from_millis(10_000), &timings, Some(Seconds(60)));
    key.instance(&row);
    key.finish()
}

/// The names of a record's fields, as its own reader asks for them.
fn fields_of<'de, T: Deserialize<'de>>() -> Vec<&'static str> {
    struct Names<'a>(&'a mut Vec<&'static str>);

    impl<'de> Deserializer<'de> for Names<'_> {
        type Error = Error;

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, Error> {
            self.0.extend(fields);
            Err(de::Error::custom("the names are enough"))
        }

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
            Err(de::Error::custom("not a record"))
        }

        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
            unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    let mut names = Vec::new();
    let read = T::deserialize(Names(&mut names));
    assert!(read.is_err() && !names.is_empty(), "a record has fields");
    names
}
