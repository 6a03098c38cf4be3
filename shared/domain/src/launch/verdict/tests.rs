//! The order of the brakes, and that all callers get one verdict. Each brake is tested in its own
//! file, with the scenes of this one.

use super::{
    Block, BlockScope, Brake, Case, Conditions, ORDER, WaitReason, Wanted, entity_of, verdict,
};
use crate::ec2::{CooldownScope, ErrorClass};
use crate::explain::{self, JobContext};
use crate::ids::Entity;
use crate::instance::Instance;
use crate::job::labels::Labels;
use crate::job::{Job, PassedOver};
use crate::launch::plan::{Plan, plan, tests as plans};
use crate::launch::record::Cooldowns;
use crate::launch::record::cooldown::Cooldown;
use crate::launch::record::trouble::RequestKind;
use crate::pool::Pool;
use crate::pool::limits::{Headroom, Limits};
use crate::provider::ProviderError;
use crate::switches::{Switch, SwitchedOff, Switches};
use crate::testkit::{
    Story as _, With as _, active, at, fault, job, pool, retrying, second, timings,
};
use crate::time::{Seconds, Time};

/// The purpose of the machine.
#[derive(Clone, Copy, Debug)]
pub(super) enum For {
    Job,
    Slot,
    Idle,
}

/// The reason, its end as a second, its scope, and whether a different pool may launch.
pub(super) type Told = (String, Option<i64>, BlockScope, bool);

/// A pool of `acme`, a job and a slot in second 1000, without any brake.
#[derive(Clone)]
pub(super) struct Scene {
    pub(super) pool: Pool,
    pub(super) job: Job,
    pub(super) slot: Instance,
    pub(super) free: Vec<Instance>,
    pub(super) live: Vec<Instance>,
    pub(super) conditions: Conditions,
}

pub(super) fn acme() -> Entity {
    "acme".parse().expect("an entity")
}

pub(super) fn now() -> Time {
    at(1000)
}

impl Scene {
    pub(super) fn new() -> Self {
        Self {
            pool: pool().with(|pool| pool.entity = Some(acme())),
            job: job(1),
            slot: retrying(),
            free: Vec::new(),
            live: Vec::new(),
            conditions: Conditions::default(),
        }
    }

    fn wanted(&self, what: For) -> Wanted<'_> {
        match what {
            For::Job => Wanted::Job(&self.job),
            For::Slot => Wanted::Slot(&self.slot),
            For::Idle => Wanted::Idle,
        }
    }

    pub(super) fn judged(&self) -> Conditions {
        let conditions = self.conditions.clone();
        let (pool, demand) = (&self.pool, [&self.job]);
        conditions.judged_by(pool, &demand, &self.free, &self.live, now(), &timings())
    }

    /// Returns the block of one brake.
    pub(super) fn says(&self, brake: Brake, what: For) -> Option<Told> {
        let (pool, wanted, conditions) = (&self.pool, self.wanted(what), self.judged());
        let entity = entity_of(pool, wanted);
        let block =
            brake.ask(&Case { pool, wanted, entity, conditions: &conditions, now: now() })?;
        assert_eq!(block.brake, brake);
        let Block { until, why, scope, elsewhere, .. } = block;
        Some((why, until.map(second), scope, elsewhere))
    }

    /// Returns why the job waits.
    pub(super) fn reason(&self) -> WaitReason {
        WaitReason::of(&self.job, &self.pool, &mut self.judged(), now())
    }

    fn verdict(&self, what: For) -> Result<(), Block> {
        verdict(&self.pool, self.wanted(what), &self.judged(), now()).map(|_| ())
    }

    /// Runs a launch pass. The job and the slot have separate passes, because a launch for one
    /// could block the other.
    fn plan(&self, what: For) -> Plan {
        let (pool, timings) = (self.pool.clone(), timings());
        let pool = match what {
            For::Idle => pool.with(|pool| pool.min_idle = 1),
            For::Job | For::Slot => pool,
        };
        plan(plans::view(&pool, &timings, Vec::new()).with(|view| {
            view.conditions = self.judged();
            match what {
                For::Job => view.demand = plans::read([self.job.clone()]),
                For::Slot => view.retries = plans::read([self.slot.clone()]),
                For::Idle => {}
            }
        }))
    }
}

/// GitHub assigns the job to none of the idle runners: the next one may be launched in second 1010.
pub(super) fn withhold(all: &mut Scene) {
    all.job.passed_over = Some(PassedOver { times: 1, at: at(995) });
}

/// A hook has reported a job of the job's run in second 980.
pub(super) fn take(all: &mut Scene) {
    all.free = vec![active().unclaimed().with(|taker| {
        taker.runner.started.as_mut().expect("a start").at = at(980);
    })];
}

pub(super) fn limit(all: &mut Scene, stack: Option<u32>, entities: &[(&str, u32)]) {
    let entity = |(name, max): &(&str, u32)| (name.parse().expect("an entity"), *max);
    let limits = Limits { stack, entities: entities.iter().map(entity).collect() };
    all.conditions.headroom = Headroom::new(limits, Default::default());
}

