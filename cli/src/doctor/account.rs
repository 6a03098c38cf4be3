//! Checks the account's limits, which all its stacks share.

use muster_api::answers::Finding;
use muster_domain::pool::{MarketPolicy, Pool};

use super::facts::Unknown;
use super::facts::account::{AccountFacts, Concurrency};
use super::{Check, CheckGroup, Facts, console, error, found, judge, unasked, warn};
use crate::words::count;

/// Concurrent executions that suffice: scale-up's eight workers, the reaper's three, and the calls
/// of GitHub and of machines.
const ENOUGH: u64 = 20;
/// The families that the quotas of standard machines count.
/// Source: docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html
const STANDARD: [&str; 11] = ["a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"];
/// The quotas of On-Demand and of Spot.
pub const QUOTAS: [&str; 2] = ["L-1216C47A", "L-34B43A08"];
/// The types that the free plan can start.
/// Source: docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-free-tier-usage.html
const FREE: [&str; 6] =
    ["t3.micro", "t3.small", "t4g.micro", "t4g.small", "c7i-flex.large", "m7i-flex.large"];
/// Default of the template's parameter `MaxMachines`.
pub const DEFAULT_MAX: u32 = 20;

pub(super) fn check(facts: &Facts) -> Vec<Check> {
    let Facts { account, region, .. } = facts;
    let mut all = judge(CheckGroup::Account, "concurrency", &account.concurrency, |one| {
        concurrency(*one, region)
    });
    let pools = match &facts.running {
        Some(running) => running.pools.clone(),
        None => Ok(vec![Pool::built_in(&facts.stack, Vec::new(), DEFAULT_MAX)]),
    };
    match &pools {
        Ok(pools) => {
            all.extend(quotas(pools, facts));
            all.extend(judge(CheckGroup::Account, "Spot role", &account.spot_role, |is_there| {
                spot_role(*is_there, pools)
            }));
            all.extend(judge(CheckGroup::Account, "plan", &account.free_plan, |is_free| {
                if *is_free { free_plan(pools, region) } else { Vec::new() }
            }));
        }
        Err(unknown) => {
            all.push(unasked(CheckGroup::Account, "quotas", unknown));
            all.push(unasked(CheckGroup::Account, "Spot role", unknown));
            all.push(unasked(CheckGroup::Account, "plan", unknown));
        }
    }
    all
}

fn concurrency(Concurrency { most, free }: Concurrency, region: &str) -> Vec<Finding> {
    if free >= ENOUGH {
        return Vec::new();
    }
    let reserved = most - free.min(most);
    let (of_others, remedy) = match reserved {
        0 => (String::new(), "request 1,000, which most accounts have"),
        _ => (
            format!(", and {reserved} of them are reserved"),
            "request more, or reduce what functions have reserved",
        ),
    };
    let said = format!(
        "The account can run {most} functions at once, in all its stacks together{of_others}: \
         bursts of events get 503 and arrive minutes later, and one job that floods the API \
         delays the others by minutes."
    );
    vec![warn(said).fix(remedy).url(quota(region, "lambda", "L-B99A9384"))]
}

fn quota(region: &str, service: &str, code: &str) -> String {
    console(region, &format!("servicequotas/home/services/{service}/quotas/{code}"))
}

/// Returns the maximum that setup suggests for a new stack's built-in pool, with a warning if the
/// account's quotas allow fewer machines than the default. A quota that could not be read is
/// ignored.
#[must_use]
pub fn suggested_max(account: &AccountFacts, region: &str) -> (u32, Option<String>) {
    let pool = Pool::built_in("", Vec::new(), DEFAULT_MAX);
    let Some(Ok(quotas)) = Quotas::of(&pool, account) else { return (DEFAULT_MAX, None) };
    let machines = u32::try_from(quotas.machines).unwrap_or(u32::MAX);
    if machines >= DEFAULT_MAX {
        return (DEFAULT_MAX, None);
    }
    let enough = match machines {
        0 => "is too small for a machine of two vCPUs".to_owned(),
        machines => {
            format!("is enough for {} of two vCPUs", count(machines as usize, "machine"))
        }
    };
    let (vcpus, page) = (&quotas.vcpus, quota(region, "ec2", quotas.code));
    let warning = format!(
        "! The account's quota of {vcpus} {enough}. Request more before you raise the maximum:\n  {page}"
    );
    (machines.max(1), Some(warning))
}

/// Compares the vCPU quotas with the pools' maximums. A pool counts by its first type.
fn quotas(pools: &[Pool], facts: &Facts) -> Vec<Check> {
    const ID: &str = "quotas";
    let mut wrongs = Vec::new();
    for pool in pools.iter().filter(|pool| pool.enabled && !pool.is_removed()) {
        let Quotas { machines, vcpus, code, first } = match Quotas::of(pool, &facts.account) {
            Some(Ok(quotas)) => quotas,
            Some(Err(unknown)) => return vec![unasked(CheckGroup::Account, ID, unknown)],
            None => continue,
        };
        let wanted = u64::from(pool.max.min(facts.max_machines().unwrap_or(u32::MAX)));
        if machines < wanted {
            let name = &pool.name;
            let wrong = if machines == 0 {
                error(format!(
                    "The account's quota of {vcpus} cannot start one {first}; pool {name} goes up to \
                     {wanted}."
                ))
            } else {
                let said =
                    format!("is enough for {machines} {first}; pool {name} goes up to {wanted}.");
                warn(format!("The account's quota of {vcpus} {said}"))
            };
            let page = quota(&facts.region, "ec2", code);
            wrongs.push(wrong.fix("request more, or lower the pool's limits.max").url(page));
        }
    }
    found(CheckGroup::Account, ID, wrongs)
}

