//! The page of setup on the loopback interface. The library decides what is answered.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use muster_cli::app::door::{Asked, Reply};
use muster_cli::failure::Failure;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::loopback;

/// Maximum number of requests that wait for their answer.
const WAITING: usize = 8;
/// Time for a browser to read its answer.
const READ: Duration = Duration::from_secs(2);

struct Knock {
    asked: Asked,
    answer: oneshot::Sender<Reply>,
    /// Comes when the connection has ended.
    ended: Option<oneshot::Receiver<()>>,
}

/// A port that is open until this is dropped.
pub(crate) struct Listener {
    pub(crate) port: u16,
    knocks: mpsc::Receiver<Knock>,
    last: Option<Knock>,
    accepts: JoinHandle<()>,
}

impl Listener {
    /// Opens a free port.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) async fn open() -> Result<Self, Failure> {
        let (listener, port) = loopback::listen(None).await?;
        let (sender, knocks) = mpsc::channel(WAITING);
        let serve = move |stream| serve(stream, sender.clone());
        let accepts = tokio::spawn(loopback::accept(listener, serve));
        Ok(Self { port, knocks, last: None, accepts })
    }

    /// The next request.
    pub(crate) async fn next(&mut self) -> Option<Asked> {
        let knock = self.knocks.recv().await?;
        let asked = knock.asked.clone();
        self.last = Some(knock);
        Some(asked)
    }

    /// Answers, and waits until the answer was read: the command may end after this.
    pub(crate) async fn reply(&mut self, reply: Reply) {
        let Some(Knock { answer, ended, .. }) = self.last.take() else { return };
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

/// One request of one connection.
async fn serve(stream: TcpStream, knocks: mpsc::Sender<Knock>) {
    let (end, ended) = oneshot::channel();
    let ended = Arc::new(Mutex::new(Some(ended)));
    let answer = move |request: Request<Incoming>| {
        let (knocks, ended) = (knocks.clone(), Arc::clone(&ended));
        async move {
            let (answer, answered) = oneshot::channel();
            let ended = ended.lock().ok().and_then(|mut ended| ended.take());
            let knock = Knock { asked: asked(&request), answer, ended };
            let reply = match knocks.send(knock).await {
                Ok(()) => answered.await.ok(),
                Err(_) => None,
            };
            response(reply)
        }
    };
    loopback::serve(stream, answer).await;
    let _ = end.send(());
}

fn asked(request: &Request<Incoming>) -> Asked {
    let mut hosts = request.headers().get_all("host").iter();
    // Two would mean two things to two readers.
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().unwrap_or_default().to_owned(),
        _ => String::new(),
    };
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str()).to_owned();
    Asked { method: request.method().to_string(), target, host }
}

/// Without a reply: the command is past it.
fn response(reply: Option<Reply>) -> Response<Full<Bytes>> {
    let reply = reply.unwrap_or(Reply { status: 410, headers: Vec::new(), body: String::new() });
    let mut response = Response::builder().status(reply.status);
    for (name, value) in reply.headers {
        response = response.header(name, value);
    }
    response.body(Full::from(reply.body)).unwrap_or_default()
}