/// EC2 refuses this scope until second 1100.
pub(super) fn refuse(all: &mut Scene, closed: CooldownScope) {
    // The classes with which EC2's responses close them.
    let class = match closed {
        CooldownScope::Calls => ErrorClass::Throttle,
        CooldownScope::Quota { .. } => ErrorClass::Quota,
        CooldownScope::Pool(_) => ErrorClass::Configuration,
        CooldownScope::Place { .. } => ErrorClass::Capacity,
        CooldownScope::Unknown { .. } => ErrorClass::Ambiguous,
    };
    let refusal = Cooldown {
        closed,
        since: at(900),
        at: at(900),
        until: at(1100),
        times: 1,
        class,
        code: "Code".to_owned(),
        message: "no".to_owned(),
    };
    let list = all.conditions.cooldowns.list.iter().cloned().chain([refusal]).collect();
    all.conditions.cooldowns = Cooldowns { list, ..all.conditions.cooldowns.clone() };
}

/// GitHub refuses `acme` since this time.
pub(super) fn distrust(all: &mut Scene, asked: RequestKind, code: &str, since: u32) {
    let refused = ProviderError::Unauthorized(fault(code));
    let known = all.conditions.cooldowns.after_answer(&acme(), asked, Some(&refused), at(since));
    all.conditions.cooldowns = known.expect("a trouble");
}

/// An operator has paused launches.
fn switch_off(all: &mut Scene) {
    let by = SwitchedOff {
        since: at(5),
        by: "ada".to_owned(),
        reason: "moving".to_owned(),
        until: None,
    };
    all.conditions.switches = Switches::with(&Switches::default(), &Switch::Launches, Some(by));
}

/// Applies one brake.
pub(super) fn put(all: &mut Scene, brake: Brake) {
    match brake {
        Brake::Mismatch => all.job.last_event.labels = Labels::new(["windows"]),
        Brake::Switch => switch_off(all),
        Brake::Age => all.pool.job_age_seconds = Seconds(1000),
        Brake::Taken => take(all),
        Brake::Maximum => all.conditions.live = all.pool.max,
        Brake::Limit => limit(all, Some(0), &[]),
        Brake::Trouble => distrust(all, RequestKind::Other, "401", 900),
        Brake::Withheld => withhold(all),
        Brake::Refusal => refuse(all, CooldownScope::Calls),
    }
}

/// Why operators see one reason rather than the other.
#[test]
fn of_two_brakes_the_one_is_told_that_has_to_go_first() {
    use Brake::{Age, Limit, Maximum, Mismatch, Refusal, Switch, Taken, Trouble, Withheld};
    let rows = [
        ("a pool that is switched on still does not serve it", Mismatch, Switch),
        ("a job that grows old while launches are off waits on", Switch, Age),
        ("a job that is too young has no machine, whoever took it", Age, Taken),
        ("a job that has a runner needs no room", Taken, Maximum),
        ("the end of a machine of the pool makes room in the stack too", Maximum, Limit),
        ("one that finds out needs room as well", Limit, Trouble),
        ("its runners idle, and no other would be registered", Trouble, Withheld),
        ("GitHub leaves runners idle, whatever EC2 has", Withheld, Refusal),
    ];
    for (why, first, second) in rows {
        let both =
            Scene::new().with(|all| [second, first].into_iter().for_each(|brake| put(all, brake)));
        let told = both.verdict(For::Job).map_err(|block| block.brake);
        assert_eq!(told, Err(first), "{why}");
        let alone = Scene::new().with(|all| put(all, second));
        assert_eq!(alone.verdict(For::Job).map_err(|block| block.brake), Err(second));
    }
    assert_eq!(rows.len() + 1, ORDER.len(), "a row for each pair of neighbours");
}

#[test]
fn the_plan_does_what_the_verdict_says_and_explain_tells_it() {
    let explained = |all: &Scene| {
        let conditions = all.judged();
        let context = JobContext { pool: Some((&all.pool, &conditions)), claim: None, choice: &[] };
        explain::job(&all.job, &context, now()).last().cloned().expect("a line")
    };
    for brake in ORDER {
        let braked = Scene::new().with(|all| put(all, brake));
        let block = braked.verdict(For::Job).expect_err("a brake");
        let plan = braked.plan(For::Job);
        assert_eq!((plan.launches, plan.left.len()), (vec![], 1), "{brake:?}");
        assert_eq!(plan.left[0].block, block);
        let line = explained(&braked);
        assert!(line.contains(&block.why), "{line}");
        let until = block.until.map(|until| until.to_string()).unwrap_or_default();
        assert!(line.contains(&until), "{line}");
    }
    let free = Scene::new();
    assert_eq!(free.verdict(For::Job), Ok(()));
    let plan = free.plan(For::Job);
    assert_eq!((plan.launches.len(), plan.left), (1, vec![]));
    assert_eq!(explained(&free), "The next launch pass will assign or launch a runner for it.");
}

#[test]
fn slots_and_the_min_idle_hear_the_same() {
    for brake in ORDER {
        let braked = Scene::new().with(|all| put(all, brake));
        let plan = braked.plan(For::Slot);
        let told = plan.stuck.into_iter().map(|stuck| stuck.block).next();
        assert_eq!((told, plan.launches.len()), split(braked.verdict(For::Slot)), "{brake:?}");
        let plan = braked.plan(For::Idle);
        let launched = (plan.idle_block, plan.launches.len());
        assert_eq!(launched, split(braked.verdict(For::Idle)), "{brake:?}");
    }
}

/// Returns the block, or else the number of launches, which must be one.
fn split(verdict: Result<(), Block>) -> (Option<Block>, usize) {
    let launches = usize::from(verdict.is_ok());
    (verdict.err(), launches)
}
