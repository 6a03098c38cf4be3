//! The port to EC2.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::ec2::{ErrorClass, LaunchError, Make};
use muster_domain::ids::{LaunchId, MachineId};
use muster_domain::launch::{LaunchAnswer, LaunchRequest};
use muster_domain::observation::{Machine, MachineSeen, Termination};
use muster_domain::provider::{ErrorDetail, ProviderError};
use muster_domain::time::Time;

use super::Page;

/// A machine in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedMachine {
    /// The EC2 instance ID.
    pub id: MachineId,
    /// Its state.
    pub state: Machine,
    /// When EC2 launched it.
    pub launched_at: Time,
    /// The tag `muster:launch`, if it is a valid launch ID.
    pub launch: Option<LaunchId>,
    /// Its instance type, zone and purchase option.
    pub make: Make,
}

/// A machine that was queried by its ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownMachine {
    /// Its state; absent if EC2 reports an unknown one.
    pub state: Option<Machine>,
    /// Whether it has our stack's tag. EC2 removes the tags of a machine that has ended.
    pub is_ours: bool,
    /// The tag `muster:launch`, if it is a valid launch ID.
    pub launch: Option<LaunchId>,
}

/// EC2, limited to machines with our stack's tag.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Compute {
    /// Calls CreateFleet (type `instant`) with the launch ID as client token. An error applies to
    /// the whole call.
    async fn launch(
        &self,
        id: &LaunchId,
        request: &LaunchRequest,
    ) -> Result<LaunchAnswer, LaunchError>;
    /// Returns the machines that have a launch's tag and are not terminated. EC2 is eventually
    /// consistent: a missing machine proves nothing.
    async fn find_launched(
        &self,
        id: &LaunchId,
    ) -> Result<BTreeMap<MachineId, Make>, ProviderError>;
    /// Returns the machine's state, or `Absent` if EC2 does not know the ID.
    async fn machine(&self, id: &MachineId) -> Result<MachineSeen, ProviderError>;
    /// Returns the machine's console output as far as EC2 has it. Makes one call with a short
    /// timeout: without an answer there is nothing to store.
    async fn console(&self, id: &MachineId) -> Result<String, ProviderError>;
    /// Returns up to [`MAX_LOOKED_AT`] machines in one call, without those that EC2 does not know.
    async fn machines(
        &self,
        ids: &BTreeSet<MachineId>,
    ) -> Result<BTreeMap<MachineId, ShownMachine>, ProviderError>;
    /// Lists all machines of our stack that are not terminated, page by page.
    async fn list(&self, page: Option<String>) -> Result<Page<ListedMachine>, ProviderError>;
    /// Calls TerminateInstances once for up to [`MAX_TERMINATED`] machines, without the SDK's
    /// retries: the row's back-off schedules the retry. Returns the states that EC2 reports.
    /// [`crate::reaps::terminate::all`] keeps an error about one machine from affecting the others.
    async fn terminate(
        &self,
        machines: &BTreeSet<MachineId>,
    ) -> Result<BTreeMap<MachineId, Machine>, TerminationError>;
}

/// Maximum machines per TerminateInstances. EC2 accepts more, and recommends small batches.
pub const MAX_TERMINATED: usize = 100;

/// Maximum machines per [`Compute::machines`]. EC2 accepts 200 values in a filter, and each machine
/// adds a few kilobytes to the response.
pub const MAX_LOOKED_AT: usize = 50;

/// The error of a whole TerminateInstances call. Some of its machines may terminate nevertheless: a
/// protected machine fails only those in its own zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminationError {
    /// The result for a machine that the error is about.
    pub answer: Termination,
    /// The machines of the call that EC2 names in the error.
    pub named: BTreeSet<MachineId>,
}

/// EC2's error code for an ID that it does not know, or not yet.
pub const NOT_FOUND: &str = "InvalidInstanceID.NotFound";

impl TerminationError {
    /// Returns the refusal for the error of a call about these machines.
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

/// Returns the machines that a sentence names. Compares whole words: an old, short ID can be a
/// prefix of a long one.
fn named(sentence: &str, machines: &BTreeSet<MachineId>) -> BTreeSet<MachineId> {
    let words = sentence.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
    let named = words.filter_map(|word| word.parse::<MachineId>().ok());
    named.filter(|id| machines.contains(id)).collect()
}
