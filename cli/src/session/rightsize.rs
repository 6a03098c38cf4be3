//! `rightsize`: which jobs need machines of a different size.

use muster_api::answers::ShownPools;
use muster_api::{PoolsRequest, Request};
use muster_domain::pool_file::PoolFile;
use muster_domain::time::Time;
use muster_domain::usage::{Date, Line, SizesFold};
use serde_json::json;

use super::simulate::refused;
use super::{Session, pretty};
use crate::args::RightsizeArgs;
use crate::failure::Failure;
use crate::money::thousands;
use crate::simulate::{Halves, SimulationInput, read_file};
use crate::views::rightsize::{RightsizeList, SimulatedHalves, page};
use crate::world::{Cloud, Console, Workstation};

/// The seed of the simulation's random numbers, which is also the default of `simulate`.
const SEED: u64 = 1;

impl<W: Cloud + Console + Workstation> Session<'_, W> {
    pub(super) async fn rightsize(&mut self, order: RightsizeArgs) -> Result<String, Failure> {
        let (mut fold, mut first, mut lines) = (SizesFold::default(), None, Vec::new());
        let add = |found: Vec<Line>| {
            for line in found {
                first.get_or_insert(Date::of(line.at));
                fold.add(&line);
                if order.simulate {
                    lines.push(line);
                }
            }
        };
        self.read_usage(order.since, add).await?;
        let to = Date::of(self.world.now());
        let from = first.unwrap_or(to);
        let sizes = fold.sizes(Date::days(from, to).count() as u64);
        let shown: ShownPools =
            self.asked("pools", Request::Pools(PoolsRequest::default())).await?;
        let owner =
            sizes.jobs.first().and_then(|job| job.repository.split('/').next()?.parse().ok());
        let file = read_file(&shown.file, owner.as_ref())
            .map_err(|problems| refused("the pool file in force", problems))?;
        let mut list = RightsizeList::new((from, to), sizes, &file.pools);
        if order.simulate {
            let jobs = list.jobs.iter().map(|row| (&row.size, row.half_pool.as_ref()));
            let halves = Halves::new(&lines, jobs, &file);
            list.simulation =
                Some(self.simulate_halves(&lines, halves, file, shown.applied_at).await?);
        }
        let text = if self.json { pretty(&json!(list)) } else { page(&list, self.screen) };
        match list.simulation.and_then(|of| of.simulation) {
            Some(simulation) => self.checked(&simulation, text),
            None => Ok(text),
        }
    }

    async fn simulate_halves(
        &mut self,
        lines: &[Line],
        halves: Halves,
        in_force: PoolFile,
        applied_at: Option<Time>,
    ) -> Result<SimulatedHalves, Failure> {
        if halves.is_empty() {
            return Ok(SimulatedHalves { halves, simulation: None });
        }
        let most = self.most_machines(&in_force).await?;
        self.world.say(&format!("2 replays of {} lines …", thousands(lines.len() as u64)));
        let question = SimulationInput {
            lines,
            in_force,
            most,
            applied_at,
            new: Some(("half the machines".to_owned(), halves.file.clone())),
            new_lines: Some(&halves.lines),
            trial: None,
            pool: None,
            seed: SEED,
        };
        let simulation = Some(question.answer().map_err(Failure::Usage)?);
        Ok(SimulatedHalves { halves, simulation })
    }
}
