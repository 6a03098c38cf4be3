//! The functions' log lines.

use muster_domain::time::Time;
use serde_json::Value;

use crate::page::{Screen, TextPage};
use crate::sources::Source;
use crate::table::{Text, TextStyle};
use crate::words::moment;

/// A raw log line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    pub at: Time,
    pub source: Source,
    pub text: String,
}

/// A log line for people.
struct LogEntry {
    level: String,
    message: String,
    fields: String,
}

/// Renders the lines for people, without metrics and without Lambda's own lines unless something failed.
#[must_use]
pub fn page(lines: &[LogLine], now: Time, screen: Screen) -> String {
    let mut page = TextPage::new(screen);
    for line in lines {
        show(&mut page, line, now);
    }
    page.into_text()
}

/// Returns whether a line is about a job or an instance, or is a warning. A watched screen has no room for other lines,
/// such as those of each sweep and delivery.
#[must_use]
pub fn is_news(line: &LogLine) -> bool {
    let Some(told) = told(&line.text) else { return false };
    let names = ["instance.id=", "job.id="];
    told.level != "INFO"
        || told.fields.split(' ').any(|field| names.iter().any(|name| field.starts_with(name)))
}

fn show(page: &mut TextPage, line: &LogLine, now: Time) {
    let Some(told) = told(&line.text) else { return };
    if page.is_piped() {
        let LogEntry { level, message, fields } = &told;
        page.tabs(&[&moment(line.at, now), line.source.name(), level, message, fields]);
    } else {
        page.line(parts(line, told, now));
    }
}

/// Adds a line in one row, unless it is unimportant.
pub(super) fn row(page: &mut TextPage, line: &LogLine, now: Time) {
    if let Some(told) = told(&line.text) {
        page.cut(parts(line, told, now));
    }
}

fn parts(line: &LogLine, told: LogEntry, now: Time) -> [Text; 5] {
    let LogEntry { level, message, fields } = told;
    let look = match level.as_str() {
        "ERROR" => TextStyle::Bad,
        "WARN" => TextStyle::Warning,
        _ => TextStyle::Plain,
    };
    [
        Text::new(moment(line.at, now), TextStyle::Dim),
        Text::from(format!("  {:<10}  ", line.source.name())),
        Text::new(format!("{level:<5}"), look),
        Text::from(format!("  {message}")),
        Text::new(if fields.is_empty() { fields } else { format!("  {fields}") }, TextStyle::Dim),
    ]
}

/// Parses a line; `None` if it is unimportant.
fn told(text: &str) -> Option<LogEntry> {
    let plain = |level: &str, message: &str| LogEntry {
        level: level.to_owned(),
        message: message.to_owned(),
        fields: String::new(),
    };
    let Ok(Value::Object(mut line)) = serde_json::from_str::<Value>(text) else {
        let is_lambdas =
            ["START ", "END ", "REPORT ", "INIT_START "].iter().any(|word| text.starts_with(word));
        return (!is_lambdas).then(|| plain("", text));
    };
    if line.contains_key("_aws") {
        return None;
    }
    let text_of = |value: Option<Value>| match value {
        Some(Value::String(text)) => text,
        Some(value) => value.to_string(),
        None => String::new(),
    };
    if let Some(kind) =
        line.get("type").and_then(Value::as_str).filter(|kind| kind.starts_with("platform."))
    {
        let status = line["record"]["status"].as_str().unwrap_or("success");
        let is_bad = status != "success" && kind == "platform.report";
        return is_bad
            .then(|| plain("ERROR", &format!("Lambda: the invocation ended with {status}")));
    }
    if line.contains_key("route") && line.contains_key("status") {
        return Some(access(&line));
    }
    let level = text_of(line.remove("level"));
    let message = text_of(line.remove("message"));
    for name in ["timestamp", "target", "span"] {
        line.remove(name);
    }
    let mut fields: Vec<(String, Value)> = line.into_iter().collect();
    fields.sort_by_key(|(name, _)| place(name));
    let fields = fields.into_iter().map(|(name, value)| {
        let value = text_of(Some(value));
        if value.contains(' ') { format!("{name}={value:?}") } else { format!("{name}={value}") }
    });
    Some(LogEntry { level, message, fields: fields.collect::<Vec<_>>().join(" ") })
}

/// Sorts the subject of a line first, because the end may be cut off.
fn place(name: &str) -> usize {
    let first = ["instance.id", "job.id", "pool.name", "launch.id", "from", "to", "reason"];
    first.iter().position(|known| *known == name).unwrap_or(first.len())
}

/// Formats a line of the access log, whose fields the template defines.
fn access(line: &serde_json::Map<String, Value>) -> LogEntry {
    let field = |name: &str| line.get(name).and_then(Value::as_str).filter(|text| *text != "-");
    let status = field("status").unwrap_or("?");
    let level = match status.as_bytes().first() {
        Some(b'5') => "ERROR",
        Some(b'4') => "WARN",
        _ => "INFO",
    };
    let latency = field("latencyMs").map(|ms| format!("{ms} ms"));
    let errors = ["error", "integrationError"].map(|name| field(name).map(str::to_owned));
    let fields: Vec<String> = latency.into_iter().chain(errors.into_iter().flatten()).collect();
    LogEntry {
        level: level.to_owned(),
        message: format!("{} {status}", field("route").unwrap_or("?")),
        fields: fields.join(" "),
    }
}

/// Returns whether a line contains one of the names as a whole word: `1/2` is not in `11/2`.
#[must_use]
pub fn names_one(text: &str, names: &[String]) -> bool {
    let is_word = |name: &str| {
        text.match_indices(name).any(|(at, found)| {
            let before = text[..at].chars().next_back();
            let after = text[at + found.len()..].chars().next();
            ![before, after].into_iter().flatten().any(char::is_alphanumeric)
        })
    };
    names.is_empty() || names.iter().any(|name| is_word(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_word_of_its_own() {
        let names = ["1/2".to_owned(), "small-l0-0".to_owned()];
        for (text, is_named) in [
            (r#"{"job":"1/2"}"#, true),
            (r#"{"job":"11/2"}"#, false),
            (r#"{"job":"1/23"}"#, false),
            (r#"{"runner":"small-l0-0-1"}"#, true),
            (r#"{"name":"small-l0-01"}"#, false),
            ("", false),
        ] {
            assert_eq!(names_one(text, &names), is_named, "{text}");
        }
        assert!(names_one("anything", &[]));
    }

    #[test]
    fn every_group_is_the_templates() {
        let template = include_str!("../../../template.yaml");
        for source in Source::ALL {
            let line = format!("LogGroupName: !Sub \"{}\"", source.group("${AWS::StackName}"));
            assert!(template.contains(&line), "{line}");
        }
        assert_eq!(template.matches("LogGroupName: ").count(), Source::ALL.len());
    }
}
