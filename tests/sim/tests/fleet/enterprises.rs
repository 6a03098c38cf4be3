//! Runners that are registered at an enterprise. The jobs are its organizations', whose
//! installations are others.

use muster_control::context::Context;
use muster_control::runner_api::RunnerApi;
use muster_domain::instance::Ages;
use muster_domain::message::WakePool;
use muster_domain::stored::Change;
use muster_domain::time::Time;

use crate::bench::{AGE_MILLIS, Bench, look_and_pass, waiting};

/// The enterprise's installation need not see a repository.
#[test]
fn a_claimed_job_is_asked_for_as_its_organization() {
    let bench = Bench::new().belonging_to("enterprises/big").compared();
    // Whoever asks as the enterprise is refused, since it covers this owner as well.
    bench.change(|world| world.github.script.refuses.insert("other".to_owned()));
    let now = bench.door.now();
    let then = Time::from_millis(now.as_millis() - AGE_MILLIS);
    let mut row = bench.idle(1).remove(0);
    let mut job = waiting(1, then);
    row.entity = "enterprises/big".parse().expect("an entity");
    row.installation = bench.change(|world| Some(world.github.installation_of("big")));
    row.set_claim(job.key(), then);
    row.set_due(then);
    job.claim = Some(row.name.clone());
    bench.put(&[Change::create(job.clone()).into()]);
    bench.store(std::slice::from_ref(&row));
    bench.tick();
    bench.change(|world| {
        let row = &world.tables.instances[&row.name];
        assert_eq!(row.claim(), None, "GitHub shows no such job: it may go on waiting");
        assert!(row.passed_over);
        let known = world.tables.cooldowns.as_ref().expect("a refusal");
        assert!(known.has_entity(&row.entity), "the runner was asked for as the enterprise");
    });
}

/// As the enterprise, GitHub would show neither the job nor its run: the job would be taken for gone.
#[test]
fn a_silent_job_is_asked_for_as_its_organization() {
    let bench = Bench::new().belonging_to("enterprises/big").compared();
    bench.change(|world| world.github.script.refuses.insert("other".to_owned()));
    let mut job = waiting(1, Time::from_millis(bench.door.now().as_millis() - 2 * AGE_MILLIS));
    job.seen_at = job.last_event.queued_at.expect("queued");
    bench.put(&[Change::create(job.clone()).into()]);
    bench.tick();
    bench.change(|world| {
        assert!(world.tables.jobs[&job.key()].doubt.is_some(), "GitHub shows no such job");
        assert!(world.tables.cooldowns.as_ref().is_none_or(|known| known.troubles.is_empty()));
    });
}

/// The installation of the job that a machine is launched for cannot register it.
#[test]
fn a_machine_is_registered_as_the_enterprise() {
    let bench = Bench::new().belonging_to("enterprises/big");
    bench.put(&[Change::create(waiting(1, bench.door.now())).into()]);
    let (door, settings) = (&bench.door, &bench.door.sim.settings);
    let wake = WakePool::whole("small".parse().expect("a pool"));
    let pass = bench.launch_pass(settings);
    bench.drive(look_and_pass(&pass, &wake, 1, door.now())).expect("launched");
    let rows = bench.change(|world| world.tables.instances.clone());
    let owner = rows.into_keys().next().expect("a machine").into();
    let context = Context::new(door, door, &(), door, settings);
    let pass = RunnerApi { context, owner, role: None };
    let answer = bench.drive(pass.configure(None, Ages::default(), door.now()));
    assert_eq!(answer.err(), None);
    assert_eq!(bench.change(|world| world.violation.take()), None);
}