/// The vCPU quotas that limit a pool's machines.
struct Quotas<'a> {
    /// Number of machines that the quotas allow.
    machines: u64,
    /// For example `5 Spot vCPUs and 5 on-demand vCPUs`.
    vcpus: String,
    /// Code of the quota to raise.
    code: &'static str,
    /// The instance type that the pool counts by.
    first: &'a str,
}

impl<'a> Quotas<'a> {
    /// Returns `None` if the name of the pool's first type does not show its number of vCPUs.
    fn of(pool: &'a Pool, account: &'a AccountFacts) -> Option<Result<Self, &'a Unknown>> {
        let first: &str = pool.instance_types.first()?;
        let of_one = vcpus(first)?;
        let spot = ("Spot", &account.spot, QUOTAS[1]);
        let on_demand = ("on-demand", &account.on_demand, QUOTAS[0]);
        let (markets, code) = match pool.market {
            MarketPolicy::OnDemand => (vec![on_demand], on_demand.2),
            MarketPolicy::Spot => (vec![spot], spot.2),
            MarketPolicy::SpotThenOnDemand => (vec![spot, on_demand], on_demand.2),
        };
        let (mut room, mut parts) = (0, Vec::new());
        for (market, quota, _) in markets {
            match quota {
                Ok(quota) => {
                    room += machines(*quota, of_one);
                    parts.push(format!("{quota} {market} vCPUs"));
                }
                Err(unknown) => return Some(Err(unknown)),
            }
        }
        Some(Ok(Self { machines: room, vcpus: parts.join(" and "), code, first }))
    }
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

/// Returns the number of vCPUs of a standard type. `None` if its name does not show it.
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

/// Returns what will keep a new stack's first pool from launching Spot machines. The free plan can start one of its types.
#[must_use]
pub fn of_new_stack(account: &AccountFacts, stack: &str) -> Vec<Finding> {
    let is_missing = account.spot_role.as_ref().is_ok_and(|is_there| !is_there);
    spot_role(!is_missing, &[Pool::built_in(stack, Vec::new(), 1)])
}

fn spot_role(is_there: bool, pools: &[Pool]) -> Vec<Finding> {
    let wants = |pool: &Pool| !pool.is_removed() && pool.market != MarketPolicy::OnDemand;
    if is_there || !pools.iter().any(wants) {
        return Vec::new();
    }
    let said = "The account has no Spot role yet. EC2 creates it at the first Spot request; if a \
                policy forbids that, Spot is refused and on-demand is used.";
    vec![warn(said).fix("aws iam create-service-linked-role --aws-service-name spot.amazonaws.com")]
}

fn free_plan(pools: &[Pool], region: &str) -> Vec<Finding> {
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
            "The account is on the free plan, which cannot start any type of pool {}: EC2 \
             refuses its launches.",
            pool.name
        );
        let remedy =
            format!("use one of {} (muster pools edit), or the paid plan", FREE.join(", "));
        error(said).fix(remedy).url(console(region, "billing/home#/freetier"))
    });
    wrongs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setup_suggests_what_the_quotas_are_enough_for() {
        let denied = || Err(Unknown::MayNot("servicequotas:GetServiceQuota".to_owned()));
        let rows = [
            ("an account with room", Ok(640.0), Ok(640.0), 20, None),
            ("exactly enough", Ok(20.0), Ok(20.0), 20, None),
            ("one machine short", Ok(20.0), Ok(18.0), 19, Some("enough for 19 machines of two")),
            ("a new account", Ok(5.0), Ok(5.0), 4, Some("5 Spot vCPUs and 5 on-demand vCPUs")),
            ("one market only", Ok(0.0), Ok(3.0), 1, Some("enough for 1 machine of two")),
            ("nothing", Ok(1.0), Ok(0.0), 1, Some("is too small for a machine of two vCPUs")),
            ("Spot is not readable", Ok(5.0), denied(), 20, None),
            ("on demand is not readable", denied(), Ok(5.0), 20, None),
        ];
        for (name, on_demand, spot, expected, part) in rows {
            let account = AccountFacts {
                caller: Err(Unknown::NoAnswer(String::new())),
                concurrency: Ok(Concurrency { most: 1_000, free: 1_000 }),
                on_demand,
                spot,
                spot_role: Ok(true),
                free_plan: Ok(false),
            };
            let (max, warning) = suggested_max(&account, "eu-west-1");
            assert_eq!((max, warning.is_some()), (expected, part.is_some()), "{name}: {warning:?}");
            if let (Some(warning), Some(part)) = (warning, part) {
                assert!(warning.contains(part), "{name}: {warning}");
                assert!(warning.contains("https://eu-west-1.console"), "{name}: {warning}");
            }
        }
    }

    #[test]
    fn setup_names_the_missing_spot_role() {
        let unknown = || Unknown::NoAnswer(String::new());
        for (spot_role, warnings) in [(Ok(true), 0), (Ok(false), 1), (Err(unknown()), 0)] {
            let account = AccountFacts {
                caller: Err(unknown()),
                concurrency: Err(unknown()),
                on_demand: Err(unknown()),
                spot: Err(unknown()),
                spot_role,
                free_plan: Err(unknown()),
            };
            assert_eq!(of_new_stack(&account, "muster").len(), warnings, "{:?}", account.spot_role);
        }
    }

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
