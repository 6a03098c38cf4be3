//! A launch of a plan, and the request that it sends to EC2.

use super::{LAUNCH_TAG, MAX_SLOTS, POOL_TAG, PlannedLaunch, STACK_TAG, View};
use crate::claim;
use crate::ec2::{MAX_OVERRIDES, MAX_REQUIREMENTS, Market, Override};
use crate::hash::fnv1a_on;
use crate::ids::{ImageId, InstanceName, LaunchId};
use crate::instance::{Instance, Slot};
use crate::job::Job;
use crate::launch::record::cooldown::LaunchOptions;
use crate::launch::{Launch, LaunchRequest, allocation};
use crate::pool::{Image, Pool};
use crate::stored::{Change, Stored};

/// Returns a launch's ID: the prefix, at most 40 characters, plus at most 20 more. Pools may share
/// a prefix and be launched in one invocation, so the pool's name is part of the hash.
pub(super) fn launch_id(view: &View<'_>, number: usize) -> Option<LaunchId> {
    let pool = view.pool;
    let seed = match &pool.name_prefix {
        None => view.seed,
        Some(_) => fnv1a_on(view.seed, pool.name.as_str().as_bytes()),
    };
    let prefix = pool.name_prefix.as_ref().unwrap_or(&pool.name);
    format!("{prefix}-{:08x}-{number}", seed & 0xffff_ffff).parse().ok()
}

/// Plans a launch on one market: the slots to retry, and a new slot for each job.
pub(super) fn planned_launch(
    view: &mut View<'_>,
    offer: &LaunchOptions,
    number: usize,
    again: Vec<Stored<Instance>>,
    fresh: Vec<Stored<Job>>,
) -> Option<PlannedLaunch> {
    let pool = view.pool;
    let id = launch_id(view, number)?;
    let image = view.images.take(again.len() + fresh.len());
    let image = image.as_ref();
    let again: Vec<Change<Instance>> = again
        .into_iter()
        .map(|slot| {
            let mut next = slot.record().clone();
            next.relaunch(id.clone(), view.now, view.timings);
            next.launched_from(pool, image);
            next.is_probe = view.conditions.finds_out(&next.entity);
            slot.change(next)
        })
        .collect();
    let claimed = fresh.len() - 2 * fresh.len().saturating_sub(MAX_SLOTS);
    let mut beyond = Vec::new();
    let fresh: Vec<(Instance, Change<Job>)> = fresh
        .into_iter()
        .enumerate()
        .filter_map(|(index, job)| {
            let slot = Slot {
                name: format!("{id}-{index}").parse().ok()?,
                pool: pool.name.clone(),
                entity: pool.entity_for(&job)?,
                installation: job.last_event.installation,
                launch: id.clone(),
                claim: (index < claimed).then(|| job.key()),
            };
            let mut instance = planned(view, slot, image);
            instance.prefers_on_demand = pool.prefers_on_demand(&job);
            if index >= claimed {
                beyond.push((instance, job));
                return None;
            }
            let mut claims = job.record().clone();
            claim::set_job_claim(&mut claims, Some(instance.name.clone()));
            Some((instance, job.change(claims)))
        })
        .collect();
    let slots: Vec<InstanceName> = again
        .iter()
        .map(|slot| &slot.name)
        .chain(fresh.iter().map(|(instance, _)| &instance.name))
        .chain(beyond.iter().map(|(instance, _)| &instance.name))
        .cloned()
        .collect();
    if slots.is_empty() {
        return None;
    }
    let capacity = u32::try_from(slots.len()).ok()?;
    let request = request(view.stack, pool, &id, offer, image, capacity);
    let launch = Launch::open(id, pool.name.clone(), request, slots, view.now, view.timings);
    Some(PlannedLaunch { launch, fresh, beyond, idle: Vec::new(), again })
}

/// Creates a new instance that every applicable limit counts.
pub(super) fn planned(view: &View<'_>, slot: Slot, image: Option<&ImageId>) -> Instance {
    let mut instance = Instance::planned(slot, view.now, view.timings);
    instance.launched_from(view.pool, image);
    instance.is_probe = view.conditions.finds_out(&instance.entity);
    instance.counted_in = view.conditions.headroom.scopes_of(&instance.entity);
    instance
}

/// Builds the request to EC2 from the pool's configuration only. No data of a job is passed in.
pub(super) fn request(
    stack: &str,
    pool: &Pool,
    id: &LaunchId,
    offer: &LaunchOptions,
    image: Option<&ImageId>,
    capacity: u32,
) -> LaunchRequest {
    let own = [
        (STACK_TAG, stack),
        (LAUNCH_TAG, id.as_str()),
        (POOL_TAG, pool.name.as_str()),
        ("Name", id.as_str()),
    ];
    // Muster finds a machine's record by its own tags, so a pool cannot override them.
    let others = pool.tags.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let others = others.filter(|(key, _)| own.iter().all(|(taken, _)| taken != key));
    let tags = own.into_iter().chain(others);
    let device = pool.template_device.as_ref();
    LaunchRequest {
        template_id: pool.launch_template_id.clone(),
        template_version: pool.launch_template_version.clone(),
        overrides: request_places(offer, id),
        requirements: pool.requirements.clone(),
        market: offer.market,
        allocation: allocation(offer.market, pool.allocation, pool.requirements.is_some()),
        max_price: pool.max_price.clone().filter(|_| offer.market == Market::Spot),
        image: image.map(|id| Image::Id(id.to_string())).or_else(|| pool.image.clone()),
        omitted_device: device
            .filter(|own| pool.disk.as_ref().is_some_and(|disk| *disk.device != ***own))
            .cloned(),
        disk: pool.disk.clone(),
        placement: pool.placement.clone(),
        reserved_first: pool.reserved_first && offer.market == Market::OnDemand,
        capacity,
        tags: tags.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
    }
}

/// Returns the places of an offer that fit in one request, or those of one subnet. Each launch
/// starts with a different subnet, so every place gets its turn.
fn request_places(offer: &LaunchOptions, id: &LaunchId) -> Vec<Override> {
    let mut places = rotated(&offer.places, id);
    if offer.in_one_subnet
        && let Some(subnet) = places.first().map(|place| place.subnet.clone())
    {
        places.retain(|place| place.subnet == subnet);
    }
    let is_of_requirements = places.iter().any(|place| place.instance_type.is_empty());
    let most = if is_of_requirements { MAX_REQUIREMENTS } else { MAX_OVERRIDES };
    if places.len() > most {
        let types = places.chunk_by(|one, next| one.instance_type == next.instance_type);
        let of_each = (most / types.clone().count()).max(1);
        let kept = types.flat_map(|subnets| &subnets[..of_each.min(subnets.len())]);
        places = kept.take(most).cloned().collect();
    }
    places
}

/// Rotates the subnets of each type to a start that depends on the launch: on On-Demand, EC2 fills
/// the first place first, so all launches would end up in one zone.
fn rotated(places: &[Override], id: &LaunchId) -> Vec<Override> {
    let mut places = places.to_vec();
    for subnets in places.chunk_by_mut(|one, next| one.instance_type == next.instance_type) {
        // Use the upper half: the lowest bit of an FNV hash is the parity of the text.
        let first = (id.scatter() >> 16) as usize % subnets.len();
        subnets.rotate_left(first);
    }
    places
}
