//! The HTTP client for AWS and GitHub. It uses the connector that the credentials SDK already
//! includes.

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use aws_smithy_async::rt::sleep::TokioSleep;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore, rustls_provider::CryptoMode};
use aws_smithy_http_client::{Builder, Connector};
use aws_smithy_runtime_api::client::http::{
    HttpConnector as _, HttpConnectorSettings, SharedHttpClient,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::base64;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use muster_cli::failure::Failure;
use muster_cli::lambda::{self, HttpResponse};
use muster_domain::ca_bundle::{CaBundle, CaCertificate};
use muster_domain::causes::with_causes;
use serde_json::Value;

use crate::host::now;

/// Time limit for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of an answer in bytes. Lambda's have at most 6 MB and a machine's log a few MB, but a job could replace
/// that log with a larger object.
const MAX_ANSWER: usize = 64 << 20;
/// Time limit for an answer. Lambda stops the admin function after a minute.
const READ_TIMEOUT: Duration = Duration::from_secs(75);

fn provider() -> Provider {
    Provider::Rustls(CryptoMode::Ring)
}

/// The certificates that all connections trust, if the user named some.
static TRUSTED: OnceLock<TlsContext> = OnceLock::new();

/// Trusts the certificates of this file too, if the user named one. Must be called before the first connection.
///
/// # Errors
/// Fails when the file is not a usable CA bundle.
pub(crate) fn trust(file: Option<&Path>) -> Result<(), Failure> {
    let Some(file) = file.filter(|file| !file.as_os_str().is_empty()) else { return Ok(()) };
    let path = file.display().to_string();
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::File { path: path.clone(), why: with_causes(&error) })?;
    let unusable = |problem| Failure::Usage(format!("Cannot use --ca-bundle: {problem}"));
    let bundle = CaBundle::read(&text).map_err(|error| unusable(error.sentence(&path)))?;
    let pem = |one: &CaCertificate| {
        let text = base64::encode(&one.der);
        format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
    };
    let valid: Vec<String> = bundle.valid(now()).map(pem).collect();
    if let (true, Some(problem)) = (valid.is_empty(), bundle.expired(&path, now())) {
        return Err(unusable(problem));
    }
    let store = TrustStore::default().with_pem_certificate(valid.concat());
    let context = TlsContext::builder().with_trust_store(store);
    let context = context.build().map_err(|error| Failure::Unknown(with_causes(&error)))?;
    let _ = TRUSTED.set(context);
    Ok(())
}

fn trusted() -> TlsContext {
    TRUSTED.get().cloned().unwrap_or_default()
}

/// Returns why there is no connection. A private authority is the usual reason for a rejected certificate.
fn unconnected(why: String) -> String {
    if !["UnknownIssuer", "BadSignature"].iter().any(|name| why.contains(name)) {
        return why;
    }
    "its certificate is signed by an unknown authority. If that is your company's, name its root \
     certificate: --ca-bundle FILE"
        .to_owned()
}

/// Returns the client for the SDK's own calls: SSO, STS, the metadata service.
pub(crate) fn client() -> SharedHttpClient {
    Builder::new().tls_provider(provider()).tls_context(trusted()).build_https()
}

/// Sends a request. Respects `HTTPS_PROXY` and `NO_PROXY` like the AWS CLI.
///
/// # Errors
/// Fails when there is no answer.
pub(crate) async fn send(
    request: http::Request<SdkBody>,
    whose: &str,
) -> Result<HttpResponse, Failure> {
    let settings = HttpConnectorSettings::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT)
        .build();
    let connector = Connector::builder()
        .connector_settings(settings)
        .sleep_impl(TokioSleep::new())
        .proxy_config(ProxyConfig::from_env())
        .tls_provider(provider())
        .tls_context(trusted())
        .build();
    let uri = request.uri();
    let address = format!(
        "{}://{}",
        uri.scheme_str().unwrap_or("https"),
        uri.authority().map_or("", |host| host.as_str())
    );
    let unreachable = |why: String| Failure::Unreachable { address: address.clone(), why };
    let request =
        HttpRequest::try_from(request).map_err(|error| unreachable(with_causes(&error)))?;
    let response = connector.call(request).await.map_err(|error| {
        let why = with_causes(&error);
        match error.is_timeout() && !why.contains("connect") {
            true => Failure::NoAnswer { function: whose.to_owned() },
            false => unreachable(unconnected(why)),
        }
    })?;
    let header = |name: &str| response.headers().get(name).map(str::to_owned);
    let answer = HttpResponse {
        status: response.status().as_u16(),
        error_type: header("x-amzn-errortype"),
        function_error: header("x-amz-function-error"),
        request_id: header("x-amzn-requestid").or_else(|| header("x-github-request-id")),
        body: Vec::new(),
    };
    let mut parts = ByteStream::new(response.into_body());
    let mut body = Vec::new();
    while let Some(part) =
        parts.try_next().await.map_err(|error| unreachable(with_causes(&error)))?
    {
        if body.len() + part.len() > MAX_ANSWER {
            let most = MAX_ANSWER >> 20;
            return Err(unreachable(format!("its answer is larger than {most} MiB")));
        }
        body.extend_from_slice(&part);
    }
    Ok(HttpResponse { body, ..answer })
}

/// Sends a GET to GitHub. The caller has checked that the address is at the stack's GitHub. As in the GitHub CLI, the
/// token for github.com is not sent to a server. Redirects are not followed.
pub(crate) async fn github(address: &str) -> Result<Option<Value>, Failure> {
    let host = address.split('/').nth(2).unwrap_or_default().to_owned();
    let names: &[&str] = if host == "api.github.com" || host.ends_with(".ghe.com") {
        &["GH_TOKEN", "GITHUB_TOKEN"]
    } else {
        &["GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"]
    };
    let mut request = http::Request::get(address)
        .header("accept", "application/vnd.github+json")
        .header("user-agent", "muster");
    if let Some(token) = names.iter().find_map(|name| std::env::var(name).ok()) {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(SdkBody::empty()).map_err(|error| Failure::Unreachable {
        address: host.clone(),
        why: with_causes(&error),
    })?;
    lambda::github(&host, &send(request, &host).await?)
}
