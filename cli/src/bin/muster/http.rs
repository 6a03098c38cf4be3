//! One HTTP client for AWS and GitHub: the connector that the SDK for credentials has anyway.

use std::time::Duration;

use aws_smithy_async::rt::sleep::TokioSleep;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_http_client::{Builder, Connector};
use aws_smithy_runtime_api::client::http::{
    HttpConnector as _, HttpConnectorSettings, SharedHttpClient,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use muster_cli::failure::Failure;
use muster_cli::lambda::Answer;
use muster_control::causes::with_causes;

/// Until a connection stands.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Largest answer, bytes. Lambda's have at most 6 MB and a machine's log a few; a job could put a larger object in that log's
/// place.
const MAX_ANSWER: usize = 64 << 20;
/// The admin function is stopped after a minute.
const READ_TIMEOUT: Duration = Duration::from_secs(75);

fn provider() -> Provider {
    Provider::Rustls(CryptoMode::Ring)
}

/// For the SDK's own calls: SSO, STS, the metadata service.
pub(crate) fn client() -> SharedHttpClient {
    Builder::new().tls_provider(provider()).build_https()
}

/// Sends a request. `HTTPS_PROXY` and `NO_PROXY` hold, as for the AWS CLI.
///
/// # Errors
/// When there is no answer.
pub(crate) async fn send(request: http::Request<SdkBody>, whose: &str) -> Result<Answer, Failure> {
    let settings = HttpConnectorSettings::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT)
        .build();
    let connector = Connector::builder()
        .connector_settings(settings)
        .sleep_impl(TokioSleep::new())
        .proxy_config(ProxyConfig::from_env())
        .tls_provider(provider())
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
            false => unreachable(why),
        }
    })?;
    let header = |name: &str| response.headers().get(name).map(str::to_owned);
    let answer = Answer {
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
    Ok(Answer { body, ..answer })
}
