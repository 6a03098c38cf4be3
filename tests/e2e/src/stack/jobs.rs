//! GitHub: jobs, and webhooks with and without signature.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::{Answer, Job, Stack};
use crate::github::signature;
use crate::wait::{Seen, wait_for};

impl Stack {
    /// Queues a job in the simulated GitHub, which sends its webhooks by itself. `fields` go over
    /// the defaults; without `duration_ms` the job runs until it is finished.
    ///
    /// # Errors
    /// When the world refuses.
    pub async fn queue_job(&self, fields: &Value) -> Result<Job> {
        let labels = ["self-hosted", self.name.as_str()];
        let mut spec = json!({ "owner": self.owner, "repo": "app", "labels": labels });
        if let (Some(spec), Some(fields)) = (spec.as_object_mut(), fields.as_object()) {
            spec.extend(fields.clone());
        }
        let job = self.world.post("jobs", &spec).await?;
        let (id, repository) = (job["id"].as_u64(), job["repository"]["id"].as_u64());
        let (id, repository) = id.zip(repository).with_context(|| format!("no job: {job}"))?;
        Ok(Job { id, key: format!("{repository}/{id}") })
    }

    /// A job as GitHub has it.
    ///
    /// # Errors
    /// When there is none.
    pub async fn job(&self, job: &Job) -> Result<Value> {
        self.world.get(&format!("jobs/{}", job.id)).await
    }

    /// Ends the work of a running job.
    ///
    /// # Errors
    /// When it is over already.
    pub async fn finish(&self, job: &Job) -> Result<()> {
        self.world.post(&format!("jobs/{}/finish", job.id), &json!({})).await.map(drop)
    }

    /// Cancels a job.
    ///
    /// # Errors
    /// When it is over already.
    pub async fn cancel(&self, job: &Job) -> Result<()> {
        self.world.post(&format!("jobs/{}/cancel", job.id), &json!({})).await.map(drop)
    }

    /// Approves the deployment that a job waits for.
    ///
    /// # Errors
    /// When it waits for no approval.
    pub async fn approve(&self, job: &Job) -> Result<()> {
        self.world.post(&format!("jobs/{}/approve", job.id), &json!({})).await.map(drop)
    }

    /// Waits until a job's first step has begun; answers with the job.
    ///
    /// # Errors
    /// After `seconds`.
    pub async fn until_begun(&self, job: &Job, seconds: u64) -> Result<Value> {
        wait_for(&format!("job {} to begin", job.id), seconds, async || {
            let now = self.job(job).await?;
            let begun = now["began_at"].is_u64();
            Ok(Seen::from(begun.then(|| now.clone()), || self.about_job(&now)))
        })
        .await
    }

    /// Waits until a job is completed; answers with the job.
    ///
    /// # Errors
    /// After `seconds`, or when it ended otherwise than with `success`.
    pub async fn until_served(&self, job: &Job, seconds: u64) -> Result<Value> {
        let done = self.until_over(job, seconds).await?;
        ensure!(
            done["conclusion"] == "success",
            "job {} ended with {}",
            job.id,
            done["conclusion"]
        );
        Ok(done)
    }

    /// A job that GitHub says is completed, however it ended.
    ///
    /// # Errors
    /// When time is up.
    pub async fn until_over(&self, job: &Job, seconds: u64) -> Result<Value> {
        wait_for(&format!("job {} to be completed", job.id), seconds, async || {
            let now = self.job(job).await?;
            let over = now["status"] == "completed";
            Ok(Seen::from(over.then(|| now.clone()), || self.about_job(&now)))
        })
        .await
    }

    fn about_job(&self, job: &Value) -> String {
        let runner = job["runner"]["name"].as_str().unwrap_or("no runner");
        format!("{}, {runner}, fits: {}", job["status"], job["runners_that_fit"])
    }

    /// Changes what happens to the deliveries of this stack's organization.
    ///
    /// # Errors
    /// When the world refuses.
    pub async fn hook_rule(&self, rule: &Value) -> Result<()> {
        let mut rule = rule.clone();
        rule["owner"] = json!(self.owner);
        self.world.post("hooks", &rule).await.map(drop)
    }

    /// The App's installation in this stack's organization.
    ///
    /// # Errors
    /// When the world does not know it.
    pub async fn installation(&self) -> Result<u64> {
        let owners = self.world.list("owners").await?;
        let own = owners.iter().find(|owner| owner["owner"] == self.owner.as_str());
        own.and_then(|own| own["installation_id"].as_u64()).context("the owner is not registered")
    }

    /// Posts a signed delivery, as GitHub does.
    ///
    /// # Errors
    /// When the door does not answer.
    pub async fn deliver(&self, event: &str, payload: &Value) -> Result<Answer> {
        let body = payload.to_string();
        let signed = signature(self.env.get("WEBHOOK_SECRET")?, body.as_bytes());
        let headers = [
            ("content-type", "application/json"),
            ("x-github-event", event),
            ("x-github-delivery", "0e8f8a0a-0000-4000-8000-000000000001"),
            ("x-hub-signature-256", signed.as_str()),
        ];
        self.knock(&headers, body.into_bytes()).await
    }

    /// Posts to the webhook's address, exactly this.
    ///
    /// # Errors
    /// When the door does not answer.
    pub async fn knock(&self, headers: &[(&str, &str)], body: Vec<u8>) -> Result<Answer> {
        self.knock_at(self.env.get("WEBHOOK_URL")?, headers, body).await
    }

    /// Posts to an address without credentials.
    ///
    /// # Errors
    /// When the door does not answer.
    pub async fn knock_at(
        &self,
        url: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<Answer> {
        let mut request = self.http.post(url).body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = request.send().await.with_context(|| url.to_owned())?;
        Ok(Answer { status: answer.status().as_u16(), body: answer.text().await? })
    }
}
