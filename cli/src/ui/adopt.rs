//! Imports jobs whose events were never received: the form, and the result.

use maud::{Markup, html};
use muster_api::answers::AdoptedJobs;
use muster_domain::time::Time;

use super::find::PageRows;
use super::frame::About;
use super::jobs::table;
use super::page::Filter;
use super::text::Said;
use crate::views::jobs::{other, taken_in_all, waiting};

/// Renders a link to the form, above the list of jobs because that may be long.
pub(super) fn way(about: &About) -> Markup {
    html! { @if !about.is_read_only {
        p.quiet { "A job is missing here? " a href="#adopt" { "Import jobs of a repository" } }
    } }
}

/// Renders the form, below the list.
pub(super) fn form(about: &About) -> Markup {
    html! {
        @if !about.is_read_only {
            section aria-labelledby="adopt" {
                h2 #adopt { "Import jobs of a repository" }
                form.order action="/confirm/adopt" {
                    label for="repository" { "Repository" }
                    input #repository name="repository" required placeholder="OWNER/REPO" autocomplete="off" spellcheck="false" autocapitalize="off" aria-describedby="adopt-about";
                    p.quiet #adopt-about { "For jobs that are queued at GitHub and missing here: they were queued before the webhook worked, or GitHub never sent their event." }
                    p { button { "Import…" } }
                }
            }
        }
    }
}

/// Renders the imported jobs, and imported jobs that no pool serves.
pub(super) fn taken_in(answer: &AdoptedJobs, now: Time) -> Markup {
    let taken = answer.taken_in.iter().map(|one| waiting(one, now));
    let all: Vec<_> =
        taken.chain(answer.unserved.iter().map(|one| other("unserved", one))).collect();
    let found = PageRows::of(all.iter(), &Filter::default());
    html! {
        p { (Said(&taken_in_all(answer))) @if !answer.unserved.is_empty() { " Served by no pool: " (answer.unserved.len()) "." } }
        @if !all.is_empty() { (table(&found)) }
        @if found.rows.len() < all.len() { p.quiet { "The first " (found.rows.len()) " are shown; the list of jobs has all of them." } }
    }
}
