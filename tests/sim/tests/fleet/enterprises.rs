//! Runners that are registered at an enterprise. The jobs are its organizations', whose
//! installations are others.

use muster_domain::stored::Change;
use muster_domain::time::Time;

use crate::bench::{AGE_MILLIS, Bench, waiting};

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
    row.installation = None;
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
