//! The admin function, called as AWS wants it. Credentials, region and endpoint are found where the AWS CLI finds them.
//!
//! One call of one service does not earn an SDK of its own: `aws-sdk-lambda` is as large as DynamoDB's.

use std::time::SystemTime;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::ProvideCredentials as _;
use aws_credential_types::provider::error::CredentialsError;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use aws_smithy_types::body::SdkBody;
use http::Method;
use muster_cli::args::Global;
use muster_cli::failure::Failure;
use muster_cli::lambda::{Answer, Called, invoked, stacks};
use muster_control::causes::with_causes;
use serde_json::Value;

use crate::http::{client, send};
use crate::terminal::say;

/// The stack that is asked if none is named.
const USUAL_STACK: &str = "muster";
/// Most pages of a region's functions, of fifty each.
const MAX_PAGES: usize = 40;

/// A stack that can be asked.
pub(crate) struct Aws {
    stack: String,
    /// Whether the person named it.
    is_named: bool,
    profile: Option<String>,
    pub(crate) region: String,
    endpoint: String,
    credentials: Credentials,
    is_verbose: bool,
}

impl Aws {
    /// Finds credentials and region.
    ///
    /// # Errors
    /// Which of them is missing.
    pub(crate) async fn find(global: &Global) -> Result<Self, Failure> {
        let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12()).http_client(client());
        if let Some(profile) = &global.profile {
            loader = loader.profile_name(profile);
        }
        if let Some(region) = &global.region {
            loader = loader.region(Region::new(region.clone()));
        }
        if let Some(url) = &global.endpoint_url {
            loader = loader.endpoint_url(url);
        }
        let config = loader.load().await;
        let region = config.region().ok_or(Failure::NoRegion)?.to_string();
        let profile = global.profile.clone().or_else(|| std::env::var("AWS_PROFILE").ok());
        let missing =
            |why: Option<String>| Failure::NoCredentials { profile: profile.clone(), why };
        let provider = config.credentials_provider().ok_or_else(|| missing(None))?;
        let credentials = provider.provide_credentials().await.map_err(|error| match error {
            CredentialsError::CredentialsNotLoaded(_) => missing(None),
            error => missing(Some(with_causes(&error))),
        })?;
        let is_named = global.stack.is_some();
        Ok(Self {
            stack: global.stack.clone().unwrap_or_else(|| USUAL_STACK.to_owned()),
            is_named,
            endpoint: endpoint(&config, &region),
            is_verbose: global.verbose,
            profile,
            region,
            credentials,
        })
    }

    /// Asks the admin function. If no stack was named and there is but one, it is that one.
    ///
    /// # Errors
    /// When there is no answer.
    pub(crate) async fn admin(&mut self, request: &Value) -> Result<Value, Failure> {
        if let Some(answer) = self.try_admin(request).await? {
            return Ok(answer);
        }
        let stacks = self.stacks().await;
        if let (false, Some([only])) = (self.is_named, stacks.as_deref()) {
            say(&format!("stack {only}, the only one in {}", self.region));
            (self.stack, self.is_named) = (only.clone(), true);
            if let Some(answer) = self.try_admin(request).await? {
                return Ok(answer);
            }
        }
        Err(Failure::NoFunction { stack: self.stack.clone(), region: self.region.clone(), stacks })
    }

    /// None: there is no such function.
    async fn try_admin(&self, request: &Value) -> Result<Option<Value>, Failure> {
        let function = format!("{}-admin", self.stack);
        let path = format!("/2015-03-31/functions/{function}/invocations");
        if self.is_verbose {
            say(&format!("{function} {request}"));
        }
        let answer = self.send(Method::POST, &path, request.to_string(), &function).await?;
        if self.is_verbose {
            let id = answer.request_id.as_deref().unwrap_or("unknown");
            say(&format!("{}, request {id}, {} bytes", answer.status, answer.body.len()));
        }
        match invoked(&function, &answer) {
            Called::Answer(value) => Ok(Some(value)),
            Called::NoFunction => Ok(None),
            Called::NoCredentials(why) => {
                Err(Failure::NoCredentials { profile: self.profile.clone(), why: Some(why) })
            }
            Called::Failed(failure) => Err(failure),
        }
    }

    /// What stacks there are; none if that may not be asked.
    async fn stacks(&self) -> Option<Vec<String>> {
        let mut names = Vec::new();
        let mut path = "/2015-03-31/functions/?MaxItems=50".to_owned();
        for _ in 0..MAX_PAGES {
            let answer = self.send(Method::GET, &path, String::new(), "AWS Lambda").await.ok()?;
            let page: Value = serde_json::from_slice(&answer.body).ok()?;
            let functions = page["Functions"].as_array()?;
            names.extend(
                functions.iter().filter_map(|one| one["FunctionName"].as_str().map(str::to_owned)),
            );
            let Some(marker) = page["NextMarker"].as_str().filter(|marker| !marker.is_empty())
            else {
                break;
            };
            path = format!("/2015-03-31/functions/?MaxItems=50&Marker={}", encoded(marker));
        }
        Some(stacks(&names))
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: String,
        whose: &str,
    ) -> Result<Answer, Failure> {
        let wrong = |why: String| Failure::Unreachable { address: self.endpoint.clone(), why };
        let request = http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.endpoint.trim_end_matches('/')))
            .header("content-type", "application/json")
            .body(body)
            .map_err(|error| wrong(with_causes(&error)))?;
        let request = self.signed(request).map_err(wrong)?;
        send(request.map(SdkBody::from), whose).await
    }

    fn signed(&self, mut request: http::Request<String>) -> Result<http::Request<String>, String> {
        let identity = self.credentials.clone().into();
        let parameters = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name("lambda")
            .time(SystemTime::now())
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| with_causes(&error))?
            .into();
        let headers = request.headers().iter();
        let headers =
            headers.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let body = SignableBody::Bytes(request.body().as_bytes());
        let uri = request.uri().to_string();
        let signable = SignableRequest::new(request.method().as_str(), uri, headers, body)
            .map_err(|error| with_causes(&error))?;
        let (instructions, _) =
            sign(signable, &parameters).map_err(|error| with_causes(&error))?.into_parts();
        instructions.apply_to_request_http1x(&mut request);
        Ok(request)
    }
}

/// `AWS_ENDPOINT_URL_LAMBDA`, `AWS_ENDPOINT_URL` or the profile's; else the region's own.
/// Source: docs.aws.amazon.com/sdkref/latest/guide/feature-ss-endpoints.html
fn endpoint(config: &SdkConfig, region: &str) -> String {
    let lambda = std::env::var("AWS_ENDPOINT_URL_LAMBDA").ok().filter(|url| !url.is_empty());
    let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    lambda
        .or_else(|| config.endpoint_url().map(str::to_owned))
        .unwrap_or_else(|| format!("https://lambda.{region}.{domain}"))
}

/// For a query string.
fn encoded(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~".contains(&b);
    text.bytes()
        .map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
}
