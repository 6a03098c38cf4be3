//! Classification of GitHub's responses. Only this module converts a status to a domain type.

use http::header::{DATE, LINK, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use muster_domain::provider::{ErrorDetail, ProviderError};
use muster_domain::time::{Seconds, Time};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A response with any status. Has no `Debug`, because the body may be a credential.
pub(crate) struct ApiResponse {
    pub(crate) operation: &'static str,
    /// When the request was sent.
    pub(crate) at: Time,
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

/// Maximum stored length of GitHub's messages, in characters.
const MAX_MESSAGE: usize = 300;
/// The wait for a rate limit without a stated time. GitHub asks for at least a minute.
///
/// Source: docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api
const UNSTATED_WAIT: Seconds = Seconds(60);
/// Maximum accepted wait. The hourly limit resets within an hour.
const MAX_WAIT: Seconds = Seconds(3600);

/// Creates an error detail.
pub(crate) fn fault(operation: &str, code: &str, message: String, at: Time) -> ErrorDetail {
    ErrorDetail { at, operation: operation.to_owned(), code: code.to_owned(), message }
}

/// Replaces everything that looks like a GitHub token, ours or not.
///
/// Source:
/// docs.github.com/en/authentication/keeping-your-account-and-data-secure/about-authentication-to-github#githubs-token-formats
fn without_tokens(line: &str) -> String {
    let is_inside = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let is_token = |word: &str| {
        let (kind, rest) = word.split_once('_').unwrap_or((word, ""));
        let classic = kind.len() == 3 && kind.starts_with("gh") && !rest.is_empty();
        classic || word.starts_with("github_pat_") || word.starts_with("eyJ")
    };
    let words = line.split_inclusive(|c| !is_inside(c)).map(|piece| {
        let word = piece.trim_end_matches(|c| !is_inside(c));
        if is_token(word) {
            format!("[redacted]{}", &piece[word.len()..])
        } else {
            piece.to_owned()
        }
    });
    words.collect()
}

/// Returns a text field of a JSON object, unless it is blank.
fn text<'a>(body: &'a Value, name: &str) -> Option<&'a str> {
    body.get(name)?.as_str().filter(|text| !text.trim().is_empty())
}

/// Returns the message of an error body with its details, if any.
///
/// Source:
/// docs.github.com/en/rest/using-the-rest-api/troubleshooting-the-rest-api#validation-failed; some
/// endpoints answer with plain strings in `errors` (actions/runner #487), and OAuth endpoints with
/// `error` and `error_description`.
fn complaint(body: &Value) -> Vec<String> {
    let named = ["message", "error_description", "error"];
    let message = named.into_iter().find_map(|name| text(body, name)).map(str::to_owned);
    let details = details(body.get("errors").unwrap_or(&Value::Null));
    let is_new = |detail: &String| message.as_ref().is_none_or(|known| !known.contains(&**detail));
    let details: Vec<String> = details.into_iter().filter(is_new).collect();
    let details = (!details.is_empty()).then(|| details.join("; "));
    message.into_iter().chain(details).collect()
}

/// Returns the text of each entry of `errors`: strings, objects with a message or with codes, or
/// lists of strings by field.
fn details(errors: &Value) -> Vec<String> {
    match errors {
        Value::String(one) if !one.trim().is_empty() => vec![one.clone()],
        Value::Array(all) => all.iter().flat_map(details).collect(),
        Value::Object(fields) => {
            let part = |name| text(errors, name);
            let subject: Vec<&str> = ["resource", "field"].into_iter().filter_map(part).collect();
            match (part("message"), part("code")) {
                (Some(message), _) => vec![message.to_owned()],
                (None, Some(code)) if subject.is_empty() => vec![code.to_owned()],
                (None, Some(code)) => vec![format!("{} {code}", subject.join(" "))],
                (None, None) if !subject.is_empty() => vec![subject.join(" ")],
                (None, None) => fields
                    .iter()
                    .flat_map(|(field, of)| {
                        details(of).into_iter().map(move |one| format!("{field} {one}"))
                    })
                    .collect(),
            }
        }
        _ => Vec::new(),
    }
}

