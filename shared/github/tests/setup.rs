//! Creation of the App from its manifest, and configuration of its webhook: the calls, the stored
//! values, and a check that no secret is exposed.

mod support;

use std::sync::{Arc, Mutex};

use axum::http::Method;
use muster_control::ports::{
    AppAccount, AppCredentials, AppSetup, ConversionError, Directory, HookError, IdentityError,
    SigningSecret, Unavailable,
};
use muster_domain::app::{AppProblem, KeyProblem, code_mark};
use muster_domain::hidden::Hidden;
use muster_domain::ids::AppName;
use muster_domain::provider::ProviderError;
use muster_github::{App, AppIdentity, AppKey, AppKeyError, AppStore};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use support::{CANARY, Fake, key, now, reply, settings};

const CODE: &str = "a180b1a3d263c81bc6441d7b990bae27d4c10679";
const CONVERSION: &str = "/app-manifests/a180b1a3d263c81bc6441d7b990bae27d4c10679/conversions";
const CONFIG: &str = "/app/hook/config";

/// A writable secret.
#[derive(Clone, Default)]
struct Store(Arc<Mutex<String>>, Arc<Mutex<Vec<String>>>);

impl AppKey for Store {
    async fn identity(&self, _app: AppName, _fresh: bool) -> Result<AppIdentity, AppKeyError> {
        AppIdentity::read(&self.0.lock().expect("lock"), AppName::MAIN)
            .map_err(|problem| AppKeyError::unfit(AppName::MAIN, problem, "muster/app-key"))
    }
}

impl AppStore for Store {
    async fn app_secret(&self) -> Result<SecretString, Unavailable> {
        Ok(self.0.lock().expect("lock").clone().into())
    }

    async fn put_app_secret(&self, secret: SecretString) -> Result<(), Unavailable> {
        *self.0.lock().expect("lock") = secret.expose_secret().to_owned();
        Ok(())
    }

    async fn signing_secret(&self, _app: AppName) -> Result<SigningSecret, Unavailable> {
        let value = Hidden::from(format!("{CANARY}-signing"));
        Ok(SigningSecret { value, since: now(), has_previous: false })
    }

    async fn put_signing_secret(&self, secret: SecretString) -> Result<(), Unavailable> {
        self.1.lock().expect("lock").push(secret.expose_secret().to_owned());
        Ok(())
    }
}

fn app() -> App<Store> {
    app_of(&Store::default())
}

fn app_of(store: &Store) -> App<Store> {
    App::new(&settings(), store.clone()).expect("trusted roots")
}

impl Store {
    fn kept(&self) -> String {
        self.0.lock().expect("lock").clone()
    }
}

fn code() -> Hidden {
    CODE.to_owned().into()
}

/// A conversion in GitHub's form.
fn converted() -> Value {
    json!({
        "id": 31415, "node_id": "A_x", "slug": "muster-acme", "name": "Muster Acme",
        "client_id": "Iv23liAAAAAAAAAAAAAA", "client_secret": format!("{CANARY}-client"),
        "webhook_secret": format!("{CANARY}-hook"), "pem": key::pkcs1().expose_secret(),
        "owner": { "login": "acme", "id": 9919, "type": "Organization" },
        "html_url": "https://github.com/apps/muster-acme",
        "external_url": "https://a1b2c3d4e5.execute-api.us-east-1.amazonaws.com",
        "events": ["workflow_job"],
        "permissions": { "actions": "read", "organization_self_hosted_runners": "write" },
    })
}

