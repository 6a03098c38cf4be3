//! Queries the account.

use muster_sigv4::Call;
use serde_json::json;
use tokio::join;

use super::super::batch::CallBatch;
use crate::doctor::Fact;
use crate::doctor::account::QUOTAS;
use crate::doctor::facts::Unknown;
use crate::doctor::facts::account::{AccountFacts, CallerIdentity, Concurrency};
use crate::failure::Failure;

pub(in crate::session) async fn facts(batch: &CallBatch) -> AccountFacts {
    let identity = [("Action", "GetCallerIdentity"), ("Version", "2011-06-15")];
    let [on_demand, spot] = QUOTAS;
    let (caller, concurrency, spot_role, on_demand, spot, free_plan) = join!(
        batch.fact(Call::query("sts", &identity), CallerIdentity::read),
        batch.fact(Call::get("lambda", "/2016-08-19/account-settings"), Concurrency::read),
        spot_role(batch),
        quota(batch, on_demand),
        quota(batch, spot),
        free_plan(batch),
    );
    AccountFacts { caller, concurrency, on_demand, spot, spot_role, free_plan }
}

async fn quota(batch: &CallBatch, code: &str) -> Fact<f64> {
    let body = json!({ "ServiceCode": "ec2", "QuotaCode": code });
    let call = Call::json("servicequotas", "ServiceQuotasV20190624.GetServiceQuota", &body);
    // Without a value, the quota is unknown, not zero.
    let nothing = || Unknown::NoAnswer("the response has no quota".to_owned());
    batch.fact(call, |answer| answer["Quota"]["Value"].as_f64()).await?.ok_or_else(nothing)
}

/// Reads the account's plan. Accounts from before plans existed have no plan.
async fn free_plan(batch: &CallBatch) -> Fact<bool> {
    let call = Call::json("freetier", "AWSFreeTierService.GetAccountPlanState", &json!({}));
    match batch.ask(call).await {
        Err(failure) if failure.is_missing() => Ok(false),
        answer => Ok(answer?["accountPlanType"] == "FREE"),
    }
}

async fn spot_role(batch: &CallBatch) -> Fact<bool> {
    let role = [
        ("Action", "GetRole"),
        ("Version", "2010-05-08"),
        ("RoleName", "AWSServiceRoleForEC2Spot"),
    ];
    match batch.ask(Call::query("iam", &role)).await {
        Err(Failure::Service { code, .. }) if code == "NoSuchEntity" => Ok(false),
        answer => Ok(answer.map(|_| true)?),
    }
}
