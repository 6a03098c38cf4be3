//! The gateway's event, as far as we read it, and the answer to it.
//!
//! Read by hand and not with `aws_lambda_events`: of a delivery's dozens of fields and headers we
//! keep six, and two headers of the same name must not become one.
//!
//! Source:
//! docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html
//! (payload 2.0)

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_control::metrics::Metric;
use muster_domain::ids::JobKey;
use muster_domain::job::JobStatus;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::ser::{SerializeStruct, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The largest body that is looked at, bytes. GitHub's job payloads have about 20 KB.
pub const MAX_BODY: usize = 1 << 20;
/// Longest delivery id or event name in our logs and messages.
const MAX_WORD: usize = 64;

/// A delivery, as the gateway hands it over. No `Debug`: the body is nobody's to print.
#[derive(Default, Deserialize)]
pub struct Event {
    /// The headers that matter.
    #[serde(default)]
    pub headers: Headers,
    #[serde(default)]
    body: Option<String>,
    #[serde(default, rename = "isBase64Encoded")]
    is_base64: bool,
}

/// What came of a body.
#[derive(Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// The bytes that GitHub signed.
    Raw(Cow<'a, [u8]>),
    /// Over [`MAX_BODY`].
    TooLarge,
    /// The gateway says base64, and it is not.
    Undecodable,
}

impl Event {
    /// The raw body. Its size is judged before anything is decoded.
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

    /// GitHub's number of the delivery. Empty when it is missing or is no plain word: the signature
    /// does not cover it.
    #[must_use]
    pub fn delivery(&self) -> &str {
        plain(self.headers.delivery.one())
    }

    /// The event's name, likewise.
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

/// A header's value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Value {
    /// Not there.
    #[default]
    Missing,
    /// There once.
    One(String),
    /// There more than once, in whatever case.
    Many,
}

impl Value {
    /// The value, if there is exactly one.
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

/// The headers that matter. Names are compared without regard to case.
#[derive(Debug, Default)]
pub struct Headers {
    /// `X-Hub-Signature-256`
    pub signature: Value,
    /// `X-GitHub-Event`
    pub event: Value,
    /// `X-GitHub-Delivery`
    pub delivery: Value,
    /// `Content-Type`
    pub content_type: Value,
    /// `Content-Length`
    pub content_length: Value,
}

/// The name of a header that matters.
enum Name {
    Signature,
    Event,
    Delivery,
    ContentType,
    ContentLength,
    Other,
}

const NAMES: [(&str, Name); 5] = [
    ("x-hub-signature-256", Name::Signature),
    ("x-github-event", Name::Event),
    ("x-github-delivery", Name::Delivery),
    ("content-type", Name::ContentType),
    ("content-length", Name::ContentLength),
];

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(NameVisitor)
    }
}

/// Compares in place: most headers of a delivery are not ours to keep.
struct NameVisitor;

impl Visitor<'_> for NameVisitor {
    type Value = Name;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a header's name")
    }

    fn visit_str<E>(self, text: &str) -> Result<Name, E> {
        let known = NAMES.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        Ok(known.map_or(Name::Other, |(_, name)| name))
    }
}

impl Headers {
    fn slot(&mut self, name: &Name) -> Option<&mut Value> {
        Some(match name {
            Name::Signature => &mut self.signature,
            Name::Event => &mut self.event,
            Name::Delivery => &mut self.delivery,
            Name::ContentType => &mut self.content_type,
            Name::ContentLength => &mut self.content_length,
            Name::Other => return None,
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

    /// `"headers": null`
    fn visit_unit<E>(self) -> Result<Headers, E> {
        Ok(Headers::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Headers, A::Error> {
        let mut headers = Headers::default();
        while let Some(name) = map.next_key::<Name>()? {
            match headers.slot(&name) {
                Some(slot) => slot.add(map.next_value::<Text>()?.0),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(headers)
    }
}

/// A text; none for any other kind of value, which no gateway sends.
struct Text(Option<String>);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        Ok(Self(if let serde_json::Value::String(text) = value { Some(text) } else { None }))
    }
}

/// What GitHub hears, and shows in its delivery log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// One of few words, for logs and metrics.
    pub outcome: &'static str,
    /// A sentence for people.
    pub reason: Cow<'static, str>,
}

impl Answer {
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

    pub(crate) fn ignored(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(202, "ignored", reason)
    }

    pub(crate) fn pong() -> Self {
        Self::new(200, "pong", "the webhook works")
    }

    pub(crate) fn malformed(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(400, "malformed", reason)
    }

    /// A job's event that this version cannot read. Whatever the job waits for, nobody here knows.
    pub(crate) fn unreadable(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(400, "unreadable", reason)
    }

    /// The metric that counts such answers.
    #[must_use]
    pub fn metric(&self) -> Option<Metric> {
        (self.outcome == "unreadable").then_some(Metric::WebhooksUnreadable)
    }

    /// The same for every reason: what was nearly right is nobody's business.
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

    /// What went wrong is for the operator's log, not for strangers.
    pub(crate) fn no_secret() -> Self {
        Self::new(503, "failed", "the signature cannot be checked now; the function's log says why")
    }

    pub(crate) fn not_queued() -> Self {
        Self::new(503, "failed", "the event could not be queued; please redeliver it later")
    }
}

/// As the gateway wants it.
impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let body = json!({"outcome": self.outcome, "reason": self.reason}).to_string();
        let mut answer = serializer.serialize_struct("Answer", 3)?;
        answer.serialize_field("statusCode", &self.status)?;
        answer.serialize_field("headers", &json!({"content-type": "application/json"}))?;
        answer.serialize_field("body", &body)?;
        answer.end()
    }
}
