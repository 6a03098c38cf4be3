//! Apps that GitHub makes on its pages, and their webhook's settings.
//!
//! Source: docs.github.com/en/apps/sharing-github-apps/registering-a-github-app-from-a-manifest and
//! docs.github.com/en/rest/apps/webhooks

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::manifest::loopback;
use super::webhooks::guid_of;
use super::{
    App, AppSettings, GitHub, GitHubError, HookConfig, Lies, Manifest, OwnerKind, OwnerSpec,
    Webhook,
};
use crate::{Ids, Millis};

/// The keys of Apps that are made here: private and public. They protect nothing, and are kept
/// without their PEM frames, so that scanners for real keys stay quiet.
const KEYS: [(&str, &str); 3] = [
    (include_str!("keys/1.private"), include_str!("keys/1.public")),
    (include_str!("keys/2.private"), include_str!("keys/2.public")),
    (include_str!("keys/3.private"), include_str!("keys/3.public")),
];
/// How long a manifest's code is good.
pub const CODE_LIFETIME_MS: Millis = 3_600_000;

/// Whose an App is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AppOwner {
    pub login: String,
    pub id: u64,
    pub is_organization: bool,
}

/// An event about an App itself.
#[derive(Clone, Debug)]
pub(crate) struct AppDelivery {
    app: String,
    event: &'static str,
    action: Option<&'static str>,
    body: Value,
    pub(super) is_tried: bool,
}

/// An App that was made on a page.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) owner: AppOwner,
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) slug: String,
    private_key: String,
    /// GitHub tells nobody of anything without it, and no API switches it on.
    hook_active: bool,
}

