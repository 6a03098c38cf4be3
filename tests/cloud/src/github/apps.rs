//! Apps that GitHub makes of a manifest, and their webhook's settings.
//!
//! Source: docs.github.com/en/apps/sharing-github-apps/registering-a-github-app-from-a-manifest and
//! docs.github.com/en/rest/apps/webhooks

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{App, AppSettings, GitHub, GitHubError, HookConfig};
use crate::{Ids, Millis};

/// The keys of Apps that are made here: private and public. They protect nothing, and are kept
/// without their PEM frames, so that scanners for real keys stay quiet.
const KEYS: [(&str, &str); 3] = [
    (include_str!("keys/1.private"), include_str!("keys/1.public")),
    (include_str!("keys/2.private"), include_str!("keys/2.public")),
    (include_str!("keys/3.private"), include_str!("keys/3.public")),
];
/// How long a manifest's code is good.
const CODE_LIFETIME_MS: Millis = 3_600_000;
/// Where GitHub's pages are, in what it shows of Apps.
const PAGES: &str = "https://github.com";

/// Whose an App is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AppOwner {
    pub login: String,
    pub id: u64,
    pub is_organization: bool,
}

/// An App's webhook, as a manifest has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct HookAttributes {
    #[serde(default)]
    pub url: Option<String>,
    #[serde(default = "yes")]
    pub active: bool,
}

const fn yes() -> bool {
    true
}

/// What an App is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Manifest {
    pub name: Option<String>,
    pub url: Option<String>,
    pub hook_attributes: Option<HookAttributes>,
    pub redirect_url: Option<String>,
    pub public: bool,
    pub default_permissions: BTreeMap<String, String>,
    pub default_events: Vec<String>,
}

/// An App that was made of a manifest.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) owner: AppOwner,
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) slug: String,
    private_key: String,
}

/// A code that waits for its conversion.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    app: String,
    at: Millis,
}

/// What changes of a webhook's settings; what is not named stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct HookPatch {
    #[serde(default)]
    pub url: Option<String>,
    #[serde(default)]
    pub content_type: Option<String>,
    #[serde(default)]
    pub secret: Option<String>,
    #[serde(default)]
    pub insecure_ssl: Option<Value>,
}

fn framed(label: &str, body: &str) -> String {
    format!("-----BEGIN {label}-----\n{body}-----END {label}-----\n")
}

