//! The account: what it allows, for the pools of a stack and for one that is not deployed yet.

use muster_cli::doctor::facts::account::{AccountFacts, CallerIdentity, Concurrency};
use muster_cli::doctor::{Check, CheckGroup, Facts, Unknown, checks};
use muster_domain::pool::{MarketPolicy, Pool};

use super::{deployed, may_not, running, told};

pub(super) fn well() -> AccountFacts {
    AccountFacts {
        caller: Ok(CallerIdentity {
            account: "111122223333".to_owned(),
            arn: "arn:aws:sts::111122223333:assumed-role/Admin/mira".to_owned(),
        }),
        concurrency: Ok(Concurrency { most: 1000, free: 900 }),
        on_demand: Ok(64.0),
        spot: Ok(64.0),
        spot_role: Ok(true),
        free_plan: Ok(false),
    }
}

fn pool(facts: &mut Facts) -> &mut Pool {
    &mut running(facts).pools.as_mut().expect("known")[0]
}

#[test]
fn each_bound_of_the_account_has_its_sentence() {
    told(
        "doctor_account.txt",
        &[
            ("a new account", |facts| {
                facts.account.concurrency = Ok(Concurrency { most: 10, free: 10 });
            }),
            ("others have reserved everything", |facts| {
                facts.account.concurrency = Ok(Concurrency { most: 1000, free: 10 });
            }),
            ("small quotas", |facts| {
                (facts.account.on_demand, facts.account.spot) = (Ok(5.0), Ok(5.0));
            }),
            ("no quota at all, of a pool that takes Spot alone", |facts| {
                facts.account.spot = Ok(0.0);
                pool(facts).market = MarketPolicy::Spot;
            }),
            ("a quota smaller than a machine", |facts| {
                facts.account.on_demand = Ok(5.0);
                pool(facts).market = MarketPolicy::OnDemand;
                pool(facts).instance_types = vec!["c7i.2xlarge".into()];
            }),
            ("no Spot role", |facts| facts.account.spot_role = Ok(false)),
            ("the free plan, and types that it does not start", |facts| {
                facts.account.free_plan = Ok(true);
                pool(facts).instance_types = vec!["m7i.large".into(), "m6i.large".into()];
            }),
            ("nothing of it may be asked", |facts| {
                facts.account = AccountFacts {
                    caller: Err(Unknown::NoAnswer("never".to_owned())),
                    concurrency: Err(may_not("lambda:GetAccountSettings")),
                    on_demand: Err(may_not("servicequotas:GetServiceQuota")),
                    spot: Err(may_not("servicequotas:GetServiceQuota")),
                    spot_role: Err(may_not("iam:GetRole")),
                    free_plan: Err(may_not("freetier:GetAccountPlanState")),
                };
            }),
            ("no stack yet, in a new account", |facts| {
                (facts.deployed, facts.running) = (Ok(None), None);
                facts.account.concurrency = Ok(Concurrency { most: 10, free: 10 });
                (facts.account.on_demand, facts.account.spot) = (Ok(5.0), Ok(5.0));
            }),
        ],
    );
}

/// What no pool needs is not asked for.
#[test]
fn a_quota_is_judged_by_what_the_pools_want() {
    let rows: [fn(&mut Facts); 6] = [
        // The built-in pool begins with what the free plan starts.
        |facts| facts.account.free_plan = Ok(true),
        |facts| {
            (facts.account.on_demand, facts.account.spot) = (Ok(2.0), Ok(2.0));
            pool(facts).max = 2;
        },
        |facts| {
            (facts.account.on_demand, facts.account.spot) = (Ok(2.0), Ok(2.0));
            deployed(facts).parameters.insert("MaxMachines".to_owned(), "2".to_owned());
        },
        |facts| {
            facts.account.on_demand = Ok(0.0);
            pool(facts).instance_types = vec!["g5.xlarge".into()];
        },
        |facts| {
            facts.account.on_demand = Ok(0.0);
            pool(facts).enabled = false;
        },
        |facts| {
            facts.account.spot_role = Ok(false);
            pool(facts).market = MarketPolicy::OnDemand;
        },
    ];
    for row in rows {
        let mut facts = super::well();
        row(&mut facts);
        let all = checks(&facts);
        let own: Vec<Check> =
            all.into_iter().filter(|one| one.group == CheckGroup::Account).collect();
        assert_eq!((own.len(), super::lines(&own).as_str()), (4, ""));
    }
}
