//! Peers' ways with EC2 and GitHub, as ports that stand before the real ones.

use std::collections::{BTreeMap, BTreeSet};

use muster_control::ports::{
    Compute, CreateImageError, Github, ImageStore, JitConfig, JitError, JobSeen, ListedMachine,
    NewImage, Page, QueuedJobs, Reach, Registrar, RepositoryPage, ShownMachine, StackImage,
    TerminationError,
};
use muster_domain::agent::AgentDownload;
use muster_domain::ec2::{LaunchError, Make};
use muster_domain::ids::{AppName, Entity, ImageId, InstallationId, LaunchId, MachineId, RunnerId};
use muster_domain::inquiry::ListPosition;
use muster_domain::launch::{LaunchAnswer, LaunchRequest};
use muster_domain::observation::{Deregistration, Machine, MachineSeen, RunSeen, RunnerSeen};
use muster_domain::provider::ProviderError;
use muster_domain::redelivery::DeliveryPage;

use super::PeerPolicy;
use crate::door::Door;

/// The cloud as a peer calls it.
pub(super) struct Peer<'a> {
    pub(super) door: &'a Door,
    pub(super) naive: PeerPolicy,
}

impl Peer<'_> {
    /// What EC2 takes for the token.
    fn token(&self, id: &LaunchId) -> LaunchId {
        let world = self.door.sim.world.borrow();
        let calls = world.tables.launches.get(id).map_or(1, |launch| launch.calls);
        if self.naive == PeerPolicy::NewTokenPerCall && calls > 1 {
            format!("{id}-call-{calls}").parse().unwrap_or_else(|_| id.clone())
        } else {
            id.clone()
        }
    }
}

impl Compute for Peer<'_> {
    async fn launch(
        &self,
        id: &LaunchId,
        request: &LaunchRequest,
    ) -> Result<LaunchAnswer, LaunchError> {
        self.door.launch(&self.token(id), request).await
    }

    async fn find_launched(
        &self,
        id: &LaunchId,
    ) -> Result<BTreeMap<MachineId, Make>, ProviderError> {
        self.door.find_launched(id).await
    }

    async fn machine(&self, id: &MachineId) -> Result<MachineSeen, ProviderError> {
        self.door.machine(id).await
    }

    async fn console(&self, id: &MachineId) -> Result<String, ProviderError> {
        self.door.console(id).await
    }

    async fn machines(
        &self,
        ids: &BTreeSet<MachineId>,
    ) -> Result<BTreeMap<MachineId, ShownMachine>, ProviderError> {
        self.door.machines(ids).await
    }

    async fn list(&self, page: Option<String>) -> Result<Page<ListedMachine>, ProviderError> {
        self.door.list(page).await
    }

    async fn terminate(
        &self,
        machines: &BTreeSet<MachineId>,
    ) -> Result<BTreeMap<MachineId, Machine>, TerminationError> {
        let answer = self.door.terminate(machines).await;
        match self.naive {
            PeerPolicy::TerminateIsBelieved => {
                Ok(machines.iter().map(|id| (id.clone(), Machine::Gone)).collect())
            }
            _ => answer,
        }
    }
}

impl ImageStore for Peer<'_> {
    async fn create_image(
        &self,
        machine: &MachineId,
        image: &NewImage,
    ) -> Result<ImageId, CreateImageError> {
        self.door.create_image(machine, image).await
    }

    async fn stack_images(&self) -> Result<Vec<StackImage>, ProviderError> {
        self.door.stack_images().await
    }

    async fn delete_image(&self, image: &StackImage) -> Result<(), ProviderError> {
        self.door.delete_image(image).await
    }
}

impl Github for Peer<'_> {
    async fn configure(
        &self,
        registrar: &Registrar,
        name: &str,
        labels: &[String],
        group: u64,
    ) -> Result<JitConfig, JitError> {
        let instance = name.rsplit_once('-').map_or(name, |(instance, _)| instance);
        let name = match self.naive {
            PeerPolicy::OneNameForEver => format!("{instance}-1"),
            _ => name.to_owned(),
        };
        self.door.configure(registrar, &name, labels, group).await
    }

    async fn agents(&self, registrar: &Registrar) -> Result<Vec<AgentDownload>, ProviderError> {
        self.door.agents(registrar).await
    }

    async fn runner(
        &self,
        registrar: &Registrar,
        id: RunnerId,
    ) -> Result<RunnerSeen, ProviderError> {
        match self.naive {
            PeerPolicy::AgentsAreBelieved => Ok(RunnerSeen::NotBusy(id)),
            _ => self.door.runner(registrar, id).await,
        }
    }

    async fn runner_named(
        &self,
        registrar: &Registrar,
        name: &str,
    ) -> Result<RunnerSeen, ProviderError> {
        self.door.runner_named(registrar, name).await
    }

    async fn job(
        &self,
        registrar: &Registrar,
        repository: &str,
        job: u64,
    ) -> Result<Option<JobSeen>, ProviderError> {
        Github::job(self.door, registrar, repository, job).await
    }

    async fn run(
        &self,
        registrar: &Registrar,
        repository: &str,
        run: u64,
    ) -> Result<Option<RunSeen>, ProviderError> {
        Github::run(self.door, registrar, repository, run).await
    }

    async fn queued_jobs(
        &self,
        repository: &Entity,
        installation: Option<InstallationId>,
        reach: Reach,
    ) -> Result<Option<QueuedJobs>, ProviderError> {
        self.door.queued_jobs(repository, installation, reach).await
    }

    async fn repositories_from(
        &self,
        app: AppName,
        place: Option<ListPosition>,
    ) -> Result<RepositoryPage, ProviderError> {
        self.door.repositories_from(app, place).await
    }

    async fn deregister(
        &self,
        registrar: &Registrar,
        id: RunnerId,
    ) -> Result<Deregistration, ProviderError> {
        self.door.deregister(registrar, id).await
    }

    async fn deliveries(
        &self,
        app: AppName,
        cursor: Option<&str>,
    ) -> Result<Option<DeliveryPage>, ProviderError> {
        self.door.deliveries(app, cursor).await
    }

    async fn redeliver(&self, app: AppName, delivery: u64) -> Result<bool, ProviderError> {
        self.door.redeliver(app, delivery).await
    }
}
