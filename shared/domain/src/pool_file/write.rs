//! Conversion of pools to the file's format, for display and comparison. Fields with default values
//! are omitted.

use serde_json::{Map, Value, json};

use super::fields::{ALLOCATIONS, ARCHES, MARKETS, MATCHES, MERGE_QUEUES, RERUN_ALL};
use super::read::written as time;
use crate::job::labels::Labels;
use crate::pool::limits::BALANCES;
use crate::pool::limits::{Balance, Limits};
use crate::pool::warm::{WarmEvent, WarmRule};
use crate::pool::{Image, OwnTemplate, Placement, Pool, Requirements, RerunPolicy};
use crate::time::Seconds;

fn rerun_policy(policy: RerunPolicy) -> Value {
    match policy {
        RerunPolicy::Off => json!(false),
        RerunPolicy::Interrupted => json!(true),
        RerunPolicy::All => json!(RERUN_ALL),
    }
}

/// Returns a pool in the file's format.
#[must_use]
pub fn pool(pool: &Pool) -> Value {
    let plain = Pool::named(pool.name.clone());
    let mut all = FieldMap::default();
    all.put("name", json!(pool.name));
    all.some("entity", pool.entity.as_ref().map(|entity| json!(entity)));
    all.put("labels", labels(pool));
    all.unless(pool.label_match == plain.label_match, "match", word(MATCHES, pool.label_match));
    all.unless(pool.priority == 0, "priority", json!(pool.priority));
    let group = pool.runner_group_id;
    all.unless(group == plain.runner_group_id, "runner_group", json!(group));
    all.some("name_prefix", pool.name_prefix.as_ref().map(|prefix| json!(prefix)));
    all.some("arch", pool.arch.map(|arch| word(ARCHES, arch)));
    all.put("instances", instances(pool));
    all.some("launch_template", pool.own_template.as_ref().map(own_template));
    all.put("subnets", json!(pool.subnets));
    all.unless(pool.market == plain.market, "market", word(MARKETS, pool.market));
    all.some("allocation", pool.allocation.map(|allocation| word(ALLOCATIONS, allocation)));
    all.some("max_price", pool.max_price.as_ref().map(|price| json!(price)));
    all.some("rerun_on_interruption", pool.rerun_on_interruption.map(rerun_policy));
    let is_plain = pool.merge_queue == plain.merge_queue;
    all.unless(is_plain, "merge_queue", word(MERGE_QUEUES, pool.merge_queue));
    all.some("image", pool.image.as_ref().map(image));
    all.some(
        "disk",
        pool.disk.as_ref().map(|disk| {
            let mut group = FieldMap::default();
            group.put("device", json!(disk.device));
            group.put("size_gib", json!(disk.size_gib));
            group.some("iops", disk.iops.map(Value::from));
            group.some("throughput_mib", disk.throughput_mib.map(Value::from));
            group.into_value()
        }),
    );
    all.some("placement", pool.placement.as_ref().map(placement));
    all.unless(!pool.reserved_first, "reserved_first", json!(true));
    all.unless(pool.tags.is_empty(), "tags", json!(pool.tags));
    all.put("limits", limits(pool, &plain));
    all.unless(pool.warm_on.is_empty(), "warm_on", pool.warm_on.iter().map(warm_rule).collect());
    all.unless(pool.repositories.is_empty(), "repositories", json!(pool.repositories));
    all.unless(!pool.public_repositories, "public_repositories", json!(true));
    all.some("boot_hook", pool.boot_hook.as_ref().map(|text| json!(text)));
    all.some("image_hook", pool.image_hook.as_ref().map(|text| json!(text)));
    all.some("agent_mirror", pool.agent_mirror.as_ref().map(|folder| json!(folder)));
    all.some("proxy", pool.proxy.as_ref().map(|proxy| json!(proxy)));
    all.unless(pool.sudo, "sudo", json!(false));
    all.unless(pool.log_usage, "log_usage", json!(false));
    all.unless(pool.environment.is_empty(), "environment", json!(pool.environment));
    all.unless(pool.enabled, "enabled", json!(false));
    all.into_value()
}

