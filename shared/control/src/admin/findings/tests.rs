use std::collections::{BTreeMap, BTreeSet};

use muster_api::answers::{
    AgentsStatus, AppStatus, EndingStatus, Finding, ImageAgent, LimitStatus, Note, NoteKind,
    OrphanStatus, Overview, PoolStatus, RefusedEnds, Severity, ShownSwitches, UnservedJobs,
};
use muster_domain::app::AppCheck;
use muster_domain::ec2::{CooldownScope, ErrorClass, Market, Override};
use muster_domain::ids::{AppName, PoolName};
use muster_domain::image::{BuildFailure, Family, Images};
use muster_domain::instance::{Groups, Waiting};
use muster_domain::job::labels::{LabelRows, Labels};
use muster_domain::launch::record::cooldown::Cooldown;
use muster_domain::launch::record::foreign_runners::ForeignRunners;
use muster_domain::launch::record::reclaimed::ReclaimedPlace;
use muster_domain::launch::record::registrations::FailingRegistrations;
use muster_domain::launch::record::trouble::{Trouble, TroubleScope};
use muster_domain::pool::limits::Scope;
use muster_domain::provider::ErrorDetail;
use muster_domain::rerun::{Rerun, RerunOutcome, RerunState, RerunWait, RerunWatch};
use muster_domain::switches::SwitchedOff;
use muster_domain::time::{Seconds, Time};
use muster_domain::usage::{PriceSource, RefusedPrices};

use super::{StackFacts, at_most, findings};
use crate::notices::Notices;
use crate::testkit::{at, fault, machine};

/// All that may be known, each part apart.
#[derive(Clone, Default)]
struct Known {
    switches: Option<ShownSwitches>,
    app: Option<AppStatus>,
    failing: Vec<FailingRegistrations>,
    foreign: Vec<ForeignRunners>,
    troubles: Vec<Trouble>,
    pools: Vec<PoolStatus>,
    unserved: UnservedJobs,
    gated: UnservedJobs,
    agents: AgentsStatus,
    limits: Vec<LimitStatus>,
    cooldowns: Vec<Cooldown>,
    reclaimed: Vec<ReclaimedPlace>,
    reruns: Vec<Rerun>,
    orphans: Vec<OrphanStatus>,
    notices: Option<Notices>,
    refused_prices: BTreeMap<PriceSource, RefusedPrices>,
    images: Option<Images>,
}

impl Known {
    fn findings(&self, now: Time) -> Vec<Finding> {
        let on = ShownSwitches { launches: None, deletes: None, pools: BTreeMap::new() };
        let overview = Overview {
            stack: "muster".to_owned(),
            release: "0".into(),
            record_version: 0,
            now,
            pools: self.pools.clone(),
            unserved: self.unserved.clone(),
            waiting_for_approval: self.gated.clone(),
            limits: self.limits.clone(),
            switches: self.switches.clone().unwrap_or(on),
            agents: self.agents.clone(),
            app_checked_at: None,
            findings: Vec::new(),
        };
        findings(&StackFacts {
            overview: &overview,
            app: self.app.as_ref(),
            failing: &self.failing,
            foreign: &self.foreign,
            troubles: &self.troubles,
            cooldowns: &self.cooldowns,
            reclaimed: &self.reclaimed,
            reruns: &self.reruns,
            orphans: &self.orphans,
            notices: self.notices.as_ref(),
            refused_prices: Some(&self.refused_prices),
            images: self.images.as_ref(),
        })
    }

    /// Key, severity, message and what to do.
    fn told(&self) -> Vec<String> {
        let all = self.findings(NOW).into_iter();
        let told = all.map(|one| {
            let fix = one.fix.expect("something to do");
            format!("{} {}: {} → {fix}", one.severity.as_str(), one.key, one.message)
        });
        told.collect()
    }
}

/// 08:00:10 of its day.
const NOW: Time = Time::from_millis(1_800_000_010_000);

