//! `delete`: shows what would be deleted, asks for confirmation, and gives the order.

use muster_api::answers::{DeleteDryRun, OrderedDelete, ShownInstance};
use muster_api::{DeleteRequest, Request};
use serde_json::json;

use super::{Session, World, pretty, read};
use crate::args::{Delete, Order};
use crate::failure::Failure;
use crate::views;

impl<W: World> Session<'_, W> {
    pub(super) async fn delete(&mut self, order: &Delete) -> Result<String, Failure> {
        let shown: ShownInstance = read("show", self.show_instance(&order.name).await?)?;
        let name = shown.instance.name.to_string();
        let request = DeleteRequest {
            name: name.clone(),
            reason: order.order.reason.clone().unwrap_or_else(|| "a dry run".to_owned()),
            by: order.order.by.clone(),
            force: order.force,
            bypass_github_unauthorized: order.bypass_github_unauthorized,
            kill_running_job: order.kill_running_job,
            dry_run: true,
        };
        let answer = self.answer(&json!(Request::Delete(request.clone()))).await?;
        let would: DeleteDryRun = read("delete", answer.clone())?;
        let plan = views::orders::plan(&shown, &would, order, self.screen);
        if order.dry_run {
            return Ok(if self.json { pretty(&answer) } else { plan });
        }
        self.world.show(plan.trim_end());
        let Order { reason, by } = self.order(&order.order, "Why should it be deleted?")?;
        self.agreed_to_end(&request, order.yes)?;
        let reason = reason.unwrap_or_default();
        let request = Request::Delete(DeleteRequest { reason, by, dry_run: false, ..request });
        let answer = self.answer(&json!(request)).await?;
        if self.json {
            return Ok(pretty(&answer));
        }
        let ordered: OrderedDelete = read("delete", answer)?;
        Ok(views::orders::ordered(&ordered, self.world.now(), self.screen))
    }

    /// Asks for confirmation. A risky order requires typing the name.
    fn agreed_to_end(&mut self, request: &DeleteRequest, yes: bool) -> Result<(), Failure> {
        let name = &request.name;
        if yes || !request.is_risky() || !self.world.is_attended() {
            return self.agreed(yes, &format!("Delete {name}?"));
        }
        let typed = self.world.ask(&format!("Type {name} to delete it"))?;
        if typed.trim() == name { Ok(()) } else { Err(Failure::NotConfirmed) }
    }
}
