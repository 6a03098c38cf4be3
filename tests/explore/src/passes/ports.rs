//! The ports of a pass that is replayed.
//!
//! What nobody can tell apart is answered at once, and always alike: no job, no limit and no switch
//! is there, and every message is sent.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::Arc;

use muster_control::ports::{
    AppCredentials, AppSetup, Catalogue, Compute, ConversionError, CreateImageError, Directory,
    Github, HookAttempt, HookError, IdentityError, ImageStore, JitConfig, JitError, JobSeen,
    ListedMachine, MadeApp, NewImage, Page, Queue, QueueError, QueuedJobs, Reach, Registrar,
    RepositoryPage, SeenRepositories, ShownMachine, SigningSecret, StackImage, TerminationError,
    Unavailable,
};
use muster_domain::agent::AgentDownload;
use muster_domain::app::{AppProblem, AppSettings, Hook, HookAnswer, Installation};
use muster_domain::ec2::{LaunchError, Make};
use muster_domain::hidden::Hidden;
use muster_domain::ids::{
    AppName, Entity, ImageId, InstallationId, InstanceName, LaunchId, MachineId, RunnerId,
};
use muster_domain::inquiry::ListPosition;
use muster_domain::instance::Instance;
use muster_domain::launch::{LaunchAnswer, LaunchRequest};
use muster_domain::message::{JobsMessage, ReapMessage, WakePool};
use muster_domain::observation::{Deregistration, Machine, MachineSeen, RunSeen, RunnerSeen};
use muster_domain::pool_file::{
    EntityId, FoundImage, FoundPlacement, FoundTemplate, ImageFilter, NamedTemplate, RunnerGroup,
};
use muster_domain::provider::ProviderError;
use muster_domain::redelivery::DeliveryPage;
use muster_domain::stored::Stored;
use muster_domain::time::Seconds;

use super::{Answer, Call, Said, Told, about};

pub(super) type Terminated = Result<BTreeMap<MachineId, Machine>, TerminationError>;

/// All ports in one.
pub(super) struct Replayed<'a> {
    said: &'a [Arc<Said>],
    next: Cell<usize>,
    /// The row as it stands now.
    row: &'a Arc<Stored<Instance>>,
    /// Reads of it that were not told before.
    read: RefCell<Vec<Said>>,
    /// The call without an answer.
    left_at: RefCell<Option<Call>>,
}

impl<'a> Replayed<'a> {
    pub(super) fn new(said: &'a [Arc<Said>], row: &'a Arc<Stored<Instance>>) -> Self {
        Self {
            said,
            next: Cell::default(),
            row,
            read: RefCell::default(),
            left_at: RefCell::default(),
        }
    }

    /// The reads that are to be remembered, and the call that the pass was left at. Without one it
    /// has ended.
    pub(super) fn into_end(self) -> (Vec<Said>, Option<Call>) {
        let Self { said, next, row: _, read, left_at } = self;
        assert_eq!(next.get(), said.len(), "a replayed pass makes all of its calls again");
        (read.into_inner(), left_at.into_inner())
    }

    /// What was answered to the next call of a replay, if that far was come before.
    fn again(&self, call: &Call) -> Option<&Told> {
        let said = self.said.get(self.next.get())?;
        assert_eq!(*said.call, *call, "a replayed pass makes the same calls");
        self.next.set(self.next.get() + 1);
        Some(&said.answer)
    }

    pub(super) fn name(&self) -> InstanceName {
        self.row.name.clone()
    }

    pub(super) fn row(&self) -> Stored<Instance> {
        match self.again(&Call::Row) {
            Some(Told::Row(row)) => Stored::clone(row),
            Some(Told::Answer(answer)) => unreachable!("{answer:?} is no row"),
            None => {
                let answer = Told::Row(self.row.clone());
                self.read.borrow_mut().push(Said { call: Arc::new(Call::Row), answer });
                Stored::clone(self.row)
            }
        }
    }

    pub(super) async fn ask(&self, call: Call) -> Answer {
        match self.again(&call) {
            Some(Told::Answer(answer)) => answer.clone(),
            Some(Told::Row(_)) => unreachable!("{call:?} is answered with a row"),
            None => {
                *self.left_at.borrow_mut() = Some(call);
                pending().await
            }
        }
    }

