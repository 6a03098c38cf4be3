//! Lines put together, with their prices.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{gone, ran};
use crate::ec2::{Make, Market};
use crate::testkit::{CLAIMED, With, at, booting, exited, idle, searched};
use crate::time::{Seconds, Time};
use crate::usage::{
    By, Costs, Date, Day, History, Line, OwnPrices, Parts, Price, PricedBy, Prices, Sum, Waits,
    WaitsFor,
};

fn make(kind: &str, market: Market) -> Make {
    let zone = Some("us-east-1a".into());
    Make { kind: Some(kind.into()), zone, market: Some(market) }
}

/// m7i.large at ten cents an hour and four on spot, forty GiB for 73 cents a month.
fn prices(time: Time) -> Prices {
    Prices {
        at: time,
        listed_at: time,
        spot: BTreeMap::from([(
            "m7i.large".into(),
            BTreeMap::from([("us-east-1a".into(), 40_000)]),
        )]),
        list: BTreeMap::from([("m7i.large".into(), 100_000)]),
        unlisted: BTreeSet::from(["x9.large".into()]),
        disk: Some(18_250),
    }
}

/// A line of a machine, with its price.
fn line(instance: crate::instance::Instance, job: Option<u32>, make: Make) -> Line {
    let job = job.map(|second| ran(50, second));
    let mut line = Line::of_machine(&gone(instance, 1200), job.as_ref()).expect("a line");
    line.machine.as_mut().expect("a machine").make = make;
    History::new(vec![prices(line.at)]).price(&mut line, 40);
    line
}

fn day(lines: &[Line]) -> Day {
    Day::fold(Date::of(at(0)), lines)
}

#[test]
fn a_machine_has_the_price_of_its_type_market_and_zone_or_none() {
    let disk = Some(1_000);
    let on_demand = Some(100_000);
    let spot = Price { machine: 40_000, by: PricedBy::SpotHour, on_demand, disk };
    let list = Price { machine: 100_000, by: PricedBy::List, on_demand, disk };
    let elsewhere = Make { zone: Some("us-east-1b".into()), ..make("m7i.large", Market::Spot) };
    let rows = [
        (make("m7i.large", Market::Spot), Some(spot)),
        (make("m7i.large", Market::OnDemand), Some(list)),
        (Make { market: None, ..make("m7i.large", Market::Spot) }, None),
        (make("x9.large", Market::OnDemand), None),
        (make("x9.large", Market::Spot), None),
        (elsewhere, None),
        (Make::default(), None),
    ];
    for (make, price) in rows {
        assert_eq!(prices(at(0)).of(&make, 40), price, "{make:?}");
    }
}

#[test]
fn a_line_has_the_price_of_its_hour() {
    let dear = Prices { list: BTreeMap::from([("m7i.large".into(), 300_000)]), ..prices(at(7200)) };
    let history = History::new(vec![dear, prices(at(3600))]);
    let of = |time| history.of(&make("m7i.large", Market::OnDemand), 40, time);
    let rows = [(0, 100_000), (3600, 100_000), (7199, 100_000), (7200, 300_000), (90_000, 300_000)];
    for (second, price) in rows {
        assert_eq!(of(at(second)).map(|price| price.machine), Some(price), "{second}");
    }
    assert_eq!(History::default().of(&make("m7i.large", Market::Spot), 40, at(0)), None);
}

#[test]
fn prices_are_asked_for_by_the_hour_and_of_what_was_seen() {
    let known = prices(at(0));
    let seen = |kind: &str| BTreeSet::from([kind.into()]);
    assert!(!known.is_spot_old(at(3599)) && known.is_spot_old(at(3601)));
    assert!(!known.is_list_old(at(3601)) && known.is_list_old(at(0) + Seconds(86_401)));
    // One without a price was asked about.
    assert!(!known.lacks(&seen("x9.large")) && known.lacks(&seen("c7a.large")));
    assert_eq!(known.to_ask(&seen("c7a.large")).len(), 3);
}

#[test]
fn what_nobody_ran_a_job_on_is_told_by_why() {
    let spot = || make("m7i.large", Market::Spot);
    let notice = booting().with(|i| i.spot_notice(at(60)));
    let lines = [
        line(exited(), Some(99), spot()),
        line(booting(), None, spot()),
        line(idle(), None, make("m7i.large", Market::OnDemand)),
        line(notice, None, spot()),
        line(idle(), None, make("x9.large", Market::Spot)),
    ];
    let costs = Costs::of(&[day(&lines)], By::Repository);
    let [(name, sum)] = &costs.rows[..] else { panic!("{:?}", costs.rows) };
    assert_eq!((name.as_str(), sum.jobs, sum.minutes), ("acme/web", 1, 1));
    // 105 seconds at 4.1 cents an hour.
    assert_eq!(sum.money.sum(), 1_195);
    assert_eq!((sum.spot, sum.on_demand), (1_166, 2_916));
    let why: Vec<(&str, u64)> =
        costs.rest.in_vain.iter().map(|(why, one)| (why.as_str(), one.machines)).collect();
    assert_eq!(why, [("machine gone", 3), ("spot", 1)]);
    assert_eq!(costs.unpriced, BTreeMap::from([("x9.large".to_owned(), 1)]));
}

