//! Tells an open page that there are newer answers. While one is open and seen, they are asked for.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::Response;
use futures_util::stream::unfold;
use muster_cli::ui::fields::Fields;
use muster_cli::ui::frame::target;
use muster_cli::ui::memory::Question;
use muster_domain::time::Time;
use tokio::sync::watch;
use tokio::time::timeout;

use super::Ui;
use super::answers::with;

/// How often an open page is looked after.
const LOOK: Duration = Duration::from_secs(1);
/// A line now and then, so that a page that is gone is noticed.
const QUIET: u32 = 15;

struct Page {
    ui: Arc<Ui>,
    questions: Vec<Question>,
    news: watch::Receiver<u64>,
    /// The newest answer that it was told of.
    told: Option<Time>,
}

/// Events until the page is closed or hidden.
pub(super) fn stream(ui: &Arc<Ui>, fields: &Fields) -> Response<Body> {
    let questions = target(fields).questions();
    let told = ui.memory().heard(&questions);
    let page = Page { ui: Arc::clone(ui), questions, news: ui.news.subscribe(), told };
    let events = unfold(page, |mut page| async move {
        let event = page.next().await;
        Some((Ok::<_, Infallible>(Bytes::from_static(event)), page))
    });
    with(200, &[], "text/event-stream", Body::from_stream(events))
}

impl Page {
    async fn next(&mut self) -> &'static [u8] {
        for _ in 0..QUIET {
            self.ui.is_seen();
            self.ui.look(&self.questions);
            let heard = self.ui.memory().heard(&self.questions);
            if heard > self.told {
                self.told = heard;
                return b"event: fresh\ndata: \n\n";
            }
            let _ = timeout(LOOK, self.news.changed()).await;
        }
        b": quiet\n\n"
    }
}
