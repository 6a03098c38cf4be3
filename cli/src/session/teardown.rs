//! `teardown`: deletes the stack after its machines have ended. The stack's own state records the
//! progress, so an interrupted teardown continues.

use muster_api::answers::{InstanceList, StackStatus};
use muster_api::{ListRequest, Request};
use muster_domain::switches::SwitchedOff;
use muster_sigv4::Call;
use serde_json::{Value, json};

use super::Session;
use super::machine_log::PREFIX as MACHINE_LOGS;
use crate::args::TeardownArgs;
use crate::failure::{Failure, parsed};
use crate::setup::stack::{ExistingStack, call, cause};
use crate::views::setup::{self as views, RemainingImages};
use crate::world::{Cloud, Console};

/// The reason in the audit trail, which outlives the stack.
const REASON: &str = "teardown of the stack";

impl<W: Cloud + Console> Session<'_, W> {
    pub(super) async fn teardown(&mut self, order: &TeardownArgs) -> Result<String, Failure> {
        self.world.stage("the beginning");
        let stack = self.world.stack().await?;
        let Some(found) = self.deployed(&stack).await? else {
            let region = self.world.region();
            return Err(Failure::Unknown(format!("There is no stack {stack} in {region}.")));
        };
        self.agreed_to_take_down(order, &stack)?;
        let is_ending = found.status == "DELETE_IN_PROGRESS";
        let found = match found.is_moving() && !is_ending {
            true => self.settled(&stack, found).await?,
            false => found,
        };
        // While the stack is being deleted, the function does not answer and no machine is
        // launched.
        let may_launch = found.may_launch();
        if may_launch {
            self.world.stage("no new machines");
            self.no_launches(order).await?;
            let has_images = self.delete_images(REASON, order.by.clone()).await?;
            self.world.stage("the last machines");
            self.no_instances().await?;
            if has_images {
                self.world.stage("machine images");
                self.no_images().await?;
            }
        }
        self.world.stage("machines at EC2");
        self.no_machines(&stack).await?;
        self.world.stage("GitHub App");
        if may_launch {
            self.tell_of_app().await;
            self.agreed(order.yes, &format!("Delete stack {stack} now?"))?;
        }
        self.world.stage("deletion");
        self.no_stack(&stack, &found).await?;
        let images = self.images_at_ec2(&stack).await;
        let notices = self.no_notices(&stack).await;
        let (table, logs) = (found.output("ControlTableName"), found.output(MACHINE_LOGS));
        Ok(views::left(table, logs, notices.as_deref(), &images, self.screen))
    }

    /// Asks for confirmation: the user types the stack's name.
    fn agreed_to_take_down(&mut self, order: &TeardownArgs, stack: &str) -> Result<(), Failure> {
        if order.yes || !self.world.is_attended() {
            return self.agreed(order.yes, &format!("Tear down stack {stack}?"));
        }
        let (region, typed) = (self.world.region(), format!("Type {stack} to tear it down"));
        self.world.say(&format!(
            "Stack {stack} in {region}: launches stop, running jobs finish, the machine images are \
            deleted, and the stack is deleted after the last machine has ended."
        ));
        let typed = self.world.ask(&typed)?;
        if typed.trim() == stack { Ok(()) } else { Err(Failure::NotConfirmed) }
    }

    async fn no_launches(&mut self, order: &TeardownArgs) -> Result<(), Failure> {
        let status: StackStatus = self.asked("status", Request::Status { github: false }).await?;
        // A pause with an end would allow new machines while the last ones end.
        let stays_off = |off: &SwitchedOff| off.until.is_none();
        if !status.overview.switches.launches.as_ref().is_some_and(stays_off) {
            let request =
                json!({ "action": "switch", "launches": "off", "reason": REASON, "by": order.by });
            self.answer(&request).await?;
        }
        self.world.say("✓ launches are off");
        if status.overview.switches.deletes.is_some() {
            self.world.say("! deletes are off, so no machine is terminated: muster resume deletes");
        }
        Ok(())
    }

    /// Waits until no instance and no orphan is recorded.
    async fn no_instances(&mut self) -> Result<(), Failure> {
        let mut told = String::new();
        loop {
            let request = Request::List(ListRequest::default());
            let list: InstanceList = self.asked("list", request).await?;
            let status = json!(Request::Status { github: false });
            let status: StackStatus = parsed("status", self.answer(&status).await?)?;
            let orphans = status.orphans.iter().map(|orphan| orphan.machine.to_string());
            let mut left: Vec<String> =
                list.instances.iter().map(|one| one.name.to_string()).collect();
            left.extend(orphans);
            if left.is_empty() && list.unreadable.is_empty() {
                self.world.say("✓ no instances or orphans are left");
                return Ok(());
            }
            left.extend(list.unreadable);
            let now = views::waits_for(&left);
            if now != told {
                self.world.say(&now);
                told = now;
            }
            self.pause().await?;
        }
    }

    /// Waits until EC2 has no machine with the stack's tag, which includes machines without a
    /// record.
    async fn no_machines(&mut self, stack: &str) -> Result<(), Failure> {
        let mut told = String::new();
        loop {
            let answer = self.call(machines(stack)).await?;
            let reservations = answer["reservationSet"].as_array().into_iter().flatten();
            let all =
                reservations.flat_map(|one| one["instancesSet"].as_array().into_iter().flatten());
            let ids: Vec<String> =
                all.filter_map(|one| one["instanceId"].as_str().map(str::to_owned)).collect();
            if ids.is_empty() {
                self.world.say("✓ EC2 has no machine of the stack");
                return Ok(());
            }
            let now = views::waits_for_machines(&ids);
            if now != told {
                self.world.say(&now);
                told = now;
            }
            self.pause().await?;
        }
    }

    /// Returns the stack's images that EC2 still has: CloudFormation deletes none.
    async fn images_at_ec2(&mut self, stack: &str) -> RemainingImages {
        match self.call(images(stack)).await {
            Ok(answer) => {
                let all = answer["imagesSet"].as_array().into_iter().flatten();
                let ids = all.filter_map(|one| one["imageId"].as_str().map(str::to_owned));
                RemainingImages::Known(ids.collect())
            }
            Err(_) => RemainingImages::Unknown(stack.to_owned()),
        }
    }

    /// Reminds the user to delete the Apps: no API deletes Apps.
    async fn tell_of_app(&mut self) {
        let main = self.answer(&json!({ "action": "github" })).await.unwrap_or_default();
        let others = main["other_apps"].as_array().cloned().unwrap_or_default();
        self.tell_of_one(&main);
        for name in others {
            let asked = self.answer(&json!({ "action": "github", "app": name })).await;
            self.tell_of_one(&asked.unwrap_or_default());
        }
    }

    fn tell_of_one(&mut self, answer: &Value) {
        let page = answer["app"]["html_url"].as_str();
        let which = page.map(|page| format!(" ({page})")).unwrap_or_default();
        self.world.say(&format!(
            "Now delete the GitHub App{which}, or disable its webhook: App settings, Advanced, \
            Delete GitHub App"
        ));
    }

    /// Deletes the notification address, a secret that is not part of the stack and has a cost.
    /// Returns its name if that fails.
    async fn no_notices(&mut self, stack: &str) -> Option<String> {
        match self.notices_off(stack).await {
            Ok(true) => {
                self.world.say("✓ The notification address is deleted");
                None
            }
            Ok(false) => None,
            Err(failure) => {
                self.world.say(&format!("! {}", failure.sentence()));
                Some(super::notices::name(stack))
            }
        }
    }

    async fn no_stack(&mut self, stack: &str, found: &ExistingStack) -> Result<(), Failure> {
        if found.status != "DELETE_IN_PROGRESS" {
            self.call(call("DeleteStack", &[("StackName", &found.id)])).await?;
        }
        self.world.say(&format!("Deleting stack {stack}"));
        loop {
            self.pause().await?;
            match self.deployed(&found.id).await? {
                Some(one) if one.status == "DELETE_FAILED" => {
                    let why = cause(&self.events(&found.id).await);
                    let why = why.map(|(resource, reason)| format!(" at {resource}: {reason}"));
                    let said = why.unwrap_or(format!(": {}", one.reason));
                    return Err(Failure::Ended(format!(
                        "The deletion failed{said}\nOnce that is fixed: muster teardown"
                    )));
                }
                // The previous status may be shown for a moment.
                Some(one) if one.status != "DELETE_COMPLETE" => {}
                Some(_) | None => {
                    self.world.say(&format!("✓ stack {stack} is deleted"));
                    return Ok(());
                }
            }
        }
    }
}

/// Returns the call that lists machines with the stack's tag that have not ended.
fn machines(stack: &str) -> Call {
    let mut fields = vec![
        ("Action", "DescribeInstances"),
        ("Version", "2016-11-15"),
        ("Filter.1.Name", "tag:muster:stack"),
        ("Filter.1.Value.1", stack),
        ("Filter.2.Name", "instance-state-name"),
    ];
    fields.extend([
        ("Filter.2.Value.1", "pending"),
        ("Filter.2.Value.2", "running"),
        ("Filter.2.Value.3", "stopping"),
        ("Filter.2.Value.4", "stopped"),
    ]);
    Call::query("ec2", &fields)
}

/// Returns the call that lists images with the stack's tag.
fn images(stack: &str) -> Call {
    Call::query(
        "ec2",
        &[
            ("Action", "DescribeImages"),
            ("Version", "2016-11-15"),
            ("Owner.1", "self"),
            ("Filter.1.Name", "tag:muster:stack"),
            ("Filter.1.Value.1", stack),
        ],
    )
}