/// A code that waits for its conversion.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    app: String,
    until: Millis,
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
    /// Makes the App of a manifest, and answers the code that its maker is sent back with. It is
    /// good until then.
    pub fn make_app(
        &mut self,
        ids: &mut Ids,
        owner: AppOwner,
        name: &str,
        manifest: &Manifest,
        until: Millis,
    ) -> String {
        let app = self.add_app(ids, owner, name, manifest, None);
        // GitHub makes one of its own.
        let secret = manifest
            .hook_url()
            .map(|_| format!("{:016x}{:016x}", ids.scrambled(), ids.scrambled()));
        if let Some(made) = self.apps.get_mut(&app) {
            made.hook_secret = secret;
        }
        let code = format!("{:016x}{:016x}", ids.scrambled(), ids.scrambled());
        self.codes.insert(code.clone(), Code { app, until });
        code
    }

    /// Makes an App that signs its deliveries with this, where it is said. Answers its number.
    pub(crate) fn add_app(
        &mut self,
        ids: &mut Ids,
        owner: AppOwner,
        name: &str,
        manifest: &Manifest,
        hook_secret: Option<String>,
    ) -> String {
        let id = ids.small();
        let (private_key, public_key) = KEYS[self.apps_made % KEYS.len()];
        self.apps_made += 1;
        let hook = manifest.hook_attributes.clone().unwrap_or_default();
        let mut permissions = manifest.default_permissions.clone();
        permissions.insert("metadata".to_owned(), "read".to_owned());
        let app = App {
            public_key: framed("PUBLIC KEY", public_key),
            settings: AppSettings { events: manifest.default_events.clone(), permissions },
            // GitHub's default where a manifest does not say it.
            hook: HookConfig { url: hook.url, ..HookConfig::default() },
            hook_secret,
            made: Some(Made {
                owner,
                id,
                name: name.to_owned(),
                slug: slug(name),
                private_key: framed("RSA PRIVATE KEY", private_key),
                hook_active: hook.active,
            }),
            ..App::default()
        };
        self.apps.insert(id.to_string(), app);
        id.to_string()
    }

    /// The App of this name, as addresses have it: its number.
    #[must_use]
    pub fn app_of_slug(&self, wanted: &str) -> Option<String> {
        let made = self.apps.values().filter_map(|app| app.made.as_ref());
        let mut named = made.filter(|made| made.slug == wanted);
        named.next().map(|made| made.id.to_string())
    }

    /// Its name as addresses have it.
    #[must_use]
    pub fn slug_of(&self, app: &str) -> Option<&str> {
        Some(&self.apps.get(app)?.made.as_ref()?.slug)
    }

    /// The Apps of an owner: their names, and those that addresses have.
    pub fn apps_of(&self, owner: &AppOwner) -> impl Iterator<Item = (&str, &str)> {
        let made = self.apps.values().filter_map(|app| app.made.as_ref());
        let theirs = made.filter(|made| {
            made.owner.is_organization == owner.is_organization
                && made.owner.login.eq_ignore_ascii_case(&owner.login)
        });
        theirs.map(|made| (made.name.as_str(), made.slug.as_str()))
    }

    /// Whether GitHub has an App of this name already.
    #[must_use]
    pub fn is_name_taken(&self, name: &str) -> bool {
        self.app_of_slug(&slug(name)).is_some()
    }

    /// Why GitHub takes no webhook at an address, if it does not.
    /// Source: github-community-projects/private-mirrors #387
    #[must_use]
    pub fn hook_problem(&self, url: Option<&str>) -> Option<String> {
        let host = url.and_then(loopback).filter(|_| !self.local_hooks_allowed)?;
        Some(format!(
            "Webhook URL is not supported because it isn't reachable over the public Internet ({host})"
        ))
    }

    fn page(&self, path: &str) -> String {
        format!("{}{path}", self.pages_address.as_deref().unwrap_or("https://github.com"))
    }

    /// Its owner installs an App. Answers the installation's number.
    pub(crate) fn install_app(
        &mut self,
        ids: &mut Ids,
        app: &str,
        selected: bool,
    ) -> Result<u64, GitHubError> {
        let known = self.apps.get(app).ok_or_else(GitHubError::not_found)?;
        let owner = known.made.as_ref().ok_or_else(GitHubError::not_found)?.owner.clone();
        let kind = if owner.is_organization { OwnerKind::Organization } else { OwnerKind::User };
        let installation_id = ids.small();
        let here = OwnerSpec {
            owner: owner.login.clone(),
            kind,
            enterprise: None,
            installation_id,
            app_id: app.to_owned(),
            app_public_key: known.public_key.clone(),
            webhook_url: known.hook.url.clone(),
            webhook_secret: known.hook_secret.clone(),
            stack: None,
            public_repositories: false,
            groups: Vec::new(),
            deleted_groups: BTreeSet::new(),
            rate_limit: OwnerSpec::default_rate_limit(),
            lies: Lies::default(),
            suspended_at: None,
            accepted: None,
            selected,
            installed_at: None,
        };
        // An account has one App here. What is the account's own stays.
        let spec = match self.owner(&owner.login).map(|owner| owner.spec.clone()) {
            Some(before) => OwnerSpec {
                enterprise: before.enterprise,
                stack: before.stack,
                public_repositories: before.public_repositories,
                groups: before.groups,
                deleted_groups: before.deleted_groups,
                ..here
            },
            None => here,
        };
        self.register_owner(spec, owner.id);
        Ok(installation_id)
    }

    /// An event about an App itself gets a delivery: GitHub sends it where the App's webhook is, if
    /// that is active.
    pub(crate) fn tell_app(
        &mut self,
        number: u64,
        app: &str,
        event: &'static str,
        action: Option<&'static str>,
        body: Value,
    ) -> bool {
        let known = self.apps.get(app);
        let is_sent = known.is_some_and(|app| {
            app.hook.url.is_some() && app.made.as_ref().is_some_and(|made| made.hook_active)
        });
        if is_sent {
            let app = app.to_owned();
            let delivery = AppDelivery { app, event, action, body, is_tried: false };
            self.app_deliveries.insert(number, delivery);
        }
        is_sent
    }

    /// A delivery about an App, as it leaves GitHub.
    pub(crate) fn app_webhook(&self, number: u64) -> Option<Webhook> {
        let delivery = self.app_deliveries.get(&number)?;
        let made = self.apps.get(&delivery.app)?.made.as_ref()?;
        Some(Webhook {
            number,
            guid: guid_of(number),
            owner: made.owner.login.clone(),
            app_id: delivery.app.clone(),
            event: delivery.event.to_owned(),
            action: delivery.action.unwrap_or_default().to_owned(),
            job: 0,
            body: delivery.body.clone(),
        })
    }

    /// Whether a delivery is about this App itself.
    pub(crate) fn is_about_app(&self, app: &str, number: u64) -> bool {
        self.app_deliveries.get(&number).is_some_and(|delivery| delivery.app == app)
    }

    /// Where a delivery goes, and what it is signed with: the App's own settings, where GitHub knows
    /// those, or what was said of the account.
    #[must_use]
    pub fn target(&self, delivery: &Webhook) -> Option<(String, String)> {
        let app = self.apps.get(&delivery.app_id)?;
        if app.made.is_some() {
            return Some((app.hook.url.clone()?, app.hook_secret.clone().unwrap_or_default()));
        }
        let spec = &self.owner(&delivery.owner)?.spec;
        Some((spec.webhook_url.clone()?, spec.webhook_secret.clone().unwrap_or_default()))
    }

    /// `POST /app-manifests/{code}/conversions`: who the App is, and its secrets, once.
    pub fn convert(&mut self, code: &str, now: Millis) -> Result<Value, GitHubError> {
        let Code { app: number, until } =
            self.codes.remove(code).ok_or_else(GitHubError::not_found)?;
        let app = self.apps.get(&number).filter(|_| now < until);
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
            "html_url": self.page(&format!("/apps/{slug}")),
            "events": app.settings.events,
            "permissions": app.settings.permissions,
        }))
    }

    /// `PATCH /app/hook/config`. None without such an App.
    pub fn patch_hook(&mut self, app: &str, patch: HookPatch) -> Result<Value, GitHubError> {
        let HookPatch { url, content_type, secret, insecure_ssl } = patch;
        let is_address = |url: &String| url.starts_with("https://") || url.starts_with("http://");
        let is_refused = url.as_ref().is_some_and(|url| !is_address(url))
            || self.hook_problem(url.as_deref()).is_some();
        let known = self.apps.get_mut(app).ok_or_else(GitHubError::not_found)?;
        if known.hook.url.is_none() {
            return Err(GitHubError::not_found());
        }
        if is_refused {
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

#[cfg(test)]
mod tests {
    use super::slug;

    #[test]
    fn a_name_as_addresses_have_it() {
        assert_eq!(slug("Muster of  Acme!"), "muster-of-acme");
    }
}
