//! Aggregated usage records, with their prices.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use strum::VariantArray as _;

use super::{gone, ran};
use crate::ec2::{Make, Market};
use crate::testkit::{CLAIMED, With, at, booting, exited, idle, searched};
use crate::time::{Seconds, Time};
use crate::usage::{
    By, Costs, Date, Day, EarlyEndCause, Fold, History, Learned, Line, MOST_BYTES, MOST_TYPES,
    OrderedRerun, OwnPrices, PartOfDay, Parts, Price, PriceQuery, PriceSource, PricedBy, Prices,
    Sum, UsageKind, Used, Waits, WaitsFor,
};

fn make(kind: &str, market: Market) -> Make {
    let zone = Some("us-east-1a".into());
    Make { kind: Some(kind.into()), zone, market: Some(market) }
}

/// m7i.large at ten cents per hour On-Demand and four on Spot; forty GiB at 73 cents per month.
fn prices(time: Time) -> Prices {
    let mut prices = Prices::default();
    let used = BTreeSet::from(["m7i.large".into(), "x9.large".into()]);
    prices.note_used(&used, time);
    let zones = BTreeMap::from([("us-east-1a".into(), 40_000)]);
    for learned in [
        Learned::Spot("m7i.large".into(), zones),
        Learned::List("m7i.large".into(), Some(100_000)),
        Learned::List("x9.large".into(), None),
        Learned::Refused(PriceQuery::Spot("x9.large".into()), "InvalidParameterValue".to_owned()),
        Learned::Disk(Some(18_250)),
    ] {
        prices.learn(learned, time);
    }
    prices
}

/// A machine's usage record, with its price.
fn line(instance: crate::instance::Instance, job: Option<u32>, make: Make) -> Line {
    let job = job.map(|second| ran(50, second));
    let mut line = Line::of_machine(&gone(instance, 1200), job.as_ref()).expect("a line");
    line.machine.as_mut().expect("a machine").make = make;
    History::new(vec![prices(line.at)]).price(&mut line, 40);
    line
}

fn day(lines: &[Line]) -> Day {
    day_by(By::Repository, lines)
}

fn day_by(by: By, lines: &[Line]) -> Day {
    Day::fold(Date::of(at(0)), by, lines)
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
    let mut dear = prices(at(7200));
    dear.list.insert("m7i.large".into(), 300_000);
    let history = History::new(vec![dear, prices(at(3600))]);
    let of = |time| history.of(&make("m7i.large", Market::OnDemand), 40, time);
    let rows = [(0, 100_000), (3600, 100_000), (7199, 100_000), (7200, 300_000), (90_000, 300_000)];
    for (second, price) in rows {
        assert_eq!(of(at(second)).map(|price| price.machine), Some(price), "{second}");
    }
    assert_eq!(History::default().of(&make("m7i.large", Market::Spot), 40, at(0)), None);
}

#[test]
fn each_source_and_each_type_is_due_by_itself() {
    let mut known = prices(at(0));
    let names = |due: Vec<Arc<str>>| due.iter().map(ToString::to_string).collect::<Vec<_>>();
    let both = ["m7i.large", "x9.large"];
    let none: [&str; 0] = [];
    assert_eq!(names(known.spot_due(at(3599))), none);
    assert_eq!(names(known.spot_due(at(3600))), both, "the refused one, too");
    assert_eq!(names(known.list_due(at(3600))), none, "the list is asked once a day");
    let refused = PriceQuery::List("m7i.large".into());
    known.learn(Learned::Refused(refused, "AccessDeniedException".to_owned()), at(10));
    assert_eq!(names(known.list_due(at(3610))), ["m7i.large"]);
    assert_eq!(known.list.get("m7i.large"), Some(&100_000), "the known price stays");
    assert_eq!(names(known.list_due(at(86_400))), both);
    assert_eq!(known.disk_due, at(86_400));
    let new = BTreeSet::from(["c7a.large".into()]);
    known.note_used(&new, at(60));
    assert_eq!(names(known.spot_due(at(60))), ["c7a.large"]);
    for (second, used) in [(85_400, 85_400), (171_799, 85_400), (171_800, 171_800)] {
        known.note_used(&new, at(second));
        assert_eq!(known.types["c7a.large"].used, at(used), "noted once a day");
    }
    known.note_used(&new, at(0) + Seconds(30 * 86_400 - 1_001));
    assert_eq!(known.types.len(), 3);
    known.note_used(&new, at(0) + Seconds(30 * 86_400));
    assert_eq!(known.types.len(), 1, "the others were not in use for a month");
    assert!(known.list.is_empty() && known.spot.is_empty());
}

