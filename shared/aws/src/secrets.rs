//! Secrets in Secrets Manager. Their values are kept in [`SecretString`], which cannot be logged.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::signature;
use aws_config::SdkConfig;
use aws_sdk_secretsmanager::Client;
use aws_sdk_secretsmanager::operation::get_secret_value::GetSecretValueOutput;
use muster_control::ports::{SigningSecret, Unavailable};
use muster_domain::app::secret_name;
use muster_domain::causes::{Cause, with_causes};
use muster_domain::ids::AppName;
use muster_domain::time::{Seconds, Time};
use secrecy::{ExposeSecret as _, SecretString};

use crate::error::ServiceError;

/// How long a value is used before it is read again.
const FRESH: Seconds = Seconds(300);
/// Minimum interval between reads caused by a mismatching signature. Anyone can send one.
const MISMATCH_PAUSE: Seconds = Seconds(60);
/// How long a delivery waits for a read of a secret that is already known. Secrets Manager may hang
/// rather than fail, and GitHub and the gateway time out after ten seconds.
const LOOK: Duration = Duration::from_secs(1);
/// How long a delivery waits for the first value, which is necessary for a response.
const FIRST_LOOK: Duration = Duration::from_secs(6);
/// How long the previous secret is accepted after a change: for deliveries signed before the App's
/// setting was changed, and redeliveries of them.
const OVERLAP: Seconds = Seconds(24 * 3600);

/// Why a secret is unavailable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Secrets Manager did not answer, or refused.
    #[error("secret {id} cannot be read")]
    Unavailable {
        /// The secret's name or ARN.
        id: String,
        /// The cause.
        #[source]
        why: Cause,
    },
    /// It has no usable value; the message names the command that sets one.
    #[error("secret {id} {problem}; set it with: {command}")]
    Unset {
        /// The secret's name or ARN.
        id: String,
        /// The problem with the value. Never contains the value.
        problem: &'static str,
        /// The command.
        command: String,
    },
}

impl SecretError {
    fn unset(id: &str, problem: &'static str, file: &str) -> Self {
        let command = format!(
            "aws secretsmanager put-secret-value --secret-id {id} --secret-string file://{file}"
        );
        Self::Unset { id: id.to_owned(), problem, command }
    }
}

/// Reads the secret that identifies the GitHub App, unparsed; empty if it has no value. The GitHub
/// client defines its format.
///
/// # Errors
/// If it cannot be read.
pub async fn app(config: &SdkConfig, id: &str) -> Result<SecretString, SecretError> {
    let answer = get(&Client::new(config), id, CURRENT).await?;
    let text = answer.and_then(|answer| answer.secret_string().map(str::to_owned));
    Ok(text.unwrap_or_default().into())
}

/// Reads a secret that an operator may have created. `None` if it does not exist.
///
/// Secrets Manager may report access denied for a name that does not exist: whether it does is not
/// documented, and both count as absent here. A deleted secret remains for days, during which its
/// value cannot be read.
///
/// # Errors
/// If it cannot be read.
pub async fn optional(config: &SdkConfig, id: &str) -> Result<Option<SecretString>, SecretError> {
    let is_none = |why: &str| [DENIED, DELETED].iter().any(|code| why.contains(code));
    let answer = match get(&Client::new(config), id, CURRENT).await {
        Err(SecretError::Unavailable { why, .. }) if is_none(&with_causes(&why)) => {
            tracing::debug!(error = with_causes(&why), "treating a secret as absent");
            None
        }
        answer => answer?,
    };
    Ok(answer.and_then(|answer| answer.secret_string().map(|text| text.to_owned().into())))
}

/// Writes a new value of a secret. All writes of secrets go through this function.
///
/// # Errors
/// If it may not have been written.
pub async fn put(config: &SdkConfig, id: &str, value: SecretString) -> Result<(), Unavailable> {
    let call = Client::new(config).put_secret_value().secret_id(id);
    let sent = call.secret_string(value.expose_secret()).send().await;
    sent.map(drop).map_err(|error| {
        Unavailable::caused(
            format!("secret {} cannot be written", secret_name(id)),
            ServiceError::from_sdk(&error),
        )
    })
}

/// Reads the secret for signing an App's webhook deliveries, to be set at GitHub.
///
/// # Errors
/// If it cannot be read, or is not a valid secret.
pub async fn signing(
    config: &SdkConfig,
    id: &str,
    app: AppName,
    now: Time,
) -> Result<SigningSecret, SecretError> {
    let secret = WebhookSecret::new(config, id.to_owned());
    secret.read_both(now).await?;
    let CachedSecrets { current, previous, current_since, .. } = secret.state().clone();
    // `read_both` has just set it.
    let value = current.map(|secret| signature::secret_of(app, secret.expose_secret()));
    let value = value.unwrap_or_default();
    Ok(SigningSecret {
        value: value.into(),
        since: current_since,
        has_previous: previous.is_some(),
    })
}

