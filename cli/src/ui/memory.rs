//! A cache of the newest answers. Pages are rendered from it at once, and show its age.

use std::collections::BTreeMap;

use muster_api::answers::{
    AuditList, CostsList, ExplainedJob, InstanceList, JobList, Overview, PhaseList, PoolsHistory,
    ShownGithub, ShownInstance, ShownPools, StackStatus, WaitsList,
};
use muster_api::{
    AuditRequest, CostsRequest, GithubRequest, JobsRequest, ListRequest, PoolsRequest, Request,
    WaitsRequest,
};
use muster_domain::ids::{JobKey, PoolName};
use muster_domain::time::{Seconds, Time};
use muster_domain::usage::{By, Date};
use serde_json::{Value, json};

use crate::args::Dead;
use crate::failure::{Failure, parsed};
use crate::lists::Pages;
use crate::trend::Trend;
use crate::views::dead_letters::{DeadLetterQueue, Letters};

/// Maximum number of rows that a list page reads.
const ROWS: u32 = 20_000;
/// Maximum number of audit lines per day.
const LINES: u32 = 1_000;
/// Entries that were not used for this long are dropped.
const FORGOTTEN: Seconds = Seconds(1_800);
/// How long a page shows the outcome of an order.
const SHOWN: Seconds = Seconds(60);
pub const DAY: Seconds = Seconds(86_400);

/// A query that a page needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PageQuery {
    Overview,
    Status,
    List,
    Show(String),
    Jobs,
    Explain(JobKey),
    Pools,
    History,
    Phases(PoolName),
    /// The audit lines of a day, counted back from today.
    Audit(u32),
    Costs(CostsView),
    /// The waits of a number of days up to today; hourly if available.
    Waits(u32),
    /// The last day of waiting jobs and live machines.
    Trend,
    /// The App.
    GitHub,
    /// The sizes of the dead-letter queues.
    DeadLetters,
    /// The messages of a dead-letter queue.
    Letters(Dead),
}

/// Costs of a number of days up to today.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CostsView {
    pub days: u32,
    /// The grouping, one of [`BY`].
    pub by: &'static str,
    /// Only this pool.
    pub pool: Option<PoolName>,
    /// Only this repository.
    pub repository: Option<String>,
}

impl CostsView {
    /// The costs of all pools and repositories, by repository.
    #[must_use]
    pub const fn of(days: u32) -> Self {
        Self { days, by: BY[0].0, pool: None, repository: None }
    }
}

/// A query in the form in which it is sent.
#[derive(Clone, Debug, PartialEq)]
pub enum QueryRequest {
    Function(Value),
    /// To the function, page by page.
    Pages(Pages),
    /// To SQS: the messages of one queue, or the sizes of all.
    Queues(Option<Dead>),
    /// To CloudWatch.
    Trend,
}

/// The groupings of costs.
pub const BY: [(&str, By); 9] = [
    ("repository", By::Repository),
    ("workflow", By::Workflow),
    ("job", By::Job),
    ("pull-request", By::PullRequest),
    ("actor", By::Actor),
    ("pool", By::Pool),
    ("type", By::Type),
    ("attempt", By::Attempt),
    ("day", By::Day),
];
/// An answer this many times older than its refresh interval is not shown; the page waits for a new one.
const OLD: u32 = 3;
/// Maximum number of days for which the function has hourly waits.
const HOURLY: u32 = 3;

impl PageQuery {
    /// Returns the query in the form in which it is sent.
    #[must_use]
    pub fn asked(&self, now: Time) -> QueryRequest {
        let request = match self {
            Self::DeadLetters => return QueryRequest::Queues(None),
            Self::Trend => return QueryRequest::Trend,
            Self::Letters(queue) => return QueryRequest::Queues(Some(*queue)),
            Self::Overview => Request::Overview,
            Self::GitHub => Request::Github(GithubRequest::default()),
            Self::Status => Request::Status { github: false },
            Self::List => return whole(&Request::List(ListRequest::default())),
            Self::Show(name) => Request::Show { name: name.clone(), github: false },
            Self::Jobs => return whole(&Request::Jobs(JobsRequest::default())),
            Self::Explain(key) => Request::Explain { job: Some(*key), name: None },
            Self::Pools => Request::Pools(PoolsRequest::default()),
            Self::History => {
                Request::Pools(PoolsRequest { history: true, ..PoolsRequest::default() })
            }
            Self::Phases(pool) => Request::Phases { pool: Some(pool.clone()) },
            Self::Audit(back) => {
                let since = day(now, *back);
                let until = (*back > 0).then(|| since + DAY);
                Request::Audit(AuditRequest {
                    subject: None,
                    since: Some(since),
                    until,
                    limit: LINES,
                })
            }
            Self::Costs(CostsView { days, by, pool, repository }) => Request::Costs(CostsRequest {
                since: Some(Date::of(day(now, days.saturating_sub(1)))),
                by: BY.iter().find(|(word, _)| word == by).map(|(_, by)| *by).unwrap_or_default(),
                pool: pool.clone(),
                repository: repository.clone(),
                ..CostsRequest::default()
            }),
            Self::Waits(days) => Request::Waits(WaitsRequest {
                since: Some(Date::of(day(now, days.saturating_sub(1)))),
                hourly: *days <= HOURLY,
                ..WaitsRequest::default()
            }),
        };
        QueryRequest::Function(json!(request))
    }

