//! Splits a message into parts that its receiver accepts.

use std::ops::Range;

use muster_control::notices::{Message, Notice};
use muster_control::ports::Unavailable;
use serde_json::Value;

use crate::form::Form;
use crate::post::PostError;

/// Maximum length of a sentence in characters, and after the receiver refused it alone.
const MAX_SENTENCE: usize = 1_000;
const MAX_REFUSED: usize = 200;
/// Appended to a sentence that was cut.
const MARK: &str = "… (shortened)";

/// Sends the first notifications of a message, as many as fit in one call. Returns how many are
/// done: accepted, or skipped because the receiver accepts the next one but not these.
///
/// A receiver that refuses the content gets half of it, down to one notification, then that one
/// shortened. If it accepts no part, it refuses all messages, and the count is zero.
pub(crate) async fn send(
    form: Form,
    message: &Message,
    mut call: impl AsyncFnMut(Value) -> Result<(), PostError>,
) -> Result<usize, Unavailable> {
    let total = message.notices.len();
    let (mut from, mut size, mut longest) = (0, fitting(form, message), MAX_SENTENCE);
    loop {
        let refusal = match call(fitted(form, message, from..from + size, longest)).await {
            Ok(()) => return Ok(from + size),
            Err(refusal) if !refusal.is_of_content() => return Err(refusal.why),
            Err(refusal) => refusal,
        };
        if size > 1 {
            size /= 2;
        } else if longest > MAX_REFUSED {
            longest = MAX_REFUSED;
        } else if from + 1 < total {
            let key = message.notices.get(from).map(|notice| notice.key.as_str());
            tracing::warn!(key, error = %refusal.why, "skipped a notice that its receiver refuses");
            (from, longest) = (from + 1, MAX_SENTENCE);
        } else {
            return Err(refusal.why);
        }
    }
}

/// Returns how many notifications fit in one call; a single one may have to be shortened.
fn fitting(form: Form, message: &Message) -> usize {
    let fits = |size: &usize| form.fits(&body(form, message, 0..*size, MAX_SENTENCE));
    let total = message.notices.len();
    (2..=total).rev().find(fits).unwrap_or(total.min(1))
}

/// Returns the body for these notifications, shortened to fit. Measured after encoding, because
/// escapes can lengthen a short sentence.
fn fitted(form: Form, message: &Message, range: Range<usize>, mut longest: usize) -> Value {
    loop {
        let body = body(form, message, range.clone(), longest);
        if form.fits(&body) || longest < 2 {
            return body;
        }
        longest /= 2;
    }
}

fn body(form: Form, message: &Message, range: Range<usize>, longest: usize) -> Value {
    let shortened =
        |notice: &Notice| Notice { message: cut(&notice.message, longest), ..notice.clone() };
    let notices = message.notices.get(range).unwrap_or_default().iter().map(shortened).collect();
    form.body(&Message { notices, ..message.clone() })
}

fn cut(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}{MARK}", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
