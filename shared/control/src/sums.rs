//! What machines cost and how long jobs waited: lines are put together to days, and prices are
//! learned. Nobody on the way of a job or a delete waits for any of it.

mod days;
mod prices;
mod roll_up;

pub use self::days::{Days, DaysError};
pub use self::prices::PriceWatch;
pub use self::roll_up::{RollUp, late_since};