fn pool(name: &str, live: u32, waiting_jobs: usize, oldest: u32) -> PoolStatus {
    PoolStatus {
        name: name.parse().expect("a name"),
        labels: LabelRows::one(Labels::new(["linux"])),
        entity: None,
        priority: 0,
        enabled: true,
        max: 2,
        min_idle: 0,
        warm: None,
        live,
        groups: Groups::default(),
        late_end: None,
        refused_ends: None,
        waiting_jobs,
        oldest_waiting_job_seconds: (waiting_jobs > 0).then_some(Seconds(oldest)),
        launches_off: None,
        removed_at: None,
        note: None,
    }
}

fn trouble(scope: TroubleScope) -> Trouble {
    Trouble {
        scope,
        generation: 0,
        by_machine: true,
        since: at(0),
        at: at(0),
        failures: 4,
        probes: 1,
        certain: false,
        probed_at: None,
        until: at(70),
        fixed_at: None,
        last: None,
        reason: "403: no".to_owned(),
    }
}

fn cooldown(closed: CooldownScope, class: ErrorClass, code: &str) -> Cooldown {
    let (code, message) = (code.to_owned(), "not now".to_owned());
    Cooldown { closed, since: at(0), at: at(5), until: at(70), times: 2, class, code, message }
}

fn place(kind: &str) -> CooldownScope {
    let place = Override { instance_type: kind.into(), subnet: "subnet-a".into() };
    CooldownScope::Place { market: Market::Spot, place, pool: None }
}

fn orphan(number: u32, is_ours: bool, attempts: u32) -> OrphanStatus {
    OrphanStatus {
        machine: machine(number),
        instance: None,
        launch: is_ours.then(|| "small-l1".parse().expect("a launch")),
        since: at(number),
        attempts,
        last_error: (attempts > 0).then(|| ErrorDetail { code: "Denied".into(), ..fault() }),
    }
}

fn off() -> SwitchedOff {
    SwitchedOff { since: at(0), by: "ada".to_owned(), reason: "moving".to_owned(), until: None }
}

/// Each of them, one after the other.
fn everything() -> Vec<(&'static str, Known)> {
    use RerunOutcome::{ByOthers, Cancelled, InTime, Mixed, Off, Superseded, TooOld};
    let again = RerunOutcome::Rerun { attempt: 2, jobs: 1 };
    let others = [
        ("switches", switches()),
        ("GitHub", github()),
        ("registrations that fail", registrations()),
        ("another fleet", foreign()),
        ("the App", app()),
        ("an event that warms a pool", app_without_push()),
        ("jobs of nobody", jobs_of_nobody()),
        ("more of them than are looked at", too_many_jobs()),
        ("an image", image()),
        ("a limit", limit()),
        ("what EC2 refuses", refusals()),
        ("places where Spot was interrupted", reclaimed()),
        ("interrupted jobs", reruns()),
        ("jobs that were re-run", outcomes(&[again.clone(), again.clone(), InTime])),
        ("jobs that were not", outcomes(&[Superseded, Mixed, Cancelled, Off, TooOld])),
        ("some of both", outcomes(&[again, ByOthers { attempt: 3 }])),
        ("a job that ended in time", outcomes(&[InTime])),
        ("orphans", orphans()),
        ("notices that nobody takes", notices()),
        ("prices that AWS refuses", refused_prices()),
        ("images that cannot be built", image_builds()),
    ];
    pools().into_iter().chain(others).collect()
}

fn gpu() -> PoolName {
    "gpu".parse().expect("a name")
}

