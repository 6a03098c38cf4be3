//! Imports jobs that were queued while no webhook events arrived.

use muster_api::answers::{AdoptedJobs, Answer, UnservedJob, WaitingJob};
use muster_api::{AdminError, AdminErrorCode, call_failure};
use muster_domain::ids::{Entity, EntityKind};
use muster_domain::time::Time;

use super::Admin;
use crate::context::Ports;
use crate::jobs::take_in::{ImportedJobs, TakeIn, TakeInError};

impl<P: Ports> Admin<'_, P> {
    pub(super) async fn adopt(&self, repository: &Entity, now: Time) -> Result<Answer, AdminError> {
        if repository.kind() != EntityKind::Repository {
            let message = format!("\"repository\" {repository}: write it as owner/repo");
            return Err(AdminError::new(AdminErrorCode::BadRequest, message));
        }
        let pass = TakeIn { context: self.context };
        let ImportedJobs { taken, known, unserved, not_ours, more } =
            pass.run(repository, None, now).await.map_err(refused)?;
        Ok(Answer::Adopted(AdoptedJobs {
            taken_in: taken.into_iter().map(|job| WaitingJob::new(job, None, now)).collect(),
            known,
            unserved: unserved.into_iter().map(|job| UnservedJob::new(job, now)).collect(),
            not_ours,
            more,
        }))
    }
}

fn refused(error: TakeInError) -> AdminError {
    match error {
        TakeInError::Pass(error) => error.into(),
        TakeInError::Github(trouble) => {
            let (code, message) = call_failure("GitHub", &trouble);
            AdminError::new(code, message)
        }
        TakeInError::NoRepository(repository) => AdminError::new(
            AdminErrorCode::NotFound,
            format!(
                "GitHub does not show repository {repository} to the App; check where the App is installed"
            ),
        ),
    }
}
