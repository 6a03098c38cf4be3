//! Checks with a cheap call whether entities that denied us access still do.

use muster_domain::ids::Entity;
use muster_domain::launch::record::trouble::{RequestKind, Trouble, TroubleScope, question_due};
use muster_domain::time::Time;

use super::{Recover, somewhere};
use crate::context::Wired;
use crate::health::note_answer;
use crate::ports::{CommitError, Github, Operations as _, Queue, Registrar, Table};
use crate::writes::PassError;

/// Cursor of the last such check.
const REFUSED: &str = "refused";
/// Maximum number of entities checked per run.
const MAX_REFUSED: usize = 20;
/// A runner name that does not exist: our names end in a number.
const NOBODY: &str = "muster-asks";

impl<W: Wired<Table: Table, Queue: Queue, Github: Github>> Recover<'_, W> {
    /// Checks whether GitHub still denies us access to these entities. Their jobs wait, and a call
    /// is cheaper than a machine that fails to register. Any call works; this one looks up a runner
    /// that does not exist.
    pub(super) async fn ask_again(&self, troubles: &[Trouble], now: Time) -> Result<(), PassError> {
        let entity = |one: &'_ Trouble| match &one.scope {
            TroubleScope::Entity(entity) => Some(entity.clone()),
            _ => None,
        };
        let mut refused: Vec<Entity> = troubles.iter().filter_map(entity).collect();
        if refused.is_empty() {
            return Ok(());
        }
        let last = self.context.table.cursor(REFUSED).await?;
        if question_due(troubles, last).is_none_or(|due| now < due) {
            return Ok(());
        }
        // Before the call: one that hangs must not be repeated every minute.
        match self.context.table.move_cursor(REFUSED, last, now).await {
            Ok(()) => {}
            Err(CommitError::Conflict) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let first = somewhere(refused.len(), now);
        refused.rotate_left(first);
        for entity in refused.into_iter().take(MAX_REFUSED) {
            if self.is_out_of_time() {
                return Ok(());
            }
            let registrar = Registrar { entity: entity.clone(), installation: None };
            let answer = self.context.github.runner_named(&registrar, NOBODY).await;
            note_answer(
                self.context.table,
                &entity,
                RequestKind::Other,
                answer.as_ref().err(),
                now,
            )
            .await?;
        }
        Ok(())
    }
}
