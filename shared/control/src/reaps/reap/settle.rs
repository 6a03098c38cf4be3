//! The end of a pass: stores the due time in the row and settles the message.

use muster_domain::instance::{Instance, State};
use muster_domain::stored::Stored;
use muster_domain::time::{Seconds, Time};

use super::{Reap, Settlement, Ticket};
use crate::context::Ports;
use crate::writes::PassError;

/// Maximum wait for which the message itself is hidden. Longer waits use the row and the sweep,
/// which cost no receive: SQS counts each return of a hidden message as a receive.
const MAX_VISIBILITY: Seconds = Seconds(900);

/// Number of receives after which the message is dropped and the sweep sends a new one, so that
/// only messages that cannot be processed reach the dead-letter queue.
pub(crate) const MAX_RECEIVES: u32 = 50;

impl<P: Ports> Reap<'_, P> {
    /// Returns whether no message of the row is live: it has none, or the one that it had would have
    /// arrived.
    pub(super) fn is_unattended(&self, instance: &Instance, now: Time) -> bool {
        let slack = self.context.settings.timings.sweep_slack_seconds;
        instance.wake_nonce().is_none() || instance.due_at().is_none_or(|due| due + slack <= now)
    }

    /// Stores the due time in the row, and deletes the message or hides it until then. Only one
    /// message per row may stay hidden: the one whose nonce is in the row, or any if no other was
    /// live when the pass began.
    pub(super) async fn settle(
        &self,
        before: &Stored<Instance>,
        mut next: Instance,
        ticket: &Ticket,
        is_unattended: bool,
        now: Time,
    ) -> Result<Settlement, PassError> {
        let wait = next.due_at().map_or(MAX_VISIBILITY, |due| wait_until(due, now));
        let mine = before.wake_nonce() == Some(ticket.nonce) || is_unattended;
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

/// Whether the instance is ending and blocked by something that a retry may resolve within seconds.
/// All other waits use the row: a sweep every minute is precise enough for them.
fn retries_soon(instance: &Instance) -> bool {
    matches!(instance.state(), State::PendingDelete | State::PendingForceDelete | State::Deleting)
}

/// Returns the time until `due`, at least one second: zero would return the message before the row
/// is read.
fn wait_until(due: Time, now: Time) -> Seconds {
    let millis = (due.as_millis() - now.as_millis()).max(0);
    Seconds(u32::try_from((millis + 999) / 1000).unwrap_or(u32::MAX).max(1))
}
