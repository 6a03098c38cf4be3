//! The end of a pass: the due time in the row, and what becomes of the message.

use muster_domain::instance::{Instance, State};
use muster_domain::stored::Stored;
use muster_domain::time::{Seconds, Time};

use super::{Reap, Settlement, Ticket};
use crate::context::Ports;
use crate::writes::PassError;

/// Waits up to this long are kept by the message itself; longer ones by the row and the sweep,
/// which costs no receive. SQS counts every hidden return as a receive.
const MAX_VISIBILITY: Seconds = Seconds(900);

/// After this many receives the message is let go, and the sweep sends a new one: only poison
/// is ever in the DLQ.
pub(crate) const MAX_RECEIVES: u32 = 50;

impl<P: Ports> Reap<'_, P> {
    /// The row gets its due time, and the message goes, or hides until then. Only one message a row
    /// may hide: the one whose nonce stands in the row, or any one when no other is alive.
    pub(super) async fn settle(
        &self,
        before: &Stored<Instance>,
        mut next: Instance,
        ticket: &Ticket,
        now: Time,
    ) -> Result<Settlement, PassError> {
        let wait = next.due_at().map_or(MAX_VISIBILITY, |due| wait_until(due, now));
        let chain_is_dead = before.wake_nonce().is_none()
            || before
                .due_at()
                .is_none_or(|due| due + self.context.settings.timings.sweep_slack_seconds <= now);
        let mine = before.wake_nonce() == Some(ticket.nonce) || chain_is_dead;
        let hides =
            retries_soon(&next) && mine && wait < MAX_VISIBILITY && ticket.receives < MAX_RECEIVES;
        let wake = match (hides, before.wake_nonce() == Some(ticket.nonce)) {
            (true, _) => Some(ticket.nonce),
            (false, true) => None,
            (false, false) => before.wake_nonce(),
        };
        next.set_wake(wake);
        self.commit(before, &next, Vec::new(), now).await?;
        Ok(if hides { Settlement::Hide(wait) } else { Settlement::Ack })
    }
}

/// On its way out, and kept from it by something that a retry may overcome in seconds. All other
/// waits are the row's, and the sweep's minute is exact enough for them.
fn retries_soon(instance: &Instance) -> bool {
    matches!(instance.state(), State::PendingDelete | State::PendingForceDelete | State::Deleting)
}

/// At least one second: zero would show the message again before the row is read.
fn wait_until(due: Time, now: Time) -> Seconds {
    let millis = (due.as_millis() - now.as_millis()).max(0);
    Seconds(u32::try_from((millis + 999) / 1000).unwrap_or(u32::MAX).max(1))
}
