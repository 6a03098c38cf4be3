//! The rules that the worlds run on: the real ones, and for each a place where a naive one shows.
//!
//! The passes are the real ones too, so a naive rule of theirs is one that they cannot tell from
//! the world: a row that is read or written otherwise, an answer that is heard otherwise. The naive
//! ones are what a first version, or a peer, does. A test shows that each is caught.

use muster_control::ports::Write;
use muster_domain::instance::{Instance, ReportError, Start, StartReport};
use muster_domain::time::Time;
use muster_domain::timings::Timings;

use crate::passes::Answer;

/// Every rule of a world.
#[derive(Clone, Copy)]
pub struct Rules {
    /// What a pass makes of the row that it reads; none where it takes it as it is.
    pub reads: fn(&Instance, Time) -> Option<Instance>,
    /// What a pass makes of the writes of a commit to this row; none where it gives up there.
    pub writes: fn(&Instance, Vec<Write>) -> Option<Vec<Write>>,
    /// What a pass makes of an answer.
    pub hears: fn(Answer) -> Answer,
    /// The waits.
    pub timings: fn(Timings) -> Timings,
    /// [`Instance::job_started`]
    pub job_started: fn(&mut Instance, &str, StartReport, Time) -> Result<Start, ReportError>,
    /// A write names the version that it replaces.
    pub versions_are_checked: bool,
}

impl Rules {
    /// The rules as they are.
    #[must_use]
    pub fn real() -> Self {
        Self {
            reads: |_, _| None,
            writes: |_, writes| Some(writes),
            hears: |answer| answer,
            timings: |timings| timings,
            job_started: Instance::job_started,
            versions_are_checked: true,
        }
    }
}
