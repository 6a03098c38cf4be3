//! Jobs that do not start though the stack is well.

use muster_control::admin::answers::{PoolStatus, StackStatus};

use super::{Facts, Finding, Group, Wrong, found, judge, told};
use crate::words::clock;
use muster_control::admin::wants::{refusals, unserved as jobs};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(running) = &facts.running else { return Vec::new() };
    let mut all = judge(Group::Jobs, "served", &running.said(), |status| unserved(status));
    let Ok(status) = &running.status else { return all };
    for (id, wrongs) in [
        ("switches", switches(status)),
        ("limits", limits(status)),
        ("machines", machines(status)),
        ("EC2", refused(status)),
        ("orphans", orphans(status)),
    ] {
        all.extend(found(Group::Jobs, id, wrongs));
    }
    all
}

fn unserved(status: &StackStatus) -> Vec<Wrong> {
    let unserved = jobs(&status.overview.unserved, "served by no pool").map(|said| {
        Wrong::warn(told(&said)).remedy("muster jobs, then the labels of the job or of a pool")
    });
    let gated = jobs(&status.overview.waiting_for_approval, "waiting for an approval at GitHub");
    let gated = gated.map(|said| {
        Wrong::warn(told(&said))
            .remedy("whoever may approve: the run's page at GitHub; muster jobs names them")
    });
    unserved.into_iter().chain(gated).collect()
}

fn switches(status: &StackStatus) -> Vec<Wrong> {
    let switches = &status.overview.switches;
    let stack = [("launches", &switches.launches), ("deletes", &switches.deletes)];
    let stack = stack.into_iter().filter_map(|(what, off)| Some((what.to_owned(), off.as_ref()?)));
    let pools = switches.pools.iter().map(|(pool, off)| (pool.to_string(), off));
    let wrongs = stack.chain(pools).map(|(what, off)| {
        let noun = match what.as_str() {
            "launches" | "deletes" => told(&what).trim_end_matches('.').to_owned(),
            pool => format!("Launches of pool {pool}"),
        };
        let now = status.overview.now;
        let (since, by, end, why) = (clock(off.since, now), &off.by, off.end(now), &off.reason);
        Wrong::warn(format!("{noun} are off since {since} by {by}{end}: {why}."))
            .remedy(format!("muster resume {what}"))
    });
    wrongs.collect()
}

fn limits(status: &StackStatus) -> Vec<Wrong> {
    let stack = status.overview.limits.iter().filter_map(|limit| {
        let max = limit.max.filter(|max| limit.live >= *max)?;
        let said = told(&format!("{} is at its limit, {} of {max} machines", limit.of, limit.live));
        Some(
            Wrong::warn(said)
                .remedy("wait, or raise it: the pool file's limits, or MaxMachines of the stack"),
        )
    });
    let waits = |pool: &&PoolStatus| pool.live >= pool.max && pool.waiting_jobs > 0;
    let pools = status.overview.pools.iter().filter(waits).map(|pool| {
        let (name, max, waiting) = (&pool.name, pool.max, pool.waiting_jobs);
        if let Some(ends) = &pool.refused_ends {
            let said =
                format!("Pool {name} is full, and {waiting} jobs wait: {}.", ends.sentence());
            return Wrong::error(said).remedy(format!("muster explain {}", ends.instance));
        }
        Wrong::warn(format!("Pool {name} is at its maximum of {max}, and {waiting} jobs wait."))
            .remedy("wait, or raise its limits.max: muster pools edit")
    });
    stack.chain(pools).collect()
}

fn machines(status: &StackStatus) -> Vec<Wrong> {
    let troubled = status.overview.pools.iter().filter_map(|pool| pool.trouble.as_ref());
    let wrongs = troubled.map(|one| {
        let wrong = Wrong::error(told(&one.sentence()));
        match &one.last {
            Some(last) => {
                wrong.remedy(format!("muster show {last}, which keeps the machine's console"))
            }
            None => wrong,
        }
    });
    wrongs.collect()
}

/// What EC2 refuses, once for each cause.
fn refused(status: &StackStatus) -> Vec<Wrong> {
    let cooldowns = status.cooldowns.as_deref().unwrap_or_default();
    refusals(cooldowns, status.overview.now).iter().map(Wrong::from).collect()
}

fn orphans(status: &StackStatus) -> Vec<Wrong> {
    let wrongs = status.orphans.iter().map(|orphan| {
        let machine = &orphan.machine;
        match &orphan.last_error {
            _ if orphan.launch.is_none() => Wrong::warn(format!(
                "{machine} has this stack's tag, but no launch made it: it is not ended."
            ))
            .remedy(format!(
                "take the tag muster:stack off, or end it: \
                 aws ec2 terminate-instances --instance-ids {machine}"
            )),
            Some(error) => Wrong::warn(format!(
                "{machine} is an orphan: {} attempts to end it failed, the last with {error}.",
                orphan.attempts
            ))
            .remedy("muster alarms orphans"),
            None => Wrong::warn(format!("{machine} is an orphan and is being ended.")),
        }
    });
    wrongs.collect()
}
