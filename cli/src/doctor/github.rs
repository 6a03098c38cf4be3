//! The App at GitHub: the admin function's own findings.

use muster_control::admin::answers::AppStatus;

use super::{Facts, Finding, Group, Wrong, address, found, judge, told};
use crate::views::status::trouble;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(running) = &facts.running else { return Vec::new() };
    let mut all = judge(Group::Github, "app", &running.said(), |status| {
        status.app.as_ref().map(app).unwrap_or_default()
    });
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
        all.extend(found(Group::Github, "registration", wrongs.collect()));
    }
    all
}

/// Each of its sentences has its remedy.
fn app(app: &AppStatus) -> Vec<Wrong> {
    let with_address = |wrong: Wrong| match address(&wrong.sentence).map(str::to_owned) {
        Some(url) => wrong.at(url),
        None => wrong,
    };
    let lacks = app.lacks.iter().map(|lack| with_address(Wrong::error(told(lack))));
    lacks.chain(app.unknown.iter().map(|why| Wrong::unknown(told(why)))).collect()
}
