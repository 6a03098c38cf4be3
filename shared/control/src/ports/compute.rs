//! EC2.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::ec2::{ErrorClass, Make};
use muster_domain::ids::{LaunchId, MachineId};
use muster_domain::instance::ErrorDetail;
use muster_domain::launch::{LaunchAnswer, LaunchError, LaunchRequest};
use muster_domain::observation::{Machine, MachineSeen, ProviderError, Termination};
use muster_domain::time::Time;

use super::Page;

/// A machine as a listing shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedMachine {
    /// EC2's id.
    pub id: MachineId,
    /// Its state.
    pub state: Machine,
    /// When EC2 launched it.
    pub launched_at: Time,
    /// The tag `muster:launch`, where it is one of ours.
    pub launch: Option<LaunchId>,
    /// What it is.
    pub make: Make,
}

/// A machine that was asked for by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownMachine {
    /// Its state; none where EC2 names one that is not known.
    pub state: Option<Machine>,
    /// Whether it carries our stack's tag. EC2 takes the tags off a machine that has ended.
    pub is_ours: bool,
    /// The tag `muster:launch`, where it is that of a launch.
    pub launch: Option<LaunchId>,
}

/// EC2, limited to machines that carry our stack's tag.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Compute {
    /// CreateFleet (instant) with the launch's id as client token. An error is of the whole call.
    async fn launch(
        &self,
        id: &LaunchId,
        request: &LaunchRequest,
    ) -> Result<LaunchAnswer, LaunchError>;
    /// The machines that carry a launch's tag and are not gone. Late: not seeing one proves
    /// nothing.
    async fn find_launched(
        &self,
        id: &LaunchId,
    ) -> Result<BTreeMap<MachineId, Make>, ProviderError>;
    /// The machine's state. `Absent` when EC2 does not know it.
    async fn machine(&self, id: &MachineId) -> Result<MachineSeen, ProviderError>;
    /// What stands on the machine's console, as far as EC2 shows it. One call that nobody waits for
    /// for long: without an answer there is nothing to keep.
    async fn console(&self, id: &MachineId) -> Result<String, ProviderError>;
    /// The same of many, at most [`MAX_LOOKED_AT`], in one call; those that EC2 does not know are
    /// left out.
    async fn machines(
        &self,
        ids: &BTreeSet<MachineId>,
    ) -> Result<BTreeMap<MachineId, ShownMachine>, ProviderError>;
    /// All machines of our stack that are not gone, page by page.
    async fn list(&self, page: Option<String>) -> Result<Page<ListedMachine>, ProviderError>;
    /// One TerminateInstances of at most [`MAX_TERMINATED`] machines, without retries of the SDK's
    /// own: the row's ladder is the retry. Answers what EC2 says that they are now.
    /// [`crate::reaps::terminate::all`] keeps what is wrong with one of them from the others.
    async fn terminate(
        &self,
        machines: &BTreeSet<MachineId>,
    ) -> Result<BTreeMap<MachineId, Machine>, Refusal>;
}

/// Most machines of one TerminateInstances: EC2 takes more, and recommends small batches.
pub const MAX_TERMINATED: usize = 100;

/// Most machines of one [`Compute::machines`]: EC2 takes two hundred values of a filter, and their
/// answer has a few kilobytes for each.
pub const MAX_LOOKED_AT: usize = 50;

/// The error of a whole TerminateInstances. Some of its machines may end all the same: a protected
/// machine fails those of its own zone alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What it is for a machine that it is about.
    pub answer: Termination,
    /// The machines of the call that EC2 names in it.
    pub named: BTreeSet<MachineId>,
}

/// What EC2 answers about an id that it does not know, or not yet.
pub const NOT_FOUND: &str = "InvalidInstanceID.NotFound";

impl Refusal {
    /// From the error of a call that was about these machines.
    #[must_use]
    pub fn from_call(
        class: ErrorClass,
        error: ErrorDetail,
        machines: &BTreeSet<MachineId>,
    ) -> Self {
        let named = named(&error.message, machines);
        let answer = if error.code == NOT_FOUND {
            Termination::NotFound(error)
        } else {
            Termination::Failed(class, error)
        };
        Self { answer, named }
    }
}

/// Those of the machines that a sentence names. Whole words: an old, short id may be how a long one
/// begins.
fn named(sentence: &str, machines: &BTreeSet<MachineId>) -> BTreeSet<MachineId> {
    let words = sentence.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
    let named = words.filter_map(|word| word.parse::<MachineId>().ok());
    named.filter(|id| machines.contains(id)).collect()
}