#[tokio::test]
async fn a_code_is_converted_and_its_app_kept() {
    let fake = Fake::start().await;
    fake.on(Method::POST, CONVERSION, [reply(201, converted())]);
    fake.on(Method::GET, "/app", [reply(200, json!({ "id": 31415, "slug": "muster-acme" }))]);
    let store = Store::default();
    let app = app_of(&store);
    assert_eq!(app.made_by(AppName::MAIN).await, Ok(None));
    let api = format!("{}/api/v3/", fake.url);
    let made = app.convert(&api, &code()).await.expect("an App");
    assert_eq!(fake.paths(), [format!("POST /api/v3{CONVERSION}")]);
    assert!(!fake.asked()[0].headers.contains_key("authorization"), "the code is all there is");
    assert_eq!(made.owner, AppAccount::Organization("acme".to_owned()));
    let AppCredentials { app_id, client_id, slug, html_url, .. } = &made.credentials;
    assert_eq!((app_id.as_str(), slug.as_str()), ("31415", "muster-acme"));
    assert_eq!(client_id.as_deref(), Some("Iv23liAAAAAAAAAAAAAA"));
    assert_eq!(html_url, "https://github.com/apps/muster-acme");

    app.keep(AppName::MAIN, Some(&made.credentials)).await.expect("kept");
    let kept = store.kept();
    let fields: Value = serde_json::from_str(&kept).expect("JSON");
    let names: Vec<&String> = fields.as_object().expect("an object").keys().collect();
    let expected = ["api_url", "app_id", "client_id", "html_url", "made_by", "private_key", "slug"];
    assert_eq!(names, expected);
    assert!(!kept.contains(CANARY) && !kept.contains(CODE), "kept what nobody needs");
    assert_eq!(app.made_by(AppName::MAIN).await, Ok(Some(code_mark(CODE))));
    // Further calls use this App, at this API.
    assert_eq!(app.app(AppName::MAIN).await.expect("an answer").slug, "muster-acme");
    assert_eq!(fake.paths()[1], "GET /api/v3/app");

    let body = key::pkcs1().expose_secret().lines().nth(3).expect("a line").to_owned();
    let printed = format!("{made:?} {app:?}");
    assert!(!printed.contains(&body) && !printed.contains(CANARY), "{printed}");
}

#[tokio::test]
async fn the_owner_of_a_new_app_is_an_organization_a_person_or_another() {
    for (owner, expected) in [
        (
            json!({ "login": "acme", "type": "Organization" }),
            AppAccount::Organization("acme".to_owned()),
        ),
        (json!({ "login": "mira", "type": "User" }), AppAccount::Person("mira".to_owned())),
        (json!({ "slug": "acme-corp", "name": "Acme" }), AppAccount::Other),
        (json!({ "login": "acme" }), AppAccount::Other),
        (Value::Null, AppAccount::Other),
    ] {
        let fake = Fake::start().await;
        let mut answer = converted();
        answer["owner"] = owner;
        fake.on(Method::POST, CONVERSION, [reply(201, answer)]);
        let made =
            app_of(&Store::default()).convert(&format!("{}/api/v3/", fake.url), &code()).await;
        assert_eq!(made.expect("an App").owner, expected);
    }
}

#[tokio::test]
async fn what_github_does_not_convert_is_told_apart() {
    let fake = Fake::start().await;
    let convert = async |status: u16, body: Value| {
        fake.on(Method::POST, CONVERSION, [reply(status, body)]);
        app().convert(&fake.url, &code()).await.expect_err("refused")
    };
    assert_eq!(convert(404, json!({ "message": "Not Found" })).await, ConversionError::UnknownCode);
    let broken = convert(502, json!({ "message": "Server Error" })).await;
    assert!(matches!(broken, ConversionError::ProviderError(ProviderError::Unavailable(_))));
    // An unreadable response, and one that quotes the code: neither is shown.
    for (status, body) in [
        (201, json!({ "id": CANARY, "pem": CANARY })),
        (201, json!(CANARY)),
        (403, json!({ "message": format!("no {CODE}") })),
    ] {
        let told = format!("{:?}", convert(status, body).await);
        assert!(!told.contains(CANARY) && !told.contains(CODE), "{told}");
    }
    let silent = app().convert("https://127.0.0.1:1", &code()).await.expect_err("nobody");
    assert!(!format!("{silent:?}").contains(CODE), "{silent:?}");
    let asked = fake.asked().len();
    for wrong in ["http://api.github.com", "ftp://x", "", "https://u:p@h", "https://h?x=1"] {
        let refused = app().convert(wrong, &code()).await;
        assert_eq!(refused.expect_err("no address"), ConversionError::Address, "{wrong}");
    }
    let odd = app().convert(&fake.url, &"../../app".to_owned().into()).await;
    assert_eq!(odd.expect_err("no code"), ConversionError::UnknownCode);
    assert_eq!(fake.asked().len(), asked, "nobody was asked");
}

fn credentials(url: &str, private_key: &str) -> AppCredentials {
    AppCredentials {
        app_id: "4242".to_owned(),
        client_id: None,
        slug: String::new(),
        html_url: String::new(),
        api_url: url.to_owned(),
        private_key: private_key.to_owned().into(),
        made_by: None,
    }
}

