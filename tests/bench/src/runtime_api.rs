//! Lambda's Runtime API: hands out events, takes answers, and notes when.
//!
//! Source: docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html

use std::io::BufReader;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::http;

/// Longer than any function may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// One function's Runtime API.
pub(crate) struct RuntimeApi {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Since when the function has been waiting for an event.
    ready: Option<Instant>,
    event: Option<Arc<[u8]>>,
    /// When it answered, and what; an error that it reported is one too.
    answer: Option<(Instant, Result<Vec<u8>, String>)>,
    failure: Option<String>,
    number: u64,
}

impl RuntimeApi {
    /// Listens for one function.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let served = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&served);
                // The connection ends with the function.
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        Ok(Self { address, shared })
    }

    /// When the function first asked for an event.
    pub(crate) fn ready(&self) -> anyhow::Result<Instant> {
        let state = self.shared.wait(|state| state.ready.is_some() || state.failure.is_some());
        match (&state.ready, &state.failure) {
            (_, Some(failure)) => bail!("the function failed to start: {failure}"),
            (Some(at), None) => Ok(*at),
            (None, None) => bail!("the function did not ask for an event within {PATIENCE:?}"),
        }
    }

    /// Hands over an event and waits until the function asks for the next one. Answers with the
    /// time to its answer.
    pub(crate) fn invoke(&self, event: &Arc<[u8]>) -> anyhow::Result<(Duration, Vec<u8>)> {
        self.ready()?;
        let mut state = self.shared.lock();
        let begun = Instant::now();
        state.ready = None;
        state.event = Some(Arc::clone(event));
        drop(state);
        self.shared.changed.notify_all();
        self.ready()?;
        let (at, answer) = self.shared.lock().answer.take().context("no answer")?;
        match answer {
            Ok(answer) => Ok((at - begun, answer)),
            Err(error) => bail!("the function reported an error: {error}"),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, until: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let waited = self.changed.wait_timeout_while(self.lock(), PATIENCE, |state| !until(state));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

fn serve(stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    while let Some(request) = http::read(&mut stream)? {
        let text = || String::from_utf8_lossy(&request.body).into_owned();
        if request.target.ends_with("/invocation/next") {
            let mut state = shared.lock();
            state.ready = Some(Instant::now());
            shared.changed.notify_all();
            drop(state);
            // A function waits for as long as there is nothing to do.
            let (event, number) = loop {
                let mut state = shared.wait(|state| state.event.is_some());
                if let Some(event) = state.event.take() {
                    state.number += 1;
                    break (event, state.number);
                }
            };
            let id = format!("8476a536-e9f4-11e8-9739-{number:012}");
            let headers = [
                ("lambda-runtime-aws-request-id", id.as_str()),
                ("lambda-runtime-deadline-ms", "4000000000000"),
                ("lambda-runtime-invoked-function-arn", "arn:aws:lambda:us-east-1:1:function:f"),
                ("lambda-runtime-trace-id", "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=0"),
                ("content-type", "application/json"),
            ];
            http::answer(stream.get_mut(), 200, &headers, &event)?;
            continue;
        }
        let answer = match &request.target {
            target if target.ends_with("/response") => Ok(request.body.clone()),
            _ => Err(text()),
        };
        let mut state = shared.lock();
        if request.target.ends_with("/init/error") {
            state.failure = Some(text());
        } else {
            state.answer = Some((Instant::now(), answer));
        }
        shared.changed.notify_all();
        drop(state);
        http::answer(stream.get_mut(), 202, &[("content-type", "application/json")], b"{}")?;
    }
    Ok(())
}
