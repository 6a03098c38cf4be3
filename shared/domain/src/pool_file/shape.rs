//! Readers for the fields of a pool, each on its own.

use std::collections::BTreeMap;

use super::fields::{ALLOCATIONS, ARCHES, INSTANCES, LIMITS, MARKETS, MATCHES, MERGE_QUEUES};
use super::named::{Named, ValueOrName};
use super::proxy::proxy;
use super::read::{self, Section, Wrongs};
use super::values::{
    MAX_MACHINES, agent_mirror, disk, entity_or_id, environment, hook, image, is_id,
    is_instance_type, labels, launch_template, placement, price, repositories, requirements,
    rerun_policy, runner_group, tags, warm_on,
};
use crate::ec2::Arch;
use crate::ids::{Entity, PoolName};
use crate::job::labels::LabelRows;
use crate::pool::proxy::Proxy;
use crate::pool::warm::WarmRule;
use crate::pool::{
    Allocation, Disk, Image, LabelMatch, MarketPolicy, MergeQueuePolicy, OwnTemplate, Placement,
    Requirements, RerunPolicy,
};
use crate::time::Seconds;

/// The written fields of a pool or of `defaults`. `None` if a field is absent or invalid.
#[derive(Debug, Default)]
pub(super) struct WrittenPool {
    pub(super) name: Option<PoolName>,
    pub(super) entity: Option<Entity>,
    pub(super) labels: Option<LabelRows>,
    pub(super) label_match: Option<LabelMatch>,
    pub(super) priority: Option<u32>,
    pub(super) runner_group: Option<u64>,
    pub(super) name_prefix: Option<PoolName>,
    pub(super) arch: Option<Arch>,
    pub(super) types: Option<Vec<String>>,
    pub(super) requirements: Option<Requirements>,
    pub(super) own_template: Option<OwnTemplate>,
    pub(super) subnets: Option<Vec<String>>,
    pub(super) market: Option<MarketPolicy>,
    pub(super) allocation: Option<Allocation>,
    pub(super) max_price: Option<String>,
    pub(super) rerun_on_interruption: Option<RerunPolicy>,
    pub(super) merge_queue: Option<MergeQueuePolicy>,
    pub(super) image: Option<Image>,
    pub(super) disk: Option<Disk>,
    pub(super) placement: Option<Placement>,
    pub(super) reserved_first: Option<bool>,
    pub(super) tags: Option<BTreeMap<String, String>>,
    pub(super) limits: WrittenLimits,
    pub(super) warm_on: Option<Vec<WarmRule>>,
    pub(super) repositories: Option<Vec<String>>,
    pub(super) public_repositories: Option<bool>,
    pub(super) boot_hook: Option<String>,
    pub(super) image_hook: Option<String>,
    pub(super) agent_mirror: Option<String>,
    pub(super) proxy: Option<Proxy>,
    pub(super) sudo: Option<bool>,
    pub(super) log_usage: Option<bool>,
    pub(super) environment: Option<BTreeMap<String, String>>,
    pub(super) enabled: Option<bool>,
    /// The unresolved names of an entity, a runner group, an image or a launch template.
    pub(super) named: Named,
}

/// The written limits of a pool.
#[derive(Debug, Default)]
pub(super) struct WrittenLimits {
    pub(super) max: Option<u32>,
    pub(super) min_idle: Option<u32>,
    pub(super) job_age: Option<Seconds>,
    pub(super) boot_deadline: Option<Seconds>,
    pub(super) idle_limit: Option<Seconds>,
    pub(super) max_lifetime: Option<Seconds>,
    pub(super) keep_failed: Option<Seconds>,
}

