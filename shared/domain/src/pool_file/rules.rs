//! Rules that relate the fields of one pool.

use std::sync::Arc;

use super::read::{Section, Wrongs, written as formatted};
use super::shape::WrittenPool;
use crate::ec2::{Arch, MAX_OVERRIDES};
use crate::ids::{EntityKind, PoolName};
use crate::pool::warm::names;
use crate::pool::{Allocation, MarketPolicy, MergeQueuePolicy, Pool, Requirements};
use crate::time::Seconds;

/// Builds the pool if its fields are complete and valid. Otherwise adds the reasons to `problems`.
pub(super) fn pool(written: WrittenPool, of: &Section, problems: &mut Wrongs) -> Option<Pool> {
    if of.is_other {
        return None;
    }
    missing(of, problems);
    instances(&written, of, problems);
    market(&written, of, problems);
    limits(&written, of, problems);
    entity(&written, of, problems);
    warm_on(&written, of, problems);
    arch(&written, of, problems);
    build(written)
}

fn missing(of: &Section, problems: &mut Wrongs) {
    for name in ["name", "labels", "instances", "subnets", "limits"] {
        if of.get(name).is_none() {
            problems.add(&of.path, format!("{name} is missing"));
        }
    }
}

fn instances(written: &WrittenPool, of: &Section, problems: &mut Wrongs) {
    let Some(node) = of.get("instances") else { return };
    let group = Section::open(node.clone(), super::fields::INSTANCES, &mut Wrongs::default());
    if group.is_other {
        return;
    }
    let has = |name: &str| group.get(name).is_some();
    match (has("types"), has("vcpus"), has("memory_mib")) {
        (true, false, false) | (false, true, true) => {}
        (false, true, false) => {
            problems.add(&group.path, "memory_mib is missing; vcpus requires it");
        }
        (false, false, true) => {
            problems.add(&group.path, "vcpus is missing; memory_mib requires it");
        }
        (true, _, _) => {
            problems.add(&group.path, "write either types, or vcpus and memory_mib, not both");
        }
        (false, false, false) => {
            problems.add(&group.path, "write either types, or vcpus and memory_mib");
        }
    }
    let count = |list: &Option<Vec<String>>| list.as_ref().map_or(1, Vec::len);
    let overrides = count(&written.types) * count(&written.subnets);
    if overrides > MAX_OVERRIDES {
        let what =
            format!("types times subnets are {overrides}; a pool may have at most {MAX_OVERRIDES}");
        problems.add(&group.path_of("types"), what);
    }
}

/// Checks market options that EC2 would reject or that would have no effect.
fn market(written: &WrittenPool, of: &Section, problems: &mut Wrongs) {
    let wrong_market = of.get("market").is_some() && written.market.is_none();
    if wrong_market {
        return;
    }
    let market = written.market.unwrap_or_default();
    let is_spot = market != MarketPolicy::OnDemand;
    if let Some(allocation) = written.allocation {
        let at = of.path_of("allocation");
        match allocation {
            Allocation::Prioritized if is_spot => problems.add(
                &at,
                "prioritized is for on-demand machines; for spot write capacity-optimized-prioritized",
            ),
            Allocation::Prioritized | Allocation::LowestPrice => {}
            _ if !is_spot => problems.add(
                &at,
                "this is for spot machines; for on-demand write prioritized or lowest-price",
            ),
            _ => {}
        }
        let ordered = [Allocation::Prioritized, Allocation::CapacityOptimizedPrioritized];
        if ordered.contains(&allocation) && written.requirements.is_some() {
            let what = "this follows the order of the types, but the list is empty; write another, \
                        or list instances.types";
            problems.add(&at, what);
        }
    }
    if of.get("max_price").is_some() && !is_spot {
        let what = "only Spot machines have a maximum price; remove it, or change market";
        problems.add(&of.path_of("max_price"), what);
    }
    let is_mixed = written.merge_queue == Some(MergeQueuePolicy::OnDemand);
    if is_mixed && market == MarketPolicy::Spot {
        let what = "this pool has only Spot machines; remove it, or change market";
        problems.add(&of.path_of("merge_queue"), what);
    }
    if written.reserved_first == Some(true) && market == MarketPolicy::Spot {
        let what = "only on-demand machines use reserved capacity; remove it, or change market";
        problems.add(&of.path_of("reserved_first"), what);
    }
}

fn limits(written: &WrittenPool, of: &Section, problems: &mut Wrongs) {
    let Some(node) = of.get("limits") else { return };
    let group = Section::open(node.clone(), super::fields::LIMITS, &mut Wrongs::default());
    if group.is_other {
        return;
    }
    let limits = &written.limits;
    if group.get("max").is_none() {
        problems.add(&group.path, "max is missing");
    }
    if let (Some(min_idle), Some(max)) = (limits.min_idle, limits.max)
        && min_idle > max
    {
        let what = format!("{min_idle} is more than max, {max}");
        problems.add(&group.path_of("min_idle"), what);
    }
    if limits.min_idle.is_some_and(|count| count > 0) && of.get("entity").is_none() {
        let what = "a pool that keeps idle runners requires an entity, where they are registered";
        problems.add(&group.path_of("min_idle"), what);
    }
    // A runner without a job is retired at half of its machine's lifetime, so a longer time would
    // never be reached.
    let longest = Seconds(limits.max_lifetime.unwrap_or(Pool::MAX_LIFETIME).0 / 2);
    for (name, time) in [("boot_deadline", limits.boot_deadline), ("idle_limit", limits.idle_limit)]
    {
        if let Some(time) = time.filter(|time| *time >= longest) {
            let what = format!(
                "{} is not less than half of max_lifetime, {}",
                formatted(time),
                formatted(longest)
            );
            problems.add(&group.path_of(name), what);
        }
    }
}