#[test]
fn an_operators_own_prices_take_the_lists_place() {
    let own = OwnPrices {
        on_demand: BTreeMap::from([("x9.large".into(), 0.36)]),
        spot: BTreeMap::new(),
        factor: BTreeMap::from([(Market::OnDemand, 0.5)]),
    };
    assert_eq!(own.check(), Ok(()));
    let on_demand = |kind: &str| line(idle(), None, make(kind, Market::OnDemand));
    let mut day = day(&[on_demand("m7i.large"), on_demand("x9.large")]);
    day.reprice(&own);
    let all = Costs::of(&[day], By::Type);
    let told =
        |row: &str| all.rows.iter().find(|(name, _)| name == row).map(|(_, sum)| sum.money.vain);
    // 1,195 seconds: half of 36 cents, and half of 10.1.
    assert_eq!(told("x9.large on-demand"), Some(59_750));
    assert_eq!(told("m7i.large on-demand"), Some(16_763));
    assert_eq!((all.all.unpriced, all.unpriced.len()), (0, 0));
    let wrong = OwnPrices { factor: BTreeMap::from([(Market::Spot, -1.0)]), ..own };
    assert!(wrong.check().is_err_and(|why| why.starts_with("spot: -1")));
}

#[test]
fn a_wait_is_told_by_what_it_was_for() {
    let all = line(exited(), Some(99), make("m7i.large", Market::Spot));
    let (whole, parts) = all.wait().expect("it ran a job");
    // Queued at 1, planned before that, launched at 5, registering from 31, listening at 40, run
    // from 50. Nothing is known of the first call of its machine.
    assert_eq!(whole, 49_000);
    let known = [Some(0), Some(0), Some(4_000), None, Some(35_000), Some(10_000)];
    assert_eq!(parts, known);
    assert_eq!(line(booting(), None, Make::default()).wait(), None);

    let mut waits = Waits::default();
    waits.add_line(&all);
    let mut late = all;
    late.t.planned = Some(600_000);
    late.t.launched = Some(604_000);
    late.t.listening = Some(640_000);
    late.t.started = Some(660_000);
    waits.add_line(&late);
    assert_eq!(waits.longest, 660_000);
    assert_eq!(waits.reasons_of_longest(), [(WaitsFor::Limits, 1)]);
    let mut both = Waits::default();
    both.join(&waits);
    assert_eq!(both, waits);
}

#[test]
fn a_day_is_kept_in_items_and_found_again() {
    let lines: Vec<Line> = (0..2_000)
        .map(|n| {
            let mut one = line(exited(), Some(99), make("m7i.large", Market::Spot));
            let job = one.job.as_mut().expect("a job");
            (job.repository, job.name) = (format!("acme/{n}").into(), "build".into());
            one
        })
        .collect();
    let day = day(&lines).without_jobs();
    let mut parts = day.clone().into_parts();
    assert_eq!(parts.len(), 3);
    let largest = parts.iter().map(|part| serde_json::to_string(part).expect("JSON").len()).max();
    assert!(largest.is_some_and(|bytes| bytes < 380_000), "{largest:?}");
    // One more of an earlier, longer form of the day.
    parts.push(crate::usage::PartOfDay { part: 3, ..parts[2].clone() });
    assert_eq!(Day::of_parts(parts.clone()), [day]);
    parts.remove(1);
    assert_eq!(Day::of_parts(parts), []);
    let empty = Day::fold(Date::of(at(0)), []);
    assert_eq!(empty.into_parts().len(), 1);
}

proptest! {
    #![proptest_config(searched(128))]

    /// However it is asked for, and whoever pays for what was idle or in vain.
    #[test]
    fn sums_add_up_to_the_lines(
        lives in prop::collection::vec((0..3_usize, 0..2_usize, 60..1_000_u32), 1..20),
    ) {
        let lines: Vec<Line> = lives.iter().map(|(life, kind, second)| {
            let make = make(["m7i.large", "x9.large"][*kind], Market::OnDemand);
            match life {
                0 => line(exited().with(|i| i.runner.ran = Some(CLAIMED)), Some(*second), make),
                1 => line(booting(), None, make),
                _ => line(idle(), None, make),
            }
        }).collect();
        let mut money = Parts::default();
        lines.iter().filter_map(Line::cost).for_each(|cost| money += cost);
        let day = day(&lines);
        let mut spread = day.clone();
        spread.spread();
        let has_job = lines.iter().any(|line| line.job.is_some());
        for by in [By::Repository, By::Workflow, By::Job, By::Pool, By::Type, By::Day] {
            let costs = Costs::of(std::slice::from_ref(&day), by);
            prop_assert_eq!(costs.all.money, money);
            let mut rows = costs.rest.clone();
            costs.rows.iter().for_each(|(_, sum): &(String, Sum)| rows.add(sum));
            prop_assert_eq!(&rows, &costs.all);
            let of = Costs::of(std::slice::from_ref(&spread), by);
            prop_assert_eq!(of.all.money.sum(), money.sum());
            prop_assert!(!has_job || of.rest.money.sum() == 0);
        }
    }
}
