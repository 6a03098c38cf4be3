use muster_domain::causes::with_causes;
use muster_domain::pool::Pool;
use muster_domain::pool_file;
use serde_json::json;

use super::*;

#[test]
fn the_example_is_a_pool_file() {
    let text = include_str!("../../../../infra/pools.example.yaml");
    let answers = muster_domain::pool_file::Answers::default();
    let file = read(text).map(|file| muster_domain::pool_file::read(file, &answers));
    // Only EC2 can resolve two of its names; the file has no problems.
    let Ok(Err(unread)) = &file else { panic!("{file:?}") };
    assert!(unread.open.len() == 2 && unread.problems.is_empty(), "{unread:?}");
}

/// Scalars that some YAML parser interprets as something other than their text.
const SCALARS: [&str; 43] = [
    "3.10",
    "1e3",
    "12e03",
    "0.1e1",
    "0x10",
    "0o10",
    "0b1",
    "010",
    "012",
    "0777",
    ".5",
    "1.",
    "0.50",
    "1_000",
    "+3",
    "-0",
    "1.0",
    "12",
    "-3",
    "0.05",
    "18446744073709551616",
    "1e400",
    ".inf",
    "-.INF",
    ".nan",
    "true",
    "True",
    "TRUE",
    "false",
    "False",
    "yes",
    "no",
    "on",
    "off",
    "y",
    "n",
    "2026-01-02",
    "1:30",
    "190:20:30",
    "=",
    "0xFFFFFFFFFFFFFFFFFF",
    "1_0.5",
    "NaN",
];

#[test]
fn a_scalar_keeps_its_text() {
    for written in SCALARS {
        let file =
            format!("a: {written}\nb: [{written}]\nc: {{{written}: {written}}}\nd: \"{written}\"");
        let value = read(&file).expect(written);
        let is_text = |value: &Value| match value {
            Value::String(text) => text == written,
            other => other.to_string() == written,
        };
        let all = [&value["a"], &value["b"][0], &value["c"][written]];
        assert!(all.into_iter().all(is_text), "{written}: {value}");
        assert_eq!(value["d"], written, "in quotes");
    }
}