#[test]
fn the_prices_of_all_types_of_ec2_fit_into_one_item() {
    let name = |n: u32| Arc::<str>::from(format!("m7i-flex-{n}.8xlarge"));
    let all: BTreeSet<_> = (0..1_200).map(name).collect();
    let mut known = Prices::default();
    known.note_used(&(5_000..5_100).map(name).collect(), at(0));
    known.note_used(&all, at(86_400));
    assert_eq!(known.types.len(), MOST_TYPES);
    assert!(known.types.keys().all(|kind| all.contains(kind)), "those in use stay");
    let zones: BTreeMap<_, _> =
        (0..6).map(|n| (format!("us-east-1{n}").into(), 1_234_567)).collect();
    for kind in all.iter().take(MOST_TYPES) {
        known.learn(Learned::Spot(kind.clone(), zones.clone()), at(86_400));
        known.learn(Learned::List(kind.clone(), Some(12_345_678)), at(86_400));
    }
    // An hour later, all of them are denied.
    for kind in all.iter().take(MOST_TYPES) {
        for query in [PriceQuery::Spot(kind.clone()), PriceQuery::List(kind.clone())] {
            known.learn(Learned::Refused(query, "UnauthorizedOperation".to_owned()), at(90_000));
        }
    }
    let bytes = serde_json::to_string(&known).expect("JSON").len();
    assert!(bytes < 390_000, "{bytes}");
}

/// A step: a query, its code if it is refused, and then the types that each source denies.
#[test]
fn a_source_is_refused_from_the_first_denial_until_nothing_is_denied() {
    let (a, b): (Arc<str>, Arc<str>) = ("a1.large".into(), "b1.large".into());
    let (spot, list) = (
        |kind: &Arc<str>| PriceQuery::Spot(kind.clone()),
        |kind: &Arc<str>| PriceQuery::List(kind.clone()),
    );
    let (denied, deny) = (Some("UnauthorizedOperation"), Some("AccessDeniedException"));
    let steps: [(PriceQuery, Option<&str>, [&str; 2]); 12] = [
        (spot(&a), None, ["", ""]),
        (spot(&a), Some("InvalidParameterValue"), ["", ""]),
        (spot(&a), denied, ["a1.large since 3", ""]),
        (spot(&b), denied, ["a1.large b1.large since 3", ""]),
        (list(&a), deny, ["a1.large b1.large since 3", "a1.large since 5"]),
        (PriceQuery::Disk, deny, ["a1.large b1.large since 3", "a1.large disks since 5"]),
        (spot(&a), None, ["b1.large since 3", "a1.large disks since 5"]),
        (list(&a), None, ["b1.large since 3", "disks since 5"]),
        // A refusal of the type itself is none of the caller.
        (spot(&b), Some("InvalidParameterValue"), ["", "disks since 5"]),
        (PriceQuery::Disk, None, ["", ""]),
        (list(&b), Some("AuthFailure"), ["", "b1.large since 11"]),
        (list(&b), None, ["", ""]),
    ];
    let mut known = Prices::default();
    known.note_used(&[a, b].into(), at(0));
    for ((query, code, expected), second) in steps.into_iter().zip(1..) {
        let row = format!("{second}: {query:?}, {code:?}");
        let answered = match query.clone() {
            PriceQuery::Spot(kind) => Learned::Spot(kind, BTreeMap::new()),
            PriceQuery::List(kind) => Learned::List(kind, None),
            PriceQuery::Disk => Learned::Disk(None),
        };
        let refused = code.map(|code| Learned::Refused(query, code.to_owned()));
        known.learn(refused.unwrap_or(answered), at(second));
        let shown = [PriceSource::Spot, PriceSource::List].map(|source| {
            let Some(refused) = known.refused.get(&source) else { return String::new() };
            let of: Vec<&str> = refused.of.iter().map(|of| &**of).collect();
            format!(
                "{} since {}",
                of.join(" "),
                (refused.since.as_millis() - at(0).as_millis()) / 1000
            )
        });
        assert_eq!(shown, expected, "{row}");
    }
}

