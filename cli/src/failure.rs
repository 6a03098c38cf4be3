//! What goes wrong, in sentences that say what to do, and its exit code.

use muster_domain::pool_file::Problem;
use serde_json::{Value, json};

/// The exit code of wrong use; clap's own.
pub const USAGE: u8 = 2;

/// The exit code of `doctor` when it found an error.
const UNWELL: u8 = 3;

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No credentials were found, or they do not hold any more.
    NoCredentials { profile: Option<String>, why: Option<String> },
    /// Which region?
    NoRegion,
    /// The function is not there. `stacks` is what is; none when that may not be asked.
    NoFunction { stack: String, region: String, stacks: Option<Vec<String>> },
    /// IAM says no.
    Denied { function: String, said: String },
    /// The address does not answer.
    Unreachable { address: String, why: String },
    /// Lambda or GitHub answered something else.
    Answered { who: String, status: u16, said: String },
    /// A service of AWS says no. `action` is what IAM calls the call.
    Service { action: String, code: String, said: String },
    /// The function did not end in time.
    NoAnswer { function: String },
    /// The function ended without an answer.
    Broke { function: String, said: String },
    /// The function says no.
    Refused { code: String, message: String, problems: Vec<Problem> },
    /// The answer is of another release.
    Unreadable { what: &'static str, why: String },
    /// The name stands for nothing.
    Unknown(String),
    /// Wrong use that clap does not see.
    Usage(String),
    /// A file.
    File { path: String, why: String },
    /// The person said no.
    NotConfirmed,
    /// The person stopped it.
    Interrupted,
    /// What was watched ended, and not well.
    Ended(String),
    /// Something keeps jobs from starting; the page that says so.
    Unwell(String),
}

impl Failure {
    /// The process's exit code.
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

    /// IAM says no. EC2 and SNS have words of their own for it.
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

    /// There is no such thing in AWS.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        let Self::Service { code, .. } = self else { return false };
        matches!(
            code.as_str(),
            "ResourceNotFoundException" | "QueueDoesNotExist" | "NoSuchKey" | "NoSuchBucket"
        )
    }

    /// AWS had enough for now.
    #[must_use]
    pub fn is_throttled(&self) -> bool {
        let Self::Service { code, .. } = self else { return false };
        matches!(
            code.as_str(),
            "ThrottlingException" | "Throttling" | "RequestThrottled" | "RequestLimitExceeded"
        )
    }

    /// A word for programs.
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

    /// For people.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::NoCredentials { profile, why } => {
                let (of, with) = match profile {
                    Some(name) => (format!(" (profile {name:?})"), format!(" --profile {name}")),
                    None => (String::new(), String::new()),
                };
                let first = match why {
                    Some(why) => format!("The AWS credentials{of} do not hold: {why}.\n"),
                    None => format!("No AWS credentials were found{of}. "),
                };
                format!("{first}Log in: aws sso login{with}, or set up: aws configure{with}")
            }
            Self::NoRegion => {
                "No AWS region is set. Give --region, or set AWS_REGION or the profile's region."
                    .to_owned()
            }
            Self::NoFunction { stack, region, stacks } => {
                let here = match stacks.as_deref() {
                    None => String::new(),
                    Some([]) => " There is no other stack of Muster either.".to_owned(),
                    Some(names) => format!(" Here are: {}.", names.join(", ")),
                };
                format!(
                    "There is no stack {stack:?} in {region}.{here} Give --stack, --region or --profile."
                )
            }
            Self::Denied { function, said } => format!(
                "You may not call {function}: an operator needs lambda:InvokeFunction on it.\nAWS says: {said}"
            ),
            Self::Unreachable { address, why } => format!("{address} cannot be reached: {why}"),
            Self::Answered { who, status, said } => format!("{who} answers {status}: {said}"),
            Self::Service { action, said, .. } if self.is_denied() => {
                format!("You may not do that: it needs {action}.\nAWS says: {said}")
            }
            Self::Service { action, code, said } => {
                format!("AWS answers {action} with {code}: {said}")
            }
            Self::NoAnswer { function } => format!(
                "{function} did not answer in time. Whether an order was taken is not known; look with: muster list"
            ),
            Self::Broke { function, said } => format!(
                "{function} ended without an answer: {said}\nIts log says why: muster logs admin"
            ),
            Self::Refused { code, message, problems } => {
                let asked = match code.as_str() {
                    "bad_request" | "bad_version" => {
                        "\nThe stack may run another release than this command: muster status says which."
                    }
                    _ => "",
                };
                let lines = problems.iter().map(|problem| format!("\n  {problem}"));
                format!("{message}{}{asked}", lines.collect::<String>())
            }
            Self::Unreadable { what, why } => format!(
                "The stack's answer to {what} is not one that this command knows ({why}). Use the command of the stack's \
                 release, or look at it with --json."
            ),
            Self::Unknown(why) | Self::Usage(why) | Self::Ended(why) => why.clone(),
            Self::File { path, why } => format!("{path}: {why}"),
            Self::NotConfirmed => "Nothing was changed.".to_owned(),
            Self::Interrupted => "Stopped.".to_owned(),
            Self::Unwell(page) => page.clone(),
        }
    }

    /// In the form of the admin function's own errors.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut error = json!({ "code": self.code(), "message": self.sentence() });
        if let Self::Refused { message, problems, .. } = self {
            error["message"] = json!(message);
            if !problems.is_empty() {
                error["errors"] = json!(problems);
            }
        }
        json!({ "version": muster_control::admin::VERSION, "ok": false, "error": error })
    }
}
