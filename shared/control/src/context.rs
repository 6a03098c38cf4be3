//! The whole world of a pass: all four ports, and the stack.

use crate::Settings;
use crate::ports::{Compute, Github, Queue, Table};

/// The implementations of the four ports, as one type parameter.
///
/// A pass that works with fewer of them has a parameter for each instead: its type says then what
/// it cannot touch. A launch pass has no GitHub, and ingest has a table alone.
pub trait Ports {
    /// The tables.
    type Table: Table;
    /// The queues.
    type Queue: Queue;
    /// EC2.
    type Compute: Compute;
    /// GitHub.
    type Github: Github;
}

impl<T: Table, Q: Queue, C: Compute, G: Github> Ports for (T, Q, C, G) {
    type Table = T;
    type Queue = Q;
    type Compute = C;
    type Github = G;
}

/// What a pass that meets all of the world works with.
pub struct Context<'a, P: Ports> {
    /// The tables.
    pub table: &'a P::Table,
    /// The queues.
    pub queue: &'a P::Queue,
    /// EC2.
    pub compute: &'a P::Compute,
    /// GitHub.
    pub github: &'a P::Github,
    /// The stack: as its parameters say, or with the pools of now (see [`Self::with`]).
    pub settings: &'a Settings,
}

impl<'a, T: Table, Q: Queue, C: Compute, G: Github> Context<'a, (T, Q, C, G)> {
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

impl<P: Ports> Context<'_, P> {
    /// The same world with other settings: with the pools as they are now.
    #[must_use]
    pub const fn with<'b>(&'b self, settings: &'b Settings) -> Context<'b, P> {
        let &Context { table, queue, compute, github, .. } = self;
        Context { table, queue, compute, github, settings }
    }
}

// By hand: the derived ones would ask it of `P` itself.
impl<P: Ports> Clone for Context<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Ports> Copy for Context<'_, P> {}