/// What is denied for a type that is no longer in use is not reported.
#[test]
fn a_type_that_is_not_in_use_is_not_refused() {
    let mut known = Prices::default();
    known.note_used(&["a1.large".into()].into(), at(0));
    let query = PriceQuery::Spot("a1.large".into());
    known.learn(Learned::Refused(query, "UnauthorizedOperation".to_owned()), at(0));
    known.note_used(&BTreeSet::new(), at(0) + Seconds(86_400));
    assert_eq!(known.refused.len(), 1);
    known.note_used(&BTreeSet::new(), at(0) + Seconds(30 * 86_400));
    assert_eq!((known.types.len(), known.refused.len()), (0, 0));
}

/// Those in use come first, then the most recently used.
#[test]
fn of_too_many_types_the_most_recently_used_stay() {
    let names = |range: std::ops::Range<u32>| -> BTreeSet<Arc<str>> {
        range.map(|n| format!("m7i-flex-{n}.8xlarge").into()).collect()
    };
    let (old, recent, used) = (names(0..100), names(100..200), names(200..1_050));
    let mut known = Prices::default();
    for (kinds, second) in [(&old, 0), (&recent, 3_600), (&used, 7_200)] {
        known.note_used(kinds, at(second));
    }
    let kept = |all: &BTreeSet<_>| all.iter().filter(|one| known.types.contains_key(*one)).count();
    assert_eq!([&used, &recent, &old].map(kept), [850, 100, 50]);
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
    // 105 seconds at 4.1 cents per hour.
    assert_eq!(sum.money.sum(), 1_195);
    assert_eq!((sum.spot, sum.on_demand), (1_166, 2_916));
    let why: Vec<(&str, u64)> =
        costs.rest.in_vain.iter().map(|(why, one)| (why.as_str(), one.machines)).collect();
    assert_eq!(why, [("machine gone", 3), ("spot", 1)]);
    assert_eq!(costs.unpriced, BTreeMap::from([("x9.large".to_owned(), 1)]));
}

/// Of the keys without a bound, a day has only the one that it is grouped by; roll-ups have none.
#[test]
fn names_pull_requests_and_actors_are_rows_and_in_no_roll_up() {
    let runs = [("a", Some(7), None), ("b", Some(7), Some("mira")), ("b", None, Some("mira"))];
    let mut lines = runs.map(|(name, pull_request, actor)| {
        let mut line = line(exited(), Some(99), make("m7i.large", Market::Spot));
        line.pull_request = pull_request;
        let job = line.job.as_mut().expect("a job");
        (job.name, job.actor) = (name.into(), actor.map(Into::into));
        line
    });
    // The most expensive row comes first.
    lines[0].parts.work *= 4;
    let rows: [(By, usize, &[&str]); 4] = [
        (By::Repository, 1, &["acme/web"]),
        (By::Job, 2, &["acme/web · CI · a", "acme/web · CI · b"]),
        (By::PullRequest, 2, &["acme/web#7", "acme/web · no pull request"]),
        (By::Actor, 2, &["not recorded", "mira"]),
    ];
    for (by, groups, expected) in rows {
        let day = day_by(by, &lines);
        assert_eq!(day.groups.len(), groups, "{by:?}");
        assert_eq!(day.groups.iter().map(|group| group.sum.machines).sum::<u64>(), 3);
        let costs = Costs::of(&[day], by);
        let names: Vec<&str> = costs.rows.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, expected, "{by:?}");
        assert_eq!(costs.rest, Sum::default(), "{by:?}");
    }
}