/// Checks that the rules of `warm_on` can have an effect.
fn warm_on(written: &WrittenPool, of: &Section, problems: &mut Wrongs) {
    let served = written.repositories.as_deref().unwrap_or_default();
    for (index, rule) in written.warm_on.iter().flatten().enumerate() {
        let at = format!("{}[{index}]", of.path_of("warm_on"));
        if let Some(max) = written.limits.max.filter(|max| rule.idle > *max) {
            problems.add(&format!("{at}.idle"), format!("{} is more than max, {max}", rule.idle));
        }
        let is_served = |name: &str| {
            (served.is_empty() || served.iter().any(|pattern| names(pattern, name)))
                && written.entity.as_ref().is_none_or(|entity| entity.covers(name))
        };
        let exact = rule.repositories.iter().filter(|name| !name.ends_with('*'));
        for name in exact.filter(|name| !is_served(name)) {
            let what = format!("the pool does not serve {name}");
            problems.add(&format!("{at}.repositories"), what);
        }
    }
}

fn entity(of_pool: &WrittenPool, of: &Section, problems: &mut Wrongs) {
    let Some(entity) = &of_pool.entity else { return };
    let kind = entity.kind();
    let has_group =
        of_pool.named.group.is_some() || of_pool.runner_group.is_some_and(|group| group != 1);
    if kind == EntityKind::Repository && has_group {
        let what =
            "a repository has no runner groups; remove this, or register at the organization";
        problems.add(&of.path_of("runner_group"), what);
    }
    let owner = entity.as_str().split('/').next().unwrap_or_default();
    for pattern in of_pool.repositories.iter().flatten() {
        let is_covered = match pattern.split_once('/') {
            _ if kind == EntityKind::Enterprise => entity.covers(pattern),
            Some((own, "*")) => own.eq_ignore_ascii_case(owner),
            _ => entity.covers(pattern),
        };
        if !is_covered {
            let what =
                format!("{pattern} does not belong to {entity}, where the runners are registered");
            problems.add(&of.path_of("repositories"), what);
        }
    }
}

/// Checks that the types match the architecture of the image: otherwise every launch fails.
fn arch(written: &WrittenPool, of: &Section, problems: &mut Wrongs) {
    let Some(arch) = written.arch else { return };
    for (index, name) in written.types.iter().flatten().enumerate() {
        if Arch::of_type(name) != arch {
            let at = format!("{}.types[{index}]", of.path_of("instances"));
            let what = format!(
                "{name} is {}, but arch is {}",
                Arch::of_type(name).as_str(),
                arch.as_str()
            );
            problems.add(&at, what);
        }
    }
}

/// Returns the architecture if all listed types share it.
pub(super) fn arch_of_all(written: &WrittenPool) -> Option<Arch> {
    let mut arches = written.types.iter().flatten().map(|name| Arch::of_type(name));
    let first = arches.next()?;
    arches.all(|arch| arch == first).then_some(first)
}

fn shared(texts: Vec<String>) -> Vec<Arc<str>> {
    texts.into_iter().map(Arc::from).collect()
}

fn build(written: WrittenPool) -> Option<Pool> {
    let limits = written.limits;
    let (types, requirements) = chosen(written.types, written.requirements)?;
    let named = Pool::named(written.name?);
    Some(Pool {
        entity: written.entity,
        labels: written.labels?,
        label_match: written.label_match.unwrap_or_default(),
        priority: written.priority.unwrap_or_default(),
        runner_group_id: written.runner_group.unwrap_or(named.runner_group_id),
        name_prefix: written.name_prefix,
        arch: written.arch,
        own_template: written.own_template,
        instance_types: shared(types),
        requirements,
        subnets: shared(written.subnets?),
        market: written.market.unwrap_or_default(),
        rerun_on_interruption: written.rerun_on_interruption,
        merge_queue: written.merge_queue.unwrap_or_default(),
        allocation: written.allocation,
        max_price: written.max_price,
        image: written.image,
        disk: written.disk,
        placement: written.placement,
        reserved_first: written.reserved_first.unwrap_or_default(),
        tags: written.tags.unwrap_or_default(),
        max: limits.max?,
        min_idle: limits.min_idle.unwrap_or_default(),
        warm_on: written.warm_on.unwrap_or_default(),
        job_age_seconds: limits.job_age.unwrap_or_default(),
        boot_deadline_seconds: limits.boot_deadline,
        idle_limit_seconds: limits.idle_limit,
        max_lifetime_seconds: limits.max_lifetime.unwrap_or(named.max_lifetime_seconds),
        keep_failed_seconds: limits.keep_failed.unwrap_or_default(),
        repositories: written.repositories.unwrap_or_default(),
        public_repositories: written.public_repositories.unwrap_or_default(),
        boot_hook: written.boot_hook,
        image_hook: written.image_hook,
        agent_mirror: written.agent_mirror,
        proxy: written.proxy,
        sudo: written.sudo.unwrap_or(named.sudo),
        log_usage: written.log_usage.unwrap_or(named.log_usage),
        environment: written.environment.unwrap_or_default(),
        enabled: written.enabled.unwrap_or(true),
        ..named
    })
}

fn chosen(
    types: Option<Vec<String>>,
    requirements: Option<Requirements>,
) -> Option<(Vec<String>, Option<Requirements>)> {
    match (types, requirements) {
        (Some(types), None) => Some((types, None)),
        (None, Some(requirements)) => Some((Vec::new(), Some(requirements))),
        _ => None,
    }
}

/// Returns the prefix of the pool's launch names.
pub(super) fn prefix(pool: &Pool) -> &PoolName {
    pool.name_prefix.as_ref().unwrap_or(&pool.name)
}
