//! The parts of the gateway's event that the webhook reads, and its response.
//!
//! Parsed manually rather than with `aws_lambda_events`: of a delivery's dozens of fields and
//! headers only six are kept, and two headers with one name must not be merged.
//!
//! Source:
//! docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html
//! (payload 2.0)

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_control::metrics::Metric;
use muster_domain::ids::{AppName, JobKey};
use muster_domain::job::JobStatus;
use muster_domain::pool::warm::RepositoryEvent;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::ser::{SerializeStruct, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Maximum size of an accepted body, in bytes. GitHub's job payloads have about 20 KB.
pub const MAX_BODY: usize = 1 << 20;
/// Maximum length of a delivery ID or event name in logs and messages.
const MAX_WORD: usize = 64;

/// A delivery from the gateway. Has no `Debug`, so that the body is never logged.
#[derive(Default, Deserialize)]
pub struct GatewayEvent {
    /// The relevant headers.
    #[serde(default)]
    pub headers: Headers,
    #[serde(default)]
    body: Option<String>,
    #[serde(default, rename = "isBase64Encoded")]
    is_base64: bool,
    /// Absent or null if the path has none.
    #[serde(default, rename = "pathParameters")]
    path: Option<PathParameters>,
}

/// The parts of the path after `/webhook`.
#[derive(Default, Deserialize)]
struct PathParameters {
    app: Option<String>,
}

/// The result of reading a body.
#[derive(Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// The bytes that GitHub signed.
    Raw(Cow<'a, [u8]>),
    /// Larger than [`MAX_BODY`].
    TooLarge,
    /// Marked as base64 by the gateway, but not valid base64.
    Undecodable,
}

impl GatewayEvent {
    /// Returns the raw body. Checks the size before decoding.
    #[must_use]
    pub fn body(&self) -> Body<'_> {
        let text = self.body.as_deref().unwrap_or_default();
        let declared = self.headers.content_length.one().and_then(|length| length.parse().ok());
        let longest = if self.is_base64 { MAX_BODY.div_ceil(3) * 4 } else { MAX_BODY };
        if declared.is_some_and(|length: u64| length > MAX_BODY as u64) || text.len() > longest {
            return Body::TooLarge;
        }
        if !self.is_base64 {
            return Body::Raw(Cow::Borrowed(text.as_bytes()));
        }
        match STANDARD.decode(text) {
            Ok(bytes) if bytes.len() > MAX_BODY => Body::TooLarge,
            Ok(bytes) => Body::Raw(Cow::Owned(bytes)),
            Err(_) => Body::Undecodable,
        }
    }

    /// Returns the App that the delivery is addressed to: `/webhook` is the main App's address, and
    /// `/webhook/NAME` another's. `None` if that is not a name.
    #[must_use]
    pub fn app(&self) -> Option<AppName> {
        match self.path.as_ref().and_then(|path| path.app.as_ref()) {
            None => Some(AppName::MAIN),
            Some(name) => name.parse().ok().filter(|app| *app != AppName::MAIN),
        }
    }

    /// Returns GitHub's ID of the delivery. Empty if it is missing or not a plain word: the
    /// signature does not cover it.
    #[must_use]
    pub fn delivery(&self) -> &str {
        plain(self.headers.delivery.one())
    }

    /// Returns the event's name, with the restrictions of [`Self::delivery`].
    #[must_use]
    pub fn github_event(&self) -> &str {
        plain(self.headers.event.one())
    }
}

fn plain(text: Option<&str>) -> &str {
    let is_plain = |text: &&str| {
        text.len() <= MAX_WORD
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    text.filter(is_plain).unwrap_or_default()
}

/// The value of a header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Value {
    /// The header is absent.
    #[default]
    Missing,
    /// The header occurs once.
    One(String),
    /// The header occurs more than once, in any case.
    Many,
}

impl Value {
    /// Returns the value, if there is exactly one.
    #[must_use]
    pub fn one(&self) -> Option<&str> {
        match self {
            Self::One(value) => Some(value),
            Self::Missing | Self::Many => None,
        }
    }

    fn add(&mut self, value: Option<String>) {
        *self = match (&self, value) {
            (Self::Missing, Some(value)) => Self::One(value),
            _ => Self::Many,
        };
    }
}

/// The relevant headers. Names are compared case-insensitively.
#[derive(Debug, Default)]
pub struct Headers {
    /// `X-Hub-Signature-256`.
    pub signature: Value,
    /// `X-GitHub-Event`.
    pub event: Value,
    /// `X-GitHub-Delivery`.
    pub delivery: Value,
    /// `Content-Type`.
    pub content_type: Value,
    /// `Content-Length`.
    pub content_length: Value,
}

/// The name of a relevant header.
enum HeaderName {
    Signature,
    Event,
    Delivery,
    ContentType,
    ContentLength,
    Other,
}

