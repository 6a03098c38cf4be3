//! One job: its state, the parts of its wait, and the cost of its machine.

use muster_api::answers::ExplainedJob;
use muster_domain::time::Seconds;
use muster_domain::usage::{Line, Parts};

use super::lines::{millis, parts};
use super::sentences;
use super::status::marked;
use crate::money::dollars;
use crate::page::{Screen, TextPage};
use crate::words::span;

/// Renders the whole page.
#[must_use]
pub fn page(told: &ExplainedJob, screen: Screen) -> String {
    let own = told.explanation.iter().cloned();
    let text = sentences(&own.chain(of_line(told)).collect::<Vec<_>>(), screen);
    let mut page = TextPage::new(screen);
    page.marked(marked(&told.findings));
    text + &page.into_text()
}

/// Describes its usage record, in sentences.
pub(crate) fn of_line(told: &ExplainedJob) -> Vec<String> {
    let Some(line) = &told.line else { return Vec::new() };
    let is_live = told.ran_on.as_ref().is_some_and(|one| one.state.is_live());
    let waited = line.wait().map(|(whole, _)| {
        format!("Until its first step it waited {}: {}.", millis(whole), parts(line))
    });
    waited.into_iter().chain(cost(line, is_live)).collect()
}

fn cost(line: &Line, is_live: bool) -> Option<String> {
    let machine = line.machine.as_ref()?;
    let make = &machine.make;
    let market = make.market.map(|market| market.to_string());
    let known = [make.kind.as_deref(), market.as_deref(), make.zone.as_deref()];
    let known: Vec<&str> = known.into_iter().flatten().collect();
    let what = if known.is_empty() { "of unknown type".to_owned() } else { known.join(" ") };
    let id = &machine.id;
    let paid = u32::try_from(line.parts.sum() / 1000).unwrap_or(u32::MAX);
    let paid = span(Seconds(paid));
    let paid = if is_live { format!("{paid} so far") } else { paid };
    let money = match line.cost() {
        None => "no price is known".to_owned(),
        Some(cost) => {
            let Parts { start, work, end, idle, vain } = cost;
            let parts = [
                ("its start", start),
                ("the job", work),
                ("its end", end),
                ("idle", idle),
                ("wasted", vain),
            ];
            let parts: Vec<String> = parts
                .into_iter()
                .filter(|(_, part)| *part > 0)
                .map(|(what, part)| format!("{what} {}", dollars(part)))
                .collect();
            format!("{} ({})", dollars(cost.sum()), parts.join(", "))
        }
    };
    Some(format!("Its machine {id} ({what}) costs {money} for {paid}."))
}
