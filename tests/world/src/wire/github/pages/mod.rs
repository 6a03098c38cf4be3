//! GitHub's pages about Apps: the form that makes one, its settings, and where it is installed.
//! Plain HTML without scripts, so that any client that follows forms can walk them.

mod form;
mod settings;

use axum::http::Method;

use super::super::gate::Reply;
use muster_cloud::{Millis, World};

/// A page, by its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Page {
    /// Of an account's Apps. An organization's are shown to its owners alone.
    Owned { organization: Option<String>, what: Owned },
    /// Where an App is installed.
    Install { slug: String },
    /// Its button.
    Installed { slug: String },
}

/// A page for who owns Apps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owned {
    /// The list.
    Apps,
    /// The form, filled in from a manifest or from its address.
    New,
    /// Its button.
    Create,
    /// The settings of an App.
    Settings { slug: String },
    /// Their button for a private key.
    NewKey { slug: String },
}

impl Page {
    pub(super) fn find(method: &Method, segments: &[&str]) -> Option<Self> {
        let is_post = *method == Method::POST;
        let (organization, rest) = match segments {
            ["organizations", name, rest @ ..] => (Some((*name).to_owned()), rest),
            rest => (None, rest),
        };
        let what = match rest {
            ["settings", "apps", "new"] => Owned::New,
            ["settings", "apps"] if is_post => Owned::Create,
            ["settings", "apps"] => Owned::Apps,
            ["settings", "apps", slug] if !is_post => Owned::Settings { slug: (*slug).to_owned() },
            ["settings", "apps", slug, "keys"] if is_post => {
                Owned::NewKey { slug: (*slug).to_owned() }
            }
            ["apps" | "github-apps", slug, "installations", "new"] if is_post => {
                return Some(Self::Installed { slug: (*slug).to_owned() });
            }
            ["apps" | "github-apps", slug, "installations", "new"] => {
                return Some(Self::Install { slug: (*slug).to_owned() });
            }
            _ => return None,
        };
        Some(Self::Owned { organization, what })
    }
}

type Fields = [(String, String)];

/// What a browser is shown. Fields are those of the address and of the form.
pub(super) fn show(world: &mut World, page: &Page, fields: &Fields, now: Millis) -> Reply {
    let (organization, what) = match page {
        Page::Owned { organization, what } => (organization.as_deref(), what),
        Page::Install { slug } => return install(world, slug),
        Page::Installed { slug } => return installed(world, slug, fields),
    };
    // Who is no owner is not told that there is such a page.
    let Some(owner) = world.github.person.acts_for(organization) else { return not_found() };
    let of = Of { path: path_of(organization), owner };
    match what {
        Owned::Apps => settings::apps(world, &of),
        Owned::New => form::new_app(world, &of, fields),
        Owned::Create => form::create(world, &of, fields, now),
        Owned::Settings { slug } => settings::app(world, &of, slug),
        Owned::NewKey { slug } => settings::key(world, &of, slug, now),
    }
}

/// Whose Apps a page is about, and where those are.
struct Of {
    owner: muster_cloud::github::AppOwner,
    path: String,
}

fn path_of(organization: Option<&str>) -> String {
    organization.map_or_else(
        || "/settings/apps".to_owned(),
        |name| format!("/organizations/{}/settings/apps", escaped(name)),
    )
}

fn field<'a>(fields: &'a Fields, name: &str) -> &'a str {
    // What the form says counts more than what filled it in.
    fields.iter().rev().find(|(key, _)| key == name).map_or("", |(_, value)| value.as_str())
}

fn html(status: u16, title: &str, body: &str) -> Reply {
    let page = format!("<!doctype html><title>{title}</title><h1>{title}</h1>{body}");
    Reply { content_type: "text/html; charset=utf-8", ..Reply::text(status, page) }
}

fn sent_on(location: String) -> Reply {
    let location = ("location".to_owned(), location);
    Reply { headers: vec![location], ..html(302, "Created", "") }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn not_found() -> Reply {
    html(404, "Page not found", "")
}

fn install(world: &World, slug: &str) -> Reply {
    if world.github.app_of_slug(slug).is_none() {
        return not_found();
    }
    let slug = escaped(slug);
    let body = format!(
        "<form method=\"post\" action=\"/apps/{slug}/installations/new\">\
         <input type=\"radio\" name=\"repositories\" value=\"all\" checked>\
         <input type=\"radio\" name=\"repositories\" value=\"selected\">\
         <button type=\"submit\">Install</button></form>"
    );
    html(200, &format!("Install {slug}"), &body)
}

fn installed(world: &mut World, slug: &str, fields: &Fields) -> Reply {
    let Some(app) = world.github.app_of_slug(slug) else { return not_found() };
    match world.install_app(&app, field(fields, "repositories") == "selected") {
        Ok(_) => html(200, "Okay, the App was installed.", ""),
        Err(_) => not_found(),
    }
}
