//! GitHub's pages about Apps: the form of a manifest, and where an App is installed. Plain HTML
//! without scripts, so that any client that follows forms can walk them.

use std::fmt::Write as _;

use axum::http::Method;

use super::super::gate::Reply;
use muster_cloud::{Millis, World, github::Manifest};

/// A page, by its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Page {
    /// The form, filled in from a manifest.
    NewApp { organization: Option<String> },
    /// Its button.
    CreateApp { organization: Option<String> },
    /// Where an App is installed.
    Install { slug: String },
    /// Its button.
    Installed { slug: String },
}

impl Page {
    pub(super) fn find(method: &Method, segments: &[&str]) -> Option<Self> {
        let is_post = *method == Method::POST;
        let (organization, rest) = match segments {
            ["organizations", name, rest @ ..] => (Some((*name).to_owned()), rest),
            rest => (None, rest),
        };
        match rest {
            ["settings", "apps", "new"] => Some(Self::NewApp { organization }),
            ["settings", "apps"] if is_post => Some(Self::CreateApp { organization }),
            ["apps" | "github-apps", slug, "installations", "new"] if is_post => {
                Some(Self::Installed { slug: (*slug).to_owned() })
            }
            ["apps" | "github-apps", slug, "installations", "new"] => {
                Some(Self::Install { slug: (*slug).to_owned() })
            }
            _ => None,
        }
    }
}

type Fields = [(String, String)];

/// What a browser is shown. Fields are those of the address and of the form.
pub(super) fn show(world: &mut World, page: &Page, fields: &Fields, now: Millis) -> Reply {
    match page {
        Page::NewApp { organization } => new_app(world, organization.as_deref(), fields),
        Page::CreateApp { organization } => create(world, organization.as_deref(), fields, now),
        Page::Install { slug } => install(world, slug),
        Page::Installed { slug } => installed(world, slug, fields),
    }
}

fn field<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value.as_str())
}

fn html(status: u16, title: &str, body: &str) -> Reply {
    let page = format!("<!doctype html><title>{title}</title><h1>{title}</h1>{body}");
    Reply { content_type: "text/html; charset=utf-8", ..Reply::text(status, page) }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn not_found() -> Reply {
    html(404, "Page not found", "")
}

fn path_of(organization: Option<&str>) -> String {
    organization.map_or_else(
        || "/settings/apps".to_owned(),
        |name| format!("/organizations/{}/settings/apps", escaped(name)),
    )
}

fn new_app(world: &World, organization: Option<&str>, fields: &Fields) -> Reply {
    // Who is no owner is not told that there is such a page.
    let Some(owner) = world.github.person.acts_for(organization) else { return not_found() };
    let text = field(fields, "manifest");
    let manifest = match Manifest::read(text) {
        Ok(manifest) => manifest,
        Err(why) => {
            let body = format!(
                "<p>The configuration does not appear to be a valid GitHub App manifest.</p>\
                 <p>Error {}</p>",
                escaped(&why)
            );
            return html(422, "Invalid GitHub App configuration", &body);
        }
    };
    let name = escaped(manifest.name.as_deref().unwrap_or_default());
    form(&owner.login, organization, &name, fields, &manifest, "")
}

fn form(
    login: &str,
    organization: Option<&str>,
    name: &str,
    fields: &Fields,
    manifest: &Manifest,
    problem: &str,
) -> Reply {
    let path = path_of(organization);
    let mut rights = String::new();
    for (permission, level) in &manifest.default_permissions {
        let _ = write!(rights, "<li>{}: {}</li>", escaped(permission), escaped(level));
    }
    let (text, state) = (escaped(field(fields, "manifest")), escaped(field(fields, "state")));
    let body = format!(
        "{problem}<ul>{rights}</ul>\
         <form method=\"post\" action=\"{path}\">\
         <input type=\"hidden\" name=\"manifest\" value=\"{text}\">\
         <input type=\"hidden\" name=\"state\" value=\"{state}\">\
         <input name=\"name\" value=\"{name}\">\
         <button type=\"submit\">Create GitHub App</button></form>\
         <a href=\"{path}\">Cancel</a>"
    );
    let status = if problem.is_empty() { 200 } else { 422 };
    html(status, &format!("Create GitHub App for {}", escaped(login)), &body)
}

fn create(world: &mut World, organization: Option<&str>, fields: &Fields, now: Millis) -> Reply {
    let Some(owner) = world.github.person.acts_for(organization) else { return not_found() };
    let Ok(manifest) = Manifest::read(field(fields, "manifest")) else { return not_found() };
    let name = field(fields, "name").trim();
    let problem = match name.chars().count() {
        0 => "<p>Name can't be blank</p>",
        35.. => "<p>Name is too long (maximum is 34 characters)</p>",
        _ if world.github.is_name_taken(name) => "<p>Name is already taken</p>",
        _ => "",
    };
    if !problem.is_empty() {
        return form(&owner.login, organization, &escaped(name), fields, &manifest, problem);
    }
    let code = world.make_app(owner, name, &manifest, now);
    let Some(redirect) = &manifest.redirect_url else {
        return html(200, "Created", "");
    };
    let mut pairs = vec![("code", code.as_str())];
    if !field(fields, "state").is_empty() {
        pairs.push(("state", field(fields, "state")));
    }
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    let separator = if redirect.contains('?') { '&' } else { '?' };
    let location = ("location".to_owned(), format!("{redirect}{separator}{query}"));
    Reply { headers: vec![location], ..html(302, "Created", "") }
}

fn install(world: &World, slug: &str) -> Reply {
    let Some((_, name)) = world.github.app_of_slug(slug) else { return not_found() };
    let path = format!("/apps/{}/installations/new", escaped(slug));
    let body = format!(
        "<form method=\"post\" action=\"{path}\">\
         <input type=\"radio\" name=\"repositories\" value=\"all\" checked>\
         <input type=\"radio\" name=\"repositories\" value=\"selected\">\
         <button type=\"submit\">Install</button></form>"
    );
    html(200, &format!("Install {}", escaped(name)), &body)
}

fn installed(world: &mut World, slug: &str, fields: &Fields) -> Reply {
    let Some((app, _)) = world.github.app_of_slug(slug) else { return not_found() };
    match world.install_app(&app, field(fields, "repositories") == "selected") {
        Ok(_) => html(200, "Okay, the App was installed.", ""),
        Err(_) => not_found(),
    }
}
