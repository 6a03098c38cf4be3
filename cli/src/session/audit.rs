//! `audit`: the audit trail, newest first, read page by page.

use muster_api::answers::{AuditList, ShownInstance};
use muster_api::{AuditRequest, Request};
use muster_domain::audit::Audit;
use muster_domain::time::Seconds;
use serde_json::{Value, json};

use super::{Session, pretty};
use crate::failure::{Failure, parsed};
use crate::views;
use crate::world::{Cloud, Console};

/// Maximum number of lines in one answer.
const LIMIT: u32 = 1_000;
/// Maximum number of pages; for more, use a shorter `--since`.
const MAX_PAGES: usize = 20;

impl<W: Cloud + Console> Session<'_, W> {
    pub(super) async fn audit(
        &mut self,
        name: Option<&str>,
        since: Seconds,
    ) -> Result<String, Failure> {
        let subject = match name {
            None => None,
            Some(name) => Some(self.subject(name).await?),
        };
        let since = Some(self.world.now() - since);
        let (mut lines, mut until, mut pages): (Vec<Audit>, _, Vec<Value>) =
            (Vec::new(), None, Vec::new());
        for page in 1..=MAX_PAGES {
            let subject = subject.clone();
            let request = Request::Audit(AuditRequest { subject, since, until, limit: LIMIT });
            let answer = self.answer(&json!(request)).await?;
            if self.json {
                pages.push(answer.clone());
            }
            let AuditList { lines: more, next } = parsed("audit", answer)?;
            // Lines at the time where a page ends are returned twice.
            let last = lines.iter().rev().take_while(|line| Some(line.at) == until).count();
            let last = lines.split_off(lines.len() - last);
            let new: Vec<Audit> = more.into_iter().filter(|one| !last.contains(one)).collect();
            lines.extend(last.into_iter().chain(new));
            let ends = next.is_none() || next == until;
            if !ends && page == MAX_PAGES {
                self.world
                    .say("Older lines are not shown; use a shorter --since to see a whole period.");
            }
            if ends {
                break;
            }
            until = next;
        }
        if self.json {
            return Ok(pages.iter().map(pretty).collect());
        }
        Ok(views::trail(&lines, self.world.now(), self.screen))
    }

    /// Returns the subject that the audit trail uses for a name.
    async fn subject(&mut self, name: &str) -> Result<String, Failure> {
        if ["switches", "pools", "images"].contains(&name) {
            return Ok(name.to_owned());
        }
        match self.show_instance(name).await {
            Ok(shown) => {
                Ok(parsed::<ShownInstance>("show", shown)?.instance.name.as_str().to_owned())
            }
            // The trail is kept longer than records, and some subjects never had one.
            Err(failure) if failure.code() == "not_found" => Ok(name.to_owned()),
            Err(failure) => Err(failure),
        }
    }
}
