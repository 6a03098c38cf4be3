//! Every state of a small world that runs on the real rules, and on the real passes of reaper and
//! operator: the way out of one instance, in which no running job may die and nothing may stay for
//! ever. It is walked breadth first until nothing new is found; a violation is shown as a shortest
//! trace, in words.

pub mod act;
pub mod key;
pub mod passes;
pub mod rerun;
pub mod search;
pub mod stop;

// A pass is run anew for each of its steps, and allocates all that it did before.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
