//! Entities that refuse us: a cheap call shows whether they still do.

use muster_domain::ids::Entity;
use muster_domain::launch::trouble::{Asked, Trouble, TroubleScope, question_due};
use muster_domain::time::Time;

use super::{Recover, somewhere};
use crate::context::Wired;
use crate::health::note_answer;
use crate::ports::{CommitError, Github, Operations as _, Queue, Registrar, Table};
use crate::writes::PassError;

/// Cursor of the last question to entities that refuse us.
const REFUSED: &str = "refused";
/// Most such entities that one run asks.
const MAX_REFUSED: usize = 20;
/// No runner has this name: those of ours end in a number.
const NOBODY: &str = "muster-asks";

impl<W: Wired<Table: Table, Queue: Queue, Github: Github>> Recover<'_, W> {
    /// Whether GitHub still refuses us. Its jobs wait, and a question is cheaper than a machine
    /// that finds it out. Any will do: here it is for a runner that there is not.
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
        // Before GitHub is asked: one question that hangs must not be repeated each minute.
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
            note_answer(self.context.table, &entity, Asked::Other, answer.as_ref().err(), now)
                .await?;
        }
        Ok(())
    }
}
