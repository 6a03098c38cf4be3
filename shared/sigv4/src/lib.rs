//! Signed requests to AWS services, for calls that do not justify an SDK. The caller sends them
//! with its own HTTP client.

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningError,
    SigningSettings, UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4;
use serde_json::Value;

/// Why a request cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// An invalid URL or header.
    #[error("not a request")]
    Request(#[from] http::Error),
    /// Invalid parameters of the signature.
    #[error("the signature lacks a parameter")]
    Parameters(#[from] v4::signing_params::BuildError),
    /// The signing failed.
    #[error("the request cannot be signed")]
    Signature(#[from] SigningError),
}

/// An unsigned request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The service's name in signatures and URLs, for example `logs`.
    pub service: String,
    /// The HTTP method.
    pub method: http::Method,
    /// Path and query.
    pub path: String,
    /// Headers, apart from those of the signature.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: String,
}

impl Call {
    fn post(
        service: &str,
        path: String,
        headers: Vec<(&'static str, String)>,
        body: String,
    ) -> Self {
        Self { service: service.to_owned(), method: http::Method::POST, path, headers, body }
    }

    /// Creates a call of a JSON service, for example `DynamoDB_20120810.PutItem` of `dynamodb`.
    #[must_use]
    pub fn json(service: &str, target: &str, body: &Value) -> Self {
        let kind = format!("application/x-amz-json-{}", json_version(service));
        let headers = vec![("content-type", kind), ("x-amz-target", target.to_owned())];
        Self::post(service, "/".to_owned(), headers, body.to_string())
    }

    /// Creates a call of a query service: form parameters in the request, XML in the response.
    #[must_use]
    pub fn query(service: &str, fields: &[(&str, &str)]) -> Self {
        let fields: Vec<String> =
            fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let kind = "application/x-www-form-urlencoded".to_owned();
        Self::post(service, "/".to_owned(), vec![("content-type", kind)], fields.join("&"))
    }

    /// Creates a synchronous invocation of a Lambda function.
    #[must_use]
    pub fn invoke(function: &str, payload: &Value) -> Self {
        let path = format!("/2015-03-31/functions/{function}/invocations");
        let headers = vec![("content-type", "application/json".to_owned())];
        Self::post("lambda", path, headers, payload.to_string())
    }

    /// Creates a GET call of a REST service.
    #[must_use]
    pub fn get(service: &str, path: &str) -> Self {
        let (service, path) = (service.to_owned(), path.to_owned());
        let (headers, body) = (Vec::new(), String::new());
        Self { service, method: http::Method::GET, path, headers, body }
    }

    /// Returns the request to a service's endpoint, signed at the time `at`.
    ///
    /// # Errors
    /// If the endpoint is not a valid URL.
    pub fn signed(
        self,
        endpoint: &str,
        region: &str,
        credentials: &Credentials,
        at: SystemTime,
    ) -> Result<http::Request<String>, SignError> {
        let mut request = http::Request::builder().method(self.method).uri(format!(
            "{}{}",
            endpoint.trim_end_matches('/'),
            self.path
        ));
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let mut request = request.body(self.body)?;
        let identity = credentials.clone().into();
        let parameters = v4::SigningParams::builder()
            .identity(&identity)
            .region(region)
            .name(&self.service)
            .time(at)
            .settings(settings(&self.service))
            .build()?
            .into();
        let headers = request.headers().iter();
        let headers =
            headers.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let body = SignableBody::Bytes(request.body().as_bytes());
        let uri = request.uri().to_string();
        let signable = SignableRequest::new(request.method().as_str(), uri, headers, body)?;
        let (instructions, _) = sign(signable, &parameters)?.into_parts();
        instructions.apply_to_request_http1x(&mut request);
        Ok(request)
    }
}

/// Returns the signing settings. S3 differs from all other services: it uses the path unchanged,
/// and requires the body's digest as a header.
/// Source: docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
fn settings(service: &str) -> SigningSettings {
    let mut settings = SigningSettings::default();
    if service == "s3" {
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    }
    settings
}

/// Returns the JSON protocol version from the service's model, for the services used here.
fn json_version(service: &str) -> &'static str {
    match service {
        "logs" | "events" | "secretsmanager" | "servicequotas" | "ssm" => "1.1",
        _ => "1.0",
    }
}

/// Returns the endpoint of a service in a region.
#[must_use]
pub fn endpoint(service: &str, region: &str) -> String {
    let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    match (service, signing_region(service, region)) {
        ("iam", "us-east-1") => format!("https://iam.{domain}"),
        ("freetier", "cn-northwest-1") => {
            "https://freetier.cn-northwest-1.api.amazonwebservices.com.cn".to_owned()
        }
        ("freetier", region) => format!("https://freetier.{region}.api.aws"),
        ("iam", "us-gov-west-1") => format!("https://iam.us-gov.{domain}"),
        (_, region) => format!("https://{service}.{region}.{domain}"),
    }
}

/// Returns the region to sign for: IAM and the Free Tier API have one in each partition.
/// Source: docs.aws.amazon.com/general/latest/gr/iam-service.html
#[must_use]
pub fn signing_region<'a>(service: &str, region: &'a str) -> &'a str {
    match (service, region) {
        ("iam", region) if region.starts_with("cn-") => "cn-north-1",
        ("freetier", region) if region.starts_with("cn-") => "cn-northwest-1",
        ("iam", region) if region.starts_with("us-gov-") => "us-gov-west-1",
        ("iam" | "freetier", _) => "us-east-1",
        (_, region) => region,
    }
}

