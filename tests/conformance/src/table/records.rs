//! Records by their key.

use super::*;
use crate::records::rerun;
use muster_control::ports::{Instances, Jobs, Launches, Operations};
use muster_domain::ids::{AppName, Entity};
use muster_domain::launch::record::trouble::{Trouble, TroubleScope};
use muster_domain::rerun::{RerunOutcome, RerunState, RerunWait, RerunWatch};

pub(super) async fn what_is_not_there_reads_as_none<W: TableWorld>(world: &W) {
    let table = world.table();
    assert_eq!(table.instance(&planned(1, None).name).await, Ok(None));
    assert_eq!(table.instances(&[planned(1, None).name]).await, Ok(vec![]));
    assert_eq!(table.instances(&[]).await, Ok(vec![]));
    assert_eq!(table.job(key(1)).await, Ok(None));
    assert_eq!(table.jobs(&[key(1)]).await, Ok(vec![]));
    assert_eq!(table.owner_of(&machine(1)).await, Ok(None));
    assert_eq!(table.launch(&launch(1).id).await, Ok(None));
    assert_eq!(table.capacity(&pool()).await, Ok(None));
    assert_eq!(table.cooldowns().await, Ok(None));
    assert_eq!(table.launch_conditions(&pool()).await, Ok(LaunchConditions::default()));
    assert_eq!(table.orphan(&machine(1)).await, Ok(None));
    assert_eq!(table.cursor("reconciled").await, Ok(None));
    assert_eq!(table.pool_set().await, Ok(None));
    assert_eq!(table.pool_versions(&[1, 2]).await, Ok(vec![]));
    assert_eq!(table.pool_versions(&[]).await, Ok(vec![]));
}

pub(super) async fn what_is_not_there_is_in_no_listing<W: TableWorld>(world: &W) {
    let table = world.table();
    assert_eq!(due(world, at(9999), 10).await, (vec![], 1));
    assert_eq!(live_of(world, &pool()).await, (vec![], 1));
    assert_eq!(table.free_instances(&pool()).await, Ok(vec![]));
    assert_eq!(table.slots_to_retry(&pool()).await, Ok(vec![]));
    assert_eq!(table.ending_instances(&pool(), 10).await, Ok(vec![]));
    assert_eq!(table.demand(&pool(), 10).await, Ok(vec![]));
    assert_eq!(table.waiting_jobs(&pool(), 10).await, Ok(vec![]));
    assert_eq!(table.open_launches(&pool()).await, Ok(vec![]));
    assert_eq!(table.orphans().await, Ok(vec![]));
    assert_eq!(table.audit("nobody", 10).await, Ok(vec![]));
}

pub(super) async fn an_instance_reads_as_it_was_written<W: TableWorld>(world: &W) {
    let mut instance = running(1, Some(key(1)));
    // A nonce may be any number, also one that no signed integer and no float can hold.
    instance.set_wake(Some(u64::MAX - 1));
    put(world, &[&instance]).await;
    assert_eq!(world.table().instance(&instance.name).await, Ok(Some(made(instance))));
}

pub(super) async fn a_job_reads_as_it_was_written<W: TableWorld>(world: &W) {
    let mut job = fold(Some(queued(1)), event(1, JobStatus::InProgress), at(70));
    job.passed_over = Some(PassedOver { times: 2, at: at(60) });
    commit(world, &[new(&job)]).await;
    assert_eq!(world.table().job(key(1)).await, Ok(Some(made(job))));
}

pub(super) async fn a_launch_reads_as_it_was_written<W: TableWorld>(world: &W) {
    commit(world, &[new(&launch(1))]).await;
    assert_eq!(world.table().launch(&launch(1).id).await, Ok(Some(made(launch(1)))));
}

pub(super) async fn a_counter_reads_as_it_was_written<W: TableWorld>(world: &W) {
    let counter = capacity(3, Some("me")).woken("you", at(1), &Timings::default());
    commit(world, &[new(&counter)]).await;
    assert_eq!(world.table().capacity(&pool()).await, Ok(Some(made(counter))));
}