    async fn see_runner(&self, call: Call) -> Result<RunnerSeen, ProviderError> {
        match self.ask(call).await {
            Answer::Runner(answer) => answer,
            other => unreachable!("{other:?} is not about a runner"),
        }
    }
}

impl Compute for Replayed<'_> {
    async fn launch(&self, _: &LaunchId, _: &LaunchRequest) -> Result<LaunchAnswer, LaunchError> {
        unreachable!("nothing is launched")
    }
    async fn find_launched(
        &self,
        _: &LaunchId,
    ) -> Result<BTreeMap<MachineId, Make>, ProviderError> {
        unreachable!("nothing was launched")
    }
    async fn machine(&self, _: &MachineId) -> Result<MachineSeen, ProviderError> {
        match self.ask(Call::Machine).await {
            Answer::Machine(answer) => answer,
            other => unreachable!("{other:?} is not about a machine"),
        }
    }
    async fn console(&self, _: &MachineId) -> Result<String, ProviderError> {
        // Nothing is decided by it.
        Ok(String::new())
    }
    async fn machines(
        &self,
        _: &BTreeSet<MachineId>,
    ) -> Result<BTreeMap<MachineId, ShownMachine>, ProviderError> {
        unreachable!("no pass of this world works the ledger")
    }
    async fn list(&self, _: Option<String>) -> Result<Page<ListedMachine>, ProviderError> {
        unreachable!("no pass of this world lists")
    }
    async fn terminate(&self, machines: &BTreeSet<MachineId>) -> Terminated {
        let machine = machines.first().expect("a machine to terminate");
        match self.ask(Call::Terminate).await {
            Answer::Terminated(answer) => about(machine, answer),
            other => unreachable!("{other:?} is not about a termination"),
        }
    }
}

impl ImageStore for Replayed<'_> {
    async fn create_image(&self, _: &MachineId, _: &NewImage) -> Result<ImageId, CreateImageError> {
        unreachable!("no pass of this world creates images")
    }
    async fn stack_images(&self) -> Result<Vec<StackImage>, ProviderError> {
        unreachable!("no pass of this world lists images")
    }
    async fn delete_image(&self, _: &StackImage) -> Result<(), ProviderError> {
        unreachable!("no pass of this world deletes images")
    }
}

impl Github for Replayed<'_> {
    async fn configure(
        &self,
        _: &Registrar,
        _: &str,
        _: &[String],
        _: u64,
    ) -> Result<JitConfig, JitError> {
        unreachable!("runner-api alone registers")
    }
    async fn agents(&self, _: &Registrar) -> Result<Vec<AgentDownload>, ProviderError> {
        unreachable!("runner-api alone asks")
    }
    async fn runner(&self, _: &Registrar, id: RunnerId) -> Result<RunnerSeen, ProviderError> {
        self.see_runner(Call::Runner(id)).await
    }
    async fn runner_named(&self, _: &Registrar, name: &str) -> Result<RunnerSeen, ProviderError> {
        self.see_runner(Call::RunnerNamed(name.to_owned())).await
    }
    async fn job(&self, _: &Registrar, _: &str, _: u64) -> Result<Option<JobSeen>, ProviderError> {
        unreachable!("there is no job on record")
    }
    async fn run(&self, _: &Registrar, _: &str, _: u64) -> Result<Option<RunSeen>, ProviderError> {
        unreachable!("there is no job on record")
    }
    async fn queued_jobs(
        &self,
        _: &Entity,
        _: Option<InstallationId>,
        _: Reach,
    ) -> Result<Option<QueuedJobs>, ProviderError> {
        unreachable!("the sweep alone asks")
    }
    async fn deregister(
        &self,
        _: &Registrar,
        id: RunnerId,
    ) -> Result<Deregistration, ProviderError> {
        match self.ask(Call::Deregister(id)).await {
            Answer::Deregistered(answer) => answer,
            other => unreachable!("{other:?} is not about a registration"),
        }
    }
    async fn repositories_from(
        &self,
        _: AppName,
        _: Option<ListPosition>,
    ) -> Result<RepositoryPage, ProviderError> {
        unreachable!("the sweep alone asks")
    }
    async fn deliveries(
        &self,
        _: AppName,
        _: Option<&str>,
    ) -> Result<Option<DeliveryPage>, ProviderError> {
        unreachable!("the sweep alone asks")
    }
    async fn redeliver(&self, _: AppName, _: u64) -> Result<bool, ProviderError> {
        unreachable!("the sweep alone asks")
    }
}

