//! The form that makes an App: from a manifest, or with the fields that its address fills in.

use std::fmt::Write as _;

use super::super::super::gate::Reply;
use super::{Fields, Of, escaped, field, html, sent_on};
use muster_cloud::{Millis, World, github::Manifest};

pub(super) fn new_app(world: &World, of: &Of, fields: &Fields) -> Reply {
    if !fields.iter().any(|(key, _)| key == "manifest") {
        return filled_in(of, fields, "");
    }
    match manifest(world, fields) {
        Ok(manifest) => {
            let name = manifest.name.clone().unwrap_or_default();
            confirmation(of, &name, fields, &manifest, "")
        }
        Err(why) => {
            let body = format!(
                "<p>The configuration does not appear to be a valid GitHub App manifest.</p>\
                 <p>Error {}</p>",
                escaped(&why)
            );
            html(422, "Invalid GitHub App configuration", &body)
        }
    }
}

/// The manifest, or what GitHub's page says of it.
fn manifest(world: &World, fields: &Fields) -> Result<Manifest, String> {
    let manifest = Manifest::read(field(fields, "manifest"))?;
    match world.github.hook_problem(manifest.hook_url()) {
        Some(problem) => Err(problem),
        None => Ok(manifest),
    }
}

/// What a manifest asks for, and its one field.
fn confirmation(of: &Of, name: &str, fields: &Fields, manifest: &Manifest, problem: &str) -> Reply {
    let mut rights = String::new();
    for (permission, level) in &manifest.default_permissions {
        let _ = write!(rights, "<li>{}: {}</li>", escaped(permission), escaped(level));
    }
    let (text, state) = (escaped(field(fields, "manifest")), escaped(field(fields, "state")));
    let inside = format!(
        "<input type=\"hidden\" name=\"manifest\" value=\"{text}\">\
         <input type=\"hidden\" name=\"state\" value=\"{state}\">\
         <input name=\"name\" value=\"{}\">",
        escaped(name)
    );
    page(of, &format!("<ul>{rights}</ul>"), &inside, problem)
}

/// Every field, as the address or the last try filled it in.
fn filled_in(of: &Of, fields: &Fields, problem: &str) -> Reply {
    let mut inside = String::new();
    for name in ["name", "url", "webhook_url", "webhook_secret"] {
        let value = escaped(field(fields, name));
        let _ = write!(inside, "<input name=\"{name}\" value=\"{value}\">");
    }
    // Both are so unless the address says otherwise.
    for name in ["webhook_active", "public"] {
        let ticked = if field(fields, name) == "false" { "" } else { " checked" };
        let _ = write!(
            inside,
            "<input type=\"checkbox\" name=\"{name}\" value=\"true\"{ticked}>{name}"
        );
    }
    let asked = Manifest::of_fields(fields);
    for (permission, level) in &asked.default_permissions {
        let (permission, level) = (escaped(permission), escaped(level));
        let _ = write!(inside, "{permission}: <input name=\"{permission}\" value=\"{level}\">");
    }
    for event in &asked.default_events {
        let event = escaped(event);
        let _ = write!(
            inside,
            "<input type=\"checkbox\" name=\"events[]\" value=\"{event}\" checked>{event}"
        );
    }
    page(of, "", &inside, problem)
}

fn page(of: &Of, before: &str, inside: &str, problem: &str) -> Reply {
    let path = &of.path;
    // Nothing known says that Cancel leads back to who sent the manifest: to the owner's Apps.
    let body = format!(
        "{problem}{before}<form method=\"post\" action=\"{path}\">{inside}\
         <button type=\"submit\">Create GitHub App</button></form>\
         <a href=\"{path}\">Cancel</a>"
    );
    let status = if problem.is_empty() { 200 } else { 422 };
    html(status, &format!("Create GitHub App for {}", escaped(&of.owner.login)), &body)
}

pub(super) fn create(world: &mut World, of: &Of, fields: &Fields, now: Millis) -> Reply {
    match fields.iter().any(|(key, _)| key == "manifest") {
        true => by_manifest(world, of, fields, now),
        false => by_fields(world, of, fields),
    }
}

fn by_manifest(world: &mut World, of: &Of, fields: &Fields, now: Millis) -> Reply {
    let Ok(manifest) = manifest(world, fields) else { return super::not_found() };
    let name = field(fields, "name").trim();
    if let Some(problem) = name_problem(world, name) {
        return confirmation(of, name, fields, &manifest, &problem);
    }
    let code = world.make_app(of.owner.clone(), name, &manifest, now);
    let Some(redirect) = &manifest.redirect_url else {
        return html(200, "Created", "");
    };
    let mut pairs = vec![("code", code.as_str())];
    if !field(fields, "state").is_empty() {
        pairs.push(("state", field(fields, "state")));
    }
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    let separator = if redirect.contains('?') { '&' } else { '?' };
    sent_on(format!("{redirect}{separator}{query}"))
}

fn by_fields(world: &mut World, of: &Of, fields: &Fields) -> Reply {
    let asked = Manifest::of_fields(fields);
    let name = field(fields, "name").trim();
    let problem = name_problem(world, name).or_else(|| {
        if asked.url.is_none() {
            return Some(told("Homepage URL can't be blank"));
        }
        world.github.hook_problem(asked.hook_url()).map(|why| told(&why))
    });
    if let Some(problem) = problem {
        return filled_in(of, fields, &problem);
    }
    let secret = Some(field(fields, "webhook_secret").to_owned()).filter(|it| !it.is_empty());
    let app = world.add_app(of.owner.clone(), name, &asked, secret);
    let slug = world.github.slug_of(&app).unwrap_or_default();
    sent_on(format!("{}/{slug}", of.path))
}

/// Why GitHub takes no such name.
fn name_problem(world: &World, name: &str) -> Option<String> {
    match name.chars().count() {
        0 => Some(told("Name can't be blank")),
        35.. => Some(told("Name is too long (maximum is 34 characters)")),
        _ if world.github.is_name_taken(name) => Some(told("Name is already taken")),
        _ => None,
    }
}

fn told(problem: &str) -> String {
    format!("<p>{}</p>", escaped(problem))
}
