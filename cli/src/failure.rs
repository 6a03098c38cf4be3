//! Errors of the command, their messages, and their exit codes.

use muster_domain::pool_file::Problem;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The exit code of wrong usage, as in clap.
pub const USAGE: u8 = 2;

/// The exit code of `doctor` if it found an error.
const UNWELL: u8 = 3;

/// An error of the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No credentials were found, or they are invalid or expired.
    NoCredentials { profile: Option<String>, why: Option<String> },
    /// No region is set.
    NoRegion,
    /// The function does not exist. `stacks` lists the region's stacks; `None` if listing is not
    /// permitted.
    NoFunction { stack: String, region: String, stacks: Option<Vec<String>> },
    /// IAM denied the call to the function.
    Denied { function: String, said: String },
    /// An address cannot be reached.
    Unreachable { address: String, why: String },
    /// Lambda or GitHub returned an unexpected status.
    Answered { who: String, status: u16, said: String },
    /// An AWS service returned an error. `action` is the call's name in IAM.
    Service { action: String, code: String, said: String },
    /// The function timed out.
    NoAnswer { function: String },
    /// The function failed without an answer.
    Broke { function: String, said: String },
    /// The function refused the request.
    Refused { code: String, message: String, problems: Vec<Problem> },
    /// The answer has an unknown form, such as that of a different release.
    Unreadable { what: &'static str, why: String },
    /// The name matches nothing.
    Unknown(String),
    /// Wrong usage that clap does not detect.
    Usage(String),
    /// A file cannot be read or used.
    File { path: String, why: String },
    /// The user declined the confirmation.
    NotConfirmed,
    /// The user interrupted the command.
    Interrupted,
    /// Something that was watched or awaited ended badly.
    Ended(String),
    /// `doctor` found an error; the text is its page.
    Unwell(String),
}

/// Parses an answer of the admin function. `what` names it in the error.
///
/// # Errors
/// Fails when it has an unknown form.
pub(crate) fn parsed<T: DeserializeOwned>(what: &'static str, answer: Value) -> Result<T, Failure> {
    serde_json::from_value(answer)
        .map_err(|error| Failure::Unreadable { what, why: error.to_string() })
}

impl Failure {
    /// Returns the process's exit code.
    #[must_use]
    pub fn exit(&self) -> u8 {
        match self {
            Self::NoCredentials { .. } | Self::Denied { .. } => 4,
            Self::Service { .. } if self.is_denied() => 4,
            Self::Usage(_) | Self::NoRegion => USAGE,
            Self::Unwell(_) => UNWELL,
            Self::NoFunction { .. }
            | Self::Unreachable { .. }
            | Self::Answered { .. }
            | Self::Service { .. }
            | Self::NoAnswer { .. }
            | Self::Broke { .. }
            | Self::Refused { .. }
            | Self::Unreadable { .. }
            | Self::Unknown(_)
            | Self::File { .. }
            | Self::NotConfirmed
            | Self::Interrupted
            | Self::Ended(_) => 1,
        }
    }

