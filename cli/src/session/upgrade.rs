//! `upgrade`: shows the changes and applies them after confirmation.

use muster_api::Request;
use muster_api::answers::StackStatus;

use super::Session;
use super::setup::overrides;
use crate::args::UpgradeArgs;
use crate::failure::Failure;
use crate::setup::stack::{ResourceChange, call, cause, change_set, failed_at, sam_error};
use crate::views::setup as views;
use crate::world::{Cloud, Console, Workstation};

/// Maximum number of pages of a change set.
const PAGES: usize = 10;
/// Number of checks within which an ordered change must show.
const MOVES: u32 = 10;

impl<W: Cloud + Console + Workstation> Session<'_, W> {
    pub(super) async fn upgrade(&mut self, order: &UpgradeArgs) -> Result<String, Failure> {
        self.again = "muster upgrade";
        self.world.stage("what changes");
        let stack = self.world.stack().await?;
        match self.deployed(&stack).await? {
            Some(one) if one.is_there() => {}
            Some(one) => {
                let said = format!("Stack {stack} is in {}. Why: muster doctor", one.status);
                return Err(Failure::Ended(said));
            }
            None => {
                let region = self.world.region();
                let said =
                    format!("There is no stack {stack} in {region}. To create it: muster setup");
                return Err(Failure::Unknown(said));
            }
        }
        let release = self.release(&order.from.to_string_lossy())?;
        // The running release may be too broken to answer.
        let runs = self.asked::<StackStatus>("status", Request::Status { github: false }).await;
        let runs = runs.map(|status| status.overview.release.into_owned()).ok();
        self.sam(
            &stack,
            &release,
            "--no-execute-changeset",
            &overrides(&order.parameters, &release),
        )?;
        let ended = loop {
            match self.world.ended()? {
                Some(ended) => break ended,
                None => self.pause().await?,
            }
        };
        if !ended.is_good {
            return Err(Failure::Ended(format!(
                "Nothing was changed.\n{}",
                sam_error(&ended.said)
            )));
        }
        let Some(set) = change_set(&ended.said) else {
            return Ok("No changes: the stack is already up to date.\n".to_owned());
        };
        let changes = self.changes(&set).await?;
        let page =
            views::changes(&changes, runs.as_deref(), release.version.as_deref(), self.screen);
        if order.dry_run {
            self.dropped(&set).await;
            return Ok(page);
        }
        self.world.show(page.trim_end());
        if let Err(failure) = self.agreed(order.yes, "Apply this?") {
            self.dropped(&set).await;
            return Err(failure);
        }
        self.world.stage("deployment");
        self.applied(&stack, &set).await
    }

    async fn changes(&mut self, set: &str) -> Result<Vec<ResourceChange>, Failure> {
        let mut changes = Vec::new();
        let mut token: Option<String> = None;
        for _ in 0..PAGES {
            let mut fields = vec![("ChangeSetName", set)];
            fields.extend(token.as_deref().map(|token| ("NextToken", token)));
            let answer = self.call(call("DescribeChangeSet", &fields)).await?;
            let result = &answer["DescribeChangeSetResult"];
            let all = result["Changes"].as_array().into_iter().flatten();
            changes.extend(all.map(ResourceChange::read));
            token = result["NextToken"].as_str().map(str::to_owned);
            if token.is_none() {
                break;
            }
        }
        Ok(changes)
    }

    /// Deletes a change set. One that is left over does no harm.
    async fn dropped(&mut self, set: &str) {
        let _ = self.call(call("DeleteChangeSet", &[("ChangeSetName", set)])).await;
    }

    async fn applied(&mut self, stack: &str, set: &str) -> Result<String, Failure> {
        self.call(call("ExecuteChangeSet", &[("ChangeSetName", set)])).await?;
        let (mut told, mut looks) = (String::new(), 0);
        let ended = loop {
            self.pause().await?;
            looks += 1;
            let (_, progress) = self.progress(stack).await?;
            let now = progress.in_progress();
            if now != told && !now.is_empty() {
                self.world.say(&format!("  now {now}"));
            }
            told = now;
            match self.deployed(stack).await? {
                Some(one) if one.is_moving() => looks = MOVES,
                // The previous status may be shown for a moment.
                Some(_) if looks < MOVES => {}
                ended => break ended.unwrap_or_default(),
            }
        };
        if ended.status == "UPDATE_COMPLETE" {
            return Ok(format!("✓ stack {stack} is upgraded\n"));
        }
        let events = self.events(&ended.id).await;
        Err(Failure::Ended(match cause(&events) {
            Some((resource, reason)) => {
                let said = failed_at(&resource, &reason);
                format!(
                    "{said}\nThe stack is in {}: the previous version keeps running.",
                    ended.status
                )
            }
            None => format!("The stack is in {}: {}", ended.status, ended.reason),
        }))
    }
}
