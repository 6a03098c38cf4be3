//! Carries out an order: shows its plan, asks for what is missing, sends it, and reports the outcome.

use muster_api::answers::ShownInstance;
use muster_api::{GithubRequest, Request, To};
use muster_domain::time::Seconds;
use serde_json::{Value, json};

use super::{Session, pretty};
use crate::args::{Attribution, DeleteArgs, SwitchArgs};
use crate::failure::{Failure, parsed};
use crate::orders::outcome::Outcome;
use crate::orders::plan::{OrderPlan, with_version};
use crate::orders::{DeleteFlags, Details, Lookup, Order, Reason, Risk, Switched};
use crate::queues;
use crate::world::{Cloud, Console};

impl<W: Cloud + Console> Session<'_, W> {
    pub(super) async fn delete(&mut self, delete: &DeleteArgs) -> Result<String, Failure> {
        let found = self.show_instance(&delete.name).await?;
        let shown: ShownInstance = parsed("show", found.clone())?;
        let order = Order::Delete {
            name: shown.instance.name,
            flags: DeleteFlags {
                force: delete.force,
                kill: delete.kill_running_job,
                bypass: delete.bypass_github_unauthorized,
            },
        };
        let DeleteArgs { attribution, dry_run, yes, .. } = delete;
        let plan = self.plan(&order, attribution.by.as_deref(), Some(found)).await?;
        if *dry_run {
            return Ok(self.shown_plan(&order, &plan));
        }
        self.ordered(&order, attribution, *yes, Some(plan)).await
    }

    /// Pauses or resumes, at once: a plan would cost a query, and the stack may be in trouble.
    pub(super) async fn switch(
        &mut self,
        switch: &SwitchArgs,
        to: To,
        length: Option<Seconds>,
    ) -> Result<String, Failure> {
        let read = |name: &String| {
            let unknown = || Failure::Usage(format!("{name:?} is not a pool's name"));
            Switched::read(name).ok_or_else(unknown)
        };
        let what = switch.what.iter().map(read).collect::<Result<_, _>>()?;
        let order = Order::Switch { what, to };
        let details = self.details(&order, &switch.attribution, length)?;
        self.sent(&order, &details, None).await
    }

    /// Returns what an order would do. `found` is the answer to its lookup, if that is known already.
    pub(super) async fn plan(
        &mut self,
        order: &Order,
        by: Option<&str>,
        found: Option<Value>,
    ) -> Result<OrderPlan, Failure> {
        let found = match (found, order.lookup()) {
            (Some(found), _) => Some(found),
            (None, None) => None,
            (None, Some(Lookup::Overview)) => Some(self.answer(&json!(Request::Overview)).await?),
            (None, Some(Lookup::Github(app))) => {
                let request = GithubRequest { app, ..GithubRequest::default() };
                Some(self.answer(&json!(Request::Github(request))).await?)
            }
            (None, Some(Lookup::Instance(name))) => Some(self.show_instance(name.as_str()).await?),
            (None, Some(Lookup::DeadLetters)) => {
                let stack = self.world.stack().await?;
                Some(queues::told(self, &stack, None).await?)
            }
        };
        let would = match order.dry_run(by) {
            Some(request) => Some(self.answer(&request).await?),
            None => None,
        };
        OrderPlan::read(order, found, would)
    }

    /// Shows an order's plan, asks for its reason and its confirmation, and sends it. An order without an effect is not
    /// sent.
    pub(super) async fn ordered(
        &mut self,
        order: &Order,
        attribution: &Attribution,
        yes: bool,
        plan: Option<OrderPlan>,
    ) -> Result<String, Failure> {
        let plan = match (plan, order.risk()) {
            (None, Risk::Confirm | Risk::Type(_)) => {
                Some(self.plan(order, attribution.by.as_deref(), None).await?)
            }
            (plan, _) => plan,
        };
        if let Some(plan) = &plan {
            if let Some(why) = plan.blocked() {
                return Err(Failure::Ended(why));
            }
            if plan.is_empty() {
                return Ok(self.shown_plan(order, plan));
            }
            self.world.show(plan.page(order, self.screen).trim_end());
        }
        let details = self.details(order, attribution, None)?;
        if !plan.as_ref().is_some_and(OrderPlan::is_unchanged) {
            self.confirmed(order, yes)?;
        }
        self.sent(order, &details, plan.as_ref()).await
    }

    pub(super) fn shown_plan(&self, order: &Order, plan: &OrderPlan) -> String {
        if self.json { pretty(&plan.json()) } else { plan.page(order, self.screen) }
    }

    /// Returns what goes with an order; prompts for a missing reason.
    fn details(
        &mut self,
        order: &Order,
        attribution: &Attribution,
        length: Option<Seconds>,
    ) -> Result<Details, Failure> {
        let Attribution { reason, by } = attribution.clone();
        let reason = match (order.reason(), reason) {
            (Reason::Required, None) if self.world.is_attended() => Some(self.ask_reason()?),
            (Reason::Required, None) => {
                return Err(Failure::Usage("Pass a reason: --reason \"…\"".to_owned()));
            }
            (_, reason) => reason,
        };
        Ok(Details { reason, by, length })
    }

    /// Asks for the confirmation that an order requires.
    pub(super) fn confirmed(&mut self, order: &Order, yes: bool) -> Result<(), Failure> {
        match order.risk() {
            Risk::None => Ok(()),
            Risk::Type(name) if !yes && self.world.is_attended() => {
                let typed =
                    self.world.ask(&format!("{}: type the name to confirm", order.title()))?;
                if typed.trim() == name { Ok(()) } else { Err(Failure::NotConfirmed) }
            }
            Risk::Confirm | Risk::Type(_) => self.agreed(yes, &format!("{}?", order.title())),
        }
    }

    async fn sent(
        &mut self,
        order: &Order,
        details: &Details,
        plan: Option<&OrderPlan>,
    ) -> Result<String, Failure> {
        let answer = match (order.request(details), plan) {
            (None, Some(OrderPlan::Redrive(queue))) => {
                queues::sent_back(self, queue).await?;
                with_version(json!(queue))
            }
            (Some(request), _) => self.answer(&request).await?,
            (None, _) => return Err(queues::none()),
        };
        if self.json {
            return Ok(pretty(&answer));
        }
        let now = self.world.now();
        match Outcome::read(order, answer, now)? {
            Outcome::Failed(text) => Err(Failure::Ended(text)),
            outcome => Ok(outcome.page(now, self.screen)),
        }
    }
}
