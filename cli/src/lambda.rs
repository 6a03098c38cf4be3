//! Interprets the answers of AWS and GitHub. The binary makes the calls.

use muster_sigv4::Call;
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::xml;

/// An HTTP answer.
#[derive(Clone, Debug, Default)]
pub struct HttpResponse {
    /// The HTTP status.
    pub status: u16,
    /// The header `x-amzn-errortype`: the error's code.
    pub error_type: Option<String>,
    /// The header `x-amz-function-error`: the function failed without an answer.
    pub function_error: Option<String>,
    /// AWS's or GitHub's request ID.
    pub request_id: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Called {
    /// The function's answer.
    Answer(Value),
    /// The function does not exist.
    NoFunction,
    /// AWS rejects the credentials; its message.
    NoCredentials(String),
    /// Any other failure.
    Failed(Failure),
}

/// Interprets Lambda's answer to an Invoke.
/// Source: docs.aws.amazon.com/lambda/latest/api/API_Invoke.html
#[must_use]
pub fn invoked(function: &str, answer: &HttpResponse) -> Called {
    let body = serde_json::from_slice::<Value>(&answer.body);
    if answer.status < 300 {
        return match (answer.function_error.is_some(), body) {
            (false, Ok(value)) => Called::Answer(value),
            (false, Err(error)) => {
                Called::Failed(Failure::Unreadable { what: "the request", why: error.to_string() })
            }
            (true, body) => Called::Failed(broke(function, &body.unwrap_or_default())),
        };
    }
    let (kind, said) = refusal(answer);
    match kind.as_str() {
        "ResourceNotFoundException" => Called::NoFunction,
        "AccessDeniedException" | "AccessDenied" => {
            Called::Failed(Failure::Denied { function: function.to_owned(), said })
        }
        kind if is_of_credentials(kind) => Called::NoCredentials(said),
        kind => {
            let said = if kind.is_empty() { said } else { format!("{kind}: {said}") };
            Called::Failed(Failure::Answered {
                who: "AWS Lambda".to_owned(),
                status: answer.status,
                said,
            })
        }
    }
}

/// Interprets a service's answer, in JSON or XML. `action` is the operation's IAM name, such as `logs:FilterLogEvents`.
#[must_use]
pub fn served(action: &str, answer: &HttpResponse) -> Called {
    if answer.status < 300 {
        return match body(&answer.body) {
            Ok(value) => Called::Answer(value),
            Err(why) => Called::Failed(Failure::Service {
                action: action.to_owned(),
                code: answer.status.to_string(),
                said: why,
            }),
        };
    }
    let (code, said) = refusal(answer);
    if is_of_credentials(&code) {
        return Called::NoCredentials(said);
    }
    let code = if code.is_empty() { answer.status.to_string() } else { code };
    Called::Failed(Failure::Service { action: action.to_owned(), code, said })
}

/// Returns the IAM name of an operation.
#[must_use]
pub fn action(call: &Call) -> String {
    let service = if call.service == "monitoring" { "cloudwatch" } else { &call.service };
    let target = call.headers.iter().find(|(name, _)| *name == "x-amz-target");
    let operation = match target {
        Some((_, target)) => target.rsplit('.').next().unwrap_or_default(),
        None if call.service == "lambda" => of_lambda(&call.path),
        None if call.service == "s3" => "GetObject",
        None => {
            call.body.split('&').find_map(|field| field.strip_prefix("Action=")).unwrap_or_default()
        }
    };
    format!("{service}:{operation}")
}

/// Returns the name of a Lambda operation, which requests identify by path.
fn of_lambda(path: &str) -> &'static str {
    match path {
        path if path.ends_with("/account-settings") => "GetAccountSettings",
        path if path.ends_with("/configuration") => "GetFunctionConfiguration",
        path if path.ends_with("/concurrency") => "GetFunctionConcurrency",
        path if path.contains("/event-source-mappings") => "ListEventSourceMappings",
        path if path.ends_with("/invocations") => "InvokeFunction",
        _ => "ListFunctions",
    }
}

