//! The simulated cloud: EC2, GitHub's runner side, and the machines between them.
//!
//! It stands where the real ones would stand when Muster runs on a developer's machine or in CI,
//! and it can be made to fail in every way that was seen in production. Two layers before the
//! model:
//!
//! - [`muster_cloud`] (`tests/cloud`) decides everything. It is plain data and plain functions: no
//!   clock, no I/O, no randomness; time is an argument. The simulator (`tests/sim`) asks it too.
//! - [`wire`] translates. Each door takes a request apart, asks the model, and writes the answer as
//!   the real service does. Nothing is decided there.
//! - [`machine`] gives instances a body: one bash process per machine, running the user data of its
//!   launch template word for word, with a metadata service of its own.
//!
//! # Doors (loopback only)
//!
//! | door | speaks | knows |
//! |-|-|-|
//! | EC2 | EC2 Query, 2016-11-15 | `CreateFleet` (instant), `DescribeInstances`, `TerminateInstances`, `CreateTags`; launch templates are asked of the emulator |
//! | GitHub | REST, also below `/api/v3` | installation tokens, `generate-jitconfig`, list, get and delete runners, jobs, runs and their jobs |
//! | machines | plain lines | GitHub's side of a runner process, each machine's IMDSv2 below `/imds/<id>`, its power button |
//! | control | JSON below `/control` | what a test says and asks |
//!
//! Whatever a door does not know, it refuses in words: an unknown route, action or parameter never
//! looks like success.
//!
//! # What goes out
//!
//! Webhooks are posted, signed, to the address of their owner. EC2's events are put into a stack's
//! reap queue in EventBridge's envelope, because EventBridge (the emulator's as well as the real
//! one) takes nothing that claims to come from AWS. Role credentials come from `AssumeRole` at the
//! emulator, with the instance id as session name.
//!
//! # Several stacks in one world
//!
//! An instance belongs to the stack in its `muster:stack` tag, a call to the stack of the instances
//! or of the GitHub owner it names. Scripts, faults, counters and the call log can be limited to
//! one stack, so tests that run side by side do not see each other.
//!
//! # Control
//!
//! `POST /control/stacks`, `/control/owners` set a stack up; `POST /control/jobs` queues a job;
//! `POST /control/faults` scripts what goes wrong with calls, `/control/behaviours` with machines,
//! `/control/hooks` with webhooks, `/control/owners/{owner}/lies` with GitHub's answers;
//! `GET /control/calls` and `/control/counters` tell what was asked of the world, `GET
//! /control/instances`, `/control/machines`, `/control/jobs`, `/control/runners` and
//! `/control/kills` what is true. [`wire::control`] lists every endpoint.

pub mod machine;
pub mod wire;

pub use wire::{Running, WorldSettings, start};
