//! Serves the pages of `muster ui` on the loopback interface: receives requests, calls the function, and ends when no
//! page has been open for a while. The library decides the contents of pages and who has access.

mod answers;
mod live;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use muster_cli::args::Dead;
use muster_cli::failure::Failure;
use muster_cli::queues;
use muster_cli::session::{judged, versioned};
use muster_cli::trend::Trend;
use muster_cli::ui::Serving;
use muster_cli::ui::assets::HEADERS;
use muster_cli::ui::door::{Access, Guard, PageRequest};
use muster_cli::ui::fields::Fields;
use muster_cli::ui::frame::About;
use muster_cli::ui::memory::{Memory, PageQuery, QueryRequest};
use serde_json::{Value, json};
use tokio::sync::{Mutex as Awaited, watch};
use tokio::time::timeout;

use crate::aws::Aws;
use crate::browser::Handover;
use crate::host::{now, print, random, say};
use crate::{keys, loopback};

/// How long the server runs while no page is open.
const LEFT_ALONE: Duration = Duration::from_secs(3_600);
/// How often stdin and the open pages are checked.
const LOOK: Duration = Duration::from_millis(200);
/// Maximum size of a form, which may contain a pool file, in bytes.
const MAX_FORM: usize = 1_024 * 1_024;

/// The state of the server.
pub(crate) struct Ui {
    about: About,
    by: Option<String>,
    guard: Mutex<Guard>,
    memory: Mutex<Memory>,
    /// Counts new answers.
    news: watch::Sender<u64>,
    aws: Awaited<Aws>,
    seen_at: Mutex<Instant>,
    /// The file that redirects the browser here, until it was used.
    handover: Mutex<Option<Handover>>,
}

