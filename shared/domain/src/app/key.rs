//! Problems with the secret that identifies the App, which are found before GitHub is called.

use crate::ca_bundle::UNTRUSTED;
use crate::ids::AppName;

/// A problem with the App's secret. Never contains any part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyProblem {
    /// It has no value, or the placeholder that the deployment wrote.
    Unset,
    /// It is only the private key, as GitHub provides it, without the App's ID.
    BarePem,
    /// It is not a JSON object.
    NotJson,
    /// It lacks this field, or the field is not a text.
    Lacks(&'static str),
    /// Its `private_key` is not an RSA key in PEM form.
    NoRsaKey,
    /// Its `api_url` is not a URL to which tokens may be sent.
    Address,
}

/// The code of an error caused by an unset or unreadable App secret.
pub const NO_KEY: &str = "no-key";
/// The code of an error caused by an App key that cannot sign.
pub const BAD_KEY: &str = "bad-key";

/// The code of an error caused by a missing installation of the App.
pub const NOT_INSTALLED: &str = "not-installed";

/// Returns whether an error with this code occurred before GitHub was called.
#[must_use]
pub fn is_before_github(code: &str) -> bool {
    [NO_KEY, BAD_KEY, UNTRUSTED].contains(&code)
}

impl KeyProblem {
    /// Describes the problem with an App's part of the secret of this name and its fix, without a full
    /// stop.
    #[must_use]
    pub fn sentence(&self, secret: &str, app: AppName) -> String {
        let what = match self {
            Self::Unset => format!("the App's key was never stored in secret {secret}"),
            Self::BarePem => format!(
                "secret {secret} contains only a private key; it must be JSON that includes the \
                 App's ID"
            ),
            Self::NotJson => format!("secret {secret} is not a JSON object"),
            Self::Lacks(field) => format!("secret {secret} has no text field \"{field}\""),
            Self::NoRsaKey => {
                format!("the \"private_key\" of secret {secret} is not an RSA key in PEM form")
            }
            Self::Address => {
                format!("the \"api_url\" of secret {secret} is not an https URL of an API")
            }
        };
        format!("{what}; set it with: {}", put_command(secret, app))
    }

    /// Describes the problem if the request, rather than a secret, identifies the App.
    #[must_use]
    pub fn of_request(&self) -> String {
        match self {
            Self::Unset | Self::NotJson => "the request does not identify the App".to_owned(),
            Self::Lacks(field) => format!("\"{field}\" is empty"),
            Self::BarePem | Self::NoRsaKey => {
                "\"private_key\" is not an RSA key in PEM form".to_owned()
            }
            Self::Address => "\"api_url\" is not an https URL of GitHub's API".to_owned(),
        }
    }
}

/// Returns the command that sets the App's ID and key without showing the key on the screen. The
/// secret of the main App contains those of the others, which `aws` would replace.
#[must_use]
pub fn put_command(secret: &str, app: AppName) -> String {
    if app != AppName::MAIN {
        return format!("muster github --app {app} connect --app-id APP_ID --key key.pem");
    }
    format!(
        "jq -n --arg app_id APP_ID --rawfile private_key key.pem '$ARGS.named' | aws secretsmanager \
         put-secret-value --secret-id {secret} --secret-string file:///dev/stdin"
    )
}

/// Returns the name of a secret, from its ARN (`…:secret:NAME-a1B2c3`) or as given.
#[must_use]
pub fn secret_name(id: &str) -> &str {
    let Some((_, name)) = id.rsplit_once(":secret:") else { return id };
    name.rsplit_once('-').filter(|(_, end)| end.len() == 6).map_or(name, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_problem_names_the_secret_and_the_command_that_mends_it() {
        for (problem, what) in [
            (KeyProblem::Unset, "the App's key was never stored in secret muster/app-key; "),
            (
                KeyProblem::BarePem,
                "secret muster/app-key contains only a private key; it must be JSON",
            ),
            (KeyProblem::NotJson, "secret muster/app-key is not a JSON object; "),
            (KeyProblem::Lacks("app_id"), "secret muster/app-key has no text field \"app_id\"; "),
            (
                KeyProblem::NoRsaKey,
                "the \"private_key\" of secret muster/app-key is not an RSA key",
            ),
            (KeyProblem::Address, "the \"api_url\" of secret muster/app-key is not an https URL"),
        ] {
            let told = problem.sentence("muster/app-key", AppName::MAIN);
            assert!(told.starts_with(what), "{told}");
            assert!(told.ends_with(&put_command("muster/app-key", AppName::MAIN)), "{told}");
            // Launches store at most this much of a reason.
            assert!(told.len() < 300, "{}: {told}", told.len());
        }
    }

    #[test]
    fn a_secret_is_named_as_an_operator_knows_it() {
        let arn = "arn:aws:secretsmanager:us-east-1:111122223333:secret:muster/app-key-a1B2c3";
        assert_eq!(secret_name(arn), "muster/app-key");
        assert_eq!(secret_name("muster/app-key"), "muster/app-key");
    }
}
