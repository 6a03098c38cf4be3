//! How many tokens are requested, and what happens when one is rejected.

mod support;

use std::cell::RefCell;
use std::time::Duration;

use axum::http::Method;
use muster_control::ports::Github;
use muster_domain::app::KeyProblem;
use muster_domain::causes::Cause;
use muster_domain::ids::{AppName, InstallationId, RunnerId};
use muster_domain::observation::RunnerSeen;
use muster_domain::provider::ProviderError;
use muster_domain::time::Seconds;
use muster_github::{App, AppIdentity, AppKey, AppKeyError};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use support::{
    CANARY, Fake, advance, granted, identity, key, now, registrar, reply, secret, settings, unknown,
};

const TOKENS: &str = "/app/installations/7/access_tokens";
const ID: RunnerId = RunnerId(5);

fn idle() -> support::Reply {
    reply(200, json!({"id": 5, "name": "a", "busy": false}))
}

async fn fake() -> Fake {
    let fake = Fake::start().await;
    fake.on(Method::GET, "/actions/runners/5", [idle()]);
    fake
}

#[tokio::test]
async fn a_jobs_whole_life_takes_one_token_and_one_configuration() {
    let fake = fake().await;
    let configured = json!({"runner": {"id": 5, "busy": false}, "encoded_jit_config": CANARY});
    fake.on(Method::POST, "/generate-jitconfig", [reply(201, configured)]);
    fake.on(Method::DELETE, "/actions/runners/5", [reply(204, "")]);
    let (app, acme) = (fake.app(), registrar("acme"));
    app.configure(&acme, "a-1", &["linux".to_owned()], 1).await.map(|_| ()).expect("configured");
    assert_eq!(
        fake.paths(),
        [format!("POST {TOKENS}"), "POST /orgs/acme/actions/runners/generate-jitconfig".to_owned()]
    );
    for _ in 0..20 {
        app.runner(&acme, ID).await.expect("seen");
    }
    app.deregister(&acme, ID).await.expect("gone");
    assert_eq!(fake.count("/access_tokens"), 1);
}

#[tokio::test]
async fn a_token_is_replaced_five_minutes_before_its_end() {
    let fake = fake().await;
    let (app, acme) = (fake.app(), registrar("acme"));
    app.runner(&acme, ID).await.expect("seen");
    advance(Seconds(3299));
    app.runner(&acme, ID).await.expect("seen");
    assert_eq!(fake.count("/access_tokens"), 1);
    advance(Seconds(1));
    app.runner(&acme, ID).await.expect("seen");
    assert_eq!(fake.count("/access_tokens"), 2);
    assert_eq!(fake.asked().last().expect("asked").bearer(), "ghs_CANARY2");
}

#[tokio::test]
async fn callers_at_once_share_one_token() {
    let fake = fake().await;
    fake.on(
        Method::POST,
        TOKENS,
        [granted("ghs_slow", Seconds(3600)).after(Duration::from_millis(50))],
    );
    let (app, acme) = (fake.app(), registrar("acme"));
    let call = || app.runner(&acme, ID);
    let (a, b, c, d) = tokio::join!(call(), call(), call(), call());
    for seen in [a, b, c, d] {
        assert_eq!(seen, Ok(RunnerSeen::NotBusy(ID)));
    }
    assert_eq!(fake.count("/access_tokens"), 1);
    assert_eq!(fake.count("/runners/5"), 4);
}

#[tokio::test]
async fn callers_at_once_share_one_failure_and_the_next_one_tries_again() {
    let fake = fake().await;
    fake.on(
        Method::POST,
        TOKENS,
        [reply(502, "").after(Duration::from_millis(50)), granted("ghs_back", Seconds(3600))],
    );
    let (app, acme) = (fake.app(), registrar("acme"));
    let (a, b, c) =
        tokio::join!(app.runner(&acme, ID), app.runner(&acme, ID), app.runner(&acme, ID));
    for seen in [a, b, c] {
        assert!(matches!(seen, Err(ProviderError::Unavailable(_))), "{seen:?}");
    }
    assert_eq!(fake.count("/access_tokens"), 1);
    assert!(app.runner(&acme, ID).await.is_ok());
}

