//! Fleets of any size at the simulated cloud's doors: what the reaper's calls cost, and what operators are shown.

mod bench;
mod counts;
mod listings;
