//! Computes what machines cost and how long jobs waited: sums usage records by day and learns
//! prices. Launches and deletes never wait for this.

mod days;
mod prices;
mod roll_up;

pub use self::days::{Days, DaysError};
pub use self::prices::PriceWatch;
pub use self::roll_up::{RollUp, late_since};
