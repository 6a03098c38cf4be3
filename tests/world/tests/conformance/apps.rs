//! An App from its manifest to its first delivery, by a client that follows GitHub's forms.

use std::sync::{Arc, Mutex};

use axum::{Router, body::Bytes, extract::State, http::HeaderMap, routing::post};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::common::cloud::{Cloud, serve, signed_by};

/// What the webhook was sent: event, signature, body.
type Sent = Arc<Mutex<Vec<(String, String, Vec<u8>)>>>;

async fn receiver(sent: &Sent) -> String {
    async fn take(State(sent): State<Sent>, headers: HeaderMap, body: Bytes) {
        let text = |name: &str| headers[name].to_str().unwrap().to_owned();
        let signature = text("x-hub-signature-256");
        sent.lock().unwrap().push((text("x-github-event"), signature, body.to_vec()));
    }
    serve(Router::new().route("/webhook", post(take)).with_state(Arc::clone(sent))).await
}

fn manifest(hook: &str) -> Value {
    json!({
        "name": "Muster Acme", "url": "https://hooks.example", "public": false,
        "hook_attributes": { "url": format!("{hook}/webhook"), "active": true },
        "redirect_url": "http://127.0.0.1:49213/created",
        "default_permissions": { "actions": "read", "organization_self_hosted_runners": "write" },
        "default_events": ["workflow_job"],
    })
}

/// A page's form: where it goes, and its fields as they are filled in.
struct Form {
    action: String,
    fields: Vec<(String, String)>,
}

impl Form {
    fn of(page: &str) -> Self {
        let plain = |text: &str| text.replace("&quot;", "\"").replace("&amp;", "&");
        let of = |tag: &str, name: &str| {
            let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
            Some(plain(rest.split_once('"')?.0))
        };
        let tags: Vec<&str> = page.split('<').collect();
        let form = tags.iter().find(|tag| tag.starts_with("form ")).expect("a form");
        let inputs = tags.iter().filter(|tag| tag.starts_with("input "));
        // Of two radio buttons the one that is pressed.
        let pressed = inputs.filter(|tag| !tag.contains("\"radio\"") || tag.contains(" checked"));
        Self {
            action: of(form, "action").expect("an action"),
            fields: pressed.filter_map(|tag| Some((of(tag, "name")?, of(tag, "value")?))).collect(),
        }
    }

    fn fill(mut self, name: &str, value: &str) -> Self {
        let field = self.fields.iter_mut().find(|(key, _)| key == name).expect("such a field");
        field.1 = value.to_owned();
        self
    }
}

/// Somebody at a browser.
struct Browser<'a> {
    cloud: &'a Cloud,
    http: reqwest::Client,
}

impl<'a> Browser<'a> {
    fn new(cloud: &'a Cloud) -> Self {
        let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
        Self { cloud, http: http.build().unwrap() }
    }

    /// Presses a button: status, where that leads, and the page.
    async fn press(&self, action: &str, fields: &[(String, String)]) -> (u16, String, String) {
        let url = format!("http://{}{action}", self.cloud.running.github);
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request =
            self.http.post(url).header("content-type", "application/x-www-form-urlencoded");
        let answer = request.body(body).send().await.unwrap();
        let location = answer.headers().get("location").map(|it| it.to_str().unwrap().to_owned());
        (answer.status().as_u16(), location.unwrap_or_default(), answer.text().await.unwrap())
    }

    async fn with_manifest(&self, action: &str, manifest: &Value) -> (u16, String) {
        let fields = [("manifest".to_owned(), manifest.to_string())];
        let (status, _, page) = self.press(&format!("{action}?state=s%2B1"), &fields).await;
        (status, page)
    }

    async fn open(&self, path: &str) -> String {
        let url = format!("http://{}{path}", self.cloud.running.github);
        self.http.get(url).send().await.unwrap().text().await.unwrap()
    }
}

fn hmac(secret: &str, body: &[u8]) -> String {
    let mut key = [0_u8; 64];
    key[..secret.len()].copy_from_slice(secret.as_bytes());
    let pad = |with: u8| key.map(|byte| byte ^ with);
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(body).finalize();
    let outer = Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize();
    format!("sha256={}", hex::encode(outer))
}

const NEW: &str = "/organizations/acme/settings/apps/new";