fn pools() -> Vec<(&'static str, Known)> {
    let of = |pool: PoolStatus| Known { pools: vec![pool], ..Known::default() };
    let noted = |waiting, oldest, kind, message: &str| {
        let mut pool = pool("gpu", 2, waiting, oldest);
        pool.note = Some(Note { kind, severity: Severity::Warning, message: message.to_owned() });
        pool
    };
    let full = |waiting, oldest| {
        noted(waiting, oldest, NoteKind::Maximum, "at its maximum, 2 of 2 machines")
    };
    let mut stuck = full(9, 40);
    let instance = "gpu-1-0".parse().expect("a name");
    let error = Some(ErrorDetail { code: "OperationNotPermitted".into(), ..fault() });
    stuck.refused_ends = Some(RefusedEnds { count: 2, instance, error });
    let mut sick = of(pool("gpu", 1, 0, 0));
    sick.troubles = vec![trouble(TroubleScope::Pool(gpu()))];
    let mut chance = sick.clone();
    chance.troubles[0].failures = 2;
    let mut late = pool("gpu", 1, 0, 0);
    let instance = "gpu-1-0".parse().expect("a name");
    let waiting_for = Some(Waiting::Provider);
    late.late_end = Some(EndingStatus { instance, since: NOW - Seconds(1_860), waiting_for });
    let disabled =
        |waiting| noted(waiting, 40, NoteKind::Disabled, "not enabled: accepts no new jobs");
    let withheld = "GitHub leaves connected runners of acme idle";
    let limit = "the stack is at its maximum (3)";
    vec![
        ("all is well", Known::default()),
        ("a full pool whose jobs wait for a moment", of(full(9, 299))),
        ("a full pool", of(full(9, 300))),
        ("a full pool whose machines EC2 does not end", of(stuck)),
        ("a pool that is not enabled", of(disabled(2))),
        ("a pool that is not enabled, without jobs", of(disabled(0))),
        (
            "a pool that was removed",
            of(noted(1, 40, NoteKind::Removed, "removed 08:00:03; its machines finish their jobs")),
        ),
        ("jobs that GitHub withholds", of(noted(3, 40, NoteKind::Withheld, withheld))),
        ("jobs that the pool no longer serves", of(noted(1, 40, NoteKind::Unserved, "no"))),
        (
            "the stack's limit, which is a finding of its own",
            of(noted(3, 40, NoteKind::Limit, limit)),
        ),
        ("machines that never run a job", sick),
        ("two of them may be chance", chance),
        ("an end that takes long", of(late)),
    ]
}

fn switches() -> Known {
    let pools = [(gpu(), off())].into();
    let switches = ShownSwitches { launches: Some(off()), deletes: None, pools };
    Known { switches: Some(switches), ..Known::default() }
}

fn github() -> Known {
    let entity = |name: &str| name.parse().expect("an entity");
    let scopes = [TroubleScope::Entity(entity("acme")), TroubleScope::Limit(entity("zoo"))];
    Known { troubles: scopes.map(trouble).into(), ..Known::default() }
}

fn foreign() -> Known {
    let taken = |count, at| ForeignRunners {
        pool: gpu(),
        since: self::at(0),
        at,
        count,
        runner: "arc-7xk2p".to_owned(),
    };
    let old = taken(9, NOW - Seconds(900));
    Known { foreign: vec![taken(3, NOW), taken(2, NOW), old], ..Known::default() }
}

fn registrations() -> Known {
    let failing = |entity: &str, last| FailingRegistrations {
        entity: entity.parse().expect("an entity"),
        since: last - Seconds(55),
        last: ErrorDetail {
            at: last,
            operation: "generate-jitconfig".into(),
            code: "503".into(),
            message: "Service Unavailable".into(),
        },
    };
    let (recent, old) = (NOW - Seconds(5), NOW - Seconds(900));
    Known { failing: vec![failing("acme", recent), failing("zoo", old)], ..Known::default() }
}

fn app() -> Known {
    let app = AppStatus {
        lacks: vec!["zoo has not installed it".into(), "it hears of no job".into()],
        checks: vec![AppCheck::InstalledForPool, AppCheck::Event],
        apps: Vec::new(),
        unknown: vec!["GitHub gives no answer".into()],
    };
    Known { app: Some(app), ..Known::default() }
}

/// Jobs start later without it, and nothing fails.
fn app_without_push() -> Known {
    let app = AppStatus {
        lacks: vec!["no push warms gpu".into(), "jobs of gpu are not re-run".into()],
        checks: vec![AppCheck::WarmEvent, AppCheck::Reruns],
        ..AppStatus::default()
    };
    Known { app: Some(app), ..Known::default() }
}

fn jobs_of_nobody() -> Known {
    let jobs = |reasons: &[(&str, usize)]| UnservedJobs {
        count: reasons.iter().map(|(_, count)| count).sum(),
        oldest_seconds: Some(Seconds(7)),
        looked_at: reasons.iter().map(|(_, count)| count).sum(),
        reasons: reasons.iter().map(|(why, count)| ((*why).to_owned(), *count)).collect(),
    };
    let of = |why: &str| format!("no pool serves it: {why}");
    let (a, b, c, d) = (of("a"), of("b"), of("c"), of("d"));
    Known {
        unserved: jobs(&[(&a, 1), (&b, 4), (&c, 2), (&d, 3)]),
        gated: jobs(&[("it waits for an approval at GitHub", 1)]),
        ..Known::default()
    }
}

