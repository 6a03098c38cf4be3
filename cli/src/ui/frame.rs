//! The frame of every page: header, navigation, and the age of the data.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use muster_domain::time::Time;

use super::assets::{ICON, SCRIPT, STYLE};
use super::fields::{Fields, address};
use super::memory::{CostsView, Memory};
use super::page::{Filter, UiPage};
use super::text::{Said, moment};
use crate::words::span;

/// The stack, and what the page may do.
#[derive(Clone, Debug, Default)]
pub struct About {
    pub stack: String,
    pub region: String,
    pub release: String,
    /// The host of the stack's GitHub.
    pub github: String,
    /// Whether all buttons are hidden.
    pub is_read_only: bool,
    /// The token of the pool file's form.
    pub draft: String,
}

/// The logo: a row of machines, one of them working.
const MARK: PreEscaped<&str> = PreEscaped(
    "<svg class=\"mark\" viewBox=\"0 0 20 20\" width=\"20\" height=\"20\" aria-hidden=\"true\" focusable=\"false\">\
     <rect x=\"1\" y=\"3\" width=\"5\" height=\"14\" rx=\"1.5\"/><rect x=\"7.5\" y=\"3\" width=\"5\" height=\"14\" rx=\"1.5\"/>\
     <rect class=\"on\" x=\"14\" y=\"3\" width=\"5\" height=\"14\" rx=\"1.5\"/></svg>",
);

/// Renders a page. Without a body, the function has not answered yet, or could not.
pub(super) fn page(
    page: &UiPage,
    body: Option<&Markup>,
    memory: &Memory,
    about: &About,
    now: Time,
) -> String {
    let age = age(page, memory, now);
    let failed = memory.failed(&page.questions());
    let inner = html! {
        div.head { h1 { (title(page)) } (age) }
        @let outcome = memory.outcome(&page.address(), now);
        @if !outcome.is_empty() {
            section.said role="status" aria-label="Result" { @for sentence in outcome { p { (Said(sentence)) } } }
        }
        @if let Some((at, failure)) = failed {
            div.wrong role="alert" {
                @if body.is_some() { p { strong { "No update since " (moment(at, now)) "." } } }
                p { (Said(&failure.sentence())) }
            }
        }
        @match body {
            Some(body) => (body),
            None if failed.is_some() => {},
            None => p.empty { "The stack has not answered yet. This page appears when it has." },
        }
    };
    document(&title(page), Some(page), Some(page.address()), about, &inner)
}

/// Renders a page without updates: a confirmation or a result.
pub(super) fn still(title: &str, about: &About, body: &Markup) -> String {
    document(title, None, None, about, &html! { div.head { h1 { (title) } } (body) })
}

fn document(
    title: &str,
    page: Option<&UiPage>,
    live: Option<String>,
    about: &About,
    inner: &Markup,
) -> String {
    let About { stack, region, release, .. } = about;
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · " (stack) }
                link rel="stylesheet" href=(STYLE.path);
                link rel="icon" href=(ICON.path);
                script src=(SCRIPT.path) defer {}
            }
            body data-live=[live] {
                a.skip href="#main" { "Skip to content" }
                header {
                    a.brand href="/" { (MARK) "muster" }
                    span.where { (stack) " · " (region) " · " (release) }
                    nav aria-label="Pages" {
                        ul { @for (name, target) in pages() {
                            li { a href=(target.address()) aria-current=[current(page, &target)] { (name) } }
                        } }
                    }
                    form.go action="/go" role="search" aria-label="Go to a job or a machine" {
                        input type="search" name="name" aria-label="A job's URL on GitHub, a machine or an instance"
                            placeholder="URL, i-…, or a name" autocomplete="off" spellcheck="false";
                        button { "Go" }
                    }
                    p #live role="status" {}
                }
                main #main tabindex="-1" { (inner) }
            }
        }
    }
    .into_string()
}