#[tokio::test]
async fn an_app_is_made_by_its_forms_and_installed() {
    let cloud = Cloud::open("").await;
    let at_home = json!({ "owns": { "acme": true }, "local_hooks_allowed": true });
    cloud.control("pages", at_home).await;
    let sent = Sent::default();
    let hook = receiver(&sent).await;
    let browser = Browser::new(&cloud);
    let (status, page) = browser.with_manifest(NEW, &manifest(&hook)).await;
    assert_eq!(status, 200, "{page}");
    for part in ["for acme", "actions: read", "Create GitHub App</button>", ">Cancel</a>"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("<script"), "{page}");
    let form = Form::of(&page);
    assert!(form.fields.contains(&("name".to_owned(), "Muster Acme".to_owned())));
    let form = form.fill("name", "Muster of Acme");
    let (status, location, _) = browser.press(&form.action, &form.fields).await;
    assert_eq!(status, 302);
    let back = location.strip_prefix("http://127.0.0.1:49213/created?").expect("the redirect");
    let back: Vec<(String, String)> =
        form_urlencoded::parse(back.as_bytes()).into_owned().collect();
    let [(_, code), (_, state)] = &back[..] else { panic!("{back:?}") };
    assert_eq!(state, "s+1");

    let conversion = format!("/app-manifests/{code}/conversions");
    let (status, app) = cloud.github(Method::POST, &conversion, "", None).await;
    assert_eq!((status, &app["slug"]), (201, &json!("muster-of-acme")), "{app}");
    assert_eq!(cloud.github(Method::POST, &conversion, "", None).await.0, 404, "once");
    let file = cloud.state_dir.join("made.pem");
    std::fs::write(&file, app["pem"].as_str().unwrap()).unwrap();
    let number = app["id"].to_string();
    let token = |jti: &str| {
        let mut claims = crate::common::cloud::claims(jti);
        claims["iss"] = json!(number);
        signed_by(&file, &json!({ "alg": "RS256", "typ": "JWT" }), &claims)
    };
    cloud.until("the ping", async |_| sent.lock().unwrap().len() == 1).await;
    let (event, signature, body) = sent.lock().unwrap()[0].clone();
    let github_own = app["webhook_secret"].as_str().unwrap();
    assert_eq!((event.as_str(), signature), ("ping", hmac(github_own, &body)));

    let own = "0123456789abcdef0123456789abcdef";
    let config = json!({ "url": format!("{hook}/webhook"), "secret": own });
    let set = cloud.github(Method::PATCH, "/app/hook/config", &token("1"), Some(config)).await;
    assert_eq!((set.0, &set.1["secret"]), (200, &json!("********")));
    assert_eq!(cloud.github(Method::GET, "/app/hook/config", &token("2"), None).await, set);

    let page = browser.open("/apps/muster-of-acme/installations/new").await;
    let form = Form::of(&page).fill("repositories", "selected");
    assert_eq!(browser.press(&form.action, &form.fields).await.0, 200);
    let (_, all) = cloud.github(Method::GET, "/app/installations", &token("3"), None).await;
    assert_eq!(
        (&all[0]["account"]["login"], &all[0]["repository_selection"]),
        (&json!("acme"), &json!("selected"))
    );
    cloud.until("the installation", async |_| sent.lock().unwrap().len() == 2).await;
    let (event, signature, body) = sent.lock().unwrap()[1].clone();
    assert_eq!(
        (event.as_str(), signature),
        ("installation", hmac(own, &body)),
        "the stack's secret"
    );
    repeat_the_newest(&cloud, &sent, token).await;
}

/// As a test of the webhook has it.
async fn repeat_the_newest(cloud: &Cloud, sent: &Sent, token: impl Fn(&str) -> String) {
    let deliveries = async |jti: &str| {
        cloud.github(Method::GET, "/app/hook/deliveries", &token(jti), None).await.1
    };
    let before = deliveries("4").await;
    assert_eq!(
        (&before[0]["event"], &before[1]["event"]),
        (&json!("installation"), &json!("ping"))
    );
    let again = format!("/app/hook/deliveries/{}/attempts", before[0]["id"]);
    assert_eq!(cloud.github(Method::POST, &again, &token("5"), None).await.0, 202);
    cloud.until("the repetition", async |_| sent.lock().unwrap().len() == 3).await;
    cloud
        .until("its attempt", async |_| {
            static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(100);
            let jti = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed).to_string();
            let now = deliveries(&jti).await;
            now[0]["guid"] == before[0]["guid"]
                && now[0]["redelivery"] == true
                && now[0]["status_code"] == 200
        })
        .await;
}

#[tokio::test]
async fn a_manifest_that_is_wrong_is_refused_on_its_page() {
    let cloud = Cloud::open("").await;
    cloud.control("pages", json!({ "owns": { "acme": true } })).await;
    let browser = Browser::new(&cloud);
    let right = manifest("https://hooks.example");
    let mut without_url = right.clone();
    without_url["hook_attributes"] = json!({ "active": false });
    let mut unknown = right.clone();
    unknown["default_permissions"]["runners"] = json!("write");
    let local = "isn't reachable over the public Internet (localhost)";
    for (wrong, says) in [
        (&manifest("http://localhost:4566"), local),
        (&without_url, "Error &quot;url&quot; wasn't supplied."),
        (&unknown, "Error Default permission records resource is not included in the list"),
        (&json!(null), "Invalid GitHub App configuration"),
    ] {
        let (status, page) = browser.with_manifest(NEW, wrong).await;
        assert_eq!(status, 422);
        assert!(page.contains(says), "{says}: {page}");
    }
    let (status, page) = browser.with_manifest("/settings/apps/new", &right).await;
    assert!(status == 200 && page.contains("for octocat"), "{page}");
    let form = Form::of(&page);
    assert_eq!(browser.press(&form.action, &form.fields).await.0, 302);
    let (status, _, page) = browser.press(&form.action, &form.fields).await;
    assert!(status == 422 && page.contains("Name is already taken"), "{page}");
    let form = Form::of(&page).fill("name", "another");
    assert_eq!(browser.press(&form.action, &form.fields).await.0, 302, "the name can be changed");
}

