//! The switches: launches, deletes and single pools.

use muster_api::answers::{Answer, ShownSwitches, SwitchedNow};
use muster_api::{AdminError, AdminErrorCode, SwitchRequest, To, check_reason};
use muster_domain::audit::{Audit, AuditKind};
use muster_domain::causes::with_causes;
use muster_domain::ids::PoolName;
use muster_domain::launch::record::Cooldowns;
use muster_domain::message::WakePool;
use muster_domain::switches::{LONGEST_PAUSE, SHORTEST_PAUSE, Switch, SwitchedOff, Switches};
use muster_domain::time::{Seconds, Time};

use super::Admin;
use crate::context::Ports;
use crate::ports::{Launches as _, Operations as _, Queue as _, ReadError, Table as _, Write};
use crate::writes::{self, Before, PassError};

/// The subject of the switches' lines in the audit trail.
pub(super) const SUBJECT: &str = "switches";

impl<P: Ports> Admin<'_, P> {
    pub(super) async fn switch(
        &self,
        request: &SwitchRequest,
        now: Time,
    ) -> Result<Answer, AdminError> {
        let settings = settings(request);
        let is_resumed = settings.iter().all(|(_, to)| *to == To::On);
        let reason = match request.reason.trim() {
            "" if is_resumed => "resumed",
            reason => check_reason(reason)?,
        };
        if settings.is_empty() {
            let message = "name at least one switch: \"launches\", \"deletes\" or \"pools\", each \"on\" or \"off\"";
            return Err(AdminError::new(AdminErrorCode::BadRequest, message));
        }
        let by = request.by.clone().unwrap_or_else(|| "operator".to_owned());
        let until = end(request.for_seconds, &settings, now)?;
        let off = SwitchedOff { since: now, by, reason: reason.to_owned(), until };
        let answer: Result<_, AdminError> = writes::in_rounds(async || {
            let stored = Before::of(self.context.table.switches().await)?;
            let before = stored.record().map(|all| all.still_off(now)).unwrap_or_default();
            for (pool, to) in &request.pools {
                // The switch of a removed pool can still be turned on.
                if *to == To::Off || !before.pools_off(now).any(|(name, _)| name == pool) {
                    self.pools(Some(pool))?;
                }
            }
            let next = settings.iter().fold(before.clone(), |next, (switch, to)| {
                next.with(switch, (*to == To::Off).then(|| off.clone()))
            });
            if next == before && !matches!(stored, Before::Unreadable) {
                return Ok(answer(&next, now));
            }
            let change = stored.change(next.clone(), now);
            self.context
                .table
                .commit(&[change.into(), Write::Audit(line(&settings, &off))])
                .await?;
            tracing::warn!(switches = ?settings, by = off.by, reason, "operator changed switches");
            Ok(answer(&next, now))
        })
        .await;
        let answer = answer?;
        // Entities do not belong to a pool: only turning on all launches retries them.
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

    /// Ends the back-off of pools that failed or were refused, because an operator may have fixed
    /// the cause, and wakes these pools. `is_opened` gets `None` for what does not belong to a
    /// single pool.
    pub(super) async fn open_anew(&self, is_opened: impl Fn(Option<&PoolName>) -> bool, now: Time) {
        let table = self.context.table;
        let opened = writes::update(
            table,
            async || table.cooldowns().await,
            |known| known?.opened(&is_opened, now),
        );
        let opened = match opened.await {
            Err(PassError::Read(ReadError::Unreadable { .. })) => {
                let anew = Before::Unreadable.change(Cooldowns::default(), now);
                table.commit(&[anew.into()]).await.map(drop).map_err(PassError::from)
            }
            opened => opened.map(drop),
        };
        if let Err(error) = opened {
            tracing::warn!(
                error = with_causes(&error),
                "failed to end the back-off of pools; the next attempt finds a fix"
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

/// Returns when a pause ends, by this function's clock: the passes compare it with clocks that
/// differ by seconds at most.
fn end(
    length: Option<Seconds>,
    settings: &[(Switch, To)],
    now: Time,
) -> Result<Option<Time>, AdminError> {
    let Some(length) = length else { return Ok(None) };
    let refused = |message: String| Err(AdminError::new(AdminErrorCode::BadRequest, message));
    if settings.iter().any(|(_, to)| *to == To::On) {
        return refused(
            "\"for_seconds\" is the length of a pause: every switch must be \"off\"".into(),
        );
    }
    if !(SHORTEST_PAUSE..=LONGEST_PAUSE).contains(&length) {
        return refused(format!(
            "a pause lasts between {SHORTEST_PAUSE} and {LONGEST_PAUSE}, not {length}; for a pause without an end, omit \"for_seconds\""
        ));
    }
    Ok(Some(now + length))
}

fn line(settings: &[(Switch, To)], off: &SwitchedOff) -> Audit {
    let what: Vec<String> = settings
        .iter()
        .map(|(switch, to)| format!("{switch} {}", if *to == To::Off { "off" } else { "on" }))
        .collect();
    let until = off.until.map(|until| format!(" until {until}")).unwrap_or_default();
    Audit {
        at: off.since,
        kind: AuditKind::Switched,
        subject: SUBJECT.to_owned(),
        by: off.by.clone(),
        why: format!("{}{until}: {}", what.join(", "), off.reason),
    }
}

fn answer(switches: &Switches, now: Time) -> Answer {
    Answer::Switch(SwitchedNow { switches: ShownSwitches::new(switches, now) })
}
