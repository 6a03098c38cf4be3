//! What is asked of the books after a pass.

use std::collections::BTreeMap;

use muster_domain::ids::{InstanceName, JobKey, LaunchId};
use muster_domain::instance::{RunnerState, State};
use muster_domain::job::JobStatus;
use muster_domain::time::Time;
use muster_sim::agenda::{Millis, SECOND, Which};
use muster_sim::github::Status;
use muster_sim::world::World;

use super::passes::Pass;

/// The sweep's minute, and some seconds for what it wakes.
pub(crate) const GRACE: Millis = 75 * SECOND;

/// What stands in the books some seconds after the pass.
#[derive(Clone, Debug, Default)]
pub(crate) struct Books {
    pub(crate) rows: BTreeMap<InstanceName, (State, RunnerState, Option<Time>, Option<JobKey>)>,
    pub(crate) jobs: BTreeMap<JobKey, (JobStatus, Option<InstanceName>)>,
}

impl Books {
    pub(crate) fn of(world: &World) -> Self {
        let rows = world.tables.instances.values();
        let jobs = world.tables.jobs.values();
        Self {
            rows: rows
                .map(|row| {
                    let runner = row.runner.state;
                    (row.name.clone(), (row.state(), runner, row.due_at(), row.claim()))
                })
                .collect(),
            jobs: jobs.map(|job| (job.key(), (job.last_event.status, job.claim.clone()))).collect(),
        }
    }

    /// What is due much later than in the undisturbed run.
    pub(crate) fn later_than(&self, usual: &Self, allowed: Millis) -> Vec<String> {
        let late = |due: Option<Time>, usual: Option<Time>| {
            let late = due?.as_millis() - usual?.as_millis();
            (late > GRACE + allowed).then_some(late / 1000)
        };
        let rows = self.rows.iter().filter_map(|(name, (state, runner, due, _))| {
            let (usual_state, usual_runner, usual_due, _) = usual.rows.get(name)?;
            if (state, runner) != (usual_state, usual_runner) {
                return None;
            }
            let late = late(*due, *usual_due)?;
            Some(format!("{name} is due {late} s later"))
        });
        rows.collect()
    }

    /// What has gone on because of a "not found", and would not have without it.
    pub(crate) fn is_driven_on(&self, before: &Self, usual: &Self) -> Vec<String> {
        let rows = self.rows.iter().filter_map(|(name, (state, _, _, claim))| {
            let (stood, _, _, claimed) = before.rows.get(name)?;
            let (stands, _, _, claims) = usual.rows.get(name)?;
            let is_usual = state == stood || state == stands || *stands == State::Deleted;
            let is_claimed = claim == claimed || claim == claims;
            (!is_usual || !is_claimed)
                .then(|| format!("{name} is {state}, with the claim {claim:?}"))
        });
        let jobs = self.jobs.iter().filter_map(|(key, (status, claim))| {
            let (stood, claimed) = before.jobs.get(key)?;
            let (stands, claims) = usual.jobs.get(key)?;
            let is_usual = status == stood || status == stands;
            let is_claimed = claim == claimed || claim == claims;
            (!is_usual || !is_claimed)
                .then(|| format!("job {key} is {status:?}, with the claim {claim:?}"))
        });
        rows.chain(jobs).collect()
    }
}

