//! `notices`: sets the address for the stack's notifications. It is a secret that the reaper reads.

use muster_domain::time::Seconds;
use muster_sigv4::Call;
use serde_json::{Value, json};

use super::{Session, pretty};
use crate::args::{NoticeFormat, NoticesCommand};
use crate::failure::Failure;
use crate::world::{Cloud, Console, Workstation};

/// Secrets Manager's error for a secret that does not exist.
const NONE: &str = "ResourceNotFoundException";
/// Secrets Manager's error for a deleted secret. During a recovery window it can be restored; without one, its name is
/// free again after a while, usually seconds.
/// Source: github.com/hashicorp/terraform-provider-aws/issues/10259
const DELETED: &str = "InvalidRequestException";
/// Number of attempts to use the name of a deleted secret: for two minutes.
const TRIES: u32 = 24;
const PAUSE: Seconds = Seconds(5);

fn secrets(operation: &str, body: &Value) -> Call {
    Call::json("secretsmanager", &format!("secretsmanager.{operation}"), body)
}

/// Returns the name of the stack's secret.
pub(super) fn name(stack: &str) -> String {
    format!("{stack}/notices")
}

impl<W: Cloud> Session<'_, W> {
    /// Deletes the address. Returns false if there was none.
    pub(super) async fn notices_off(&mut self, stack: &str) -> Result<bool, Failure> {
        // Delete at once: during a recovery window, a new secret could not be created under the name.
        let delete = json!({ "SecretId": name(stack), "ForceDeleteWithoutRecovery": true });
        match self.call(secrets("DeleteSecret", &delete)).await {
            Ok(_) => Ok(true),
            Err(failure) if is_none(&failure) => Ok(false),
            Err(failure) => Err(failure),
        }
    }
}

impl<W: Cloud + Console + Workstation> Session<'_, W> {
    pub(super) async fn notices(
        &mut self,
        command: Option<NoticesCommand>,
    ) -> Result<String, Failure> {
        let stack = self.world.stack().await?;
        match command {
            None => self.notices_shown(&stack).await,
            Some(NoticesCommand::Set { form, file }) => {
                let address = match file {
                    Some(path) => self.world.read_file(&path.to_string_lossy())?,
                    None if self.world.is_attended() => self.world.ask("Address (https://…)")?,
                    None => self.world.read_file("-")?,
                };
                self.notices_set(&stack, form, address.trim()).await
            }
            Some(NoticesCommand::Off { yes }) => {
                self.agreed(yes, &format!("Stop sending notifications from stack {stack}?"))?;
                Ok(match self.notices_off(&stack).await? {
                    true => "✓ The address is deleted. Notifications stop within five minutes.\n",
                    false => "There is no address to delete.\n",
                }
                .to_owned())
            }
        }
    }

    /// Shows the host only: anyone with the whole address can write to the channel.
    async fn notices_shown(&mut self, stack: &str) -> Result<String, Failure> {
        let asked = self.call(secrets("GetSecretValue", &json!({ "SecretId": name(stack) }))).await;
        let text = match asked {
            Ok(answer) => answer["SecretString"].as_str().unwrap_or_default().to_owned(),
            Err(failure) if is_none(&failure) => String::new(),
            Err(failure) => return Err(failure),
        };
        let mut words = text.split_whitespace();
        let (form, host) = (words.next(), words.next().and_then(host));
        if self.json {
            return Ok(pretty(&json!({ "version": 1, "ok": true, "form": form, "host": host })));
        }
        Ok(match (form, host) {
            (None, _) => {
                format!(
                    "Stack {stack} sends no notifications. Set an address: muster notices set \
                    slack\n"
                )
            }
            (Some(form), Some(host)) => {
                format!("Stack {stack} sends notifications to {host}, in the format {form}.\n")
            }
            (Some(_), None) => format!(
                "The secret {} contains no usable address. Set it again: muster notices set \
                slack\n",
                name(stack)
            ),
        })
    }

    async fn notices_set(
        &mut self,
        stack: &str,
        form: NoticeFormat,
        address: &str,
    ) -> Result<String, Failure> {
        let Some(host) = host(address) else {
            let wrong = "An address must begin with https://, without a user name or spaces. \
                Nothing was changed.";
            return Err(Failure::Usage(wrong.to_owned()));
        };
        if self.deployed(stack).await?.is_none() {
            let region = self.world.region();
            return Err(Failure::Unknown(format!("There is no stack {stack} in {region}.")));
        }
        let token: [u8; 16] = self.world.random()?;
        let token: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
        let (name, text) = (name(stack), format!("{} {address}", form.as_str()));
        let put = json!({ "SecretId": name, "SecretString": text, "ClientRequestToken": token });
        let about = format!("Address for the notifications of Muster's stack {stack}");
        let create = json!({
            "Name": name, "Description": about, "SecretString": text, "ClientRequestToken": token,
        });
        let restore = json!({ "SecretId": name });
        for attempt in 1.. {
            let mut answer = self.call(secrets("PutSecretValue", &put)).await;
            if is(&answer, DELETED) {
                answer = self.call(secrets("RestoreSecret", &restore)).await;
                if answer.is_ok() {
                    answer = self.call(secrets("PutSecretValue", &put)).await;
                }
            }
            if is(&answer, NONE) {
                answer = self.call(secrets("CreateSecret", &create)).await;
            }
            if attempt == TRIES || !(is(&answer, DELETED) || is(&answer, NONE)) {
                answer?;
                break;
            }
            if attempt == 1 {
                let why = format!(
                    "Secrets Manager is still deleting {name}. Trying again for two minutes; q stops."
                );
                self.world.say(&why);
            }
            if !self.world.wait(PAUSE).await {
                return Err(Failure::Ended(format!(
                    "Nothing was changed: {name} is still being deleted."
                )));
            }
        }
        Ok(format!(
            "✓ {host} will get a test notification and all current problems within five minutes. \
            If it rejects them, muster status shows why.\n"
        ))
    }
}

/// Returns the host of an address that the stack would accept.
fn host(address: &str) -> Option<&str> {
    let host = address.strip_prefix("https://")?.split(['/', '?', '#']).next()?;
    let is_plain = !address.contains(char::is_whitespace) && !host.contains('@');
    Some(host).filter(|host| is_plain && !host.is_empty())
}

fn is_none(failure: &Failure) -> bool {
    // A secret in its recovery window counts as deleted.
    matches!(failure, Failure::Service { code, .. } if code == NONE || code == DELETED)
}

fn is(answer: &Result<Value, Failure>, wanted: &str) -> bool {
    matches!(answer, Err(Failure::Service { code, .. }) if code == wanted)
}
