//! A GitHub Enterprise Server whose certificate is of a private authority.

mod support;
#[path = "support/tls.rs"]
mod tls;

use std::sync::Arc;

use axum::http::Method;
use muster_api::call_failure;
use muster_control::ports::Github as _;
use muster_domain::ca_bundle::UNTRUSTED;
use muster_domain::ids::RunnerId;
use muster_domain::instance::registration::cause;
use muster_domain::observation::RunnerSeen;
use muster_domain::provider::ProviderError;
use muster_domain::time::Seconds;
use muster_github::{App, AppIdentity, CaSource, ClientSettings};
use serde_json::json;
use support::{Fake, advance, identity, registrar, reply, settings};
use tls::{Authority, Bundle};

const ID: RunnerId = RunnerId(5);

fn app(url: &str, bundle: Option<&Bundle>) -> App<AppIdentity> {
    let ca_source = bundle.map(|bundle| Arc::new(bundle.clone()) as Arc<dyn CaSource>);
    App::new(&ClientSettings { ca_source, ..settings() }, identity(url)).expect("trusted roots")
}

async fn fake() -> Fake {
    let fake = Fake::start().await;
    fake.on(Method::GET, "/actions/runners/5", [reply(200, json!({"id": 5, "busy": false}))]);
    fake
}

async fn front(authority: &Authority, fake: &Fake) -> String {
    authority.front(fake.url.replace("http://", "")).await
}

/// Returns how a call failed, as operators see it.
async fn failure(app: &App<AppIdentity>) -> String {
    let error = app.runner(&registrar("acme"), ID).await.expect_err("not trusted");
    let ProviderError::Unavailable(fault) = &error else { panic!("{error:?}") };
    assert_eq!(fault.code, UNTRUSTED);
    let told = call_failure("GitHub", &error).1;
    assert_eq!(told, format!("GitHub was not called: {}; try again", fault.message));
    assert_eq!(cause(fault), fault.message);
    fault.message.clone()
}

#[tokio::test]
async fn each_problem_with_a_certificate_has_its_message() {
    let (right, wrong) = (Authority::until(2100), Authority::until(2100));
    let expired = Authority::until(2020);
    let fake = fake().await;
    let (url, old) = (front(&right, &fake).await, front(&expired, &fake).await);
    let unknown = "GitHub's certificate is signed by an unknown authority";
    let untrusted = "GitHub's certificate is not trusted: ";
    for (url, text, told) in [
        (
            &url,
            None,
            format!(
                "{unknown}: name its root certificate in the stack's parameter GitHubCaBundle (docs/network.md)"
            ),
        ),
        (
            &url,
            Some(Bundle::of(&wrong.pem)),
            format!("{unknown}: add its root certificate to the CA bundle /github/ca"),
        ),
        (
            &old,
            Some(Bundle::of(&expired.pem)),
            format!(
                "{untrusted}certificate 1 of the CA bundle /github/ca expired on 2020-01-01; replace it with the authority's current one"
            ),
        ),
        (
            &url,
            Some(Bundle::of(&format!("{}{}", wrong.pem, expired.pem))),
            format!(
                "{unknown}: add its root certificate to the CA bundle /github/ca; certificate 2 of the CA bundle /github/ca expired on 2020-01-01; replace it with the authority's current one"
            ),
        ),
        (
            &url,
            Some(Bundle::of("hello")),
            format!(
                "{untrusted}the CA bundle /github/ca contains no certificate in PEM form (\"-----BEGIN CERTIFICATE-----\"); replace it with the authority's certificates as PEM"
            ),
        ),
        (
            &url,
            Some(Bundle::default()),
            format!(
                "{untrusted}the CA bundle /github/ca cannot be read (ParameterNotFound); check the stack's parameter GitHubCaBundle"
            ),
        ),
    ] {
        assert_eq!(failure(&app(url, text.as_ref())).await, told);
    }
    assert!(fake.asked().is_empty(), "nothing was sent to a server that is not trusted");
    // Next to other certificates, and for a server that needs none of them.
    let both = Bundle::of(&format!("{}# old\n{}{}", wrong.pem, expired.pem, right.pem));
    for url in [&url, &fake.url] {
        let seen = app(url, Some(&both)).runner(&registrar("acme"), ID).await;
        assert_eq!(seen, Ok(RunnerSeen::NotBusy(ID)));
    }
}

#[tokio::test]
async fn a_bundle_is_read_once_and_again_when_a_certificate_is_rejected() {
    let (right, wrong) = (Authority::until(2100), Authority::until(2100));
    let fake = fake().await;
    let url = front(&right, &fake).await;
    let bundle = Bundle::of(&wrong.pem);
    let reads = || *bundle.reads.lock().expect("lock");
    let app = app(&url, Some(&bundle));
    assert_eq!(reads(), 0);
    failure(&app).await;
    failure(&app).await;
    assert_eq!(reads(), 1, "at most once a minute");
    *bundle.text.lock().expect("lock") = Some(right.pem.clone());
    advance(Seconds(60));
    assert_eq!(app.runner(&registrar("acme"), ID).await, Ok(RunnerSeen::NotBusy(ID)));
    advance(Seconds(60));
    assert_eq!(app.runner(&registrar("acme"), ID).await, Ok(RunnerSeen::NotBusy(ID)));
    assert_eq!(reads(), 2);
    let text = app.ca_bundle().await.expect("a bundle").expect("a usable one");
    assert_eq!(*text, *right.pem);
}