/// Percent-encodes a text for a query string.
#[must_use]
pub fn encoded(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~".contains(&b);
    text.bytes()
        .map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn signed(call: Call) -> http::Request<String> {
        let credentials = Credentials::new("AKIDEXAMPLE", "secret", None, None, "test");
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_219_200);
        call.signed("http://127.0.0.1:4566/", "eu-central-1", &credentials, at).expect("a request")
    }

    fn header<'a>(request: &'a http::Request<String>, name: &str) -> &'a str {
        request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    #[test]
    fn a_call_names_its_operation_and_is_signed_for_its_service() {
        let body = json!({ "logGroupName": "x" });
        let request = signed(Call::json("logs", "Logs_20140328.FilterLogEvents", &body));
        assert_eq!(request.uri(), "http://127.0.0.1:4566/");
        assert_eq!(header(&request, "content-type"), "application/x-amz-json-1.1");
        assert_eq!(header(&request, "x-amz-target"), "Logs_20140328.FilterLogEvents");
        let signature = header(&request, "authorization");
        assert!(signature.contains("20261121/eu-central-1/logs/aws4_request"), "{signature}");
        assert!(signature.contains("content-type;host;x-amz-date;x-amz-target"), "{signature}");
        assert_eq!(request.into_body(), r#"{"logGroupName":"x"}"#);
    }

    #[test]
    fn each_service_has_its_form() {
        let queue = signed(Call::json("sqs", "AmazonSQS.ListQueues", &json!({})));
        assert_eq!(header(&queue, "content-type"), "application/x-amz-json-1.0");
        let old = signed(Call::query("sts", &[("Action", "AssumeRole"), ("RoleArn", "a/b c")]));
        assert_eq!(old.body(), "Action=AssumeRole&RoleArn=a%2Fb%20c");
        let invoke = signed(Call::invoke("muster-admin", &json!({ "action": "status" })));
        assert_eq!(invoke.uri().path(), "/2015-03-31/functions/muster-admin/invocations");
        let object = signed(Call::get("s3", "/bucket/AROA%3Ai-0a/machine.log.gz"));
        assert_eq!(object.uri().path(), "/bucket/AROA%3Ai-0a/machine.log.gz");
        assert_eq!(header(&object, "x-amz-content-sha256").len(), 64);
        assert!(header(&object, "authorization").contains("/s3/aws4_request"));
        let list = signed(Call::get("lambda", "/2015-03-31/functions/?MaxItems=50"));
        assert_eq!((list.method().as_str(), list.uri().query()), ("GET", Some("MaxItems=50")));
        assert_eq!(endpoint("logs", "cn-north-1"), "https://logs.cn-north-1.amazonaws.com.cn");
        assert_eq!(endpoint("sqs", "eu-central-1"), "https://sqs.eu-central-1.amazonaws.com");
        for (region, address, signed) in [
            ("eu-central-1", "https://iam.amazonaws.com", "us-east-1"),
            ("us-gov-east-1", "https://iam.us-gov.amazonaws.com", "us-gov-west-1"),
            ("cn-northwest-1", "https://iam.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ] {
            assert_eq!(
                (endpoint("iam", region).as_str(), signing_region("iam", region)),
                (address, signed)
            );
        }
        let plan = endpoint("freetier", "eu-central-1");
        assert_eq!(
            (plan.as_str(), signing_region("freetier", "eu-central-1")),
            ("https://freetier.us-east-1.api.aws", "us-east-1")
        );
    }
}