#[test]
fn an_operators_own_prices_are_those_of_each_reason_for_waste() {
    let spot = || make("m7i.large", Market::Spot);
    let notice = booting().with(|i| i.spot_notice(at(60)));
    let mut day = day(&[line(booting(), None, spot()), line(notice, None, spot())]);
    let money = |day: &Day| -> Vec<u64> {
        let all = Costs::of(std::slice::from_ref(day), By::Type).all;
        all.in_vain.values().map(|one| one.money).collect()
    };
    let before = money(&day);
    let factor = BTreeMap::from([(Market::Spot, 0.5)]);
    day.reprice(&OwnPrices { factor, ..OwnPrices::default() });
    assert_eq!(before.len(), 2);
    let is_half = |(all, half): (&u64, u64)| half.abs_diff(all / 2) <= 1;
    assert!(before.iter().zip(money(&day)).all(is_half), "{before:?}");
}

#[test]
fn an_operators_own_prices_take_the_lists_place() {
    let own = OwnPrices {
        on_demand: BTreeMap::from([("x9.large".into(), 0.36)]),
        spot: BTreeMap::from([("x9.large".into(), 0.036)]),
        factor: BTreeMap::from([(Market::OnDemand, 0.5)]),
        ..OwnPrices::default()
    };
    assert_eq!(own.check(), Ok(()));
    let on_demand = |kind: &str| line(idle(), None, make(kind, Market::OnDemand));
    let spot = line(idle(), None, make("x9.large", Market::Spot));
    let mut day = day(&[on_demand("m7i.large"), on_demand("x9.large"), spot]);
    day.reprice(&own);
    let all = Costs::of(&[day], By::Type);
    let told =
        |row: &str| all.rows.iter().find(|(name, _)| name == row).map(|(_, sum)| sum.money.vain);
    // 1,195 seconds: half of 36 cents, and half of 10.1.
    assert_eq!(told("x9.large on-demand"), Some(59_750));
    assert_eq!(told("m7i.large on-demand"), Some(16_763));
    // On Spot at 3.6 cents, and half of 36 cents if it had been On-Demand.
    assert_eq!((all.all.spot, all.all.on_demand), (11_950, 59_750));
    assert_eq!((all.all.unpriced, all.unpriced.len()), (0, 0));
    let wrong = OwnPrices { factor: BTreeMap::from([(Market::Spot, -1.0)]), ..own };
    assert!(wrong.check().is_err_and(|why| why.starts_with("spot: -1")));
}

/// Numbers are dollars per hour, or the fraction that is paid.
#[test]
fn a_price_is_a_finite_number_of_dollars_and_a_factor_a_fraction() {
    let rows = [
        (0.0, true),
        (10_000.0, true),
        (10_000.01, false),
        (-0.01, false),
        (f64::NAN, false),
        (f64::INFINITY, false),
    ];
    for (number, is_right) in rows {
        let kind = BTreeMap::from([("x9.large".into(), number)]);
        let github = BTreeMap::from([("2".to_owned(), number)]);
        let factor = BTreeMap::from([(Market::Spot, number)]);
        for own in [
            OwnPrices { on_demand: kind.clone(), ..OwnPrices::default() },
            OwnPrices { spot: kind.clone(), ..OwnPrices::default() },
            OwnPrices { factor, ..OwnPrices::default() },
            OwnPrices { github, ..OwnPrices::default() },
        ] {
            assert_eq!(own.check().is_ok(), is_right, "{own:?}");
        }
    }
}

