//! Records that a test puts there, at the simulated cloud's doors: what the reaper's calls cost in
//! fleets of any size, what operators are shown and may order, what a pool file names, when
//! something is late, what a backlog hides, what a second writer changes, what an invocation is
//! done with, what comes between a wake-up and its job, what stands in the way of a reap pass, who asks again what GitHub has refused, who asks
//! for an enterprise, how a pool recovers, what a machine says without end, how fast hundreds of machines end, how the App is
//! made, which agent a machine is handed, what the record of usage says, what CloudWatch is told,
//! what a page costs that asks often, what is recorded of a registration that fails, why a pool launches nothing, what days cost that are replayed, and what is read while nothing can be written, and what an event does that warms a pool.

mod agents;
mod alarms;
mod announced;
mod answers;
mod app;
mod asking;
mod backlog;
mod batches;
mod bench;
mod counts;
mod damage;
mod early;
mod ends;
mod enterprises;
mod events;
mod every_answer;
mod findings;
mod hundreds;
mod images;
mod interruptions;
mod lateness;
mod ledger;
mod listings;
mod measures;
mod names;
mod notified;
mod orders;
#[path = "../outcomes/mod.rs"]
mod outcomes;
mod overview;
mod reaps;
mod reasons;
mod recovers;
mod redelivery;
mod registrations;
mod replay;
mod reports;
mod reruns;
mod setup;
mod silence;
mod sums;
mod unreadable;
mod unwritten;
mod usage;
mod warmed;
mod writers;
