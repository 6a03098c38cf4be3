//! `costs` and `waits`.

use std::path::Path;

use muster_api::answers::{CostsList, LineList, WaitsList};
use muster_api::{CostsRequest, LinesRequest, Request, WaitsRequest};
use muster_domain::causes::with_causes;
use muster_domain::ids::PoolName;
use muster_domain::usage::{Date, Line, OwnPrices};
use serde_json::json;

use super::{Session, pretty};
use crate::args::{CostsArgs, Since};
use crate::display::escaped_json;
use crate::failure::{Failure, parsed};
use crate::views;
use crate::world::{Cloud, Console, Workstation};

/// Maximum number of lines shown to a person.
const MOST_LINES: usize = 10_000;

impl<W: Cloud + Console + Workstation> Session<'_, W> {
    pub(super) async fn waits(
        &mut self,
        since: Since,
        until: Option<Date>,
        pool: Option<PoolName>,
    ) -> Result<String, Failure> {
        let since = Some(since.day(self.world.now()));
        let request = WaitsRequest { since, until, pool, hourly: false };
        self.shown::<WaitsList>("waits", Request::Waits(request), views::waits::page).await
    }

    pub(super) async fn costs(&mut self, order: CostsArgs) -> Result<String, Failure> {
        if order.rows {
            return self.lines(order).await;
        }
        let CostsArgs { since, until, by, pool, repository, spread, csv, prices: file, .. } = order;
        let since = Some(since.day(self.world.now()));
        let own = file.as_deref().map(|path| self.own_prices(path)).transpose()?;
        let prices = own.clone();
        let request = CostsRequest { since, until, by, spread, pool, repository, prices };
        let answer = self.answer(&json!(Request::Costs(request))).await?;
        if self.json {
            return Ok(pretty(&answer));
        }
        let told: CostsList = parsed("costs", answer)?;
        if csv {
            return Ok(views::costs::csv(&told));
        }
        let mut page = views::costs::page(&told, self.world.now(), self.screen);
        if let (Some(own), Some(file)) = (&own, &file) {
            page.push_str(&views::costs::on_github(
                &told,
                own,
                &file.to_string_lossy(),
                self.screen,
            ));
        }
        Ok(page)
    }

    fn own_prices(&mut self, path: &Path) -> Result<OwnPrices, Failure> {
        let path = path.to_string_lossy();
        let text = self.world.read_file(&path)?;
        let wrong = |why: String| Failure::Usage(format!("{path}: {why}"));
        let value = muster_api::yaml::values(&text).map_err(|error| wrong(with_causes(&error)))?;
        let own: OwnPrices =
            serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
        own.check().map_err(wrong)?;
        Ok(own)
    }

    /// Reads lines page by page. For programs, each page is written as it arrives.
    async fn lines(&mut self, order: CostsArgs) -> Result<String, Failure> {
        let CostsArgs { since, until, pool, repository, csv, .. } = order;
        let since = Some(since.day(self.world.now()));
        let is_wanted = |line: &Line| {
            let of = line.job.as_ref().map(|job| &job.repository);
            (pool.is_none() || line.pool == pool)
                && repository.as_ref().is_none_or(|only| {
                    of.is_some_and(|repository| repository.eq_ignore_ascii_case(only))
                })
        };
        let (mut lines, mut page): (Vec<Line>, _) = (Vec::new(), None);
        if csv {
            self.world.print(&views::lines::csv_header());
        }
        loop {
            let request = LinesRequest { since, until, page };
            let LineList { lines: found, unreadable, next } =
                self.asked("lines", Request::Lines(request)).await?;
            for key in unreadable {
                self.world.say(&format!("{key} is skipped: a different release wrote it."));
            }
            let wanted = found.into_iter().filter(&is_wanted);
            match (self.json, csv) {
                (true, _) => {
                    let text: String = wanted.map(|line| format!("{}\n", json!(line))).collect();
                    self.world.print(&escaped_json(&text));
                }
                (_, true) => self.world.print(&views::lines::csv(wanted)),
                _ => lines.extend(wanted),
            }
            page = next;
            if page.is_none() {
                break;
            }
            if lines.len() > MOST_LINES {
                self.world.say("There are more lines; --csv and --json write all of them.");
                break;
            }
        }
        if self.json || csv {
            return Ok(String::new());
        }
        Ok(views::lines::page(&lines, self.world.now(), self.screen))
    }
}