/// Whatever the pass was answered.
pub(crate) fn after_the_pass(
    world: &mut World,
    pass: &Pass,
    now: &Books,
    usual: &Books,
) -> Vec<String> {
    let mut wrong = Vec::new();
    if let Some(broken) = &world.violation {
        wrong.push(format!("{} broken: {}", broken.rule, broken.what));
    }
    for (pool, one) in &world.tables.capacities {
        if one.is_leased(world.time()) {
            wrong.push(format!("the lease of pool {pool} is still held"));
        }
    }
    if pass.function == "scale-up" && world.queues.of(Which::Jobs).is_empty() {
        for (key, (status, ..)) in &usual.jobs {
            match now.jobs.get(key) {
                Some((told, ..)) if told >= status => {}
                told => wrong.push(format!(
                    "the event {status:?} of job {key} is acknowledged, and its row says {:?}",
                    told.map(|one| one.0)
                )),
            }
        }
    }
    let live = || world.tables.live_rows();
    for runner in world.github.truth.runners() {
        let is_known = live().any(|row| {
            row.runner.id.is_some_and(|id| id.0 == runner.id) || row.runner_name() == runner.name
        });
        if !is_known {
            wrong.push(format!("no record knows the registration {}", runner.name));
        }
    }
    let is_known = |launch: &LaunchId| world.tables.launches.contains_key(launch);
    for machine in world.ec2.living() {
        let Some(launch) = machine.launch.as_ref().filter(|launch| is_known(launch)) else {
            continue;
        };
        let owner = world.tables.owners.get(&machine.id);
        let is_owned = owner.is_some_and(|owner| world.tables.live.contains(owner));
        let has_slot = live().any(|row| row.is_free_slot_of(launch));
        if !is_owned && !has_slot && !world.tables.orphans.contains_key(&machine.id) {
            wrong.push(format!("nobody owns {}", machine.id));
        }
    }
    wrong
}

const GONE: &str = "the last machine was gone";

/// When everything came to its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ends(BTreeMap<String, Millis>);

impl Ends {
    pub(crate) fn of(world: &World) -> Self {
        let jobs = world.github.known().filter_map(|(job, truth)| {
            Some((format!("job {} ended", job.key.job), truth.completed_at?))
        });
        let began = world.github.known().filter_map(|(job, truth)| {
            Some((format!("job {} began", job.key.job), truth.began_at?))
        });
        let machines = (0..).zip(&world.ec2.machines);
        let machines = machines.filter(|(_, machine)| machine.launch.is_some());
        let gone = machines.map(|(number, _)| world.ec2.instance(number).since);
        let rows = world.tables.instances.values().map(|row| row.since().as_millis());
        let gone = gone.chain(rows).map(|at| (GONE.to_owned(), at));
        let mut ends = BTreeMap::new();
        for (what, at) in jobs.chain(began).chain(gone) {
            let last: &mut Millis = ends.entry(what).or_default();
            *last = at.max(*last);
        }
        Self(ends)
    }

    /// What came to its end latest, beside the undisturbed run.
    pub(crate) fn latest(&self, usual: &Self, with_machines: bool) -> (Millis, String) {
        let all = self.0.iter().filter(|(what, _)| with_machines || *what != GONE);
        let late = all.filter_map(|(what, at)| Some((at - usual.0.get(what)?, what)));
        late.max().map_or_else(|| (0, String::new()), |(late, what)| (late, what.clone()))
    }
}

/// Once the trouble is over.
pub(crate) fn in_the_end(world: &mut World) -> Vec<String> {
    let mut wrong = Vec::new();
    if let Some(broken) = &world.violation {
        wrong.push(format!("{} broken: {}", broken.rule, broken.what));
    }
    for (job, truth) in world.github.known() {
        if truth.status != Status::Completed {
            wrong.push(format!("job {} is {:?} in the end", job.key.job, truth.status));
        }
    }
    let counted: u32 = world.tables.capacities.values().map(|one| one.live).sum();
    let limits: u32 = world.tables.counters.values().sum();
    for (count, what) in [
        (world.tables.live.len(), "rows live on"),
        (world.ec2.live(), "machines live on"),
        (world.tables.orphans.len(), "orphans are left"),
        (counted as usize + limits as usize, "are counted still"),
        (world.github.truth.runners().count(), "registrations are left"),
        (world.queues.len(), "messages are left"),
    ] {
        if count > 0 {
            wrong.push(format!("{count} {what}"));
        }
    }
    wrong
}
