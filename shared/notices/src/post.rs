//! One call.

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

/// How long a receiver may take. A sweep does not wait for longer.
const LIMIT: Duration = Duration::from_secs(5);
/// How much of a refusal is quoted, characters.
const QUOTED: usize = 120;

/// An address that may be called: its path is often all that protects it, so no log can print it.
#[derive(Clone, Debug)]
pub(crate) struct Address(SecretString);

impl Address {
    /// None for what would send it in clear text, but to this machine.
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

/// Calls addresses. A redirect is not followed: who gave an address did not mean another one.
pub(crate) struct Poster {
    connector: Connector,
}

impl Poster {
    pub(crate) fn new() -> Self {
        let connector =
            Connector::builder().tls_provider(Provider::Rustls(CryptoMode::Ring)).build();
        Self { connector }
    }

    /// Any answer of the two hundreds means that it was taken.
    pub(crate) async fn post(&self, address: &Address, body: Value) -> Result<(), Unavailable> {
        let called = tokio::time::timeout(LIMIT, self.call(address, body)).await;
        called.unwrap_or_else(|_| {
            Err(Unavailable::new(format!(
                "the receiver of notices is silent for {} s",
                LIMIT.as_secs()
            )))
        })
    }

    async fn call(&self, address: &Address, body: Value) -> Result<(), Unavailable> {
        let response = self.connector.call(request(address, &body)?).await;
        let response = response.map_err(|error| {
            Unavailable::caused("the receiver of notices cannot be reached", error)
        })?;
        if response.status().is_success() {
            return Ok(());
        }
        let status = response.status().as_u16();
        let said = quoted(response, address).await;
        Err(Unavailable::new(format!("the receiver of notices answers {status}{said}")))
    }
}

fn request(address: &Address, body: &Value) -> Result<HttpRequest, Unavailable> {
    let unfit = || Unavailable::new("the address of notices cannot be called");
    let request = http::Request::post(address.expose())
        .header("content-type", "application/json")
        .header("user-agent", concat!("muster/", env!("CARGO_PKG_VERSION")))
        .body(SdkBody::from(body.to_string()))
        .map_err(|_| unfit())?;
    HttpRequest::try_from(request).map_err(|_| unfit())
}

/// The beginning of what it says, without the address.
async fn quoted(response: HttpResponse, address: &Address) -> String {
    let Ok(body) = ByteStream::new(response.into_body()).collect().await else {
        return String::new();
    };
    let text = String::from_utf8_lossy(&body.to_vec()).replace(address.expose(), "…");
    let text: String = text.chars().filter(|one| !one.is_control()).take(QUOTED).collect();
    if text.trim().is_empty() { String::new() } else { format!(": {}", text.trim()) }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::StatusCode;
    use axum::routing::post;
    use muster_control::causes::with_causes;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_address_in_clear_text_is_none() {
        let fit = ["https://hooks.slack.com/services/T/B/x?y=z", "http://127.0.0.1:5004/notices"];
        assert!(fit.iter().all(|text| Address::read(text).is_some()));
        for text in
            ["http://hooks.example.com/x", "https://me:pass@example.com/x", "x", "ftp://a/b", "/x"]
        {
            assert!(Address::read(text).is_none(), "{text}");
        }
        let address = Address::read(fit[0]).expect("an address");
        assert!(!format!("{address:?}").contains("slack"), "{address:?}");
    }

    #[tokio::test]
    async fn what_a_receiver_answers_is_told_without_its_address() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let at = move |path: &str| {
            Address::read(&format!("http://127.0.0.1:{port}{path}")).expect("fit")
        };
        let echo = move || async move {
            (StatusCode::NOT_FOUND, format!("no http://127.0.0.1:{port}/gone\nhere"))
        };
        let moved = || async { (StatusCode::FOUND, [("location", "/taken")], "") };
        let hangs = std::future::pending::<&str>;
        let app = Router::new()
            .route("/taken", post(|| async { "ok" }))
            .route("/gone", post(echo))
            .route("/moved", post(moved))
            .route("/hangs", post(hangs));
        tokio::spawn(async { axum::serve(listener, app).await });
        let poster = Poster::new();
        let mut told = Vec::new();
        for path in ["/taken", "/gone", "/moved", "/hangs"] {
            let answer = poster.post(&at(path), json!({})).await;
            told.push(answer.map_err(|error| with_causes(&error).to_string()));
        }
        let refused = |text: &str| Err(format!("the receiver of notices {text}"));
        let expected = [
            Ok(()),
            refused("answers 404: no …here"),
            refused("answers 302"),
            refused("is silent for 5 s"),
        ];
        assert_eq!(told, expected);
    }
}
