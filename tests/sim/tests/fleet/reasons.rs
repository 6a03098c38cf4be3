//! Why jobs wait: the metric counts the words that `muster jobs` shows.

use std::collections::{BTreeMap, BTreeSet};

use muster_control::metrics::{Metric, MetricSubject};
use muster_domain::ec2::{CooldownScope, ErrorClass, LaunchError};
use muster_domain::ids::PoolName;
use muster_domain::instance::{Instance, Slot};
use muster_domain::job::run::Doubt;
use muster_domain::job::{Job, PassedOver};
use muster_domain::launch::record::Cooldowns;
use muster_domain::launch::record::cooldown::Cooldown;
use muster_domain::launch::record::trouble::RequestKind;
use muster_domain::launch::verdict::WaitReason;
use muster_domain::pool::Pool;
use muster_domain::provider::{ErrorDetail, ProviderError};
use muster_domain::stored::Change;
use muster_domain::switches::{Switch, SwitchedOff, Switches};
use muster_domain::time::{Seconds, Time};
use muster_domain::timings::Timings;
use muster_sim::schedule;
use serde_json::json;

use super::bench::{Bench, waiting};
use super::damage::ask;
use super::measures::at_work;

/// A pool whose two waiting jobs a row may change, and what else there is.
struct Scene {
    pool: Pool,
    jobs: Vec<Job>,
    rows: Vec<Instance>,
    cooldowns: Cooldowns,
    switches: Switches,
    limit: u32,
    now: Time,
}

impl Scene {
    /// The machine of the first job.
    fn claim(&mut self, bench: &Bench, change: impl FnOnce(&mut Instance, Time)) {
        let mut row = bench.booting();
        let slot = Slot {
            name: row.name.clone(),
            pool: row.pool.clone(),
            entity: row.entity.clone(),
            installation: row.installation,
            launch: row.launch.clone(),
            claim: Some(self.jobs[0].key()),
        };
        row = Instance::planned(slot, self.now, &Timings::default());
        change(&mut row, self.now);
        self.jobs[0].claim = Some(row.name.clone());
        self.rows.push(row);
    }

    /// Three machines of the pool never ran a job, and a fourth is out to find out.
    fn fail(&mut self, bench: &Bench) {
        let ago = |seconds| self.now - Seconds(seconds);
        for n in 0..3 {
            let mut row = bench.booting();
            row.name = format!("small-f{n}-0").parse().expect("a name");
            row.created_at = ago(1_200);
            let known = self.cooldowns.after_failure(&row, "dead".to_owned(), ago(1_000));
            self.cooldowns = known.expect("a failure");
        }
        let mut probe = bench.booting();
        probe.created_at = ago(390);
        let entities = BTreeSet::from([&probe.entity]);
        let probed = self.cooldowns.probed(&self.pool, &entities, ago(400));
        self.cooldowns = probed.expect("a probe");
        self.rows.push(probe);
    }

    fn refuse(&mut self, closed: CooldownScope) {
        let refusal = Cooldown {
            closed,
            since: self.now - Seconds(60),
            at: self.now - Seconds(60),
            until: self.now + Seconds(60),
            times: 1,
            class: ErrorClass::Configuration,
            code: "Code".to_owned(),
            message: "no".to_owned(),
        };
        self.cooldowns.list = [refusal].into();
    }

    fn distrust(&mut self) {
        let detail = ErrorDetail {
            at: self.now,
            operation: "get-runner".to_owned(),
            code: "401".to_owned(),
            message: "no".to_owned(),
        };
        let refused = ProviderError::Unauthorized(detail);
        let entity = "acme".parse().expect("an entity");
        let since = self.now - Seconds(60);
        let known = self.cooldowns.after_answer(&entity, RequestKind::Other, Some(&refused), since);
        self.cooldowns = known.expect("a trouble");
    }

    fn switch_off(&mut self) {
        let by = SwitchedOff {
            since: self.now,
            by: "ada".to_owned(),
            reason: "moving".to_owned(),
            until: None,
        };
        self.switches = Switches::with(&Switches::default(), &Switch::Launches, Some(by));
    }
}

