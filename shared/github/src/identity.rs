//! The App's identity at GitHub: the contents of the App's secret.

use muster_control::ports::AppCredentials;
use muster_domain::app::KeyProblem;
use muster_domain::ids::AppName;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value, json};

use crate::client::Base;
use crate::jwt;

/// The URL of GitHub's API, unless the secret has a different one.
const API: &str = "https://api.github.com";
/// The field of the Apps besides the main one.
const OTHERS: &str = "other_apps";

/// The App's identity from its secret. ID, URL and key are stored together, so that they are
/// consistent.
#[derive(Clone)]
pub struct AppIdentity {
    pub(crate) app_id: String,
    pub(crate) base: Base,
    pub(crate) private_key: SecretString,
}

impl AppIdentity {
    /// Parses the value of the secret: a JSON object with the main App's `app_id` (the App's ID or
    /// client ID), `private_key` (PEM) and, for GitHub Enterprise Server, `api_url`, and with such an
    /// object for each other App, by its name, in `other_apps`. Other fields are ignored.
    ///
    /// # Errors
    /// The problem with its value.
    pub fn read(secret: &str, app: AppName) -> Result<Self, KeyProblem> {
        let secret = secret.trim();
        if secret.is_empty() {
            return Err(KeyProblem::Unset);
        }
        if secret.starts_with("-----BEGIN") {
            return Err(KeyProblem::BarePem);
        }
        let all: Map<String, Value> =
            serde_json::from_str(secret).map_err(|_| KeyProblem::NotJson)?;
        let fields = fields_of(&all, app).ok_or(KeyProblem::Unset)?;
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
        Self::read(&Self::fields(app).to_string(), AppName::MAIN)
    }

    /// Returns the value of the secret with an App's credentials, or without them, in the format of
    /// [`Self::read`]. The other Apps' stay as they are. A value that is not JSON is replaced.
    pub(crate) fn secret(
        before: &SecretString,
        app: AppName,
        credentials: Option<&AppCredentials>,
    ) -> SecretString {
        let mut all: Map<String, Value> =
            serde_json::from_str(before.expose_secret()).unwrap_or_default();
        let mut others = match all.remove(OTHERS) {
            Some(Value::Object(others)) => others,
            _ => Map::new(),
        };
        let fields = credentials.map(Self::fields);
        if app == AppName::MAIN {
            all = match fields {
                Some(Value::Object(fields)) => fields,
                _ => Map::new(),
            };
        } else if let Some(fields) = fields {
            others.insert(app.to_string(), fields);
        } else {
            others.remove(app.as_str());
        }
        if !others.is_empty() {
            all.insert(OTHERS.to_owned(), others.into());
        }
        Value::Object(all).to_string().into()
    }

    fn fields(app: &AppCredentials) -> Value {
        let AppCredentials { app_id, client_id, slug, html_url, api_url, private_key, made_by } =
            app;
        json!({
            "app_id": app_id,
            "client_id": client_id,
            "slug": slug,
            "html_url": html_url,
            "api_url": api_url,
            "private_key": private_key.expose(),
            "made_by": made_by,
        })
    }

    /// Returns the hash of the code that created the App, if the secret has one.
    pub(crate) fn made_by(secret: &SecretString, app: AppName) -> Option<String> {
        let all: Map<String, Value> = serde_json::from_str(secret.expose_secret()).ok()?;
        fields_of(&all, app)?.get("made_by")?.as_str().map(str::to_owned)
    }
}

/// Returns the fields of an App, if the secret has any.
fn fields_of(all: &Map<String, Value>, app: AppName) -> Option<&Map<String, Value>> {
    match app {
        AppName::MAIN => Some(all),
        _ => all.get(OTHERS)?.get(app.as_str())?.as_object(),
    }
}