#[tokio::test]
async fn installations_and_kinds_of_entity_have_tokens_of_their_own() {
    let fake = fake().await;
    let app = fake.app();
    let other = muster_control::ports::Registrar {
        installation: Some(InstallationId(8)),
        ..registrar("other")
    };
    for registrar in [&registrar("acme"), &registrar("acme/web"), &registrar("acme/api"), &other] {
        app.runner(registrar, ID).await.expect("seen");
    }
    // The two repositories of one installation share a token.
    assert_eq!(fake.count("/access_tokens"), 3);
    assert_eq!(fake.count("/app/installations/8/access_tokens"), 1);
}

#[tokio::test]
async fn a_token_may_handle_runners_look_at_jobs_and_nothing_else() {
    let fake = fake().await;
    let app = fake.app();
    for entity in ["acme", "acme/web", "enterprises/big"] {
        app.runner(&registrar(entity), ID).await.expect("seen");
    }
    let asked: Vec<_> = fake
        .asked()
        .into_iter()
        .filter(|asked| asked.path.ends_with("/access_tokens"))
        .map(|asked| asked.body)
        .collect();
    assert_eq!(
        asked,
        [
            json!({"permissions": {"organization_self_hosted_runners": "write", "actions": "read"}}),
            json!({"permissions": {"administration": "write", "actions": "read"}}),
            json!(null),
        ]
    );
}

#[tokio::test]
async fn a_refused_token_is_replaced_once() {
    let fake = fake().await;
    let refused = reply(401, json!({"message": "Bad credentials"}));
    fake.on(Method::GET, "/actions/runners/5", [refused.clone(), idle()]);
    let (app, acme) = (fake.app(), registrar("acme"));
    assert_eq!(app.runner(&acme, ID).await, Ok(RunnerSeen::NotBusy(ID)));
    assert_eq!(fake.count("/access_tokens"), 2);
    assert_eq!(fake.count("/runners/5"), 2);

    fake.on(Method::GET, "/actions/runners/5", [refused]);
    let seen = app.runner(&acme, ID).await;
    let Err(ProviderError::Unauthorized(fault)) = seen else { panic!("{seen:?}") };
    assert_eq!((fault.code.as_str(), fault.message.as_str()), ("401", "Bad credentials"));
    assert_eq!(fault.operation, "get-runner");
    assert_eq!(fake.count("/runners/5"), 4, "twice, not for ever");
}

#[tokio::test]
async fn a_404_on_the_first_token_request_is_tried_with_another_jwt() {
    let fake = fake().await;
    fake.on(Method::POST, TOKENS, [reply(404, ""), granted("ghs_second", Seconds(3600))]);
    fake.app().runner(&registrar("acme"), ID).await.expect("seen");
    let asked = fake.asked();
    assert_eq!(fake.count("/access_tokens"), 2);
    assert_ne!(asked[0].bearer(), asked[1].bearer());
}

#[tokio::test]
async fn an_installation_that_is_gone_is_looked_up_again() {
    for (entity, path) in [
        ("acme", "/orgs/acme/installation"),
        ("acme/web", "/repos/acme/web/installation"),
        ("enterprises/big", "/enterprises/big/installation"),
    ] {
        let fake = fake().await;
        fake.on(Method::POST, TOKENS, [reply(404, "")]);
        fake.on(Method::GET, "/installation", [reply(200, json!({"id": 70}))]);
        let app = fake.app();
        app.runner(&registrar(entity), ID).await.expect("seen");
        assert_eq!(
            fake.paths()[..4],
            [
                format!("POST {TOKENS}"),
                format!("POST {TOKENS}"),
                format!("GET {path}"),
                "POST /app/installations/70/access_tokens".to_owned(),
            ]
        );
        // From now on the record's stale ID is not used.
        app.runner(&registrar(entity), ID).await.expect("seen");
        assert_eq!(fake.asked().len(), 6);
    }
}

#[tokio::test]
async fn an_unknown_installation_is_looked_up_once() {
    let fake = fake().await;
    fake.on(Method::GET, "/installation", [reply(200, json!({"id": 7}))]);
    let app = fake.app();
    for _ in 0..3 {
        app.runner(&unknown("acme"), ID).await.expect("seen");
    }
    assert_eq!(fake.count("/installation"), 1);
    assert_eq!(fake.count("/access_tokens"), 1);
}

#[tokio::test]
async fn an_app_that_is_not_installed_is_unauthorized() {
    let fake = fake().await;
    fake.on(Method::GET, "/installation", [reply(404, json!({"message": "Not Found"}))]);
    let seen = fake.app().runner(&unknown("acme"), ID).await;
    let Err(ProviderError::Unauthorized(fault)) = seen else { panic!("{seen:?}") };
    assert!(fault.message.starts_with("the App is not installed on acme: "), "{fault:?}");
    assert_eq!(fake.asked().len(), 1);
}

