//! The ports: interfaces to AWS and GitHub, in the domain's terms.
//!
//! The crates `aws`, `ec2` and `github` implement them for production, the simulator implements
//! them for tests, and some tests have smaller implementations. The passes are generic over the
//! ports.

mod compute;
mod github;
mod images;
mod prices;
mod queue;
mod receiver;
mod setup;
mod table;
mod unavailable;
mod write;

pub use self::compute::{
    Compute, ListedMachine, MAX_LOOKED_AT, MAX_TERMINATED, NOT_FOUND, ShownMachine,
    TerminationError,
};
pub use self::github::{
    Catalogue, Directory, Github, JitConfig, JitError, JobSeen, QueuedJobs, Reach, Registrar,
    RepositoryPage, SeenRepositories, SeenRepository, WorkflowRuns,
};
pub use self::images::{CreateImageError, ImageState, ImageStore, NewImage, StackImage};
pub use self::prices::{PriceList, SpotPrices};
pub use self::queue::{Queue, QueueError, Received, again_after};
pub use self::receiver::Receiver;
pub use self::setup::{
    AppAccount, AppCredentials, AppSetup, ConversionError, HookAttempt, HookError, IdentityError,
    MadeApp, SigningSecret,
};
pub use self::table::{
    Bound, CommitError, Instances, JobGroup, Jobs, LaunchConditions, Launches, Operations, Page,
    ReadError, Table, Usage,
};
pub use self::unavailable::Unavailable;
pub use self::write::Write;
