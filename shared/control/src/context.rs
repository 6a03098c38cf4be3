//! The world of a pass: the ports that it works with, and the stack.

use crate::Settings;
use crate::ports::{Compute, Github, Queue, Table};

/// What stands behind the four ports, as one type parameter. A pass asks for the ports that it
/// needs, as in `W: Wired<Table: Table, Compute: Compute>`: its type says what it cannot touch, and
/// whoever wires it gives `()` for the others.
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

/// All four ports: what a pass asks for that meets all of the world.
pub trait Ports: Wired<Table: Table, Queue: Queue, Compute: Compute, Github: Github> {}

impl<W: Wired<Table: Table, Queue: Queue, Compute: Compute, Github: Github>> Ports for W {}

/// What a pass works with.
pub struct Context<'a, W: Wired> {
    /// The tables.
    pub table: &'a W::Table,
    /// The queues.
    pub queue: &'a W::Queue,
    /// EC2.
    pub compute: &'a W::Compute,
    /// GitHub.
    pub github: &'a W::Github,
    /// The stack: as its parameters say, or with the pools of now (see [`Self::with`]).
    pub settings: &'a Settings,
}

impl<'a, T, Q, C, G> Context<'a, (T, Q, C, G)> {
    /// A context of these implementations.
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
    /// The same world with other settings: with the pools as they are now.
    #[must_use]
    pub const fn with<'b>(&'b self, settings: &'b Settings) -> Context<'b, W> {
        let &Context { table, queue, compute, github, .. } = self;
        Context { table, queue, compute, github, settings }
    }
}

// By hand: the derived ones would ask it of `W` itself.
impl<W: Wired> Clone for Context<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: Wired> Copy for Context<'_, W> {}