#[tokio::test]
async fn what_github_says_to_a_token_request_is_what_the_caller_hears() {
    let suspended = json!({"message": "This installation has been suspended"});
    let permissions = json!({"message": "The permissions requested are not granted"});
    for (answer, unauthorized) in [
        (reply(403, &suspended), true),
        (reply(422, &permissions), true),
        (reply(500, ""), false),
        (reply(201, r#"{"token":17}"#), false),
    ] {
        let fake = fake().await;
        fake.on(Method::POST, TOKENS, [answer]);
        match fake.app().runner(&registrar("acme"), ID).await {
            Err(ProviderError::Unauthorized(_)) if unauthorized => {}
            Err(ProviderError::Unavailable(_)) if !unauthorized => {}
            other => panic!("{other:?}"),
        }
    }
    let fake = fake().await;
    fake.on(Method::POST, TOKENS, [reply(429, "").header("retry-after", 7)]);
    let seen = fake.app().runner(&registrar("acme"), ID).await;
    assert_eq!(seen, Err(ProviderError::RateLimited(now() + Seconds(7))));
}

/// An App whose stored secret changed after it was read.
struct Rotated {
    stored: RefCell<Result<AppIdentity, AppKeyError>>,
    reads: RefCell<Vec<bool>>,
}

impl Rotated {
    fn of(fake: &Fake) -> Self {
        Self { stored: RefCell::new(Ok(identity(&fake.url))), reads: RefCell::default() }
    }
}

impl AppKey for &Rotated {
    async fn identity(&self, _app: AppName, fresh: bool) -> Result<AppIdentity, AppKeyError> {
        self.reads.borrow_mut().push(fresh);
        self.stored.borrow().clone()
    }
}

#[tokio::test]
async fn a_refused_jwt_asks_for_the_key_again() {
    let fake = fake().await;
    let bad = reply(401, json!({"message": "A JSON web token could not be decoded"}));
    fake.on(Method::POST, TOKENS, [bad.clone(), granted("ghs_new", Seconds(3600))]);
    let key = Rotated::of(&fake);
    let app = App::new(&settings(), &key).expect("trusted roots");
    app.runner(&registrar("acme"), ID).await.expect("seen");
    assert_eq!(*key.reads.borrow(), [false, true]);

    fake.on(Method::POST, TOKENS, [bad]);
    advance(Seconds(3600));
    let seen = app.runner(&registrar("acme"), ID).await;
    assert!(matches!(seen, Err(ProviderError::Unauthorized(_))), "{seen:?}");
    assert_eq!(fake.count("/access_tokens"), 4);
}

/// A secret with several Apps.
struct Several(serde_json::Value);

impl AppKey for Several {
    async fn identity(&self, app: AppName, _fresh: bool) -> Result<AppIdentity, AppKeyError> {
        AppIdentity::read(&self.0.to_string(), app)
            .map_err(|problem| AppKeyError::unfit(app, problem, "s/app-key"))
    }
}

/// An equal installation of an equal name at two hosts: each App goes to its own host, with its own
/// token.
#[tokio::test]
async fn two_apps_at_two_hosts_share_nothing() {
    let (main, other) = (fake().await, fake().await);
    main.on(Method::POST, TOKENS, [granted("ghs_main", Seconds(3600))]);
    other.on(Method::POST, TOKENS, [granted("ghs_two", Seconds(3600))]);
    let of = |fake: &Fake| -> serde_json::Value {
        serde_json::from_str(&secret(&fake.url, &key::pkcs1())).expect("JSON")
    };
    let mut all = of(&main);
    all["other_apps"] = json!({ "two": of(&other) });
    let app = App::new(&settings(), Several(all)).expect("trusted roots");
    for _ in 0..2 {
        app.runner(&registrar("acme"), ID).await.expect("seen");
        app.runner(&registrar("two:acme"), ID).await.expect("seen");
    }
    let asked = [format!("POST {TOKENS}"), "GET /orgs/acme/actions/runners/5".to_owned()];
    let asked = [&asked[..], &asked[1..]].concat();
    assert_eq!((main.paths(), other.paths()), (asked.clone(), asked));
    assert_eq!(main.asked()[1].bearer(), "ghs_main");
    assert_eq!(other.asked()[1].bearer(), "ghs_two");
    let seen = app.runner(&registrar("three:acme"), ID).await;
    let Err(ProviderError::Unauthorized(fault)) = seen else { panic!("{seen:?}") };
    assert!(fault.message.contains("muster github --app three connect"), "{}", fault.message);
}

#[tokio::test]
async fn a_key_that_cannot_be_read_says_nothing_about_our_rights() {
    let fake = fake().await;
    let key = Rotated::of(&fake);
    *key.stored.borrow_mut() = Err(AppKeyError::Unavailable(Cause::new("store unavailable")));
    let app = App::new(&settings(), &key).expect("trusted roots");
    let seen = app.runner(&registrar("acme"), ID).await;
    let Err(ProviderError::Unavailable(fault)) = seen else { panic!("{seen:?}") };
    assert_eq!(
        (fault.code.as_str(), fault.message.as_str()),
        ("no-key", "the App's key cannot be read: store unavailable")
    );

    let arn = "arn:aws:secretsmanager:us-east-1:111122223333:secret:muster/app-key-a1B2c3";
    *key.stored.borrow_mut() = Err(AppKeyError::unfit(AppName::MAIN, KeyProblem::Unset, arn));
    let seen = app.runner(&registrar("acme"), ID).await;
    let Err(ProviderError::Unauthorized(fault)) = seen else { panic!("for an operator: {seen:?}") };
    assert_eq!(
        (fault.code.as_str(), fault.message.as_str()),
        ("no-key", KeyProblem::Unset.sentence("muster/app-key", AppName::MAIN).as_str())
    );
    assert!(fake.asked().is_empty());
}

/// A different App, even of a different GitHub, is used without a restart.
#[tokio::test]
async fn an_app_that_was_put_in_later_is_used() {
    let (old, new) = (fake().await, fake().await);
    let key = Rotated::of(&old);
    let app = App::new(&settings(), &key).expect("trusted roots");
    app.runner(&registrar("acme"), ID).await.expect("seen");
    *key.stored.borrow_mut() = Ok(identity(&new.url));
    // The old App's token is still used at the API that granted it.
    app.runner(&registrar("acme"), ID).await.expect("seen");
    assert_eq!((old.count("/runners/5"), new.count("/runners/5")), (2, 0));
    advance(Seconds(3600));
    app.runner(&registrar("acme"), ID).await.expect("seen");
    assert_eq!((old.count("/runners/5"), new.count("/runners/5")), (2, 1));
}

#[test]
fn what_is_wrong_with_the_secret_is_told_without_a_word_of_it() {
    let url = "https://api.github.com";
    let key = key::pkcs1();
    let pem = key.expose_secret();
    let broken = SecretString::from(
        "-----BEGIN RSA PRIVATE KEY-----\nCANARY\n-----END RSA PRIVATE KEY-----",
    );
    for (text, expected) in [
        ("", KeyProblem::Unset),
        (r#"{"placeholder":"replace me CANARY","nonce":"x"}"#, KeyProblem::Unset),
        (pem, KeyProblem::BarePem),
        ("CANARY", KeyProblem::NotJson),
        ("[4242]", KeyProblem::NotJson),
        (&json!({ "private_key": pem }).to_string(), KeyProblem::Lacks("app_id")),
        (&json!({ "app_id": "", "private_key": pem }).to_string(), KeyProblem::Lacks("app_id")),
        (&json!({ "app_id": 4242 }).to_string(), KeyProblem::Lacks("private_key")),
        (&secret(url, &SecretString::from("CANARY")), KeyProblem::NoRsaKey),
        (&secret(url, &broken), KeyProblem::NoRsaKey),
    ] {
        let problem = AppIdentity::read(text, AppName::MAIN).err();
        assert_eq!(problem, Some(expected), "{text}");
        assert!(!expected.sentence("s/app-key", AppName::MAIN).contains(CANARY));
    }
}

/// GitHub's response to a manifest has more fields, and its ID is a number.
#[test]
fn an_app_is_read_as_github_hands_it_out() {
    let key = key::pkcs8();
    for id in [json!(4242), json!("4242"), json!("Iv23liABC")] {
        let secret = json!({ "app_id": id, "private_key": key.expose_secret(), "slug": "muster-acme",
            "html_url": "https://github.com/apps/muster-acme" });
        assert!(AppIdentity::read(&secret.to_string(), AppName::MAIN).is_ok(), "{id}");
    }
}
