//! `audit`: the trail by time, page by page.

use muster_control::admin::answers::{AuditList, ShownInstance};
use muster_control::admin::{AuditRequest, Request};
use muster_domain::audit::Audit;
use muster_domain::time::Seconds;
use serde_json::{Value, json};

use super::{Session, World, pretty, read};
use crate::failure::Failure;
use crate::views;

/// Lines of one answer.
const LIMIT: u32 = 1_000;
/// Most of them: more is a matter for `--since`.
const MAX_PAGES: usize = 20;

impl<W: World> Session<'_, W> {
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
            let AuditList { lines: more, next } = read("audit", answer)?;
            // Lines of the moment where a page ends come twice.
            let last = lines.iter().rev().take_while(|line| Some(line.at) == until).count();
            let last = lines.split_off(lines.len() - last);
            let new: Vec<Audit> = more.into_iter().filter(|one| !last.contains(one)).collect();
            lines.extend(last.into_iter().chain(new));
            let ends = next.is_none() || next == until;
            if !ends && page == MAX_PAGES {
                self.world.say("There are more lines; a shorter --since shows its end.");
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

    /// What the trail calls it.
    async fn subject(&mut self, name: &str) -> Result<String, Failure> {
        if ["switches", "pools"].contains(&name) {
            return Ok(name.to_owned());
        }
        match self.show_instance(name).await {
            Ok(shown) => {
                Ok(read::<ShownInstance>("show", shown)?.instance.name.as_str().to_owned())
            }
            // The trail is kept for longer than records, and some machines never had one.
            Err(failure) if failure.code() == "not_found" => Ok(name.to_owned()),
            Err(failure) => Err(failure),
        }
    }
}
