//! Notifies an open page of newer answers. While a page is open and visible, its queries are
//! repeated.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::Response;
use futures_util::stream::unfold;
use muster_cli::ui::fields::Fields;
use muster_cli::ui::frame::target;
use muster_cli::ui::memory::PageQuery;
use muster_domain::time::Time;
use tokio::sync::watch;
use tokio::time::timeout;

use super::{Ui, with};

/// How often an open page is checked.
const LOOK: Duration = Duration::from_secs(1);
/// Checks between keep-alive lines, which reveal that a page was closed.
const QUIET: u32 = 15;

struct OpenPage {
    ui: Arc<Ui>,
    questions: Vec<PageQuery>,
    news: watch::Receiver<u64>,
    /// The newest answer that the page was notified of.
    notified_at: Option<Time>,
}

/// Streams events until the page is closed or hidden.
pub(super) fn stream(ui: &Arc<Ui>, fields: &Fields) -> Response<Body> {
    let questions = target(fields).questions();
    let notified_at = ui.memory().heard(&questions);
    let page = OpenPage { ui: Arc::clone(ui), questions, news: ui.news.subscribe(), notified_at };
    let events = unfold(page, |mut page| async move {
        let event = page.next().await;
        Some((Ok::<_, Infallible>(Bytes::from_static(event)), page))
    });
    with(200, &[], "text/event-stream", Body::from_stream(events))
}

impl OpenPage {
    async fn next(&mut self) -> &'static [u8] {
        for _ in 0..QUIET {
            self.ui.is_seen();
            self.ui.look(&self.questions);
            let heard = self.ui.memory().heard(&self.questions);
            if heard > self.notified_at {
                self.notified_at = heard;
                return b"event: fresh\ndata: \n\n";
            }
            let _ = timeout(LOOK, self.news.changed()).await;
        }
        b": quiet\n\n"
    }
}
