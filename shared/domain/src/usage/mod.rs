//! Costs of machines and waits of jobs: one usage record per machine, written in the commit that
//! ends its instance record, and never changed.
//!
//! A machine serves one job, so a machine's record is also that job's record; a machine without a
//! job was kept idle or was wasted. A job that did not run on our machines has a record without
//! costs, and the time of an orphan has a separate record.

mod by;
mod costs;
mod date;
mod distribution;
mod facts;
mod fold;
mod items;
mod line;
mod made;
mod parts;
mod price;
mod prices;
mod sizes;
mod waits;

pub use self::by::By;
pub use self::costs::{Costs, CostsFold};
pub use self::date::Date;
pub use self::facts::JobFacts;
pub use self::fold::{DAY_KEPT, Day, Fold, Key, MachineCost, PoolWaits, Sum, UsageGroup};
pub use self::items::{MOST_BYTES, PartOfDay};
pub use self::line::{
    EarlyEndCause, EndedBy, Line, Moments, OfJob, OfMachine, OrderedRerun, UsageKind,
};
pub use self::made::{Loss, cut_from, end_of, interruption, lacks_notice, loss};
pub use self::parts::Parts;
pub use self::price::{Price, PricedBy};
pub use self::prices::{
    History, Learned, MOST_TYPES, OwnPrices, PriceQuery, PriceSource, Prices, RefusedPrices,
    TypeInUse,
};
pub use self::sizes::{
    DiskVerdict, JobSize, KeepReason, LEAST_RUNS, LeftOut, SizeFigures, SizeVerdict, Sizes,
    SizesFold,
};
pub use self::waits::{Waits, WaitsFor};
pub use crate::instance::Used;

#[cfg(test)]
mod tests;
