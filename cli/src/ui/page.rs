//! The pages and their addresses.

use muster_domain::ids::{JobKey, PoolName};

use super::fields::{Fields, address, name, part};
use super::memory::{BY, CostsView, PageQuery};
use super::text::shown;
use crate::args::Dead;

/// The filter word of the orphan ledger.
pub const ORPHAN: &str = "orphan";
/// The default number of days of costs, and the maximum.
const MONTH: u32 = 30;
const MAX_DAYS: u32 = 365;

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UiPage {
    Overview,
    Machines(Filter),
    Machine(String),
    Jobs(Filter),
    Job(JobKey),
    Pools,
    Pool(PoolName),
    Costs(CostsView),
    /// The audit trail of a day, counted back from today.
    Audit {
        back: u32,
    },
    /// The App and its webhook.
    GitHub,
    /// The dead-letter queues, or one of them.
    DeadLetters(Option<Dead>),
}

/// The filter of a list. It is the address, so a view can be bookmarked or sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// A state of machines, or a kind of jobs.
    pub state: Option<String>,
    pub pool: Option<String>,
    /// A part of a name to search for.
    pub text: Option<String>,
    /// The number of rows before the first one.
    pub from: usize,
}

impl UiPage {
    /// Parses an address.
    #[must_use]
    pub fn read(path: &str, fields: &Fields) -> Option<Self> {
        let mut parts = path.strip_prefix('/')?.split('/').map(name);
        let parts = [parts.next(), parts.next(), parts.next(), parts.next()];
        let [first, second, third, None] = parts.each_ref().map(Option::as_deref) else {
            return None;
        };
        match (first.unwrap_or_default(), second, third) {
            ("", None, None) => Some(Self::Overview),
            ("machines", None, None) => Some(Self::Machines(Filter::read(fields))),
            ("machines", Some(name), None) => Some(Self::Machine(name.to_owned())),
            ("jobs", None, None) => Some(Self::Jobs(Filter::read(fields))),
            ("jobs", Some(repository), Some(job)) => {
                Some(Self::Job(format!("{repository}/{job}").parse().ok()?))
            }
            ("pools", None, None) => Some(Self::Pools),
            ("pools", Some(name), None) => Some(Self::Pool(name.parse().ok()?)),
            ("costs", None, None) => {
                let days =
                    fields.get("since").and_then(|since| since.strip_suffix('d')?.parse().ok());
                let days = days.filter(|days| (1..=MAX_DAYS).contains(days)).unwrap_or(MONTH);
                let by = BY.iter().find(|(word, _)| Some(*word) == fields.get("by"));
                let by = by.map_or(BY[0].0, |(word, _)| word);
                let repository = fields.get("repository").map(str::to_owned);
                Some(Self::Costs(CostsView { days, by, pool: fields.parsed("pool"), repository }))
            }
            ("github", None, None) => Some(Self::GitHub),
            ("dead-letters", None, None) => Some(Self::DeadLetters(None)),
            ("dead-letters", Some(queue), None) => {
                Some(Self::DeadLetters(Some(Dead::read(queue)?)))
            }
            ("audit", None, None) => {
                Some(Self::Audit { back: fields.parsed("back").unwrap_or_default() })
            }
            _ => None,
        }
    }

    /// Returns its address.
    #[must_use]
    pub fn address(&self) -> String {
        match self {
            Self::Overview => "/".to_owned(),
            Self::Machines(filter) => filter.address("/machines"),
            Self::Machine(name) => format!("/machines/{}", part(name)),
            Self::Jobs(filter) => filter.address("/jobs"),
            Self::Job(key) => format!("/jobs/{}/{}", key.repository, key.job),
            Self::Pools => "/pools".to_owned(),
            Self::Pool(name) => format!("/pools/{}", part(name.as_str())),
            Self::Costs(view) => view.address("/costs"),
            Self::GitHub => "/github".to_owned(),
            Self::DeadLetters(None) => "/dead-letters".to_owned(),
            Self::DeadLetters(Some(queue)) => format!("/dead-letters/{}", queue.name()),
            Self::Audit { back: 0 } => "/audit".to_owned(),
            Self::Audit { back } => format!("/audit?back={back}"),
        }
    }

    /// Returns the queries that it needs.
    #[must_use]
    pub fn questions(&self) -> Vec<PageQuery> {
        match self {
            Self::Overview => vec![PageQuery::Overview, PageQuery::Waits(2), PageQuery::Trend],
            Self::Machines(filter) if filter.state.as_deref() == Some(ORPHAN) => {
                vec![PageQuery::List, PageQuery::Status]
            }
            Self::Machines(_) => vec![PageQuery::List],
            Self::Machine(name) => vec![PageQuery::Show(name.clone())],
            Self::Jobs(_) => vec![PageQuery::Jobs, PageQuery::List],
            Self::Job(key) => vec![PageQuery::Explain(*key)],
            Self::Pools => vec![PageQuery::Overview, PageQuery::Pools, PageQuery::History],
            Self::Pool(name) => {
                vec![PageQuery::Status, PageQuery::Pools, PageQuery::Phases(name.clone())]
            }
            Self::Costs(view) => vec![PageQuery::Costs(view.clone())],
            Self::Audit { back } => vec![PageQuery::Audit(*back)],
            Self::GitHub => vec![PageQuery::GitHub],
            Self::DeadLetters(None) => vec![PageQuery::DeadLetters],
            Self::DeadLetters(Some(queue)) => vec![PageQuery::Letters(*queue)],
        }
    }
}

impl CostsView {
    /// Returns an address of this view: of the page, or of its CSV.
    #[must_use]
    pub fn address(&self, path: &str) -> String {
        let Self { days, by, pool, repository } = self;
        let since = if *days == MONTH { String::new() } else { format!("{days}d") };
        let by = if *by == BY[0].0 { "" } else { by };
        let pool = pool.as_ref().map_or("", PoolName::as_str);
        let repository = repository.as_deref().unwrap_or_default();
        let fields =
            [("since", since.as_str()), ("by", by), ("pool", pool), ("repository", repository)];
        address(path, &fields)
    }
}

impl Filter {
    fn read(fields: &Fields) -> Self {
        let text = |name| fields.get(name).map(shown);
        Self {
            state: text("state"),
            pool: text("pool"),
            text: text("q"),
            from: fields.parsed("from").unwrap_or_default(),
        }
    }

    fn address(&self, path: &str) -> String {
        let from = if self.from > 0 { self.from.to_string() } else { String::new() };
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let [state, pool, q] = [&self.state, &self.pool, &self.text].map(text);
        address(path, &[("state", &state), ("pool", &pool), ("q", &q), ("from", &from)])
    }
}
