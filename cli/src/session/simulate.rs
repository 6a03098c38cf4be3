//! `simulate`: estimates the costs and waits of different pools.

use muster_api::answers::{LineList, Overview, ShownPools};
use muster_api::{LinesRequest, PoolsRequest, Request};
use muster_domain::causes::with_causes;
use muster_domain::pool::limits::Scope;
use muster_domain::pool_file::{PoolFile, Problem};
use muster_domain::usage::Line;
use serde_json::{Value, json};

use super::{Session, pretty};
use crate::args::{SimulateArgs, Since};
use crate::failure::Failure;
use crate::money::thousands;
use crate::simulate::{Simulation, SimulationInput, owner, read_file};
use crate::views;
use crate::words::count;
use crate::world::{Cloud, Console, Workstation};

/// Number of lines to read before the first progress message.
const IN_SILENCE: usize = 5_000;

impl<W: Cloud + Console + Workstation> Session<'_, W> {
    pub(super) async fn simulate(&mut self, order: SimulateArgs) -> Result<String, Failure> {
        let SimulateArgs { since, lines, pools, trial, pool, seed } = order;
        // Reject invalid YAML before anything is read.
        let new = pools.as_ref().map(|path| path.to_string_lossy().into_owned());
        let new = new.map(|path| self.yaml(&path).map(|value| (path, value))).transpose()?;
        let lines = match &lines {
            Some(path) => self.lines_of(&path.to_string_lossy())?,
            None => self.lines_since(since).await?,
        };
        if !lines.iter().any(|line| line.job.is_some()) {
            return Err(Failure::Unknown("No jobs ended in this period.".to_owned()));
        }
        let owner = owner(&lines);
        let read = |name: &str, value: &Value| {
            read_file(value, owner.as_ref()).map_err(|problems| refused(name, problems))
        };
        let new = new.map(|(path, value)| read(&path, &value).map(|file| (path, file)));
        let new = new.transpose()?;
        let request = Request::Pools(PoolsRequest::default());
        let shown: ShownPools = self.asked("pools", request).await?;
        let in_force = read("the pool file in force", &shown.file)?;
        let most = self.most_machines(&in_force).await?;
        let replays =
            1 + usize::from(new.is_some()) + trial.as_ref().map_or(0, |it| it.values.len());
        let of = count(replays, "replay");
        self.world.say(&format!("{of} of {} lines …", thousands(lines.len() as u64)));
        let applied_at = shown.applied_at;
        let lines = lines.as_slice();
        let new_lines = None;
        let question = SimulationInput {
            lines,
            in_force,
            most,
            applied_at,
            new,
            new_lines,
            trial,
            pool,
            seed,
        };
        let told = question.answer().map_err(Failure::Usage)?;
        let page = match self.json {
            true => pretty(&json!(told)),
            false => views::simulate::page(&told, self.screen),
        };
        self.checked(&told, page)
    }

    /// Returns the page, unless the simulator broke an invariant.
    pub(super) fn checked(&mut self, told: &Simulation, page: String) -> Result<String, Failure> {
        if told.broken.is_empty() {
            return Ok(page);
        }
        self.world.print(&page);
        let what = "The simulator broke one of its invariants: do not trust these figures. This is \
            a bug in Muster; please report it with the seed.";
        Err(Failure::Ended(what.to_owned()))
    }

    fn yaml(&mut self, path: &str) -> Result<Value, Failure> {
        let text = self.world.read_file(path)?;
        muster_api::yaml::read(&text).map_err(|error| {
            refused(path, vec![Problem { path: String::new(), what: with_causes(&error) }])
        })
    }

    /// Returns the limit of the stack's parameter `MaxMachines`, which a pool file cannot raise.
    pub(super) async fn most_machines(
        &mut self,
        in_force: &PoolFile,
    ) -> Result<Option<u32>, Failure> {
        let told: Overview = self.asked("overview", Request::Overview).await?;
        let most = told.limits.iter().find(|limit| limit.of == Scope::Stack);
        // The overview returns the lower of the two limits. If it is the file's, a different file
        // may raise it.
        let is_parameter = |most: &u32| in_force.limits.stack != Some(*most);
        Ok(most.and_then(|limit| limit.max).filter(is_parameter))
    }

    /// Reads lines written by `muster costs --rows --json`.
    fn lines_of(&mut self, path: &str) -> Result<Vec<Line>, Failure> {
        let text = self.world.read_file(path)?;
        let rows = (1..).zip(text.lines()).filter(|(_, row)| !row.trim().is_empty());
        let line = |(number, row): (usize, &str)| {
            serde_json::from_str(row).map_err(|error| {
                let how = "expected one JSON object per line, as written by muster costs --rows \
                    --json";
                Failure::Usage(format!("{path}, line {number}: {error}; {how}"))
            })
        };
        rows.map(line).collect()
    }

    async fn lines_since(&mut self, since: Since) -> Result<Vec<Line>, Failure> {
        let mut lines = Vec::new();
        self.read_usage(since, |found| lines.extend(found)).await?;
        Ok(lines)
    }

    /// Reads lines page by page.
    pub(super) async fn read_usage(
        &mut self,
        since: Since,
        mut add: impl FnMut(Vec<Line>),
    ) -> Result<(), Failure> {
        let since = Some(since.day(self.world.now()));
        let (mut page, mut read, mut told): (_, usize, usize) = (None, 0, 0);
        loop {
            let request = LinesRequest { since, until: None, page };
            let LineList { lines: found, unreadable, next } =
                self.asked("lines", Request::Lines(request)).await?;
            for key in unreadable {
                self.world.say(&format!("{key} is skipped: a different release wrote it."));
            }
            read += found.len();
            add(found);
            if read >= told + IN_SILENCE {
                told = read;
                self.world.say(&format!("{} lines so far …", thousands(told as u64)));
            }
            page = next;
            if page.is_none() {
                return Ok(());
            }
        }
    }
}

pub(super) fn refused(name: &str, problems: Vec<Problem>) -> Failure {
    let message = format!("{name} has {}", count(problems.len(), "error"));
    Failure::Refused { code: "bad_pool_file".to_owned(), message, problems }
}
