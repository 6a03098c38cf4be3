//! YAML, as operators write pool files.

mod written;

use muster_control::admin::YamlError;
use muster_control::causes::Cause;
use serde::de::DeserializeSeed as _;
use serde_json::Value;
use serde_saphyr::options::NonFiniteFloatPolicy;
use serde_saphyr::{Error, MessageFormatter as _, Options, UserMessageFormatter};

use self::written::Written;

/// Reads a pool file. A plain scalar is a number or a truth value only if it is written as that
/// value prints. Anything else is the text as written: `3.10`, `1e3`, `0x10`, `010` and `True` are
/// texts. So a field that takes a text gets what the operator wrote, and a field that takes a number
/// refuses what two readers of YAML read differently.
///
/// `yes` and `on` are texts. A field that is written twice is an error.
///
/// # Errors
/// When the text is not YAML: a sentence with its line and column.
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

/// Reads values: numbers in any notation of YAML are numbers.
///
/// # Errors
/// As [`read`].
pub fn values(text: &str) -> Result<Value, YamlError> {
    serde_saphyr::from_str_with_options(text, options()).map_err(|error| not_yaml(&error))
}

fn options() -> Options {
    serde_saphyr::options! { strict_booleans: true }
}

/// The error as an operator can use it. The library's own text advises programmers.
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
            "this alias (*name) is inside of its own anchor (&name)".to_owned()
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

/// What the parser's texts begin with, and what an operator can do about it.
const SENTENCES: [(&str, &str); 13] = [
    (
        "mapping values are not allowed",
        "a field cannot begin here; put the value in quotes, or correct the indentation",
    ),
    (
        "block sequence entries are not allowed",
        "a list item (- …) cannot begin here; begin it on a line of its own",
    ),
    ("tabs disallowed", "there is a tab in the indentation; use spaces"),
    ("while parsing a block mapping", "the indentation fits no line above"),
    ("while parsing a block collection", "here should be another list item (- …)"),
    ("unexpected character", "a value cannot begin with this character; put it in quotes"),
    ("expected string scalar", "the name of a field is a text"),
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
