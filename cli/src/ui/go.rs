//! Finds the page for a name or URL that a person enters.

use maud::html;
use muster_api::answers::{InstanceSummary, UnservedJob, WaitingJob};
use muster_domain::ids::{AppName, JobKey};
use serde_json::Value;

use super::frame::{About, still};
use super::memory::{Memory, PageQuery};
use super::page::{Filter, UiPage};
use super::parts::job;
use super::text::Said;
use crate::name::{GitHubUrl, Name, read};

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    To(UiPage),
    /// GitHub has to be queried, with these paths in this order.
    Ask(GitHubUrl, Vec<String>),
    Wrong(String),
}

/// The queries that a search needs.
pub const QUESTIONS: [PageQuery; 3] = [PageQuery::Jobs, PageQuery::List, PageQuery::Overview];

/// Finds the page. Waiting and running jobs are found by GitHub's number. `github` is the stack's GitHub; no other host
/// is called.
#[must_use]
pub fn way(text: &str, memory: &Memory, github: &str) -> Way {
    match read(text) {
        Err(wrong) => Way::Wrong(wrong),
        Ok(Name::Job(key)) => Way::To(UiPage::Job(key)),
        Ok(Name::Instance(name)) if name.is_empty() => Way::To(UiPage::Overview),
        Ok(Name::Instance(text)) => Way::To(named(text, memory)),
        Ok(Name::Address(address)) => match address.is_at(github) {
            Ok(()) => way_at_github(address, memory),
            Err(wrong) => Way::Wrong(wrong),
        },
    }
}

/// Finds the page for a text: a pool, a job's number, an instance, or the jobs or machines that
/// contain it. An instance that ended long ago is in no list, so its name leads to its page.
fn named(text: String, memory: &Memory) -> UiPage {
    let pools = memory.overview().into_iter().flat_map(|all| &all.pools);
    if let Some(pool) = pools.map(|pool| &pool.name).find(|name| name.as_str() == text) {
        return UiPage::Pool(pool.clone());
    }
    if let Some(key) = text.parse().ok().and_then(|number| known(number, memory)) {
        return UiPage::Job(key);
    }
    let live = memory.list().into_iter().flat_map(|list| &list.instances);
    let is_it = |one: &&InstanceSummary| {
        one.name.as_str() == text || one.machine.as_ref().is_some_and(|id| id.as_str() == text)
    };
    if live.clone().any(|one| is_it(&one)) {
        return UiPage::Machine(text);
    }
    let filter = Filter { text: Some(text), ..Filter::default() };
    let jobs = memory.jobs().into_iter();
    let waiting = jobs.clone().flat_map(|list| &list.jobs).map(WaitingJob::words);
    let others = jobs.flat_map(|list| list.unserved.iter().chain(&list.waiting_for_approval));
    if waiting.chain(others.map(UnservedJob::words)).any(|words| filter.has_text(&words)) {
        return UiPage::Jobs(filter);
    }
    if live.map(InstanceSummary::words).any(|words| filter.has_text(&words)) {
        return UiPage::Machines(filter);
    }
    UiPage::Machine(filter.text.unwrap_or_default())
}

fn way_at_github(address: GitHubUrl, memory: &Memory) -> Way {
    match address.job.map(|job| known(job, memory)) {
        Some(Some(key)) => Way::To(UiPage::Job(key)),
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
    all.into_iter().find(|key| key.app == AppName::MAIN && key.job == number)
}

/// Returns the jobs in GitHub's answers, with their names.
#[must_use]
pub fn jobs(address: &GitHubUrl, answers: &[Value]) -> Vec<(JobKey, String)> {
    let number = |at: &str| answers.first().and_then(|answer| answer.pointer(at)?.as_u64());
    if let Some(job) = address.job {
        let key = number("/id").map(|repository| JobKey { app: AppName::MAIN, repository, job });
        return key.into_iter().map(|key| (key, key.to_string())).collect();
    }
    let Some(repository) = number("/repository/id") else { return Vec::new() };
    let all = answers.get(1).and_then(|answer| answer["jobs"].as_array());
    let one = |job: &Value| {
        let key = JobKey { app: AppName::MAIN, repository, job: job["id"].as_u64()? };
        Some((key, job["name"].as_str().unwrap_or_default().to_owned()))
    };
    all.into_iter().flatten().filter_map(one).collect()
}

/// The page that lists the jobs of a run.
#[must_use]
pub fn choice(jobs: &[(JobKey, String)], about: &About) -> String {
    let body = html! {
        p { "The run has " (jobs.len()) " jobs. Jobs that no Muster pool serves are not known here." }
        ul.evidence { @for (key, name) in jobs { li { (job(*key, name)) " " span.quiet { (key) } } } }
    };
    still("Which job?", about, &body)
}

/// The page for a search without a result.
#[must_use]
pub fn lost(why: &str, about: &About) -> String {
    still("Not found", about, &html! { div.wrong role="alert" { p { (Said(why)) } } })
}

/// Returns the message for what GitHub does not show.
#[must_use]
pub fn hidden(address: &GitHubUrl) -> String {
    let GitHubUrl { host, repository, .. } = address;
    format!(
        "No waiting or running job has that address, and {host} does not show {repository} to you. \
        With a token that can read it: GH_TOKEN=$(gh auth token) muster ui"
    )
}
