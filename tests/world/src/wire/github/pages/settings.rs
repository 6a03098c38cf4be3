//! What an owner sees of the Apps that are theirs.

use std::fmt::Write as _;

use super::super::super::gate::Reply;
use super::{Of, escaped, html, not_found};
use muster_cloud::{Millis, World, rfc3339};

/// The list. `Cancel` of the form leads here.
pub(super) fn apps(world: &World, of: &Of) -> Reply {
    let mut rows = String::new();
    for (name, slug) in world.github.apps_of(&of.owner) {
        let (name, slug) = (escaped(name), escaped(slug));
        let _ = write!(rows, "<li><a href=\"{}/{slug}\">{name}</a></li>", of.path);
    }
    html(200, "GitHub Apps", &format!("<ul>{rows}</ul><a href=\"{}/new\">New</a>", of.path))
}

pub(super) fn app(world: &World, of: &Of, slug: &str) -> Reply {
    let Some(app) = theirs(world, of, slug) else { return not_found() };
    let (slug, path) = (escaped(slug), &of.path);
    let body = format!(
        "<p>App ID: {app}</p>\
         <form method=\"post\" action=\"{path}/{slug}/keys\">\
         <button type=\"submit\">Generate a private key</button></form>\
         <a href=\"/apps/{slug}/installations/new\">Install App</a>"
    );
    html(200, &format!("Settings of {slug}"), &body)
}

/// A private key, as a file. GitHub makes another one each time; here they are all the same one.
pub(super) fn key(world: &World, of: &Of, slug: &str, now: Millis) -> Reply {
    let app = theirs(world, of, slug);
    let key = app.as_deref().and_then(|app| world.github.private_key(app));
    let Some(key) = key else { return not_found() };
    let day = rfc3339(now);
    let day = day.split('T').next().unwrap_or_default();
    let file = format!("attachment; filename=\"{slug}.{day}.private-key.pem\"");
    Reply {
        content_type: "application/x-pem-file",
        headers: vec![("content-disposition".to_owned(), file)],
        ..Reply::text(200, key)
    }
}

fn theirs(world: &World, of: &Of, slug: &str) -> Option<String> {
    let mut all = world.github.apps_of(&of.owner);
    all.find(|(_, theirs)| *theirs == slug)?;
    world.github.app_of_slug(slug)
}
