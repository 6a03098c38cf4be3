//! One HTTP exchange with GitHub.

use std::error::Error;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client as Connections;
use hyper_util::rt::TokioExecutor;
use muster_control::causes::{Cause, causes, with_causes};
use muster_domain::observation::ProviderError;
use muster_domain::time::Time;
use octocrab::{AuthState, OctoBody, Octocrab, OctocrabBuilder};
use secrecy::{ExposeSecret, SecretString};

use crate::answer::{Answer, fault};
use crate::{ClientSettings, SetupError};

/// GitHub asks every client to name itself.
const AGENT: &str = concat!("muster/", env!("CARGO_PKG_VERSION"));
/// A renamed repository redirects once; more is a loop.
const MAX_REDIRECTS: usize = 3;
/// How long an unused connection is trusted. A frozen function wakes up to connections that the
/// other side has closed meanwhile, and a request sent down one of those is lost.
const IDLE_KEPT: Duration = Duration::from_secs(5);

/// A call, before anybody signs it.
pub(crate) struct Call {
    /// Its name in faults.
    pub(crate) operation: &'static str,
    pub(crate) method: Method,
    /// Path and query, below the base address.
    pub(crate) path: String,
    pub(crate) body: Option<serde_json::Value>,
}

/// Where the API is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    /// `scheme://authority`.
    origin: String,
    /// What every path starts with; empty, or `/…` without a slash at its end.
    prefix: String,
}

pub(crate) struct Client {
    octocrab: Octocrab,
    /// For one exchange as a whole: the time-outs of the connection start anew with every byte.
    limit: Duration,
    /// The least that an answer has left of an hour's calls, since somebody asked.
    left: Mutex<Option<u32>>,
}

impl Client {
    pub(crate) fn new(settings: &ClientSettings) -> Result<Self, SetupError> {
        let octocrab = connect(settings)?;
        let limit = settings.connect_timeout + settings.read_timeout;
        Ok(Self { octocrab, limit, left: Mutex::new(None) })
    }

    /// The least that GitHub has said to be left of an hour's calls since the last time. Each
    /// installation has an hour of its own, so that is of the one that has least.
    pub(crate) fn take_calls_left(&self) -> Option<u32> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn note_left(&self, left: Option<u32>) {
        let mut least = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        *least = least.into_iter().chain(left).min();
    }

    /// Sends a call and reads the whole answer. An error means that there is none.
    pub(crate) async fn send(
        &self,
        call: &Call,
        base: &Base,
        bearer: &SecretString,
        at: Time,
    ) -> Result<Answer, ProviderError> {
        self.send_with(call, base, Some(bearer), bearer, at).await
    }

    /// The same without a signature, for a call whose path is its credential.
    pub(crate) async fn send_unsigned(
        &self,
        call: &Call,
        base: &Base,
        hidden: &SecretString,
        at: Time,
    ) -> Result<Answer, ProviderError> {
        self.send_with(call, base, None, hidden, at).await
    }

    async fn send_with(
        &self,
        call: &Call,
        base: &Base,
        bearer: Option<&SecretString>,
        hidden: &SecretString,
        at: Time,
    ) -> Result<Answer, ProviderError> {
        let outcome = tokio::time::timeout(self.limit, self.exchange(call, base, bearer)).await;
        let failed = |code, message| {
            // A sentence of the client's own, but a header that it cannot send would be quoted.
            let message = redact(message, hidden);
            ProviderError::Unavailable(fault(call.operation, code, message, at))
        };
        if let Ok(Ok((status, headers, _))) = &outcome {
            let remaining = headers.get("x-ratelimit-remaining").and_then(|n| n.to_str().ok());
            self.note_left(remaining.and_then(|left| left.parse().ok()));
            tracing::debug!(
                github.operation = call.operation,
                http.status = status.as_u16(),
                github.remaining = remaining,
                "asked GitHub"
            );
        }
        match outcome {
            Err(_) => Err(failed("timeout", format!("no answer within {:?}", self.limit))),
            Ok(Err(error)) => Err(failed(code_of(&error), told(&error))),
            Ok(Ok((status, headers, body))) => Ok(Answer {
                operation: call.operation,
                at,
                status,
                headers,
                // An answer that quotes our token back must not carry it into a row.
                body: redact(body, hidden),
            }),
        }
    }

