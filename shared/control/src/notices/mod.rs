//! Notices: what somebody should look at is told to one address, once when it begins and once when
//! it is over.

mod message;
mod record;

use muster_domain::stored::{Change, Stored};
use muster_domain::time::Time;

pub use self::message::{Message, Notice, What};
pub use self::record::{Notices, Standing};
use crate::admin::wanted;
use crate::causes::with_causes;
use crate::context::{Context, Wired};
use crate::ports::{CommitError, Operations as _, Receiver, Table, Unavailable};
use crate::writes::PassError;

/// Tells notices, behind a sweep.
pub struct Notifier<'a, W: Wired, R> {
    /// The world, and the stack.
    pub context: Context<'a, W>,
    /// Who is told.
    pub receiver: &'a R,
}

/// Why nothing was told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoticeError {
    /// The tables do not answer.
    #[error(transparent)]
    Pass(#[from] PassError),
    /// The receiver does not, or its address cannot be had.
    #[error(transparent)]
    Receiver(#[from] Unavailable),
}

impl<W: Wired<Table: Table>, R: Receiver> Notifier<'_, W, R> {
    /// Tells what has begun and what is over, of all that somebody should look at now. How many
    /// notices that were.
    ///
    /// What is told is marked as told afterwards: who stops in between tells it twice, and loses
    /// none. One that is being told belongs to this invocation for a minute.
    ///
    /// # Errors
    /// When tables or receiver do not answer: it is told later, after a wait that grows.
    pub async fn tell(&self, now: Time) -> Result<usize, NoticeError> {
        let Some(address) = self.receiver.address(now).await? else { return Ok(0) };
        let Context { table, settings, .. } = self.context;
        let wants = wanted(self.context, now).await.map_err(PassError::from)?;
        let stored = table.notices().await.map_err(PassError::from)?;
        let known = stored.as_deref().cloned().unwrap_or_default();
        let seen = known.seen(&wants, &address, now);
        let notices = seen.due(&wants, &settings.timings, now);
        let is_first = seen.is_news_to(&address);
        let has_news = (is_first || !notices.is_empty()) && seen.may_try(now);
        let next = if has_news { seen.tried(now) } else { seen };
        let stored = match self.keep(stored, next).await? {
            Some(stored) if has_news => stored,
            // Another sweep does it, or there is nothing to tell.
            _ => return Ok(0),
        };
        let message = Message { stack: settings.stack.clone(), at: now, is_first, notices };
        match self.receiver.post(&message).await {
            Ok(count) => {
                // The next sweep sends the others.
                let sent = message.notices.get(..count).unwrap_or(&message.notices);
                let next = stored.told(sent, &address, now);
                self.keep(Some(stored), next).await?;
                tracing::info!(count = sent.len(), "told notices");
                Ok(sent.len())
            }
            Err(error) => {
                let next = stored.failed(with_causes(&error).to_string(), now);
                self.keep(Some(stored), next).await?;
                Err(error.into())
            }
        }
    }

    /// Writes what has changed. None where another sweep was faster.
    async fn keep(
        &self,
        stored: Option<Stored<Notices>>,
        next: Notices,
    ) -> Result<Option<Stored<Notices>>, PassError> {
        let is_same = stored.as_ref().is_some_and(|stored| *stored.record() == next);
        if is_same {
            return Ok(stored);
        }
        let change = Change::from_read(stored.as_ref(), next);
        match self.context.table.commit(&[change.clone().into()]).await {
            Ok(committed) => Ok(Some(change.stored(&committed))),
            Err(CommitError::Conflict) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests;
