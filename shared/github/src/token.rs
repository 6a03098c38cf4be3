//! Installation tokens: fetched once, shared by all calls, and replaced before they expire.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use http::{Method, StatusCode};
use muster_control::ports::Registrar;
use muster_domain::app::{BAD_KEY, KeyProblem, NO_KEY, NOT_INSTALLED};
use muster_domain::causes::with_causes;
use muster_domain::ids::{AppName, Entity, EntityKind, InstallationId};
use muster_domain::provider::{ErrorDetail, ProviderError};
use muster_domain::time::{Seconds, Time};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;

use crate::answer::ApiResponse;
use crate::answer::fault;
use crate::client::{ApiRequest, Base};
use crate::{App, AppIdentity, AppKey, AppKeyError, jwt, route};

/// A token is not used in its last five minutes, because a call may be delayed.
const MARGIN: Seconds = Seconds(300);
/// Assumed lifetime if GitHub omits it; GitHub always reports an hour.
const LIFETIME: Seconds = Seconds(3600);

/// A valid token.
#[derive(Clone)]
pub(crate) struct Token {
    pub(crate) secret: SecretString,
    /// The API that granted it.
    pub(crate) base: Base,
    expires: Time,
    scope: TokenScope,
    /// Distinguishes this token from its replacement.
    serial: u64,
}

/// The key of a cached token: an App's installation and the permissions there.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct TokenScope {
    app: AppName,
    installation: InstallationId,
    rights: TokenPermissions,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum TokenPermissions {
    /// Manage runners of an entity of this kind, and read jobs.
    Runners(EntityKind),
    /// Read workflow runs and their jobs.
    Jobs,
    /// List the repositories.
    Repositories,
}

/// All tokens of a function.
#[derive(Default)]
pub(crate) struct Tokens {
    slots: Mutex<HashMap<TokenScope, Arc<Slot>>>,
    /// Installations that were looked up, by entity.
    found: Mutex<HashMap<Entity, InstallationId>>,
}

/// The cache entry of a token. Its lock is held during a fetch: concurrent callers wait for that
/// fetch.
type Slot = tokio::sync::Mutex<CachedToken>;

#[derive(Default)]
struct CachedToken {
    token: Option<Token>,
    /// Number of completed fetches.
    fetches: u64,
    /// The error of the last fetch, if it failed. Callers that waited for it share the error: if
    /// each retried in turn, they would wait for as many time-outs.
    failure: Option<TokenError>,
}

/// Why there is no token.
#[derive(Clone)]
enum TokenError {
    /// GitHub does not know the installation.
    Installation(ErrorDetail),
    ProviderError(ProviderError),
}

impl From<TokenError> for ProviderError {
    fn from(missing: TokenError) -> Self {
        match missing {
            TokenError::Installation(fault) => Self::Unauthorized(fault),
            TokenError::ProviderError(trouble) => trouble,
        }
    }
}

#[derive(Deserialize)]
struct Granted {
    token: String,
    expires_at: Option<jiff::Timestamp>,
}

#[derive(Deserialize)]
struct FoundInstallation {
    id: u64,
}

impl Tokens {
    fn slot(&self, scope: TokenScope) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry(scope).or_default())
    }

    fn found(&self, entity: &Entity) -> Option<InstallationId> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).get(entity).copied()
    }

    fn remember(&self, entity: &Entity, installation: InstallationId) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.insert(entity.clone(), installation);
    }
}

impl<K: AppKey> App<K> {
    /// Returns a token for an entity's runners.
    ///
    /// An unknown installation may have been replaced: the App was removed and installed again with
    /// a new ID. In that case, looks up the entity's installation once.
    pub(crate) async fn token(&self, registrar: &Registrar) -> Result<Token, ProviderError> {
        let Registrar { entity, installation } = registrar;
        self.token_for(entity, *installation, TokenPermissions::Runners(entity.kind())).await
    }

    /// Returns a token for reading the jobs of a repository, which every App that receives job
    /// events can do.
    pub(crate) async fn token_for_jobs(
        &self,
        repository: &Entity,
        installation: Option<InstallationId>,
    ) -> Result<Token, ProviderError> {
        self.token_for(repository, installation, TokenPermissions::Jobs).await
    }

    /// Returns a token that can re-run jobs of one repository. Such a token could also cancel runs and
    /// delete logs, so it is fetched for each call and never cached.
    pub(crate) async fn token_to_rerun(
        &self,
        repository: &Entity,
        installation: Option<InstallationId>,
    ) -> Result<Token, ProviderError> {
        let known = self.tokens.found(repository).or(installation);
        let installation = match known {
            Some(installation) => installation,
            None => self.look_up(repository).await?,
        };
        let (_, name) = repository.as_str().split_once('/').unwrap_or_default();
        let (app, rights) = (repository.app(), TokenPermissions::Jobs);
        let scope = TokenScope { app, installation, rights };
        let body = json!({ "repositories": [name], "permissions": { "actions": "write" } });
        Ok(self.fetch_with(scope, 0, Some(body)).await?)
    }