/// Serves until Ctrl-C, or until no page was open for an hour.
///
/// # Errors
/// Fails when the port is in use.
pub(crate) async fn serve(aws: Aws, serving: Serving) -> Result<(), Failure> {
    let Serving { mut about, port, opens, by } = serving;
    let (listener, port) = loopback::listen(port).await?;
    let mut guard = Guard::new(port, [random()?, random()?, random()?], about.is_read_only);
    about.draft = guard.draft();
    let address = guard.invite(random()?);
    let ui = Arc::new(Ui {
        about,
        by,
        guard: Mutex::new(guard),
        memory: Mutex::default(),
        news: watch::Sender::new(0),
        aws: Awaited::new(aws),
        seen_at: Mutex::new(Instant::now()),
        handover: Mutex::new(if opens { Handover::open(&address) } else { None }),
    });
    ui.invite(&address, opens);
    let serve = |stream| {
        let ui = Arc::clone(&ui);
        loopback::serve(stream, move |request| handle(Arc::clone(&ui), request))
    };
    tokio::select! {
        () = loopback::accept(listener, serve) => Ok(()),
        alone = ui.until_left_alone() => alone,
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

/// Checks a request and answers it.
async fn handle(ui: Arc<Ui>, request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = match timeout(loopback::BODY, to_bytes(Body::new(body), MAX_FORM)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => return answers::refused(413, "This form is too large."),
        Err(_) => return answers::refused(408, "This request took too long to arrive."),
    };
    let all = |name: &str| texts(&head.headers, name);
    let mut request = PageRequest {
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        hosts: all("host"),
        cookies: all("cookie"),
        origins: all("origin"),
        site: all("sec-fetch-site").pop(),
        form: Fields::read(&body),
    };
    let admitted = ui.guard().check(&request);
    if admitted.is_ok() {
        ui.is_seen();
    }
    match admitted {
        Err(refused) => answers::refused(refused.status, refused.why),
        Ok(Access::Enter) => {
            drop(ui.handover().take());
            let guard = ui.guard();
            answers::entered(&guard.cookie(), guard.root())
        }
        Ok(Access::View) => {
            let path = ui.guard().inside(&request.path).unwrap_or_default().to_owned();
            request.path = path;
            answers::get(&ui, &request).await
        }
        Ok(Access::Draft(order)) => answers::confirm_order(&ui, &order).await,
        Ok(Access::Submit(order)) => answers::submit_order(&ui, &order, &request.form).await,
    }
}

/// Returns the values of a header; `?` for a value that is not text, which equals no valid value.
fn texts(headers: &HeaderMap, name: &str) -> Vec<String> {
    let all = headers.get_all(name).iter();
    all.map(|value| value.to_str().unwrap_or("?").to_owned()).collect()
}

impl Ui {
    fn guard(&self) -> MutexGuard<'_, Guard> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handover(&self) -> MutexGuard<'_, Option<Handover>> {
        self.handover.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints how to reach the pages. The address with its secret is printed only if it has to be pasted, because a
    /// terminal keeps what it prints.
    fn invite(&self, address: &str, opens: bool) {
        if self.handover().is_some() {
            say("Opening your browser. If it does not open, press Enter for an address to paste. \
                Press Ctrl-C to stop.");
            return;
        }
        print(&format!("{address}\n"));
        if opens {
            say("Cannot open a browser here.");
        }
        say("One browser can open this address, once. Press Enter for a new one, or Ctrl-C to \
            stop.");
    }

    /// Records that a page was read.
    fn is_seen(&self) {
        *self.seen_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Invokes the admin function.
    async fn ask(&self, request: &Value) -> Result<Value, Failure> {
        let mut aws = self.aws.lock().await.refreshed().await?;
        judged(aws.admin(&versioned(request)).await?)
    }

    /// Queries what a page needs.
    async fn find(&self, question: &PageQuery) -> Result<Value, Failure> {
        match question.asked(now()) {
            QueryRequest::Function(request) => self.ask(&request).await,
            QueryRequest::Pages(mut pages) => {
                while pages.add(self.ask(&pages.request()).await?) {}
                Ok(pages.into_answer())
            }
            QueryRequest::Queues(queue) => {
                let mut aws = self.aws.lock().await.refreshed().await?;
                let stack = aws.stack.clone();
                queues::told(&mut aws, &stack, queue).await
            }
            QueryRequest::Trend => {
                let mut aws = self.aws.lock().await.refreshed().await?;
                let stack = aws.stack.clone();
                Ok(json!(Trend::of(&mut aws, &stack, now()).await))
            }
        }
    }

    /// Redrives a dead-letter queue.
    async fn redrive(&self, queue: Dead) -> Result<Value, Failure> {
        let mut aws = self.aws.lock().await.refreshed().await?;
        let stack = aws.stack.clone();
        queues::redriven(&mut aws, &stack, queue).await
    }

    /// Starts the queries that are due. Their answers arrive later.
    fn look(self: &Arc<Self>, questions: &[PageQuery]) {
        for question in questions {
            if !self.memory().is_due(question, now()) {
                continue;
            }
            let (ui, question) = (Arc::clone(self), question.clone());
            tokio::spawn(async move {
                let outcome = ui.find(&question).await;
                ui.memory().learn(&question, outcome, now());
                ui.news.send_modify(|count| *count += 1);
            });
        }
    }

    /// Prints a new address on Enter, and returns when no page has been open for an hour.
    async fn until_left_alone(&self) -> Result<(), Failure> {
        let mut is_mute = false;
        loop {
            tokio::time::sleep(LOOK).await;
            if !is_mute && keys::has_line() {
                let mut line = String::new();
                is_mute = !matches!(std::io::stdin().read_line(&mut line), Ok(1..));
                if !is_mute {
                    drop(self.handover().take());
                    let address = self.guard().invite(random()?);
                    print(&format!("{address}\n"));
                }
            }
            let seen_at = *self.seen_at.lock().unwrap_or_else(PoisonError::into_inner);
            if seen_at.elapsed() > LEFT_ALONE {
                say("Stopped: no page was open for an hour.");
                return Ok(());
            }
        }
    }
}

/// Creates a response with the usual headers, apart from those that are given.
fn with(
    status: u16,
    headers: &[(&str, &str)],
    kind: &str,
    body: impl Into<Body>,
) -> Response<Body> {
    let mut response = Response::builder().status(status).header("content-type", kind);
    let is_own = |name: &str| headers.iter().any(|(own, _)| *own == name);
    let usual = HEADERS.into_iter().filter(|(name, _)| !is_own(name));
    for (name, value) in headers.iter().copied().chain(usual) {
        response = response.header(name, value);
    }
    response.body(body.into()).unwrap_or_default()
}
