//! What is wrong with the secret that says who the App is. GitHub was never asked then.

/// What is wrong with the App's secret. Never holds a word of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyProblem {
    /// It has no value, or the one that the deployment wrote.
    Unset,
    /// It is the private key as GitHub hands it out: which App's does not stand in it.
    BarePem,
    /// It is no JSON object.
    NotJson,
    /// It has no such field, or one that is no text.
    Lacks(&'static str),
    /// Its `private_key` is no RSA key in PEM form.
    NoRsaKey,
    /// Its `api_url` is not one that a token may be sent to.
    Address,
}

/// The code of a fault whose reason is the App's secret, or that it cannot be read.
pub const NO_KEY: &str = "no-key";
/// The code of a fault whose reason is that nothing can be signed with the App's key.
pub const BAD_KEY: &str = "bad-key";

/// The code of a fault whose reason is that the App is not installed there.
pub const NOT_INSTALLED: &str = "not-installed";

/// Whether a fault of this code is ours: GitHub was not asked.
#[must_use]
pub fn is_before_github(code: &str) -> bool {
    code == NO_KEY || code == BAD_KEY
}

impl KeyProblem {
    /// What is wrong with the secret of this name, and how that is mended. Without its full stop.
    #[must_use]
    pub fn sentence(&self, secret: &str) -> String {
        let what = match self {
            Self::Unset => format!("the App's key was never put into secret {secret}"),
            Self::BarePem => format!(
                "secret {secret} holds a private key alone; it must be JSON that says whose it is"
            ),
            Self::NotJson => format!("secret {secret} is no JSON object"),
            Self::Lacks(field) => format!("secret {secret} has no text \"{field}\""),
            Self::NoRsaKey => {
                format!("the \"private_key\" of secret {secret} is no RSA key in PEM form")
            }
            Self::Address => {
                format!("the \"api_url\" of secret {secret} is no https address of an API")
            }
        };
        format!("{what}; put it in with: {}", put_command(secret))
    }

    /// What is wrong with a request that says who the App is.
    #[must_use]
    pub fn of_request(&self) -> String {
        match self {
            Self::Unset | Self::NotJson => "the request does not say who the App is".to_owned(),
            Self::Lacks(field) => format!("\"{field}\" is empty"),
            Self::BarePem | Self::NoRsaKey => {
                "\"private_key\" is no RSA key in PEM form".to_owned()
            }
            Self::Address => "\"api_url\" is no https address of GitHub's API".to_owned(),
        }
    }
}

/// The command that puts the App's id and key in, without the key on the screen.
#[must_use]
pub fn put_command(secret: &str) -> String {
    format!(
        "jq -n --arg app_id APP_ID --rawfile private_key key.pem '$ARGS.named' | aws secretsmanager \
         put-secret-value --secret-id {secret} --secret-string file:///dev/stdin"
    )
}

/// The name of a secret, by its ARN (`…:secret:NAME-a1B2c3`) or as it is.
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
            (KeyProblem::Unset, "the App's key was never put into secret muster/app-key; "),
            (
                KeyProblem::BarePem,
                "secret muster/app-key holds a private key alone; it must be JSON",
            ),
            (KeyProblem::NotJson, "secret muster/app-key is no JSON object; "),
            (KeyProblem::Lacks("app_id"), "secret muster/app-key has no text \"app_id\"; "),
            (KeyProblem::NoRsaKey, "the \"private_key\" of secret muster/app-key is no RSA key"),
            (KeyProblem::Address, "the \"api_url\" of secret muster/app-key is no https address"),
        ] {
            let told = problem.sentence("muster/app-key");
            assert!(told.starts_with(what), "{told}");
            assert!(told.ends_with(&put_command("muster/app-key")), "{told}");
            // Launches keep so much of a reason.
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
