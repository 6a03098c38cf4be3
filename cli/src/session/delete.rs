//! `delete`: says what would end, asks, and orders.

use muster_control::admin::answers::{DeleteDryRun, OrderedDelete, ShownInstance};
use muster_control::admin::{DeleteRequest, Request};
use serde_json::json;

use super::{Session, World, pretty, read};
use crate::args::{Delete, Order};
use crate::failure::Failure;
use crate::views;

impl<W: World> Session<'_, W> {
    pub(super) async fn delete(&mut self, order: &Delete) -> Result<String, Failure> {
        let shown: ShownInstance = read("show", self.show_instance(&order.name).await?)?;
        let name = shown.instance.name.to_string();
        let request = |reason: &str, by: Option<String>, dry_run| {
            json!(Request::Delete(DeleteRequest {
                name: name.clone(),
                reason: reason.to_owned(),
                by,
                force: order.force,
                bypass_github_unauthorized: order.bypass_github_unauthorized,
                kill_running_job: order.kill_running_job,
                dry_run,
            }))
        };
        let reason = order.order.reason.as_deref().unwrap_or("a dry run");
        let answer = self.answer(&request(reason, order.order.by.clone(), true)).await?;
        let would: DeleteDryRun = read("delete", answer.clone())?;
        let plan = views::orders::plan(&shown, &would, order, self.screen);
        if order.dry_run {
            return Ok(if self.json { pretty(&answer) } else { plan });
        }
        self.world.show(plan.trim_end());
        let Order { reason, by } = self.order(&order.order, "Why is it to end?")?;
        self.agreed_to_end(order, &name)?;
        let answer = self.answer(&request(&reason.unwrap_or_default(), by, false)).await?;
        if self.json {
            return Ok(pretty(&answer));
        }
        let ordered: OrderedDelete = read("delete", answer)?;
        Ok(views::orders::ordered(&ordered, self.world.now(), self.screen))
    }

    /// What may end a job or leave a machine behind is not agreed to by a key too many.
    fn agreed_to_end(&mut self, order: &Delete, name: &str) -> Result<(), Failure> {
        let is_harsh = order.force || order.kill_running_job;
        if order.yes || !is_harsh || !self.world.is_attended() {
            return self.agreed(order.yes, &format!("Delete {name}?"));
        }
        let typed = self.world.ask(&format!("Type {name} to delete it"))?;
        if typed.trim() == name { Ok(()) } else { Err(Failure::NotConfirmed) }
    }
}