/// A name as addresses have it.
fn slug(name: &str) -> String {
    let plain =
        |one: char| if one.is_ascii_alphanumeric() { one.to_ascii_lowercase() } else { '-' };
    let words: String = name.chars().map(plain).collect();
    words.split('-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

impl GitHub {
    /// Makes the App of a manifest, and answers the code that its maker is sent back with.
    pub fn make_app(
        &mut self,
        ids: &mut Ids,
        owner: AppOwner,
        name: &str,
        manifest: &Manifest,
        now: Millis,
    ) -> String {
        let id = ids.small();
        let (private_key, public_key) = KEYS[self.codes_made % KEYS.len()];
        self.codes_made += 1;
        let hook = manifest.hook_attributes.clone().unwrap_or_default();
        let mut permissions = manifest.default_permissions.clone();
        permissions.insert("metadata".to_owned(), "read".to_owned());
        let app = App {
            public_key: framed("PUBLIC KEY", public_key),
            settings: AppSettings { events: manifest.default_events.clone(), permissions },
            // GitHub's default where a manifest does not say it.
            hook: HookConfig { url: hook.url.clone(), ..HookConfig::default() },
            // GitHub makes one of its own.
            hook_secret: hook
                .url
                .map(|_| format!("{:016x}{:016x}", ids.scrambled(), ids.scrambled())),
            made: Some(Made {
                owner,
                id,
                name: name.to_owned(),
                slug: slug(name),
                private_key: framed("RSA PRIVATE KEY", private_key),
            }),
            ..App::default()
        };
        self.apps.insert(id.to_string(), app);
        let code = format!("{:016x}{:016x}", ids.scrambled(), ids.scrambled());
        self.codes.insert(code.clone(), Code { app: id.to_string(), at: now });
        code
    }

    /// `POST /app-manifests/{code}/conversions`: who the App is, and its secrets, once.
    pub fn convert(&mut self, code: &str, now: Millis) -> Result<Value, GitHubError> {
        let Code { app: number, at } =
            self.codes.remove(code).ok_or_else(GitHubError::not_found)?;
        let app = self.apps.get(&number).filter(|_| now < at + CODE_LIFETIME_MS);
        let app = app.ok_or_else(GitHubError::not_found)?;
        let made = app.made.as_ref().ok_or_else(GitHubError::not_found)?;
        let mut view = self.app_view(&number).unwrap_or_default();
        view["client_id"] = json!(format!("Iv23li{:014}", made.id));
        view["client_secret"] = json!(format!("client-secret-canary-{number}"));
        view["webhook_secret"] = json!(app.hook_secret);
        view["pem"] = json!(made.private_key);
        Ok(view)
    }

    /// An App that was made here, as it sees itself.
    pub(crate) fn made_view(&self, app: &App) -> Option<Value> {
        let Made { owner, id, name, slug, .. } = app.made.as_ref()?;
        let kind = if owner.is_organization { "Organization" } else { "User" };
        Some(json!({
            "id": id,
            "slug": slug,
            "name": name,
            "owner": { "login": owner.login, "id": owner.id, "type": kind },
            "html_url": format!("{PAGES}/apps/{slug}"),
            "events": app.settings.events,
            "permissions": app.settings.permissions,
        }))
    }

    /// `PATCH /app/hook/config`. None without such an App.
    pub fn patch_hook(&mut self, app: &str, patch: HookPatch) -> Result<Value, GitHubError> {
        let known = self.apps.get_mut(app).ok_or_else(GitHubError::not_found)?;
        if known.hook.url.is_none() {
            return Err(GitHubError::not_found());
        }
        let HookPatch { url, content_type, secret, insecure_ssl } = patch;
        let is_address = |url: &String| url.starts_with("https://") || url.starts_with("http://");
        if url.as_ref().is_some_and(|url| !is_address(url)) {
            return Err(GitHubError::new(422, "Validation Failed"));
        }
        known.hook.url = url.or_else(|| known.hook.url.take());
        if let Some(content_type) = content_type {
            known.hook.content_type = content_type;
        }
        if let Some(insecure) = insecure_ssl {
            known.hook.insecure_ssl =
                if insecure == "1" || insecure == 1 { "1" } else { "0" }.to_owned();
        }
        known.hook_secret = secret.or_else(|| known.hook_secret.take());
        let (url, secret) = (known.hook.url.clone(), known.hook_secret.clone());
        let view = known.hook_view();
        for spec in self.specs_mut().filter(|spec| spec.app_id == app) {
            spec.webhook_url.clone_from(&url);
            if secret.is_some() {
                spec.webhook_secret.clone_from(&secret);
            }
        }
        Ok(view)
    }

    /// `GET /app/hook/config`. None without such an App.
    #[must_use]
    pub fn hook_view(&self, app: &str) -> Option<Value> {
        self.apps.get(app).map(App::hook_view)
    }

    /// The App that was made last.
    #[must_use]
    pub fn newest_app(&self) -> Option<String> {
        let made = self.apps.values().filter_map(|app| app.made.as_ref());
        made.map(|made| made.id).max().map(|id| id.to_string())
    }

    /// The key of an App that was made here.
    #[must_use]
    pub fn private_key(&self, app: &str) -> Option<&str> {
        Some(&self.apps.get(app)?.made.as_ref()?.private_key)
    }

    /// What GitHub signs an App's deliveries with. None where the App was not told so here.
    #[must_use]
    pub fn hook_secret(&self, app: &str) -> Option<&str> {
        self.apps.get(app)?.hook_secret.as_deref()
    }
}

impl App {
    /// GitHub never shows the secret.
    fn hook_view(&self) -> Value {
        let mut view = json!(self.hook);
        if self.hook_secret.is_some() {
            view["secret"] = json!("********");
        }
        view
    }
}
