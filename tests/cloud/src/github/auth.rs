//! The App's JSON Web Token, installation tokens, and the rate limit that comes with them.

use serde::Serialize;

use super::{GitHub, GitHubError, RunnerScope};
use crate::{Ids, Millis, rfc3339};

/// The claims of a JSON Web Token whose signature has been found good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    pub iss: String,
    pub iat: i64,
    pub exp: i64,
    pub jti: Option<String>,
}

/// An installation access token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InstallationToken {
    pub token: String,
    pub installation_id: u64,
    pub owner: String,
    pub expires_at: Millis,
}

/// The `x-ratelimit-*` headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateView {
    pub limit: u32,
    pub used: u32,
    pub resets_at: Millis,
}

impl RateView {
    /// The headers of an answer.
    #[must_use]
    pub fn headers(self) -> Vec<(String, String)> {
        let header = |name: &str, value: String| (format!("x-ratelimit-{name}"), value);
        vec![
            header("limit", self.limit.to_string()),
            header("used", self.used.to_string()),
            header("remaining", self.limit.saturating_sub(self.used).to_string()),
            header("reset", (self.resets_at / 1000).to_string()),
            header("resource", "core".to_owned()),
        ]
    }
}

/// GitHub's clock may be this far behind the caller's.
const SKEW_SECONDS: i64 = 60;
const MAX_SECONDS: i64 = 600;
const RATE_WINDOW_MS: Millis = 3_600_000;

impl GitHub {
    /// The public key (PEM) of an App.
    #[must_use]
    pub fn app_key(&self, app: &str) -> Option<&str> {
        self.apps.get(app).map(|app| app.public_key.as_str())
    }

    /// Judges the claims of a token that proves to be an App. Each token is good for one request:
    /// GitHub was seen answering 404 to a token identical to an earlier one, which happens to
    /// every caller that signs twice in one second without a `jti`.
    pub(crate) fn check_claims(
        &mut self,
        claims: &Claims,
        now: Millis,
    ) -> Result<String, GitHubError> {
        let now = now / 1000;
        let refuse = |message: &str| Err(GitHubError::new(401, message));
        if !self.apps.contains_key(&claims.iss) {
            return refuse("Integration not found");
        }
        if claims.iat > now + SKEW_SECONDS {
            return refuse("'Issued at' claim ('iat') must be an Integer in the past");
        }
        if claims.exp <= now {
            return refuse("'Expiration time' claim ('exp') must be a numeric value in the future");
        }
        if claims.exp - claims.iat > MAX_SECONDS || claims.exp > now + MAX_SECONDS {
            return refuse("'Expiration time' claim ('exp') is too far in the future");
        }
        let identity = match &claims.jti {
            Some(jti) => format!("jti {jti}"),
            None => format!("{} {}", claims.iat, claims.exp),
        };
        let reused_allowed = self.reused_jwt_allowed;
        let app = self.apps.get_mut(&claims.iss).ok_or_else(GitHubError::not_found)?;
        if !app.used.insert(identity) && !reused_allowed {
            return Err(GitHubError::not_found());
        }
        Ok(claims.iss.clone())
    }

    /// A token of an App's installation, good until then.
    pub(crate) fn create_token(
        &mut self,
        ids: &mut Ids,
        app: &str,
        installation: u64,
        expires_at: Millis,
    ) -> Result<InstallationToken, GitHubError> {
        let owner = self
            .installation(installation)
            .filter(|owner| owner.spec.app_id == app)
            .ok_or_else(GitHubError::not_found)?;
        if owner.spec.suspended_at.is_some() {
            return Err(GitHubError::new(403, "This installation has been suspended"));
        }
        let token = InstallationToken {
            token: format!("ghs_{:016x}{:016x}wrld", ids.scrambled(), ids.scrambled()),
            installation_id: installation,
            owner: owner.spec.owner.clone(),
            expires_at,
        };
        self.tokens.insert(token.token.clone(), token.clone());
        Ok(token)
    }

    /// Whom an installation token belongs to, if it is still good.
    #[must_use]
    pub fn token_owner(&self, token: &str, now: Millis) -> Option<&str> {
        self.tokens.get(token).filter(|t| now < t.expires_at).map(|t| t.owner.as_str())
    }

    /// Lets an installation token act on a scope, and charges the rate limit for it.
    pub(crate) fn authorize(
        &mut self,
        token: &str,
        scope: &RunnerScope,
        now: Millis,
    ) -> Result<RateView, GitHubError> {
        let Some(login) = self.token_owner(token, now).map(str::to_owned) else {
            return Err(GitHubError::new(401, "Bad credentials"));
        };
        let rate = self.charge(&login, now)?;
        // What an installation cannot see does not exist for it.
        if !scope.owner().eq_ignore_ascii_case(&login) {
            let mut error = GitHubError::not_found();
            error.headers = rate.headers();
            return Err(error);
        }
        Ok(rate)
    }

    fn charge(&mut self, login: &str, now: Millis) -> Result<RateView, GitHubError> {
        let owner = self.owner_mut(login).ok_or_else(GitHubError::not_found)?;
        if now >= owner.rate_resets_at {
            owner.rate_used = 0;
            owner.rate_resets_at = now + RATE_WINDOW_MS;
        }
        let limit = owner.spec.rate_limit;
        let exhausted = owner.rate_used >= limit;
        owner.rate_used = (owner.rate_used + 1).min(limit);
        let view = RateView { limit, used: owner.rate_used, resets_at: owner.rate_resets_at };
        if exhausted {
            let id = owner.spec.installation_id;
            return Err(GitHubError {
                status: 403,
                message: format!("API rate limit exceeded for installation ID {id}."),
                headers: view.headers(),
            });
        }
        Ok(view)
    }

    /// Sets what is left of an owner's rate limit, and when it is whole again.
    pub(crate) fn set_rate(
        &mut self,
        login: &str,
        remaining: u32,
        resets_at: Millis,
    ) -> Result<(), GitHubError> {
        let owner = self.owner_mut(login).ok_or_else(GitHubError::not_found)?;
        owner.rate_used = owner.spec.rate_limit.saturating_sub(remaining);
        owner.rate_resets_at = resets_at;
        Ok(())
    }
}

impl InstallationToken {
    /// The answer of the REST API.
    #[must_use]
    pub fn view(&self) -> serde_json::Value {
        serde_json::json!({
            "token": self.token,
            "expires_at": rfc3339(self.expires_at),
            "permissions": {
                "actions": "read",
                "administration": "write",
                "metadata": "read",
                "organization_self_hosted_runners": "write",
            },
            "repository_selection": "all",
        })
    }
}
