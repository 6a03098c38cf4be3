//! From what a person has to the page of it.

use maud::html;
use muster_domain::ids::JobKey;
use serde_json::Value;

use super::frame::{About, still};
use super::memory::{Memory, Question};
use super::page::Page;
use super::parts::job;
use super::text::Said;
use crate::name::{Address, Name, read};

/// Where it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    To(Page),
    /// GitHub knows: these are asked, in this order.
    Ask(Address, Vec<String>),
    Wrong(String),
}

/// What has to be known for it.
pub const QUESTIONS: [Question; 2] = [Question::Jobs, Question::List];

/// Finds the page. Jobs that wait or run are known by GitHub's own number. `github` is the stack's GitHub; no other host is
/// called.
#[must_use]
pub fn way(text: &str, memory: &Memory, github: &str) -> Way {
    match read(text) {
        Err(wrong) => Way::Wrong(wrong),
        Ok(Name::Job(key)) => Way::To(Page::Job(key)),
        Ok(Name::Instance(name)) if name.is_empty() => Way::To(Page::Overview),
        Ok(Name::Instance(name)) => Way::To(Page::Machine(name)),
        Ok(Name::Address(address)) => match address.is_at(github) {
            Ok(()) => way_at_github(address, memory),
            Err(wrong) => Way::Wrong(wrong),
        },
    }
}

fn way_at_github(address: Address, memory: &Memory) -> Way {
    match address.job.map(|job| known(job, memory)) {
        Some(Some(key)) => Way::To(Page::Job(key)),
        Some(None) => {
            let asked = vec![address.api("")];
            Way::Ask(address, asked)
        }
        None => {
            let run = format!("/actions/runs/{}", address.run.unwrap_or_default());
            let asked = vec![address.api(&run), address.api(&format!("{run}/jobs?per_page=100"))];
            Way::Ask(address, asked)
        }
    }
}

fn known(number: u64, memory: &Memory) -> Option<JobKey> {
    let jobs = memory.jobs().into_iter();
    let waiting = jobs.clone().flat_map(|list| &list.jobs).map(|one| one.job);
    let others = jobs.flat_map(|list| list.unserved.iter().chain(&list.waiting_for_approval));
    let live = memory.list().into_iter().flat_map(|list| &list.instances);
    let all = waiting.chain(others.map(|one| one.job)).chain(live.filter_map(|one| one.claim));
    all.into_iter().find(|key| key.job == number)
}

/// The jobs that GitHub's answers are about, with their names.
#[must_use]
pub fn jobs(address: &Address, answers: &[Value]) -> Vec<(JobKey, String)> {
    let number = |at: &str| answers.first().and_then(|answer| answer.pointer(at)?.as_u64());
    if let Some(job) = address.job {
        let key = number("/id").map(|repository| JobKey { repository, job });
        return key.into_iter().map(|key| (key, key.to_string())).collect();
    }
    let Some(repository) = number("/repository/id") else { return Vec::new() };
    let all = answers.get(1).and_then(|answer| answer["jobs"].as_array());
    let one = |job: &Value| {
        let key = JobKey { repository, job: job["id"].as_u64()? };
        Some((key, job["name"].as_str().unwrap_or_default().to_owned()))
    };
    all.into_iter().flatten().filter_map(one).collect()
}

/// A run has several.
#[must_use]
pub fn choice(jobs: &[(JobKey, String)], about: &About) -> String {
    let body = html! {
        p { "The run has " (jobs.len()) " jobs. Those that no pool of Muster was asked for are not known here." }
        ul.evidence { @for (key, name) in jobs { li { (job(*key, name)) " " span.quiet { (key) } } } }
    };
    still("Which job?", about, &body)
}

/// There is no way.
#[must_use]
pub fn lost(why: &str, about: &About) -> String {
    still("Not found", about, &html! { div.wrong role="alert" { p { (Said(why)) } } })
}

/// GitHub does not show it.
#[must_use]
pub fn hidden(address: &Address) -> String {
    let Address { host, repository, .. } = address;
    format!(
        "No job that waits or runs has that address, and {host} does not show {repository} to you. With the right to see it: \
         GH_TOKEN=$(gh auth token) muster ui"
    )
}
