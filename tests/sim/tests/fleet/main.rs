//! Records that a test puts there, at the simulated cloud's doors: what the reaper's calls cost in fleets of any size, what
//! operators are shown, what a pool file names, and what a second writer changes.

mod bench;
mod counts;
mod listings;
mod names;
mod writers;
