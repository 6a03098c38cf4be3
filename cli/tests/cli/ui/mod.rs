//! The pages of `muster ui`: what they show, who is let in, and the program that serves them.

mod door;
mod orders;
pub(crate) mod pages;
mod served;
