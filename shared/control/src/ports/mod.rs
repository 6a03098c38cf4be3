//! What the passes need of the world, in the domain's words.
//!
//! Each port has exactly two implementations: the real cloud (crates `aws`, `ec2`, `github`), and
//! the simulated one. The passes are written once, over these.

mod compute;
mod github;
mod queue;
mod table;
mod unavailable;
mod write;

pub use self::compute::{Compute, ListedMachine, MAX_TERMINATED, NOT_FOUND, Refusal};
pub use self::github::{
    Delivery, Directory, Github, Images, JitConfig, JitError, JobSeen, Registrar,
};
pub use self::queue::{Queue, QueueError};
pub use self::table::{
    CommitError, Entities, Instances, Jobs, LaunchConditions, Launches, Operations, Page,
    ReadError, Table,
};
pub use self::unavailable::Unavailable;
pub use self::write::Write;