    async fn exchange(
        &self,
        call: &Call,
        base: &Base,
        bearer: Option<&SecretString>,
    ) -> octocrab::Result<(StatusCode, HeaderMap, String)> {
        let mut address = format!("{}{}{}", base.origin, base.prefix, call.path);
        let mut redirects = 0;
        loop {
            // octocrab's own base address is not used: it drops a prefix that a path happens to
            // start with.
            let mut request = Request::builder()
                .method(call.method.clone())
                .uri(&address)
                .header(ACCEPT, "application/vnd.github+json")
                .header(USER_AGENT, AGENT);
            if let (Some(headers), Some(bearer)) = (request.headers_mut(), bearer) {
                headers.insert(AUTHORIZATION, authorization(bearer));
            }
            let request = self.octocrab.build_request(request, call.body.as_ref())?;
            let response = self.octocrab.send(request).await?;
            match base.redirect(&call.method, response.status(), response.headers()) {
                Some(next) if redirects < MAX_REDIRECTS => {
                    address = next;
                    redirects += 1;
                }
                _ => {
                    let (status, headers) = (response.status(), response.headers().clone());
                    return Ok((status, headers, self.octocrab.body_to_string(response).await?));
                }
            }
        }
    }
}

impl Base {
    /// Splits the API's address into origin and prefix; none for what would send tokens in clear
    /// text.
    pub(crate) fn read(url: &str) -> Option<Self> {
        let uri: Uri = url.trim().parse().ok()?;
        let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
        if authority.as_str().contains('@') || uri.query().is_some() {
            return None;
        }
        let local = matches!(authority.host(), "localhost" | "127.0.0.1" | "[::1]");
        if scheme != "https" && !(scheme == "http" && local) {
            return None;
        }
        let prefix = uri.path().trim_end_matches('/').to_owned();
        Some(Self { origin: format!("{scheme}://{authority}"), prefix })
    }

    /// Where a renamed or transferred repository went. Never to another host: the token goes along.
    fn redirect(&self, method: &Method, status: StatusCode, headers: &HeaderMap) -> Option<String> {
        let repeats_any = matches!(status.as_u16(), 307 | 308);
        let repeats_safe = matches!(status.as_u16(), 301 | 302) && method != Method::POST;
        if !repeats_any && !repeats_safe {
            return None;
        }
        let location = headers.get(LOCATION)?.to_str().ok()?;
        let rest = location.strip_prefix(&self.origin).unwrap_or(location);
        (rest.starts_with('/') && !rest.starts_with("//")).then(|| format!("{}{rest}", self.origin))
    }
}

/// octocrab over connections of our own: ring, the system's trusted roots, HTTP/1.1. No layer of it
/// retries.
fn connect(settings: &ClientSettings) -> Result<Octocrab, SetupError> {
    let tls = HttpsConnectorBuilder::new()
        .with_provider_and_native_roots(rustls::crypto::ring::default_provider())
        .map_err(|error| SetupError {
            what: "no trusted roots".to_owned(),
            cause: Some(Cause::new(error)),
        })?
        // `Base` has refused http for anything but this machine.
        .https_or_http()
        .enable_http1()
        .build();
    let mut connector = TimeoutConnector::new(tls);
    connector.set_connect_timeout(Some(settings.connect_timeout));
    connector.set_read_timeout(Some(settings.read_timeout));
    connector.set_write_timeout(Some(settings.read_timeout));
    let connections: Connections<_, OctoBody> =
        Connections::builder(TokioExecutor::new()).pool_idle_timeout(IDLE_KEPT).build(connector);
    let built =
        OctocrabBuilder::new_empty().with_service(connections).with_auth(AuthState::None).build();
    match built {
        Ok(octocrab) => Ok(octocrab),
        Err(never) => match never {},
    }
}

fn authorization(bearer: &SecretString) -> HeaderValue {
    let text = format!("Bearer {}", bearer.expose_secret());
    // A token with a line break would be GitHub's fault; an empty header makes it a plain 401.
    let mut value = HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""));
    value.set_sensitive(true);
    value
}

fn redact(text: String, bearer: &SecretString) -> String {
    let secret = bearer.expose_secret();
    if secret.is_empty() || !text.contains(secret) {
        return text;
    }
    text.replace(secret, "[redacted]")
}

/// A short word for what went wrong, for people and metrics.
fn code_of(error: &(dyn Error + 'static)) -> &'static str {
    let kinds = causes(error).filter_map(|cause| cause.downcast_ref::<io::Error>());
    for kind in kinds.map(io::Error::kind) {
        match kind {
            io::ErrorKind::TimedOut => return "timeout",
            io::ErrorKind::ConnectionRefused => return "refused",
            io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => return "reset",
            _ => {}
        }
    }
    "no-answer"
}

/// The error and its causes in one short line.
fn told(error: &(dyn Error + 'static)) -> String {
    with_causes(error).chars().filter(|c| !c.is_control()).take(300).collect()
}
