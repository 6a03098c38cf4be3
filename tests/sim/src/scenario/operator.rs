//! What a scenario's operator orders.

use serde_json::{Value, json};

use super::Scenario;
use super::command::number;
use crate::agenda::{Millis, SECOND};
use crate::invocations::Call;
use crate::world::Task;

impl Scenario {
    /// `launches`, `deletes`, or the name of a pool; off until somebody switches it on, or for so long.
    pub(super) fn switch(&mut self, what: &str, to: &str, length: Option<Millis>) {
        let mut request = json!({ "version": 1, "action": "switch", "reason": "by the scenario", "by": "somebody" });
        if let Some(length) = length {
            request["for_seconds"] = (length / SECOND).into();
        }
        match what {
            "launches" | "deletes" => request[what] = to.into(),
            pool => request["pools"] = json!({ pool: to }),
        }
        self.request(request);
    }

    /// Asks why a job is where it is.
    pub(super) fn explain(&mut self, job: u32) -> Result<(), String> {
        let key = self.change(|world| world.github.jobs.get(job as usize).map(|job| job.key));
        let key = key.ok_or("no such job")?.to_string();
        self.request(json!({ "version": 1, "action": "explain", "job": key }));
        Ok(())
    }

    /// The App's owner is called otherwise, or has given it away.
    pub(super) fn app_belongs_to(&mut self, owner: &str) -> Result<(), String> {
        let known = owner.parse().map_err(|error| format!("{error}"))?;
        self.change(|world| {
            world.checker.know_app_owner(Some(known));
            if let Ok(app) = &mut world.app.app {
                app.owner = Some(owner.to_owned());
            }
        });
        Ok(())
    }

    /// Has the admin function answer a request.
    pub(super) fn request(&mut self, request: Value) {
        self.change(|world| {
            let number = u32::try_from(world.requests.len()).unwrap_or(u32::MAX);
            world.requests.push(Some(request));
            world.start(Task::Function(Call::Operator(number)), 0);
        });
    }

    /// Applies a pool file: pools as `name`, or `name:max=3:labels=linux,gpu:image=ami-…`.
    pub(super) fn apply(&mut self, pools: &[&str]) -> Result<(), String> {
        let mut listed = Vec::new();
        for pool in pools {
            let mut parts = pool.split(':');
            let mut file = json!({
                "name": parts.next(),
                "labels": ["linux", "x64"],
                "instances": { "types": ["m7i.large", "m7a.large"] },
                "subnets": ["subnet-0000000a", "subnet-0000000b"],
                "limits": { "max": 10, "max_lifetime": "4h" },
            });
            for option in parts {
                match option.split_once('=') {
                    Some(("labels", value)) => {
                        file["labels"] = value.split(',').collect::<Vec<_>>().into();
                    }
                    Some(("max", value)) => file["limits"]["max"] = number::<u32>(value)?.into(),
                    Some(("image", value)) => file["image"] = json!({ "id": value }),
                    Some(("idle", value)) => file["limits"]["idle_limit"] = value.into(),
                    Some(("boot", value)) => file["limits"]["boot_deadline"] = value.into(),
                    Some(("repositories", value)) => file["repositories"] = json!([value]),
                    Some(("of", value)) => file["entity"] = value.into(),
                    Some(("market", value)) => file["market"] = value.into(),
                    Some(("rerun", "off")) => file["rerun_on_interruption"] = false.into(),
                    Some(("types", value)) => {
                        file["instances"]["types"] = value.split(',').collect::<Vec<_>>().into();
                    }
                    Some(("enabled", value)) => file["enabled"] = (value == "yes").into(),
                    _ => return Err(format!("{option}: not an option of a pool in a file")),
                }
            }
            listed.push(file);
        }
        let file = json!({ "pools": listed }).to_string();
        self.request(json!({ "version": 1, "action": "pools", "file": file, "by": "somebody" }));
        Ok(())
    }

    /// Has a machine launched that no job needs.
    pub(super) fn canary(&mut self, pool: &str, options: &[&str]) -> Result<(), String> {
        let mut request =
            json!({ "version": 1, "action": "canary", "pool": pool, "by": "somebody" });
        for option in options {
            match option.split_once('=') {
                Some(("of", entity)) => request["entity"] = entity.into(),
                _ => return Err(format!("{option}: not an option of a canary")),
            }
        }
        self.request(request);
        Ok(())
    }

    pub(super) fn delete(&mut self, instance: &str, flags: &[&str]) -> Result<(), String> {
        let name = self.instance(number(instance)?)?;
        let has = |flag| flags.contains(&flag);
        if let Some(odd) = flags.iter().find(|flag| !["force", "bypass", "kill"].contains(flag)) {
            return Err(format!("{odd}: force, bypass or kill"));
        }
        let request = json!({
            "version": 1,
            "action": "delete",
            "name": name.as_str(),
            "reason": "by the scenario",
            "by": "somebody",
            "force": has("force"),
            "bypass_github_unauthorized": has("bypass"),
            "kill_running_job": has("kill"),
        });
        if has("force") {
            self.change(|world| world.checker.forced.insert(name.clone()));
        }
        self.request(request);
        Ok(())
    }
}
