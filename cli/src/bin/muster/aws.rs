//! A signed HTTP client for the admin function and a few AWS services. Credentials, region and endpoints come from the
//! same places as for the AWS CLI.
//!
//! A few calls do not justify SDKs: `aws-sdk-lambda` alone is as large as DynamoDB's.

use std::time::{Duration, SystemTime};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials as _, SharedCredentialsProvider};
use aws_smithy_types::body::SdkBody;
use futures_util::future::join_all;
use muster_cli::args::GlobalArgs;
use muster_cli::failure::Failure;
use muster_cli::lambda::{Called, HttpResponse, action, invoked, served, stacks};
use muster_cli::queues::Services;
use muster_cli::redact;
use muster_domain::causes::with_causes;
use muster_sigv4::{Call, encoded, signing_region};
use serde_json::Value;

use crate::host::say;
use crate::http::{client, send};

/// The default stack name.
const USUAL_STACK: &str = "muster";
/// Maximum number of pages when listing a region's functions, of fifty functions each.
const MAX_PAGES: usize = 40;
/// How long before they expire credentials are renewed: `watch` may run longer than they are valid.
const REFRESHED: Duration = Duration::from_secs(120);

impl Services for Aws {
    async fn calls(&mut self, calls: Vec<Call>) -> Result<Vec<Result<Value, Failure>>, Failure> {
        self.services(calls).await
    }
}

/// A connection to one stack.
#[derive(Clone)]
pub(crate) struct Aws {
    pub(crate) stack: String,
    /// Whether the user named the stack.
    is_named: bool,
    profile: Option<String>,
    pub(crate) region: String,
    config: SdkConfig,
    provider: SharedCredentialsProvider,
    credentials: Credentials,
    is_verbose: bool,
}

impl Aws {
    /// Finds credentials and region.
    ///
    /// # Errors
    /// Fails if they are missing; the message names the missing one.
    pub(crate) async fn find(global: &GlobalArgs) -> Result<Self, Failure> {
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
        let missing = || Failure::NoCredentials { profile: profile.clone(), why: None };
        let provider = config.credentials_provider().ok_or_else(missing)?;
        let credentials = given(&provider, profile.as_ref()).await?;
        let is_named = global.stack.is_some();
        Ok(Self {
            stack: global.stack.clone().unwrap_or_else(|| USUAL_STACK.to_owned()),
            is_named,
            is_verbose: global.verbose,
            config,
            provider,
            profile,
            region,
            credentials,
        })
    }

    /// Invokes the admin function. If no stack was named and the region has exactly one, uses that one.
    ///
    /// # Errors
    /// Fails when there is no answer.
    pub(crate) async fn admin(&mut self, request: &Value) -> Result<Value, Failure> {
        if let Some(answer) = self.try_admin(request).await? {
            return Ok(answer);
        }
        self.other_stack().await?;
        match self.try_admin(request).await? {
            Some(answer) => Ok(answer),
            None => Err(self.no_stack(None)),
        }
    }

    /// Switches to the region's only stack after the default one was not found and none was named.
    ///
    /// # Errors
    /// Lists the stacks that exist.
    pub(crate) async fn other_stack(&mut self) -> Result<(), Failure> {
        let stacks = self.stacks().await;
        if let (false, Some([only])) = (self.is_named, stacks.as_deref()) {
            say(&format!("stack {only}, the only one in {}", self.region));
            (self.stack, self.is_named) = (only.clone(), true);
            return Ok(());
        }
        Err(self.no_stack(stacks))
    }

    fn no_stack(&self, stacks: Option<Vec<String>>) -> Failure {
        Failure::NoFunction { stack: self.stack.clone(), region: self.region.clone(), stacks }
    }

    /// Invokes the admin function; `None` if it does not exist.
    async fn try_admin(&mut self, request: &Value) -> Result<Option<Value>, Failure> {
        self.refresh().await?;
        let function = format!("{}-admin", self.stack);
        self.tell(|| format!("{function} {}", redact::value(request)));
        let answer = self.send(Call::invoke(&function, request), &function).await?;
        self.tell_answer(&answer);
        match invoked(&function, &answer) {
            Called::NoFunction => Ok(None),
            called => self.outcome(called).map(Some),
        }
    }

    /// Makes calls concurrently. The answers are in the order of the calls.
    ///
    /// # Errors
    /// Fails when the credentials have expired.
    pub(crate) async fn services(
        &mut self,
        calls: Vec<Call>,
    ) -> Result<Vec<Result<Value, Failure>>, Failure> {
        self.refresh().await?;
        let answers = calls.into_iter().map(async |call| {
            let action = action(&call);
            self.tell(|| format!("{action} {}", redact::call(&call)));
            let answer = self.send(call, &action).await?;
            self.tell_answer(&answer);
            self.outcome(served(&action, &answer))
        });
        Ok(join_all(answers).await)
    }