    async fn token_for(
        &self,
        entity: &Entity,
        installation: Option<InstallationId>,
        rights: TokenPermissions,
    ) -> Result<Token, ProviderError> {
        let app = entity.app();
        let scope = |installation| TokenScope { app, installation, rights };
        // An installation that was looked up is newer than the recorded one.
        let known = self.tokens.found(entity).or(installation);
        let installation = match known {
            Some(installation) => installation,
            None => self.look_up(entity).await?,
        };
        match self.shared(scope(installation)).await {
            Err(TokenError::Installation(_)) if known.is_some() => {
                let installation = self.look_up(entity).await?;
                Ok(self.shared(scope(installation)).await?)
            }
            outcome => Ok(outcome?),
        }
    }

    /// Returns a token that can only list the repositories of an installation.
    pub(crate) async fn token_to_list(
        &self,
        app: AppName,
        installation: InstallationId,
    ) -> Result<Token, ProviderError> {
        let rights = TokenPermissions::Repositories;
        Ok(self.shared(TokenScope { app, installation, rights }).await?)
    }

    /// Drops a token that GitHub rejected, unless a concurrent call has already replaced it.
    pub(crate) fn forget(&self, token: &Token) {
        let slot = self.tokens.slot(token.scope);
        // If the lock is held, the token is being replaced.
        let Ok(mut state) = slot.try_lock() else {
            return;
        };
        if state.token.as_ref().is_some_and(|kept| kept.serial == token.serial) {
            state.token = None;
        }
    }

    /// Returns the cached token, or fetches a new one. Concurrent callers share one fetch.
    async fn shared(&self, scope: TokenScope) -> Result<Token, TokenError> {
        let slot = self.tokens.slot(scope);
        let Ok(mut state) = slot.try_lock() else {
            return self.after_others(&slot, scope).await;
        };
        self.refreshed(&mut state, scope).await
    }

    /// Waits for the fetch in progress and returns its result, including an error.
    async fn after_others(&self, slot: &Slot, scope: TokenScope) -> Result<Token, TokenError> {
        let mut state = slot.lock().await;
        match &state.failure {
            Some(failure) => Err(failure.clone()),
            None => self.refreshed(&mut state, scope).await,
        }
    }

    async fn refreshed(
        &self,
        state: &mut CachedToken,
        scope: TokenScope,
    ) -> Result<Token, TokenError> {
        let now = (self.clock)();
        if let Some(token) = &state.token
            && now + MARGIN < token.expires
        {
            return Ok(token.clone());
        }
        state.fetches += 1;
        let outcome = self.fetch(scope, state.fetches).await;
        state.token = outcome.as_ref().ok().cloned();
        state.failure = outcome.as_ref().err().cloned();
        outcome
    }

    /// Fetches a token with at most two attempts: GitHub has been observed to answer 404 for a JWT
    /// that a different function had just used, and a 401 means that the key was changed.
    async fn fetch(&self, scope: TokenScope, serial: u64) -> Result<Token, TokenError> {
        self.fetch_with(scope, serial, permissions(scope.rights)).await
    }

    async fn fetch_with(
        &self,
        scope: TokenScope,
        serial: u64,
        body: Option<serde_json::Value>,
    ) -> Result<Token, TokenError> {
        let call = ApiRequest {
            operation: "create-installation-token",
            method: Method::POST,
            path: format!("/app/installations/{}/access_tokens", scope.installation.0),
            body,
        };
        let (mut identity, mut answer) =
            self.as_app(scope.app, &call, false).await.map_err(TokenError::ProviderError)?;
        if matches!(answer.status, StatusCode::NOT_FOUND | StatusCode::UNAUTHORIZED) {
            let fresh = answer.status == StatusCode::UNAUTHORIZED;
            (identity, answer) =
                self.as_app(scope.app, &call, fresh).await.map_err(TokenError::ProviderError)?;
        }
        match answer.status {
            status if status.is_success() => {
                let granted: Granted = answer.read().map_err(TokenError::ProviderError)?;
                let expires = granted.expires_at.map_or(answer.at + LIFETIME, |timestamp| {
                    Time::from_millis(timestamp.as_millisecond())
                });
                let secret = SecretString::from(granted.token);
                Ok(Token { secret, base: identity.base, expires, scope, serial })
            }
            StatusCode::NOT_FOUND => Err(TokenError::Installation(answer.fault())),
            // The App lacks a permission that runners need. Only an operator can fix it, so it
            // counts as unauthorized.
            StatusCode::UNPROCESSABLE_ENTITY => {
                Err(TokenError::ProviderError(ProviderError::Unauthorized(answer.fault())))
            }
            _ => Err(TokenError::ProviderError(answer.trouble())),
        }
    }

