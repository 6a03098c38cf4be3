//! Sends notifications with one HTTPS call to the operator's URL, which is stored as a secret.

#![warn(missing_docs)]

mod batch;
mod form;
mod post;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use muster_aws::SdkConfig;
use muster_aws::secrets;
use muster_control::notices::Message;
use muster_control::ports::{Receiver, Unavailable};
use muster_domain::time::{Seconds, Time};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

use self::form::Form;
use self::post::{Poster, ReceiverUrl};

/// How long the secret is used before it is read again; also applies to failed reads.
const FRESH: Seconds = Seconds(300);
/// Time-out of a message, for all its calls together. A sweep does not wait longer.
const LIMIT: Duration = Duration::from_secs(5);
/// Number of digest bytes that distinguish URLs.
const TOLD_APART: usize = 8;

/// The destination in the operator's secret: format and URL.
#[derive(Clone, Debug)]
struct Destination {
    form: Form,
    address: ReceiverUrl,
}

type Read = Result<Option<Destination>, Unavailable>;

/// A receiver configured by the operator's secret `STACK/notices` in Secrets Manager: `slack
/// https://hooks.slack.com/…`. Without that secret, no notifications are sent.
pub struct StoredReceiver {
    config: SdkConfig,
    secret: String,
    poster: Poster,
    read: Mutex<Option<(Time, Read)>>,
}

impl StoredReceiver {
    /// Creates the receiver without reading the secret.
    #[must_use]
    pub fn new(config: SdkConfig, stack: &str) -> Self {
        let secret = format!("{stack}/notices");
        Self { config, secret, poster: Poster::new(), read: Mutex::default() }
    }

    async fn current(&self, now: Time) -> Read {
        if let Some((at, read)) = self.known()
            && !now.is_past(at, FRESH)
        {
            return read;
        }
        let read = self.look().await;
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, read.clone()));
        read
    }

    async fn look(&self) -> Read {
        match secrets::optional(&self.config, &self.secret).await {
            Ok(None) => Ok(None),
            Ok(Some(text)) => destination(&text, &self.secret).map(Some),
            Err(error) => Err(Unavailable::caused("the notification address", error)),
        }
    }

    fn known(&self) -> Option<(Time, Read)> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Parses the secret's two words. Errors do not contain them.
fn destination(text: &SecretString, secret: &str) -> Result<Destination, Unavailable> {
    let mut words = text.expose_secret().split_whitespace();
    let form = words.next().and_then(Form::read);
    let address = words.next().and_then(ReceiverUrl::read);
    match (form, address, words.next()) {
        (Some(form), Some(address), None) => Ok(Destination { form, address }),
        _ => Err(Unavailable::new(format!(
            "the secret {secret} must be slack, teams or json, a space, and an address that begins with \
             https:// and names no user"
        ))),
    }
}

async fn send(
    poster: &Poster,
    Destination { form, address }: &Destination,
    message: &Message,
) -> Result<usize, Unavailable> {
    let call = async |body| poster.post(address, &body).await;
    let sent = tokio::time::timeout(LIMIT, batch::send(*form, message, call)).await;
    sent.unwrap_or_else(|_| {
        let why = format!("the notification receiver did not answer within {} s", LIMIT.as_secs());
        Err(Unavailable::new(why))
    })
}

impl Receiver for StoredReceiver {
    async fn address(&self, now: Time) -> Result<Option<String>, Unavailable> {
        let told_apart = |Destination { form, address }: Destination| {
            let digest = Sha256::digest(format!("{form:?} {}", address.expose()));
            hex::encode(digest.get(..TOLD_APART).unwrap_or_default())
        };
        Ok(self.current(now).await?.map(told_apart))
    }

    async fn post(&self, message: &Message) -> Result<usize, Unavailable> {
        let Some((_, Ok(Some(destination)))) = self.known() else {
            return Err(Unavailable::new("no notification address is set"));
        };
        send(&self.poster, &destination, message).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_a_form_and_an_address() {
        let read = |text: &str| destination(&text.to_owned().into(), "ci/notices");
        for text in [
            "slack https://a.example/b",
            "teams https://a.example/b\n",
            " json\thttps://a.example ",
        ] {
            assert!(read(text).is_ok(), "{text}");
        }
        for text in [
            "",
            "slack",
            "https://a.example/b",
            "slack http://a.example/b",
            "mail https://a.example/b",
            "slack https://a.example/b c",
        ] {
            let why = read(text).expect_err(text).to_string();
            assert!(why.contains("ci/notices") && !why.contains("a.example"), "{why}");
        }
    }
}
