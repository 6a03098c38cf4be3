//! Every state of a small world that runs on the rules of the `domain` crate: the way out of one
//! instance, in which no running job may die and nothing may stay for ever. It is walked breadth
//! first until nothing new is found; a violation is shown as a shortest trace, in words.

pub mod act;
pub mod floors;
pub mod key;
pub mod naive;
pub mod rules;
pub mod search;
pub mod stop;
