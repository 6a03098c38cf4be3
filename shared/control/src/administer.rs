//! What an operator can ask and order.

use domain::SCHEMA;
use domain::audit::{Audit, AuditKind};
use domain::explain::{self, JobContext};
use domain::ids::{InstanceName, JobKey, MachineId, PoolName};
use domain::instance::{Instance, Order, State};
use domain::job::Job;
use domain::message::ReapMessage;
use domain::observation::{Deregistration, RunnerSeen, Trouble};
use domain::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Settings;
use crate::ports::{CommitError, Github, Queue, ReadError, Table, Write};
use crate::reap::{note_health, registrar};
use crate::sweep::nonce;
use crate::writes::{self, CONFLICT_ROUNDS, PassError};

/// The version of requests and answers.
pub const VERSION: u64 = 1;
/// Shortest reason of an order, characters.
const MIN_REASON: usize = 5;
/// Most jobs a listing shows per pool and group.
const JOBS_SHOWN: u32 = 200;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Live instances.
    List {
        /// Of this pool only.
        #[serde(default)]
        pool: Option<PoolName>,
        /// In this state only.
        #[serde(default)]
        state: Option<State>,
    },
    /// One instance, whole, with its audit trail.
    Show {
        /// Its name, or its machine's id.
        name: String,
    },
    /// Orders a delete.
    Delete(DeleteRequest),
    /// Waiting jobs.
    Jobs {
        /// Of this pool only.
        #[serde(default)]
        pool: Option<PoolName>,
    },
    /// Why a job or an instance is where it is.
    Explain {
        /// A job key.
        #[serde(default)]
        job: Option<JobKey>,
        /// An instance's name, or its machine's id.
        #[serde(default)]
        name: Option<String>,
    },
    /// The stack, its pools, entities and orphans.
    Status {},
}

/// A delete order.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteRequest {
    /// The instance's name, or its machine's id.
    pub name: String,
    /// Why; goes into the audit trail.
    pub reason: String,
    /// Who; goes into the audit trail. `CloudTrail` has the caller's identity besides.
    #[serde(default)]
    pub by: Option<String>,
    /// Provider errors do not hold the delete up.
    #[serde(default)]
    pub force: bool,
    /// 401 and 403 from GitHub do not hold the delete up.
    #[serde(default)]
    pub bypass_github_unauthorized: bool,
    /// A running job is killed.
    #[serde(default)]
    pub kill_running_job: bool,
    /// Says what would happen, and does nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// An error that the operator is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// A word for programs.
    pub code: &'static str,
    /// A sentence for people, with what to do.
    pub message: String,
}

impl Problem {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl From<PassError> for Problem {
    fn from(error: PassError) -> Self {
        let code = match error {
            PassError::Commit(CommitError::Conflict) => "busy_record",
            _ => "unavailable",
        };
        Self::new(code, format!("{error:?}; nothing was lost, try again"))
    }
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        PassError::from(error).into()
    }
}

/// Reads a request.
///
/// # Errors
/// What is wrong with it.
pub fn read(request: Value) -> Result<Request, Problem> {
    let Value::Object(mut fields) = request else {
        return Err(Problem::new("bad_request", "the request must be a JSON object"));
    };
    match fields.remove("version") {
        Some(version) if version == VERSION => {}
        Some(other) => {
            return Err(Problem::new(
                "bad_version",
                format!("version {other} is not known; this function speaks version {VERSION}"),
            ));
        }
        None => {
            return Err(Problem::new("bad_version", format!("\"version\": {VERSION} is missing")));
        }
    }
    serde_json::from_value(Value::Object(fields))
        .map_err(|error| Problem::new("bad_request", error.to_string()))
}

/// The operator's passes.
pub struct Administer<'a, T, Q, G> {
    /// The tables.
    pub table: &'a T,
    /// The queues.
    pub queue: &'a Q,
    /// GitHub.
    pub github: &'a G,
    /// The stack.
    pub settings: &'a Settings,
}