impl WrittenPool {
    /// Reads every field independently.
    pub(super) fn read(of: &Section, problems: &mut Wrongs) -> Self {
        let (entity, id) = ValueOrName::split(of.read("entity", problems, entity_or_id));
        let (runner_group, group) =
            ValueOrName::split(of.read("runner_group", problems, runner_group));
        let (image, filter) = ValueOrName::split(of.read("image", problems, image));
        let instances = of.section("instances", INSTANCES, problems);
        Self {
            name: of.read("name", problems, read::parsed),
            entity,
            labels: of.read("labels", problems, labels),
            label_match: of.read("match", problems, |node, w| read::one_of(node, MATCHES, w)),
            priority: of.read("priority", problems, |node, w| read::count(node, 0..=1000, w)),
            runner_group,
            name_prefix: of.read("name_prefix", problems, read::parsed),
            arch: of.read("arch", problems, |node, w| read::one_of(node, ARCHES, w)),
            types: instances.read("types", problems, |node, w| {
                read::texts(node, "EC2's instance types, like m7i.large", w, is_instance_type)
            }),
            requirements: requirements(&instances, problems),
            // Added during name resolution, from EC2's description.
            own_template: None,
            subnets: of.read("subnets", problems, |node, w| {
                read::texts(node, "subnet ids, like subnet-0a1b2c3d", w, |text| {
                    is_id(text, "subnet-")
                })
            }),
            market: of.read("market", problems, |node, w| read::one_of(node, MARKETS, w)),
            allocation: of
                .read("allocation", problems, |node, w| read::one_of(node, ALLOCATIONS, w)),
            max_price: of.read("max_price", problems, price),
            rerun_on_interruption: of.read("rerun_on_interruption", problems, rerun_policy),
            merge_queue: of
                .read("merge_queue", problems, |node, w| read::one_of(node, MERGE_QUEUES, w)),
            image,
            disk: of.read("disk", problems, disk),
            placement: of.read("placement", problems, placement),
            reserved_first: of.read("reserved_first", problems, read::boolean),
            tags: of.read("tags", problems, tags),
            limits: WrittenLimits::read(&of.section("limits", LIMITS, problems), problems),
            warm_on: of.read("warm_on", problems, warm_on),
            repositories: of.read("repositories", problems, repositories),
            public_repositories: of.read("public_repositories", problems, read::boolean),
            boot_hook: of.read("boot_hook", problems, hook),
            image_hook: of.read("image_hook", problems, hook),
            agent_mirror: of.read("agent_mirror", problems, agent_mirror),
            proxy: of.read("proxy", problems, proxy),
            sudo: of.read("sudo", problems, read::boolean),
            log_usage: of.read("log_usage", problems, read::boolean),
            environment: of.read("environment", problems, environment),
            enabled: of.read("enabled", problems, read::boolean),
            named: Named {
                entity: id,
                group,
                image: filter,
                template: of.read("launch_template", problems, launch_template),
            },
        }
    }
}

impl WrittenLimits {
    fn read(of: &Section, problems: &mut Wrongs) -> Self {
        const MINUTE: u32 = 60;
        const HOUR: u32 = 3600;
        let mut time = |name: &str, least: u32, most: u32| {
            of.read(name, problems, |node, problems| read::duration(node, least..=most, problems))
        };
        let job_age = time("job_age", 0, HOUR);
        let boot_deadline = time("boot_deadline", 10, 2 * HOUR);
        let idle_limit = time("idle_limit", 10, 24 * HOUR);
        // GitHub ends a job after five days, docs.github.com/en/actions/reference/limits.
        let max_lifetime = time("max_lifetime", MINUTE, 7 * 24 * HOUR);
        // Bounded, because a forgotten machine costs money.
        let keep_failed = time("keep_failed", 0, 4 * HOUR);
        Self {
            max: of.read("max", problems, |node, w| read::count(node, 1..=MAX_MACHINES, w)),
            min_idle: of
                .read("min_idle", problems, |node, w| read::count(node, 0..=MAX_MACHINES, w)),
            job_age,
            boot_deadline,
            idle_limit,
            max_lifetime,
            keep_failed,
        }
    }
}
