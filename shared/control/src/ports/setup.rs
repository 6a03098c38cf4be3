//! The App at GitHub and the secrets of both, as whoever sets the App up works with them.

use muster_domain::app::{AppProblem, AppSettings, KeyProblem};
use muster_domain::instance::ErrorDetail;
use muster_domain::observation::ProviderError;
use muster_domain::time::{Seconds, Time};

use super::Unavailable;
use crate::hidden::Hidden;

/// What the secret about the App holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppCredentials {
    /// The App's number or client id.
    pub app_id: String,
    /// Its client id, where that is known.
    pub client_id: Option<String>,
    /// Its name as addresses have it; empty where it is not known.
    pub slug: String,
    /// Its page at GitHub; empty where it is not known.
    pub html_url: String,
    /// Where its API is.
    pub api_url: String,
    /// PEM.
    pub private_key: Hidden,
    /// The mark of the code that made it; none of an App that was there before.
    pub made_by: Option<String>,
}

/// An App that GitHub has just made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeApp {
    /// What is kept of it.
    pub credentials: AppCredentials,
    /// The account that it belongs to.
    pub owner: AppAccount,
}

/// The account that GitHub made an App for: whoever is signed in there decides that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppAccount {
    /// An organization, by its login.
    Organization(String),
    /// A personal account, by its login.
    Person(String),
    /// An enterprise, or an account that GitHub does not name.
    Other,
}

/// Why a manifest's code became no App.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConversionError {
    /// The address is not one that a credential may be sent to. Nobody was asked.
    Address,
    /// GitHub does not know the code: it was used, or is older than an hour.
    UnknownCode,
    /// GitHub gives no answer, or refuses.
    ProviderError(ProviderError),
}

/// Why an App was not found to be whom it was said to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityError {
    /// What was said cannot be anybody. GitHub was not asked.
    Unfit(KeyProblem),
    /// GitHub says something else.
    App(AppProblem),
}

/// Why the webhook's settings were not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookError {
    /// GitHub says that the settings are wrong, or that the App has no webhook.
    Refused(ErrorDetail),
    /// GitHub gives no answer, or refuses us.
    ProviderError(ProviderError),
}

/// The secret that GitHub signs with, as the stack keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningSecret {
    /// The current value.
    pub value: Hidden,
    /// When it was made.
    pub since: Time,
    /// The webhook takes the one before as well.
    pub has_previous: bool,
}

/// An attempt to deliver an event to the App's webhook, whatever the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookAttempt {
    /// Its number.
    pub id: u64,
    /// Names the event: all attempts share it.
    pub guid: String,
    /// What it was about.
    pub event: String,
    /// When it was tried.
    pub at: Time,
    /// The answer's status; none where nobody answered.
    pub status: Option<u16>,
}

/// Sets up the App at GitHub and keeps the secrets. Asked for an operator, and at no other time.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait AppSetup {
    /// The mark of the code that made the App whose key is kept, where it was noted.
    async fn made_by(&self) -> Result<Option<String>, Unavailable>;
    /// Has GitHub make the App of a manifest's code. The code is used up by that.
    async fn convert(&self, api_url: &str, code: &Hidden) -> Result<MadeApp, ConversionError>;
    /// Who an App is, asked with these credentials and not with those that are kept.
    async fn identify(&self, app: &AppCredentials) -> Result<AppSettings, IdentityError>;
    /// Keeps who the App is: from now on its key is used.
    async fn keep(&self, app: &AppCredentials) -> Result<(), Unavailable>;
    /// The secret that GitHub is to sign with.
    async fn signing_secret(&self) -> Result<SigningSecret, Unavailable>;
    /// Puts another one in its place, made at random. The webhook takes the one before for a day.
    async fn renew_signing_secret(&self) -> Result<(), Unavailable>;
    /// The last attempts to deliver an event, the newest first.
    async fn hook_attempts(&self) -> Result<Vec<HookAttempt>, ProviderError>;
    /// Waits: an operator does, for what GitHub does meanwhile.
    async fn pause(&self, length: Seconds);
    /// Has GitHub send the App's events there, as JSON, to a certificate that is verified. Without a
    /// secret that one stays.
    async fn set_hook(&self, url: &str, secret: Option<&Hidden>) -> Result<(), HookError>;
}
