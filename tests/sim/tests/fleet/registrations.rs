//! Every way in which GitHub does not grant a registration: what is recorded, what the machine is
//! told, and what operators see.

use muster_conformance::records;
use muster_control::admin::known_findings;
use muster_control::context::Context;
use muster_control::ports::{JitError, Launches as _};
use muster_control::runner_api::{Hindrance, RunnerApi, RunnerApiError};
use muster_domain::app::{NO_KEY, NOT_INSTALLED};
use muster_domain::instance::{Ages, Instance};
use muster_domain::launch::record::Cooldowns;
use muster_domain::provider::{ErrorDetail, ProviderError};
use muster_domain::stored::Stored;
use muster_domain::time::{Seconds, Time};
use muster_sim::schedule;

use crate::bench::Bench;
use crate::writers::{bind_all, launched};

/// Who fails, how, what the machine is told, and the key under which `status` lists it after 70 s.
type Row = (&'static str, fn(Time) -> JitError, Hindrance, &'static str);

fn fault(operation: &str, code: &str, at: Time) -> ErrorDetail {
    let (operation, code) = (operation.to_owned(), code.to_owned());
    ErrorDetail { at, operation, code, message: "simulated".to_owned() }
}

fn unavailable(operation: &str, code: &str, at: Time) -> JitError {
    JitError::ProviderError(ProviderError::Unavailable(fault(operation, code, at)))
}

fn unauthorized(operation: &str, code: &str, at: Time) -> JitError {
    JitError::ProviderError(ProviderError::Unauthorized(fault(operation, code, at)))
}

const JIT: &str = "generate-jitconfig";
const TOKEN: &str = "create-installation-token";
const FAILING: &str = "registrations-fail:acme";

const ROWS: &[Row] = &[
    ("500", |at| unavailable(JIT, "500", at), Hindrance::Unavailable, FAILING),
    ("503", |at| unavailable(JIT, "503", at), Hindrance::Unavailable, FAILING),
    ("token 503", |at| unavailable(TOKEN, "503", at), Hindrance::Unavailable, FAILING),
    ("time-out", |at| unavailable(JIT, "timeout", at), Hindrance::Unavailable, FAILING),
    ("refused", |at| unavailable(JIT, "refused", at), Hindrance::Unavailable, FAILING),
    ("no answer", |at| unavailable(JIT, "no-answer", at), Hindrance::Unavailable, FAILING),
    ("unreadable", |at| unavailable(JIT, "unreadable", at), Hindrance::Unavailable, FAILING),
    ("secret", |at| unavailable("read-app-key", NO_KEY, at), Hindrance::Unavailable, FAILING),
    ("409", |_| JitError::NameTaken, Hindrance::NameTaken, FAILING),
    ("401", |at| unauthorized(TOKEN, "401", at), Hindrance::Refused, "entity-refused:acme"),
    ("403", |at| unauthorized(JIT, "403", at), Hindrance::Refused, "entity-refused:acme"),
    (
        "not installed",
        |at| unauthorized("get-installation", NOT_INSTALLED, at),
        Hindrance::Refused,
        "entity-refused:acme",
    ),
    (
        "404",
        |at| JitError::Refused(fault(JIT, "404", at)),
        Hindrance::Refused,
        "entity-refused:acme:default",
    ),
    (
        "422",
        |at| JitError::Refused(fault(JIT, "422", at)),
        Hindrance::Refused,
        "entity-refused:acme:default",
    ),
    (
        "rate limit",
        |at| JitError::ProviderError(ProviderError::RateLimited(at + Seconds(600))),
        Hindrance::RateLimit,
        "github-limit:acme",
    ),
];

/// Asks for a registration.
fn ask(bench: &Bench, now: Time) -> Result<(), RunnerApiError> {
    let door = &bench.door;
    let context = Context::new(door, door, &(), door, &door.sim.settings);
    let owner = records::planned(1, None).name.into();
    let pass = RunnerApi { context, owner, role: None };
    bench.drive(pass.configure(None, Ages::default(), now)).map(drop)
}

fn row(bench: &Bench) -> Instance {
    let name = records::planned(1, None).name;
    bench.change(|world| Stored::clone(&world.tables.instances[&name])).into_record()
}

#[test]
fn every_failed_registration_is_recorded_and_reported_within_two_minutes() {
    for (name, error, hindrance, key) in ROWS {
        let (bench, _) = launched();
        bind_all(&bench);
        let first = bench.door.now();
        // A refusal is believed the third time: the machine ends then.
        for second in [0, 15, 35, 70] {
            let now = first + Seconds(second);
            bench.change(|world| world.github.script.registration = Some(error(now)));
            match ask(&bench, now) {
                Err(RunnerApiError::Later { hindrance: told, why, .. }) => {
                    assert_eq!(told, *hindrance, "{name}");
                    assert!(why.contains("GitHub") || why == "simulated", "{name}: {why}");
                }
                Err(RunnerApiError::Refused(_)) if second >= 35 && key.ends_with("default") => {}
                other => panic!("{name} at {second} s: {other:?}"),
            }
        }
        let failed = row(&bench).unregistered.expect("recorded");
        let tries = if key.ends_with("default") { 3 } else { 4 };
        assert_eq!((failed.since, failed.tries), (first, tries), "{name}");
        let door = &bench.door;
        let context = Context::new(door, door, door, door, &door.sim.settings);
        let findings = bench.drive(known_findings(context, first + Seconds(71))).expect("read");
        let keys: Vec<&str> = findings.iter().map(|one| &*one.key).collect();
        assert_eq!(keys, [*key], "{name}");
    }
}

/// A success costs no call more than before, and ends what was recorded.
#[test]
fn a_success_ends_what_was_recorded() {
    let (bench, _) = launched();
    bind_all(&bench);
    let first = bench.door.now();
    bench.change(|world| {
        world.github.script.registration = Some(unavailable(JIT, "503", first));
    });
    assert!(ask(&bench, first).is_err());
    bench.change(|world| world.github.script.registration = None);
    assert_eq!(ask(&bench, first + Seconds(20)), Ok(()));
    assert_eq!(row(&bench).unregistered, None);
    let known = bench.drive(bench.door.cooldowns()).expect("read").map(Stored::into_record);
    assert_eq!(known, Some(Cooldowns::default()));
}

/// A group of its own that GitHub forbids is the pool's; in the default group it is the entity's.
#[test]
fn a_forbidden_group_is_the_pools() {
    for (group, key) in [(1, "entity-refused:acme"), (7, "entity-refused:acme:default")] {
        let own = schedule::pool(records::POOL, &["linux"], 9, "spot", None);
        let pool = muster_domain::pool::Pool { runner_group_id: group, ..own };
        let bench = crate::writers::launched_in(pool).0;
        bind_all(&bench);
        let first = bench.door.now();
        for second in [0, 15, 35] {
            let now = first + Seconds(second);
            let error = unauthorized(JIT, "403", now);
            bench.change(|world| world.github.script.registration = Some(error));
            assert!(ask(&bench, now).is_err());
        }
        let door = &bench.door;
        let context = Context::new(door, door, door, door, &door.sim.settings);
        let findings = bench.drive(known_findings(context, first + Seconds(36))).expect("read");
        let keys: Vec<&str> = findings.iter().map(|one| &*one.key).collect();
        assert_eq!(keys, [key], "group {group}");
    }
}
