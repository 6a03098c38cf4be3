//! `simulate`: the last days once more, under pools that may be others.

use std::num::NonZeroUsize;
use std::thread;

use muster_control::Settings;
use muster_control::admin::answers::{LineList, Overview, ShownPools};
use muster_control::admin::{LinesRequest, PoolsRequest, Request};
use muster_control::causes::with_causes;
use muster_domain::pool::limits::Scope;
use muster_domain::usage::{Kind, Line};
use muster_sim::replay::{Outcome, Record};
use serde_json::Value;

use super::{Session, World, pretty};
use crate::args::Simulate;
use crate::failure::Failure;
use crate::simulate::{Trial, changed, settings};
use crate::views::simulate as views;

/// Each by itself, as many at once as there are processors.
fn tried(record: &Record, named: Vec<(Settings, String)>, seed: u64) -> Result<Vec<Trial>, String> {
    let at_once = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let mut trials = Vec::new();
    for some in named.chunks(at_once) {
        let outcomes: Vec<Result<Outcome, String>> = thread::scope(|scope| {
            let one = |(settings, _): &(Settings, String)| {
                let settings = settings.clone();
                scope.spawn(move || record.replay(&settings, seed))
            };
            let running: Vec<_> = some.iter().map(one).collect();
            let crashed = |_| Err("the simulator stopped".to_owned());
            running.into_iter().map(|one| one.join().unwrap_or_else(crashed)).collect()
        });
        for ((_, name), outcome) in some.iter().zip(outcomes) {
            trials.push(Trial { name: name.clone(), outcome: outcome? });
        }
    }
    Ok(trials)
}

/// How many lines there are between two words of progress.
const TOLD_EACH: usize = 5_000;

impl<W: World> Session<'_, W> {
    pub(super) async fn simulate(&mut self, order: &Simulate) -> Result<String, Failure> {
        let wished = order.wished().map_err(Failure::Usage)?;
        let lines = match &order.lines {
            Some(path) => self.lines_of_file(&path.to_string_lossy())?,
            None => self.lines_since(order).await?,
        };
        let mut record = Record::new(&lines);
        if record.jobs() == 0 {
            return Err(Failure::Unknown(
                "No job of a pool has ended in this time: there is nothing to simulate.".to_owned(),
            ));
        }
        let shown: ShownPools =
            self.asked("pools", Request::Pools(PoolsRequest::default())).await?;
        let most = self.most_machines().await?;
        let in_force = self.pools_of(&shown.file, &lines, most, "the pool file in force")?;
        self.world.say(&format!("{} jobs: the pools as they are", record.jobs()));
        let broken = |why: String| Failure::Unknown(format!("The simulation broke a rule: {why}"));
        record.calibrate(&in_force, order.seed).map_err(broken)?;
        let mut trials = vec![
            Trial { name: "as it was".to_owned(), outcome: record.real.clone() },
            Trial {
                name: "simulated".to_owned(),
                outcome: record.replay(&in_force, order.seed).map_err(broken)?,
            },
        ];
        let (name, file) = match &order.pools {
            Some(path) => self.file_of(&path.to_string_lossy())?,
            None => ("pools".to_owned(), shown.file),
        };
        if order.pools.is_some() {
            let own = self.pools_of(&file, &lines, most, &name)?;
            self.world.say(&name);
            let outcome = record.replay(&own, order.seed).map_err(broken)?;
            trials.push(Trial { name, outcome });
        }
        let mut named = Vec::new();
        for wish in &wished {
            let name = wish.to_string();
            let file = changed(&file, order.pool.as_ref(), wish).map_err(Failure::Usage)?;
            named.push((self.pools_of(&file, &lines, most, &name)?, name));
        }
        if let (Some((_, first)), Some((_, last))) = (named.first(), named.last()) {
            self.world.say(&format!("{first} to {last}"));
        }
        trials.extend(tried(&record, named, order.seed).map_err(broken)?);
        if self.json {
            return Ok(pretty(&views::json(&trials)));
        }
        Ok(views::page(&trials, self.screen))
    }

    fn pools_of(
        &self,
        file: &Value,
        lines: &[Line],
        most: Option<u32>,
        name: &str,
    ) -> Result<Settings, Failure> {
        settings(file, lines, most).map_err(|why| Failure::Usage(format!("{name}: {why}")))
    }

    /// What the stack's own parameter allows, whatever a pool file says.
    async fn most_machines(&mut self) -> Result<Option<u32>, Failure> {
        let told: Overview = self.asked("overview", Request::Overview).await?;
        Ok(told.limits.iter().find(|limit| limit.of == Scope::Stack).and_then(|limit| limit.max))
    }

    fn file_of(&mut self, path: &str) -> Result<(String, Value), Failure> {
        let text = self.world.read_file(path)?;
        let value = muster_yaml::read(&text)
            .map_err(|error| Failure::Usage(format!("{path}: {}", with_causes(&error))))?;
        Ok((path.to_owned(), value))
    }

    /// What `muster costs --rows --json` has written.
    fn lines_of_file(&mut self, path: &str) -> Result<Vec<Line>, Failure> {
        let text = self.world.read_file(path)?;
        let line = |(number, text): (usize, &str)| {
            serde_json::from_str(text)
                .map_err(|error| Failure::Usage(format!("{path}: line {}: {error}", number + 1)))
        };
        text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()).map(line).collect()
    }

    async fn lines_since(&mut self, order: &Simulate) -> Result<Vec<Line>, Failure> {
        let since = Some(order.since.day(self.world.now()));
        let (mut lines, mut page, mut told) = (Vec::new(), None, 0);
        loop {
            let request = LinesRequest { since, until: None, page };
            let found: LineList = self.asked("lines", Request::Lines(request)).await?;
            lines.extend(found.lines.into_iter().filter(|line| line.kind != Kind::Orphan));
            if lines.len() / TOLD_EACH > told {
                told = lines.len() / TOLD_EACH;
                self.world.say(&format!("{} lines of usage so far", lines.len()));
            }
            page = found.next;
            if page.is_none() {
                return Ok(lines);
            }
        }
    }
}
