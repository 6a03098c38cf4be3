//! The GitHub App: its owner, its host, and the manifest that GitHub's form gets.

pub mod door;

use muster_domain::app::{HOMEPAGE, NewAppLinks, app_name, unique};
use serde_json::json;

/// A GitHub host: github.com, a tenant of ghe.com, or a GitHub Enterprise Server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host(String);

impl Default for Host {
    fn default() -> Self {
        Self("https://github.com".to_owned())
    }
}

impl Host {
    /// Parses an address. Plain HTTP is accepted only for this machine, because the App's key is sent to it.
    ///
    /// # Errors
    /// Describes the expected form.
    pub fn read(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is not the address of a GitHub; examples: https://github.com, \
                https://ghe.acme.com"
            )
        };
        let address = text.trim_end_matches('/');
        let (scheme, host) = address.split_once("://").unwrap_or(("https", address));
        let name = host.split(':').next().unwrap_or_default();
        let is_host = |c: char| c.is_ascii_alphanumeric() || "-.:".contains(c);
        let is_here = matches!(name, "127.0.0.1" | "localhost");
        let is_known = scheme == "https" || (scheme == "http" && is_here);
        if name.is_empty() || !is_known || !host.chars().all(is_host) {
            return Err(wrong());
        }
        Ok(Self(format!("{scheme}://{}", host.to_ascii_lowercase())))
    }

    /// Returns scheme and host, as in a browser's address.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.0
    }

    /// Returns the host, with its port if it has one.
    pub(crate) fn name(&self) -> &str {
        self.0.split_once("://").map_or("", |(_, name)| name)
    }

    /// Returns the base address of its API.
    /// Source: docs.github.com/en/enterprise-server/rest/overview/resources-in-the-rest-api
    #[must_use]
    pub fn api(&self) -> String {
        match self.name() {
            "github.com" => "https://api.github.com".to_owned(),
            tenant if tenant.ends_with(".ghe.com") => format!("https://api.{tenant}"),
            _ => format!("{}/api/v3", self.0),
        }
    }
}

/// The login of a user or an organization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login(String);

