//! `report`: writes a self-contained page.

use muster_domain::time::Time;
use muster_domain::usage::Date;
use serde_json::Value;

use super::Session;
use crate::args::ReportArgs;
use crate::failure::Failure;
use crate::ui::frame::About;
use crate::ui::memory::{Memory, QueryRequest};
use crate::ui::report;
use crate::world::{Cloud, Console};

const DAY: i64 = 86_400_000;

impl<W: Cloud + Console> Session<'_, W> {
    pub(super) async fn report(&mut self, order: &ReportArgs) -> Result<String, Failure> {
        let now = self.world.now();
        let days = days(order.since.day(now), now);
        let mut memory = Memory::default();
        let mut stack: Option<(String, String)> = None;
        for question in report::questions(days) {
            let QueryRequest::Function(request) = question.asked(now) else { continue };
            let answer: Value = self.answer(&request).await?;
            let text = |name: &str| Some(answer.get(name)?.as_str()?.to_owned());
            stack = stack.or_else(|| Some((text("stack")?, text("release")?)));
            memory.is_due(&question, now);
            memory.learn(&question, Ok(answer), now);
            if let Some((_, failure)) = memory.failed(&[question]) {
                return Err(failure.clone());
            }
        }
        let (stack, release) = stack.unwrap_or_default();
        let about = About { stack, release, region: self.world.region(), ..About::default() };
        Ok(report::page(days, &memory, &about, now))
    }
}

/// Returns the number of days from the first one to today, inclusive.
fn days(first: Date, now: Time) -> u32 {
    let millis = now.as_millis() - first.begin().as_millis();
    u32::try_from(millis / DAY + 1).unwrap_or(1)
}