    /// Returns the refresh interval while a page that needs it is open.
    #[must_use]
    pub const fn every(&self) -> Seconds {
        match self {
            Self::Overview | Self::Show(_) | Self::Explain(_) => Seconds(5),
            Self::Status | Self::List | Self::Jobs => Seconds(15),
            Self::Pools
            | Self::History
            | Self::Phases(_)
            | Self::Audit(_)
            | Self::DeadLetters
            | Self::GitHub => Seconds(60),
            Self::Costs(..) | Self::Waits(_) | Self::Trend | Self::Letters(_) => Seconds(300),
        }
    }

    /// Parses its answer.
    fn told(&self, answer: Value) -> Result<QueryAnswer, Failure> {
        Ok(match self {
            Self::Overview => QueryAnswer::Overview(Box::new(parsed("overview", answer)?)),
            Self::Costs(..) => QueryAnswer::Costs(Box::new(parsed("costs", answer)?)),
            Self::Waits(_) => QueryAnswer::Waits(Box::new(parsed("waits", answer)?)),
            Self::Status => QueryAnswer::Status(Box::new(parsed("status", answer)?)),
            Self::List => QueryAnswer::List(parsed("list", answer)?),
            Self::Show(_) => QueryAnswer::Show(Box::new(parsed("show", answer)?)),
            Self::Jobs => QueryAnswer::Jobs(parsed("jobs", answer)?),
            Self::Explain(_) => QueryAnswer::Explain(Box::new(parsed("explain", answer)?)),
            Self::Pools => QueryAnswer::Pools(parsed("pools", answer)?),
            Self::History => QueryAnswer::History(parsed("pools", answer)?),
            Self::Phases(_) => QueryAnswer::Phases(parsed("phases", answer)?),
            Self::Audit(_) => QueryAnswer::Audit(parsed("audit", answer)?),
            Self::GitHub => QueryAnswer::GitHub(Box::new(parsed("github", answer)?)),
            Self::Trend => QueryAnswer::Trend(parsed("trend", answer)?),
            Self::DeadLetters => QueryAnswer::DeadLetters(parsed("dead letters", answer)?),
            Self::Letters(_) => QueryAnswer::Letters(parsed("dead letters", answer)?),
        })
    }
}

/// Returns the request for a list with all its pages.
fn whole(request: &Request) -> QueryRequest {
    QueryRequest::Pages(Pages::new(json!(request), Some(ROWS)))
}

/// Returns the start of a day in UTC.
#[must_use]
pub fn day(now: Time, back: u32) -> Time {
    let today = now.as_secs().div_euclid(86_400) - i64::from(back);
    Time::from_millis(today * 86_400_000)
}

/// A parsed answer.
#[derive(Clone, Debug)]
enum QueryAnswer {
    Overview(Box<Overview>),
    Costs(Box<CostsList>),
    Waits(Box<WaitsList>),
    Status(Box<StackStatus>),
    List(InstanceList),
    Show(Box<ShownInstance>),
    Jobs(JobList),
    Explain(Box<ExplainedJob>),
    Pools(ShownPools),
    History(PoolsHistory),
    Phases(PhaseList),
    Audit(AuditList),
    GitHub(Box<ShownGithub>),
    Trend(Trend),
    DeadLetters(Vec<DeadLetterQueue>),
    Letters(Letters),
}

/// The cache entry of one query.
#[derive(Clone, Debug, Default)]
struct Kept {
    told: Option<QueryAnswer>,
    /// When the answer arrived.
    at: Option<Time>,
    /// The last failure since then, and when.
    failed: Option<(Time, Failure)>,
    /// When it was last sent.
    asked_at: Option<Time>,
    /// Whether an answer is pending.
    is_asked: bool,
    /// Answers to queries sent before this are outdated.
    stale_since: Option<Time>,
    /// When a page last needed it.
    wanted_at: Time,
}

/// The cache.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    kept: BTreeMap<PageQuery, Kept>,
    /// The outcome of the last order, the address of the page that shows it, and when it was given.
    outcome: Option<(String, Vec<String>, Time)>,
}

impl Memory {
    /// Returns whether to send the query now: a page needs it, the answer is old enough, and no answer is pending. It
    /// then counts as sent.
    pub fn is_due(&mut self, question: &PageQuery, now: Time) -> bool {
        let kept = self.kept.entry(question.clone()).or_default();
        kept.wanted_at = now;
        let is_old = kept.asked_at.is_none_or(|at| now.is_past(at, question.every()));
        let is_stale =
            kept.stale_since.is_some_and(|since| kept.asked_at.is_none_or(|at| at < since));
        let is_due = (is_old || is_stale) && !kept.is_asked;
        if is_due {
            (kept.asked_at, kept.is_asked) = (Some(now), true);
            // No page was open for a while: an old answer is not shown as current.
            if kept.at.is_some_and(|at| now.is_past(at, Seconds(question.every().0 * OLD))) {
                kept.stale_since = Some(now);
            }
        }
        is_due
    }

