//! Sends notices after a sweep.

use muster_domain::causes::with_causes;
use muster_domain::stored::{Change, Stored};
use muster_domain::time::Time;

use crate::admin::known_findings;
use crate::context::{Context, Wired};
use crate::notices::{Message, Notices};
use crate::ports::{CommitError, Operations as _, Receiver, Table, Unavailable};
use crate::writes::{self, PassError};

/// Sends notices after a sweep.
pub struct Notifier<'a, W: Wired, R> {
    /// The ports and the settings.
    pub context: Context<'a, W>,
    /// The receiver.
    pub receiver: &'a R,
}

/// Why notices were not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoticeError {
    /// The tables do not answer.
    #[error(transparent)]
    Pass(#[from] PassError),
    /// The receiver does not answer, or its address could not be read.
    #[error(transparent)]
    Receiver(#[from] Unavailable),
}

impl<W: Wired<Table: Table>, R: Receiver> Notifier<'_, W, R> {
    /// Sends notifications of findings that started or ended. Returns how many were sent.
    ///
    /// A notification is recorded as sent after the call: if an invocation stops in between, it is
    /// sent twice, and none is lost. While a call is in progress, it is reserved for this
    /// invocation for a minute.
    ///
    /// # Errors
    /// If the tables or the receiver do not answer. The notifications are sent later, after a delay
    /// that grows.
    pub async fn tell(&self, now: Time) -> Result<usize, NoticeError> {
        let Some(address) = self.receiver.address(now).await? else { return Ok(0) };
        let Context { table, settings, .. } = self.context;
        let findings = known_findings(self.context, now).await.map_err(PassError::from)?;
        let stored = writes::renewed(table, table.notices().await, Notices::default, now).await?;
        let known = stored.as_deref().cloned().unwrap_or_default();
        let seen = known.seen(&findings, &address, now);
        let notices = seen.due(&findings, &settings.timings, now);
        let is_first = seen.is_news_to(&address);
        let has_news = (is_first || !notices.is_empty()) && seen.may_try(now);
        let next = if has_news { seen.tried(now) } else { seen };
        let stored = match self.keep(stored, next).await? {
            Some(stored) if has_news => stored,
            // A concurrent sweep sends them, or there is no news.
            _ => return Ok(0),
        };
        let message = Message { stack: settings.stack.clone(), at: now, is_first, notices };
        match self.receiver.post(&message).await {
            Ok(count) => {
                // The next sweep sends the rest.
                let sent = message.notices.get(..count).unwrap_or(&message.notices);
                let next = stored.told(sent, &address, now);
                self.keep(Some(stored), next).await?;
                tracing::info!(count = sent.len(), "sent notices");
                Ok(sent.len())
            }
            Err(error) => {
                let next = stored.failed(with_causes(&error).to_string(), now);
                self.keep(Some(stored), next).await?;
                Err(error.into())
            }
        }
    }

    /// Writes the changed record. Returns `None` if a concurrent sweep wrote it first.
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
