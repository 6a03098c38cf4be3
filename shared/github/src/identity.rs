//! The App's identity at GitHub: the contents of the App's secret.

use muster_control::ports::AppCredentials;
use muster_domain::app::KeyProblem;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value, json};

use crate::client::Base;
use crate::jwt;

/// The URL of GitHub's API, unless the secret has a different one.
const API: &str = "https://api.github.com";

/// The App's identity from its secret. ID, URL and key are stored together, so that they are
/// consistent.
#[derive(Clone)]
pub struct AppIdentity {
    pub(crate) app_id: String,
    pub(crate) base: Base,
    pub(crate) private_key: SecretString,
}

impl AppIdentity {
    /// Parses the value of the secret: a JSON object with `app_id` (the App's ID or client ID),
    /// `private_key` (PEM) and, for GitHub Enterprise Server, `api_url`. Other fields are ignored.
    ///
    /// # Errors
    /// The problem with its value.
    pub fn read(secret: &str) -> Result<Self, KeyProblem> {
        let secret = secret.trim();
        if secret.is_empty() {
            return Err(KeyProblem::Unset);
        }
        if secret.starts_with("-----BEGIN") {
            return Err(KeyProblem::BarePem);
        }
        let fields: Map<String, Value> =
            serde_json::from_str(secret).map_err(|_| KeyProblem::NotJson)?;
        // The template writes this placeholder, which distinguishes an unset secret from a missing
        // permission.
        if fields.contains_key("placeholder") {
            return Err(KeyProblem::Unset);
        }
        let text = |name: &'static str| {
            let text = match fields.get(name) {
                Some(Value::String(text)) => text.trim().to_owned(),
                // GitHub itself writes the App's ID as a number.
                Some(Value::Number(number)) => number.to_string(),
                _ => String::new(),
            };
            if text.is_empty() { Err(KeyProblem::Lacks(name)) } else { Ok(text) }
        };
        let api_url = match fields.contains_key("api_url") {
            true => text("api_url")?,
            false => API.to_owned(),
        };
        let (app_id, private_key) = (text("app_id")?, SecretString::from(text("private_key")?));
        jwt::check(&private_key).map_err(|_| KeyProblem::NoRsaKey)?;
        let base = Base::read(&api_url).ok_or(KeyProblem::Address)?;
        Ok(Self { app_id, base, private_key })
    }
    /// Creates the identity from an App's credentials.
    ///
    /// # Errors
    /// The problem with their values.
    pub(crate) fn of(app: &AppCredentials) -> Result<Self, KeyProblem> {
        Self::read(Self::secret(app).expose_secret())
    }

    /// Returns the value of the secret, in the format of [`Self::read`].
    pub(crate) fn secret(app: &AppCredentials) -> SecretString {
        let AppCredentials { app_id, client_id, slug, html_url, api_url, private_key, made_by } =
            app;
        let fields = json!({
            "app_id": app_id,
            "client_id": client_id,
            "slug": slug,
            "html_url": html_url,
            "api_url": api_url,
            "private_key": private_key.expose(),
            "made_by": made_by,
        });
        fields.to_string().into()
    }

    /// Returns the hash of the code that created the App, if the secret has one.
    pub(crate) fn made_by(secret: &SecretString) -> Option<String> {
        let fields: Map<String, Value> = serde_json::from_str(secret.expose_secret()).ok()?;
        fields.get("made_by")?.as_str().map(str::to_owned)
    }
}
