//! `dead-letters`: shows and redrives the dead-letter queues.

use muster_sigv4::Call;
use serde_json::{Value, json};

use super::{Session, pretty};
use crate::args::{Attribution, DeadLettersArgs};
use crate::failure::Failure;
use crate::orders::Order;
use crate::orders::plan::OrderPlan;
use crate::queues::{self, Services};
use crate::views::dead_letters::{self, DeadLetterQueue};
use crate::world::{Cloud, Console};

impl<W: Cloud> Services for Session<'_, W> {
    async fn calls(&mut self, calls: Vec<Call>) -> Result<Vec<Result<Value, Failure>>, Failure> {
        self.world.aws(calls).await
    }
}

impl<W: Cloud + Console> Session<'_, W> {
    pub(super) async fn dead_letters(
        &mut self,
        order: &DeadLettersArgs,
    ) -> Result<String, Failure> {
        let stack = self.world.stack().await?;
        let mut urls = queues::urls(self, &stack).await?;
        if urls.is_empty() {
            self.world.other_stack().await?;
            let stack = self.world.stack().await?;
            urls = queues::urls(self, &stack).await?;
        }
        urls.retain(|(queue, _)| order.queue.is_none_or(|wanted| wanted == *queue));
        let all = queues::counted(self, &urls).await?;
        match all.as_slice() {
            [] => Err(queues::none()),
            [one] if order.show => self.dead_letters_shown(one).await,
            [one] if order.redrive => {
                let plan = OrderPlan::Redrive(one.clone());
                let redrive = Order::Redrive { queue: one.queue };
                self.ordered(&redrive, &Attribution::default(), order.yes, Some(plan)).await
            }
            all if self.json => {
                let all: Vec<Value> = all.iter().map(DeadLetterQueue::json).collect();
                Ok(pretty(&json!({ "version": 1, "ok": true, "queues": all })))
            }
            all => Ok(dead_letters::list(all, self.screen)),
        }
    }

    async fn dead_letters_shown(&mut self, queue: &DeadLetterQueue) -> Result<String, Failure> {
        let found = queues::looked_at(self, queue).await?;
        if self.json {
            return Ok(pretty(&json!({ "version": 1, "ok": true, "messages": found })));
        }
        let messages = queues::messages(&found);
        Ok(dead_letters::messages(&messages, queue, self.world.now(), self.screen))
    }
}
