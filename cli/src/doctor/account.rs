//! What the account allows, all its stacks together.

use muster_domain::pool::{MarketPolicy, Pool};

use super::facts::account::{Account, Concurrency};
use super::{Facts, Finding, Group, Wrong, console, found, judge, unasked};

/// Scale-up's eight workers, the reaper's three, and room for GitHub and machines that call.
const ENOUGH: u64 = 20;
/// Of the quotas that standard machines count for.
/// Source: docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html
const STANDARD: [&str; 11] = ["a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"];
/// On demand, and Spot.
pub const QUOTAS: [&str; 2] = ["L-1216C47A", "L-34B43A08"];
/// What the free plan starts.
/// Source: docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-free-tier-usage.html
const FREE: [&str; 6] =
    ["t3.micro", "t3.small", "t4g.micro", "t4g.small", "c7i-flex.large", "m7i-flex.large"];
/// Where no stack says otherwise.
const USUAL_MAX: u32 = 20;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Facts { account, region, .. } = facts;
    let mut all =
        judge(Group::Account, "concurrency", &account.concurrency, |one| concurrency(*one, region));
    let pools = match &facts.running {
        Some(running) => running.pools.clone(),
        None => Ok(vec![Pool::built_in(&facts.stack, Vec::new(), USUAL_MAX)]),
    };
    match &pools {
        Ok(pools) => {
            all.extend(quotas(pools, facts));
            all.extend(judge(Group::Account, "Spot role", &account.spot_role, |is_there| {
                spot_role(*is_there, pools)
            }));
            all.extend(judge(Group::Account, "plan", &account.free_plan, |is_free| {
                if *is_free { free_plan(pools, region) } else { Vec::new() }
            }));
        }
        Err(unknown) => {
            all.push(unasked(Group::Account, "quotas", unknown));
            all.push(unasked(Group::Account, "Spot role", unknown));
            all.push(unasked(Group::Account, "plan", unknown));
        }
    }
    all
}

fn concurrency(Concurrency { most, free }: Concurrency, region: &str) -> Vec<Wrong> {
    if free >= ENOUGH {
        return Vec::new();
    }
    let reserved = most - free.min(most);
    let (of_others, remedy) = match reserved {
        0 => (String::new(), "ask for 1,000, which most accounts have"),
        _ => (
            format!(", and {reserved} of them are reserved"),
            "ask for more, or take back some of what functions have reserved",
        ),
    };
    let said = format!(
        "The account runs {most} functions at once, all its stacks together{of_others}: \
         bursts are answered 503 and come minutes later, and one job that calls the API without end \
         delays the others by minutes."
    );
    vec![Wrong::warn(said).remedy(remedy).at(quota(region, "lambda", "L-B99A9384"))]
}

fn quota(region: &str, service: &str, code: &str) -> String {
    console(region, &format!("servicequotas/home/services/{service}/quotas/{code}"))
}

/// vCPUs for the pools' machines. A pool counts by its first type.
fn quotas(pools: &[Pool], facts: &Facts) -> Vec<Finding> {
    const ID: &str = "quotas";
    let Account { on_demand, spot, .. } = &facts.account;
    let mut wrongs = Vec::new();
    for pool in pools.iter().filter(|pool| pool.enabled && !pool.is_removed()) {
        let Some(first) = pool.instance_types.first() else { continue };
        let Some(vcpus) = vcpus(first) else { continue };
        let counted = match pool.market {
            MarketPolicy::OnDemand => vec![("on-demand", on_demand, QUOTAS[0])],
            MarketPolicy::Spot => vec![("Spot", spot, QUOTAS[1])],
            MarketPolicy::SpotThenOnDemand => {
                vec![("Spot", spot, QUOTAS[1]), ("on-demand", on_demand, QUOTAS[0])]
            }
        };
        let mut parts = Vec::new();
        let mut room = 0;
        for (market, quota, _) in &counted {
            match quota {
                Ok(quota) => {
                    room += machines(*quota, vcpus);
                    parts.push(format!("{quota} {market} vCPUs"));
                }
                Err(unknown) => return vec![unasked(Group::Account, ID, unknown)],
            }
        }
        let wanted = u64::from(pool.max.min(facts.max_machines().unwrap_or(u32::MAX)));
        if room < wanted {
            let (quotas, name) = (parts.join(" and "), &pool.name);
            let wrong = if room == 0 {
                Wrong::error(format!(
                    "The account's quota of {quotas} starts no {first}, and pool {name} wants \
                     {wanted}."
                ))
            } else {
                let said =
                    format!("is enough for {room} {first}; pool {name} goes up to {wanted}.");
                Wrong::warn(format!("The account's quota of {quotas} {said}"))
            };
            let (_, _, code) = counted[counted.len() - 1];
            let page = quota(&facts.region, "ec2", code);
            wrongs.push(wrong.remedy("ask for more, or lower the pool's limits.max").at(page));
        }
    }
    found(Group::Account, ID, wrongs)
}

fn machines(quota: f64, vcpus: u32) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "quotas are whole and small"
    )]
    let quota = quota.max(0.0) as u64;
    quota / u64::from(vcpus)
}

/// How many vCPUs a type of the standard families has; none where its name does not say.
/// Source: docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html
fn vcpus(instance_type: &str) -> Option<u32> {
    let (family, size) = instance_type.split_once('.')?;
    let letters = family.split(|one: char| one.is_ascii_digit()).next()?;
    STANDARD.contains(&letters).then_some(())?;
    match size {
        "large" => Some(2),
        "xlarge" => Some(4),
        size => size.strip_suffix("xlarge")?.parse::<u32>().ok()?.checked_mul(4),
    }
}

fn spot_role(is_there: bool, pools: &[Pool]) -> Vec<Wrong> {
    let wants = |pool: &Pool| !pool.is_removed() && pool.market != MarketPolicy::OnDemand;
    if is_there || !pools.iter().any(wants) {
        return Vec::new();
    }
    let said = "The account has no Spot role yet. EC2 makes it at the first Spot request; where a \
                policy forbids that, Spot is refused and on-demand is bought.";
    vec![
        Wrong::warn(said)
            .remedy("aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"),
    ]
}

fn free_plan(pools: &[Pool], region: &str) -> Vec<Wrong> {
    let starts = |of_pool: &&std::sync::Arc<str>| FREE.contains(&&***of_pool);
    let has_none = |pool: &&Pool| {
        let types = &pool.instance_types;
        pool.enabled
            && !pool.is_removed()
            && !types.is_empty()
            && !types.iter().any(|one| starts(&one))
    };
    let wrongs = pools.iter().filter(has_none).map(|pool| {
        let said = format!(
            "The account is on the free plan, which starts none of the types of pool {}: EC2 \
             refuses its launches.",
            pool.name
        );
        let remedy = format!("one of {} (muster pools edit), or the paid plan", FREE.join(", "));
        Wrong::error(said).remedy(remedy).at(console(region, "billing/home#/freetier"))
    });
    wrongs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_tells_the_vcpus() {
        for (name, expected) in [
            ("m7i-flex.large", Some(2)),
            ("c7g.xlarge", Some(4)),
            ("im4gn.16xlarge", Some(64)),
            ("m7i.metal-24xl", None),
            ("t3.micro", None),
            // These count for other quotas.
            ("g5.xlarge", None),
            ("inf2.xlarge", None),
            ("x2gd.large", None),
        ] {
            assert_eq!(vcpus(name), expected, "{name}");
        }
        assert_eq!([machines(5.0, 2), machines(1.0, 2), machines(32.0, 4)], [2, 0, 8]);
    }
}