    /// Marks all answers as outdated: an order was given, or the user pressed Refresh.
    pub fn expire(&mut self, now: Time) {
        for kept in self.kept.values_mut() {
            kept.stale_since = Some(now);
        }
    }

    /// Stores the outcome of an order for the page that shows its effect. `page` is its address.
    pub fn tell(&mut self, page: String, sentences: Vec<String>, now: Time) {
        self.outcome = Some((page, sentences, now));
    }

    /// Returns the outcome of an order whose effect a page shows, for a minute.
    #[must_use]
    pub fn outcome(&self, page: &str, now: Time) -> &[String] {
        match &self.outcome {
            Some((address, sentences, at)) if address == page && !now.is_past(*at, SHOWN) => {
                sentences
            }
            _ => &[],
        }
    }

    /// Returns whether a page should wait for one of these.
    #[must_use]
    pub fn is_wanting(&self, questions: &[PageQuery]) -> bool {
        let is_known = |question: &PageQuery| {
            let kept = self.kept.get(question);
            kept.is_some_and(|kept| {
                kept.stale_since.is_none() && (kept.at.is_some() || kept.failed.is_some())
            })
        };
        !questions.iter().all(is_known)
    }

    /// Stores the outcome of a query.
    pub fn learn(&mut self, question: &PageQuery, outcome: Result<Value, Failure>, now: Time) {
        let outcome = outcome.and_then(|answer| question.told(answer));
        let kept = self.kept.entry(question.clone()).or_default();
        kept.is_asked = false;
        // An answer that was pending at that moment is older than the order.
        kept.stale_since =
            kept.stale_since.filter(|since| kept.asked_at.is_some_and(|at| at < *since));
        match outcome {
            Ok(told) => (kept.told, kept.at, kept.failed) = (Some(told), Some(now), None),
            Err(failure) => kept.failed = Some((now, failure)),
        }
        self.kept.retain(|known, kept| {
            known == question || kept.is_asked || !now.is_past(kept.wanted_at, FORGOTTEN)
        });
    }

    /// Returns when the last of these was answered or failed; `None` until all were.
    #[must_use]
    pub fn heard(&self, questions: &[PageQuery]) -> Option<Time> {
        let heard = |question: &PageQuery| {
            let kept = self.kept.get(question)?;
            kept.at.max(kept.failed.as_ref().map(|(at, _)| *at))
        };
        let all: Option<Vec<Time>> = questions.iter().map(heard).collect();
        all?.into_iter().max()
    }

    /// Returns when it was answered; `None` if it never was.
    #[must_use]
    pub fn told_at(&self, question: &PageQuery) -> Option<Time> {
        self.kept.get(question)?.at
    }

    /// Returns the failure of the first of these queries that has one.
    #[must_use]
    pub fn failed(&self, questions: &[PageQuery]) -> Option<(Time, &Failure)> {
        let failed = |question: &PageQuery| self.kept.get(question)?.failed.as_ref();
        questions.iter().find_map(failed).map(|(at, failure)| (*at, failure))
    }

    fn told(&self, question: &PageQuery) -> Option<&QueryAnswer> {
        self.kept.get(question)?.told.as_ref()
    }
}

macro_rules! answers {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $answer:ty = $question:expr, $told:ident;)+) => {
        impl Memory {
            $(#[doc = concat!("The answer to `", stringify!($name), "`.")]
            #[must_use]
            pub fn $name(&self $(, $argument: $kind)*) -> Option<&$answer> {
                match self.told(&$question)? {
                    QueryAnswer::$told(answer) => Some(answer),
                    _ => None,
                }
            })+
        }
    };
}

answers! {
    overview() -> Overview = PageQuery::Overview, Overview;
    costs(view: &CostsView) -> CostsList = PageQuery::Costs(view.clone()), Costs;
    waits(days: u32) -> WaitsList = PageQuery::Waits(days), Waits;
    status() -> StackStatus = PageQuery::Status, Status;
    list() -> InstanceList = PageQuery::List, List;
    show(name: &str) -> ShownInstance = PageQuery::Show(name.to_owned()), Show;
    jobs() -> JobList = PageQuery::Jobs, Jobs;
    explain(key: JobKey) -> ExplainedJob = PageQuery::Explain(key), Explain;
    pools() -> ShownPools = PageQuery::Pools, Pools;
    history() -> PoolsHistory = PageQuery::History, History;
    phases(pool: &PoolName) -> PhaseList = PageQuery::Phases(pool.clone()), Phases;
    audit(back: u32) -> AuditList = PageQuery::Audit(back), Audit;
    github() -> ShownGithub = PageQuery::GitHub, GitHub;
    trend() -> Trend = PageQuery::Trend, Trend;
    dead_letters() -> Vec<DeadLetterQueue> = PageQuery::DeadLetters, DeadLetters;
    letters(queue: Dead) -> Letters = PageQuery::Letters(queue), Letters;
}
