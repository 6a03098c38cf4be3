//! What an App is to be: by a manifest, or by the fields of GitHub's form.
//!
//! Source: docs.github.com/en/apps/sharing-github-apps/registering-a-github-app-from-a-manifest and
//! docs.github.com/en/apps/sharing-github-apps/registering-a-github-app-using-url-parameters

use std::collections::BTreeMap;

use serde::Deserialize;

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

/// What a manifest may ask for, of all that GitHub knows.
const PERMISSIONS: [&str; 9] = [
    "actions",
    "administration",
    "checks",
    "contents",
    "members",
    "metadata",
    "organization_administration",
    "organization_self_hosted_runners",
    "pull_requests",
];

/// The event that comes with a permission to see what it is about (probot/probot #1317).
fn is_deaf(event: &str, permissions: &BTreeMap<String, String>) -> bool {
    event == "workflow_job" && !permissions.contains_key("actions")
}

impl Manifest {
    /// Reads what a manifest brings, or says what GitHub's page says of it.
    pub fn read(text: &str) -> Result<Self, String> {
        let manifest: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let has_hook_url = manifest.hook_attributes.as_ref().is_none_or(|it| it.url.is_some());
        // GitHub names the field without its parent (alp82/curia #933).
        if manifest.url.is_none() || !has_hook_url {
            return Err("\"url\" wasn't supplied.".to_owned());
        }
        let asked = manifest.default_permissions.keys();
        if asked.clone().any(|name| !PERMISSIONS.contains(&name.as_str())) {
            return Err(
                "Default permission records resource is not included in the list".to_owned()
            );
        }
        let mut events = manifest.default_events.iter();
        if let Some(event) = events.find(|one| is_deaf(one, &manifest.default_permissions)) {
            return Err(format!("Default events unsupported: {event}"));
        }
        Ok(manifest)
    }

    /// Reads the fields of the form, which have the names that an address fills them in by. What is
    /// no field of it is passed over, and so is the box of an event that is not offered.
    #[must_use]
    pub fn of_fields(fields: &[(String, String)]) -> Self {
        let field = |name: &str| {
            let mut named = fields.iter().filter(|(key, _)| key == name);
            named.next_back().map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
        };
        let asked = PERMISSIONS.iter().filter_map(|name| {
            let level = field(name).filter(|level| level != "none")?;
            Some(((*name).to_owned(), level))
        });
        let default_permissions: BTreeMap<String, String> = asked.collect();
        let events = fields.iter().filter(|(key, _)| key == "events[]");
        let events = events.map(|(_, event)| event.clone());
        let default_events = events.filter(|event| !is_deaf(event, &default_permissions)).collect();
        let active = field("webhook_active").is_some_and(|it| it != "false");
        Self {
            name: field("name"),
            url: field("url"),
            hook_attributes: field("webhook_url")
                .map(|url| HookAttributes { url: Some(url), active }),
            redirect_url: None,
            public: field("public").is_some_and(|it| it != "false"),
            default_permissions,
            default_events,
        }
    }

    /// Where its webhook is.
    #[must_use]
    pub fn hook_url(&self) -> Option<&str> {
        self.hook_attributes.as_ref()?.url.as_deref()
    }
}

/// The host of an address that leads back to whoever calls it, which GitHub refuses.
#[must_use]
pub(super) fn loopback(url: &str) -> Option<&str> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.chars().all(|one| one.is_ascii_digit()) => host,
        _ => authority,
    };
    let name = host.to_ascii_lowercase();
    let leads_back = name == "localhost"
        || name.ends_with(".localhost")
        || name.starts_with("127.")
        || matches!(name.as_str(), "[::1]" | "0.0.0.0");
    leads_back.then_some(host)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_manifest_is_refused_as_githubs_page_does() {
        let right = json!({ "name": "Muster", "url": "https://acme.example",
            "hook_attributes": { "url": "https://hooks.example/webhook" },
            "default_permissions": { "actions": "read" }, "default_events": ["workflow_job"] });
        let read = |change: fn(&mut Value)| {
            let mut manifest = right.clone();
            change(&mut manifest);
            Manifest::read(&manifest.to_string()).map(|manifest| manifest.hook_attributes)
        };
        assert!(read(|_| ()).expect("right").expect("a hook").active, "unless it says otherwise");
        let no_url = Err("\"url\" wasn't supplied.".to_owned());
        assert_eq!(read(|it| it["hook_attributes"] = json!({ "active": false })), no_url);
        assert_eq!(read(|it| it["url"] = Value::Null), no_url);
        for (change, says) in [
            (
                (|it| it["default_permissions"]["runners"] = json!("write")) as fn(&mut Value),
                "not included",
            ),
            (
                |it| it["default_permissions"] = json!({}),
                "Default events unsupported: workflow_job",
            ),
            (|it| *it = json!("text"), "invalid type"),
        ] {
            let told = read(change).expect_err("refused");
            assert!(told.contains(says), "{told}");
        }
    }

    #[test]
    fn the_fields_of_the_form_say_what_an_app_is_to_be() {
        let of = |pairs: &[(&str, &str)]| {
            let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            Manifest::of_fields(&pairs.iter().map(owned).collect::<Vec<_>>())
        };
        let all = of(&[
            ("name", "muster"),
            ("webhook_active", "true"),
            ("webhook_url", "https://hooks.example/webhook"),
            ("events[]", "workflow_job"),
            ("actions", "read"),
            ("members", "none"),
            ("colour", "red"),
        ]);
        assert_eq!(all.hook_url(), Some("https://hooks.example/webhook"));
        assert!(all.hook_attributes.expect("a hook").active);
        assert_eq!(all.default_events, ["workflow_job"]);
        assert_eq!(all.default_permissions, [("actions".to_owned(), "read".to_owned())].into());
        let deaf = of(&[("webhook_url", "https://hooks.example/"), ("events[]", "workflow_job")]);
        assert!(deaf.default_events.is_empty(), "no box without the permission");
        assert!(!deaf.hook_attributes.expect("a hook").active, "the box is not ticked");
    }

    #[test]
    fn an_address_that_leads_back_is_known() {
        for (url, host) in [
            ("http://localhost:3000/api", Some("localhost")),
            ("https://LOCALHOST", Some("LOCALHOST")),
            ("http://a.localhost/", Some("a.localhost")),
            ("http://127.0.0.1:4566/webhook", Some("127.0.0.1")),
            ("http://[::1]:80/", Some("[::1]")),
            ("https://hooks.example/127.0.0.1", None),
            ("https://localhost.example:443/", None),
        ] {
            assert_eq!(loopback(url), host, "{url}");
        }
    }
}
