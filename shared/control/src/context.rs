//! The ports and settings of a pass.

use crate::Settings;
use crate::ports::{Compute, Github, Queue, Table};

/// Bundles the four ports as one type parameter. A pass bounds only the ports that it uses, as in
/// `W: Wired<Table: Table, Compute: Compute>`, so its type shows what it cannot touch; the caller
/// passes `()` for the others.
pub trait Wired {
    /// The tables.
    type Table;
    /// The queues.
    type Queue;
    /// EC2.
    type Compute;
    /// GitHub.
    type Github;
}

impl<T, Q, C, G> Wired for (T, Q, C, G) {
    type Table = T;
    type Queue = Q;
    type Compute = C;
    type Github = G;
}

/// All four ports, for passes that use all of them.
pub trait Ports: Wired<Table: Table, Queue: Queue, Compute: Compute, Github: Github> {}

impl<W: Wired<Table: Table, Queue: Queue, Compute: Compute, Github: Github>> Ports for W {}

/// The ports and settings of a pass.
pub struct Context<'a, W: Wired> {
    /// The tables.
    pub table: &'a W::Table,
    /// The queues.
    pub queue: &'a W::Queue,
    /// EC2.
    pub compute: &'a W::Compute,
    /// GitHub.
    pub github: &'a W::Github,
    /// The stack's settings: from its parameters, or with the current pools (see [`Self::with`]).
    pub settings: &'a Settings,
}

impl<'a, T, Q, C, G> Context<'a, (T, Q, C, G)> {
    /// Creates a context from implementations of the ports.
    #[must_use]
    pub const fn new(
        table: &'a T,
        queue: &'a Q,
        compute: &'a C,
        github: &'a G,
        settings: &'a Settings,
    ) -> Self {
        Self { table, queue, compute, github, settings }
    }
}

impl<W: Wired> Context<'_, W> {
    /// Returns the same ports with different settings, for example with the current pools.
    #[must_use]
    pub const fn with<'b>(&'b self, settings: &'b Settings) -> Context<'b, W> {
        let &Context { table, queue, compute, github, .. } = self;
        Context { table, queue, compute, github, settings }
    }
}

// Derived impls would require `W: Clone` and `W: Copy`.
impl<W: Wired> Clone for Context<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: Wired> Copy for Context<'_, W> {}