    /// Looks up the installation that covers an entity.
    async fn look_up(&self, entity: &Entity) -> Result<InstallationId, ProviderError> {
        let call = ApiRequest {
            operation: "get-installation",
            method: Method::GET,
            path: route::installation(entity),
            body: None,
        };
        let answer = self.call_as_app(entity.app(), &call).await?;
        match answer.status {
            StatusCode::OK => {
                let installation = InstallationId(answer.read::<FoundInstallation>()?.id);
                self.tokens.remember(entity, installation);
                Ok(installation)
            }
            StatusCode::NOT_FOUND => Err(ProviderError::Unauthorized(ErrorDetail {
                code: NOT_INSTALLED.to_owned(),
                message: format!(
                    "the App is not installed on {entity}: install it there, and where it has \
                     selected repositories, select this one"
                ),
                ..answer.fault()
            })),
            _ => Err(answer.trouble()),
        }
    }

    /// Makes a call as an App itself, and repeats it with a freshly read key if GitHub rejects the
    /// cached one.
    pub(crate) async fn call_as_app(
        &self,
        app: AppName,
        call: &ApiRequest,
    ) -> Result<ApiResponse, ProviderError> {
        Ok(self.call_as_named_app(app, call).await?.1)
    }

    /// Makes a call like [`Self::call_as_app`], and also returns the App's ID or client ID.
    pub(crate) async fn call_as_named_app(
        &self,
        app: AppName,
        call: &ApiRequest,
    ) -> Result<(String, ApiResponse), ProviderError> {
        let (mut identity, mut answer) = self.as_app(app, call, false).await?;
        if answer.status == StatusCode::UNAUTHORIZED {
            (identity, answer) = self.as_app(app, call, true).await?;
        }
        Ok((identity.app_id, answer))
    }

    /// Makes a call as an App itself, with a new JWT. Also returns the identity that was used,
    /// since the stored one can be replaced at any time.
    async fn as_app(
        &self,
        app: AppName,
        call: &ApiRequest,
        fresh_key: bool,
    ) -> Result<(AppIdentity, ApiResponse), ProviderError> {
        let now = (self.clock)();
        let identity = self.key.identity(app, fresh_key).await.map_err(|missing| {
            let code = match missing {
                AppKeyError::Unfit { problem: KeyProblem::Unset, .. }
                | AppKeyError::Unavailable(_) => NO_KEY,
                AppKeyError::Unfit { .. } => BAD_KEY,
            };
            let fault = fault("read-app-key", code, with_causes(&missing), now);
            match missing {
                AppKeyError::Unfit { .. } => ProviderError::Unauthorized(fault),
                AppKeyError::Unavailable(_) => ProviderError::Unavailable(fault),
            }
        })?;
        let answer = self.send_as(&identity, call).await?;
        Ok((identity, answer))
    }

    /// Makes a call with this identity, regardless of the stored one.
    pub(crate) async fn send_as(
        &self,
        identity: &AppIdentity,
        call: &ApiRequest,
    ) -> Result<ApiResponse, ProviderError> {
        let now = (self.clock)();
        let jwt = jwt::nonce()
            .and_then(|nonce| jwt::sign(&identity.app_id, &identity.private_key, now, nonce))
            .map_err(|error| fault("sign-app-token", BAD_KEY, with_causes(&error), now))
            .map_err(ProviderError::Unauthorized)?;
        self.client.send(call, &identity.base, &jwt, now).await
    }
}

/// Returns the minimal permissions of a token. The name of an enterprise's permission differs
/// between versions of GitHub, so there the token gets all of the App's permissions.
fn permissions(rights: TokenPermissions) -> Option<serde_json::Value> {
    let runners = match rights {
        TokenPermissions::Runners(EntityKind::Repository) => "administration",
        TokenPermissions::Runners(EntityKind::Organization) => "organization_self_hosted_runners",
        TokenPermissions::Runners(EntityKind::Enterprise) => return None,
        TokenPermissions::Jobs => return Some(json!({"permissions": {"actions": "read"}})),
        TokenPermissions::Repositories => {
            return Some(json!({"permissions": {"metadata": "read"}}));
        }
    };
    Some(json!({"permissions": {runners: "write", "actions": "read"}}))
}
