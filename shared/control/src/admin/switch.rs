//! The switches: launches, deletes, single pools.

use muster_domain::audit::{Audit, AuditKind};
use muster_domain::ids::PoolName;
use muster_domain::message::WakePool;
use muster_domain::stored::Change;
use muster_domain::switches::{Switch, SwitchedOff, Switches};
use muster_domain::time::{Seconds, Time};

use super::answers::{Answer, SwitchedNow};
use super::request::{SwitchRequest, To, check_reason};
use super::{Admin, AdminError, AdminErrorCode};
use crate::causes::with_causes;
use crate::context::Ports;
use crate::ports::{Launches as _, Operations as _, Queue as _, Table as _, Write};
use crate::writes;

/// The subject of the switches' lines in the audit trail.
pub(super) const SUBJECT: &str = "switches";

impl<P: Ports> Admin<'_, P> {
    pub(super) async fn switch(
        &self,
        request: &SwitchRequest,
        now: Time,
    ) -> Result<Answer, AdminError> {
        let reason = check_reason(&request.reason)?;
        let settings = settings(request);
        if settings.is_empty() {
            let message = "name what to switch: \"launches\", \"deletes\", \"maintenance\" or \"pools\", each \"on\" or \"off\"";
            return Err(AdminError::new(AdminErrorCode::BadRequest, message));
        }
        let by = request.by.clone().unwrap_or_else(|| "operator".to_owned());
        let off = SwitchedOff { since: now, by, reason: reason.to_owned() };
        let answer: Result<_, AdminError> = writes::in_rounds(async || {
            let stored = self.context.table.switches().await?;
            let before = stored.as_deref().cloned().unwrap_or_default();
            for (pool, to) in &request.pools {
                // The pool may be gone, and what holds it back is still there.
                if *to == To::Off || !before.pools.contains_key(pool) {
                    self.pools(Some(pool))?;
                }
            }
            let next = settings.iter().fold(before.clone(), |next, (switch, to)| {
                next.with(switch, (*to == To::Off).then(|| off.clone()))
            });
            if next == before {
                return Ok(answer(next));
            }
            let change = Change::from_read(stored.as_ref(), next.clone());
            self.context
                .table
                .commit(&[change.into(), Write::Audit(line(&settings, &off))])
                .await?;
            tracing::warn!(switches = ?settings, by = off.by, reason, "operator changed switches");
            Ok(answer(next))
        })
        .await;
        let answer = answer?;
        // An entity is no pool's: only launches as a whole open it.
        let opens = |switch: &Switch, pool: Option<&PoolName>| match switch {
            Switch::Launches => true,
            Switch::Pool(name) => pool == Some(name),
            Switch::Deletes => false,
        };
        let opened = settings.iter().filter(|(_, to)| *to == To::On);
        let opened: Vec<&Switch> = opened.map(|(switch, _)| switch).collect();
        self.open_anew(|pool| opened.iter().any(|switch| opens(switch, pool)), now).await;
        Ok(answer)
    }

    /// Ends the waits of pools that failed or were refused, since an operator may have fixed the
    /// cause, and wakes these pools. `is_opened` is asked with `None` for what is no pool's alone.
    pub(super) async fn open_anew(&self, is_opened: impl Fn(Option<&PoolName>) -> bool, now: Time) {
        let table = self.context.table;
        let opened = writes::update(
            table,
            async || table.cooldowns().await,
            |known| known?.opened(&is_opened, now),
        );
        if let Err(error) = opened.await {
            tracing::warn!(
                error = with_causes(&error),
                "failed to end the waits of pools; the next probe finds a fix"
            );
        }
        let pools = self.context.settings.pools.iter().map(|pool| &pool.name);
        let opened = pools.filter(|name| is_opened(Some(name)));
        let wakes: Vec<WakePool> = opened.cloned().map(WakePool::whole).collect();
        if !wakes.is_empty()
            && let Err(error) = self.context.queue.send_wakes(&wakes, Seconds(0)).await
        {
            tracing::warn!(error = with_causes(&error), "failed to wake pools; the sweep does");
        }
    }
}

fn settings(request: &SwitchRequest) -> Vec<(Switch, To)> {
    let launches = request.launches.map(|to| (Switch::Launches, to));
    let deletes = request.deletes.map(|to| (Switch::Deletes, to));
    let pools = request.pools.iter().map(|(name, to)| (Switch::Pool(name.clone()), *to));
    launches.into_iter().chain(deletes).chain(pools).collect()
}

fn line(settings: &[(Switch, To)], off: &SwitchedOff) -> Audit {
    let what: Vec<String> = settings
        .iter()
        .map(|(switch, to)| format!("{switch} {}", if *to == To::Off { "off" } else { "on" }))
        .collect();
    Audit {
        at: off.since,
        kind: AuditKind::Switched,
        subject: SUBJECT.to_owned(),
        by: off.by.clone(),
        why: format!("{}: {}", what.join(", "), off.reason),
    }
}

fn answer(switches: Switches) -> Answer {
    Answer::Switch(SwitchedNow { switches: switches.into() })
}
