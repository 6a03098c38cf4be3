//! What somebody else does while a call is on its way.

use std::rc::Rc;

use muster_domain::audit::AuditKind;
use muster_domain::ids::PoolName;
use muster_domain::job::labels::Labels;
use muster_sim::chosen::MadeCall;
use muster_sim::github::Job;
use muster_sim::invocations::{ApiCall, Ask, Call};
use muster_sim::scenario::Stage;
use muster_sim::world::{Task, World};
use serde_json::{Value, json};

/// What is to hold from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stops {
    /// Nothing in particular.
    Nothing,
    /// No machine is launched.
    Launches,
    /// No runner is removed, no machine terminated.
    Deletes,
    /// Ordered machines take no job, and end.
    Jobs,
    /// The set of pools stays as it was applied last.
    Pools,
}

pub(crate) struct Other {
    pub(crate) name: &'static str,
    pub(crate) stops: Stops,
    pub(crate) act: fn(&mut World),
}

pub(crate) const OTHERS: &[Other] = &[
    Other { name: "all machines are ordered to end", stops: Stops::Jobs, act: end_all },
    Other {
        name: "launches are paused",
        stops: Stops::Launches,
        act: |world| switch(world, "launches"),
    },
    Other {
        name: "deletes are paused",
        stops: Stops::Deletes,
        act: |world| switch(world, "deletes"),
    },
    Other { name: "a job is queued", stops: Stops::Nothing, act: queue_job },
    Other { name: "a removed pool is listed again", stops: Stops::Pools, act: list_again },
    Other {
        name: "the machine asks for another configuration",
        stops: Stops::Nothing,
        act: ask_again,
    },
    Other { name: "job 1 is cancelled", stops: Stops::Nothing, act: |world| world.cancel_job(1) },
];

fn order(world: &mut World, request: Value) {
    let number = u32::try_from(world.requests.len()).expect("few");
    world.requests.push(Some(request));
    world.start(Task::Function(Call::Operator(number)), 0);
}

fn end_all(world: &mut World) {
    let names: Vec<String> = world.tables.live.iter().map(ToString::to_string).collect();
    for name in names {
        let by = json!({ "version": 1, "action": "delete", "name": name, "reason": "a test", "by": "somebody" });
        order(world, by);
    }
}

fn switch(world: &mut World, what: &str) {
    order(
        world,
        json!({ "version": 1, "action": "switch", what: "off", "reason": "a test", "by": "somebody" }),
    );
}

/// The file has the pools again that the one before left out.
fn list_again(world: &mut World) {
    let version = world.tables.pool_versions.keys().next().copied();
    let Some(version) = version.filter(|_| lacks_a_pool(world)) else { return };
    order(world, json!({ "version": 1, "action": "pools", "restore": version, "by": "somebody" }));
}

/// Whether the file has left out a pool that had machines then.
fn lacks_a_pool(world: &World) -> bool {
    let set = world.tables.pools.as_ref();
    set.is_some_and(|set| set.pools.iter().any(|pool| pool.removed_at.is_some()))
}

/// A machine that has lost the answer to its first question.
fn ask_again(world: &mut World) {
    let Some(machine) = world.ec2.machines.iter().position(|machine| machine.launch.is_some())
    else {
        return;
    };
    let machine = u32::try_from(machine).expect("few");
    let number = u32::try_from(world.api_calls.len()).expect("few");
    let ask = Rc::new(Ask::Configuration(None));
    world.api_calls.push(ApiCall { machine, ask, reply: None });
    world.start(Task::Function(Call::Api(number)), 0);
}

fn queue_job(world: &mut World) {
    let number = u32::try_from(world.github.jobs.len().max(1)).expect("few");
    while world.github.jobs.len() <= number as usize {
        let next = u32::try_from(world.github.jobs.len()).expect("few");
        let labels = Labels::new(["linux"]);
        world.github.jobs.push(Job::planned(next, "acme/web", true, labels, None));
    }
    world.queue_job(number);
}

/// Whether the operator's word holds. By the time that the call is carried out it is on record.
pub(crate) fn stops(
    other: &Other,
    stage: &mut Stage,
    calls: &[MadeCall],
    number: usize,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let (effects, records): (&[&str], &[&str]) = match other.stops {
        Stops::Nothing => return wrong,
        Stops::Pools => return stage.change(|world| removes_pools(world)),
        Stops::Jobs => (&["configure"], &["instance", "instances"]),
        Stops::Launches => (&["launch"], &["switches", "launch_conditions"]),
        Stops::Deletes => (&["terminate", "deregister"], &["switches"]),
    };
    let reads = |call: &MadeCall| records.contains(&&*call.name);
    let arrived = calls[number].at;
    let later = calls.iter().enumerate().skip(number).filter(|(_, call)| call.at >= arrived);
    let mut after = later.skip_while(|(_, call)| !reads(call)).skip(1);
    if let Some((at, call)) = after.find(|(_, call)| effects.contains(&&*call.name)) {
        wrong.push(format!("call {at} ({}) comes after the pass has read it", call.name));
    }
    if other.stops == Stops::Jobs {
        wrong.extend(stage.change(|world| takes_jobs(world)));
        return wrong;
    }
    let count = |world: &mut World| {
        let removed = world.github.truth.former_runners().iter();
        let removed = removed.filter(|runner| runner.removed_by == Some("api")).count();
        match other.stops {
            Stops::Launches => (world.ec2.machines.len(), 0),
            _ => (usize::try_from(world.calls.terminates).expect("few"), removed),
        }
    };
    let before = stage.change(count);
    let _ = stage.tell("advance 3m");
    let since = stage.change(count);
    if before != since {
        wrong.push(format!("{} go on: {before:?} became {since:?}", effects.join(", ")));
    }
    wrong
}

/// Pools that are removed although the file has them again.
fn removes_pools(world: &World) -> Vec<String> {
    let listed = world.tables.pool_versions.first_key_value().map(|(_, set)| &set.pools);
    let is_there = |name: &PoolName| {
        let set = world.tables.pools.as_ref();
        set.is_some_and(|set| {
            set.pools.iter().any(|pool| pool.name == *name && pool.removed_at.is_none())
        })
    };
    let is_again = world.tables.pools.as_ref().is_some_and(|set| set.version > 2);
    let gone = listed.into_iter().flatten().filter(|pool| is_again && !is_there(&pool.name));
    gone.map(|pool| format!("pool {} is listed again, and is not there", pool.name)).collect()
}

/// Jobs that began on a machine after the order to end it.
fn takes_jobs(world: &World) -> Vec<String> {
    let ordered = world.tables.audits.iter().filter(|line| line.kind == AuditKind::Ordered);
    let mut wrong = Vec::new();
    for line in ordered {
        let row = world.tables.live_rows().find(|row| row.name.as_str() == line.subject);
        if row.is_some_and(|row| row.order().is_none()) {
            wrong.push(format!("the order for {} is lost", line.subject));
        }
    }
    wrong
}