/// The words of the jobs, by the metric, which has all words, and by `jobs`.
fn words(change: &dyn Fn(&mut Scene, &Bench)) -> [BTreeMap<String, usize>; 2] {
    let pool = schedule::pool("small", &["linux"], 9, "spot", Some("acme"));
    let bench = Bench::of(vec![pool.clone()]);
    let now = bench.door.now();
    let jobs = (0..2).map(|n| waiting(n, now - Seconds(30))).collect();
    let mut scene = Scene {
        pool,
        jobs,
        rows: Vec::new(),
        cooldowns: Cooldowns::default(),
        switches: Switches::default(),
        limit: 9,
        now,
    };
    change(&mut scene, &bench);
    let bench = Bench::of(vec![scene.pool]).with_at_most(scene.limit);
    bench.store(&scene.rows);
    bench.change(|world| {
        let count = u32::try_from(scene.rows.len()).expect("few");
        world.tables.counters.insert(muster_domain::pool::limits::Scope::Stack, count);
    });
    bench.put(&[Change::create(scene.cooldowns).into(), Change::create(scene.switches).into()]);
    for job in scene.jobs {
        bench.put(&[Change::create(job).into()]);
    }
    let report = bench.drive(bench.sweep());
    assert_eq!(report.problems, Vec::<String>::new());
    let measures = report.measures(&bench.door.sim.settings).into_iter();
    let counted = measures.filter(|one| one.metric == Metric::JobsWaiting).filter_map(|one| {
        let MetricSubject::Reason(reason) = one.of else { return None };
        Some((reason.as_str().to_owned(), one.values.iter().sum::<f64>() as usize))
    });
    let counted = counted.collect();
    let listed = ask(&bench, &json!({ "action": "jobs" }));
    let mut shown = BTreeMap::new();
    for job in listed["jobs"].as_array().expect("jobs") {
        let word = job["waits_for"].as_str().unwrap_or_default().to_owned();
        *shown.entry(word).or_default() += 1;
    }
    [counted, shown]
}

#[test]
fn the_metric_counts_the_words_that_jobs_shows() {
    let small: PoolName = "small".parse().expect("a pool");
    let refused = |row: &mut Instance, now| {
        let error = LaunchError::new(ErrorClass::Capacity, "InsufficientInstanceCapacity", "no");
        row.launch_failed(&error, now, &Timings::default());
    };
    type Change<'a> = &'a dyn Fn(&mut Scene, &Bench);
    let rows: [(&str, &[(&str, usize)], Change<'_>); 13] = [
        ("launched next", &[("starting", 2)], &|_, _| ()),
        ("a machine boots", &[("starting", 2)], &|all, bench| all.claim(bench, |_, _| ())),
        ("EC2 refused a slot", &[("ec2", 1), ("starting", 1)], &|all, bench| {
            all.claim(bench, refused);
        }),
        ("EC2 refuses the pool", &[("ec2", 2)], &|all, _| {
            all.refuse(CooldownScope::Pool(small.clone()));
        }),
        ("the pool's last place", &[("room", 1), ("starting", 1)], &|all, _| all.pool.max = 1),
        ("the stack's last place", &[("room", 1), ("starting", 1)], &|all, _| all.limit = 1),
        ("a runner took it", &[("room", 1), ("starting", 1)], &|all, bench| {
            all.pool.max = 1;
            let mut row = bench.idle(1).remove(0);
            at_work(&mut row, bench);
            all.rows.push(row);
            all.jobs[0].last_event.run = 1;
            all.jobs[1].last_event.run = 2;
        }),
        ("machines fail, and one finds out", &[("failures", 2)], &|all, bench| all.fail(bench)),
        ("GitHub refuses", &[("github", 2)], &|all, _| all.distrust()),
        ("to be confirmed", &[("github", 1), ("starting", 1)], &|all, _| {
            all.jobs[0].doubt = Some(Doubt::Old);
            all.jobs[0].seen_at = all.now;
        }),
        ("paused", &[("switched_off", 2)], &|all, _| all.switch_off()),
        ("too young", &[("young", 2)], &|all, _| all.pool.job_age_seconds = Seconds(600)),
        ("withheld", &[("passed_over", 2)], &|all, _| {
            for job in &mut all.jobs {
                job.passed_over = Some(PassedOver { times: 1, at: all.now - Seconds(2) });
            }
        }),
    ];
    let all = WaitReason::ALL.iter().map(|reason| reason.as_str().to_owned());
    let (mut unseen, mut wrong) = (all.collect::<BTreeSet<String>>(), Vec::new());
    for (name, expected, change) in rows {
        let expected: BTreeMap<String, usize> =
            expected.iter().map(|(word, count)| ((*word).to_owned(), *count)).collect();
        let [mut counted, shown] = words(change);
        unseen.retain(|word| !expected.contains_key(word));
        // `starting` is always counted, and any other reason only if a job has it.
        let has_none = |(word, count): (&String, &usize)| *count == 0 && word != "starting";
        assert!(counted.contains_key("starting") && !counted.iter().any(has_none), "{counted:?}");
        counted.retain(|_, count| *count > 0);
        if counted != expected || shown != expected {
            wrong.push(format!("{name}: the metric has {counted:?}, jobs {shown:?}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(unseen, BTreeSet::new(), "a row for each word");
}
