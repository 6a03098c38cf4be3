//! What GitHub's answers say of its entities, on record for all launch passes.

use muster_domain::ids::Entity;
use muster_domain::launch::cooldown::Cooldowns;
use muster_domain::launch::trouble::Asked;
use muster_domain::observation::ProviderError;
use muster_domain::time::Time;

use crate::causes::with_causes;
use crate::ports::{CommitError, ReadError, Table};
use crate::writes::{self, PassError};

/// Notes an answer of GitHub's about an entity. Written only when that changes what is known.
pub(crate) async fn note_answer<T: Table>(
    table: &T,
    entity: &Entity,
    asked: Asked,
    trouble: Option<&ProviderError>,
    now: Time,
) -> Result<(), PassError> {
    if matches!(trouble, Some(ProviderError::Unavailable(_))) {
        return Ok(());
    }
    note(table, |known| known.after_answer(entity, asked, trouble, now)).await
}

/// Changes the record that launch passes share, where `after` says so.
pub(crate) async fn note<T: Table>(
    table: &T,
    after: impl Fn(&Cooldowns) -> Option<Cooldowns>,
) -> Result<(), PassError> {
    let none = Cooldowns::default();
    let next = |known: Option<&Cooldowns>| after(known.unwrap_or(&none));
    match writes::update(table, async || table.cooldowns().await, next).await {
        Ok(_) => Ok(()),
        // Many have just heard the same, and each has written it.
        Err(PassError::Commit(CommitError::Conflict)) => {
            tracing::warn!("failed to note an answer of GitHub's: others were faster");
            Ok(())
        }
        // The pass itself does not need the record: a launch pass, which does, reports the damage.
        Err(PassError::Read(error @ ReadError::Unreadable { .. })) => {
            tracing::error!(error = with_causes(&error), "failed to note an answer of GitHub's");
            Ok(())
        }
        Err(error) => Err(error),
    }
}
