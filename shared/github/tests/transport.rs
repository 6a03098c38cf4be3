//! Time-outs, lost connections, URLs and redirects.

mod support;

use std::time::{Duration, Instant};

use axum::http::Method;
use muster_control::ports::Github;
use muster_domain::app::KeyProblem;
use muster_domain::ids::{AppName, RunnerId};
use muster_domain::observation::RunnerSeen;
use muster_domain::provider::ProviderError;
use muster_github::{App, AppIdentity, ClientSettings};
use serde_json::json;
use support::{CANARY, Fake, app_at, hasty, identity, key, registrar, reply, secret, settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const ID: RunnerId = RunnerId(5);
const RUNNER: &str = "/actions/runners/5";

fn idle() -> support::Reply {
    reply(200, json!({"id": 5, "busy": false}))
}

fn code(seen: Result<RunnerSeen, ProviderError>) -> String {
    match seen {
        Err(ProviderError::Unavailable(fault)) => {
            assert!(!format!("{fault:?}").contains(CANARY), "{fault:?}");
            fault.code
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_silent_server_is_given_up() {
    let fake = Fake::start().await;
    fake.on(Method::GET, RUNNER, [idle().after(Duration::from_secs(30))]);
    let begun = Instant::now();
    let app = hasty(&fake.url);
    assert_eq!(code(app.runner(&registrar("acme"), ID).await), "timeout");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    // No layer retries it implicitly.
    assert_eq!(fake.count(RUNNER), 1);
}

#[tokio::test]
async fn failures_are_not_repeated_by_any_layer() {
    let fake = Fake::start().await;
    fake.on(Method::GET, RUNNER, [reply(503, "")]);
    assert_eq!(code(fake.app().runner(&registrar("acme"), ID).await), "503");
    assert_eq!(fake.count(RUNNER), 1);
}

#[tokio::test]
async fn nobody_at_home_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    drop(listener);
    let app = app_at(&format!("http://{address}"));
    assert_eq!(code(app.runner(&registrar("acme"), ID).await), "refused");
}

/// Accepts a connection and handles it with `then`.
async fn listener<F>(then: F) -> String
where
    F: AsyncFn(&mut tokio::net::TcpStream) + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let local = async move {
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            then(&mut stream).await;
        }
    };
    tokio::task::spawn_local(local);
    address.to_string()
}

#[tokio::test]
async fn a_handshake_that_never_ends_is_given_up() {
    tokio::task::LocalSet::new()
        .run_until(async {
            let address = listener(async |_| std::future::pending().await).await;
            let settings = ClientSettings {
                connect_timeout: Duration::from_millis(100),
                read_timeout: Duration::from_secs(30),
                ..settings()
            };
            let identity = identity(&format!("https://{address}"));
            let app = App::new(&settings, identity).expect("trusted roots");
            let begun = Instant::now();
            assert_eq!(code(app.runner(&registrar("acme"), ID).await), "timeout");
            assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        })
        .await;
}

#[tokio::test]
async fn an_answer_that_trickles_is_given_up() {
    tokio::task::LocalSet::new()
        .run_until(async {
            let address = listener(async |stream| {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                // Each byte arrives before the read time-out, but the end never does.
                let head = b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n";
                let _ = stream.write_all(head).await;
                while stream.write_all(b" ").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            })
            .await;
            let app = hasty(&format!("http://{address}"));
            let begun = Instant::now();
            assert_eq!(code(app.runner(&registrar("acme"), ID).await), "timeout");
            assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        })
        .await;
}

#[tokio::test]
async fn a_dropped_connection_is_unavailable() {
    tokio::task::LocalSet::new()
        .run_until(async {
            let address = listener(async |stream| {
                let mut request = [0; 64];
                let _ = stream.read(&mut request).await;
            })
            .await;
            let app = app_at(&format!("http://{address}"));
            let code = code(app.runner(&registrar("acme"), ID).await);
            assert!(["reset", "no-answer"].contains(&code.as_str()), "{code}");
        })
        .await;
}

#[tokio::test]
async fn a_path_prefix_survives() {
    let fake = Fake::start().await;
    fake.on(Method::GET, RUNNER, [idle()]);
    // The last two are prefixes of the paths below them.
    for prefix in ["/api/v3", "/api/v3/", "/orgs", "/o"] {
        let app = app_at(&format!("{}{prefix}", fake.url));
        app.runner(&registrar("orgs"), ID).await.expect("seen");
        let prefix = prefix.trim_end_matches('/');
        let paths = fake.paths();
        assert_eq!(
            paths[paths.len() - 2..],
            [
                format!("POST {prefix}/app/installations/7/access_tokens"),
                format!("GET {prefix}/orgs/orgs/actions/runners/5"),
            ]
        );
    }
}

#[tokio::test]
async fn a_renamed_repository_is_followed() {
    let fake = Fake::start().await;
    let moved = "/repositories/99/actions/runners/6";
    let target = format!("{}{moved}", fake.url);
    fake.on(Method::GET, RUNNER, [reply(301, "").header("location", &target)]);
    fake.on(Method::DELETE, RUNNER, [reply(307, "").header("location", moved)]);
    fake.on(Method::GET, moved, [idle()]);
    fake.on(Method::DELETE, moved, [reply(204, "")]);
    let (app, web) = (fake.app(), registrar("acme/web"));
    assert_eq!(app.runner(&web, ID).await, Ok(RunnerSeen::NotBusy(ID)));
    app.deregister(&web, ID).await.expect("gone");
    assert_eq!(fake.count(moved), 2);
    assert_eq!(fake.asked().last().expect("asked").bearer(), "ghs_CANARY1");
}

#[tokio::test]
async fn a_token_never_follows_to_another_host_or_in_circles() {
    let (fake, other) = (Fake::start().await, Fake::start().await);
    let elsewhere = format!("{}{RUNNER}", other.url);
    let userinfo = format!("{}@127.0.0.1/x", fake.url);
    for location in [elsewhere.as_str(), "//127.0.0.1:1/x", "x", "", &userinfo] {
        fake.on(Method::GET, RUNNER, [reply(302, "").header("location", location)]);
        assert_eq!(code(fake.app().runner(&registrar("acme"), ID).await), "302", "{location}");
    }
    assert!(other.asked().is_empty());
    let before = fake.count(RUNNER);
    fake.on(Method::GET, RUNNER, [reply(301, "").header("location", RUNNER)]);
    assert_eq!(code(fake.app().runner(&registrar("acme"), ID).await), "301");
    assert_eq!(fake.count(RUNNER) - before, 4);
    // A POST is repeated only if the response allows it.
    fake.on(Method::POST, "/generate-jitconfig", [reply(302, "").header("location", "/x")]);
    assert!(fake.app().configure(&registrar("acme"), "a", &[], 1).await.is_err());
    assert_eq!(fake.count("/x"), 0);
}

#[tokio::test]
async fn addresses_that_would_leak_tokens_are_refused() {
    for url in [
        "",
        "api.github.com",
        "/api/v3",
        "http://api.github.com",
        "http://127.0.0.1.example",
        "ftp://127.0.0.1",
        "https://user:pass@ghes.example",
        "https://ghes.example/?x=1",
        "https://",
    ] {
        let read = AppIdentity::read(&secret(url, &key::pkcs1()), AppName::MAIN).err();
        let expected =
            if url.is_empty() { KeyProblem::Lacks("api_url") } else { KeyProblem::Address };
        assert_eq!(read, Some(expected), "{url:?}");
    }
    for url in ["https://api.github.com", "https://ghes.example:8443/api/v3/", "http://localhost:1"]
    {
        assert!(AppIdentity::read(&secret(url, &key::pkcs1()), AppName::MAIN).is_ok(), "{url:?}");
    }
}

/// A frozen function must not send its next request on a connection that was closed meanwhile.
#[tokio::test]
async fn an_idle_connection_is_not_trusted_for_long() {
    let fake = Fake::start().await;
    fake.on(Method::GET, RUNNER, [idle()]);
    let app = fake.app();
    app.runner(&registrar("acme"), ID).await.expect("seen");
    let made = fake.connections();
    // By then the connection of the response is idle.
    tokio::time::sleep(Duration::from_millis(200)).await;
    app.runner(&registrar("acme"), ID).await.expect("seen");
    assert_eq!(fake.connections(), made, "what comes soon has no connection of its own");
    // Longer than a connection is kept, and shorter than the time-outs.
    tokio::time::sleep(Duration::from_secs(6)).await;
    app.runner(&registrar("acme"), ID).await.expect("seen");
    assert_eq!(fake.connections(), made + 1);
}