impl Directory for Replayed<'_> {
    async fn entity(&self, _: EntityId) -> Result<Option<Entity>, ProviderError> {
        unreachable!("no pool file is applied")
    }
    async fn app(&self, _: AppName) -> Result<AppSettings, AppProblem> {
        unreachable!("nobody asks for the status")
    }
    async fn installations(&self, _: AppName) -> Result<Vec<Installation>, ProviderError> {
        unreachable!("nobody asks for the status")
    }
    async fn hook(&self, _: AppName) -> Result<Hook, ProviderError> {
        unreachable!("nobody asks for the status")
    }
    async fn hook_answers(&self, _: AppName) -> Result<Vec<HookAnswer>, ProviderError> {
        unreachable!("nobody asks for the status")
    }
    async fn repositories(&self, _: AppName) -> Result<SeenRepositories, ProviderError> {
        unreachable!("nobody sets the stack up")
    }
    async fn groups(&self, _: &Entity) -> Result<Vec<RunnerGroup>, ProviderError> {
        unreachable!("no pool file is applied")
    }
}

impl AppSetup for Replayed<'_> {
    async fn made_by(&self, _: AppName) -> Result<Option<String>, Unavailable> {
        unreachable!("no App is made")
    }
    async fn convert(&self, _: &str, _: &Hidden) -> Result<MadeApp, ConversionError> {
        unreachable!("no App is made")
    }
    async fn identify(&self, _: &AppCredentials) -> Result<AppSettings, IdentityError> {
        unreachable!("no App is connected")
    }
    async fn keep(&self, _: AppName, _: Option<&AppCredentials>) -> Result<(), Unavailable> {
        unreachable!("no App is made")
    }
    async fn signing_secret(&self, _: AppName) -> Result<SigningSecret, Unavailable> {
        unreachable!("no webhook is set")
    }
    async fn renew_signing_secret(&self) -> Result<(), Unavailable> {
        unreachable!("no secret is changed")
    }
    async fn hook_attempts(&self, _: AppName) -> Result<Vec<HookAttempt>, ProviderError> {
        unreachable!("no webhook is tested")
    }
    async fn pause(&self, _: Seconds) {
        unreachable!("nobody waits")
    }
    async fn set_hook(&self, _: AppName, _: &str, _: Option<&Hidden>) -> Result<(), HookError> {
        unreachable!("no webhook is set")
    }
}

impl Catalogue for Replayed<'_> {
    async fn newest(&self, _: &ImageFilter) -> Result<Option<FoundImage>, ProviderError> {
        unreachable!("no pool file is applied")
    }
    async fn template(&self, _: &NamedTemplate) -> Result<Option<FoundTemplate>, ProviderError> {
        unreachable!("no pool file is applied")
    }
    async fn placement(&self, _: &str) -> Result<Option<FoundPlacement>, ProviderError> {
        unreachable!("no pool file is applied")
    }
}

impl Queue for Replayed<'_> {
    async fn send_jobs(&self, _: &[JobsMessage]) -> Result<(), QueueError> {
        Ok(())
    }
    async fn send_wakes(&self, _: &[WakePool], _: Seconds) -> Result<(), QueueError> {
        Ok(())
    }
    async fn send_reap(&self, _: &[ReapMessage]) -> Result<(), QueueError> {
        Ok(())
    }
    async fn hide(&self, _: &str, _: Seconds) -> Result<(), QueueError> {
        Ok(())
    }
    async fn hide_job(&self, _: &str, _: Seconds) -> Result<(), QueueError> {
        Ok(())
    }
    async fn hide_wake(&self, _: &str, _: Seconds) -> Result<(), QueueError> {
        Ok(())
    }
}
