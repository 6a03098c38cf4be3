//! Fleets of any size at the simulated cloud's doors: what the reaper's calls cost, what operators are shown, and what a
//! pool file names.

mod bench;
mod counts;
mod listings;
mod names;