/// Returns the rest of the file: the stack's limits and balance.
#[must_use]
pub fn stack(limits: &Limits, balance: Balance) -> Value {
    let mut group = FieldMap::default();
    group.some("stack", limits.stack.map(Value::from));
    group.unless(limits.entities.is_empty(), "entities", json!(limits.entities));
    let mut all = FieldMap::default();
    all.unless(*limits == Limits::default(), "limits", group.into_value());
    all.unless(balance == Balance::default(), "balance", word(BALANCES, balance));
    all.into_value()
}

#[derive(Default)]
struct FieldMap(Map<String, Value>);

impl FieldMap {
    fn put(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }

    fn some(&mut self, name: &str, value: Option<Value>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    fn unless(&mut self, is_default: bool, name: &str, value: Value) {
        if !is_default {
            self.put(name, value);
        }
    }

    fn into_value(self) -> Value {
        Value::Object(self.0)
    }
}

fn word<T: PartialEq>(words: &[(&str, T)], value: T) -> Value {
    let found = words.iter().find(|(_, other)| *other == value);
    json!(found.map(|(name, _)| *name))
}

fn labels(pool: &Pool) -> Value {
    let rows: Vec<&Labels> = pool.labels.iter().collect();
    match rows[..] {
        [row] => json!(row),
        _ => json!(rows),
    }
}

fn instances(pool: &Pool) -> Value {
    let range = |min: u32, max: Option<u32>| {
        let mut group = FieldMap::default();
        group.put("min", json!(min));
        group.some("max", max.map(Value::from));
        group.into_value()
    };
    match &pool.requirements {
        None => json!({ "types": pool.instance_types }),
        Some(Requirements { vcpus_min, vcpus_max, memory_mib_min, memory_mib_max }) => json!({
            "vcpus": range(*vcpus_min, *vcpus_max),
            "memory_mib": range(*memory_mib_min, *memory_mib_max),
        }),
    }
}

/// Includes the version, converted back to a number.
fn own_template(own: &OwnTemplate) -> Value {
    json!({ "id": own.id, "version": own.version.parse::<u64>().unwrap_or_default() })
}

fn image(image: &Image) -> Value {
    match image {
        Image::Id(id) => json!({ "id": id }),
        Image::Ssm(parameter) => json!({ "ssm": parameter }),
    }
}

fn placement(placement: &Placement) -> Value {
    let mut group = FieldMap::default();
    group.some("group", placement.group.as_ref().map(|name| json!(name)));
    group.unless(!placement.dedicated, "dedicated", json!(true));
    group.into_value()
}

fn warm_rule(rule: &WarmRule) -> Value {
    let mut group = FieldMap::default();
    group.put("event", word(WarmEvent::ALL, rule.event));
    group.unless(rule.repositories.is_empty(), "repositories", json!(rule.repositories));
    group.unless(rule.branches.is_empty(), "branches", json!(rule.branches));
    group.put("idle", json!(rule.idle));
    group.unless(rule.for_seconds == WarmRule::FOR, "for", json!(time(rule.for_seconds)));
    group.into_value()
}

fn limits(pool: &Pool, plain: &Pool) -> Value {
    let duration = |value: Seconds| json!(time(value));
    let mut group = FieldMap::default();
    group.put("max", json!(pool.max));
    group.unless(pool.min_idle == 0, "min_idle", json!(pool.min_idle));
    group.unless(pool.job_age_seconds.0 == 0, "job_age", duration(pool.job_age_seconds));
    group.some("boot_deadline", pool.boot_deadline_seconds.map(duration));
    group.some("idle_limit", pool.idle_limit_seconds.map(duration));
    let lifetime = pool.max_lifetime_seconds;
    group.unless(lifetime == plain.max_lifetime_seconds, "max_lifetime", duration(lifetime));
    let kept = pool.keep_failed_seconds;
    group.unless(kept.0 == 0, "keep_failed", duration(kept));
    group.into_value()
}