    /// Downloads an object as raw bytes.
    ///
    /// # Errors
    /// Fails when the object does not exist or the service does not answer.
    pub(crate) async fn object(&mut self, call: Call) -> Result<Vec<u8>, Failure> {
        self.refresh().await?;
        let action = action(&call);
        self.tell(|| format!("{action} {}", redact::call(&call)));
        let answer = self.send(call, &action).await?;
        self.tell_answer(&answer);
        match answer.status {
            ..300 => Ok(answer.body),
            _ => self.outcome(served(&action, &answer)).map(|_| answer.body),
        }
    }

    fn outcome(&self, called: Called) -> Result<Value, Failure> {
        match called {
            Called::Answer(value) => Ok(value),
            Called::NoFunction => Err(self.no_stack(None)),
            Called::NoCredentials(why) => {
                Err(Failure::NoCredentials { profile: self.profile.clone(), why: Some(why) })
            }
            Called::Failed(failure) => Err(failure),
        }
    }

    fn tell(&self, text: impl FnOnce() -> String) {
        if self.is_verbose {
            say(&text());
        }
    }

    fn tell_answer(&self, answer: &HttpResponse) {
        let id = answer.request_id.as_deref().unwrap_or("unknown");
        self.tell(|| format!("{}, request {id}, {} bytes", answer.status, answer.body.len()));
    }

    /// Returns a copy with renewed credentials, for a concurrent call.
    ///
    /// # Errors
    /// Fails when the credentials cannot be renewed.
    pub(crate) async fn refreshed(&mut self) -> Result<Self, Failure> {
        self.refresh().await?;
        Ok(self.clone())
    }

    /// Renews the credentials if they expire soon.
    async fn refresh(&mut self) -> Result<(), Failure> {
        let soon = SystemTime::now() + REFRESHED;
        if self.credentials.expiry().is_some_and(|end| end < soon) {
            self.credentials = given(&self.provider, self.profile.as_ref()).await?;
        }
        Ok(())
    }

    /// Lists the region's stacks; `None` if listing is not permitted.
    async fn stacks(&self) -> Option<Vec<String>> {
        let mut names = Vec::new();
        let mut path = "/2015-03-31/functions/?MaxItems=50".to_owned();
        for _ in 0..MAX_PAGES {
            let answer = self.send(Call::get("lambda", &path), "AWS Lambda").await.ok()?;
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

    async fn send(&self, call: Call, whose: &str) -> Result<HttpResponse, Failure> {
        let endpoint = endpoint(&self.config, &call.service, &self.region);
        let region = signing_region(&call.service, &self.region).to_owned();
        let request =
            call.signed(&endpoint, &region, &self.credentials, SystemTime::now()).map_err(
                |error| Failure::Unreachable { address: endpoint, why: with_causes(&error) },
            )?;
        send(request.map(SdkBody::from), whose).await
    }
}

async fn given(
    provider: &SharedCredentialsProvider,
    profile: Option<&String>,
) -> Result<Credentials, Failure> {
    provider.provide_credentials().await.map_err(|error| {
        let why = match error {
            CredentialsError::CredentialsNotLoaded(_) => None,
            error => Some(with_causes(&error)),
        };
        Failure::NoCredentials { profile: profile.cloned(), why }
    })
}

/// Returns the endpoint: the service's own variable, such as `AWS_ENDPOINT_URL_LAMBDA`; else `AWS_ENDPOINT_URL` or the
/// profile's; else the region's.
/// Source: docs.aws.amazon.com/sdkref/latest/guide/feature-ss-endpoints.html
fn endpoint(config: &SdkConfig, service: &str, region: &str) -> String {
    let variable = match service {
        "logs" => "AWS_ENDPOINT_URL_CLOUDWATCH_LOGS".to_owned(),
        "monitoring" => "AWS_ENDPOINT_URL_CLOUDWATCH".to_owned(),
        "servicequotas" => "AWS_ENDPOINT_URL_SERVICE_QUOTAS".to_owned(),
        service => format!("AWS_ENDPOINT_URL_{}", service.to_ascii_uppercase()),
    };
    let own = std::env::var(variable).ok().filter(|url| !url.is_empty());
    own.or_else(|| config.endpoint_url().map(str::to_owned))
        .unwrap_or_else(|| muster_sigv4::endpoint(service, region))
}
