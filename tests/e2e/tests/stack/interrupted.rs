//! EC2 takes a Spot machine while its job runs.

use std::time::Duration;

use anyhow::{Result, ensure};
use muster_e2e::stack::id;
use muster_e2e::wait::Seen;
use muster_e2e::{Job, Test, wait_for};
use serde_json::json;

pub(super) async fn job_is_rerun(test: Test) -> Result<()> {
    let stack = test.stack(&[]).await?;
    let _sweeps = stack.ticker(Duration::from_secs(2));
    let job = stack.queue_job(&json!({ "name": "long" })).await?;
    let running = stack.until_begun(&job, 60).await?;
    let machine = id(&running["runner"]["machine"]);
    let row = stack.row_of(&machine).await?;
    ensure!(row["make"]["market"] == "spot", "on Spot at first: {row}");

    stack.world.post(&format!("instances/{machine}/interrupt"), &json!({})).await?;
    let failed = stack.until_over(&job, 110).await?;
    ensure!(failed["conclusion"] == "failure", "the interrupted job: {failed}");
    let alive = stack.machines().await?[0]["state"].clone();
    ensure!(alive == "running", "GitHub knows before the machine ends, which is {alive}");

    // GitHub gives the job of the second attempt a new ID.
    let path = format!("jobs?owner={}&repo=app", stack.owner);
    let second = wait_for("the second attempt", 150, async || {
        let jobs = stack.world.get(&path).await?;
        let found = jobs.as_array().into_iter().flatten().find(|one| one["run_attempt"] == 2);
        Ok(Seen::from(found.and_then(|job| job["id"].as_u64()), || jobs.to_string()))
    })
    .await?;
    let repository = job.key.split('/').next().unwrap_or_default();
    let again = Job { id: second, key: format!("{repository}/{second}") };
    let running = stack.until_begun(&again, 60).await?;
    let row = stack.row_of(&id(&running["runner"]["machine"])).await?;
    ensure!(row["make"]["market"] == "on-demand", "On-Demand for the second attempt: {row}");
    stack.finish(&again).await?;
    stack.until_served(&again, 30).await?;
    stack.until_all_deleted(60).await?;

    let told = stack.muster(&["explain", &job.key]).await?;
    test.shows(told.line(&["Muster re-ran"])?);
    let rows = stack.muster(&["costs", "--rows", "--since", "1d"]).await?;
    for market in ["spot", "on-demand"] {
        test.shows(rows.line(&["long", market, "$"])?.replace('\t', "  "));
    }
    stack.no_dead_letters().await
}