pub(super) async fn an_orphan_reads_as_it_was_written<W: TableWorld>(world: &W) {
    commit(world, &[new(&orphan(1))]).await;
    assert_eq!(world.table().orphan(&machine(1)).await, Ok(Some(made(orphan(1)))));
    assert_eq!(world.table().orphans().await, Ok(vec![made(orphan(1))]));
}

pub(super) async fn a_run_to_repeat_is_listed_while_it_is_open_and_then_by_its_end<
    W: TableWorld,
>(
    world: &W,
) {
    let (wait, table) = (RerunWait::Run, world.table());
    let open = |run, second| {
        let watch = RerunWatch { due: at(second), looks: 1, wait, since: at(1) };
        rerun(run, RerunState::Open(watch))
    };
    let closed = |run, second| {
        let outcome = RerunOutcome::Rerun { attempt: 2, jobs: 1 };
        rerun(run, RerunState::Done { at: at(second), outcome })
    };
    commit(world, &[new(&open(1, 90)), new(&open(2, 80)), new(&open(3, 70))]).await;
    commit(world, &[new(&closed(4, 60)), new(&closed(5, 61)), new(&closed(6, 59))]).await;
    assert_eq!(table.rerun(open(2, 80).key()).await, Ok(Some(made(open(2, 80)))));
    assert_eq!(table.open_reruns(2).await, Ok(vec![made(open(3, 70)), made(open(2, 80))]));
    let since = table.closed_reruns(at(60), 10).await;
    assert_eq!(since, Ok(vec![made(closed(5, 61)), made(closed(4, 60))]));
    assert_eq!(table.closed_reruns(at(0), 1).await, Ok(vec![made(closed(5, 61))]));
    commit(world, &[over(0, &closed(3, 62))]).await;
    assert_eq!(table.open_reruns(1).await, Ok(vec![made(open(2, 80))]));
    let last = table.closed_reruns(at(62), 10).await.expect("read");
    assert_eq!(last.into_iter().map(|one| one.run).collect::<Vec<_>>(), [3]);
}

pub(super) async fn many_instances_are_read_without_the_missing_ones<W: TableWorld>(world: &W) {
    put(world, &[&planned(1, None), &planned(3, None)]).await;
    let asked: Vec<_> = (1..=4).map(|n| planned(n, None).name).collect();
    let mut found = world.table().instances(&asked).await.expect("read");
    found.sort_by_key(|instance| instance.created_at);
    assert_eq!(found, [made(planned(1, None)), made(planned(3, None))]);
}

pub(super) async fn an_instance_asked_for_twice_is_read_once<W: TableWorld>(world: &W) {
    put(world, &[&planned(1, None)]).await;
    let name = planned(1, None).name;
    let found = world.table().instances(&[name.clone(), name]).await.expect("read");
    assert_eq!(found, [made(planned(1, None))]);
}

pub(super) async fn many_jobs_are_read_in_one_call_each_once<W: TableWorld>(world: &W) {
    for from in [1, 101] {
        let jobs: Vec<Write> = (from..from + 75).map(|n| new(&queued(n))).collect();
        commit(world, &jobs).await;
    }
    let keys: Vec<JobKey> = (1..=180).chain(1..=10).map(key).collect();
    let mut found = numbers(&world.table().jobs(&keys).await.expect("read"));
    found.sort_unstable();
    assert_eq!(found, (1..=75).chain(101..=175).collect::<Vec<u64>>());
}