/// Parses a body that is JSON, XML or empty.
fn body(body: &[u8]) -> Result<Value, String> {
    match body.first() {
        None => Ok(Value::Object(Map::new())),
        Some(b'<') => {
            xml::read(&String::from_utf8_lossy(body)).map_err(|error| format!("not XML: {error}"))
        }
        Some(_) => serde_json::from_slice(body).map_err(|error| format!("not JSON: {error}")),
    }
}

/// Returns the code and the message of a service's error.
fn refusal(answer: &HttpResponse) -> (String, String) {
    let body = body(&answer.body).unwrap_or_default();
    // In XML, EC2 returns a list with one error; other services return one error.
    let [one, of_ec2] = ["/Error", "/Errors/Error"].map(|path| body.pointer(path));
    let error = one.or(of_ec2).unwrap_or(&body);
    let text = |name: &str| error[name].as_str().map(str::to_owned);
    let plain = || String::from_utf8_lossy(&answer.body).into_owned();
    let said = text("Message").or_else(|| text("message")).unwrap_or_else(plain);
    let kind = answer.error_type.clone().or_else(|| text("__type")).or_else(|| text("Code"));
    let kind = kind.unwrap_or_default();
    // `ResourceNotFoundException:http://internal…`, or with a namespace before a `#`.
    let kind = kind.split(':').next().unwrap_or_default();
    (kind.rsplit('#').next().unwrap_or_default().to_owned(), said)
}

fn is_of_credentials(code: &str) -> bool {
    matches!(
        code,
        "ExpiredTokenException"
            | "ExpiredToken"
            | "UnrecognizedClientException"
            | "InvalidClientTokenId"
            | "InvalidAccessKeyId"
            | "InvalidSignatureException"
            | "MissingAuthenticationTokenException"
            | "IncompleteSignatureException"
            | "IncompleteSignature"
            | "SignatureDoesNotMatch"
            | "AuthFailure"
            | "RequestExpired"
    )
}

/// Interprets the runtime's report of a function that failed.
fn broke(function: &str, report: &Value) -> Failure {
    let function = function.to_owned();
    let said = report["errorMessage"].as_str().unwrap_or("no reason is given").to_owned();
    if said.contains("Task timed out") {
        return Failure::NoAnswer { function };
    }
    Failure::Broke { function, said }
}

/// Returns the Muster stacks among a region's functions: each has an admin function and a reaper.
#[must_use]
pub fn stacks(functions: &[String]) -> Vec<String> {
    let names = functions.iter().filter_map(|name| name.strip_suffix("-admin"));
    let is_stack = |name: &&str| functions.contains(&format!("{name}-reaper"));
    names.filter(is_stack).map(str::to_owned).collect()
}

