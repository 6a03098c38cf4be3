//! `connect`: opens a shell on a machine with the AWS CLI. IAM decides who may do that.

use muster_domain::instance::State;

use super::Session;
use crate::failure::Failure;
use crate::world::{Cloud, Console, Workstation};

impl<W: Cloud + Console + Workstation> Session<'_, W> {
    pub(super) async fn shell(&mut self, name: &str, print: bool) -> Result<String, Failure> {
        let (machine, instance) = self.machine_of(name).await?;
        if instance.is_some_and(|one| one.state() == State::Deleted) {
            return Err(Failure::Unknown(format!(
                "Machine {machine} has ended. Its log: muster logs {name} --machine"
            )));
        }
        let stack = self.world.stack().await?;
        let found = self.deployed(&stack).await?;
        if found.and_then(|stack| stack.parameter("Sessions").map(str::to_owned)).as_deref()
            != Some("yes")
        {
            return Err(Failure::Unknown(format!(
                "Shells on machines of {stack} are disabled: its parameter Sessions is not yes. To \
                allow them on machines launched from then on: muster upgrade --sessions yes (their jobs get the same permissions, see docs/access.md)"
            )));
        }
        let line = ["ssm", "start-session", "--target", machine.as_str(), "--region"];
        let mut line: Vec<String> = line.map(str::to_owned).into();
        line.push(self.world.region());
        if print || !self.world.is_attended() {
            return Ok(format!("aws {}\n", line.join(" ")));
        }
        self.world.say(&format!(
            "A shell on {machine}. It closes when the machine ends, which is when its job ends."
        ));
        Err(self.world.hand_over("aws", &line))
    }
}
