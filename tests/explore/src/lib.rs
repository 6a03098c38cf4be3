//! Every state of two small worlds that run on the rules of the `domain` crate.
//!
//! *Triangle* is about launches, bindings and claims: who serves whom, and that nothing leaks or
//! starves. *Stop* is about the way out of one instance: that no running job dies, and that nothing
//! stays for ever. Both are walked breadth first until nothing new is found; a violation is shown
//! as a shortest trace, in words.

pub mod act;
pub mod floors;
pub mod key;
pub mod naive;
pub mod rules;
pub mod search;
pub mod stop;
pub mod triangle;