/// One of each kind.
fn refused() -> Cooldowns {
    let place = Override { instance_type: "m7i.large".into(), subnet: "subnet-a".into() };
    let all = [
        CooldownScope::Calls,
        CooldownScope::Quota { market: Market::Spot, bucket: Bucket::Standard },
        CooldownScope::Quota { market: Market::OnDemand, bucket: Bucket::Pool(pool()) },
        CooldownScope::Pool(pool()),
        CooldownScope::Place { market: Market::OnDemand, place: place.clone(), pool: None },
        CooldownScope::Place { market: Market::OnDemand, place, pool: Some(pool()) },
        CooldownScope::Unknown { market: Market::Spot, pool: pool() },
    ];
    let cooldown = |closed| Cooldown {
        closed,
        since: at(1),
        at: at(2),
        until: at(3),
        times: 4,
        class: ErrorClass::Capacity,
        code: "InsufficientInstanceCapacity".into(),
        message: "none left".into(),
    };
    let apart = [["subnet-a".into(), "subnet-b".into()].into()].into();
    let acme: Entity = "acme/web".parse().expect("an entity");
    let scopes = [
        TroubleScope::Pool(pool()),
        TroubleScope::Entity(acme.clone()),
        TroubleScope::PoolOfEntity(pool(), acme.clone()),
        TroubleScope::Limit(acme),
    ];
    let trouble = |scope| Trouble {
        scope,
        generation: 7,
        by_machine: true,
        since: at(1),
        at: at(2),
        failures: 3,
        probes: 1,
        certain: false,
        probed_at: Some(at(2)),
        until: at(9),
        fixed_at: None,
        last: Some("default-l-1".parse().expect("a name")),
        reason: "the machine did not start a runner".into(),
    };
    let (list, troubles) = (all.map(cooldown).to_vec().into(), scopes.map(trouble).to_vec().into());
    Cooldowns { list, apart, troubles, ..Cooldowns::default() }
}

pub(super) async fn what_ec2_refused_reads_as_it_was_written<W: TableWorld>(world: &W) {
    commit(world, &[new(&refused())]).await;
    assert_eq!(world.table().cooldowns().await, Ok(Some(made(refused()))));
}

pub(super) async fn what_ec2_refused_is_replaced_by_version<W: TableWorld>(world: &W) {
    commit(world, &[new(&refused())]).await;
    conflicts(world, &[new(&refused())]).await;
    commit(world, &[over(0, &Cooldowns::default())]).await;
    conflicts(world, &[over(0, &refused())]).await;
    let left = Ok(Some(stored(1, Cooldowns::default())));
    assert_eq!(world.table().cooldowns().await, left);
}

pub(super) async fn how_a_pool_stands_is_read_in_one_call<W: TableWorld>(world: &W) {
    let table = world.table();
    let own = capacity(2, Some("a")).configured("lt-1:3:0".into(), at(5));
    commit(world, &[new(&own)]).await;
    let alone =
        LaunchConditions { capacity: Some(made(own.clone())), ..LaunchConditions::default() };
    assert_eq!(table.launch_conditions(&pool()).await, Ok(alone));
    let off = SwitchedOff {
        since: at(1),
        by: "ada".into(),
        reason: "moving".into(),
        until: Some(at(90)),
    };
    let switches = Switches::default().with(&Switch::Launches, Some(off));
    let counted = Write::CountUp { scope: Scope::Stack, count: 3, max: 3 };
    commit(world, &[new(&switches), new(&refused()), new(&images()), counted]).await;
    let all = LaunchConditions {
        capacity: Some(made(own)),
        switches: Some(made(switches.clone())),
        cooldowns: Some(made(refused())),
        images: Some(made(images())),
        counted: 3,
    };
    assert_eq!(table.launch_conditions(&pool()).await, Ok(all));
    // What is the stack's is read with any pool.
    let other = LaunchConditions {
        capacity: None,
        switches: Some(made(switches)),
        cooldowns: Some(made(refused())),
        images: Some(made(images())),
        counted: 3,
    };
    assert_eq!(table.launch_conditions(&other_pool()).await, Ok(other));
}

