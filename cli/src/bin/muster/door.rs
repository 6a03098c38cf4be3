//! Serves the setup page on the loopback interface. The library decides the answers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use muster_cli::app::door::{BrowserRequest, BrowserResponse};
use muster_cli::failure::Failure;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::loopback;

/// Maximum number of requests that wait for an answer.
const WAITING: usize = 8;
/// Time that a browser has to read its answer.
const READ: Duration = Duration::from_secs(2);

struct PendingRequest {
    asked: BrowserRequest,
    answer: oneshot::Sender<BrowserResponse>,
    /// Resolves when the connection has ended.
    ended: Option<oneshot::Receiver<()>>,
}

/// A listener whose port stays open until this is dropped.
pub(crate) struct Listener {
    pub(crate) port: u16,
    requests: mpsc::Receiver<PendingRequest>,
    last: Option<PendingRequest>,
    accepts: JoinHandle<()>,
}

impl Listener {
    /// Opens a free port.
    ///
    /// # Errors
    /// Fails when no port is free.
    pub(crate) async fn open() -> Result<Self, Failure> {
        let (listener, port) = loopback::listen(None).await?;
        let (sender, requests) = mpsc::channel(WAITING);
        let serve = move |stream| serve(stream, sender.clone());
        let accepts = tokio::spawn(loopback::accept(listener, serve));
        Ok(Self { port, requests, last: None, accepts })
    }

    /// Returns the next request.
    pub(crate) async fn next(&mut self) -> Option<BrowserRequest> {
        let pending = self.requests.recv().await?;
        let asked = pending.asked.clone();
        self.last = Some(pending);
        Some(asked)
    }

    /// Sends the answer and waits until it was read, because the command may end afterwards.
    pub(crate) async fn reply(&mut self, reply: BrowserResponse) {
        let Some(PendingRequest { answer, ended, .. }) = self.last.take() else { return };
        let _ = answer.send(reply);
        if let Some(ended) = ended {
            let _ = timeout(READ, ended).await;
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.accepts.abort();
    }
}

/// Serves one request of one connection.
async fn serve(stream: TcpStream, requests: mpsc::Sender<PendingRequest>) {
    let (end, ended) = oneshot::channel();
    let ended = Arc::new(Mutex::new(Some(ended)));
    let answer = move |request: Request<Incoming>| {
        let (requests, ended) = (requests.clone(), Arc::clone(&ended));
        async move {
            let (answer, answered) = oneshot::channel();
            let ended = ended.lock().ok().and_then(|mut ended| ended.take());
            let pending = PendingRequest { asked: asked(&request), answer, ended };
            let reply = match requests.send(pending).await {
                Ok(()) => answered.await.ok(),
                Err(_) => None,
            };
            response(reply)
        }
    };
    loopback::serve(stream, answer).await;
    let _ = end.send(());
}

fn asked(request: &Request<Incoming>) -> BrowserRequest {
    let mut hosts = request.headers().get_all("host").iter();
    // With two `Host` headers, two readers could disagree.
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().unwrap_or_default().to_owned(),
        _ => String::new(),
    };
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str()).to_owned();
    BrowserRequest { method: request.method().to_string(), target, host }
}

/// Returns the HTTP response. Without a reply, the command no longer waits for requests.
fn response(reply: Option<BrowserResponse>) -> Response<Full<Bytes>> {
    let reply =
        reply.unwrap_or(BrowserResponse { status: 410, headers: Vec::new(), body: String::new() });
    let mut response = Response::builder().status(reply.status);
    for (name, value) in reply.headers {
        response = response.header(name, value);
    }
    response.body(Full::from(reply.body)).unwrap_or_default()
}