fn too_many_jobs() -> Known {
    let mut known = jobs_of_nobody();
    (known.unserved.count, known.gated) = (412, UnservedJobs::default());
    known
}

fn image() -> Known {
    let fortnight = NOW + Seconds(14 * 24 * 3600);
    let images = [("gpu", None), ("a", Some(fortnight)), ("b", Some(fortnight + Seconds(301)))];
    let images = images.map(|(pool, until)| {
        let version = "2.334.0".parse().expect("a version");
        ImageAgent { pool: pool.parse().expect("a name"), version, until }
    });
    let agents = AgentsStatus { newest: None, images: images.into() };
    Known { agents, ..Known::default() }
}

fn limit() -> Known {
    let limits = [Some(3), Some(4), None].map(|max| LimitStatus { of: Scope::Stack, max, live: 3 });
    Known { limits: limits.into(), ..Known::default() }
}

fn refusals() -> Known {
    let cooldowns = vec![
        cooldown(CooldownScope::Pool(gpu()), ErrorClass::Configuration, "InvalidAMI"),
        cooldown(place("a"), ErrorClass::Capacity, "NoCapacity"),
        cooldown(place("b"), ErrorClass::Capacity, "NoCapacity"),
        cooldown(place("c"), ErrorClass::Capacity, "Unsupported"),
    ];
    Known { cooldowns, ..Known::default() }
}

fn reclaimed() -> Known {
    let place = |kind: &str, zone: Option<&str>, times| ReclaimedPlace {
        place: Override { instance_type: kind.into(), subnet: "subnet-a".into() },
        zone: zone.map(Into::into),
        at: NOW - Seconds(60),
        until: NOW + Seconds(540),
        times,
    };
    let zone = Some("us-east-1a");
    let reclaimed = [("a", None, 1), ("b", zone, 2), ("c", zone, 3), ("d", zone, 1)];
    let reclaimed = reclaimed.map(|(kind, zone, times)| place(kind, zone, times));
    Known { reclaimed: reclaimed.into(), ..Known::default() }
}

fn reruns() -> Known {
    let run = |run: u64, wait: RerunWait, denied_since: Option<Time>| Rerun {
        schema: 1,
        run,
        repository: "acme/app".into(),
        repository_id: None,
        installation: None,
        pool: gpu(),
        opened_at: NOW - Seconds(600),
        lost: Vec::new(),
        ours: Vec::new(),
        denied_since,
        state: RerunState::Open(RerunWatch { due: NOW, looks: 1, wait, since: NOW }),
    };
    let denied = Some(NOW - Seconds(60));
    let reruns = vec![
        run(1, RerunWait::Run, None),
        run(2, RerunWait::TooOften, None),
        run(3, RerunWait::Run, denied),
        run(4, RerunWait::Machine, denied),
        run(5, RerunWait::NewerRun, None),
    ];
    Known { reruns, ..Known::default() }
}

/// What became of interrupted jobs in the last day.
fn outcomes(outcomes: &[RerunOutcome]) -> Known {
    let open = reruns().reruns.remove(0);
    let closed = outcomes.iter().zip(6..).map(|(outcome, run)| {
        let state = RerunState::Done { at: NOW - Seconds(7_200), outcome: outcome.clone() };
        Rerun { run, state, ..open.clone() }
    });
    Known { reruns: closed.collect(), ..Known::default() }
}

fn orphans() -> Known {
    let orphans = vec![orphan(3, true, 0), orphan(2, true, 4), orphan(7, false, 0)];
    Known { orphans, ..Known::default() }
}

fn notices() -> Known {
    let error = Some("the receiver answers 404".to_owned());
    let notices = Notices { failures: 3, error, ..Notices::default() };
    Known { notices: Some(notices), ..Known::default() }
}

