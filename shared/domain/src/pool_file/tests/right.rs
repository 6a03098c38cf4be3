//! What valid files become.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{EXAMPLE, read, right, yaml};
use crate::job::labels::Labels;
use crate::pool::limits::Balance;
use crate::pool::warm::WarmEvent;
use crate::pool::{Allocation, Image, LabelMatch, MarketPolicy, Placement, Pool};
use crate::pool_file::fields;
use crate::pool_file::{PoolFile, written, written_stack};
use crate::testkit::searched;
use crate::time::Seconds;

const MINIMAL: &str = "
pools:
  - name: big
    labels: [linux]
    instances: { types: [m7i.large] }
    subnets: [subnet-0a1b2c3d]
    limits: { max: 3 }";

#[test]
fn what_is_left_out_has_its_default() {
    let file = right(MINIMAL);
    let expected = Pool {
        labels: crate::job::labels::LabelRows::one(Labels::new(["linux"])),
        instance_types: vec!["m7i.large".into()],
        subnets: vec!["subnet-0a1b2c3d".into()],
        max: 3,
        ..Pool::named("big".parse().expect("valid"))
    };
    assert_eq!(file.pools, [expected]);
    assert_eq!((file.limits.stack, file.balance), (None, Balance::Pack));
}

#[test]
fn each_default_is_what_a_field_that_is_left_out_has() {
    let plain = right(MINIMAL);
    let all = fields::POOL.iter().map(|name| (*name).to_owned());
    let limits = fields::LIMITS.iter().map(|name| format!("limits.{name}"));
    let mut seen = 0;
    for field in all.chain(limits) {
        let Some(default) = fields::default_of(&field) else { continue };
        // Two or more words describe a default; one word is a value that could be written.
        if default.contains(' ') || default == "the stack's" {
            continue;
        }
        let text = match field.split_once('.') {
            Some((_, name)) => {
                MINIMAL.replace("max: 3 }", &format!("max: 3, {name}: {default} }}"))
            }
            None => format!("{MINIMAL}\n    {field}: {default}"),
        };
        assert_eq!(right(&text), plain, "{field}: {default}");
        seen += 1;
    }
    assert_eq!(seen, 14);
    let balance = fields::default_of("balance").unwrap_or_default();
    assert_eq!(right(&format!("balance: {balance}{MINIMAL}")), plain);
}

#[test]
fn a_text_may_look_like_a_number_or_a_truth_value() {
    let said = "    tags: { build: 12, paid: true }\n    environment: { DEBUG: 1 }\n";
    let file = right(&format!("{}\n{said}", MINIMAL.replace("[linux]", "[linux, 22, true]")));
    let [pool] = &file.pools[..] else { panic!("one pool") };
    assert_eq!(
        pool.labels,
        crate::job::labels::LabelRows::one(Labels::new(["linux", "22", "true"]))
    );
    assert_eq!(
        pool.tags,
        [("build", "12"), ("paid", "true")].map(|(n, v)| (n.into(), v.into())).into()
    );
    assert_eq!(pool.environment["DEBUG"], "1");
}

#[test]
fn the_example_says_what_it_seems_to_say() {
    let file = right(EXAMPLE);
    assert_eq!(file.limits.stack, Some(200));
    assert_eq!(file.limits.entities.len(), 1);
    let [x64, arm, release] = &file.pools[..] else { panic!("three pools") };
    assert_eq!((x64.max, x64.min_idle), (100, 2));
    let [warm] = &x64.warm_on[..] else { panic!("one rule") };
    assert_eq!((warm.event, warm.idle, warm.for_seconds), (WarmEvent::Push, 10, Seconds(900)));
    assert_eq!(warm.repositories, ["acme/web"]);
    assert_eq!(warm.branches, ["main", "release/*"]);
    assert_eq!(x64.market, MarketPolicy::SpotThenOnDemand);
    assert_eq!(x64.max_price.as_deref(), Some("0.08"));
    assert_eq!(x64.max_lifetime_seconds, Seconds(21_600));
    assert_eq!(arm.labels.iter().count(), 2);
    assert_eq!(arm.requirements.as_ref().map(|all| all.vcpus_max), Some(Some(8)));
    assert_eq!(arm.image, Some(Image::Ssm("/muster/images/arm64".to_owned())));
    assert_eq!((release.label_match, release.runner_group_id), (LabelMatch::Exact, 3));
    assert_eq!(release.allocation, Some(Allocation::Prioritized));
    assert_eq!(release.job_age_seconds, Seconds(30));
    // Merged with the default's device.
    let disk = release.disk.as_ref().expect("a disk");
    assert_eq!((disk.device.as_str(), disk.size_gib), ("/dev/sda1", 200));
    let own = release.own_template.as_ref().expect("its own");
    assert_eq!((&*own.id, &*own.version, &*own.role), ("lt-0a1b2c3d4e5f60718", "3", "AROA1"));
    let placement = Placement { group: Some("acme-release".to_owned()), dedicated: true };
    assert_eq!((&release.placement, release.reserved_first), (&Some(placement), true));
    assert!(release.boot_hook.as_deref().is_some_and(|hook| hook.starts_with("docker pull")));
    assert_eq!((x64.sudo, release.sudo), (true, false));
}

