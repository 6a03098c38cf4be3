//! The App at GitHub: the admin function's own findings.

use muster_control::admin::answers::AppStatus;

use super::{Facts, Finding, Group, Wrong, address, found, told, unasked};
use muster_control::admin::wants::trouble;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(running) = &facts.running else { return Vec::new() };
    let mut all = match running.said() {
        Ok(status) => status.app.as_ref().map(app).unwrap_or_default(),
        Err(unknown) => vec![unasked(Group::Github, APP, &unknown)],
    };
    if let Ok(status) = &running.status {
        let troubles = status.entities.iter().flat_map(|entity| &entity.troubles);
        let lasts = troubles.filter(|one| one.until > facts.now || one.is_refusal_of_github());
        let wrongs = lasts.map(|one| {
            let said = told(&trouble(one, facts.now));
            if one.is_refusal_of_github() {
                Wrong::error(said)
                    .remedy("muster alarms entity-unhealthy says what GitHub's answers mean")
            } else {
                Wrong::warn(said)
            }
        });
        let wants = status.overview.wants.iter();
        let failing = wants.filter(|want| want.key.starts_with("registrations:"));
        let wrongs = wrongs.chain(failing.map(Wrong::from)).collect();
        all.extend(found(Group::Github, "registration", wrongs));
    }
    all
}

/// The sum, where no mistake is known by a name of its own.
const APP: &str = "app";

/// Each of its sentences has its remedy, and each mistake is a check of its own.
fn app(app: &AppStatus) -> Vec<Finding> {
    let with_address = |wrong: Wrong| match address(&wrong.sentence).map(str::to_owned) {
        Some(url) => wrong.at(url),
        None => wrong,
    };
    // An older release does not name them.
    let names = app.checks.iter().map(|check| check.as_str()).chain(std::iter::repeat(APP));
    let lacks = app.lacks.iter().zip(names);
    let mut all: Vec<Finding> = lacks
        .flat_map(|(lack, name)| {
            found(Group::Github, name, vec![with_address(Wrong::error(told(lack)))])
        })
        .collect();
    let unknown: Vec<Wrong> = app.unknown.iter().map(|why| Wrong::unknown(told(why))).collect();
    if all.is_empty() || !unknown.is_empty() {
        all.extend(found(Group::Github, APP, unknown));
    }
    all
}