/// A Spot machine of 1,195 seconds that no job used, at 4.1 cents an hour with its disk.
#[test]
fn own_prices_of_one_market_leave_the_other_alone() {
    let kind = |price| BTreeMap::from([("m7i.large".into(), price)]);
    let rows = [
        // Own prices On-Demand and on Spot, the factor of Spot: cost, of the Spot machine, as On-Demand.
        (None, None, None, (13_609, 13_277, 33_194)),
        (None, None, Some(0.5), (6_805, 6_639, 33_194)),
        (Some(0.36), None, None, (13_609, 13_277, 119_500)),
        (None, Some(0.36), None, (119_500, 119_500, 33_194)),
        (None, Some(0.36), Some(0.5), (59_750, 59_750, 33_194)),
    ];
    for (on_demand, spot, factor, expected) in rows {
        let own = OwnPrices {
            on_demand: on_demand.map(kind).unwrap_or_default(),
            spot: spot.map(kind).unwrap_or_default(),
            factor: factor.map(|factor| (Market::Spot, factor)).into_iter().collect(),
            ..OwnPrices::default()
        };
        let mut day = day(&[line(booting(), None, make("m7i.large", Market::Spot))]);
        day.reprice(&own);
        let sum = &day.groups[0].sum;
        assert_eq!((sum.money.sum(), sum.spot, sum.on_demand), expected, "{own:?}");
        let wasted: Vec<u64> = sum.in_vain.values().map(|one| one.money).collect();
        assert_eq!(wasted, [expected.0], "{own:?}");
    }
}

#[test]
fn minutes_and_failures_are_counted_as_githubs() {
    let base = line(exited(), Some(99), make("m7i.large", Market::Spot));
    let rows = [
        // Milliseconds, private, conclusion; then minutes, private minutes, failures.
        (0, false, "success", (1, 0, 0)),
        (1, true, "failure", (1, 1, 1)),
        (60_000, false, "cancelled", (1, 0, 0)),
        (60_001, true, "timed_out", (2, 2, 0)),
        (-1, false, "success", (0, 0, 0)),
    ];
    for (lasted, private, conclusion, expected) in rows {
        let mut line = base.clone();
        line.t.completed = line.t.started.map(|started| started + lasted);
        let job = line.job.as_mut().expect("a job");
        (job.private, job.conclusion) = (private, Some(conclusion.to_owned()));
        let sum = &day(&[line]).groups[0].sum;
        assert_eq!((sum.minutes, sum.private_minutes, sum.failed), expected, "{lasted} ms");
    }
}

#[test]
fn attempts_are_rows_and_days_keep_them() {
    let mut fold = Fold::new(Date::of(at(0)), By::Day);
    for attempt in [1, 1, 2, 3, 9] {
        let mut one = line(exited(), Some(99), make("m7i.large", Market::Spot));
        one.job.as_mut().expect("a job").attempt = attempt;
        fold.add(&one);
    }
    fold.add(&line(booting(), None, make("m7i.large", Market::Spot)));
    let kept = Day::of_parts(fold.day().to_parts()).expect("a day");
    let costs = Costs::of(&[kept], By::Attempt);
    let mut rows: Vec<(&str, u64)> =
        costs.rows.iter().map(|(name, sum)| (name.as_str(), sum.jobs)).collect();
    rows.sort_unstable();
    assert_eq!(rows, [("1", 2), ("2", 1), ("3 and later", 2)]);
    assert_eq!((costs.rest.machines, costs.all.machines), (1, 6));
}

/// What Spot saves is what the same jobs would have cost On-Demand, where nothing interrupts them.
#[test]
fn lost_work_reduces_what_spot_saves() {
    let notice = |conclusion: &str| {
        let mut one = line(exited(), Some(99), make("m7i.large", Market::Spot));
        one.machine.as_mut().expect("a machine").cause = Some(EarlyEndCause::SpotNotice);
        one.job.as_mut().expect("a job").conclusion = Some(conclusion.to_owned());
        one
    };
    let whole = notice("success");
    let (spot, on_demand) = (whole.parts.at(40_000).sum(), whole.parts.at(100_000).sum());
    let cost = whole.cost().expect("a price").sum();
    let own = |price: f64| BTreeMap::from([("m7i.large".into(), price)]);
    let own = OwnPrices { on_demand: own(0.1), spot: own(0.04), ..OwnPrices::default() };
    for (conclusion, lost) in [("success", 0), ("failure", 1), ("cancelled", 1)] {
        let mut day = day(&[whole.clone(), notice(conclusion)]);
        let sum = &day.groups[0].sum;
        let expected = (2 * spot, (2 - lost) * on_demand, lost, lost * cost);
        let interrupted = sum.interrupted;
        let told = (sum.spot, sum.on_demand, interrupted.machines, interrupted.money);
        assert_eq!(told, expected, "{conclusion}");
        day.reprice(&own);
        let sum = &day.groups[0].sum;
        let told = (sum.on_demand.div_ceil(10), sum.interrupted.money);
        let expected = (((2 - lost) * on_demand).div_ceil(10), lost * spot);
        assert_eq!(told, expected, "{conclusion}, own prices");
    }
}

