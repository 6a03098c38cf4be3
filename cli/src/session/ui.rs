//! `ui`: serves the web interface.

use muster_api::Request;
use muster_api::answers::Overview;

use super::Session;
use crate::args::UiArgs;
use crate::failure::Failure;
use crate::ui::Serving;
use crate::ui::frame::About;
use crate::world::{Cloud, LocalPage};

impl<W: Cloud + LocalPage> Session<'_, W> {
    /// Reads the overview first, so that errors are reported in the terminal and not in the
    /// browser.
    pub(super) async fn ui(&mut self, order: UiArgs) -> Result<String, Failure> {
        let UiArgs { port, read_only, no_open, by } = order;
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
}
