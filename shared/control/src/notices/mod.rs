//! Notices: each finding causes one notification when it starts and one when it ends.

mod app;
mod message;
mod record;

pub use self::app::{AppFinding, AppRecord};
pub use self::message::{Message, Notice, What};
pub use self::record::{Notices, TrackedFinding};

#[cfg(test)]
mod tests;
