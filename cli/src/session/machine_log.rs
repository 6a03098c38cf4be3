//! `logs --machine`: what a machine sent to the stack's bucket before it ended.

use muster_control::admin::Request;
use muster_control::admin::answers::ShownInstance;
use muster_domain::ids::MachineId;
use muster_domain::instance::{Instance, State};
use muster_sigv4::{Call, encoded};
use serde_json::json;

use super::{Session, World, read};
use crate::failure::Failure;
use crate::views::machine_log;

/// The output that says where the logs are, without the machine's id.
pub(super) const PREFIX: &str = "MachineLogsPrefix";

impl<W: World> Session<'_, W> {
    pub(super) async fn machine_log(&mut self, name: &str) -> Result<String, Failure> {
        let (machine, instance) = self.machine_of(name).await?;
        let stack = self.world.stack().await?;
        let prefix = self
            .deployed(&stack)
            .await?
            .and_then(|found| found.output(PREFIX).map(str::to_owned))
            .ok_or_else(|| {
                Failure::Unknown(format!(
                    "Stack {stack} has no output {PREFIX}: the machines of its release keep their logs. Mend: muster upgrade"
                ))
            })?;
        let role = instance.as_ref().and_then(|one| one.role.as_deref());
        let path = path(&prefix, role, &machine).ok_or_else(|| Failure::Unreadable {
            what: PREFIX,
            why: format!("{prefix:?} is no address in S3"),
        })?;
        match self.world.object(Call::get("s3", &path)).await {
            Ok(file) => machine_log::text(&file).map_err(|why| {
                Failure::Unknown(format!(
                    "What machine {machine} left is not a log: {why}. A job may write there too."
                ))
            }),
            Err(failure) if failure.is_missing() => {
                Err(Failure::Unknown(missing(name, &machine, instance.as_ref())))
            }
            Err(failure) => Err(failure),
        }
    }

    /// The machine that somebody means, and its instance while there is a record. A machine's own id is enough: logs may
    /// be kept for longer than records.
    pub(super) async fn machine_of(
        &mut self,
        name: &str,
    ) -> Result<(MachineId, Option<Instance>), Failure> {
        let name = self.instance(name).await?;
        let request = |name| json!(Request::Show { name, github: false });
        let instance = match self.of_instance(&name, request).await {
            Ok(answer) => read::<ShownInstance>("show", answer)?.instance,
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

/// Where the log is, in a request: `s3://bucket/role:` is the prefix of the stack's own role. `role` is that of the machine's
/// pool, where it has one.
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
            "Machine {machine} sends its log when it ends, and it has not ended. Until then: muster logs {name}"
        );
    }
    let without_record = if instance.is_none() {
        "\nIts record is gone. A machine of a pool with a launch template of its own has its log below that template's role, \
         which nothing knows without the record."
    } else {
        ""
    };
    format!(
        "There is no log of machine {machine}. It was ended before it could send one, could not reach S3, or the log's time \
         is over (LogRetentionDays). What the functions wrote of it: muster logs {name} --since 7d{without_record}"
    )
}
