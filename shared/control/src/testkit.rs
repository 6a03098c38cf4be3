//! What the tests of this crate share.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::ec2::{LaunchError, Make};
use muster_domain::ids::{LaunchId, MachineId};
use muster_domain::launch::{LaunchAnswer, LaunchRequest};
use muster_domain::observation::{Machine, MachineSeen};
use muster_domain::provider::{ErrorDetail, ProviderError};
use muster_domain::time::{Seconds, Time};

use crate::ports::{Compute, ListedMachine, Page, ShownMachine, TerminationError};

pub(crate) fn at(second: u32) -> Time {
    Time::from_millis(1_800_000_000_000) + Seconds(second)
}

pub(crate) fn machine(number: u32) -> MachineId {
    format!("i-{number:017x}").parse().expect("a machine's id")
}

pub(crate) fn machines(numbers: &[u32]) -> BTreeSet<MachineId> {
    numbers.iter().map(|number| machine(*number)).collect()
}

pub(crate) fn fault() -> ErrorDetail {
    ErrorDetail {
        at: at(0),
        operation: "TerminateInstances".to_owned(),
        code: "Some".to_owned(),
        message: "some".to_owned(),
    }
}

/// An EC2 that only supports terminations.
pub(crate) trait Ends {
    async fn end(
        &self,
        machines: &BTreeSet<MachineId>,
    ) -> Result<BTreeMap<MachineId, Machine>, TerminationError>;
}

impl<E: Ends> Compute for E {
    async fn launch(&self, _: &LaunchId, _: &LaunchRequest) -> Result<LaunchAnswer, LaunchError> {
        unreachable!("nothing is launched")
    }
    async fn find_launched(
        &self,
        _: &LaunchId,
    ) -> Result<BTreeMap<MachineId, Make>, ProviderError> {
        unreachable!("nothing is looked for")
    }
    async fn machine(&self, _: &MachineId) -> Result<MachineSeen, ProviderError> {
        unreachable!("nothing is looked at")
    }
    async fn console(&self, _: &MachineId) -> Result<String, ProviderError> {
        unreachable!("nothing is looked at")
    }
    async fn machines(
        &self,
        _: &BTreeSet<MachineId>,
    ) -> Result<BTreeMap<MachineId, ShownMachine>, ProviderError> {
        unreachable!("nothing is looked at")
    }
    async fn list(&self, _: Option<String>) -> Result<Page<ListedMachine>, ProviderError> {
        unreachable!("nothing is listed")
    }
    async fn terminate(
        &self,
        machines: &BTreeSet<MachineId>,
    ) -> Result<BTreeMap<MachineId, Machine>, TerminationError> {
        self.end(machines).await
    }
}
