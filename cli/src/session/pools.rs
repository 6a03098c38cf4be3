//! `pools`: shows and changes the pools in force.

use muster_api::answers::{AppliedPools, PoolsHistory, ShownPools};
use muster_api::{PoolsRequest, Request, VERSION};
use muster_domain::causes::with_causes;
use muster_domain::pool_file::{self, Answers, Problem};
use serde_json::{Value, json};

use super::{Session, World, pretty, read};
use crate::args::{Order, Pools};
use crate::failure::Failure;
use crate::views;
use crate::words::count;

impl<W: World> Session<'_, W> {
    pub(super) async fn pools(&mut self, command: Option<Pools>) -> Result<String, Failure> {
        match command.unwrap_or(Pools::Show) {
            Pools::Show => self.pools_show().await,
            Pools::Check { file } => self.pools_check(&file.to_string_lossy()),
            Pools::Diff { file } => {
                let request = self.of_file(&file.to_string_lossy())?;
                self.pools_diff(request).await
            }
            Pools::Apply { file, order, yes } => {
                let request = self.of_file(&file.to_string_lossy())?;
                self.pools_apply(request, &order, yes).await
            }
            Pools::Edit { order, yes } => self.pools_edit(&order, yes).await,
            Pools::History => {
                let request =
                    Request::Pools(PoolsRequest { history: true, ..PoolsRequest::default() });
                self.shown::<PoolsHistory>("pools", request, views::pools::history).await
            }
            Pools::Restore { version, order, yes } => {
                let restore = Some(version);
                let request = PoolsRequest { restore, ..PoolsRequest::default() };
                self.pools_apply(request, &order, yes).await
            }
        }
    }

    fn of_file(&mut self, path: &str) -> Result<PoolsRequest, Failure> {
        let file = Some(self.world.read_file(path)?);
        Ok(PoolsRequest { file, ..PoolsRequest::default() })
    }

    /// Prints the file to stdout, so that it can be saved, and its version to stderr.
    async fn pools_show(&mut self) -> Result<String, Failure> {
        let answer = self.answer(&json!(Request::Pools(PoolsRequest::default()))).await?;
        if self.json {
            return Ok(pretty(&answer));
        }
        let shown: ShownPools = read("pools", answer)?;
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

    async fn pools_diff(&mut self, request: PoolsRequest) -> Result<String, Failure> {
        let request = Request::Pools(PoolsRequest { dry_run: true, ..request });
        let page = |told: &AppliedPools, _, screen| views::pools::changes(told, screen);
        self.shown("pools", request, page).await
    }

    async fn dry_run(&mut self, request: &PoolsRequest) -> Result<AppliedPools, Failure> {
        let request = PoolsRequest { dry_run: true, ..request.clone() };
        self.asked("pools", Request::Pools(request)).await
    }

    async fn pools_apply(
        &mut self,
        request: PoolsRequest,
        order: &Order,
        yes: bool,
    ) -> Result<String, Failure> {
        let told = self.dry_run(&request).await?;
        self.pools_change(request, &told, order, yes).await
    }

    /// Shows the difference, asks for confirmation, and applies it.
    async fn pools_change(
        &mut self,
        request: PoolsRequest,
        told: &AppliedPools,
        order: &Order,
        yes: bool,
    ) -> Result<String, Failure> {
        self.world.show(views::pools::changes(told, self.screen).trim_end());
        // The first file is applied even if it equals the stack's parameters.
        if !told.diff.is_empty() || told.pools_version == 0 {
            self.agreed(yes, "Apply this?")?;
        }
        let Order { reason, by } = order.clone();
        let request = json!(Request::Pools(PoolsRequest { reason, by, ..request }));
        let answer = self.answer(&request).await?;
        if self.json {
            return Ok(pretty(&answer));
        }
        Ok(views::pools::applied(&read("pools", answer)?, self.screen))
    }

    /// Edits the file until it is valid or the user stops. The text is then printed, so that it is not lost.
    async fn pools_edit(&mut self, order: &Order, yes: bool) -> Result<String, Failure> {
        if !self.world.is_attended() {
            let message = "Cannot open an editor without a terminal. Use muster pools show and \
                muster pools apply FILE.";
            return Err(Failure::Usage(message.to_owned()));
        }
        let answer: Value = self.answer(&json!(Request::Pools(PoolsRequest::default()))).await?;
        let shown: ShownPools = read("pools", answer)?;
        let before = views::pools::file(&shown);
        let mut text = before.clone();
        loop {
            let saved = self.world.edit(&text)?;
            text = match saved {
                Some(saved) if saved.trim() != before.trim() => saved,
                _ => return Err(Failure::NotConfirmed),
            };
            let request = PoolsRequest { file: Some(text.clone()), ..PoolsRequest::default() };
            let outcome = match self.dry_run(&request).await {
                Ok(told) if told.pools_version != shown.pools_version => Err(Failure::Usage(
                    format!("Version {} was applied in the meantime.", told.pools_version),
                )),
                Ok(told) => self.pools_change(request, &told, order, yes).await,
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
