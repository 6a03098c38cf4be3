//! Evidence about a failed canary: why EC2 refused it, its console output, and its subnet's route
//! to the internet.

use muster_domain::ids::MachineId;
use muster_domain::instance::console_text;
use muster_sigv4::Call;
use serde_json::Value;

use super::super::Session;
use super::super::batch::CallBatch;
use super::super::doctor::{deployed, known, network};
use crate::doctor::canary::Course;
use crate::doctor::canary::refusal::{self, Decoded};
use crate::doctor::canary::report::{Evidence, Watched};
use crate::doctor::facts::network::NetworkParameters;
use crate::doctor::network::of_network;
use crate::doctor::{Check, CheckGroup, Fact, Unknown, unasked};
use crate::failure::Failure;
use crate::world::Cloud;

/// Number of console lines that are shown.
const LINES: usize = 15;

/// Returns the call that describes the machine.
pub(super) fn machine(id: &MachineId) -> Call {
    ec2("DescribeInstances", &[("InstanceId.1", id.as_str())])
}

fn ec2(action: &str, fields: &[(&str, &str)]) -> Call {
    Call::query("ec2", &[&[("Action", action), ("Version", "2016-11-15")], fields].concat())
}

impl<W: Cloud> Session<'_, W> {
    pub(super) async fn evidence(
        &mut self,
        watched: &Watched,
        course: Course,
    ) -> Result<Evidence, Failure> {
        let mut evidence = Evidence::default();
        match course {
            Course::Refused => evidence.decoded = self.decoded(watched).await?,
            Course::Mute => {
                evidence.console = Some(self.console(watched).await?);
                evidence.network = self.network_of_stack().await?;
            }
            Course::Waits | Course::Listens | Course::Taken | Course::Unasked | Course::Lost => {}
        }
        Ok(evidence)
    }

    async fn decoded(&mut self, watched: &Watched) -> Result<Option<Fact<Decoded>>, Failure> {
        let error = watched.shown.instance.last_error.as_ref();
        let Some(code) = error.and_then(|error| refusal::code(&error.message)) else {
            return Ok(None);
        };
        let fields = [
            ("Action", "DecodeAuthorizationMessage"),
            ("Version", "2011-06-15"),
            ("EncodedMessage", code),
        ];
        let answer = self.fact_of(Call::query("sts", &fields)).await?;
        let odd = || Unknown::NoAnswer("AWS decoded it into something else".to_owned());
        Ok(Some(answer.and_then(|answer| Decoded::read(&answer).ok_or_else(odd))))
    }

    /// Returns the console output that the reaper stored, or else the current one.
    async fn console(&mut self, watched: &Watched) -> Result<Fact<Vec<String>>, Failure> {
        let one = &watched.shown.instance;
        let text = match (&one.console, one.machine()) {
            (Some(kept), _) => Ok(kept.clone()),
            (None, None) => Ok(String::new()),
            (None, Some(id)) => self.asked_console(id).await?,
        };
        Ok(text.map(|text| {
            let lines: Vec<&str> =
                text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            let last = &lines[lines.len().saturating_sub(LINES)..];
            last.iter().map(|line| (*line).to_owned()).collect()
        }))
    }

    async fn asked_console(&mut self, id: &MachineId) -> Result<Fact<String>, Failure> {
        let call = |fields: &[(&str, &str)]| ec2("GetConsoleOutput", fields);
        let latest = call(&[("InstanceId", id.as_str()), ("Latest", "true")]);
        let answer = match self.call(latest).await {
            // For machines that are not on Nitro, EC2 returns only the stored output.
            Err(Failure::Service { code, .. }) if code == "UnsupportedOperation" => {
                self.fact_of(call(&[("InstanceId", id.as_str())])).await?
            }
            Err(failure @ Failure::NoCredentials { .. }) => return Err(failure),
            answer => answer.map_err(Unknown::from),
        };
        Ok(answer.and_then(|answer| {
            let encoded: String =
                answer["output"].as_str().unwrap_or_default().split_whitespace().collect();
            match aws_smithy_types::base64::decode(encoded) {
                Ok(text) => Ok(console_text(&String::from_utf8_lossy(&text))),
                Err(error) => Err(Unknown::NoAnswer(format!("EC2's answer: {error}"))),
            }
        }))
    }

    async fn network_of_stack(&mut self) -> Result<Vec<Check>, Failure> {
        let stack = self.world.stack().await?;
        let (batch, region) = (CallBatch::default(), self.world.region());
        let network = async {
            match known(&deployed(&batch, &stack).await) {
                Ok(deployed) => {
                    Ok(network::facts(&batch, NetworkParameters::read(deployed), &stack).await)
                }
                Err(unknown) => Err(unknown),
            }
        };
        Ok(match self.together(&batch, network).await? {
            Ok(network) => of_network(&network, &region, &[]),
            Err(unknown) => vec![unasked(CheckGroup::Network, "subnets", &unknown)],
        })
    }

    async fn fact_of(&mut self, call: Call) -> Result<Fact<Value>, Failure> {
        match self.call(call).await {
            Err(failure @ Failure::NoCredentials { .. }) => Err(failure),
            answer => Ok(answer.map_err(Unknown::from)),
        }
    }
}
