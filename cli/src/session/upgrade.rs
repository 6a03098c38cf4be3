//! `upgrade`: what changes is shown before it is done.

use muster_control::admin::Request;
use muster_control::admin::answers::StackStatus;

use super::setup::overrides;
use super::{Session, World};
use crate::args::Upgrade;
use crate::failure::Failure;
use crate::setup::stack::{Change, call, cause, change_set, failed_at, told_by_sam};
use crate::views::setup as views;

/// Most pages of a change set.
const PAGES: usize = 10;
/// In how many looks a change that was ordered shows at the latest.
const MOVES: u32 = 10;

impl<W: World> Session<'_, W> {
    pub(super) async fn upgrade(&mut self, order: &Upgrade) -> Result<String, Failure> {
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
                    format!("There is no stack {stack} in {region}. To make it: muster setup");
                return Err(Failure::Unknown(said));
            }
        }
        let release = self.release(&order.from.to_string_lossy())?;
        // What runs may be too broken to say.
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
                told_by_sam(&ended.said)
            )));
        }
        let Some(set) = change_set(&ended.said) else {
            return Ok("Nothing changes: the stack is like that already.\n".to_owned());
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

    async fn changes(&mut self, set: &str) -> Result<Vec<Change>, Failure> {
        let mut changes = Vec::new();
        let mut token: Option<String> = None;
        for _ in 0..PAGES {
            let mut fields = vec![("ChangeSetName", set)];
            fields.extend(token.as_deref().map(|token| ("NextToken", token)));
            let answer = self.call(call("DescribeChangeSet", &fields)).await?;
            let result = &answer["DescribeChangeSetResult"];
            let all = result["Changes"].as_array().into_iter().flatten();
            changes.extend(all.map(Change::read));
            token = result["NextToken"].as_str().map(str::to_owned);
            if token.is_none() {
                break;
            }
        }
        Ok(changes)
    }

    /// A change set that is left behind is in nobody's way.
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
            let now = progress.told_of_changes();
            if now != told && !now.is_empty() {
                self.world.say(&format!("  now {now}"));
            }
            told = now;
            match self.deployed(stack).await? {
                Some(one) if one.is_moving() => looks = MOVES,
                // What it was before may be shown for a moment.
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
                format!("{said}\nThe stack is in {}: what was before serves on.", ended.status)
            }
            None => format!("The stack is in {}: {}", ended.status, ended.reason),
        }))
    }
}
