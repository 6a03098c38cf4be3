//! Updates the record that launch passes share with what other passes found out.

use muster_domain::causes::with_causes;
use muster_domain::ids::Entity;
use muster_domain::launch::record::Cooldowns;
use muster_domain::launch::record::trouble::RequestKind;
use muster_domain::provider::ProviderError;
use muster_domain::time::Time;

use crate::ports::{CommitError, ReadError, Table};
use crate::writes::{self, PassError};

/// Records the outcome of a GitHub call for an entity. Writes only if the outcome is new.
pub(crate) async fn note_answer<T: Table>(
    table: &T,
    entity: &Entity,
    asked: RequestKind,
    trouble: Option<&ProviderError>,
    now: Time,
) -> Result<(), PassError> {
    if matches!(trouble, Some(ProviderError::Unavailable(_))) {
        return Ok(());
    }
    note(table, |known| known.after_answer(entity, asked, trouble, now)).await
}

/// Updates the record that launch passes share, if `after` returns a new one.
pub(crate) async fn note<T: Table>(
    table: &T,
    after: impl Fn(&Cooldowns) -> Option<Cooldowns>,
) -> Result<(), PassError> {
    let none = Cooldowns::default();
    let next = |known: Option<&Cooldowns>| after(known.unwrap_or(&none));
    match writes::update(table, async || table.cooldowns().await, next).await {
        Ok(_) => Ok(()),
        // Many concurrent passes record an equal finding.
        Err(PassError::Commit(CommitError::Conflict)) => {
            tracing::warn!(
                "failed to record a finding for launch passes: concurrent writes conflicted"
            );
            Ok(())
        }
        // Only launch passes need the record, and they report the damage.
        Err(PassError::Read(error @ ReadError::Unreadable { .. })) => {
            tracing::error!(
                error = with_causes(&error),
                "failed to record a finding for launch passes"
            );
            Ok(())
        }
        Err(error) => Err(error),
    }
}
