//! The page on the loopback interface, and who comes to it. What is answered is the library's
//! matter.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use muster_cli::app::door::{Asked, Reply};
use muster_cli::failure::Failure;
use muster_control::causes::with_causes;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Most visitors that wait for their answer.
const WAITING: usize = 8;
/// Until a visitor has said what it wants.
const HEAD: Duration = Duration::from_secs(10);
/// Until a browser has read its answer.
const READ: Duration = Duration::from_secs(2);

struct Knock {
    asked: Asked,
    answer: oneshot::Sender<Reply>,
    /// Comes when the connection has ended.
    ended: Option<oneshot::Receiver<()>>,
}

/// Somebody listens, until this is dropped.
pub(crate) struct Listener {
    pub(crate) port: u16,
    knocks: mpsc::Receiver<Knock>,
    last: Option<Knock>,
    accepts: JoinHandle<()>,
}

impl Listener {
    /// At a free port.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) async fn open() -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::Unreachable {
            address: "127.0.0.1".to_owned(),
            why: with_causes(&error),
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let (sender, knocks) = mpsc::channel(WAITING);
        let accepts = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, sender.clone()));
            }
        });
        Ok(Self { port, knocks, last: None, accepts })
    }

    /// Who comes next.
    pub(crate) async fn next(&mut self) -> Option<Asked> {
        let knock = self.knocks.recv().await?;
        let asked = knock.asked.clone();
        self.last = Some(knock);
        Some(asked)
    }

    /// Answers, and waits until it was read: the command may end behind this.
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
    let service = service_fn(move |request: Request<Incoming>| {
        let (knocks, ended) = (knocks.clone(), Arc::clone(&ended));
        async move {
            let (answer, answered) = oneshot::channel();
            let ended = ended.lock().ok().and_then(|mut ended| ended.take());
            let knock = Knock { asked: asked(&request), answer, ended };
            let reply = match knocks.send(knock).await {
                Ok(()) => answered.await.ok(),
                Err(_) => None,
            };
            Ok::<_, Infallible>(response(reply))
        }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEAD).keep_alive(false);
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
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
