//! The port for setting up the App: its registration on GitHub and the secrets of both sides.

use muster_domain::app::{AppProblem, AppSettings, KeyProblem};
use muster_domain::hidden::Hidden;
use muster_domain::ids::AppName;
use muster_domain::provider::{ErrorDetail, ProviderError};
use muster_domain::time::{Seconds, Time};

use super::Unavailable;

/// The contents of the App's secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppCredentials {
    /// The App's number or client ID.
    pub app_id: String,
    /// The client ID, if known.
    pub client_id: Option<String>,
    /// The slug used in URLs; empty if unknown.
    pub slug: String,
    /// The App's page on GitHub; empty if unknown.
    pub html_url: String,
    /// The base URL of GitHub's API.
    pub api_url: String,
    /// The private key, as PEM.
    pub private_key: Hidden,
    /// A hash of the manifest code that created the App; absent for an App that existed before.
    pub made_by: Option<String>,
}

/// An App that GitHub has just created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeApp {
    /// The credentials to store.
    pub credentials: AppCredentials,
    /// The account that owns it.
    pub owner: AppAccount,
}

/// The account that owns a new App: GitHub uses the account that is signed in there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppAccount {
    /// An organization, by its login.
    Organization(String),
    /// A personal account, by its login.
    Person(String),
    /// An enterprise, or an account that GitHub does not name.
    Other,
}

/// Why a manifest code could not be converted into an App.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConversionError {
    /// Credentials must not be sent to this address. No call was made.
    Address,
    /// GitHub does not know the code: it was used, or is older than an hour.
    UnknownCode,
    /// GitHub did not answer, or denied the call.
    ProviderError(ProviderError),
}

/// Why an App's identity could not be confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityError {
    /// The credentials are malformed. No call was made.
    Unfit(KeyProblem),
    /// GitHub's answer contradicts them.
    App(AppProblem),
}

/// Why the webhook's settings were not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookError {
    /// GitHub rejects the settings, or the App has no webhook.
    Refused(ErrorDetail),
    /// GitHub did not answer, or denied the call.
    ProviderError(ProviderError),
}

/// The secret that GitHub signs webhook events with, as stored by the stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningSecret {
    /// The current value.
    pub value: Hidden,
    /// When it was created.
    pub since: Time,
    /// Whether the webhook also accepts the previous secret.
    pub has_previous: bool,
}

/// A delivery of any event to the App's webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookAttempt {
    /// The delivery's number.
    pub id: u64,
    /// Identifies the event; shared by all its deliveries.
    pub guid: String,
    /// The event's name.
    pub event: String,
    /// When it was delivered.
    pub at: Time,
    /// The HTTP status of the response, if there was one.
    pub status: Option<u16>,
}

/// Sets up Apps on GitHub and stores their secrets. Called only for an operator's request.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait AppSetup {
    /// Returns the hash of the code that created the stored App, if recorded.
    async fn made_by(&self, app: AppName) -> Result<Option<String>, Unavailable>;
    /// Converts a manifest's code into an App. A code works once.
    async fn convert(&self, api_url: &str, code: &Hidden) -> Result<MadeApp, ConversionError>;
    /// Returns the App that these credentials belong to, without using the stored ones.
    async fn identify(&self, app: &AppCredentials) -> Result<AppSettings, IdentityError>;
    /// Stores an App's credentials, which are used from now on. `None` deletes them.
    async fn keep(
        &self,
        app: AppName,
        credentials: Option<&AppCredentials>,
    ) -> Result<(), Unavailable>;
    /// Returns the secret that GitHub should sign an App's events with.
    async fn signing_secret(&self, app: AppName) -> Result<SigningSecret, Unavailable>;
    /// Replaces the secrets of all Apps with new ones. The webhook accepts the previous ones for a
    /// day.
    async fn renew_signing_secret(&self) -> Result<(), Unavailable>;
    /// Returns the latest webhook deliveries, newest first.
    async fn hook_attempts(&self, app: AppName) -> Result<Vec<HookAttempt>, ProviderError>;
    /// Waits while GitHub redelivers an event; the operator waits for the result.
    async fn pause(&self, length: Seconds);
    /// Points the App's webhook at this address, with JSON payloads and certificate verification.
    /// Without a secret, the current one is kept.
    async fn set_hook(
        &self,
        app: AppName,
        url: &str,
        secret: Option<&Hidden>,
    ) -> Result<(), HookError>;
}
