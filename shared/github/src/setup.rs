//! The App's setup: GitHub creates it from a manifest, its key is stored, and its webhook is set to
//! this stack.
//!
//! Source: docs.github.com/en/rest/apps/apps#create-a-github-app-from-a-manifest and
//! docs.github.com/en/rest/apps/webhooks#update-a-webhook-configuration-for-an-app

use std::time::Duration;

use http::{Method, StatusCode};
use muster_control::ports::{
    AppAccount, AppCredentials, AppSetup, ConversionError, HookAttempt, HookError, IdentityError,
    MadeApp, SigningSecret, Unavailable,
};
use muster_domain::app::{AppProblem, AppSettings, check_code, code_mark};
use muster_domain::hidden::Hidden;
use muster_domain::ids::AppName;
use muster_domain::provider::ProviderError;
use muster_domain::time::{Seconds, Time};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;

use crate::client::{ApiRequest, Base};
use crate::directory::{LAST_DELIVERIES, settings};
use crate::{App, AppIdentity, AppKey, jwt};

/// Access to the secrets, for the function that can write them.
#[expect(async_fn_in_trait, reason = "functions run on one thread")]
pub trait AppStore: AppKey {
    /// Reads the Apps' secret, unparsed; empty if there is none.
    ///
    /// # Errors
    /// If it cannot be read.
    async fn app_secret(&self) -> Result<SecretString, Unavailable>;
    /// Writes the Apps' secret.
    ///
    /// # Errors
    /// If it may not have been written.
    async fn put_app_secret(&self, secret: SecretString) -> Result<(), Unavailable>;
    /// Reads the secret that GitHub signs an App's events with.
    ///
    /// # Errors
    /// If it cannot be read.
    async fn signing_secret(&self, app: AppName) -> Result<SigningSecret, Unavailable>;
    /// Writes the secret that GitHub signs the main App's events with. Those of the others depend on
    /// it.
    ///
    /// # Errors
    /// If it may not have been written.
    async fn put_signing_secret(&self, secret: SecretString) -> Result<(), Unavailable>;
}

/// An attempt to deliver an event.
#[derive(Deserialize)]
struct Attempt {
    id: u64,
    guid: String,
    delivered_at: jiff::Timestamp,
    event: String,
    /// 0 or absent if there was no response.
    #[serde(default)]
    status_code: Option<u16>,
}

/// The used fields of GitHub's response. They exclude its `webhook_secret` and `client_secret`.
#[derive(Deserialize)]
struct Converted {
    id: u64,
    #[serde(default)]
    client_id: Option<String>,
    #[serde(default)]
    slug: String,
    #[serde(default)]
    html_url: String,
    pem: Hidden,
    #[serde(default)]
    owner: Option<NewAppOwner>,
}

#[derive(Deserialize)]
struct NewAppOwner {
    login: Option<String>,
    #[serde(default, rename = "type")]
    kind: String,
}

impl<K: AppStore> AppSetup for App<K> {
    async fn made_by(&self, app: AppName) -> Result<Option<String>, Unavailable> {
        Ok(AppIdentity::made_by(&self.key.app_secret().await?, app))
    }

    async fn convert(&self, api_url: &str, code: &Hidden) -> Result<MadeApp, ConversionError> {
        let base = Base::read(api_url).ok_or(ConversionError::Address)?;
        check_code(code.expose()).map_err(|_| ConversionError::UnknownCode)?;
        let call = ApiRequest {
            operation: "convert-manifest",
            method: Method::POST,
            path: format!("/app-manifests/{}/conversions", code.expose()),
            body: None,
        };
        // The code is the credential: it is redacted like a token, but not sent as one.
        let hidden = SecretString::from(code.expose());
        let answer = self.client.send_unsigned(&call, &base, &hidden, (self.clock)()).await;
        let answer = answer.map_err(ConversionError::ProviderError)?;
        let made: Converted = match answer.status {
            StatusCode::CREATED => answer.read().map_err(ConversionError::ProviderError)?,
            StatusCode::NOT_FOUND | StatusCode::UNPROCESSABLE_ENTITY => {
                return Err(ConversionError::UnknownCode);
            }
            _ => return Err(ConversionError::ProviderError(answer.trouble())),
        };
        let owner = match made.owner {
            Some(NewAppOwner { login: Some(login), kind }) if kind == "Organization" => {
                AppAccount::Organization(login)
            }
            Some(NewAppOwner { login: Some(login), kind }) if kind == "User" => {
                AppAccount::Person(login)
            }
            Some(_) | None => AppAccount::Other,
        };
        Ok(MadeApp {
            credentials: AppCredentials {
                app_id: made.id.to_string(),
                client_id: made.client_id,
                slug: made.slug,
                html_url: made.html_url,
                api_url: api_url.trim().to_owned(),
                private_key: made.pem,
                made_by: Some(code_mark(code.expose())),
            },
            owner,
        })
    }