/// A re-run takes the place of the run that was lost, so it is set against one On-Demand run. On an
/// On-Demand machine, it saves nothing.
#[test]
fn what_muster_re_ran_is_counted_and_the_saving_is_net_of_it() {
    let run = |market: Market, rerun: bool| {
        let mut one = line(exited(), Some(99), make("m7i.large", market));
        one.job.as_mut().expect("a job").rerun = rerun.then_some(OrderedRerun { of: 1 });
        one
    };
    let mut lost = run(Market::Spot, false);
    lost.machine.as_mut().expect("a machine").cause = Some(EarlyEndCause::SpotNotice);
    lost.job.as_mut().expect("a job").conclusion = Some("failure".to_owned());
    let cost = |line: &Line| line.cost().expect("a price").sum();
    for (market, jobs) in [(Market::OnDemand, 2), (Market::Spot, 3)] {
        let lines = [run(Market::Spot, false), lost.clone(), run(market, true)];
        let kept = Day::of_parts(day(&lines).to_parts()).expect("a day");
        let all = Costs::of(&[kept], By::Repository).all;
        let told = (all.spot_jobs, all.ordered_reruns.machines, all.ordered_reruns.money);
        assert_eq!(told, (jobs, 1, cost(&lines[2])), "{market}");
        let once = lines[0].parts.at(100_000).sum();
        let on_spot = lines[0].parts.at(40_000).sum();
        let expected = (jobs * on_spot, (jobs - 1) * once);
        assert_eq!((all.spot, all.on_demand), expected, "{market}");
    }
}

/// Only private repositories, and only machines that measured their CPUs.
#[test]
fn githubs_runners_have_the_operators_rates() {
    let run = |cpus: Option<u16>, minutes: i64, private: bool| {
        let mut one = line(exited(), Some(99), make("m7i.large", Market::Spot));
        one.t.completed = one.t.started.map(|started| started + minutes * 60_000 - 1);
        one.used = cpus.map(|cpus| Used { cpus, ..Used::default() });
        one.job.as_mut().expect("a job").private = private;
        one
    };
    let runs = [
        run(Some(2), 10, true),
        run(Some(4), 3, true),
        run(Some(2), 5, true),
        run(Some(8), 7, true),
        run(None, 40, true),
        run(Some(2), 100, false),
    ];
    let sum = Costs::of(&[day(&runs)], By::Repository).all;
    assert_eq!((sum.private_minutes, sum.minutes), (65, 165));
    let rates = |rates: &[(&str, f64)]| OwnPrices {
        github: rates.iter().map(|(cpus, rate)| ((*cpus).to_owned(), *rate)).collect(),
        ..OwnPrices::default()
    };
    let own = rates(&[("2", 0.006), ("4", 0.012), ("16", 1.0)]);
    assert_eq!(own.check(), Ok(()));
    assert_eq!(own.on_github(&sum.cpu_minutes), (15 * 6_000 + 3 * 12_000, 18));
    let liar = (0..1_000).map(|cpus| run(Some(cpus), 1, true)).collect::<Vec<_>>();
    assert_eq!(day(&liar).groups[0].sum.cpu_minutes.len(), 16);
    assert!(rates(&[("two", 0.1)]).check().is_err_and(|why| why.contains("vCPUs")));
}

