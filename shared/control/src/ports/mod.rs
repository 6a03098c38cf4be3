//! What the passes need of the world, in the domain's words.
//!
//! The real cloud implements each port (crates `aws`, `ec2`, `github`), and the simulated one does;
//! some tests bring smaller ones. The passes are written once, over these.

mod compute;
mod github;
mod prices;
mod queue;
mod receiver;
mod setup;
mod table;
mod unavailable;
mod write;

pub use self::compute::{
    Compute, ListedMachine, MAX_LOOKED_AT, MAX_TERMINATED, NOT_FOUND, Refusal, ShownMachine,
};
pub use self::github::{
    Catalogue, Directory, Github, JitConfig, JitError, JobSeen, QueuedJobs, Reach, Registrar,
    RepositoryPage, RunSeen, SeenRepositories, SeenRepository,
};
pub use self::prices::{PriceList, SpotPrices};
pub use self::queue::{Queue, QueueError};
pub use self::receiver::Receiver;
pub use self::setup::{
    AppAccount, AppCredentials, AppSetup, ConversionError, HookAttempt, HookError, IdentityError,
    MadeApp, SigningSecret,
};
pub use self::table::{
    CommitError, Instances, JobGroup, Jobs, LaunchConditions, Launches, Operations, Page,
    ReadError, Table, Usage,
};
pub use self::unavailable::Unavailable;
pub use self::write::Write;
