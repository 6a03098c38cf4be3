//! EC2 and the machines: the truth, and faults.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{Stack, id};
use crate::local;
use crate::wait::{Seen, wait_for};

impl Stack {
    /// The truth about all machines that this stack ever launched, in order.
    ///
    /// # Errors
    /// When the world does not answer.
    pub async fn machines(&self) -> Result<Vec<Value>> {
        self.world.list(&format!("instances?stack={}", self.name)).await
    }

    /// Waits until the stack has launched this many machines; answers with the ids, in order.
    ///
    /// # Errors
    /// After `seconds`.
    pub async fn until_launched(&self, count: usize, seconds: u64) -> Result<Vec<String>> {
        wait_for(&format!("{count} machine(s)"), seconds, async || {
            let machines = self.machines().await?;
            let ids: Vec<String> = machines.iter().map(|machine| id(&machine["id"])).collect();
            Ok(Seen::from((ids.len() >= count).then(|| ids.clone()), || format!("{ids:?}")))
        })
        .await
    }

    /// Waits until a record holds the machine; answers with the instance's name.
    ///
    /// # Errors
    /// After `seconds`.
    pub async fn until_bound(&self, machine: &str, seconds: u64) -> Result<String> {
        wait_for(&format!("machine {machine} to be bound"), seconds, async || {
            let row = self.row_of(machine).await?;
            Ok(Seen::Done(id(&row["name"])))
        })
        .await
    }

    /// How the next machines of this stack misbehave.
    ///
    /// # Errors
    /// When the world refuses.
    pub async fn next_machines(&self, times: u32, behaviour: &Value) -> Result<()> {
        let script = json!({ "stack": self.name, "times": times, "behaviour": behaviour });
        self.world.post("behaviours", &script).await.map(drop)
    }

    /// Scripts a fault for calls of this stack; answers with its number.
    ///
    /// # Errors
    /// When the world refuses.
    pub async fn fault(&self, fields: &Value) -> Result<u64> {
        let mut fault = fields.clone();
        let door = fault["door"].as_str().unwrap_or_default();
        let (scope, value) =
            if door == "github" { ("owner", &self.owner) } else { ("stack", &self.name) };
        fault[scope] = json!(value);
        let answer = self.world.post("faults", &fault).await?;
        answer["id"].as_u64().with_context(|| format!("no fault: {answer}"))
    }

    /// Takes a fault back.
    ///
    /// # Errors
    /// When there is no such fault.
    pub async fn heal(&self, fault: u64) -> Result<()> {
        self.world.delete(&format!("faults/{fault}")).await.map(drop)
    }

    /// The calls of this stack at a door, oldest first.
    ///
    /// # Errors
    /// When the world does not answer.
    pub async fn calls(&self, door: &str, operation: &str) -> Result<Vec<Value>> {
        let filter = format!("calls?stack={}&door={door}&operation={operation}", self.name);
        self.world.list(&filter).await
    }

    /// All calls of this stack, counted by `door:operation`.
    ///
    /// # Errors
    /// When the world does not answer.
    pub async fn counters(&self) -> Result<Vec<(String, u64)>> {
        let counted = self.world.get(&format!("counters?stack={}", self.name)).await?;
        let counted = counted.as_object().cloned().unwrap_or_default();
        Ok(counted.into_iter().map(|(call, n)| (call, n.as_u64().unwrap_or_default())).collect())
    }

    /// Machines of this stack that lost their power while a job's steps ran.
    ///
    /// # Errors
    /// When the world does not answer.
    pub async fn killed_jobs(&self) -> Result<Vec<Value>> {
        let machines: Vec<Value> =
            self.machines().await?.into_iter().map(|mut machine| machine["id"].take()).collect();
        let kills = self.world.list("kills").await?;
        Ok(kills
            .into_iter()
            .filter(|kill| kill["begun"] == true && machines.contains(&kill["machine"]))
            .collect())
    }

    /// Ends what is left of the stack: machines, scripts, and the stack itself.
    ///
    /// # Errors
    /// When something does not answer.
    pub async fn tear_down(&self) -> Result<()> {
        self.clear_scripts().await?;
        self.end_machines().await?;
        let fields =
            [("Action", "DeleteStack"), ("Version", "2010-05-15"), ("StackName", &*self.name)];
        self.aws.query("cloudformation", &fields).await?;
        local::forget(&self.name);
        Ok(())
    }

    /// Takes all scripted faults, behaviours and rules of this stack back.
    ///
    /// # Errors
    /// When the world does not answer.
    pub async fn clear_scripts(&self) -> Result<()> {
        self.world.delete(&format!("faults?stack={}", self.name)).await?;
        self.world.delete(&format!("behaviours?stack={}", self.name)).await?;
        self.world.delete(&format!("hooks?owner={}", self.owner)).await.map(drop)
    }

    /// Ends the machines of this stack that still run.
    ///
    /// # Errors
    /// When the world does not answer.
    pub async fn end_machines(&self) -> Result<()> {
        for machine in self.machines().await? {
            let state = machine["state"].as_str().unwrap_or_default();
            if !matches!(state, "shutting-down" | "terminated") {
                let path = format!("instances/{}/terminate", id(&machine["id"]));
                self.world.post(&path, &json!({})).await?;
            }
        }
        Ok(())
    }
}