/// The secret that GitHub signs webhooks with. It can be changed without losing a delivery: the
/// previous value is accepted for a day.
#[derive(Debug)]
pub struct WebhookSecret {
    client: Client,
    id: String,
    state: Mutex<CachedSecrets>,
}

/// The result of the last read.
#[derive(Clone, Debug, Default)]
struct CachedSecrets {
    current: Option<SecretString>,
    previous: Option<SecretString>,
    /// When the current value was created.
    current_since: Time,
    /// When a read was last attempted.
    tried_at: Option<Time>,
}

impl WebhookSecret {
    /// Creates the secret without reading it.
    #[must_use]
    pub fn new(config: &SdkConfig, id: String) -> Self {
        Self { client: Client::new(config), id, state: Mutex::default() }
    }

    /// Reads the secret. Called while a function starts, so that the first delivery does not wait.
    ///
    /// # Errors
    /// If it cannot be read in time (one second, or six if no value is known yet) or is not a valid
    /// secret.
    pub async fn read(&self, now: Time) -> Result<(), SecretError> {
        // Recorded first, so that a failed read is not repeated for every delivery.
        self.state().tried_at = Some(now);
        let patience = if self.is_known() { LOOK } else { FIRST_LOOK };
        let read = tokio::time::timeout(patience, self.read_both(now)).await;
        read.unwrap_or_else(|_| {
            let why = Cause::new(format!("no answer within {} s", patience.as_secs()));
            Err(SecretError::Unavailable { id: self.id.clone(), why })
        })
    }

    async fn read_both(&self, now: Time) -> Result<(), SecretError> {
        let Some(answer) = get(&self.client, &self.id, CURRENT).await? else {
            return Err(SecretError::unset(&self.id, "has no value yet", FILE));
        };
        let current = self.checked(&answer)?;
        let current_since = answer.created_date().map_or(now, from_smithy);
        let previous = if now.is_past(current_since, OVERLAP) {
            None
        } else {
            let earlier = get(&self.client, &self.id, PREVIOUS).await?;
            // A previous value that was never valid does not matter.
            earlier.and_then(|earlier| self.checked(&earlier).ok())
        };
        let read =
            CachedSecrets { current: Some(current), previous, current_since, tried_at: Some(now) };
        *self.state() = read;
        Ok(())
    }

    /// Returns whether `header` is GitHub's signature of `body` with this App's secret.
    ///
    /// Compares with the known values first. Reads the secret again if they are old or do not
    /// match; a read that fails or hangs changes nothing.
    ///
    /// # Errors
    /// If no value of the secret is known.
    pub async fn is_signed(
        &self,
        app: AppName,
        body: &[u8],
        header: Option<&str>,
        now: Time,
    ) -> Result<bool, SecretError> {
        if !self.is_known() {
            self.read(now).await?;
        }
        let fits = self.fits(app, body, header, now);
        // A matching value may have been replaced long ago, and a mismatching one a moment ago.
        let looks_again = match fits {
            true => self.is_older_than(FRESH, now),
            false => header.is_some() && self.is_older_than(MISMATCH_PAUSE, now),
        };
        if !looks_again {
            return Ok(fits);
        }
        if let Err(error) = self.read(now).await {
            tracing::warn!(
                error = with_causes(&error),
                "using the webhook secret that was read before"
            );
        }
        Ok(self.fits(app, body, header, now))
    }

    fn is_known(&self) -> bool {
        self.state().current.is_some()
    }

    /// Returns whether the last attempt to read is at least that long ago.
    fn is_older_than(&self, age: Seconds, now: Time) -> bool {
        self.state().tried_at.is_none_or(|tried_at| now.is_past(tried_at, age))
    }

    fn fits(&self, app: AppName, body: &[u8], header: Option<&str>, now: Time) -> bool {
        signature::is_valid(&self.state().accepted(app, now), header, body)
    }

    fn checked(&self, answer: &GetSecretValueOutput) -> Result<SecretString, SecretError> {
        let secret = answer.secret_string().unwrap_or_default().trim();
        if secret.len() < signature::MIN_SECRET {
            return Err(SecretError::unset(&self.id, "is shorter than 32 characters", FILE));
        }
        Ok(secret.to_owned().into())
    }

    fn state(&self) -> MutexGuard<'_, CachedSecrets> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedSecrets {
    fn accepted(&self, app: AppName, now: Time) -> Vec<String> {
        let previous = self.previous.iter().filter(|_| !now.is_past(self.current_since, OVERLAP));
        self.current
            .iter()
            .chain(previous)
            .map(|secret| signature::secret_of(app, secret.expose_secret()))
            .collect()
    }
}

