//! `logs --machine`: the log that a machine uploaded to the stack's bucket before it ended.

use muster_api::Request;
use muster_api::answers::ShownInstance;
use muster_domain::ids::MachineId;
use muster_domain::instance::{Instance, State};
use muster_sigv4::{Call, encoded};
use serde_json::json;

use super::Session;
use crate::failure::{Failure, parsed};
use crate::views::machine_log;
use crate::world::Cloud;

/// The stack output that contains the prefix of the logs, without the instance ID.
pub(super) const PREFIX: &str = "MachineLogsPrefix";

impl<W: Cloud> Session<'_, W> {
    pub(super) async fn machine_log(&mut self, name: &str) -> Result<String, Failure> {
        let (machine, instance) = self.machine_of(name).await?;
        let stack = self.world.stack().await?;
        let prefix = self
            .deployed(&stack)
            .await?
            .and_then(|found| found.output(PREFIX).map(str::to_owned))
            .ok_or_else(|| {
                Failure::Unknown(format!(
                    "Stack {stack} has no output {PREFIX}: machines of its release do not upload \
                    their logs. To fix that: muster upgrade"
                ))
            })?;
        let role = instance.as_ref().and_then(|one| one.role.as_deref());
        let path = path(&prefix, role, &machine).ok_or_else(|| Failure::Unreadable {
            what: PREFIX,
            why: format!("{prefix:?} is not an S3 address"),
        })?;
        match self.world.object(Call::get("s3", &path)).await {
            Ok(file) => machine_log::text(&file).map_err(|why| {
                Failure::Unknown(format!(
                    "The file that machine {machine} uploaded is not a log: {why}. Jobs can write \
                    there, too."
                ))
            }),
            Err(failure) if failure.is_missing() => {
                Err(Failure::Unknown(missing(name, &machine, instance.as_ref())))
            }
            Err(failure) => Err(failure),
        }
    }

    /// Returns the machine that a name refers to, and its record if it still exists. An EC2 instance ID is sufficient:
    /// logs may be kept longer than records.
    pub(super) async fn machine_of(
        &mut self,
        name: &str,
    ) -> Result<(MachineId, Option<Instance>), Failure> {
        let name = self.instance(name).await?;
        let request = |name| json!(Request::Show { name, github: false });
        let instance = match self.of_instance(&name, request).await {
            Ok(answer) => parsed::<ShownInstance>("show", answer)?.instance,
            Err(failure) if failure.code() == "not_found" => {
                let machine = name.starts_with("i-").then(|| name.parse().ok()).flatten();
                return machine.map(|machine| (machine, None)).ok_or(failure);
            }
            Err(failure) => return Err(failure),
        };
        match instance.machine().cloned() {
            Some(machine) => Ok((machine, Some(instance))),
            None => Err(Failure::Unknown(format!(
                "{name} never had a machine. Why: muster explain {name}"
            ))),
        }
    }
}

/// Returns the log's path: `s3://bucket/role:` is the prefix of the stack's own role. `role` is the role of the pool's
/// own launch template, if it has one.
fn path(prefix: &str, role: Option<&str>, machine: &MachineId) -> Option<String> {
    let (bucket, rest) = prefix.strip_prefix("s3://")?.split_once('/')?;
    let own = rest.strip_suffix(':')?;
    let session = format!("{}:{machine}", role.unwrap_or(own));
    Some(format!("/{bucket}/{}/machine.log.gz", encoded(&session)))
}

fn missing(name: &str, machine: &MachineId, instance: Option<&Instance>) -> String {
    let is_gone = instance.is_none_or(|one| one.state() == State::Deleted);
    if !is_gone {
        return format!(
            "Machine {machine} uploads its log when it ends, and it has not ended. Until then: \
            muster logs {name}"
        );
    }
    let without_record = if instance.is_none() {
        "\nIts record no longer exists. If its pool has its own launch template, the log is stored \
        under that template's role, which is unknown without the record."
    } else {
        ""
    };
    format!(
        "There is no log of machine {machine}. It was terminated before it could upload one, could \
        not reach S3, or the log has expired (LogRetentionDays). The functions' log lines about it: muster logs {name} --since 7d{without_record}"
    )
}
