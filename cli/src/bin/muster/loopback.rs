//! A listener on 127.0.0.1. Every user and program of this machine can connect, so connections are bounded in number
//! and in time.

use std::future::Future;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use muster_cli::failure::Failure;
use muster_domain::causes::with_causes;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Maximum number of connections: fewer than the 256 files that a process may open on macOS.
const CONNECTIONS: usize = 200;
/// Time limit for the head of a request. It comes from this machine, or through a tunnel.
const HEAD: Duration = Duration::from_secs(3);
/// Time limit for the body of a request.
pub(crate) const BODY: Duration = Duration::from_secs(10);
/// Time until a failed accept is repeated, such as when the machine has no file descriptor left.
const PAUSE: Duration = Duration::from_millis(100);

/// Opens a port, any free one unless it is named.
///
/// # Errors
/// Fails when the port is in use.
pub(crate) async fn listen(port: Option<u16>) -> Result<(TcpListener, u16), Failure> {
    let port = port.unwrap_or_default();
    let failed = |error: std::io::Error| Failure::Unreachable {
        address: format!("127.0.0.1:{port}"),
        why: with_causes(&error),
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    Ok((listener, port))
}

/// Accepts connections and serves each on its own task. Never returns.
pub(crate) async fn accept<S, F>(listener: TcpListener, serve: S)
where
    S: Fn(TcpStream) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let served = serve(stream);
                tokio::spawn(async move {
                    served.await;
                    drop(permit);
                });
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Serves one request of one connection. Clients that do not finish the head in time are disconnected.
pub(crate) async fn serve<S, F, B>(stream: TcpStream, answer: S)
where
    S: Fn(Request<Incoming>) -> F,
    F: Future<Output = Response<B>>,
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + 'static,
{
    let service = service_fn(|request| {
        let answer = answer(request);
        async { Ok::<_, std::convert::Infallible>(answer.await) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEAD).keep_alive(false);
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}