const NAMES: [(&str, HeaderName); 5] = [
    ("x-hub-signature-256", HeaderName::Signature),
    ("x-github-event", HeaderName::Event),
    ("x-github-delivery", HeaderName::Delivery),
    ("content-type", HeaderName::ContentType),
    ("content-length", HeaderName::ContentLength),
];

impl<'de> Deserialize<'de> for HeaderName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(NameVisitor)
    }
}

/// Compares names without allocating: most headers of a delivery are not kept.
struct NameVisitor;

impl Visitor<'_> for NameVisitor {
    type Value = HeaderName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a header's name")
    }

    fn visit_str<E>(self, text: &str) -> Result<HeaderName, E> {
        let known = NAMES.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        Ok(known.map_or(HeaderName::Other, |(_, name)| name))
    }
}

impl Headers {
    fn slot(&mut self, name: &HeaderName) -> Option<&mut Value> {
        Some(match name {
            HeaderName::Signature => &mut self.signature,
            HeaderName::Event => &mut self.event,
            HeaderName::Delivery => &mut self.delivery,
            HeaderName::ContentType => &mut self.content_type,
            HeaderName::ContentLength => &mut self.content_length,
            HeaderName::Other => return None,
        })
    }
}

impl<'de> Deserialize<'de> for Headers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(HeadersVisitor)
    }
}

struct HeadersVisitor;

impl<'de> Visitor<'de> for HeadersVisitor {
    type Value = Headers;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("headers")
    }

    /// Handles `"headers": null`.
    fn visit_unit<E>(self) -> Result<Headers, E> {
        Ok(Headers::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Headers, A::Error> {
        let mut headers = Headers::default();
        while let Some(name) = map.next_key::<HeaderName>()? {
            match headers.slot(&name) {
                Some(slot) => slot.add(map.next_value::<HeaderText>()?.0),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(headers)
    }
}

/// A text. `None` for any other type of value, which no gateway sends.
struct HeaderText(Option<String>);

impl<'de> Deserialize<'de> for HeaderText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        Ok(Self(if let serde_json::Value::String(text) = value { Some(text) } else { None }))
    }
}

/// The response to GitHub, which shows it in its delivery log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookResponse {
    /// The HTTP status.
    pub status: u16,
    /// The outcome, one of a few words, for logs and metrics.
    pub outcome: &'static str,
    /// The reason, as a sentence for people.
    pub reason: Cow<'static, str>,
}

impl WebhookResponse {
    fn new(status: u16, outcome: &'static str, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { status, outcome, reason: reason.into() }
    }

    pub(crate) fn queued(job: JobKey, status: JobStatus) -> Self {
        let status = match status {
            JobStatus::Waiting => "waiting",
            JobStatus::Queued => "queued",
            JobStatus::InProgress => "in_progress",
            JobStatus::Completed => "completed",
        };
        Self::new(202, "queued", format!("event {status:?} of job {job} is on its way"))
    }

    pub(crate) fn forecast(event: &RepositoryEvent) -> Self {
        Self::new(202, "queued", format!("{event} is on its way to the pools with warm_on"))
    }

    pub(crate) fn ignored(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(202, "ignored", reason)
    }

    pub(crate) fn pong() -> Self {
        Self::new(200, "pong", "the webhook works")
    }

    pub(crate) fn malformed(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(400, "malformed", reason)
    }

    /// The response to a job event that this version cannot read.
    pub(crate) fn unreadable(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(400, "unreadable", reason)
    }

    /// Returns the metric that counts such responses.
    #[must_use]
    pub fn metric(&self) -> Option<Metric> {
        (self.outcome == "unreadable").then_some(Metric::WebhooksUnreadable)
    }

    /// The response to an unsigned delivery. It is identical for every reason, so that it gives
    /// attackers no hints.
    pub(crate) fn unsigned() -> Self {
        Self::new(401, "unsigned", "not signed by GitHub with this stack's webhook secret")
    }

    pub(crate) fn too_large() -> Self {
        Self::new(413, "too_large", "the body is over 1 MiB")
    }

    pub(crate) fn not_json() -> Self {
        Self::new(
            415,
            "not_json",
            // The App's settings do not show it; docs.github.com/en/rest/apps/webhooks does.
            "this is not JSON: set content_type of the GitHub App's webhook to json (PATCH /app/hook/config)",
        )
    }

    /// The response if the secret is unavailable. The cause is only for the operator's log.
    pub(crate) fn no_secret() -> Self {
        Self::new(
            503,
            "failed",
            "the signature cannot be checked now; the function's log shows why",
        )
    }

    pub(crate) fn not_queued() -> Self {
        Self::new(503, "failed", "the event could not be queued; please redeliver it later")
    }
}

/// Serializes in the gateway's format.
impl Serialize for WebhookResponse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let body = json!({"outcome": self.outcome, "reason": self.reason}).to_string();
        let mut answer = serializer.serialize_struct("Answer", 3)?;
        answer.serialize_field("statusCode", &self.status)?;
        answer.serialize_field("headers", &json!({"content-type": "application/json"}))?;
        answer.serialize_field("body", &body)?;
        answer.end()
    }
}