/// Interprets GitHub's answer to a GET; `None` for a 404.
///
/// # Errors
/// Fails on any other status.
pub fn github(host: &str, answer: &HttpResponse) -> Result<Option<Value>, Failure> {
    let body = serde_json::from_slice::<Value>(&answer.body);
    match (answer.status, body) {
        (200, Ok(value)) => Ok(Some(value)),
        (404, _) => Ok(None),
        (status, body) => {
            let said = body.unwrap_or_default()["message"]
                .as_str()
                .unwrap_or("no reason is given")
                .to_owned();
            Err(Failure::Answered { who: host.to_owned(), status, said })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, kind: &str, body: &str) -> HttpResponse {
        let error_type = (!kind.is_empty()).then(|| kind.to_owned());
        HttpResponse { status, error_type, body: body.into(), ..HttpResponse::default() }
    }

    fn code(answer: &HttpResponse) -> String {
        match invoked("muster-admin", answer) {
            Called::Answer(value) => value.to_string(),
            Called::NoFunction => "no function".to_owned(),
            Called::NoCredentials(said) => format!("no credentials: {said}"),
            Called::Failed(failure) => failure.code().to_owned(),
        }
    }

    #[test]
    fn each_answer_of_lambda_is_told_apart() {
        let message = r#"{"Message":"no"}"#;
        for (status, kind, body, told) in [
            (200, "", r#"{"ok":true}"#, r#"{"ok":true}"#),
            (200, "", "<html>", "unreadable_answer"),
            (404, "ResourceNotFoundException:http://internal/", message, "no function"),
            (404, "", r#"{"__type":"x#ResourceNotFoundException"}"#, "no function"),
            (403, "AccessDeniedException", message, "denied"),
            (403, "ExpiredTokenException", message, "no credentials: no"),
            (403, "InvalidSignatureException", r#"{"message":"no"}"#, "no credentials: no"),
            (429, "TooManyRequestsException", message, "unexpected_answer"),
            (502, "", "Bad Gateway", "unexpected_answer"),
        ] {
            assert_eq!(code(&answer(status, kind, body)), told, "{status} {kind}");
        }
        for (said, told) in [
            ("2026 Task timed out after 60.00 seconds", "no_answer"),
            ("panicked", "function_failed"),
        ] {
            let body = serde_json::json!({ "errorMessage": said }).to_string();
            let function_error = Some("Unhandled".to_owned());
            assert_eq!(code(&HttpResponse { function_error, ..answer(200, "", &body) }), told);
        }
    }

    #[test]
    fn each_answer_of_a_service_is_told_apart() {
        let call =
            Call::json("monitoring", "GraniteServiceVersion20100801.DescribeAlarms", &Value::Null);
        assert_eq!(action(&call), "cloudwatch:DescribeAlarms");
        let subnets =
            Call::query("ec2", &[("Action", "DescribeSubnets"), ("Version", "2016-11-15")]);
        assert_eq!(action(&subnets), "ec2:DescribeSubnets");
        let mappings = Call::get("lambda", "/2015-03-31/event-source-mappings/?MaxItems=9");
        assert_eq!(action(&mappings), "lambda:ListEventSourceMappings");
        let of_ec2 = ("<Response><Errors><Error>", "</Error></Errors></Response>");
        let xml = |before: &str, code: &str, after: &str| {
            format!(
                "<?xml version=\"1.0\"?>{before}<Code>{code}</Code><Message>no</Message>{after}"
            )
        };
        let queue = r#"{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"no"}"#;
        for (status, body, told) in [
            (200, r#"{"a":1}"#, r#"{"a":1}"#),
            (200, "", "{}"),
            (200, "<xml>", "unexpected_answer"),
            (200, "xml", "unexpected_answer"),
            (400, r#"{"__type":"ResourceNotFoundException","message":"no"}"#, "not_found"),
            (400, queue, "not_found"),
            (400, r#"{"__type":"AccessDeniedException","Message":"no"}"#, "denied"),
            (400, r#"{"__type":"ExpiredTokenException","message":"no"}"#, "no credentials: no"),
            (400, r#"{"__type":"ThrottlingException","message":"no"}"#, "throttled"),
            (200, "<R><a>1</a></R>", r#"{"a":"1"}"#),
            (
                403,
                &xml("<ErrorResponse><Error>", "AccessDenied", "</Error></ErrorResponse>"),
                "denied",
            ),
            (403, &xml(of_ec2.0, "UnauthorizedOperation", of_ec2.1), "denied"),
            (403, &xml(of_ec2.0, "AuthFailure", of_ec2.1), "no credentials: no"),
            (503, &xml(of_ec2.0, "RequestLimitExceeded", of_ec2.1), "throttled"),
            (503, "", "unexpected_answer"),
        ] {
            let told_as = match served("logs:FilterLogEvents", &answer(status, "", body)) {
                Called::Answer(value) => value.to_string(),
                Called::NoFunction => "no function".to_owned(),
                Called::NoCredentials(said) => format!("no credentials: {said}"),
                Called::Failed(failure) => failure.code().to_owned(),
            };
            assert_eq!(told_as, told, "{status} {body}");
        }
    }

    #[test]
    fn a_stack_has_more_than_an_admin_function() {
        let all = ["muster-admin", "muster-reaper", "other-admin", "a-b-reaper", "a-b-admin"];
        assert_eq!(stacks(&all.map(str::to_owned)), ["muster", "a-b"]);
    }

    #[test]
    fn github_shows_refuses_or_hides() {
        let told = |status, body: &str| github("github.com", &answer(status, "", body));
        assert_eq!(told(200, r#"{"id":7}"#), Ok(Some(serde_json::json!({ "id": 7 }))));
        assert_eq!(told(404, "{}"), Ok(None));
        let refused =
            told(401, r#"{"message":"Bad credentials"}"#).map_err(|failure| failure.sentence());
        assert_eq!(refused, Err("github.com returned 401: Bad credentials".to_owned()));
    }
}
