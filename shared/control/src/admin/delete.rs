//! The delete order: refused if a job runs; otherwise one commit, which the reaper carries out.

use muster_api::answers::{Answer, DeleteDryRun, OrderedDelete};
use muster_api::{AdminError, AdminErrorCode, DeleteRequest, check_reason};
use muster_domain::audit::{Audit, AuditKind};
use muster_domain::causes::with_causes;
use muster_domain::explain;
use muster_domain::ids::InstanceName;
use muster_domain::instance::{DeleteOrder, Instance};
use muster_domain::launch::record::trouble::RequestKind;
use muster_domain::message::WakePool;
use muster_domain::observation::RunnerSeen;
use muster_domain::stored::Stored;
use muster_domain::time::{Seconds, Time};

use super::Admin;
use crate::context::Ports;
use crate::health::note_answer;
use crate::ports::{Github as _, Operations as _, Queue as _, Write};
use crate::reaps::reap::registrar;
use crate::wake::reap_message;
use crate::writes;

impl<P: Ports> Admin<'_, P> {
    pub(super) async fn delete(
        &self,
        request: &DeleteRequest,
        now: Time,
    ) -> Result<Answer, AdminError> {
        check_reason(&request.reason)?;
        let switches =
            self.context.table.switches().await?.map(Stored::into_record).unwrap_or_default();
        if let Some(off) = switches.deletes_off(now).filter(|_| !request.force) {
            let message = format!("deletes are {off}. Resume them, or pass \"force\": true");
            return Err(AdminError::new(AdminErrorCode::SwitchedOff, message));
        }
        let instance = self.find(&request.name).await?;
        let round = async || self.try_delete(&instance.name, request, now).await;
        writes::in_rounds(round).await.map_err(|error| match error.code {
            AdminErrorCode::BusyRecord => {
                AdminError::new(error.code, "the record changes too often right now; try again")
            }
            _ => error,
        })
    }

    /// Orders the delete, unless our record or GitHub reports a running job. After the commit,
    /// job-started is refused.
    async fn try_delete(
        &self,
        name: &InstanceName,
        request: &DeleteRequest,
        now: Time,
    ) -> Result<Answer, AdminError> {
        let instance = self.find(name.as_str()).await?;
        if !instance.state().is_live() {
            return Err(AdminError::new(
                AdminErrorCode::AlreadyDeleted,
                format!("instance {name} is deleted"),
            ));
        }
        let order = order(request, now);
        if instance.runner.is_busy() && !request.kill_running_job {
            let mut why = "its record shows a running job".to_owned();
            if let Some(over) = explain::over_at_github(&instance) {
                why = format!("{why}. {over}");
            }
            return self.refuse(&instance, &order, request.dry_run, &why, now).await;
        }
        if request.dry_run {
            let mut next = instance.into_record();
            let state = next.state();
            next.order_delete(&order, now);
            let would_be = next.state();
            let answer = DeleteDryRun { dry_run: true, name: name.clone(), state, would_be };
            return Ok(Answer::DeleteDryRun(answer));
        }
        let asks = instance.runner.n > 0
            && instance.runner.exit.is_none()
            && !request.kill_running_job
            && !instance.mark().is_some_and(|mark| mark.deregistered);
        let is_busy =
            asks && matches!(self.runner_seen(&instance, now).await?, Some(RunnerSeen::Busy(_)));
        if is_busy {
            let why = "GitHub reports that its runner is busy";
            return self.refuse(&instance, &order, false, why, now).await;
        }
        self.accept(&instance, &order, now).await
    }

    /// Queries GitHub for the runner without deregistering it: that is the reaper's task. The query
    /// precedes the commit, because no one would revert the mark if this request were interrupted.
    /// If a job starts meanwhile, the record changes and the order starts over. Without an answer
    /// the order is accepted; the reaper queries again.
    pub(super) async fn runner_seen(
        &self,
        instance: &Instance,
        now: Time,
    ) -> Result<Option<RunnerSeen>, AdminError> {
        let Some(id) = instance.runner.id else { return Ok(None) };
        let answer = self.context.github.runner(&registrar(instance), id).await;
        note_answer(
            self.context.table,
            &instance.entity,
            RequestKind::Other,
            answer.as_ref().err(),
            now,
        )
        .await?;
        Ok(answer.ok())
    }

    async fn accept(
        &self,
        before: &Stored<Instance>,
        order: &DeleteOrder,
        now: Time,
    ) -> Result<Answer, AdminError> {
        let mut next = before.record().clone();
        next.order_delete(order, now);
        let mut writes = writes::for_instance(self.context.table, before, &next, now).await?;
        writes.push(Write::Audit(Audit::new(
            &next.name,
            AuditKind::Ordered,
            &order.by,
            &order.told(),
            now,
        )));
        self.commit(writes).await?;
        tracing::warn!(instance.id = %next.name, by = order.by, force = order.force,
            kill_running_job = order.kill_running_job, reason = order.reason, "operator ordered a delete");
        // Only speeds things up: the sweep also finds the due row and the job that it claimed.
        if let Err(error) = self.context.queue.send_reap(&[reap_message(before, now)]).await {
            tracing::warn!(
                error = with_causes(&error),
                "failed to wake the reaper; the next sweep does"
            );
        }
        if let Some(job) = before.claim() {
            let wakes: Vec<_> = WakePool::for_jobs(&next.pool, &[job]).collect();
            if let Err(error) = self.context.queue.send_wakes(&wakes, Seconds(0)).await {
                tracing::warn!(
                    error = with_causes(&error),
                    "failed to wake the pool; the next sweep does"
                );
            }
        }
        Ok(Answer::Delete(OrderedDelete {
            state: next.state(),
            order: next.order().cloned(),
            name: next.name,
            message: "ordered; the reaper carries it out: see explain".into(),
        }))
    }

    async fn refuse(
        &self,
        instance: &Instance,
        order: &DeleteOrder,
        dry_run: bool,
        why: &str,
        now: Time,
    ) -> Result<Answer, AdminError> {
        if !dry_run {
            let audit = Audit::new(
                &instance.name,
                AuditKind::Refused,
                &order.by,
                &format!("{why}; the order's reason: {}", order.told()),
                now,
            );
            self.commit([Write::Audit(audit)]).await?;
        }
        Err(AdminError::new(
            AdminErrorCode::Busy,
            format!(
                "instance {} is not deleted: {why}. Its state is unchanged ({}). Wait until the job \
                 ends, or pass \"kill_running_job\": true",
                instance.name,
                instance.state()
            ),
        ))
    }
}

fn order(request: &DeleteRequest, now: Time) -> DeleteOrder {
    DeleteOrder {
        at: now,
        by: request.by.clone().unwrap_or_else(|| "operator".to_owned()),
        reason: request.reason.trim().to_owned(),
        force: request.force,
        bypass_github_unauthorized: request.bypass_github_unauthorized,
        kill_running_job: request.kill_running_job,
    }
}
