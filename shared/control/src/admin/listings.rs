//! Instances and jobs, many in short, a page at a time.

use std::cell::Cell;
use std::collections::BTreeMap;

use muster_api::answers::{
    Answer, InstanceList, InstanceSummary, JobList, UnservedJob, WaitingJob,
};
use muster_api::{AdminError, JobsRequest, ListRequest};
use muster_domain::ids::{JobKey, PoolName};
use muster_domain::instance::Instance;
use muster_domain::job::Job;
use muster_domain::launch::verdict::{Conditions, Wait};
use muster_domain::pool::Pool;
use muster_domain::stored::Stored;
use muster_domain::time::Time;
use serde::Serialize;

use super::Admin;
use super::pages::{Looked, Rows, has, rows};
use crate::context::Ports;
use crate::ports::{Directory, Instances as _, JobGroup, Jobs as _, Page};

/// A job in a response.
#[derive(Serialize)]
#[serde(untagged)]
enum Row {
    Waiting(WaitingJob),
    /// A job without a launch.
    Other(UnservedJob),
}

impl<P: Ports<Github: Directory>> Admin<'_, P> {
    pub(super) async fn list(
        &self,
        request: &ListRequest,
        now: Time,
    ) -> Result<Answer, AdminError> {
        let ListRequest { pool, state, q, limit, page } = request;
        let table = self.context.table;
        let pools = self.pools(pool.as_ref())?;
        let read = async |part: usize, at| {
            let listed = table.live_instances(&pools[part], at).await?;
            let row = |instance: &Instance| {
                let row = InstanceSummary::new(instance, now);
                let is_wanted =
                    state.is_none_or(|state| row.state == state) && has(&row.words(), q.as_deref());
                is_wanted.then_some(row)
            };
            Ok(with_rows(listed, row))
        };
        let names: Vec<String> = pools.iter().map(ToString::to_string).collect();
        let after = |_, last: &Stored<_>| table.after_instance(last);
        let Rows { rows, unreadable, next } =
            rows(&names, page.as_deref(), *limit, read, after).await?;
        let instances = rows.into_iter().map(|(_, row)| row).collect();
        Ok(Answer::List(InstanceList { instances, unreadable, more: next.into() }))
    }

    pub(super) async fn jobs(
        &self,
        request: &JobsRequest,
        now: Time,
    ) -> Result<Answer, AdminError> {
        let JobsRequest { pool, q, limit, page, .. } = request;
        let table = self.context.table;
        let groups = groups(&self.pools(pool.as_ref())?);
        let kept = Cell::new(None::<Reasons<'_>>);
        let read = async |part: usize, at| {
            let group = &groups[part];
            let listed = table.jobs_of(group, at).await?;
            let mut reasons = match group {
                JobGroup::Free(pool) if !listed.items.is_empty() => {
                    Some(match kept.take().filter(|kept| kept.name == *pool) {
                        Some(reasons) => reasons,
                        None => self.reasons(pool, now).await?,
                    })
                }
                JobGroup::Claimed(pool) if !listed.items.is_empty() => {
                    Some(self.slots(pool).await?)
                }
                _ => None,
            };
            let is_asked_for = |job: &Job| pool.is_none() || job.pool == *pool;
            let row = |job: &Job| {
                let row = match group {
                    JobGroup::Free(_) | JobGroup::Claimed(_) => {
                        let wait = reasons.as_mut().and_then(|reasons| reasons.of(job, now));
                        Row::Waiting(WaitingJob::new(job.clone(), wait, now))
                    }
                    JobGroup::Unmatched | JobGroup::Gated => {
                        Row::Other(UnservedJob::new(job.clone(), now))
                    }
                };
                (is_asked_for(job) && has(&row.words(), q.as_deref())).then_some(row)
            };
            let rows = with_rows(listed, row);
            kept.set(reasons);
            Ok(rows)
        };
        let names: Vec<String> = groups.iter().map(name).collect();
        let after = |part: usize, last: &Stored<Job>| table.after_job(&groups[part], last);
        let Rows { rows, next, .. } = rows(&names, page.as_deref(), *limit, read, after).await?;
        let (mut jobs, mut unserved, mut waiting_for_approval) = (vec![], vec![], vec![]);
        for (part, row) in rows {
            match (row, &groups[part]) {
                (Row::Waiting(row), _) => jobs.push(row),
                (Row::Other(row), JobGroup::Gated) => waiting_for_approval.push(row),
                (Row::Other(row), _) => unserved.push(row),
            }
        }
        Ok(Answer::Jobs(JobList { jobs, unserved, waiting_for_approval, more: next.into() }))
    }

    /// Reads why the claimed jobs of a pool wait.
    async fn slots(&self, name: &PoolName) -> Result<Reasons<'_>, AdminError> {
        let mut reasons = Reasons { name: name.clone(), pool: None, first: BTreeMap::new() };
        if let Some(pool) = self.context.settings.pool(name) {
            let slots = self.context.table.slots_to_retry(name).await?;
            reasons.pool = Some((pool, Conditions::default().with_slots(&slots)));
        }
        Ok(reasons)
    }

    /// Reads why the jobs of a pool wait, as the next launch pass will decide. Earlier jobs use up
    /// capacity first.
    async fn reasons(&self, name: &PoolName, now: Time) -> Result<Reasons<'_>, AdminError> {
        let mut reasons = Reasons { name: name.clone(), pool: None, first: BTreeMap::new() };
        if let Some(pool) = self.context.settings.pool(name) {
            let (_, mut conditions, demand) = self.looked(pool, now).await?;
            let wait = |job: &Stored<Job>| (job.key(), Wait::of(job, pool, &mut conditions, now));
            reasons.first = demand.iter().map(wait).collect();
            reasons.pool = Some((pool, conditions));
        }
        Ok(reasons)
    }
}