fn pages() -> [(&'static str, UiPage); 8] {
    [
        ("Overview", UiPage::Overview),
        ("Jobs", UiPage::Jobs(Filter::default())),
        ("Machines", UiPage::Machines(Filter::default())),
        ("Pools", UiPage::Pools),
        ("Costs", UiPage::Costs(CostsView::of(30))),
        ("Audit", UiPage::Audit { back: 0 }),
        ("GitHub", UiPage::GitHub),
        ("Dead letters", UiPage::DeadLetters(None)),
    ]
}

/// Returns `aria-current` for a link: whether it leads to this page or one above it.
fn current(page: Option<&UiPage>, target: &UiPage) -> Option<&'static str> {
    let page = page?;
    if page.address() == target.address() {
        return Some("page");
    }
    let is_below = matches!(
        (page, target),
        (UiPage::Machines(_) | UiPage::Machine(_), UiPage::Machines(_))
            | (UiPage::Jobs(_) | UiPage::Job(_), UiPage::Jobs(_))
            | (UiPage::Pools | UiPage::Pool(_), UiPage::Pools)
            | (UiPage::Costs(_), UiPage::Costs(_))
            | (UiPage::Audit { .. }, UiPage::Audit { .. })
            | (UiPage::DeadLetters(_), UiPage::DeadLetters(_))
    );
    is_below.then_some("true")
}

fn title(page: &UiPage) -> String {
    match page {
        UiPage::Overview => "Overview".to_owned(),
        UiPage::Machines(_) => "Machines".to_owned(),
        UiPage::Machine(name) => super::text::shown(name),
        UiPage::Jobs(_) => "Jobs".to_owned(),
        UiPage::Job(key) => format!("Job {key}"),
        UiPage::Pools => "Pools".to_owned(),
        UiPage::Pool(name) => format!("Pool {name}"),
        UiPage::Costs(CostsView { pool: Some(pool), .. }) => format!("Costs of pool {pool}"),
        UiPage::Costs(CostsView { repository: Some(name), .. }) => {
            format!("Costs of {}", super::text::shown(name))
        }
        UiPage::Costs(_) => "Costs".to_owned(),
        UiPage::Audit { .. } => "Audit".to_owned(),
        UiPage::GitHub => "GitHub".to_owned(),
        UiPage::DeadLetters(None) => "Dead letters".to_owned(),
        UiPage::DeadLetters(Some(queue)) => format!("Dead letters of {}", queue.name()),
    }
}

/// Renders the age of the data, and a link that refreshes it. A page's first query determines its
/// age.
fn age(page: &UiPage, memory: &Memory, now: Time) -> Markup {
    let to = address("/refresh", &[("to", &page.address())]);
    html! {
        p.age {
            @match page.questions().first().and_then(|first| memory.told_at(first)) {
                Some(at) => { "As of " (moment(at, now)) " UTC, " (span(now.since(at))) " old" }
                None => "No answer yet",
            }
            " · " a href=(to) { "Refresh" }
        }
    }
}

/// Returns the page to return to: always one of our pages.
#[must_use]
pub fn target(fields: &Fields) -> UiPage {
    let to = fields.get("to").unwrap_or_default();
    let (path, query) = to.split_once('?').unwrap_or((to, ""));
    UiPage::read(path, &Fields::read(query.as_bytes())).unwrap_or(UiPage::Overview)
}

/// Prefixes all links of a page with the secret path. Quotes in untrusted text are escaped, so every match is our own
/// attribute.
#[must_use]
pub fn below(root: &str, page: &str) -> String {
    [" href=\"/", " src=\"/", " action=\"/"].iter().fold(page.to_owned(), |page, own| {
        page.replace(own, &own.replace('/', &format!("{root}/")))
    })
}

/// Renders the page that sets the cookie and continues to the first page. A redirect would not
/// work: a browser that comes from a file does not send the cookie along with it.
#[must_use]
pub fn entered(root: &str) -> String {
    let first = format!("{root}/");
    html! {
        (DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; meta http-equiv="refresh" content={ "0; url=" (first) }; title { "Muster" } }
            body { main { p { a href=(first) { "Continue to Muster" } } } }
        }
    }
    .into_string()
}

/// Renders the page for an unknown address.
#[must_use]
pub fn missing(about: &About) -> String {
    still("Not found", about, &html! { p { "There is no such page." } })
}

/// Renders a page for a request without access. It loads no resources and has no links.
#[must_use]
pub fn bare(why: &str) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; meta name="viewport" content="width=device-width, initial-scale=1"; title { "Muster" } }
            body { main { h1 { "Muster" } p { (why) } } }
        }
    }
    .into_string()
}

/// Renders a self-contained page: its style is included, and it has no script and no links.
pub(super) fn alone(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE.text)) }
            }
            body { main { (body) } }
        }
    };
    // Quotes in text are escaped, so every match is our own attribute.
    page.into_string().replace(" href=\"/", " data-page=\"/")
}