#[test]
fn a_wait_is_told_by_what_it_was_for() {
    let all = line(exited(), Some(99), make("m7i.large", Market::Spot));
    let (whole, parts) = all.wait().expect("it ran a job");
    // Queued at 1, planned before that, launched at 5, registered from 31, listening at 40, run
    // from 50. The machine's first call is unknown.
    assert_eq!(whole, 49_000);
    let known = [Some(0), Some(0), Some(4_000), None, Some(35_000), Some(10_000)];
    assert_eq!(parts, known);
    assert_eq!(line(booting(), None, Make::default()).wait(), None);
    for (started, wait) in [(Some(0), Some(0)), (Some(-1), None), (None, None)] {
        let mut other = all.clone();
        other.t.started = started;
        assert_eq!(other.wait().map(|(whole, _)| whole), wait, "{started:?}");
        other.kind = UsageKind::Job;
        assert_eq!(other.wait(), None, "a job without our machine");
    }

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

/// A day with these numbers of repositories (each with a workflow) and pools, with names of this
/// length.
fn large(repositories: usize, pools: usize, letters: usize) -> Day {
    let mut fold = Fold::new(Date::of(at(0)), By::Day);
    let name = |n: usize| format!("{n:x<letters$}");
    for n in 0..repositories.max(pools) * 4 {
        let kind = ["m7i.large", "m7i.xlarge", "c7a.large", "r7i.large"][n % 4];
        let mut one = line(exited(), Some(99), make(kind, Market::Spot));
        let job = one.job.as_mut().expect("a job");
        job.repository = format!("acme/{}", name(n / 4 % repositories)).into();
        job.workflow = Some("\u{1f477}\"".repeat(letters / 8).into());
        let pool = name(n % pools).get(..letters.min(32)).expect("letters").to_owned();
        one.pool = Some(pool.parse().expect("a pool"));
        // Waits of all sizes: a pool then uses every step.
        for wait in 0..64 {
            one.t.started = Some(i64::from(60 + wait * wait * 37) * 1000);
            one.t.planned = Some(i64::from(wait * 900) * 1000);
            fold.add(&one);
        }
    }
    fold.day()
}

/// Few and many groups, few and many pools, short and long names, four-byte characters.
#[test]
fn a_day_of_any_size_is_kept_in_items_that_dynamodb_accepts() {
    for (repositories, pools, letters) in
        [(1, 1, 8), (1_500, 1, 8), (1_500, 20, 85), (300, 40, 255), (2, 300, 40), (4_000, 3, 85)]
    {
        let day = large(repositories, pools, letters);
        let name = format!("{repositories} repositories, {pools} pools, {letters} letters");
        let mut parts = day.to_parts();
        for part in &parts {
            assert!(part.text.len() <= MOST_BYTES, "{name}: {}", part.text.len());
        }
        let full: usize = parts.iter().map(|part| part.text.len()).sum();
        assert!(parts.len() <= full / 250_000 + 1, "{name}: {} items of {full}", parts.len());
        // An additional item of an earlier, longer version of the day.
        let last = parts.last().expect("a part").clone();
        parts.push(PartOfDay { part: parts.len(), ..last });
        parts.reverse();
        assert_eq!(Day::of_parts(parts.clone()).as_ref(), Some(&day), "{name}");
        parts.retain(|part| part.part != part.parts - 1);
        assert_eq!(Day::of_parts(parts), None, "{name}: one is missing");
    }
    let empty = Day::fold(Date::of(at(0)), By::Day, []);
    assert_eq!(empty.to_parts().len(), 1);
    assert_eq!(Day::of_parts(empty.to_parts()), Some(empty));
    assert_eq!(Day::of_parts(Vec::new()), None);
}

proptest! {
    #![proptest_config(searched(128))]

    /// For any grouping, and with or without distributed idle and wasted time.
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
        let has_job = lines.iter().any(|line| line.job.is_some());
        for by in By::VARIANTS.iter().copied() {
            let day = day_by(by, &lines);
            let mut spread = day.clone();
            spread.spread();
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
