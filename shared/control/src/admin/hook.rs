//! The App's webhook: tests it, removes it, and replaces its secret.

use muster_api::answers::{Answer, TestedDelivery, TestedHook};
use muster_api::{AdminError, AdminErrorCode, call_failure};
use muster_domain::app::delivery_remedy;
use muster_domain::ids::AppName;
use muster_domain::time::{Seconds, Time};

use super::Admin;
use super::github::{NOWHERE, SUBJECT, not_set, unavailable};
use crate::context::Ports;
use crate::ports::{AppSetup, Directory, Github as _, HookAttempt, Operations as _};

/// Interval between two reads of GitHub's deliveries.
const LOOKS_APART: Seconds = Seconds(1);
/// Maximum number of reads: GitHub redelivers within seconds.
const LOOKS: u32 = 15;
/// Number of audit lines read to find a rotation in progress.
const LINES: u32 = 50;

impl<P: Ports<Github: Directory + AppSetup>> Admin<'_, P> {
    /// Points the webhook at an address that does not exist.
    pub(super) async fn remove_hook(
        &self,
        app: AppName,
        by: &str,
        now: Time,
    ) -> Result<(), AdminError> {
        self.note(app, "the webhook is removed", by, now).await?;
        let removed = self.context.github.set_hook(app, NOWHERE, None).await;
        removed.map_err(|problem| {
            let error = not_set(problem);
            let by_hand = "untick Active in the App's settings (General, Webhook)";
            AdminError { message: format!("{}; {by_hand}", error.message), ..error }
        })
    }

    /// Requests redelivery of the newest event and waits for the result. This tests address,
    /// certificate, gateway and secret without a job.
    pub(super) async fn test_hook(&self, app: AppName) -> Result<Answer, AdminError> {
        let github = self.context.github;
        let before = self.attempts(app).await?;
        let Some(newest) = before.first() else {
            let wrong = Some(NEVER_SENT.to_owned());
            return Ok(Answer::TestedHook(TestedHook { tested: None, wrong }));
        };
        let is_repeated = github.redeliver(app, newest.id).await.map_err(|trouble| {
            let (code, why) = call_failure("GitHub", &trouble);
            AdminError::new(code, why)
        })?;
        if !is_repeated {
            let message = "GitHub cannot redeliver its newest event; try again";
            return Err(AdminError::new(AdminErrorCode::Unavailable, message));
        }
        for _ in 0..LOOKS {
            github.pause(LOOKS_APART).await;
            let is_new = |one: &HookAttempt| {
                one.guid == newest.guid && before.iter().all(|old| old.id != one.id)
            };
            if let Some(again) = self.attempts(app).await?.into_iter().find(is_new) {
                return Ok(Answer::TestedHook(self.tested(app, again)));
            }
        }
        let wrong = Some(format!(
            "GitHub did not redeliver its {:?} event within {LOOKS} s; try again",
            newest.event
        ));
        Ok(Answer::TestedHook(TestedHook { tested: None, wrong }))
    }

    async fn attempts(&self, app: AppName) -> Result<Vec<HookAttempt>, AdminError> {
        self.context.github.hook_attempts(app).await.map_err(|trouble| {
            let (code, why) = call_failure("GitHub", &trouble);
            AdminError::new(code, why)
        })
    }

    fn tested(&self, app: AppName, again: HookAttempt) -> TestedHook {
        let HookAttempt { event, status, at, .. } = again;
        let is_taken = status.is_some_and(|status| (200..300).contains(&status));
        let wrong = (!is_taken).then(|| {
            let met = match status {
                Some(status) => format!("was answered {status}"),
                None => "got no connection".to_owned(),
            };
            let remedy = delivery_remedy(status, &self.context.settings.stack, app);
            format!("GitHub's {event:?} {met}: {remedy}")
        });
        TestedHook { tested: Some(TestedDelivery { event, status, at }), wrong }
    }

    /// Replaces the secret of all Apps' webhooks: first stores a new one, so that the webhook accepts
    /// signatures with either, and then sends it to GitHub. If an earlier rotation stored a secret
    /// without sending it, sends that one: with a third secret, the webhook would reject what
    /// GitHub signs.
    pub(super) async fn rotate_secret(&self, by: &str, now: Time) -> Result<(), AdminError> {
        let github = self.context.github;
        let lines = self.context.table.audit(SUBJECT, LINES).await?;
        let last = lines.iter().find_map(|line| Rotation::read(&line.why));
        let current =
            github.signing_secret(AppName::MAIN).await.map_err(|error| unavailable(&error))?;
        let is_kept = matches!(last, Some(Rotation::Begun(of)) if of != current.since.to_string());
        if !is_kept {
            let begun = Rotation::Begun(current.since.to_string());
            self.note(AppName::MAIN, &begun.line(), by, now).await?;
            github.renew_signing_secret().await.map_err(|error| unavailable(&error))?;
        }
        self.point_hook(AppName::MAIN).await.map_err(|error| {
            let message = format!(
                "the stack has a new secret, but GitHub still signs with the previous one, which is \
                 accepted for a day: {}. Repeat the request to continue",
                error.message
            );
            AdminError { message, ..error }
        })?;
        // An App that does not answer must not keep the secret from being replaced again.
        let mut failed = None;
        for app in self.context.settings.other_apps.iter().copied() {
            if let Err(error) = self.point_hook(app).await {
                let message = format!(
                    "the secret is replaced, but GitHub still signs the events of App {app} with the \
                     previous one, which is accepted for a day: {}. Then: muster github --app {app} \
                     hook set",
                    error.message
                );
                failed = Some(AdminError { message, ..error });
            }
        }
        // One second later, to sort after the line that it completes: both use the same clock.
        self.note(AppName::MAIN, &Rotation::Done.line(), by, now + Seconds(1)).await?;
        failed.map_or(Ok(()), Err)
    }
}

const NEVER_SENT: &str = "GitHub never sent an event: the webhook is not active, and no API can activate it. Tick Active in \
    the App's settings (General, Webhook)";

/// The progress of a secret rotation, as recorded in the audit trail.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Rotation {
    /// The secret created at this time is being replaced.
    Begun(String),
    /// GitHub signs with the new secret.
    Done,
}

impl Rotation {
    const BEGUN: &str = "replacing the webhook's secret, created at ";
    const DONE: &str = "GitHub signs with the new secret";

    fn line(&self) -> String {
        match self {
            Self::Begun(of) => format!("{}{of}", Self::BEGUN),
            Self::Done => Self::DONE.to_owned(),
        }
    }

    fn read(line: &str) -> Option<Self> {
        match line.strip_prefix(Self::BEGUN) {
            Some(of) => Some(Self::Begun(of.to_owned())),
            None => (line == Self::DONE).then_some(Self::Done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Rotation;

    #[test]
    fn a_rotation_is_read_as_it_was_written() {
        for rotation in [Rotation::Begun("2026-11-25T18:00:00.000Z".to_owned()), Rotation::Done] {
            assert_eq!(Rotation::read(&rotation.line()), Some(rotation));
        }
        assert_eq!(Rotation::read("App 4242 is connected"), None);
    }
}