/// A text field, how a pool file sets it, and how its value is read.
type Field = (&'static str, fn(&str) -> String, fn(&Pool) -> Option<String>);

const FIELDS: [Field; 6] = [
    (
        "a label",
        |text| format!("labels: [{text}]"),
        |pool| pool.labels.carried().iter().find(|one| *one != "self-hosted").map(str::to_owned),
    ),
    ("a name", |text| format!("name: {text}"), |pool| Some(pool.name.to_string())),
    (
        "a prefix",
        |text| format!("name_prefix: {text}"),
        |pool| pool.name_prefix.as_ref().map(ToString::to_string),
    ),
    ("a tag", |text| format!("tags: {{ a: {text} }}"), |pool| pool.tags.get("a").cloned()),
    (
        "a variable",
        |text| format!("environment: {{ A: {text} }}"),
        |pool| pool.environment.get("A").cloned(),
    ),
    ("a hook", |text| format!("boot_hook: {text}"), |pool| pool.boot_hook.clone()),
];

#[test]
fn each_text_field_takes_each_scalar_as_written_or_quotes_it() {
    let needed = ["name: big", "labels: [x]", "subnets: [subnet-0a1b2c3d]", "limits: { max: 3 }"];
    let mut taken = 0;
    for (field, said, found) in FIELDS {
        for written in SCALARS {
            let own = said(written);
            let name = own.split(':').next().unwrap_or_default();
            let others = needed.iter().filter(|line| !line.starts_with(&format!("{name}:")));
            let lines: Vec<&str> = others.copied().chain([own.as_str()]).collect();
            let text = format!(
                "pools:\n  - instances: {{ types: [m7i.large] }}\n    {}\n",
                lines.join("\n    ")
            );
            let file = read(&text).expect("YAML");
            match pool_file::read(file, &pool_file::Answers::default()) {
                Ok(read) => {
                    taken += 1;
                    let value = read.file.pools.first().and_then(found).unwrap_or_default();
                    // GitHub compares labels case-insensitively.
                    let is_same = value.eq_ignore_ascii_case(written);
                    assert!(
                        is_same && (field == "a label" || value == written),
                        "{field} {written}: {value}"
                    );
                }
                Err(unread) => {
                    let told = format!("{:?}", unread.problems);
                    let quotes = told.contains(written) || told.contains("letters, digits");
                    assert!(quotes, "{field} {written}: {told}");
                }
            }
        }
    }
    assert!(taken > SCALARS.len() * 4, "{taken}");
}

#[test]
fn a_number_in_a_notation_that_readers_read_differently_is_no_number() {
    for written in ["0x10", "010", "1_000", "1e3", "+3", "3.10"] {
        let text = format!(
            "pools:\n  - {{ name: a, labels: [x], instances: {{ types: [m7i.large] }}, subnets: [subnet-0a1b2c3d], limits: {{ max: {written} }} }}"
        );
        let read = pool_file::read(read(&text).expect("YAML"), &pool_file::Answers::default());
        let Err(unread) = read else { panic!("{written}") };
        assert!(unread.problems[0].what.contains(&format!("{written:?}")), "{:?}", unread.problems);
    }
}

#[test]
fn what_is_written_as_it_prints_is_a_number_or_a_truth_value() {
    let file = "a: yes\nb: true\nc: 12\nd: ~\ne: 15m\nf: 0.05\ng:\nh: null\n";
    assert_eq!(
        read(file).expect("YAML"),
        json!({ "a": "yes", "b": true, "c": 12, "d": null, "e": "15m", "f": 0.05, "g": null, "h": null })
    );
    // Prices are numbers in any notation.
    assert_eq!(values("a: 0.50\nb: 1e3").expect("YAML"), json!({ "a": 0.5, "b": 1000.0 }));
}

#[test]
fn anchors_and_merges_keep_texts_too() {
    let file = "base: &base {labels: [3.10], max: 5}\none:\n  <<: *base\n  max: 0x10\ntwo: *base\n";
    let value = read(file).expect("YAML");
    assert_eq!(value["one"], json!({ "labels": ["3.10"], "max": "0x10" }));
    assert_eq!(value["two"], json!({ "labels": ["3.10"], "max": 5 }));
}

/// The library's messages for programmers.
const ADVICE: [&str; 11] = [
    "Option",
    "Policy",
    "from_str",
    "&str",
    "struct",
    "u64",
    "serde",
    "deserialize",
    "weak",
    "scalar",
    "indicator",
];

#[test]
fn a_mistake_is_told_with_its_line_and_never_as_advice_to_programmers() {
    let rows = [
        ("a: 1\na: 2\n", "line 2, column 1: a is written twice"),
        ("a: [1\nb: 2", "line 2, column 2: illegal placement of ':'"),
        ("a:\n  b: 1\n c: 2", "line 3, column 2: the indentation fits no line above"),
        ("a:\n\tb: 1", "line 2, column 2: there is a tab in the indentation; use spaces"),
        ("a: 'x", "line 1, column 4: unclosed quote"),
        ("a: 'it's'", "line 1, column 8: invalid trailing content after a quoted text"),
        ("a: b: c", "line 1, column 5: a field cannot begin here"),
        ("a: 1\n b: 2", "line 2, column 3: a field cannot begin here"),
        ("a: @x", "line 1, column 4: a value cannot begin with this character; put it in quotes"),
        ("a: %x", "line 1, column 4: a value cannot begin with this character; put it in quotes"),
        ("a: {b: 1", "line 1, column 4: unclosed bracket '{'"),
        ("a: ]", "line 1, column 4: misplaced bracket"),
        ("- a\nb: 1", "line 2, column 1: here should be another list item (- …)"),
        ("a: - b", "line 1, column 4: a list item (- …) cannot begin here"),
        ("a: |\nx", "line 2, column 1: a line is neither a field (name: value) nor a list item"),
        ("a: \"\\q\"", "line 1, column 4: unknown escape (\\…) in a quoted text"),
        ("a: *x", "line 1, column 4: this alias (*name) has no anchor (&name)"),
        ("a: &x [*x]", "line 1, column 8: this alias (*name) is inside its own anchor"),
        ("a: !!int x", "line 1, column 10: this value does not fit its tag (!…); remove the tag"),
        ("a: !!binary zz", "this value does not fit its tag (!…); remove the tag"),
        ("a: !!binary /w==", "this value does not fit its tag (!…); remove the tag"),
        ("<<: 3\n", "line 1, column 5: << takes a group of fields, or a list of them"),
        ("a: 1\n---\nb: 2", "line 3, column 1: there is a second document; remove the line ---"),
        ("? [1]\n: 2", "line 1, column 3: a field's name must be text"),
        ("null: 1", "line 1, column 1: null is not allowed here"),
        ("a: \u{0}", "line 1, column 4: a value cannot begin with this character"),
        ("%FOO\na: 1", "line 2, column 1: a line that begins with % is a directive; remove it"),
    ];
    for (text, expected) in rows {
        for told in [read(text), values(text)] {
            let Err(error) = told else { panic!("accepted: {text:?}") };
            let told = with_causes(&error);
            let said = told.strip_prefix("not valid YAML: ").unwrap_or_default();
            assert!(said.contains(expected), "{text:?}: {told}");
            assert!(!ADVICE.iter().any(|word| told.contains(word)), "{text:?}: {told}");
        }
    }
}
