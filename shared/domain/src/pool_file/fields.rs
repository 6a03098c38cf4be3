//! The names of the pool file's fields, and the allowed values of some.

use crate::ec2::Arch;
use crate::pool::{Allocation, LabelMatch, MarketPolicy, MergeQueuePolicy};

/// The fields of the file itself.
pub const FILE: &[&str] = &["limits", "balance", "defaults", "pools"];
/// The fields of the stack's `limits`.
pub const STACK_LIMITS: &[&str] = &["stack", "entities"];
/// The fields of a pool. `defaults` has all but the name.
pub const POOL: &[&str] = &[
    "name",
    "entity",
    "labels",
    "match",
    "priority",
    "runner_group",
    "name_prefix",
    "arch",
    "instances",
    "launch_template",
    "subnets",
    "market",
    "allocation",
    "max_price",
    "rerun_on_interruption",
    "merge_queue",
    "image",
    "disk",
    "placement",
    "reserved_first",
    "tags",
    "limits",
    "warm_on",
    "repositories",
    "public_repositories",
    "boot_hook",
    "image_hook",
    "agent_mirror",
    "proxy",
    "sudo",
    "log_usage",
    "environment",
    "enabled",
];
/// The fields of a pool's `launch_template`.
pub const LAUNCH_TEMPLATE: &[&str] = &["id", "version"];
/// The fields of a pool's `instances`.
pub const INSTANCES: &[&str] = &["types", "vcpus", "memory_mib"];
/// The fields of a range.
pub const RANGE: &[&str] = &["min", "max"];
/// The fields of an `entity` that is written by its id.
pub const ENTITY: &[&str] = &["organization", "repository", "enterprise", "app"];
/// The fields of `image`.
pub const IMAGE: &[&str] = &["id", "ssm", "filter"];
/// The fields of an image's `filter`.
pub const FILTER: &[&str] = &["name", "owner"];
/// The fields of `disk`.
pub const DISK: &[&str] = &["device", "size_gib", "iops", "throughput_mib"];
/// The fields of `placement`.
pub const PLACEMENT: &[&str] = &["group", "dedicated"];
/// The fields of a pool's `limits`.
pub const LIMITS: &[&str] =
    &["max", "min_idle", "job_age", "boot_deadline", "idle_limit", "max_lifetime", "keep_failed"];
/// The fields of `proxy`.
pub const PROXY: &[&str] = &["https", "http", "no_proxy", "password_secret"];
/// The fields of a rule in `warm_on`.
pub const WARM_RULE: &[&str] = &["event", "repositories", "branches", "idle", "for"];
/// Groups of fields in a pool that replace the group in `defaults` instead of being merged with it.
pub(super) const WHOLE: &[&str] = &["entity", "instances", "launch_template", "image", "proxy"];

/// The effective values of omitted fields. Fields that are not listed have no default.
const DEFAULTS: &[(&str, &str)] = &[
    ("balance", "pack"),
    ("match", "superset"),
    ("priority", "0"),
    ("runner_group", "1"),
    ("name_prefix", "the pool's name"),
    ("market", "on-demand"),
    ("allocation", "price-capacity-optimized for Spot, prioritized for on-demand"),
    ("rerun_on_interruption", "true with Spot, false with on-demand"),
    ("merge_queue", "on-demand"),
    ("image.ssm", "the stack's image"),
    ("image.id", "the stack's image"),
    ("placement.dedicated", "false"),
    ("reserved_first", "false"),
    ("limits.min_idle", "0"),
    ("limits.job_age", "0s"),
    ("limits.boot_deadline", "the stack's"),
    ("limits.idle_limit", "the stack's"),
    ("limits.max_lifetime", "12h"),
    ("limits.keep_failed", "0s"),
    ("warm_on.for", "15m"),
    ("public_repositories", "false"),
    ("sudo", "true"),
    ("log_usage", "true"),
    ("enabled", "true"),
];

/// Returns the default of a field by its path, for example `limits.max_lifetime`.
#[must_use]
pub fn default_of(field: &str) -> Option<&'static str> {
    DEFAULTS.iter().find(|(name, _)| *name == field).map(|(_, default)| *default)
}

/// The values of `match`.
pub const MATCHES: &[(&str, LabelMatch)] =
    &[("superset", LabelMatch::Superset), ("exact", LabelMatch::Exact)];
/// The values of `market`.
pub const MARKETS: &[(&str, MarketPolicy)] = &[
    ("spot", MarketPolicy::Spot),
    ("on-demand", MarketPolicy::OnDemand),
    ("spot-then-on-demand", MarketPolicy::SpotThenOnDemand),
];
/// The value of `rerun_on_interruption` besides true and false.
pub const RERUN_ALL: &str = "all";
/// The values of `merge_queue`.
pub const MERGE_QUEUES: &[(&str, MergeQueuePolicy)] =
    &[("on-demand", MergeQueuePolicy::OnDemand), ("as-others", MergeQueuePolicy::AsOthers)];
/// The values of `arch`.
pub const ARCHES: &[(&str, Arch)] = &[("x64", Arch::X64), ("arm64", Arch::Arm64)];
/// The values of `allocation`.
pub const ALLOCATIONS: &[(&str, Allocation)] = &[
    ("price-capacity-optimized", Allocation::PriceCapacityOptimized),
    ("capacity-optimized", Allocation::CapacityOptimized),
    ("capacity-optimized-prioritized", Allocation::CapacityOptimizedPrioritized),
    ("diversified", Allocation::Diversified),
    ("lowest-price", Allocation::LowestPrice),
    ("prioritized", Allocation::Prioritized),
];