/// A record of images with a family at every step.
fn images() -> Images {
    let image: ImageId = "ami-0a1b2c3d4e5f60718".parse().expect("an image");
    let baked = Baked::new(
        at(3),
        "2.336.0".parse().ok(),
        BootMethod::CloudInit,
        Some("no networkd"),
        3_000_000_000,
    );
    let build = |step: BuildStep| Build {
        pool: pool(),
        builder: planned(1, None).name,
        launch: "default-00000001-0".parse().expect("a launch"),
        since: at(1),
        reason: BuildReason::Ordered,
        by: Some("ada".into()),
        scripts: "1-0a0b0c0d".into(),
        step,
    };
    let creating =
        BuildStep::Creating { since: at(4), baked: baked.clone(), image: Some(image.clone()) };
    let made = build(BuildStep::Preparing).built(image.clone(), &baked, 40);
    let trying = BuildStep::Trying {
        since: at(5),
        image: Box::new(made.clone()),
        trial: Some(planned(2, None).name),
        lost: 1,
    };
    let mut images = Images { on: true, ..Images::default() };
    for (key, step) in
        [("x64", BuildStep::Preparing), ("arm64", creating), ("x64-0a1b2c3d", trying)]
    {
        let key = key.parse().expect("a family");
        let family = images.family_mut(&key);
        family.build = Some(build(step));
        family.previous = Some(BuiltImage { trust: Trust::Proven, ..made.clone() });
        family.current = Some(BuiltImage {
            trust: Trust::Probation(vec![planned(3, None).name]),
            ..made.clone()
        });
        family.not_before = Some(at(9));
        family.losses = 2;
        family.blocked = Some("the pool is full".into());
        family.unit_fails = Some("1-0a0b0c0d".into());
    }
    images.disuse(Some(image), at(8));
    images
}

fn inquiries() -> Inquiries {
    let mut all = Inquiries::default();
    let named = |name: &str| name.parse().expect("a repository");
    all.tell(&named("acme/web"), Some(InstallationId(7)), at(5));
    all.tell(&named("acme/api"), None, at(6));
    all.answered(&named("acme/web"), at(5), at(7));
    let installation = InstallationId(7);
    let next = ListPosition { installation, page: 2 };
    let listed = vec![named("acme/web"), named("acme/api")];
    all.turn.listed(listed, Some(installation), Some(next), &[AppName::MAIN], at(8));
    all
}

pub(super) async fn how_far_deliveries_were_read_is_replaced_by_version<W: TableWorld>(world: &W) {
    assert_eq!(world.table().redeliveries(AppName::MAIN).await, Ok(None));
    let mut known = Redeliveries::new(AppName::MAIN, at(5));
    commit(world, &[new(&known)]).await;
    conflicts(world, &[new(&known)]).await;
    let failed = |id, second| Delivery {
        id,
        guid: format!("guid-{id}"),
        at: at(second),
        is_settled: false,
        is_again: true,
        is_queued: true,
    };
    // GitHub's numbers are long.
    let deliveries = vec![failed(9_007_199_254_740_995, 4), failed(8, 3)];
    let (newest, oldest) = (Some(at(4)), Some(at(3)));
    let page = DeliveryPage { deliveries, newest, oldest, next: Some("v1_8".to_owned()) };
    known.begin(&page, at(6));
    let chosen = known.choose(&page);
    known.done(chosen[0]);
    known.failed(chosen[1]);
    known.claim(at(6));
    commit(world, &[over(0, &known)]).await;
    conflicts(world, &[over(0, &Redeliveries::new(AppName::MAIN, at(7)))]).await;
    assert_eq!(world.table().redeliveries(AppName::MAIN).await, Ok(Some(stored(1, known))));
}

pub(super) async fn who_is_to_be_asked_about_is_replaced_by_version<W: TableWorld>(world: &W) {
    assert_eq!(world.table().inquiries().await, Ok(None));
    commit(world, &[new(&inquiries())]).await;
    assert_eq!(world.table().inquiries().await, Ok(Some(made(inquiries()))));
    conflicts(world, &[new(&inquiries())]).await;
    commit(world, &[over(0, &Inquiries::default())]).await;
    conflicts(world, &[over(0, &inquiries())]).await;
    let left = Ok(Some(stored(1, Inquiries::default())));
    assert_eq!(world.table().inquiries().await, left);
}