fn refused_prices() -> Known {
    let refused = |code: &str, of: &[&'static str]| RefusedPrices {
        since: at(0),
        code: code.to_owned(),
        of: of.iter().map(|of| (*of).into()).collect(),
    };
    let spot = refused("UnauthorizedOperation", &["m7a.large", "m7i.large", "x9.metal"]);
    let list = refused("AccessDeniedException", &["disks"]);
    let refused_prices = [(PriceSource::Spot, spot), (PriceSource::List, list)].into();
    Known { refused_prices, ..Known::default() }
}

/// Two failures of one family, one of another, and what remains of a third one without an image.
fn image_builds() -> Known {
    let family = |count: u32, why: &str| Family {
        failure: Some(BuildFailure { count, at: NOW - Seconds(600), why: why.to_owned() }),
        ..Family::default()
    };
    let key = |key: &str| key.parse().expect("a family");
    let families = [
        (key("arm64"), family(1, "the builder did not finish in time")),
        (key("x64"), family(2, "its machine failed to boot; last log lines: \"no space left\"")),
    ];
    let images = Images { on: true, families: families.into(), ..Images::default() };
    Known { images: Some(images), ..Known::default() }
}

#[test]
fn each_of_them_is_told() {
    let told: Vec<String> = everything()
        .iter()
        .map(|(name, known)| format!("{name}\n{}", known.told().join("\n")).trim().to_owned())
        .collect();
    assert_eq!(told.join("\n"), TOLD.trim());
}

/// Told again five minutes later, each of them is still the same one, and none is there twice.
#[test]
fn a_key_stays_for_as_long_as_it_lasts() {
    let keys = |known: &Known, now| -> Vec<String> {
        known.findings(now).into_iter().map(|one| one.key).collect()
    };
    for (name, known) in everything().iter().filter(|(name, _)| *name != "GitHub") {
        let now = keys(known, NOW);
        assert_eq!(now, keys(known, NOW + Seconds(300)), "{name}");
        let distinct: BTreeSet<&String> = now.iter().collect();
        assert_eq!(distinct.len(), now.len(), "{name}");
    }
    // A limit of GitHub's ends by itself.
    assert_eq!(keys(&github(), NOW + Seconds(300)), ["entity-refused:acme"]);
}

/// The check of the App and a refused call find the same missing permission.
#[test]
fn a_missing_permission_for_re_runs_is_told_once() {
    let keys = |known: &Known| -> Vec<String> {
        known
            .findings(NOW)
            .into_iter()
            .map(|one| one.key)
            .filter(|key| key != "rerun-waiting")
            .collect()
    };
    let too_often = "rerun-too-often:acme/app/runs/2";
    assert_eq!(keys(&reruns()), [too_often, "rerun-denied:acme"]);
    let mut of_another = reruns();
    of_another.reruns.iter_mut().for_each(|one| one.repository = "ghes:acme/app".into());
    let denied = of_another.findings(NOW).into_iter().find(|one| one.kind() == "rerun-denied");
    let fix = denied.and_then(|one| one.fix);
    assert_eq!(fix.as_deref(), Some("muster github --app ghes, which prints where to accept it"));
    let (lacks, checks) = (vec!["jobs are not re-run".to_owned()], vec![AppCheck::Reruns]);
    let app = Some(AppStatus { lacks, checks, ..AppStatus::default() });
    assert_eq!(keys(&Known { app, ..reruns() }), ["app-reruns", too_often]);
}

/// Without the name, the command would change the main App.
#[test]
fn the_fix_for_another_app_names_it() {
    let checks = vec![AppCheck::Deliveries, AppCheck::KeyOwner, AppCheck::Event];
    let fixes = |app: AppName| -> Vec<String> {
        let lacks = vec!["it is broken".to_owned(); checks.len()];
        let (apps, checks) = (vec![app; lacks.len()], checks.clone());
        let app = Some(AppStatus { lacks, checks, apps, ..AppStatus::default() });
        let found = Known { app, ..Known::default() }.findings(NOW);
        found.into_iter().filter_map(|one| one.fix).collect()
    };
    let main = [
        "muster github hook set",
        "muster github connect, or muster github create",
        "muster github",
    ];
    assert_eq!(fixes(AppName::MAIN), main);
    let two = main.map(|fix| fix.replace("muster github", "muster github --app two"));
    assert_eq!(fixes("two".parse().expect("a name")), two);
}

