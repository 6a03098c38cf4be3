//! A single call to the receiver.

use std::time::Duration;

use aws_smithy_http_client::Connector;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_runtime_api::client::http::HttpConnector as _;
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use muster_control::ports::Unavailable;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

/// Limits for a refusal's body: bytes to read, time to read, and characters to quote.
const MAX_READ: usize = 4 << 10;
const READ_LIMIT: Duration = Duration::from_secs(1);
const QUOTED: usize = 120;

/// A URL that may be called. Often its path is its only protection, so it cannot be logged.
#[derive(Clone, Debug)]
pub(crate) struct ReceiverUrl(SecretString);

impl ReceiverUrl {
    /// Parses a URL. `None` for one that would be called in clear text, except on localhost.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let uri: http::Uri = text.parse().ok()?;
        let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
        let is_local = matches!(authority.host(), "localhost" | "127.0.0.1" | "[::1]");
        let is_fit = scheme == "https" || scheme == "http" && is_local;
        (is_fit && !authority.as_str().contains('@')).then(|| Self(text.to_owned().into()))
    }

    pub(crate) fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

/// Sends calls. Redirects are not followed: the operator authorized only the given URL.
pub(crate) struct Poster {
    connector: Connector,
}

impl Poster {
    pub(crate) fn new() -> Self {
        let connector =
            Connector::builder().tls_provider(Provider::Rustls(CryptoMode::Ring)).build();
        Self { connector }
    }

    /// Posts a body. Any status from 200 to 299 means that it was accepted; the body of such a
    /// response is not read.
    pub(crate) async fn post(&self, address: &ReceiverUrl, body: &Value) -> Result<(), PostError> {
        let response = self.connector.call(request(address, body)?).await;
        let response = response.map_err(|error| {
            Unavailable::caused("the notification receiver cannot be reached", error)
        })?;
        if response.status().is_success() {
            return Ok(());
        }
        let status = response.status().as_u16();
        let quote = tokio::time::timeout(READ_LIMIT, quoted(response, address)).await;
        let quote = quote.unwrap_or_default();
        let why = Unavailable::new(format!("the notification receiver answered {status}{quote}"));
        Err(PostError { status: Some(status), why })
    }
}

/// Why a body was not accepted.
pub(crate) struct PostError {
    /// The response's status. `None` if there was no response.
    pub(crate) status: Option<u16>,
    pub(crate) why: Unavailable,
}

impl PostError {
    /// Returns whether a different body may be accepted, because this one is too long or not
    /// understood.
    pub(crate) fn is_of_content(&self) -> bool {
        matches!(self.status, Some(400 | 413 | 422))
    }
}

impl From<Unavailable> for PostError {
    fn from(why: Unavailable) -> Self {
        Self { status: None, why }
    }
}

fn request(address: &ReceiverUrl, body: &Value) -> Result<HttpRequest, Unavailable> {
    let unfit = || Unavailable::new("the notification address is not a valid URL");
    let request = http::Request::post(address.expose())
        .header("content-type", "application/json")
        .header("user-agent", concat!("muster/", env!("CARGO_PKG_VERSION")))
        .body(SdkBody::from(body.to_string()))
        .map_err(|_| unfit())?;
    HttpRequest::try_from(request).map_err(|_| unfit())
}

/// Quotes the start of a refusal's body, without the URL. Reads at most [`MAX_READ`] bytes: an
/// endless body would fill the function's memory.
async fn quoted(response: HttpResponse, address: &ReceiverUrl) -> String {
    let (mut body, mut read) = (ByteStream::new(response.into_body()), Vec::new());
    while read.len() < MAX_READ
        && let Some(Ok(part)) = body.next().await
    {
        read.extend(part.iter().take(MAX_READ - read.len()));
    }
    let text = String::from_utf8_lossy(&read).replace(address.expose(), "…");
    let text: String = text.chars().filter(|one| !one.is_control()).take(QUOTED).collect();
    if text.trim().is_empty() { String::new() } else { format!(": {}", text.trim()) }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::StatusCode;
    use axum::routing::post;
    use muster_domain::causes::with_causes;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_address_in_clear_text_is_none() {
        let fit = ["https://hooks.slack.com/services/T/B/x?y=z", "http://127.0.0.1:5004/notices"];
        assert!(fit.iter().all(|text| ReceiverUrl::read(text).is_some()));
        for text in
            ["http://hooks.example.com/x", "https://me:pass@example.com/x", "x", "ftp://a/b", "/x"]
        {
            assert!(ReceiverUrl::read(text).is_none(), "{text}");
        }
        let address = ReceiverUrl::read(fit[0]).expect("an address");
        assert!(!format!("{address:?}").contains("slack"), "{address:?}");
    }

    #[tokio::test]
    async fn what_a_receiver_answers_is_told_without_its_address() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let at = move |path: &str| {
            ReceiverUrl::read(&format!("http://127.0.0.1:{port}{path}")).expect("fit")
        };
        let echo = move || async move {
            (StatusCode::NOT_FOUND, format!("no http://127.0.0.1:{port}/gone\nhere"))
        };
        let moved = || async { (StatusCode::FOUND, [("location", "/taken")], "") };
        let app = Router::new()
            .route("/taken", post(|| async { "ok" }))
            .route("/gone", post(echo))
            .route("/moved", post(moved));
        tokio::spawn(async { axum::serve(listener, app).await });
        let poster = Poster::new();
        let mut told = Vec::new();
        for path in ["/taken", "/gone", "/moved"] {
            let answer = poster.post(&at(path), &json!({})).await;
            told.push(answer.map_err(|refusal| with_causes(&refusal.why).to_string()));
        }
        let refused = |text: &str| Err(format!("the notification receiver {text}"));
        assert_eq!(told, [Ok(()), refused("answered 404: no …here"), refused("answered 302")]);
    }

    mod flood;
}