/// Why the jobs of a pool wait. Read once for all pages of a response.
struct Reasons<'a> {
    name: PoolName,
    /// The pool and its remaining capacity after earlier jobs.
    pool: Option<(&'a Pool, Conditions)>,
    first: BTreeMap<JobKey, Wait>,
}

impl Reasons<'_> {
    fn of(&mut self, job: &Job, now: Time) -> Option<Wait> {
        let known = self.first.remove(&job.key());
        known.or_else(|| {
            let (pool, conditions) = self.pool.as_mut()?;
            Some(Wait::of(job, pool, conditions, now))
        })
    }
}

impl Row {
    fn words(&self) -> Vec<String> {
        match self {
            Self::Waiting(row) => row.words(),
            Self::Other(row) => row.words(),
        }
    }
}

/// Returns the groups in the order of the response: first jobs without a launch, so that many
/// waiting jobs do not push them to a later page.
fn groups(pools: &[PoolName]) -> Vec<JobGroup> {
    let of_pool = |pool: &PoolName| [JobGroup::Free(pool.clone()), JobGroup::Claimed(pool.clone())];
    [JobGroup::Unmatched, JobGroup::Gated]
        .into_iter()
        .chain(pools.iter().flat_map(of_pool))
        .collect()
}

fn name(group: &JobGroup) -> String {
    match group {
        JobGroup::Free(pool) => format!("free#{pool}"),
        JobGroup::Claimed(pool) => format!("claimed#{pool}"),
        JobGroup::Unmatched => "unserved".to_owned(),
        JobGroup::Gated => "approval".to_owned(),
    }
}

fn with_rows<T, R>(
    listed: Page<Stored<T>>,
    mut row: impl FnMut(&T) -> Option<R>,
) -> Looked<Stored<T>, R> {
    let Page { items, unreadable, next } = listed;
    let items = items.into_iter().map(|one| {
        let row = row(one.record());
        (one, row)
    });
    Page { items: items.collect(), unreadable, next }
}
