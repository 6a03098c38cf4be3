//! The alarms of a stack.

use muster_domain::time::Time;

/// The state of an alarm, most urgent first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum AlarmState {
    Red,
    #[default]
    NoData,
    Quiet,
}

/// An alarm of the stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alarm {
    /// The name without the stack's.
    pub name: String,
    pub state: AlarmState,
    pub since: Option<Time>,
    /// Its meaning.
    pub what: String,
    /// CloudWatch's reason for the state.
    pub reason: String,
    /// The address of its page.
    pub page: String,
}
