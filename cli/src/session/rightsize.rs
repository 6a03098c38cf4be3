//! `rightsize`: which jobs need machines of a different size.

use muster_api::answers::ShownPools;
use muster_api::{PoolsRequest, Request};
use muster_domain::usage::{Date, Line, SizesFold};
use serde_json::json;

use super::simulate::refused;
use super::{Session, pretty};
use crate::args::RightsizeArgs;
use crate::failure::Failure;
use crate::simulate::read_file;
use crate::views::rightsize::{RightsizeList, page};
use crate::world::{Cloud, Console, Workstation};

impl<W: Cloud + Console + Workstation> Session<'_, W> {
    pub(super) async fn rightsize(&mut self, order: RightsizeArgs) -> Result<String, Failure> {
        let (mut fold, mut first) = (SizesFold::default(), None);
        let add = |lines: Vec<Line>| {
            for line in lines {
                first.get_or_insert(Date::of(line.at));
                fold.add(&line);
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
        let list = RightsizeList::new((from, to), sizes, &file.pools);
        Ok(if self.json { pretty(&json!(list)) } else { page(&list, self.screen) })
    }
}