impl<T: Table, Q: Queue, G: Github> Administer<'_, T, Q, G> {
    /// Answers a request.
    pub async fn answer(&self, request: Value, now: Time) -> Value {
        let answer = match read(request) {
            Ok(request) => self.act(request, now).await,
            Err(problem) => Err(problem),
        };
        match answer {
            Ok(Value::Object(mut fields)) => {
                fields.insert("version".to_owned(), json!(VERSION));
                fields.insert("ok".to_owned(), json!(true));
                Value::Object(fields)
            }
            Ok(other) => json!({ "version": VERSION, "ok": true, "answer": other }),
            Err(problem) => json!({ "version": VERSION, "ok": false, "error": problem }),
        }
    }

    async fn act(&self, request: Request, now: Time) -> Result<Value, Problem> {
        match request {
            Request::List { pool, state } => self.list(pool.as_ref(), state, now).await,
            Request::Show { name } => self.show(&name, now).await,
            Request::Delete(order) => self.delete(&order, now).await,
            Request::Jobs { pool } => self.jobs(pool.as_ref(), now).await,
            Request::Explain { job: Some(key), name: None } => self.explain_job(key, now).await,
            Request::Explain { job: None, name: Some(name) } => {
                let instance = self.find(&name).await?;
                Ok(json!({ "explanation": explain::instance(&instance, now) }))
            }
            Request::Explain { .. } => {
                Err(Problem::new("bad_request", "explain takes either \"job\" or \"name\""))
            }
            Request::Status {} => self.status(now).await,
        }
    }

    /// The pools a listing is about.
    fn pools(&self, only: Option<&PoolName>) -> Result<Vec<PoolName>, Problem> {
        let names: Vec<PoolName> =
            self.settings.pools.iter().map(|pool| pool.name.clone()).collect();
        match only {
            None => Ok(names),
            Some(name) if names.contains(name) => Ok(vec![name.clone()]),
            Some(name) => Err(Problem::new("not_found", format!("there is no pool {name}"))),
        }
    }

    async fn list(
        &self,
        pool: Option<&PoolName>,
        state: Option<State>,
        now: Time,
    ) -> Result<Value, Problem> {
        let mut shown = Vec::new();
        let mut unreadable = Vec::new();
        for name in self.pools(pool)? {
            let mut page = None;
            loop {
                let listed = self.table.live_instances(&name, page).await?;
                let wanted =
                    |instance: &&Instance| state.is_none_or(|state| instance.state() == state);
                shown.extend(listed.items.iter().filter(wanted).map(|one| summary(one, now)));
                unreadable.extend(listed.unreadable);
                page = listed.next;
                if page.is_none() {
                    break;
                }
            }
        }
        Ok(json!({ "instances": shown, "unreadable": unreadable }))
    }

    async fn show(&self, name: &str, now: Time) -> Result<Value, Problem> {
        let instance = self.find(name).await?;
        let audit = self.table.audit(instance.name.as_str(), 50).await?;
        Ok(json!({
            "instance": instance,
            "runner_name": (instance.runner.n > 0).then(|| instance.runner_name()),
            "explanation": explain::instance(&instance, now),
            "audit": audit,
        }))
    }

    async fn jobs(&self, pool: Option<&PoolName>, now: Time) -> Result<Value, Problem> {
        let mut shown = Vec::new();
        for name in self.pools(pool)? {
            for job in self.table.waiting_jobs(&name, JOBS_SHOWN).await? {
                shown.push(json!({
                    "job": job.key(),
                    "repository": job.said.repository,
                    "name": job.said.name,
                    "labels": job.said.labels,
                    "pool": job.pool,
                    "queued_at": job.queued_at(),
                    "age_seconds": now.since(job.queued_at()),
                    "claim": job.claim,
                    "hold": job.hold,
                }));
            }
        }
        Ok(json!({ "jobs": shown }))
    }

    async fn explain_job(&self, key: JobKey, now: Time) -> Result<Value, Problem> {
        let job = self.table.job(key).await?.ok_or_else(|| {
            Problem::new(
                "not_found",
                format!(
                    "job {key} is not on record: its webhook never arrived, no pool and no runner \
                     of ours had to do with it, or it ended long ago"
                ),
            )
        })?;
        let claim = match &job.claim {
            Some(name) => self.table.instance(name).await?,
            None => None,
        };
        let pool = job.pool.as_ref().and_then(|name| self.settings.pool(name));
        let context = JobContext { pool, live: self.live(&job).await?, claim: claim.as_ref() };
        let explanation = explain::job(&job, &context, now);
        Ok(json!({ "job": job, "explanation": explanation }))
    }

    async fn live(&self, job: &Job) -> Result<u32, Problem> {
        let capacity = match &job.pool {
            Some(name) => self.table.capacity(name).await?,
            None => None,
        };
        Ok(capacity.map_or(0, |capacity| capacity.live))
    }

    async fn status(&self, now: Time) -> Result<Value, Problem> {
        let mut pools = Vec::new();
        for pool in &self.settings.pools {
            let capacity = self.table.capacity(&pool.name).await?;
            let waiting = self.table.waiting_jobs(&pool.name, JOBS_SHOWN).await?;
            let oldest = waiting.iter().map(Job::queued_at).min();
            let ending = self.table.ending_instances(&pool.name, JOBS_SHOWN).await?;
            pools.push(json!({
                "name": pool.name,
                "labels": pool.labels,
                "entity": pool.entity,
                "max": pool.max,
                "live": capacity.map_or(0, |capacity| capacity.live),
                "ending": ending.len(),
                "waiting_jobs": waiting.len(),
                "oldest_waiting_job_seconds": oldest.map(|at| now.since(at)),
            }));
        }
        Ok(json!({
            "stack": self.settings.stack,
            "record_version": SCHEMA,
            "now": now,
            "pools": pools,
            "unhealthy_entities": self.table.unhealthy_entities().await?.iter().map(|health| json!({
                "entity": health.entity,
                "unauthorized_since": health.unauthorized_since,
                "last_error": health.last_error,
            })).collect::<Vec<_>>(),
            "orphans": self.table.orphans().await?.iter().map(|orphan| json!({
                "machine": orphan.machine,
                "instance": orphan.instance,
                "since": orphan.since,
                "attempts": orphan.attempts,
                "last_error": orphan.last_error,
            })).collect::<Vec<_>>(),
        }))
    }

    /// An instance by name or by its machine.
    async fn find(&self, text: &str) -> Result<Instance, Problem> {
        let name = match text.parse::<MachineId>() {
            Ok(machine) => self.table.owner_of(&machine).await?,
            Err(_) => text.parse::<InstanceName>().ok(),
        };
        let instance = match name {
            Some(name) => self.table.instance(&name).await?,
            None => None,
        };
        instance.ok_or_else(|| {
            Problem::new("not_found", format!("there is no instance or machine {text:?}; see list"))
        })
    }

    async fn delete(&self, request: &DeleteRequest, now: Time) -> Result<Value, Problem> {
        if request.reason.trim().chars().count() < MIN_REASON {
            let message = format!("\"reason\" must say why, in {MIN_REASON} characters or more");
            return Err(Problem::new("bad_request", message));
        }
        let instance = self.find(&request.name).await?;
        for _ in 0..CONFLICT_ROUNDS {
            match self.try_delete(&instance.name, request, now).await {
                Err(Problem { code: "busy_record", .. }) => {}
                other => return other,
            }
        }
        Err(Problem::new("busy_record", "the record changes too often right now; try again"))
    }

    /// Mark, evidence, ask GitHub; refused at once when a job runs. Otherwise the reaper does the rest.
    async fn try_delete(
        &self,
        name: &InstanceName,
        request: &DeleteRequest,
        now: Time,
    ) -> Result<Value, Problem> {
        let instance = self.find(name.as_str()).await?;
        if !instance.state().is_live() {
            return Err(Problem::new("already_deleted", format!("instance {name} is deleted")));
        }
        let order = order(request, now);
        if instance.runner.is_busy() && !request.kill_running_job {
            let why = "a job runs on it, says its own record";
            return self.refuse(&instance, &order, request.dry_run, why, now).await;
        }
        if request.dry_run {
            let mut next = instance.clone();
            next.order_delete(&order, now);
            return Ok(json!({ "dry_run": true, "name": name, "state": instance.state(),
                "would_be": next.state() }));
        }
        let asks = instance.runner.n > 0
            && instance.runner.exit.is_none()
            && !request.kill_running_job
            && !instance.drain().is_some_and(|drain| drain.deregistered);
        let mut marked = instance.clone();
        let mut deregistered = false;
        if asks {
            marked = self.mark(&instance, now).await?;
            match self.ask_github(&marked, &order, now).await? {
                Asked::Busy => {
                    self.clear_mark(&instance, &marked, now).await?;
                    let why = "GitHub says that its runner is busy";
                    return self.refuse(&instance, &order, false, why, now).await;
                }
                Asked::Deregistered => deregistered = true,
                Asked::NotBusy | Asked::Unknown => {}
            }
        }
        self.accept(&marked, &order, deregistered, now).await
    }

    /// From here on job-started loses.
    async fn mark(&self, instance: &Instance, now: Time) -> Result<Instance, Problem> {
        let mut marked = instance.clone();
        marked.mark(domain::instance::DeleteReason::Ordered, now);
        self.commit(writes::instance(instance, &marked)).await?;
        Ok(marked)
    }

    async fn clear_mark(
        &self,
        before: &Instance,
        marked: &Instance,
        now: Time,
    ) -> Result<(), Problem> {
        // A mark that stood before, or a row on its way out, is not ours to clear.
        if before.drain().is_some() || marked.state() != State::Running {
            return Ok(());
        }
        let mut next = marked.clone();
        next.seen_busy(now, "the delete was refused: busy");
        self.commit(writes::instance(marked, &next)).await
    }

    /// A forced order sends the DELETE; a plain one only looks, since the evidence is not in yet.
    async fn ask_github(
        &self,
        instance: &Instance,
        order: &Order,
        now: Time,
    ) -> Result<Asked, Problem> {
        let registrar = registrar(instance);
        let (asked, trouble): (Asked, Option<Trouble>) = match (order.force, instance.runner.id) {
            (true, Some(id)) => match self.github.deregister(&registrar, id).await {
                Ok(Deregistration::Busy) => (Asked::Busy, None),
                Ok(Deregistration::Done | Deregistration::NotFound) => (Asked::Deregistered, None),
                Err(trouble) => (Asked::Unknown, Some(trouble)),
            },
            (_, Some(id)) => match self.github.runner(&registrar, id).await {
                Ok(RunnerSeen::Busy(_)) => (Asked::Busy, None),
                Ok(_) => (Asked::NotBusy, None),
                Err(trouble) => (Asked::Unknown, Some(trouble)),
            },
            (_, None) => return Ok(Asked::Unknown),
        };
        note_health(self.table, instance, trouble.as_ref(), now).await?;
        Ok(asked)
    }

    async fn accept(
        &self,
        before: &Instance,
        order: &Order,
        deregistered: bool,
        now: Time,
    ) -> Result<Value, Problem> {
        let mut next = before.clone();
        next.order_delete(order, now);
        if deregistered {
            next.update_drain(|drain| drain.deregistered = true);
        }
        let timings = &self.settings.timings;
        let mut writes = writes::of_instance(self.table, before, &next, now, timings).await?;
        writes.push(Write::Audit(Audit::of(
            &next.name,
            AuditKind::Ordered,
            &order.by,
            &order.reason,
            now,
        )));
        self.commit(writes).await?;
        tracing::warn!(instance.id = %next.name, by = order.by, force = order.force,
            kill_running_job = order.kill_running_job, reason = order.reason, "delete ordered");
        let wake =
            ReapMessage::Reap { name: next.name.clone(), nonce: nonce(next.generation(), now) };
        // Only a wake-up: the sweep finds the due row as well.
        if let Err(error) = self.queue.send_reap(&[wake]).await {
            tracing::warn!(%error, "the reaper starts at the next sweep");
        }
        Ok(json!({ "name": next.name, "state": next.state(), "order": next.order(),
            "message": "ordered; the reaper does the rest: see explain" }))
    }

    async fn refuse(
        &self,
        instance: &Instance,
        order: &Order,
        dry_run: bool,
        why: &str,
        now: Time,
    ) -> Result<Value, Problem> {
        if !dry_run {
            let audit = Audit::of(
                &instance.name,
                AuditKind::Refused,
                &order.by,
                &format!("{why}; the order's reason: {}", order.reason),
                now,
            );
            self.commit([Write::Audit(audit)]).await?;
        }
        Err(Problem::new(
            "busy",
            format!(
                "instance {} is not deleted: {why}. Its state is unchanged ({}). Wait for the job's \
                 end, or pass \"kill_running_job\": true",
                instance.name,
                instance.state()
            ),
        ))
    }

    async fn commit(&self, writes: impl IntoIterator<Item = Write>) -> Result<(), Problem> {
        let writes: Vec<Write> = writes.into_iter().collect();
        if writes.is_empty() {
            return Ok(());
        }
        Ok(self.table.commit(&writes).await.map_err(PassError::from)?)
    }
}

enum Asked {
    Busy,
    NotBusy,
    Deregistered,
    Unknown,
}

fn order(request: &DeleteRequest, now: Time) -> Order {
    Order {
        at: now,
        by: request.by.clone().unwrap_or_else(|| "operator".to_owned()),
        reason: request.reason.trim().to_owned(),
        force: request.force,
        bypass_github_unauthorized: request.bypass_github_unauthorized,
        kill_running_job: request.kill_running_job,
    }
}

fn summary(instance: &Instance, now: Time) -> Value {
    json!({
        "name": instance.name,
        "pool": instance.pool,
        "state": instance.state(),
        "since": instance.since(),
        "age_seconds": now.since(instance.created_at),
        "machine": instance.machine(),
        "runner_state": instance.runner.state,
        "runner_id": instance.runner.id,
        "claim": instance.claim(),
        "waiting_for": instance.drain().and_then(|drain| drain.waiting.as_ref()),
        "attempts": instance.attempts,
        "due_at": instance.due_at(),
        "forced": instance.is_forced(),
    })
}
