//! The pages of `muster ui`, served on the loopback interface: receives requests, calls the function, and ends when no
//! page is open any more. The library decides what a page shows and who has access.

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
use muster_cli::ui::Serving;
use muster_cli::ui::door::{Admitted, Door, Knock};
use muster_cli::ui::fields::Fields;
use muster_cli::ui::frame::About;
use muster_cli::ui::memory::{Asked, Memory, Question};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::Value;
use tokio::sync::{Mutex as Awaited, watch};
use tokio::time::timeout;

use crate::aws::Aws;
use crate::browser::Handover;
use crate::terminal::{now, say};
use crate::{keys, loopback, print};

/// How long the pages stay when nobody looks at one.
const LEFT_ALONE: Duration = Duration::from_secs(3_600);
/// How often stdin and that are looked at.
const LOOK: Duration = Duration::from_millis(200);
/// A form with a pool file in it.
const MAX_FORM: usize = 1_024 * 1_024;

/// All that the pages are made of.
pub(crate) struct Ui {
    about: About,
    by: Option<String>,
    door: Mutex<Door>,
    memory: Mutex<Memory>,
    /// Counts what was learnt.
    news: watch::Sender<u64>,
    aws: Awaited<Aws>,
    seen_at: Mutex<Instant>,
    /// The file that leads the browser here, until it has done so.
    handover: Mutex<Option<Handover>>,
}

/// Serves until Ctrl-C, or until no page was open for an hour.
///
/// # Errors
/// When the port is taken.
pub(crate) async fn serve(aws: Aws, serving: Serving) -> Result<(), Failure> {
    let Serving { mut about, port, opens, by } = serving;
    let (listener, port) = loopback::listen(port).await?;
    let mut door = Door::new(port, [random()?, random()?, random()?], about.is_read_only);
    about.draft = door.draft();
    let address = door.invite(random()?);
    let ui = Arc::new(Ui {
        about,
        by,
        door: Mutex::new(door),
        memory: Mutex::default(),
        news: watch::Sender::new(0),
        aws: Awaited::new(aws),
        seen_at: Mutex::new(Instant::now()),
        handover: Mutex::new(if opens { Handover::open(&address) } else { None }),
    });
    ui.invite(&address, opens);
    let serve = |stream| {
        let ui = Arc::clone(&ui);
        loopback::serve(stream, move |request| meets(Arc::clone(&ui), request))
    };
    tokio::select! {
        () = loopback::accept(listener, serve) => Ok(()),
        alone = ui.until_left_alone() => alone,
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

/// Judges a request and answers it.
async fn meets(ui: Arc<Ui>, request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = match timeout(loopback::BODY, to_bytes(Body::new(body), MAX_FORM)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => return answers::refused(413, "This form is too large."),
        Err(_) => return answers::refused(408, "This request was not complete in time."),
    };
    let all = |name: &str| texts(&head.headers, name);
    let mut knock = Knock {
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        hosts: all("host"),
        cookies: all("cookie"),
        origins: all("origin"),
        site: all("sec-fetch-site").pop(),
        form: Fields::read(&body),
    };
    let admitted = ui.door().meets(&knock);
    if admitted.is_ok() {
        ui.is_seen();
    }
    match admitted {
        Err(refused) => answers::refused(refused.status, refused.why),
        Ok(Admitted::Enters) => {
            drop(ui.handover().take());
            let door = ui.door();
            answers::entered(&door.cookie(), door.root())
        }
        Ok(Admitted::Looks) => {
            let path = ui.door().inside(&knock.path).unwrap_or_default().to_owned();
            knock.path = path;
            answers::looks(&ui, &knock).await
        }
        Ok(Admitted::Drafts(order)) => answers::asks(&ui, &order).await,
        Ok(Admitted::Orders(order)) => answers::orders(&ui, &order, &knock.form).await,
    }
}

/// The values of a header; `?` for one that is not text, which equals nothing.
fn texts(headers: &HeaderMap, name: &str) -> Vec<String> {
    let all = headers.get_all(name).iter();
    all.map(|value| value.to_str().unwrap_or("?").to_owned()).collect()
}

impl Ui {
    fn door(&self) -> MutexGuard<'_, Door> {
        self.door.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handover(&self) -> MutexGuard<'_, Option<Handover>> {
        self.handover.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says how to reach the pages. The address with its secret is printed only where it has to be pasted: a terminal keeps
    /// what it prints.
    fn invite(&self, address: &str, opens: bool) {
        if self.handover().is_some() {
            say(
                "The pages open in your browser. If they do not, press Enter here for an address to paste. Ctrl-C ends this.",
            );
            return;
        }
        print(&format!("{address}\n"));
        if opens {
            say("No browser can be opened here.");
        }
        say("One browser can open this address, once. Enter prints a new one. Ctrl-C ends this.");
    }

    /// Records that a page was read.
    fn is_seen(&self) {
        *self.seen_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Asks the function.
    async fn ask(&self, request: &Value) -> Result<Value, Failure> {
        let mut aws = self.aws.lock().await.refreshed().await?;
        judged(aws.admin(&versioned(request)).await?)
    }

    /// Asks what a page wants to know.
    async fn find(&self, question: &Question) -> Result<Value, Failure> {
        match question.asked(now()) {
            Asked::Function(request) => self.ask(&request).await,
            Asked::Pages(mut pages) => {
                while pages.add(self.ask(&pages.request()).await?) {}
                Ok(pages.into_answer())
            }
            Asked::Queues(queue) => {
                let mut aws = self.aws.lock().await.refreshed().await?;
                let stack = aws.stack.clone();
                queues::told(&mut aws, &stack, queue).await
            }
        }
    }

    /// Sends back what a queue gave up.
    async fn redrive(&self, queue: Dead) -> Result<Value, Failure> {
        let mut aws = self.aws.lock().await.refreshed().await?;
        let stack = aws.stack.clone();
        queues::redriven(&mut aws, &stack, queue).await
    }

    /// Asks what is due of these; the answers come by themselves.
    fn look(self: &Arc<Self>, questions: &[Question]) {
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

    /// Prints a new address on Enter, and ends when no page was open for an hour.
    async fn until_left_alone(&self) -> Result<(), Failure> {
        let mut is_mute = false;
        loop {
            tokio::time::sleep(LOOK).await;
            if !is_mute && keys::has_line() {
                let mut line = String::new();
                is_mute = !matches!(std::io::stdin().read_line(&mut line), Ok(1..));
                if !is_mute {
                    drop(self.handover().take());
                    let address = self.door().invite(random()?);
                    print(&format!("{address}\n"));
                }
            }
            let seen_at = *self.seen_at.lock().unwrap_or_else(PoisonError::into_inner);
            if seen_at.elapsed() > LEFT_ALONE {
                say("No page was open for an hour.");
                return Ok(());
            }
        }
    }
}

/// Bytes that cannot be guessed.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| Failure::Unknown("The system gives no random bytes.".to_owned()))?;
    Ok(bytes)
}
