//! The template's alarms on failures, waits, waste and money, over the metrics that the functions emit in hours that go wrong.

mod cells;

use std::collections::BTreeMap;

use muster_control::Settings;
use muster_domain::timings::Timings;
use muster_sim::agenda::{HOUR, MINUTE, Millis, SECOND, START};
use muster_sim::ec2::Behaviour;
use muster_sim::executor::Executor;
use muster_sim::fault::Fault;
use muster_sim::schedule::{Plan, PlannedJob, STACK, pool};

const TEMPLATE: &str = include_str!("../../../../template.yaml");

/// A value in CloudWatch: when, the metric, and what was told at once. A metric of AWS begins with the
/// template's resource.
type Point = (Millis, String, Vec<f64>);

/// An alarm of CloudWatch.
#[derive(Debug)]
struct Alarm {
    metric: String,
    statistic: String,
    period: Millis,
    /// So many of the last periods.
    datapoints: usize,
    of: usize,
    comparison: String,
    threshold: f64,
    /// Whether a period without a value is one too many.
    is_missing_bad: bool,
}

impl Alarm {
    /// Of the template. A threshold that is a parameter is given.
    fn of(resource: &str, parameter: Option<f64>) -> Self {
        let (_, text) =
            TEMPLATE.split_once(&format!("\n  {resource}:\n")).expect("in the template");
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("      {name}: ")));
            line.unwrap_or_else(|| panic!("{resource} has no {name}"))
        };
        let number = |name: &str| field(name).parse::<usize>().expect("a number");
        let statistic = if resource == "WaitLongAlarm" { "ExtendedStatistic" } else { "Statistic" };
        let metric = field("MetricName").trim_matches('"');
        let metric = match field("Namespace") {
            "Muster" => metric.to_owned(),
            _ => format!("{} {metric}", watched(field("Dimensions"))),
        };
        Self {
            metric,
            statistic: field(statistic).to_owned(),
            period: SECOND * i64::try_from(number("Period")).expect("seconds"),
            datapoints: number("DatapointsToAlarm"),
            of: number("EvaluationPeriods"),
            comparison: field("ComparisonOperator").to_owned(),
            threshold: parameter.unwrap_or_else(|| field("Threshold").parse().expect("a number")),
            is_missing_bad: match field("TreatMissingData") {
                "breaching" => true,
                "notBreaching" => false,
                other => panic!("{other} is not known here"),
            },
        }
    }

    fn value(&self, mut values: Vec<f64>) -> f64 {
        values.sort_by(f64::total_cmp);
        match self.statistic.as_str() {
            "Sum" => values.iter().sum(),
            "Maximum" => values[values.len() - 1],
            "p95" => values[(values.len() * 95).div_ceil(100) - 1],
            other => panic!("{other} is not known here"),
        }
    }

    fn is_breach(&self, values: Option<&Vec<f64>>) -> bool {
        let Some(values) = values else { return self.is_missing_bad };
        let value = self.value(values.clone());
        match self.comparison.as_str() {
            "GreaterThanThreshold" => value > self.threshold,
            "GreaterThanOrEqualToThreshold" => value >= self.threshold,
            "LessThanThreshold" => value < self.threshold,
            other => panic!("{other} is not known here"),
        }
    }

    /// When it first rang.
    fn rang(&self, told: &[Point]) -> Option<Millis> {
        self.red(told).first().copied()
    }

    /// The ends of all periods after which it is red.
    fn red(&self, told: &[Point]) -> Vec<Millis> {
        let mut periods: BTreeMap<Millis, Vec<f64>> = BTreeMap::new();
        for (at, _, values) in told.iter().filter(|(_, metric, _)| *metric == self.metric) {
            periods.entry(at / self.period).or_default().extend(values);
        }
        let first = START / self.period;
        let end = told.iter().map(|(at, _, _)| at / self.period).max().unwrap_or(first);
        let last = i64::try_from(self.of).expect("few");
        let rings = |period: &Millis| {
            let window = (period - last + 1).max(first)..=*period;
            let breaches = window.filter(|one| self.is_breach(periods.get(one)));
            breaches.count() >= self.datapoints
        };
        (first..=end).filter(rings).map(|period| (period + 1) * self.period - START).collect()
    }
}

/// The resource whose metric of AWS it is: `!Ref ScaleUpFunction`, `!GetAtt JobsQueue.QueueName`.
fn watched(dimensions: &str) -> &str {
    let (_, value) = dimensions.split_once("Value: !").expect("a reference");
    let value = value.split_whitespace().nth(1).expect("a resource");
    value.split('.').next().unwrap_or(value)
}

/// All that CloudWatch has after a run.
fn points(executor: &Executor) -> Vec<Point> {
    let mut world = executor.sim().world.borrow_mut();
    assert!(world.violation.is_none(), "{:?}", world.violation);
    let own = world.measures.take().expect("looked at").into_iter();
    let own = own.map(|(at, one)| (at, one.metric.name().to_owned(), one.values));
    let aws = std::mem::take(&mut world.lambda.counted).into_iter();
    own.chain(aws.map(|(at, metric, value)| (at, metric, vec![value]))).collect()
}

