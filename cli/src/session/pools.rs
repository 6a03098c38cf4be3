//! `pools`: shows and changes the pools in force.

use muster_api::answers::{AppliedPools, PoolsHistory, ShownPools};
use muster_api::{PoolsRequest, Request, VERSION};
use muster_domain::causes::with_causes;
use muster_domain::pool_file::{self, Answers, Problem};
use serde_json::{Value, json};

use super::{Session, pretty};
use crate::args::{Attribution, PoolsCommand};
use crate::failure::{Failure, parsed};
use crate::orders::Order;
use crate::orders::plan::OrderPlan;
use crate::views;
use crate::words::count;
use crate::world::{Cloud, Console, Workstation};

impl<W: Cloud + Console + Workstation> Session<'_, W> {
    pub(super) async fn pools(&mut self, command: Option<PoolsCommand>) -> Result<String, Failure> {
        match command.unwrap_or(PoolsCommand::Show) {
            PoolsCommand::Show => self.pools_show().await,
            PoolsCommand::Check { file } => self.pools_check(&file.to_string_lossy()),
            PoolsCommand::Diff { file } => self.pools_diff(&file.to_string_lossy()).await,
            PoolsCommand::Apply { file, attribution, yes } => {
                let file = self.world.read_file(&file.to_string_lossy())?;
                self.ordered(&Order::Apply { file }, &attribution, yes, None).await
            }
            PoolsCommand::Edit { attribution, yes } => self.pools_edit(&attribution, yes).await,
            PoolsCommand::History => {
                let request =
                    Request::Pools(PoolsRequest { history: true, ..PoolsRequest::default() });
                self.shown::<PoolsHistory>("pools", request, views::pools::history).await
            }
            PoolsCommand::Restore { version, attribution, yes } => {
                self.ordered(&Order::Restore { version }, &attribution, yes, None).await
            }
        }
    }

    /// Prints the file to stdout, so that it can be saved, and its version to stderr.
    async fn pools_show(&mut self) -> Result<String, Failure> {
        let answer = self.answer(&json!(Request::Pools(PoolsRequest::default()))).await?;
        if self.json {
            return Ok(pretty(&answer));
        }
        let shown: ShownPools = parsed("pools", answer)?;
        self.world.say(&views::pools::about(&shown, self.world.now()));
        Ok(views::pools::file(&shown))
    }

    /// Checks a file with the function's own rules, offline.
    fn pools_check(&mut self, path: &str) -> Result<String, Failure> {
        let text = self.world.read_file(path)?;
        let wrong = |problems: Vec<Problem>| Failure::Refused {
            code: "bad_pool_file".to_owned(),
            message: format!("{path} has {}", count(problems.len(), "error")),
            problems,
        };
        let file = muster_api::yaml::read(&text).map_err(|error| {
            wrong(vec![Problem { path: String::new(), what: with_causes(&error) }])
        })?;
        let open = match pool_file::read(file.clone(), &Answers::default()) {
            Ok(_) => Vec::new(),
            Err(unread) if unread.problems.is_empty() => unread.open.into_iter().collect(),
            Err(unread) => return Err(wrong(unread.problems)),
        };
        if self.json {
            let open: Vec<String> = open.iter().map(views::pools::asked).collect();
            return Ok(pretty(&json!({ "version": VERSION, "ok": true, "open": open })));
        }
        Ok(views::pools::checked(path, &file, &open, self.screen))
    }

    async fn pools_diff(&mut self, path: &str) -> Result<String, Failure> {
        let file = Some(self.world.read_file(path)?);
        let request =
            Request::Pools(PoolsRequest { file, dry_run: true, ..PoolsRequest::default() });
        let page = |told: &AppliedPools, _, screen| views::pools::changes(told, screen);
        self.shown("pools", request, page).await
    }

    /// Edits the file until it is valid or the user stops. The text is then printed, so that it is not lost.
    async fn pools_edit(
        &mut self,
        attribution: &Attribution,
        yes: bool,
    ) -> Result<String, Failure> {
        if !self.world.is_attended() {
            let message = "Cannot open an editor without a terminal. Use muster pools show and \
                muster pools apply FILE.";
            return Err(Failure::Usage(message.to_owned()));
        }
        let answer: Value = self.answer(&json!(Request::Pools(PoolsRequest::default()))).await?;
        let shown: ShownPools = parsed("pools", answer)?;
        let before = views::pools::file(&shown);
        let mut text = before.clone();
        loop {
            let saved = self.world.edit(&text)?;
            text = match saved {
                Some(saved) if saved.trim() != before.trim() => saved,
                _ => return Err(Failure::NotConfirmed),
            };
            let order = Order::Apply { file: text.clone() };
            let outcome = match self.plan(&order, attribution.by.as_deref(), None).await {
                Ok(OrderPlan::Pools(told)) if told.pools_version != shown.pools_version => {
                    let version = told.pools_version;
                    let message = format!("Version {version} was applied in the meantime.");
                    Err(Failure::Usage(message))
                }
                Ok(plan) => self.ordered(&order, attribution, yes, Some(plan)).await,
                Err(failure) => {
                    self.world.say(&failure.sentence());
                    if self.world.confirm("Edit again?")? {
                        continue;
                    }
                    Err(Failure::NotConfirmed)
                }
            };
            if outcome.is_err() {
                self.world.say(&format!("Your text:\n\n{text}"));
            }
            return outcome;
        }
    }
}
