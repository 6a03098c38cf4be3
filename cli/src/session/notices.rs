//! `notices`: whom the stack tells what somebody should look at. It is a secret that the reaper reads.

use muster_domain::time::Seconds;
use muster_sigv4::Call;
use serde_json::{Value, json};

use super::{Session, World, pretty};
use crate::args::{Form, NoticesCommand};
use crate::failure::Failure;

/// What Secrets Manager says where there is no such secret.
const NONE: &str = "ResourceNotFoundException";
/// And where it was deleted: with days of grace it can be restored; without, its name is free again
/// only after a while, usually seconds.
/// Source: github.com/hashicorp/terraform-provider-aws/issues/10259
const DELETED: &str = "InvalidRequestException";
/// How often the name of a deleted secret is tried: for two minutes.
const TRIES: u32 = 24;
const PAUSE: Seconds = Seconds(5);

fn secrets(operation: &str, body: &Value) -> Call {
    Call::json("secretsmanager", &format!("secretsmanager.{operation}"), body)
}

/// Where the stack looks for it.
pub(super) fn name(stack: &str) -> String {
    format!("{stack}/notices")
}

impl<W: World> Session<'_, W> {
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
                self.agreed(yes, &format!("Stack {stack} tells nobody any more?"))?;
                Ok(match self.notices_off(&stack).await? {
                    true => "✓ The address is deleted. In five minutes at most nobody is told any more.\n",
                    false => "Nobody was told: there is no address.\n",
                }
                .to_owned())
            }
        }
    }

    /// Never the whole address: who has it can write to the channel.
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
                format!("Stack {stack} tells nobody. To change that: muster notices set slack\n")
            }
            (Some(form), Some(host)) => {
                format!("Stack {stack} tells {host}, in the form {form}.\n")
            }
            (Some(_), None) => format!(
                "The secret {} has no address that can be used. Set it anew: muster notices set slack\n",
                name(stack)
            ),
        })
    }

    async fn notices_set(
        &mut self,
        stack: &str,
        form: Form,
        address: &str,
    ) -> Result<String, Failure> {
        let Some(host) = host(address) else {
            let wrong = "An address begins with https://, names no user and has no spaces. Nothing was changed.";
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
        let about = format!("Where stack {stack} of Muster sends its notifications");
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
            "✓ {host} is told within five minutes that notices come there, and all that stands by then. If it does not take them, \
             muster status says why.\n"
        ))
    }

    /// Deletes the address. False: there was none.
    pub(super) async fn notices_off(&mut self, stack: &str) -> Result<bool, Failure> {
        // At once: with days of grace, the next address could not be made under its name.
        let delete = json!({ "SecretId": name(stack), "ForceDeleteWithoutRecovery": true });
        match self.call(secrets("DeleteSecret", &delete)).await {
            Ok(_) => Ok(true),
            Err(failure) if is_none(&failure) => Ok(false),
            Err(failure) => Err(failure),
        }
    }
}

/// Of an address that the stack would take.
fn host(address: &str) -> Option<&str> {
    let host = address.strip_prefix("https://")?.split(['/', '?', '#']).next()?;
    let is_plain = !address.contains(char::is_whitespace) && !host.contains('@');
    Some(host).filter(|host| is_plain && !host.is_empty())
}

fn is_none(failure: &Failure) -> bool {
    // One that was deleted with days of grace answers nobody either.
    matches!(failure, Failure::Service { code, .. } if code == NONE || code == DELETED)
}

fn is(answer: &Result<Value, Failure>, wanted: &str) -> bool {
    matches!(answer, Err(Failure::Service { code, .. }) if code == wanted)
}
