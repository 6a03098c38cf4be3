//! Resolves a name that a person enters to a job or an instance.

use muster_api::answers::{ExplainedJob, InstanceList, InstanceSummary, JobList};
use muster_api::{JobsRequest, ListRequest, Request};
use muster_domain::ids::{AppName, JobKey};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Session;
use crate::failure::{Failure, parsed};
use crate::lists::Pages;
use crate::name::{self, GitHubUrl, Name};
use crate::world::Cloud;

/// Number of jobs per page of GitHub: the maximum.
const JOBS_OF_PAGE: usize = 100;

/// The object that a name refers to.
pub(super) enum NamedObject {
    /// A job, or the jobs of a run.
    Jobs(Vec<JobKey>),
    /// An instance, a machine or a runner.
    Instance(String),
}

impl<W: Cloud> Session<'_, W> {
    pub(super) async fn find(&mut self, text: &str) -> Result<NamedObject, Failure> {
        match name::read(text).map_err(Failure::Usage)? {
            Name::Job(key) => Ok(NamedObject::Jobs(vec![key])),
            Name::Instance(name) => Ok(NamedObject::Instance(name)),
            Name::Address(address) => Ok(NamedObject::Jobs(self.jobs_at(&address).await?)),
        }
    }

    /// Returns the instance that a name refers to. A job refers to the instance that runs or will run it.
    pub(super) async fn instance(&mut self, text: &str) -> Result<String, Failure> {
        let keys = match self.find(text).await? {
            NamedObject::Instance(name) => return Ok(name),
            NamedObject::Jobs(keys) => keys,
        };
        let [key] = keys.as_slice() else {
            let all: Vec<String> = keys.iter().map(ToString::to_string).collect();
            return Err(Failure::Usage(format!(
                "{text} has several jobs; name one: {}",
                all.join(", ")
            )));
        };
        let request = Request::Explain { job: Some(*key), name: None };
        let job = self.asked::<ExplainedJob>("explain", request).await?.job;
        let runner = job.last_event.runner.clone();
        let claim = job.claim.map(|name| name.to_string());
        runner.or(claim).ok_or_else(|| {
            Failure::Unknown(format!("Job {key} has no instance. Why: muster explain {key}"))
        })
    }

    /// Returns the keys of the jobs at a URL. Waiting and running jobs are recorded with their key, which contains
    /// GitHub's number; for other jobs, GitHub is queried.
    async fn jobs_at(&mut self, address: &GitHubUrl) -> Result<Vec<JobKey>, Failure> {
        match address.job {
            Some(job) => match self.known(job).await? {
                Some(key) => Ok(vec![key]),
                None => {
                    let repository = self.number(address, "", "/id").await?;
                    Ok(vec![JobKey { app: AppName::MAIN, repository, job }])
                }
            },
            None => {
                let path = format!("/actions/runs/{}", address.run.unwrap_or_default());
                let repository = self.number(address, &path, "/repository/id").await?;
                let numbers = self.jobs_of_run(address, &path).await?;
                Ok(numbers
                    .into_iter()
                    .map(|job| JobKey { app: AppName::MAIN, repository, job })
                    .collect())
            }
        }
    }

    /// Returns GitHub's numbers of a run's jobs; a matrix alone may have 256.
    async fn jobs_of_run(&mut self, address: &GitHubUrl, run: &str) -> Result<Vec<u64>, Failure> {
        let mut numbers = Vec::new();
        for page in 1_u32.. {
            let path = format!("{run}/jobs?per_page={JOBS_OF_PAGE}&page={page}");
            let answer = self.get(address, &path).await?;
            let jobs = answer["jobs"].as_array().map(Vec::as_slice).unwrap_or_default();
            numbers.extend(jobs.iter().filter_map(|job| job["id"].as_u64()));
            if jobs.len() < JOBS_OF_PAGE {
                break;
            }
        }
        Ok(numbers)
    }

    /// Returns the key of a job that waits (for a machine, a pool or an approval) or runs, by GitHub's number. URLs are of
    /// the main App's host: another host may use the same numbers.
    async fn known(&mut self, job: u64) -> Result<Option<JobKey>, Failure> {
        let q = Some(job.to_string());
        let waiting = JobsRequest { q: q.clone(), ..JobsRequest::default() };
        let waiting: JobList = self.whole("jobs", &Request::Jobs(waiting)).await?;
        let others = waiting.unserved.iter().chain(&waiting.waiting_for_approval);
        let mut keys = waiting.jobs.iter().map(|one| one.job).chain(others.map(|one| one.job));
        if let Some(found) = keys.find(|key| key.app == AppName::MAIN && key.job == job) {
            return Ok(Some(found));
        }
        let live = Request::List(ListRequest { q, ..ListRequest::default() });
        let live: InstanceList = self.whole("list", &live).await?;
        Ok(live
            .instances
            .iter()
            .filter_map(InstanceSummary::key)
            .find(|key| key.app == AppName::MAIN && key.job == job))
    }

    /// Returns a list with all its pages.
    async fn whole<T: DeserializeOwned>(
        &mut self,
        what: &'static str,
        request: &Request,
    ) -> Result<T, Failure> {
        let mut pages = Pages::new(json!(request), None);
        while pages.add(self.answer(&pages.request()).await?) {}
        parsed(what, pages.into_answer())
    }

    async fn number(&mut self, address: &GitHubUrl, path: &str, at: &str) -> Result<u64, Failure> {
        let answer = self.get(address, path).await?;
        answer.pointer(at).and_then(Value::as_u64).ok_or_else(|| Failure::Unreadable {
            what: "GitHub's repository",
            why: format!("no number at {at}"),
        })
    }

    async fn get(&mut self, address: &GitHubUrl, path: &str) -> Result<Value, Failure> {
        let GitHubUrl { host, repository, .. } = address;
        address.is_at(&self.github_host().await).map_err(Failure::Usage)?;
        self.world.github(&address.api(path)).await?.ok_or_else(|| {
            Failure::Unknown(format!(
                "No waiting or running job has that address, and {host} does not show \
                {repository}{path} to you. With a token that can read it: GH_TOKEN=$(gh auth token) muster explain …"
            ))
        })
    }
}
