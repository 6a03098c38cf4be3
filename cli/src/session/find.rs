//! From what the person has to what the function knows.

use muster_control::admin::answers::{ExplainedJob, InstanceList, InstanceSummary, JobList};
use muster_control::admin::{JobsRequest, ListRequest, Request};
use muster_domain::ids::JobKey;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Session, World, read};
use crate::failure::Failure;
use crate::lists::Pages;
use crate::name::{self, Address, Name};

/// What a name stands for.
pub(super) enum Found {
    /// A job, or those of a run.
    Jobs(Vec<JobKey>),
    /// An instance, a machine or a runner.
    Instance(String),
}

impl<W: World> Session<'_, W> {
    pub(super) async fn find(&mut self, text: &str) -> Result<Found, Failure> {
        match name::read(text).map_err(Failure::Usage)? {
            Name::Job(key) => Ok(Found::Jobs(vec![key])),
            Name::Instance(name) => Ok(Found::Instance(name)),
            Name::Address(address) => Ok(Found::Jobs(self.jobs_at(&address).await?)),
        }
    }

    /// The instance that a name stands for. A job stands for the one that runs it or is to run it.
    pub(super) async fn instance(&mut self, text: &str) -> Result<String, Failure> {
        let keys = match self.find(text).await? {
            Found::Instance(name) => return Ok(name),
            Found::Jobs(keys) => keys,
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

    /// The keys of a page's jobs. What waits or runs is on record with its key, and its number is GitHub's own;
    /// for the others GitHub is asked.
    async fn jobs_at(&mut self, address: &Address) -> Result<Vec<JobKey>, Failure> {
        match address.job {
            Some(job) => match self.known(job).await? {
                Some(key) => Ok(vec![key]),
                None => {
                    let repository = self.number(address, "", "/id").await?;
                    Ok(vec![JobKey { repository, job }])
                }
            },
            None => {
                let path = format!("/actions/runs/{}", address.run.unwrap_or_default());
                let repository = self.number(address, &path, "/repository/id").await?;
                let jobs = self.get(address, &format!("{path}/jobs?per_page=100")).await?;
                let jobs = jobs["jobs"].as_array().map(Vec::as_slice).unwrap_or_default();
                let numbers = jobs.iter().filter_map(|job| job["id"].as_u64());
                Ok(numbers.map(|job| JobKey { repository, job }).collect())
            }
        }
    }

    /// The key of a job that waits, for a machine, for a pool or for an approval, or that runs; found by its number at
    /// GitHub.
    async fn known(&mut self, job: u64) -> Result<Option<JobKey>, Failure> {
        let q = Some(job.to_string());
        let waiting = JobsRequest { q: q.clone(), ..JobsRequest::default() };
        let waiting: JobList = self.whole("jobs", &Request::Jobs(waiting)).await?;
        let others = waiting.unserved.iter().chain(&waiting.waiting_for_approval);
        let mut keys = waiting.jobs.iter().map(|one| one.job).chain(others.map(|one| one.job));
        if let Some(found) = keys.find(|key| key.job == job) {
            return Ok(Some(found));
        }
        let live = Request::List(ListRequest { q, ..ListRequest::default() });
        let live: InstanceList = self.whole("list", &live).await?;
        Ok(live.instances.iter().filter_map(InstanceSummary::key).find(|key| key.job == job))
    }

    /// A list with all of its pages.
    async fn whole<T: DeserializeOwned>(
        &mut self,
        what: &'static str,
        request: &Request,
    ) -> Result<T, Failure> {
        let mut pages = Pages::new(json!(request), None);
        while pages.add(self.answer(&pages.request()).await?) {}
        read(what, pages.into_answer())
    }

    async fn number(&mut self, address: &Address, path: &str, at: &str) -> Result<u64, Failure> {
        let answer = self.get(address, path).await?;
        answer.pointer(at).and_then(Value::as_u64).ok_or_else(|| Failure::Unreadable {
            what: "GitHub's repository",
            why: format!("no number at {at}"),
        })
    }

    async fn get(&mut self, address: &Address, path: &str) -> Result<Value, Failure> {
        let Address { host, repository, .. } = address;
        address.is_at(&self.github_host().await).map_err(Failure::Usage)?;
        self.world.github(&address.api(path)).await?.ok_or_else(|| {
            Failure::Unknown(format!(
                "No job that waits or runs has that address, and {host} does not show {repository}{path} to you. With the \
                 right to see it: GH_TOKEN=$(gh auth token) muster explain …"
            ))
        })
    }
}
