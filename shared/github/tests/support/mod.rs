//! A fake GitHub that responds from a table and records requests.

#![expect(dead_code, reason = "each test file uses its part")]

pub(crate) mod key;

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, Response, Uri};
use axum::serve::ListenerExt as _;
use muster_control::ports::Registrar;
use muster_domain::ids::{AppName, InstallationId};
use muster_domain::time::{Seconds, Time};
use muster_github::{App, AppIdentity, ClientSettings};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

/// Included wherever GitHub could return a secret.
pub(crate) const CANARY: &str = "CANARY";

pub(crate) const START: Time = Time::from_millis(1_795_000_000_000);

thread_local! {
    static NOW: Cell<Time> = const { Cell::new(START) };
}

/// Advances the clock of this test. Every test has its own thread, and so its own clock.
pub(crate) fn advance(wait: Seconds) {
    NOW.with(|now| now.set(now.get() + wait));
}

pub(crate) fn now() -> Time {
    NOW.with(Cell::get)
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Asked {
    pub(crate) fn bearer(&self) -> &str {
        let header = self.headers["authorization"].to_str().expect("text");
        header.strip_prefix("Bearer ").expect("a bearer token")
    }
}

/// A response.
#[derive(Clone)]
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
    delay: Duration,
}

pub(crate) fn reply(status: u16, body: impl ToString) -> Reply {
    Reply { status, headers: Vec::new(), body: body.to_string(), delay: Duration::ZERO }
}

impl Reply {
    pub(crate) fn header(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }

    pub(crate) fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

struct Rule {
    method: Method,
    /// The end of the path, without the query.
    end: String,
    /// Responses in order; the last one repeats.
    replies: VecDeque<Reply>,
}

#[derive(Default)]
struct Table {
    rules: Vec<Rule>,
    asked: Vec<Asked>,
}

#[derive(Clone, Default)]
pub(crate) struct Fake {
    pub(crate) url: String,
    table: Arc<Mutex<Table>>,
    connections: Arc<AtomicUsize>,
}

impl Fake {
    /// Starts on a free port. By default it grants `ghs_CANARY<n>` for an hour.
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let fake = Self { url: format!("http://{address}"), ..Self::default() };
        let router = Router::new().fallback(answer).with_state(fake.clone());
        let connections = Arc::clone(&fake.connections);
        let listener = listener.tap_io(move |_| {
            connections.fetch_add(1, Ordering::Relaxed);
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        fake
    }

    /// Sets the responses for paths with this end.
    pub(crate) fn on(
        &self,
        method: Method,
        end: &str,
        replies: impl IntoIterator<Item = Reply>,
    ) -> &Self {
        let mut table = self.table.lock().expect("lock");
        table.rules.retain(|rule| rule.method != method || rule.end != end);
        let replies = replies.into_iter().collect();
        table.rules.push(Rule { method, end: end.to_owned(), replies });
        drop(table);
        self
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.table.lock().expect("lock").asked.clone()
    }

    /// Returns the requested paths so far, with their methods.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.asked().iter().map(|asked| format!("{} {}", asked.method, asked.path)).collect()
    }

    pub(crate) fn count(&self, end: &str) -> usize {
        self.asked().iter().filter(|asked| asked.path.ends_with(end)).count()
    }

    /// Returns how many connections were made.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn app(&self) -> App<AppIdentity> {
        app_at(&self.url)
    }
}

/// Time-outs that even a loaded machine does not reach.
pub(crate) fn settings() -> ClientSettings {
    ClientSettings {
        connect_timeout: Duration::from_secs(10),
        read_timeout: Duration::from_secs(10),
        clock: now,
        ca_source: None,
    }
}

/// Short time-outs, for the tests about them.
pub(crate) fn hasty(url: &str) -> App<AppIdentity> {
    let settings = ClientSettings {
        connect_timeout: Duration::from_secs(1),
        read_timeout: Duration::from_secs(1),
        ..settings()
    };
    App::new(&settings, identity(url)).expect("trusted roots")
}

pub(crate) fn app_at(url: &str) -> App<AppIdentity> {
    App::new(&settings(), identity(url)).expect("trusted roots")
}

/// App 4242 at this API URL.
pub(crate) fn identity(url: &str) -> AppIdentity {
    AppIdentity::read(&secret(url, &key::pkcs1()), AppName::MAIN).expect("an App")
}

/// The identity as in the App's secret.
pub(crate) fn secret(url: &str, key: &SecretString) -> String {
    json!({ "app_id": 4242, "api_url": url, "private_key": key.expose_secret() }).to_string()
}

pub(crate) fn granted(token: &str, lives: Seconds) -> Reply {
    let expires = now() + lives;
    reply(201, format!(r#"{{"token":"{token}","expires_at":"{expires}","permissions":{{}}}}"#))
}

pub(crate) fn registrar(entity: &str) -> Registrar {
    Registrar { entity: entity.parse().expect("an entity"), installation: Some(InstallationId(7)) }
}

pub(crate) fn unknown(entity: &str) -> Registrar {
    Registrar { installation: None, ..registrar(entity) }
}

async fn answer(
    State(fake): State<Fake>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let reply = {
        let mut table = fake.table.lock().expect("lock");
        let path = uri.path_and_query().expect("a path").to_string();
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        table.asked.push(Asked { method: method.clone(), path, headers, body });
        let grants = table.asked.iter().filter(|a| a.path.ends_with("/access_tokens")).count();
        let rule = table
            .rules
            .iter_mut()
            .find(|rule| rule.method == method && uri.path().ends_with(&rule.end));
        match rule {
            Some(rule) if rule.replies.len() > 1 => rule.replies.pop_front().expect("not empty"),
            Some(rule) => rule.replies.front().expect("not empty").clone(),
            None if uri.path().ends_with("/access_tokens") => {
                granted(&format!("ghs_{CANARY}{grants}"), Seconds(3600))
            }
            None => reply(599, r#"{"message":"not in the table"}"#),
        }
    };
    tokio::time::sleep(reply.delay).await;
    let mut response = Response::builder().status(reply.status);
    for (name, value) in &reply.headers {
        response = response.header(*name, value);
    }
    response.body(Body::from(reply.body)).expect("a response")
}