    async fn identify(&self, app: &AppCredentials) -> Result<AppSettings, IdentityError> {
        let identity = AppIdentity::of(app).map_err(IdentityError::Unfit)?;
        let call = ApiRequest {
            operation: "get-app",
            method: Method::GET,
            path: "/app".to_owned(),
            body: None,
        };
        let answer = self.send_as(&identity, &call).await;
        let answer = answer.map_err(AppProblem::Unanswered).map_err(IdentityError::App)?;
        settings(identity.app_id, &answer).map_err(IdentityError::App)
    }

    async fn keep(
        &self,
        app: AppName,
        credentials: Option<&AppCredentials>,
    ) -> Result<(), Unavailable> {
        let before = self.key.app_secret().await?;
        self.key.put_app_secret(AppIdentity::secret(&before, app, credentials)).await
    }

    async fn signing_secret(&self, app: AppName) -> Result<SigningSecret, Unavailable> {
        self.key.signing_secret(app).await
    }

    async fn renew_signing_secret(&self) -> Result<(), Unavailable> {
        // 32 random bytes as 64 digits, the length of the secret that the deployment creates.
        let halves = [jwt::nonce(), jwt::nonce()];
        let mut secret = String::with_capacity(64);
        for half in halves {
            let half = half.map_err(|error| Unavailable::caused("no random bytes", error))?;
            secret.extend(half.iter().map(|byte| format!("{byte:02x}")));
        }
        self.key.put_signing_secret(secret.into()).await
    }

    async fn hook_attempts(&self, app: AppName) -> Result<Vec<HookAttempt>, ProviderError> {
        let call = ApiRequest {
            operation: "list-deliveries",
            method: Method::GET,
            path: format!("/app/hook/deliveries?per_page={LAST_DELIVERIES}"),
            body: None,
        };
        let answer = self.call_as_app(app, &call).await?;
        if answer.status != StatusCode::OK {
            return Err(answer.trouble());
        }
        let all: Vec<Attempt> = answer.read()?;
        let attempt = |Attempt { id, guid, delivered_at, event, status_code }| HookAttempt {
            id,
            guid,
            event,
            at: Time::from_millis(delivered_at.as_millisecond()),
            status: status_code.filter(|code| *code > 0),
        };
        Ok(all.into_iter().map(attempt).collect())
    }

    async fn pause(&self, length: Seconds) {
        tokio::time::sleep(Duration::from_secs(length.0.into())).await;
    }

    async fn set_hook(
        &self,
        app: AppName,
        url: &str,
        secret: Option<&Hidden>,
    ) -> Result<(), HookError> {
        let mut body = json!({ "url": url, "content_type": "json", "insecure_ssl": "0" });
        if let Some(secret) = secret {
            body["secret"] = json!(secret.expose());
        }
        let (operation, path) = ("set-hook", "/app/hook/config".to_owned());
        let call = ApiRequest { operation, method: Method::PATCH, path, body: Some(body) };
        let answer = self.call_as_app(app, &call).await.map_err(HookError::ProviderError)?;
        match answer.status {
            StatusCode::OK => Ok(()),
            _ => Err(match answer.refusal() {
                Some(fault) => HookError::Refused(fault),
                None => HookError::ProviderError(answer.trouble()),
            }),
        }
    }
}
