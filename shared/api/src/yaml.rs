//! Parses the YAML of operators' pool files.

mod written;

use muster_domain::causes::Cause;
use serde::de::DeserializeSeed as _;
use serde_json::Value;
use serde_saphyr::options::NonFiniteFloatPolicy;
use serde_saphyr::{Error, MessageFormatter as _, Options, UserMessageFormatter};

use self::written::Written;

/// A text that is not valid YAML. The cause is the parser's error and includes the line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not valid YAML")]
pub struct YamlError(#[source] pub Cause);

/// Parses a pool file. A plain scalar is a number or a truth value only if its value prints exactly
/// as written. Anything else is text, as written: `3.10`, `1e3`, `0x10`, `010` and `True` are
/// texts. So a text field gets exactly what the operator wrote, and a number field rejects
/// notations that YAML parsers interpret differently.
///
/// `yes` and `on` are texts. A duplicate field is an error.
///
/// # Errors
/// If the text is not valid YAML: a sentence with the line and column.
pub fn read(text: &str) -> Result<Value, YamlError> {
    let lenient = serde_saphyr::options! {
        strict_booleans: true,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
    };
    let value: Value =
        serde_saphyr::from_str_with_options(text, lenient).map_err(|error| not_yaml(&error))?;
    let written = serde_saphyr::with_deserializer_from_str_with_options(text, options(), |input| {
        Written(&value).deserialize(input)
    });
    written.map_err(|error| not_yaml(&error))
}

/// Parses values, with numbers in any YAML notation.
///
/// # Errors
/// As for [`read`].
pub fn values(text: &str) -> Result<Value, YamlError> {
    serde_saphyr::from_str_with_options(text, options()).map_err(|error| not_yaml(&error))
}

fn options() -> Options {
    serde_saphyr::options! { strict_booleans: true }
}

/// Converts the error for operators. The library's own messages are for programmers.
fn not_yaml(error: &Error) -> YamlError {
    let error = error.without_snippet();
    let what = match error {
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("{key} is written twice"),
        Error::DuplicateMappingKey { key: None, .. } => "a field is written twice".to_owned(),
        Error::MultipleDocuments { .. } => {
            "there is a second document; remove the line ---".to_owned()
        }
        Error::Eof { .. } => "the file is empty or ends too early".to_owned(),
        Error::UnknownAnchor { .. } => "this alias (*name) has no anchor (&name)".to_owned(),
        Error::RecursiveReferencesRequireWeakTypes { .. } => {
            "this alias (*name) is inside its own anchor (&name)".to_owned()
        }
        Error::TaggedScalarCannotDeserializeIntoString { .. }
        | Error::BinaryNotUtf8 { .. }
        | Error::InvalidBinaryBase64 { .. }
        | Error::InvalidScalar { .. } => {
            "this value does not fit its tag (!…); remove the tag".to_owned()
        }
        error => in_plain_words(&UserMessageFormatter.format_message(error)),
    };
    YamlError(Cause::new(match error.location() {
        Some(at) if at.line() > 0 => format!("line {}, column {}: {what}", at.line(), at.column()),
        _ => what,
    }))
}

/// The parser's messages, by their start, and advice for operators.
const SENTENCES: [(&str, &str); 13] = [
    (
        "mapping values are not allowed",
        "a field cannot begin here; put the value in quotes, or correct the indentation",
    ),
    (
        "block sequence entries are not allowed",
        "a list item (- …) cannot begin here; put it on a new line",
    ),
    ("tabs disallowed", "there is a tab in the indentation; use spaces"),
    ("while parsing a block mapping", "the indentation fits no line above"),
    ("while parsing a block collection", "here should be another list item (- …)"),
    ("unexpected character", "a value cannot begin with this character; put it in quotes"),
    ("expected string scalar", "a field's name must be text"),
    ("simple key expected", "a line is neither a field (name: value) nor a list item (- …)"),
    ("while parsing a quoted scalar", "unknown escape (\\…) in a quoted text"),
    ("invalid trailing content after", "invalid trailing content after a quoted text"),
    ("YAML merge value", "<< takes a group of fields, or a list of them"),
    (
        "illegal placement of ':'",
        "illegal placement of ':'; a bracket or a quote before it may be open",
    ),
    (
        "did not find expected <document start>",
        "a line that begins with % is a directive; remove it",
    ),
];

fn in_plain_words(what: &str) -> String {
    let plain = SENTENCES.iter().find(|(begin, _)| what.starts_with(begin));
    plain.map_or_else(|| what.to_owned(), |(_, sentence)| (*sentence).to_owned())
}

#[cfg(test)]
mod tests;