/// What is told in four hours: so many jobs of these minutes come at once, and one of ten minutes each minute for an hour.
fn told(max: u32, burst: (usize, i64), machines: Behaviour) -> Vec<Point> {
    told_with(max, burst, machines, 4, &[])
}

/// The same in so many hours, with faults: each strikes so many times in a million.
fn told_with(
    max: u32,
    (at_once, minutes): (usize, i64),
    machines: Behaviour,
    hours: i64,
    faults: &[(Fault, u32)],
) -> Vec<Point> {
    let mut plan = planned(max, hours);
    let burst = (0..at_once).map(|_| job(0, minutes));
    plan.jobs = burst.chain((0..60).map(|minute| job(minute * MINUTE, 10))).collect();
    for (_, rates) in &mut plan.weathers {
        faults.iter().for_each(|(fault, ppm)| rates.set(*fault, *ppm));
    }
    let mut world = plan.world();
    world.ec2.scripted = vec![machines; 1_000];
    world.measures = Some(Vec::new());
    let mut executor = Executor::new(world, plan.settings.clone());
    executor.run(plan.faults_end);
    points(&executor)
}

/// So many hours in which nothing fails, without jobs.
fn planned(max: u32, hours: i64) -> Plan {
    let mut plan = Plan::of(1).without(Fault::ALL);
    (plan.orders, plan.flips, plan.windows) = (Vec::new(), Vec::new(), Vec::new());
    let pool = pool("linux", &["linux"], max, "on-demand", None);
    plan.settings = Settings::from_parameters(STACK.to_owned(), vec![pool], Timings::default());
    plan.strangers = 0;
    plan.faults_end = START + hours * HOUR;
    plan
}

/// A job of so many minutes.
const fn job(at: Millis, minutes: i64) -> PlannedJob {
    PlannedJob {
        at: START + MINUTE + at,
        gate: None,
        cancelled_at: None,
        repository: "acme/web",
        private: true,
        labels: &["linux"],
        length: minutes * MINUTE,
    }
}

#[test]
fn waits_waste_and_money_ring_when_they_are_there_and_not_before() {
    let wait = Alarm::of("WaitLongAlarm", Some(300.0));
    let vain = Alarm::of("InVainAlarm", None);
    let spend = Alarm::of("SpendAlarm", Some(3.0));
    let rang = |told: &[Point]| [&wait, &vain, &spend].map(|one| one.rang(told));
    let within = |rang: Option<Millis>, most| rang.is_some_and(|at| at <= most * MINUTE);
    let well = Behaviour::default;
    assert_eq!(rang(&told(60, (0, 0), well())), [None; 3], "a usual hour");
    // Its few machines come free together, so that most periods have no job that was taken.
    let [waited, in_vain, spent] = rang(&told(3, (0, 0), well()));
    assert!(within(waited, 50) && in_vain.is_none() && spent.is_none(), "{waited:?}");
    let dead = Behaviour { never_boots: true, ..well() };
    let [_, in_vain, spent] = rang(&told(60, (40, 10), dead));
    assert!(within(in_vain, 60) && spent.is_none(), "{in_vain:?}, {spent:?}");
    let [waited, in_vain, spent] = rang(&told(95, (80, 30), well()));
    assert!(within(spent, 30) && waited.is_none() && in_vain.is_none(), "{spent:?}, {waited:?}");
}

/// A function whose every call is denied fails on each message. The first job's event comes after a minute.
#[test]
fn failing_messages_ring_within_two_minutes_and_until_the_failure_ends() {
    const ALWAYS: u32 = 1_000_000;
    let failing = Alarm::of("MessagesFailingAlarm", None);
    for (fault, ppm, rings) in [
        (Fault::ReadFailed, ALWAYS, true),
        (Fault::CommitRefused, ALWAYS, true),
        // One call in a hundred fails: the second or third try succeeds.
        (Fault::ReadFailed, ALWAYS / 100, false),
        (Fault::CommitRefused, ALWAYS / 100, false),
        (Fault::CommitCollided, ALWAYS / 100, false),
        (Fault::HideFailed, ALWAYS, false),
    ] {
        let told = told_with(60, (0, 0), Behaviour::default(), 1, &[(fault, ppm)]);
        let red = failing.red(&told);
        assert_eq!(!red.is_empty(), rings, "{fault:?}: {red:?}");
        let Some(first) = red.first() else { continue };
        assert!(*first <= 3 * MINUTE, "{fault:?}: first red after {first}");
        let gap = red.windows(2).find(|two| two[1] - two[0] > MINUTE);
        assert_eq!(gap, None, "{fault:?}: it turned off in between");
        assert!(red[red.len() - 1] > HOUR - 5 * MINUTE, "{fault:?}: it turned off");
    }
    assert_eq!(failing.rang(&told(60, (40, 10), Behaviour::default())), None, "a usual hour");
}
