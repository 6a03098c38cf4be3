//! What machines cost and how long jobs waited: one line for each machine, written in the commit
//! that ends its record, and never changed in its time.
//!
//! A machine serves one job, so the line of a machine is the line of that job; one without a job
//! was kept idle, or was bought in vain. A job that no machine of ours ran has a line of its own,
//! which costs nothing, and so has the time of an orphan.

mod costs;
mod date;
mod distribution;
mod fold;
mod items;
mod line;
mod made;
mod parts;
mod prices;
mod waits;

pub use self::costs::{By, Costs, CostsFold};
pub use self::date::Date;
pub use self::fold::{DAY_KEPT, Day, Fold, Group, InVain, Key, PoolWaits, Sum};
pub use self::items::{MOST_BYTES, PartOfDay};
pub use self::line::{Cause, EndedBy, Kind, Line, Moments, OfJob, OfMachine};
pub use self::made::{Loss, end_of, loss};
pub use self::parts::Parts;
pub use self::prices::{
    History, Learned, MOST_TYPES, OwnPrices, Price, PricedBy, Prices, TypeInUse,
};
pub use self::waits::{Waits, WaitsFor};

#[cfg(test)]
mod tests;
