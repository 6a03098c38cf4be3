//! The secrets.

use aws_sdk_secretsmanager::Client;
use hmac::{Hmac, KeyInit as _, Mac as _};
use muster_aws::clock;
use muster_aws::secrets::{self, SecretError, WebhookSecret, app};
use muster_domain::ids::AppName;
use muster_domain::time::{Seconds, Time};
use secrecy::ExposeSecret as _;
use serde_json::json;
use sha2::Sha256;

use crate::proxy::{Deed, Proxy};
use crate::support::{config, config_at};

const OLD: &str = "old-old-old-old-old-old-old-old-old!";
const NEW: &str = "new-new-new-new-new-new-new-new-new!";

fn signed(secret: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any length");
    mac.update(b"body");
    format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
}

async fn is_signed(secret: &WebhookSecret, by: &str, now: Time) -> bool {
    secret.is_signed(AppName::MAIN, b"body", Some(&signed(by)), now).await.expect("a secret")
}

async fn create(client: &Client, id: &str, value: &str) {
    client.create_secret().name(id).secret_string(value).send().await.expect("CreateSecret");
}

async fn put(client: &Client, id: &str, value: &str) {
    client
        .put_secret_value()
        .secret_id(id)
        .secret_string(value)
        .send()
        .await
        .expect("PutSecretValue");
}

#[tokio::test]
async fn a_changed_webhook_secret_loses_no_delivery() {
    let config = config().await;
    let client = Client::new(&config);
    create(&client, "w1/webhook-secret", OLD).await;
    let secret = WebhookSecret::new(&config, "w1/webhook-secret".into());
    let now = clock::now();
    secret.read(now).await.expect("read");
    assert!(is_signed(&secret, OLD, now).await);
    assert!(!is_signed(&secret, NEW, now).await);
    assert!(!secret.is_signed(AppName::MAIN, b"body", None, now).await.expect("a secret"));

    put(&client, "w1/webhook-secret", &format!("{NEW}\n")).await;
    assert!(!is_signed(&secret, NEW, now + Seconds(59)).await, "read again too soon");
    assert!(is_signed(&secret, NEW, now + Seconds(60)).await, "read again on the mismatch");
    assert!(is_signed(&secret, OLD, now + Seconds(61)).await, "the previous one for a day");
    assert!(!is_signed(&secret, OLD, now + Seconds(2 * 86_400)).await, "and not for ever");
    assert!(is_signed(&secret, NEW, now + Seconds(2 * 86_400)).await);
}

/// How an operator revokes a leaked secret.
#[tokio::test]
async fn a_leaked_webhook_secret_ends_within_five_minutes_when_the_new_one_is_put_in_twice() {
    let config = config().await;
    let client = Client::new(&config);
    create(&client, "w4/webhook-secret", OLD).await;
    let secret = WebhookSecret::new(&config, "w4/webhook-secret".into());
    let now = clock::now();
    secret.read(now).await.expect("read");
    for _ in 0..2 {
        put(&client, "w4/webhook-secret", NEW).await;
    }
    assert!(!is_signed(&secret, OLD, now + Seconds(300)).await, "the leaked one");
    assert!(is_signed(&secret, NEW, now + Seconds(300)).await);
}

#[tokio::test]
async fn a_known_webhook_secret_outlives_an_outage() {
    // Created long ago, so that the previous value is not read.
    let known = json!({ "SecretString": OLD, "CreatedDate": 1.0 }).to_string();
    let outage = json!({ "__type": "InternalServiceError" }).to_string();
    let deeds = std::iter::once(Deed::Answer(200, known));
    let deeds = deeds.chain(std::iter::repeat_n(Deed::Answer(500, outage), 100));
    let proxy = Proxy::new("GetSecretValue", deeds.collect());
    let config = config_at(proxy.address).await;
    let secret = WebhookSecret::new(&config, "w2/webhook-secret".into());
    let now = clock::now();
    assert!(is_signed(&secret, OLD, now).await, "read when it is first needed");
    assert_eq!(proxy.seen(), 1);
    assert!(is_signed(&secret, OLD, now + Seconds(301)).await);
    let looked = proxy.seen();
    assert!(looked > 1, "a value of five minutes ago is looked at again");
    assert!(!is_signed(&secret, NEW, now + Seconds(362)).await);
    assert!(proxy.seen() > looked, "so is one that does not fit");
    assert!(is_signed(&secret, OLD, now + Seconds(363)).await);
}

#[tokio::test]
async fn without_a_webhook_secret_nothing_is_called_unsigned() {
    let config = config().await;
    let secret = WebhookSecret::new(&config, "w3/webhook-secret".into());
    for _ in 0..2 {
        let outcome =
            secret.is_signed(AppName::MAIN, b"body", Some(&signed(OLD)), clock::now()).await;
        assert!(matches!(outcome, Err(SecretError::Unset { .. })), "{outcome:?}");
    }
    create(&Client::new(&config), "w3/webhook-secret", "short").await;
    let outcome = secret.read(clock::now()).await;
    let Err(error) = outcome else { panic!("accepted") };
    let text = error.to_string();
    assert!(text.contains("put-secret-value --secret-id w3/webhook-secret"), "{text}");
    assert!(!text.contains("short,"), "{text}");
}

#[tokio::test]
async fn the_app_is_read_as_it_was_put_in_last() {
    let config = config().await;
    let client = Client::new(&config);
    create(&client, "k1/app-key", "{}").await;
    put(&client, "k1/app-key", r#"{"app_id":4242}"#).await;
    let read = app(&config, "k1/app-key").await.expect("a value");
    assert_eq!(read.expose_secret(), r#"{"app_id":4242}"#);
    let none = app(&config, "k2/app-key").await.expect("no value");
    assert_eq!(none.expose_secret(), "", "there is no such secret");
}

#[tokio::test]
async fn what_is_put_in_is_read_and_the_signing_secret_says_since_when() {
    let config = config().await;
    let client = Client::new(&config);
    create(&client, "p1/app-key", "{}").await;
    let value = r#"{"app_id":"7"}"#;
    secrets::put(&config, "p1/app-key", value.to_owned().into()).await.expect("written");
    assert_eq!(app(&config, "p1/app-key").await.expect("a value").expose_secret(), value);
    let lost = secrets::put(&config, "p2/app-key", value.to_owned().into()).await;
    let told = format!("{:?}", lost.expect_err("there is no such secret"));
    assert!(told.contains("p2/app-key") && !told.contains("app_id"), "{told}");

    create(&client, "p1/webhook-secret", OLD).await;
    let first = secrets::signing(&config, "p1/webhook-secret", AppName::MAIN, clock::now())
        .await
        .expect("read");
    assert_eq!((first.value.expose(), first.has_previous), (OLD, false));
    put(&client, "p1/webhook-secret", NEW).await;
    let second = secrets::signing(&config, "p1/webhook-secret", AppName::MAIN, clock::now())
        .await
        .expect("read");
    assert_eq!((second.value.expose(), second.has_previous), (NEW, true));
    assert!(second.since >= first.since && !format!("{second:?}").contains(NEW));
}

#[tokio::test]
async fn a_secret_that_an_operator_took_away_is_none() {
    let config = config().await;
    let client = Client::new(&config);
    let read = async || secrets::optional(&config, "o1/notices").await.expect("an answer");
    assert!(read().await.is_none(), "there never was one");
    create(&client, "o1/notices", "slack https://a.example/b").await;
    assert!(read().await.is_some());
    client.delete_secret().secret_id("o1/notices").send().await.expect("DeleteSecret");
    assert!(read().await.is_none(), "it stays for days, and answers an error");
}
