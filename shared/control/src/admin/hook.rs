//! The App's webhook: tested, removed, and given another secret.

use muster_domain::app::delivery_remedy;
use muster_domain::time::{Seconds, Time};

use super::answers::{Answer, TestedDelivery, TestedHook};
use super::github::{SUBJECT, not_set, unavailable};
use super::resolve::told;
use super::{Admin, AdminError, AdminErrorCode};
use crate::context::Ports;
use crate::ports::{AppSetup, Directory, Github as _, HookAttempt, Operations as _};

/// Nobody is there. GitHub has no call that takes a webhook's address away or switches it off.
/// Source: datatracker.ietf.org/doc/html/rfc2606 and docs.github.com/en/rest/apps/webhooks
const NOWHERE: &str = "https://muster.invalid/removed";
/// Between two looks at what GitHub has delivered.
const LOOKS_APART: Seconds = Seconds(1);
/// How often it is looked at: GitHub repeats a delivery within seconds.
const LOOKS: u32 = 15;
/// How many lines of the audit trail are read for a rotation that was begun.
const LINES: u32 = 50;

impl<P: Ports<Github: Directory + AppSetup>> Admin<'_, P> {
    /// Has GitHub send events where nobody is.
    pub(super) async fn remove_hook(&self, by: &str, now: Time) -> Result<(), AdminError> {
        self.note("the webhook is pointed nowhere", by, now).await?;
        let removed = self.context.github.set_hook(NOWHERE, None).await;
        removed.map_err(|problem| {
            let error = not_set(problem);
            let by_hand = "untick Active in the App's settings (General, Webhook)";
            AdminError { message: format!("{}; {by_hand}", error.message), ..error }
        })
    }

    /// Has the newest delivery repeated, and waits for what comes of it. So address, certificate,
    /// gateway and secret are proved without a job.
    pub(super) async fn test_hook(&self) -> Result<Answer, AdminError> {
        let github = self.context.github;
        let before = self.attempts().await?;
        let Some(newest) = before.first() else {
            let wrong = Some(NEVER_SENT.to_owned());
            return Ok(Answer::TestedHook(TestedHook { tested: None, wrong }));
        };
        let is_repeated = github.redeliver(newest.id).await.map_err(|trouble| {
            let (code, told) = told("GitHub", &trouble);
            AdminError::new(code, told)
        })?;
        if !is_repeated {
            let message = "GitHub does not repeat its newest delivery; try again";
            return Err(AdminError::new(AdminErrorCode::Unavailable, message));
        }
        for _ in 0..LOOKS {
            github.pause(LOOKS_APART).await;
            let is_new = |one: &HookAttempt| {
                one.guid == newest.guid && before.iter().all(|old| old.id != one.id)
            };
            if let Some(again) = self.attempts().await?.into_iter().find(is_new) {
                return Ok(Answer::TestedHook(self.tested(again)));
            }
        }
        let wrong = Some(format!(
            "GitHub has not repeated its {:?} within {LOOKS} s; try again",
            newest.event
        ));
        Ok(Answer::TestedHook(TestedHook { tested: None, wrong }))
    }

    async fn attempts(&self) -> Result<Vec<HookAttempt>, AdminError> {
        self.context.github.hook_attempts().await.map_err(|trouble| {
            let (code, told) = told("GitHub", &trouble);
            AdminError::new(code, told)
        })
    }

    fn tested(&self, again: HookAttempt) -> TestedHook {
        let HookAttempt { event, status, at, .. } = again;
        let is_taken = status.is_some_and(|status| (200..300).contains(&status));
        let wrong = (!is_taken).then(|| {
            let met = match status {
                Some(status) => format!("was answered {status}"),
                None => "met no connection".to_owned(),
            };
            let remedy = delivery_remedy(status, &self.context.settings.stack);
            format!("GitHub's {event:?} {met}: {remedy}")
        });
        TestedHook { tested: Some(TestedDelivery { event, status, at }), wrong }
    }

    /// Another secret: kept first, so that the webhook takes what is signed with either, and then
    /// told to GitHub. One that was kept and never told is told now, and none is made: with a third,
    /// the webhook would refuse what GitHub signs.
    pub(super) async fn rotate_secret(&self, by: &str, now: Time) -> Result<(), AdminError> {
        let github = self.context.github;
        let lines = self.context.table.audit(SUBJECT, LINES).await?;
        let last = lines.iter().find_map(|line| Rotation::read(&line.why));
        let current = github.signing_secret().await.map_err(|error| unavailable(&error))?;
        let is_kept = matches!(last, Some(Rotation::Begun(of)) if of != current.since.to_string());
        if !is_kept {
            let begun = Rotation::Begun(current.since.to_string());
            self.note(&begun.line(), by, now).await?;
            github.renew_signing_secret().await.map_err(|error| unavailable(&error))?;
        }
        self.point_hook().await.map_err(|error| {
            let message = format!(
                "the stack has another secret, and GitHub still signs with the one before, which is \
                 taken for a day: {}. Go on with the same request",
                error.message
            );
            AdminError { message, ..error }
        })?;
        // Behind the line that it ends: both are told by the same clock.
        self.note(&Rotation::Done.line(), by, now + Seconds(1)).await
    }
}

const NEVER_SENT: &str = "GitHub never sent anything: the webhook is not active, and no API can switch it on. In the App's \
    settings (General, Webhook) tick Active";

/// How far a change of the secret has come, as its lines of the audit trail tell.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Rotation {
    /// The secret of this time is to be replaced.
    Begun(String),
    /// GitHub signs with the new one.
    Done,
}

impl Rotation {
    const BEGUN: &str = "the webhook's secret is replaced, that of ";
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