#[tokio::test]
async fn an_app_is_asked_who_it_is_before_it_is_kept() {
    let fake = Fake::start().await;
    let (store, pem) = (Store::default(), key::pkcs1());
    let app = app_of(&store);
    let pem = pem.expose_secret();
    fake.on(Method::GET, "/app", [reply(200, json!({ "id": 4242, "slug": "ours" }))]);
    let seen = app.identify(&credentials(&fake.url, pem)).await.expect("an App");
    assert_eq!((seen.id, seen.slug.as_str()), (4242, "ours"));
    fake.on(Method::GET, "/app", [reply(401, json!({ "message": "could not be decoded" }))]);
    let refused = app.identify(&credentials(&fake.url, pem)).await.expect_err("another key");
    let is_refused = |problem: &IdentityError| matches!(problem, IdentityError::App(AppProblem::Refused { app, .. }) if app == "4242");
    assert!(is_refused(&refused), "{refused:?}");
    for (given, problem) in [
        (credentials(&fake.url, CANARY), KeyProblem::NoRsaKey),
        (credentials("http://h", pem), KeyProblem::Address),
        (
            AppCredentials { app_id: " ".into(), ..credentials(&fake.url, pem) },
            KeyProblem::Lacks("app_id"),
        ),
    ] {
        let unfit = app.identify(&given).await.expect_err("unfit");
        assert_eq!(unfit, IdentityError::Unfit(problem));
    }
    assert_eq!(fake.asked().len(), 2);
    assert_eq!(store.kept(), "", "nothing was kept");
}

#[tokio::test]
async fn the_webhook_is_set() {
    let fake = Fake::start().await;
    let app = app();
    app.keep(AppName::MAIN, Some(&credentials(&fake.url, key::pkcs1().expose_secret())))
        .await
        .expect("kept");
    let url = "https://a1b2c3d4e5.execute-api.us-east-1.amazonaws.com/webhook";
    let secret = app.signing_secret(AppName::MAIN).await.expect("read").value;
    let shown =
        json!({ "content_type": "json", "insecure_ssl": "0", "secret": "********", "url": url });
    fake.on(Method::PATCH, CONFIG, [reply(200, shown)]);
    assert_eq!(app.set_hook(AppName::MAIN, url, Some(&secret)).await, Ok(()));
    let asked = fake.asked().remove(0);
    let expected = json!({ "url": url, "content_type": "json", "insecure_ssl": "0",
        "secret": format!("{CANARY}-signing") });
    assert_eq!((asked.body.clone(), asked.bearer().matches('.').count()), (expected, 2));
    app.set_hook(AppName::MAIN, url, None).await.expect("set");
    assert_eq!(fake.asked()[1].body.get("secret"), None, "that one stays");
    for status in [404, 422] {
        fake.on(Method::PATCH, CONFIG, [reply(status, json!({ "message": "no" }))]);
        let refused = app.set_hook(AppName::MAIN, url, Some(&secret)).await.expect_err("refused");
        let told = format!("{refused:?}");
        assert!(matches!(refused, HookError::Refused(_)) && !told.contains(CANARY), "{told}");
    }
    fake.on(Method::PATCH, CONFIG, [reply(500, json!({ "message": format!("{CANARY}") }))]);
    assert!(matches!(
        app.set_hook(AppName::MAIN, url, None).await,
        Err(HookError::ProviderError(_))
    ));
}

#[tokio::test]
async fn another_secret_is_random_and_attempts_are_told_by_their_event() {
    let fake = Fake::start().await;
    let store = Store::default();
    let app = app_of(&store);
    app.keep(AppName::MAIN, Some(&credentials(&fake.url, key::pkcs1().expose_secret())))
        .await
        .expect("kept");
    for _ in 0..2 {
        app.renew_signing_secret().await.expect("written");
    }
    let put = store.1.lock().expect("lock").clone();
    assert!(put[0] != put[1] && put.iter().all(|one| one.len() == 64), "as long as the first one");
    assert!(put.iter().flat_map(|one| one.chars()).all(|one| one.is_ascii_hexdigit()));

    let attempts = json!([
        { "id": 12, "guid": "b", "delivered_at": "2026-11-25T18:00:02Z", "event": "ping",
          "redelivery": true, "status": "OK", "status_code": 200, "action": null },
        { "id": 11, "guid": "a", "delivered_at": "2026-11-25T18:00:01Z", "event": "workflow_job",
          "status": "failed to connect to host", "status_code": 0, "action": "queued" },
    ]);
    fake.on(Method::GET, "/app/hook/deliveries", [reply(200, attempts)]);
    let seen = app.hook_attempts(AppName::MAIN).await.expect("an answer");
    let told: Vec<_> = seen.iter().map(|one| (one.id, one.event.as_str(), one.status)).collect();
    assert_eq!(told, [(12, "ping", Some(200)), (11, "workflow_job", None)]);
    assert!(seen[0].at > seen[1].at && seen[0].guid == "b");
}