impl ApiResponse {
    /// Parses the body. Errors give only the position, because the body may contain a credential.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, ProviderError> {
        serde_json::from_str(&self.body).map_err(|error| {
            let place = format!("line {}, column {}", error.line(), error.column());
            ProviderError::Unavailable(fault(
                self.operation,
                "unreadable",
                format!("status {}, but the answer cannot be read ({place})", self.status),
                self.at,
            ))
        })
    }

    /// Returns the error for every status that the caller does not handle itself.
    pub(crate) fn trouble(&self) -> ProviderError {
        match self.status {
            StatusCode::UNAUTHORIZED => ProviderError::Unauthorized(self.fault()),
            StatusCode::TOO_MANY_REQUESTS => ProviderError::RateLimited(self.limited_until()),
            StatusCode::FORBIDDEN if self.is_rate_limit() => {
                ProviderError::RateLimited(self.limited_until())
            }
            StatusCode::FORBIDDEN => ProviderError::Unauthorized(self.fault()),
            _ => ProviderError::Unavailable(self.fault()),
        }
    }

    /// Returns the error if GitHub rejects the request itself as invalid, so that repeating it
    /// cannot succeed.
    pub(crate) fn refusal(&self) -> Option<ErrorDetail> {
        matches!(
            self.status,
            StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::UNPROCESSABLE_ENTITY
        )
        .then(|| self.fault())
    }

    /// Returns the response as an error detail.
    pub(crate) fn fault(&self) -> ErrorDetail {
        fault(self.operation, self.status.as_str(), self.message(), self.at)
    }

    /// Returns GitHub's message with the details of `errors`, or the name of the status if the body
    /// has neither. Any other contents of a body (a proxy's page, an echo of the request) are
    /// dropped.
    fn message(&self) -> String {
        let body: Value = serde_json::from_str(&self.body).unwrap_or_default();
        let words = complaint(&body);
        let message = match words.is_empty() {
            true => self.status.canonical_reason().unwrap_or("no reason given").to_owned(),
            false => words.join(": "),
        };
        let printable: String =
            message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let line = printable.split_whitespace().collect::<Vec<_>>().join(" ");
        without_tokens(&line).chars().take(MAX_MESSAGE).collect()
    }

    /// Returns whether a 403 is a rate limit, according to its headers or, for some secondary
    /// limits, only the message. Older GitHub Enterprise Servers call those the abuse detection
    /// mechanism.
    fn is_rate_limit(&self) -> bool {
        let message = self.message().to_ascii_lowercase();
        self.header("x-ratelimit-remaining") == Some("0")
            || self.headers.contains_key(RETRY_AFTER)
            || ["rate limit", "abuse detection"].iter().any(|words| message.contains(words))
    }

    fn limited_until(&self) -> Time {
        let number = |name| self.header(name).and_then(|text| text.trim().parse::<i64>().ok());
        let until = match (number("retry-after"), number("x-ratelimit-reset")) {
            (Some(wait), _) => {
                let wait = u32::try_from(wait.max(0)).unwrap_or(MAX_WAIT.0);
                self.at + Seconds(wait)
            }
            (None, Some(reset)) if self.header("x-ratelimit-remaining") == Some("0") => {
                Time::from_millis(reset.saturating_mul(1000))
            }
            _ => self.at + UNSTATED_WAIT,
        };
        // At least a second: a reset time in the past would cause a busy loop.
        until.clamp(self.at + Seconds(1), self.at + MAX_WAIT)
    }

    /// Returns the URL of a listing's next page, from a header like `<https://…?page=2>;
    /// rel="next"`.
    /// Source: docs.github.com/en/rest/using-the-rest-api/using-pagination-in-the-rest-api
    pub(crate) fn next_page(&self) -> Option<&str> {
        let links = self.header(LINK.as_str())?;
        let next = links.split(',').find(|link| link.contains("rel=\"next\""))?;
        next.split(['<', '>']).nth(1)
    }

    /// Returns how far GitHub's clock is ahead of ours, in seconds; 0 if GitHub sends no date.
    pub(crate) fn clock_ahead(&self) -> i64 {
        let date = self.header(DATE.as_str()).and_then(|text| jiff::fmt::rfc2822::parse(text).ok());
        date.map_or(0, |date| date.timestamp().as_second() - self.at.as_secs())
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

#[cfg(test)]
mod tests;
