//! `ui`: pages in a browser.

use muster_control::admin::answers::{Overview, ShownGithub};
use muster_control::admin::{GithubRequest, Request};

use super::{Session, World};
use crate::args::Ui;
use crate::failure::Failure;
use crate::ui::Serving;
use crate::ui::frame::About;

impl<W: World> Session<'_, W> {
    /// Asks for the overview first: what is wrong is said here, and not in a browser.
    pub(super) async fn ui(&mut self, order: Ui) -> Result<String, Failure> {
        let Ui { port, read_only, no_open, by } = order;
        let told: Overview = self.asked("overview", Request::Overview).await?;
        let about = About {
            stack: told.stack,
            region: self.world.region(),
            release: told.release.into_owned(),
            github: self.github_host().await,
            is_read_only: read_only,
            draft: String::new(),
        };
        self.world.serve(Serving { about, port, opens: !no_open, by }).await?;
        Ok(String::new())
    }

    /// Where the pages of jobs are. A stack whose App cannot be asked about is most likely of github.com.
    async fn github_host(&mut self) -> String {
        let asked = self.asked("github", Request::Github(GithubRequest::default())).await;
        let app = asked.ok().and_then(|shown: ShownGithub| shown.app);
        let host = app.and_then(|app| Some(app.html_url.split('/').nth(2)?.to_owned()));
        host.unwrap_or_else(|| "github.com".to_owned())
    }
}
