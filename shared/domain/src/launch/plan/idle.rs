//! `min_idle` and `warm_on`: machines that are launched before any job needs them.

use super::request::{launch_id, planned, request};
use super::{Plan, PlannedLaunch, View};
use crate::ids::InstanceName;
use crate::instance::{Instance, Slot};
use crate::launch::Launch;
use crate::launch::verdict::{Block, Wanted, verdict};
use crate::pool::Pool;
use crate::pool::warm::Warm;
use crate::stored::Stored;

/// Launches the missing idle runners, after all jobs have had their share of the capacity. A runner
/// assigned to a job in this plan counts as missing.
pub(super) fn top_up(view: &mut View<'_>, plan: &mut Plan) {
    let pool = view.pool.while_warm(view.warm, view.now);
    let mut missing = missing(view, &pool, plan) as usize;
    while missing > 0 {
        let number = plan.launches.len();
        let most = missing.min(view.images.most_slots(view.most_slots()));
        let Some(launch) = plan_launch(view, &pool, number, most, plan) else { return };
        missing -= launch.idle.len();
        plan.launches.push(launch);
    }
}

/// Plans the launch of a canary: one machine beyond `min_idle`, which an operator requested. It is
/// launched like an idle runner, by the pass that finds its launch, and blocked by the same
/// conditions. It never serves as a probe for a trouble: only a machine that a job needs does.
/// `None` if no launch ID can be formed from the pool's name.
///
/// # Errors
///
/// The condition that blocks it.
pub fn canary(mut view: View<'_>) -> Result<Option<PlannedLaunch>, Block> {
    view.conditions.leave_finding_out();
    verdict(view.pool, Wanted::Idle, &view.conditions, view.now)?;
    let pool = view.pool;
    let planned = plan_launch(&mut view, pool, 0, 1, &mut Plan::default());
    Ok(planned.map(|planned| PlannedLaunch { launch: planned.launch.uncalled(), ..planned }))
}

/// Returns the number of missing runners, and records what the events require after this count.
fn missing(view: &View<'_>, pool: &Pool, plan: &mut Plan) -> u32 {
    let claimed = |one: &Instance| plan.claims.iter().any(|(_, taken)| taken.name == one.name);
    let stay: Vec<&Stored<Instance>> =
        view.supply.iter().filter(|one| one.is_kept_idle_by(pool) && !claimed(one)).collect();
    let kept = u32::try_from(stay.len()).unwrap_or(u32::MAX);
    let fresh = plan.launches.iter().map(|launch| launch.fresh.len() + launch.beyond.len());
    let served = u32::try_from(plan.claims.len() + fresh.sum::<usize>()).unwrap_or(u32::MAX);
    plan.warm = match Warm::current(view.warm, view.pool, view.now) {
        Some(_) => Warm::counted(view.warm, kept, served),
        None => view.warm.to_vec(),
    };
    view.pool.idle_missing(view.warm, kept, served, view.now)
}

fn plan_launch(
    view: &mut View<'_>,
    pool: &Pool,
    number: usize,
    most: usize,
    plan: &mut Plan,
) -> Option<PlannedLaunch> {
    let entity = pool.entity.clone()?;
    let id = launch_id(view, number)?;
    let (mut idle, mut offer): (Vec<Instance>, _) = (Vec::new(), None);
    while idle.len() < most {
        match verdict(pool, Wanted::Idle, &view.conditions, view.now) {
            Ok(options) => offer = Some(options),
            Err(block) => {
                plan.idle_block = Some(block);
                break;
            }
        }
        view.conditions.take(Wanted::Idle, &entity);
        let slot = Slot {
            name: format!("{id}-{}", idle.len()).parse().ok()?,
            pool: pool.name.clone(),
            entity: entity.clone(),
            installation: None,
            launch: id.clone(),
            claim: None,
        };
        idle.push(planned(view, slot, None));
    }
    let offer = offer?;
    let image = view.images.take(idle.len());
    idle.iter_mut().for_each(|instance| instance.image = image.clone());
    let slots: Vec<InstanceName> = idle.iter().map(|instance| instance.name.clone()).collect();
    let capacity = u32::try_from(slots.len()).ok().filter(|count| *count > 0)?;
    let request = request(view.stack, pool, &id, &offer, image.as_ref(), capacity);
    let launch = Launch::open(id, pool.name.clone(), request, slots, view.now, view.timings);
    let (fresh, beyond, again) = (Vec::new(), Vec::new(), Vec::new());
    Some(PlannedLaunch { launch, fresh, beyond, idle, again })
}
