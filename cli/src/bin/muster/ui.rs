//! The pages of `muster ui`, served on the loopback interface: who comes, what the function is asked, and when that is
//! over. What a page shows and who is let in is the library's matter.

mod answers;
mod live;

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response};
use muster_cli::args::Dead;
use muster_cli::failure::Failure;
use muster_cli::queues;
use muster_cli::session::{judged, versioned};
use muster_cli::ui::Serving;
use muster_cli::ui::door::{Admitted, Door, Knock};
use muster_cli::ui::fields::Fields;
use muster_cli::ui::frame::About;
use muster_cli::ui::memory::{Asked, Memory, Question};
use muster_control::causes::with_causes;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{Mutex as Awaited, watch};

use crate::aws::Aws;
use crate::terminal::{now, say};
use crate::{keys, print};

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
}

/// Serves until Ctrl-C, or until nobody has looked for an hour.
///
/// # Errors
/// When nothing can be served.
pub(crate) async fn serve(aws: Aws, serving: Serving) -> Result<(), Failure> {
    let Serving { mut about, port, opens, by } = serving;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or_default())).await;
    let failed = |error: std::io::Error| Failure::Unreachable {
        address: format!("127.0.0.1:{}", port.unwrap_or_default()),
        why: with_causes(&error),
    };
    let listener = listener.map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    let mut door = Door::new(port, random()?, random()?, about.is_read_only);
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
    });
    print(&format!("{address}\n"));
    say("One browser may open this address, once. Enter: another address. Ctrl-C: the end.");
    if opens && open::that_detached(&address).is_err() {
        say("No browser could be opened here.");
    }
    let router = Router::new().fallback(meets).with_state(Arc::clone(&ui));
    tokio::select! {
        served = async { axum::serve(listener, router).await } => served.map_err(failed),
        alone = ui.until_left_alone() => alone,
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

/// A request: judged at the door, and answered.
async fn meets(State(ui): State<Arc<Ui>>, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_FORM).await else {
        return answers::refused(413, "This is too large.");
    };
    let all = |name: &str| texts(&head.headers, name);
    let knock = Knock {
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
        Ok(Admitted::Enters) => answers::entered(&ui.door().cookie()),
        Ok(Admitted::Looks) => answers::looks(&ui, &knock).await,
        Ok(Admitted::Drafts(order)) => answers::asks(&ui, &order).await,
        Ok(Admitted::Orders(order)) => answers::orders(&ui, &order, &knock.form).await,
    }
}

/// What is not text says nothing that could be compared.
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

    /// Somebody looks at a page.
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

    /// Prints another address on Enter, and ends when nobody has looked for long.
    async fn until_left_alone(&self) -> Result<(), Failure> {
        let mut is_mute = false;
        loop {
            tokio::time::sleep(LOOK).await;
            if !is_mute && keys::has_line() {
                let mut line = String::new();
                is_mute = !matches!(std::io::stdin().read_line(&mut line), Ok(1..));
                if !is_mute {
                    let address = self.door().invite(random()?);
                    print(&format!("{address}\n"));
                }
            }
            let seen_at = *self.seen_at.lock().unwrap_or_else(PoisonError::into_inner);
            if seen_at.elapsed() > LEFT_ALONE {
                say("Nobody has looked at a page for an hour.");
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