#[tokio::test]
async fn an_organizations_pages_are_its_owners() {
    let cloud = Cloud::open("").await;
    let browser = Browser::new(&cloud);
    let right = manifest("https://hooks.example");
    for owns in [false, true, false] {
        cloud.control("pages", json!({ "owns": { "Acme": owns } })).await;
        let (status, page) = browser.with_manifest(NEW, &right).await;
        assert_eq!(
            (status, page.contains("Page not found")),
            if owns { (200, false) } else { (404, true) }
        );
    }
    let own = browser.open("/settings/apps/new").await;
    assert!(own.contains("for octocat"), "their own are always theirs: {own}");
}

#[tokio::test]
async fn cancel_leads_to_the_owners_apps_and_not_back() {
    let cloud = Cloud::open("").await;
    cloud.control("pages", json!({ "owns": { "acme": true } })).await;
    let browser = Browser::new(&cloud);
    let (_, page) = browser.with_manifest(NEW, &manifest("https://hooks.example")).await;
    let (before, _) = page.split_once("\">Cancel</a>").expect("a way out");
    let (_, path) = before.rsplit_once("href=\"").expect("an address");
    let apps = browser.open(path).await;
    assert!(apps.contains("GitHub Apps") && !apps.contains("Muster"), "{path}: {apps}");
}

#[tokio::test]
async fn a_code_is_good_for_as_long_as_the_world_says() {
    let cloud = Cloud::open("").await;
    cloud.control("timings", json!({ "code_ms": 0 })).await;
    let browser = Browser::new(&cloud);
    let (_, page) =
        browser.with_manifest("/settings/apps/new", &manifest("https://hooks.example")).await;
    let form = Form::of(&page);
    let (_, location, _) = browser.press(&form.action, &form.fields).await;
    let (_, code) = location.split_once("code=").expect("a code");
    let code = code.split('&').next().unwrap();
    let path = format!("/app-manifests/{code}/conversions");
    assert_eq!(cloud.github(Method::POST, &path, "", None).await.0, 404, "it is over");
}

#[tokio::test]
async fn an_address_fills_the_form_in_and_the_key_is_a_file() {
    let cloud = Cloud::open("").await;
    cloud.control("pages", json!({ "owns": { "acme": true } })).await;
    let browser = Browser::new(&cloud);
    let address = "name=muster-ab&url=https://h.example&public=false&webhook_active=true\
                   &webhook_url=https://h.example/webhook&events%5B%5D=workflow_job&actions=read\
                   &organization_self_hosted_runners=write";
    let page = browser.open(&format!("{NEW}?{address}")).await;
    let form = Form::of(&page);
    let local = Form::of(&page).fill("webhook_url", "http://127.0.0.1:4566/webhook");
    let (status, _, page) = browser.press(&local.action, &local.fields).await;
    assert!(status == 422 && page.contains("public Internet (127.0.0.1)"), "{page}");

    let form = form.fill("webhook_secret", "0123456789abcdef");
    let (status, settings, _) = browser.press(&form.action, &form.fields).await;
    assert_eq!((status, settings.as_str()), (302, "/organizations/acme/settings/apps/muster-ab"));
    let page = browser.open(&settings).await;
    let (_, number) = page.split_once("App ID: ").expect("its number");
    let number = number.split('<').next().unwrap();
    let button = Form::of(&page);
    let (status, _, key) = browser.press(&button.action, &button.fields).await;
    assert_eq!(status, 200);
    let file = cloud.state_dir.join("pressed.pem");
    std::fs::write(&file, key).unwrap();
    let mut claims = crate::common::cloud::claims("1");
    claims["iss"] = json!(number);
    let token = signed_by(&file, &json!({ "alg": "RS256", "typ": "JWT" }), &claims);
    let (status, app) = cloud.github(Method::GET, "/app", &token, None).await;
    assert_eq!((status, &app["slug"]), (200, &json!("muster-ab")), "{app}");
    assert_eq!(
        (&app["events"], &app["permissions"]["organization_self_hosted_runners"]),
        (&json!(["workflow_job"]), &json!("write"))
    );
}