#[test]
fn defaults_are_merged_replaced_or_taken_back() {
    let file = right(
        "
defaults:
  entity: acme
  labels: [linux]
  subnets: [subnet-00000001]
  instances: { types: [m7i.large] }
  image: { id: ami-0a1b2c3d }
  tags: { team: build, env: ci }
  limits: { max: 5, job_age: 10s }
pools:
  - { name: a }
  - name: b
    entity: ~
    instances: { vcpus: { min: 2 }, memory_mib: { min: 4096 } }
    image: { ssm: /b }
    subnets: [subnet-00000002]
    tags: { env: release, x: y }
    limits: { max: 7 }",
    );
    let [a, b] = &file.pools[..] else { panic!("two pools") };
    assert_eq!((a.max, a.job_age_seconds, a.tags.len()), (5, Seconds(10), 2));
    assert_eq!(a.entity.as_ref().map(ToString::to_string).as_deref(), Some("acme"));
    assert_eq!((b.max, b.job_age_seconds), (7, Seconds(10)));
    assert_eq!(json!(b.tags), json!({ "team": "build", "env": "release", "x": "y" }));
    assert_eq!((&b.entity, b.instance_types.len()), (&None, 0));
    assert_eq!(b.image, Some(Image::Ssm("/b".to_owned())));
    assert_eq!(b.subnets, ["subnet-00000002".into()]);
}

#[test]
fn times_have_units_and_numbers_are_seconds() {
    let rows = [("90s", 90), ("15m", 900), ("2h", 7200), ("1d", 86_400), ("600", 600)];
    for (text, seconds) in rows {
        let file = right(
            &MINIMAL
                .replace("max: 3", &format!("max: 3, max_lifetime: {text}, boot_deadline: 10s")),
        );
        assert_eq!(file.pools[0].max_lifetime_seconds, Seconds(seconds), "{text}");
    }
}

/// Writes a file from its pools.
fn told(file: &PoolFile) -> Value {
    let mut all = written_stack(&file.limits, file.balance);
    all["pools"] = file.pools.iter().map(written).collect();
    all
}

#[test]
fn a_file_told_and_read_again_is_the_same() {
    for text in [MINIMAL, EXAMPLE] {
        let file = right(text);
        assert_eq!(read(told(&file)), Ok(file));
    }
}

/// Parts of pools, for combining.
fn parts() -> impl Strategy<Value = Value> {
    let any = |values: Vec<Value>| prop::sample::select(values);
    let market = any(vec![
        json!({}),
        json!({ "market": "spot", "max_price": "0.1" }),
        json!({ "market": "spot", "allocation": "diversified" }),
        json!({ "market": "spot-then-on-demand", "merge_queue": "as-others" }),
        json!({ "market": "spot-then-on-demand", "rerun_on_interruption": false }),
        json!({ "market": "spot", "rerun_on_interruption": "all" }),
        json!({ "allocation": "lowest-price", "reserved_first": true }),
    ]);
    let machines = any(vec![
        json!({ "instances": { "types": ["m7g.large", "c7gn.large"] }, "arch": "arm64" }),
        json!({ "instances": { "types": ["g4dn.xlarge", "m7i-flex.large"] }, "arch": "x64" }),
        json!({ "instances": { "vcpus": { "min": 2 }, "memory_mib": { "min": 1, "max": 9 } } }),
    ]);
    let labels = any(vec![json!(["a"]), json!([["a", "b"], ["c"]]), json!(["GPU", "self-hosted"])]);
    let rest = any(vec![
        json!({ "image": { "id": "ami-0a1b2c3d" }, "disk": { "device": "/dev/sda1", "size_gib": 8 } }),
        json!({ "placement": { "group": "acme build" } }),
        json!({ "placement": { "dedicated": true } }),
        json!({ "launch_template": "lt-0a1b2c3d4e5f60718" }),
        json!({ "proxy": { "https": "http://proxy.corp.example:3128" } }),
        json!({ "proxy": { "https": "http://ada%40corp@10.0.0.1", "http": "http://p_1:80",
            "no_proxy": [".corp.example", "10.0.0.0/8"], "password_secret": "office-1" } }),
        json!({ "tags": { "a": "b" }, "environment": { "A": "" }, "boot_hook": "true\n",
            "image_hook": "apt-get install -y gh\n", "sudo": false, "log_usage": false,
            "agent_mirror": "https://mirror.example:8443/a/b/" }),
        json!({ "enabled": false, "public_repositories": true, "priority": 9 }),
        json!({ "entity": "acme", "repositories": ["ACME/*", "ACME/web"], "match": "exact", "runner_group": 2 }),
    ]);
    (market, machines, labels, rest, 1..5_u32, 1..100_u32).prop_map(
        |(market, machines, labels, rest, max, minutes)| {
            let mut pool = json!({ "name": "p", "subnets": ["subnet-0a1b2c3d"], "labels": labels });
            pool["limits"] = json!({ "max": max, "max_lifetime": format!("{}m", minutes + 200),
                "keep_failed": format!("{minutes}m"),
                "idle_limit": minutes * 60, "boot_deadline": format!("{minutes}m") });
            for part in [market, machines, rest] {
                for (name, value) in part.as_object().expect("fields") {
                    pool[name] = value.clone();
                }
            }
            json!({ "pools": [pool] })
        },
    )
}

proptest! {
    #![proptest_config(searched(256))]

    #[test]
    fn whatever_is_right_survives_being_told(value in parts()) {
        let file = read(value.clone()).map_err(|problems| TestCaseError::fail(format!("{problems:?}")))?;
        prop_assert_eq!(read(told(&file)), Ok(file));
    }

    /// Any text is read unchanged, and no text makes the reader fail.
    #[test]
    fn any_value_anywhere_is_read_or_refused(name in prop::sample::select(crate::pool_file::fields::POOL), text in ".{0,12}") {
        let mut value = yaml(MINIMAL);
        value["pools"][0][name] = json!(text);
        if let Ok(file) = read(value) {
            prop_assert_eq!(read(told(&file)), Ok(file));
        }
    }
}
