//! A single HTTP exchange with GitHub.

use std::error::Error;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use muster_domain::ca_bundle::UNTRUSTED;
use muster_domain::causes::{causes, with_causes};
use muster_domain::provider::ProviderError;
use muster_domain::time::Time;
use octocrab::Octocrab;
use secrecy::{ExposeSecret, SecretString};

use crate::answer::{ApiResponse, fault};
use crate::connections::Connections;
use crate::{ClientSettings, SetupError};

/// The user agent, which GitHub requires of every client.
const AGENT: &str = concat!("muster/", env!("CARGO_PKG_VERSION"));
/// Maximum number of redirects. A renamed repository redirects once; more indicate a loop.
const MAX_REDIRECTS: usize = 3;

/// An unsigned call.
pub(crate) struct ApiRequest {
    /// Its name in errors.
    pub(crate) operation: &'static str,
    pub(crate) method: Method,
    /// Path and query, relative to the base URL.
    pub(crate) path: String,
    pub(crate) body: Option<serde_json::Value>,
}

/// The base URL of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    /// `scheme://authority`.
    origin: String,
    /// The prefix of every path: empty, or `/…` without a trailing slash.
    prefix: String,
}

pub(crate) struct Client {
    pub(crate) connections: Connections,
    /// The time-out for a whole exchange: the connection's time-outs restart with every byte.
    limit: Duration,
    /// The lowest remaining hourly quota of calls in any response since [`Self::take_calls_left`].
    left: Mutex<Option<u32>>,
}

impl Client {
    pub(crate) fn new(settings: &ClientSettings) -> Result<Self, SetupError> {
        let limit = settings.connect_timeout + settings.read_timeout;
        Ok(Self { connections: Connections::new(settings)?, limit, left: Mutex::new(None) })
    }

    /// Returns the lowest remaining hourly quota that GitHub has reported since the last call of
    /// this function. Each installation has its own quota, so this is the lowest of them.
    pub(crate) fn take_calls_left(&self) -> Option<u32> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn note_left(&self, left: Option<u32>) {
        let mut least = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        *least = least.into_iter().chain(left).min();
    }

    /// Sends a call and reads the whole response. An error means that there was no response.
    pub(crate) async fn send(
        &self,
        call: &ApiRequest,
        base: &Base,
        bearer: &SecretString,
        at: Time,
    ) -> Result<ApiResponse, ProviderError> {
        self.send_with(call, base, Some(bearer), bearer, at).await
    }

    /// Sends a call without a bearer token, for a call whose path is its credential.
    pub(crate) async fn send_unsigned(
        &self,
        call: &ApiRequest,
        base: &Base,
        hidden: &SecretString,
        at: Time,
    ) -> Result<ApiResponse, ProviderError> {
        self.send_with(call, base, None, hidden, at).await
    }

    async fn send_with(
        &self,
        call: &ApiRequest,
        base: &Base,
        bearer: Option<&SecretString>,
        hidden: &SecretString,
        at: Time,
    ) -> Result<ApiResponse, ProviderError> {
        let mut octocrab = self.connections.current().await;
        let (outcome, rejection) = loop {
            let exchange = self.exchange(&octocrab, call, base, bearer);
            let outcome = tokio::time::timeout(self.limit, exchange).await;
            let rejection = match &outcome {
                Ok(Err(error)) => self.connections.rejection(error).await,
                Ok(Ok(_)) | Err(_) => None,
            };
            // A rejected certificate ends the handshake, so the request was not sent.
            let renewed = match rejection {
                Some(_) => self.connections.renewed().await,
                None => None,
            };
            match renewed {
                Some(renewed) => octocrab = renewed,
                None => break (outcome, rejection),
            }
        };
        let failed = |code, message| {
            // The client's own messages are safe, but they would quote a header that cannot be
            // sent.
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
        match (outcome, rejection) {
            (_, Some(why)) => Err(failed(UNTRUSTED, why)),
            (Err(_), _) => Err(failed("timeout", format!("no answer within {:?}", self.limit))),
            (Ok(Err(error)), _) => Err(failed(code_of(&error), told(&error))),
            (Ok(Ok((status, headers, body))), _) => Ok(ApiResponse {
                operation: call.operation,
                at,
                status,
                headers,
                // A response that quotes the token must not carry it into a record.
                body: redact(body, hidden),
            }),
        }
    }

    async fn exchange(
        &self,
        octocrab: &Octocrab,
        call: &ApiRequest,
        base: &Base,
        bearer: Option<&SecretString>,
    ) -> octocrab::Result<(StatusCode, HeaderMap, String)> {
        let mut address = format!("{}{}{}", base.origin, base.prefix, call.path);
        let mut redirects = 0;
        loop {
            // octocrab's own base URL is not used: it drops a prefix that a path happens to start
            // with.
            let mut request = Request::builder()
                .method(call.method.clone())
                .uri(&address)
                .header(ACCEPT, "application/vnd.github+json")
                .header(USER_AGENT, AGENT);
            if let (Some(headers), Some(bearer)) = (request.headers_mut(), bearer) {
                headers.insert(AUTHORIZATION, authorization(bearer));
            }
            let request = octocrab.build_request(request, call.body.as_ref())?;
            let response = octocrab.send(request).await?;
            match base.redirect(&call.method, response.status(), response.headers()) {
                Some(next) if redirects < MAX_REDIRECTS => {
                    address = next;
                    redirects += 1;
                }
                _ => {
                    let (status, headers) = (response.status(), response.headers().clone());
                    return Ok((status, headers, octocrab.body_to_string(response).await?));
                }
            }
        }
    }
}

impl Base {
    /// Splits the API's URL into origin and prefix. `None` for a URL that would send tokens in
    /// clear text.
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

    /// Returns the new URL of a renamed or transferred repository. Never on a different host,
    /// because the token is sent with it.
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

fn authorization(bearer: &SecretString) -> HeaderValue {
    let text = format!("Bearer {}", bearer.expose_secret());
    // If GitHub sent a token with a line break, the empty header leads to a plain 401.
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

/// Returns a short code of the failure, for people and metrics.
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

/// Formats the error and its causes in one short line.
fn told(error: &(dyn Error + 'static)) -> String {
    with_causes(error).chars().filter(|c| !c.is_control()).take(300).collect()
}