    /// Returns whether IAM denied the call. EC2 and SNS have their own codes for that.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        let Self::Service { code, .. } = self else { return matches!(self, Self::Denied { .. }) };
        matches!(
            code.as_str(),
            "AccessDeniedException"
                | "AccessDenied"
                | "UnauthorizedOperation"
                | "AuthorizationError"
        )
    }

    /// Returns whether the AWS resource does not exist.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        let Self::Service { code, .. } = self else { return false };
        matches!(
            code.as_str(),
            "ResourceNotFoundException" | "QueueDoesNotExist" | "NoSuchKey" | "NoSuchBucket"
        )
    }

    /// Returns whether AWS throttled the call.
    #[must_use]
    pub fn is_throttled(&self) -> bool {
        let Self::Service { code, .. } = self else { return false };
        matches!(
            code.as_str(),
            "ThrottlingException" | "Throttling" | "RequestThrottled" | "RequestLimitExceeded"
        )
    }

    /// Returns the error code for programs.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::NoCredentials { .. } => "no_credentials",
            Self::NoRegion => "no_region",
            Self::NoFunction { .. } => "no_stack",
            Self::Denied { .. } => "denied",
            Self::Unreachable { .. } => "unreachable",
            Self::Answered { .. } => "unexpected_answer",
            Self::Service { .. } if self.is_denied() => "denied",
            Self::Service { .. } if self.is_missing() => "not_found",
            Self::Service { .. } if self.is_throttled() => "throttled",
            Self::Service { .. } => "unexpected_answer",
            Self::NoAnswer { .. } => "no_answer",
            Self::Broke { .. } => "function_failed",
            Self::Refused { code, .. } => code,
            Self::Unreadable { .. } => "unreadable_answer",
            Self::Unknown(_) => "not_found",
            Self::Usage(_) => "usage",
            Self::File { .. } => "file",
            Self::NotConfirmed => "not_confirmed",
            Self::Interrupted => "interrupted",
            Self::Ended(_) => "ended",
            Self::Unwell(_) => "unwell",
        }
    }

    /// Returns the message for people.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::NoCredentials { profile, why } => {
                let (of, with) = match profile {
                    Some(name) => (format!(" (profile {name:?})"), format!(" --profile {name}")),
                    None => (String::new(), String::new()),
                };
                let first = match why {
                    Some(why) => {
                        format!("Your AWS credentials{of} are invalid or expired: {why}.\n")
                    }
                    None => format!("No AWS credentials were found{of}. "),
                };
                format!("{first}Log in: aws sso login{with}, or set up: aws configure{with}")
            }
            Self::NoRegion => {
                "No AWS region is set. Pass --region, or set AWS_REGION or the profile's region."
                    .to_owned()
            }
            Self::NoFunction { stack, region, stacks } => {
                let here = match stacks.as_deref() {
                    None => String::new(),
                    Some([]) => " There is no other Muster stack there.".to_owned(),
                    Some(names) => format!(" Stacks there: {}.", names.join(", ")),
                };
                format!(
                    "There is no stack {stack:?} in {region}.{here} Pass --stack, --region or \
                    --profile."
                )
            }
            Self::Denied { function, said } => format!(
                "You have no permission to call {function}: an operator needs \
                lambda:InvokeFunction on it.\nAWS: {said}"
            ),
            Self::Unreachable { address, why } => format!("Cannot reach {address}: {why}"),
            Self::Answered { who, status, said } => format!("{who} returned {status}: {said}"),
            Self::Service { action, said, .. } if self.is_denied() => {
                format!("Access denied: this needs {action}.\nAWS: {said}")
            }
            Self::Service { action, code, said } => {
                format!("{action} failed with {code}: {said}")
            }
            Self::NoAnswer { function } => format!(
                "{function} did not answer in time. It is unknown whether the change was made; \
                check with: muster list"
            ),
            Self::Broke { function, said } => format!(
                "{function} failed without an answer: {said}\nIts log shows why: muster logs admin"
            ),
            Self::Refused { code, message, problems } => {
                // The others are about the values of a request that was understood.
                let is_unknown = message.contains("unknown ") || message.contains("missing");
                let asked = match code.as_str() {
                    "bad_request" | "bad_version" if is_unknown || code == "bad_version" => {
                        "\nThe stack may run a different release than this command: muster status \
                        shows which."
                    }
                    _ => "",
                };
                let lines = problems.iter().map(|problem| format!("\n  {problem}"));
                format!("{message}{}{asked}", lines.collect::<String>())
            }
            Self::Unreadable { what, why } => format!(
                "This command does not understand the stack's answer to {what} ({why}). Use the \
                command of the stack's release, or show the answer with --json."
            ),
            Self::Unknown(why) | Self::Usage(why) | Self::Ended(why) => why.clone(),
            Self::File { path, why } => format!("{path}: {why}"),
            Self::NotConfirmed => "Nothing was changed.".to_owned(),
            Self::Interrupted => "Stopped.".to_owned(),
            Self::Unwell(page) => page.clone(),
        }
    }

    /// Returns the error in the form of the admin function's errors.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut error = json!({ "code": self.code(), "message": self.sentence() });
        if let Self::Refused { message, problems, .. } = self {
            error["message"] = json!(message);
            if !problems.is_empty() {
                error["errors"] = json!(problems);
            }
        }
        json!({ "version": muster_api::VERSION, "ok": false, "error": error })
    }
}