impl Login {
    /// Parses a login.
    ///
    /// # Errors
    /// Describes the expected form.
    pub fn read(text: &str) -> Result<Self, String> {
        let is_known = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if text.is_empty() || text.len() > 100 || !text.chars().all(is_known) {
            return Err(format!("{text:?} is not a valid GitHub name; example: acme"));
        }
        Ok(Self(text.to_owned()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The account that an App belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    Organization(Login),
    /// The personal account that is signed in at GitHub.
    Person,
}

impl Owner {
    /// Returns the address of GitHub's form that creates an App for this owner.
    #[must_use]
    pub fn form(&self, host: &Host) -> String {
        match self {
            Self::Organization(Login(name)) => {
                format!("{}/organizations/{name}/settings/apps/new", host.0)
            }
            Self::Person => format!("{}/settings/apps/new", host.0),
        }
    }

    /// Returns the address of the form with its fields filled in, adapted from the stack's link for github.com.
    #[must_use]
    pub fn link(&self, new: &NewAppLinks, host: &Host) -> String {
        let address = match self {
            Self::Organization(Login(name)) => {
                new.organization.replacen("/ORG/", &format!("/{name}/"), 1)
            }
            Self::Person => new.personal.clone(),
        };
        address.replacen("https://github.com/", &format!("{}/", host.0), 1)
    }

    /// Returns the owner's name for messages.
    #[must_use]
    pub fn told(&self) -> &str {
        match self {
            Self::Organization(Login(name)) => name,
            Self::Person => "your own account",
        }
    }

    /// Returns the App's permissions, each with its reason. An organization's runners are registered at the
    /// organization, a person's at each repository.
    #[must_use]
    pub fn permissions(&self) -> [(&'static str, &'static str, &'static str); 2] {
        let runners = match self {
            Self::Organization(_) => {
                ("organization_self_hosted_runners", "write", "registers and removes runners")
            }
            Self::Person => {
                ("administration", "write", "registers and removes runners of a repository")
            }
        };
        [("actions", "write", "reads the status of jobs, and re-runs interrupted ones"), runners]
    }
}

/// Returns the manifest of a new, private App with an active webhook. It has no `setup_url`: GitHub would keep it, and
/// the local page that could serve it closes after this command.
/// Source: docs.github.com/en/apps/sharing-github-apps/registering-a-github-app-from-a-manifest
#[must_use]
pub fn manifest(stack: &str, owner: &Owner, webhook: &str, redirect: &str) -> serde_json::Value {
    let permissions = owner.permissions().map(|(name, level, _)| (name.to_owned(), json!(level)));
    json!({
        "name": name(stack, owner, webhook),
        "url": HOMEPAGE,
        "public": false,
        "hook_attributes": { "url": webhook, "active": true },
        "redirect_url": redirect,
        "default_permissions": serde_json::Map::from_iter(permissions),
        "default_events": ["workflow_job"],
    })
}

/// Returns a name that is probably free: names are unique on GitHub. The person can change it in the form.
fn name(stack: &str, owner: &Owner, webhook: &str) -> String {
    let of = match owner {
        Owner::Organization(Login(name)) => name.clone(),
        Owner::Person => unique(webhook),
    };
    app_name(stack, &of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acme() -> Owner {
        Owner::Organization(Login::read("acme").expect("a name"))
    }

    #[test]
    fn each_github_has_its_addresses() {
        for (text, api, form) in [
            (
                "https://github.com/",
                "https://api.github.com",
                "https://github.com/organizations/acme/settings/apps/new",
            ),
            (
                "acme.ghe.com",
                "https://api.acme.ghe.com",
                "https://acme.ghe.com/organizations/acme/settings/apps/new",
            ),
            (
                "https://GHE.acme.io",
                "https://ghe.acme.io/api/v3",
                "https://ghe.acme.io/organizations/acme/settings/apps/new",
            ),
            (
                "http://127.0.0.1:80",
                "http://127.0.0.1:80/api/v3",
                "http://127.0.0.1:80/organizations/acme/settings/apps/new",
            ),
        ] {
            let host = Host::read(text).expect(text);
            assert_eq!((host.api().as_str(), acme().form(&host).as_str()), (api, form));
        }
        assert_eq!(Owner::Person.form(&Host::default()), "https://github.com/settings/apps/new");
        for wrong in
            ["http://github.com", "https://a/b", "", "ftp://a", "https://a;b", "https://a b"]
        {
            assert!(Host::read(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "a/b", "a b", "a?"] {
            assert!(Login::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_link_is_the_stacks_for_the_owner_and_the_host() {
        let new = NewAppLinks {
            organization: "https://github.com/organizations/ORG/settings/apps/new?name=muster"
                .to_owned(),
            personal: "https://github.com/settings/apps/new?name=muster".to_owned(),
        };
        let server = Host::read("https://ghe.acme.io").expect("a host");
        let link = acme().link(&new, &server);
        assert_eq!(link, "https://ghe.acme.io/organizations/acme/settings/apps/new?name=muster");
        assert_eq!(Owner::Person.link(&new, &Host::default()), new.personal);
    }

    #[test]
    fn the_manifest_asks_for_what_the_owner_needs_and_no_more() {
        let webhook = "https://ab12.execute-api.us-east-1.amazonaws.com/webhook";
        let of = |owner: &Owner| manifest("muster", owner, webhook, "http://127.0.0.1:1/created");
        let told = json!({
            "name": "muster-acme",
            "url": "https://github.com/muster-runners/muster",
            "public": false,
            "hook_attributes": { "url": webhook, "active": true },
            "redirect_url": "http://127.0.0.1:1/created",
            "default_permissions": { "actions": "write", "organization_self_hosted_runners": "write" },
            "default_events": ["workflow_job"],
        });
        assert_eq!(of(&acme()), told);
        let own = of(&Owner::Person);
        assert_eq!(
            own["default_permissions"],
            json!({ "actions": "write", "administration": "write" })
        );
        assert_eq!(own["name"], json!(format!("muster-{}", unique(webhook))));
        assert!(
            !own["name"].to_string().contains("ab12") && !own["url"].to_string().contains("ab12")
        );
        let long = name(&"m".repeat(33), &acme(), webhook);
        assert_eq!(long, "m".repeat(33));
    }
}
