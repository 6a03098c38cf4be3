//! The CA bundle, in an SSM parameter or an S3 object. One signed call does not justify two SDKs.

use std::time::{Duration, SystemTime};

use aws_config::SdkConfig;
use aws_credential_types::provider::ProvideCredentials as _;
use aws_smithy_async::rt::sleep::TokioSleep;
use aws_smithy_http_client::Connector;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_runtime_api::client::http::{HttpConnector as _, HttpConnectorSettings};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use muster_control::ports::Unavailable;
use muster_domain::ca_bundle::MAX_BUNDLE;
use muster_sigv4::{Call, encoded, endpoint};
use serde_json::{Value, json};

use crate::client::{ATTEMPT_TIMEOUT, CONNECT_TIMEOUT};

/// Maximum number of characters that are quoted from a refusal.
const QUOTED: usize = 200;
const UNREACHABLE: &str = "there was no answer";
/// How long the whole call may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Reads the bundle with this name: an SSM parameter's, or `s3://BUCKET/KEY`.
///
/// # Errors
/// If it cannot be read. The message has the service's answer.
pub async fn read(config: &SdkConfig, name: &str) -> Result<String, Unavailable> {
    let (call, is_parameter) = match name.strip_prefix("s3://") {
        Some(object) => {
            let path: Vec<String> = object.split('/').map(encoded).collect();
            (Call::get("s3", &format!("/{}", path.join("/"))), false)
        }
        None => (Call::json("ssm", "AmazonSSM.GetParameter", &json!({ "Name": name })), true),
    };
    let service = if is_parameter { "SSM" } else { "S3" };
    let answer = tokio::time::timeout(LIMIT, send(config, call)).await;
    let (status, body) = answer.map_err(|_| {
        Unavailable::new(format!("{service} did not answer within {} s", LIMIT.as_secs()))
    })??;
    if status != 200 {
        let quote: String = body.chars().filter(|c| !c.is_control()).take(QUOTED).collect();
        return Err(Unavailable::new(format!("{service} answered {status}: {quote}")));
    }
    if !is_parameter {
        return Ok(body);
    }
    let answer: Value = serde_json::from_str(&body)
        .map_err(|error| Unavailable::caused("SSM's answer is not JSON", error))?;
    let text = answer["Parameter"]["Value"].as_str();
    text.map(str::to_owned).ok_or_else(|| Unavailable::new("SSM's answer has no value"))
}

/// Sends a call. Returns the answer's status and text.
async fn send(config: &SdkConfig, call: Call) -> Result<(u16, String), Unavailable> {
    let region = config.region().map(ToString::to_string).unwrap_or_default();
    let provider = config.credentials_provider();
    let provider = provider.ok_or_else(|| Unavailable::new("there are no AWS credentials"))?;
    let credentials = provider.provide_credentials().await;
    let credentials = credentials
        .map_err(|error| Unavailable::caused("the AWS credentials cannot be read", error))?;
    let own = config.endpoint_url().map(str::to_owned);
    let address = own.unwrap_or_else(|| endpoint(&call.service, &region));
    let request = call
        .signed(&address, &region, &credentials, SystemTime::now())
        .map_err(|error| Unavailable::caused("the call cannot be signed", error))?
        .map(SdkBody::from);
    let request = HttpRequest::try_from(request)
        .map_err(|error| Unavailable::caused("the call cannot be created", error))?;
    let settings = HttpConnectorSettings::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(ATTEMPT_TIMEOUT)
        .build();
    let connector = Connector::builder()
        .connector_settings(settings)
        .sleep_impl(TokioSleep::new())
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .build();
    let response = connector.call(request).await;
    let response = response.map_err(|error| Unavailable::caused(UNREACHABLE, error))?;
    let status = response.status().as_u16();
    let (mut body, mut read) = (ByteStream::new(response.into_body()), Vec::new());
    while let Some(part) =
        body.try_next().await.map_err(|error| Unavailable::caused(UNREACHABLE, error))?
    {
        read.extend_from_slice(&part);
        if read.len() > MAX_BUNDLE {
            break; // the parser rejects it
        }
    }
    Ok((status, String::from_utf8_lossy(&read).into_owned()))
}
