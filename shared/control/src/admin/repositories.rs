//! The repositories that the App can access, and their queued jobs without a record.

use futures_util::future::join_all;
use muster_api::answers::{Answer, RepositoryList, ShownRepository};
use muster_api::{AdminError, AdminErrorCode, GithubRequest, call_failure};
use muster_domain::causes::with_causes;
use muster_domain::time::Time;

use super::Admin;
use super::github::ONE;
use crate::context::Ports;
use crate::jobs::take_in::TakeIn;
use crate::ports::{Directory, SeenRepositories, SeenRepository};

/// Maximum number of repositories whose queued jobs are counted, with a few calls each.
const ASKED: usize = 20;

impl<P: Ports<Github: Directory>> Admin<'_, P> {
    pub(super) async fn repositories(
        &self,
        request: &GithubRequest,
        now: Time,
    ) -> Result<Answer, AdminError> {
        let GithubRequest { app, by, .. } = request;
        let alone = GithubRequest { app: *app, by: by.clone(), ..GithubRequest::of_repositories() };
        if *request != alone {
            return Err(AdminError::new(AdminErrorCode::BadRequest, ONE));
        }
        let seen = self.context.github.repositories(*app).await;
        let SeenRepositories { all, more } = seen.map_err(|trouble| {
            let (code, message) = call_failure("GitHub", &trouble);
            AdminError::new(code, message)
        })?;
        let asked = all.iter().take(ASKED).map(|one| self.queued(one, now));
        let mut queued = join_all(asked).await.into_iter();
        let shown = all.into_iter().map(|SeenRepository { name, is_private }| {
            let queued = queued.next().flatten();
            ShownRepository { name, private: is_private, queued }
        });
        Ok(Answer::Repositories(RepositoryList { repositories: shown.collect(), more }))
    }

    /// Counts a repository's queued jobs. The count is only displayed, so a failure is logged and
    /// affects no other repository.
    async fn queued(&self, repository: &SeenRepository, now: Time) -> Option<usize> {
        let pass = TakeIn { context: self.context };
        match pass.count(&repository.name, now).await {
            Ok(count) => count,
            Err(error) => {
                let (repository, error) = (&repository.name, with_causes(&error));
                tracing::warn!(%repository, error, "failed to count queued jobs");
                None
            }
        }
    }
}