const FILE: &str = "webhook-secret.txt";
const DENIED: &str = "AccessDeniedException";
/// Source: docs.aws.amazon.com/secretsmanager/latest/apireference/API_GetSecretValue.html (Errors)
const DELETED: &str = "InvalidRequestException";
const CURRENT: &str = "AWSCURRENT";
const PREVIOUS: &str = "AWSPREVIOUS";

/// Reads a version of a secret. `None` if the secret or the version does not exist.
async fn get(
    client: &Client,
    id: &str,
    stage: &str,
) -> Result<Option<GetSecretValueOutput>, SecretError> {
    match client.get_secret_value().secret_id(id).version_stage(stage).send().await {
        Ok(answer) => Ok(Some(answer)),
        Err(error) => {
            let failure = ServiceError::from_sdk(&error);
            if failure.code.as_deref() == Some("ResourceNotFoundException") {
                return Ok(None);
            }
            Err(SecretError::Unavailable { id: id.to_owned(), why: Cause::new(failure) })
        }
    }
}

fn from_smithy(time: &aws_smithy_types::DateTime) -> Time {
    Time::from_millis(time.to_millis().unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use hmac::{Hmac, KeyInit as _, Mac as _};
    use sha2::Sha256;

    use super::*;

    fn state(since: Seconds, now: Time) -> CachedSecrets {
        CachedSecrets {
            current: Some("c".repeat(32).into()),
            previous: Some("p".repeat(32).into()),
            current_since: now - since,
            tried_at: Some(now),
        }
    }

    #[test]
    fn the_previous_secret_is_accepted_for_a_day() {
        let now = Time::from_millis(1_795_000_000_000);
        assert_eq!(state(Seconds(60), now).accepted(AppName::MAIN, now).len(), 2);
        assert_eq!(state(Seconds(86_399), now).accepted(AppName::MAIN, now).len(), 2);
        assert_eq!(state(Seconds(86_400), now).accepted(AppName::MAIN, now), ["c".repeat(32)]);
        assert!(CachedSecrets::default().accepted(AppName::MAIN, now).is_empty());
    }

    /// A Secrets Manager that accepts every connection and never answers.
    fn silent() -> (std::net::TcpListener, SdkConfig) {
        let door = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = door.local_addr().expect("an address");
        let config = SdkConfig::builder()
            .behavior_version(aws_config::BehaviorVersion::latest())
            .region(aws_config::Region::new("us-east-1"))
            .endpoint_url(format!("http://{address}"))
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .build();
        (door, config)
    }

    fn signed(secret: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any length");
        mac.update(b"body");
        format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
    }

    #[tokio::test]
    async fn a_known_secret_answers_while_secrets_manager_hangs() {
        let (_door, config) = silent();
        let secret = WebhookSecret::new(&config, "s/webhook-secret".to_owned());
        let now = Time::from_millis(1_795_000_000_000);
        *secret.state() = state(Seconds(60), now);
        let asked = async |header: &str, at: Time| {
            let begun = Instant::now();
            let answer = secret.is_signed(AppName::MAIN, b"body", Some(header), at).await;
            // The SDK alone would wait for 8 seconds, and retry.
            (answer.expect("a value is known"), begun.elapsed() < Duration::from_secs(6))
        };
        let (old, forged) = (now + Seconds(400), signed(&"f".repeat(32)));
        assert_eq!(asked(&signed(&"c".repeat(32)), old).await, (true, true), "one look, and a yes");
        assert_eq!(asked(&forged, old + Seconds(60)).await, (false, true), "one look, and a no");
    }

    #[tokio::test]
    async fn without_a_value_the_answer_comes_before_the_gateway_gives_up() {
        let (_door, config) = silent();
        let secret = WebhookSecret::new(&config, "s/webhook-secret".to_owned());
        let begun = Instant::now();
        let answer =
            secret.is_signed(AppName::MAIN, b"body", Some("sha256=00"), Time::from_millis(0)).await;
        assert!(matches!(answer, Err(SecretError::Unavailable { .. })), "{answer:?}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }

    #[test]
    fn values_are_never_printed() {
        let now = Time::from_millis(1_795_000_000_000);
        let printed = format!("{:?}", state(Seconds(1), now));
        assert!(!printed.contains("ccc") && !printed.contains("ppp"), "{printed}");
    }

    #[test]
    fn the_error_names_the_command_that_heals_it() {
        let error = SecretError::unset("s/webhook-secret", "has no value yet", FILE);
        assert_eq!(
            error.to_string(),
            "secret s/webhook-secret has no value yet; set it with: aws secretsmanager \
             put-secret-value --secret-id s/webhook-secret --secret-string file://webhook-secret.txt"
        );
    }
}
