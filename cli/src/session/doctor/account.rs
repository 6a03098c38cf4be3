//! Queries the account.

use muster_sigv4::Call;
use serde_json::json;

use super::{Answer, fact, next};
use crate::doctor::Fact;
use crate::doctor::account::QUOTAS;
use crate::doctor::facts::Unknown;
use crate::doctor::facts::account::{Account, Caller, Concurrency};
use crate::failure::Failure;

/// Returns the calls whose responses [`read`] reads.
pub(in crate::session) fn calls() -> Vec<Call> {
    let quota = |code: &&str| {
        let body = json!({ "ServiceCode": "ec2", "QuotaCode": code });
        Call::json("servicequotas", "ServiceQuotasV20190624.GetServiceQuota", &body)
    };
    let role = [
        ("Action", "GetRole"),
        ("Version", "2010-05-08"),
        ("RoleName", "AWSServiceRoleForEC2Spot"),
    ];
    let mut calls = vec![
        Call::query("sts", &[("Action", "GetCallerIdentity"), ("Version", "2011-06-15")]),
        Call::get("lambda", "/2016-08-19/account-settings"),
        Call::query("iam", &role),
    ];
    calls.extend(QUOTAS.iter().map(quota));
    calls.push(Call::json("freetier", "AWSFreeTierService.GetAccountPlanState", &json!({})));
    calls
}

pub(in crate::session) fn read(answers: &mut impl Iterator<Item = Answer>) -> Account {
    let caller = fact(next(answers), |answer| Caller::read(&answer));
    let concurrency = fact(next(answers), |answer| Concurrency::read(&answer));
    let spot_role = role(next(answers));
    let mut quota = || {
        // Without a value, the quota is unknown, not zero.
        let nothing = || Unknown::NoAnswer("the response has no quota".to_owned());
        fact(next(answers), |answer| answer["Quota"]["Value"].as_f64())?.ok_or_else(nothing)
    };
    let (on_demand, spot) = (quota(), quota());
    let free_plan = plan(next(answers));
    Account { caller, concurrency, on_demand, spot, spot_role, free_plan }
}

/// Reads the account's plan. Accounts from before plans existed have no plan.
fn plan(answer: Answer) -> Fact<bool> {
    match answer {
        Err(failure) if failure.is_missing() => Ok(false),
        answer => fact(answer, |answer| answer["accountPlanType"] == "FREE"),
    }
}

fn role(answer: Answer) -> Fact<bool> {
    match answer {
        Err(Failure::Service { code, .. }) if code == "NoSuchEntity" => Ok(false),
        answer => fact(answer, |_| true),
    }
}