#[test]
fn of_too_many_the_worst_are_told() {
    let all = [app(), jobs_of_nobody()].iter().flat_map(|known| known.findings(NOW)).collect();
    let told: Vec<String> = at_most(3, all).into_iter().map(|one| one.key).collect();
    assert_eq!(told, ["app-installed-for-pool", "app-event", "app-unknown", "more"]);
}

const TOLD: &str = "
all is well
a full pool whose jobs wait for a moment
a full pool
warning pool-maximum:gpu: 9 jobs wait in pool gpu (longest wait 5 min): at its maximum, 2 of 2 machines. → wait, or raise the pool's limits.max: muster pools edit
a full pool whose machines EC2 does not end
warning pool-maximum:gpu: 9 jobs wait in pool gpu (longest wait 40 s): at its maximum, 2 of 2 machines. → muster explain gpu-1-0
a pool that is not enabled
warning pool-disabled:gpu: 2 jobs wait in pool gpu (longest wait 40 s): not enabled: accepts no new jobs. → set enabled: true: muster pools edit
a pool that is not enabled, without jobs
a pool that was removed
warning pool-removed:gpu: 1 job waits in pool gpu (longest wait 40 s): removed 08:00:03; its machines finish their jobs. → add the pool again, or cancel the jobs: muster pools edit
jobs that GitHub withholds
warning pool-withheld:gpu: 3 jobs wait in pool gpu (longest wait 40 s): GitHub leaves connected runners of acme idle. → check the runner group's access, and max-parallel of the workflow
jobs that the pool no longer serves
warning pool-unserved:gpu: 1 job waits in pool gpu (longest wait 40 s): no. → muster jobs --pool gpu
the stack's limit, which is a finding of its own
machines that never run a job
error pool-failing:gpu: The last 4 machines of pool gpu, launched since 08:00:00, ran no job (the last at 08:00:00: 403: no); Muster launches one machine at a time until one runs a job: the next at 08:01:10, or now with `muster resume gpu`. → muster alarms pool-in-trouble
two of them may be chance
an end that takes long
warning pool-late-end:gpu: gpu-1-0 has been ending for 31 min and waits for EC2, which refuses or fails. → muster explain gpu-1-0
switches
warning launches-paused: Launches were paused by ada at 08:00:00: moving. → muster resume launches
warning pool-paused:gpu: Launches of pool gpu were paused by ada at 08:00:00: moving. → muster resume gpu
GitHub
error entity-refused:acme: GitHub has refused to register runners for acme since 08:00:00 (403: no); Muster launches one machine at a time until one registers: the next at 08:01:10, or now with `muster resume launches`. → muster alarms entity-unhealthy
warning github-limit:zoo: GitHub's rate limit for zoo lasts until 08:01:10. → nothing to do: launches continue after that
registrations that fail
error registrations-fail:acme: No runner can be registered for acme since 07:59:10: GitHub answers 503 to the registration: Service Unavailable (last at 08:00:05); machines retry, and jobs wait for them. → muster logs runner-api
another fleet
warning pool-foreign-runners:gpu: Another fleet takes jobs of pool gpu: at least 3 since 08:00:00 ran on runners that are not this stack's, the last on arc-7xk2p, while machines launched for them wait. → remove those runners, or give the pool a label that they do not have: muster pools edit
the App
error app-installed-for-pool: Zoo has not installed it. → muster github
error app-event: It hears of no job. → muster github
warning app-unknown: GitHub gives no answer. → muster github
an event that warms a pool
warning app-warm-event: No push warms gpu. → muster github
warning app-reruns: Jobs of gpu are not re-run. → muster github
jobs of nobody
warning unserved: No pool serves 10 jobs (longest wait 7 s): b (4 jobs); d (3 jobs); c (2 jobs). → muster jobs lists them: change the job's labels or the pool's settings
note awaiting-approval: 1 job waits for an approval at GitHub (longest wait 7 s). → approve the run on its page at GitHub; muster jobs lists the jobs
more of them than are looked at
warning unserved: No pool serves 412 jobs (longest wait 7 s): of the first 10, b (4 jobs); d (3 jobs); c (2 jobs). → muster jobs lists them: change the job's labels or the pool's settings
an image
warning pool-agent:gpu: The image of pool gpu has agent 2.334.0, which GitHub no longer accepts: each machine downloads the newest first, so jobs start later. → build an image with the newest agent and set it in the pool: muster pools edit
warning pool-agent:a: The image of pool a has agent 2.334.0, which GitHub stops accepting within 14 d; the newest is available. → build an image with the newest agent and set it in the pool: muster pools edit
a limit
warning limit-reached:stack: The stack is at its limit, 3 of 3 machines. → wait, or raise it: the pool file's limits, or MaxMachines of the stack
what EC2 refuses
error ec2-refuses-pool:gpu: EC2 refuses launches in pool gpu: InvalidAMI: not now; 2 times, next try 08:01:10. → muster alarms pool-refused
warning ec2-places:NoCapacity: No spot capacity for a in subnet-a, b in subnet-a: NoCapacity: not now; next try 08:01:10. → wait, or give the pool more types or subnets: muster pools edit
warning ec2-places:Unsupported: No spot capacity for c in subnet-a: Unsupported: not now; 2 times, next try 08:01:10. → wait, or give the pool more types or subnets: muster pools edit
places where Spot was interrupted
note spot-avoided: Launches avoid Spot machines of type a in subnet-a until 08:09:10 (interrupted once), b in us-east-1a until 08:09:10 (interrupted twice), c in us-east-1a until 08:09:10 (interrupted 3 times) and 1 more. → no action needed: launches use the pool's other types and subnets, if it has any
interrupted jobs
warning rerun-too-often:acme/app/runs/2: EC2 interrupted jobs of acme/app/runs/2 three times; Muster does not re-run them again. → re-run them on the run's page at GitHub, or set market: on-demand in pool gpu
warning rerun-denied:acme: GitHub does not allow Muster to re-run interrupted jobs of acme (2 workflow runs): the App needs the permission actions: write. → muster github, which prints where to accept it
note rerun-waiting: Interrupted jobs of 2 workflow runs wait to be re-run; muster explain prints for what. → no action needed: Muster re-runs the jobs when it can
jobs that were re-run
note rerun-outcomes: In the last day, Muster re-ran interrupted jobs of 2 workflow runs. → for details: muster explain with the job's URL
jobs that were not
note rerun-outcomes: In the last day, Muster left interrupted jobs of 5 workflow runs as they were (acme/app/runs/6: a newer run replaced this run; acme/app/runs/7: other jobs of the run failed by themselves, and GitHub cannot re-run only the interrupted ones; acme/app/runs/8: the run was cancelled; and 2 more). → for details: muster explain with the job's URL
some of both
note rerun-outcomes: In the last day, Muster re-ran interrupted jobs of 1 workflow run and left interrupted jobs of 1 workflow run as they were (acme/app/runs/7: attempt 3 was started by others). → for details: muster explain with the job's URL
a job that ended in time
orphans
error orphans: 2 machines are running but belong to no instance (the first since 08:00:02); 4 attempts to terminate i-00000000000000002: TerminateInstances: Denied: some. → muster alarms orphans
warning strays: Machine i-00000000000000007 has this stack's tag, but Muster did not launch it and will not terminate it. → remove the tag muster:stack, or terminate: aws ec2 terminate-instances --instance-ids i-00000000000000007
notices that nobody takes
warning notices: Notifications are not delivered, 3 attempts: the receiver answers 404. → muster notices set, with an address that works
prices that AWS refuses
warning prices-refused:spot: AWS refuses the Spot prices of m7a.large and 2 more since 08:00:00 (UnauthorizedOperation): costs and the alarm spend use the last known prices, or none. → allow ec2:DescribeSpotPriceHistory for the reaper's role; the template does, so look for a policy of the organization that denies it
warning prices-refused:list: AWS refuses the list prices of disks since 08:00:00 (AccessDeniedException): costs and the alarm spend use the last known prices, or none. → allow pricing:GetProducts for the reaper's role; the template does, so look for a policy of the organization that denies it
images that cannot be built
warning image-builds:x64: 2 builds of an image for x64 failed in a row, the last one at 07:50:10: its machine failed to boot; last log lines: \"no space left\"; machines boot the launch template's image. → muster image history; once the cause is fixed: muster image build
";
