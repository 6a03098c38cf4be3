//! Removes secrets from requests before `--verbose` prints them.

use muster_sigv4::Call;
use serde_json::Value;

/// Names of fields that contain secrets, in lower case and without separators.
const FIELDS: [&str; 13] = [
    "authorization",
    "clientsecret",
    "code",
    "encodedjitconfig",
    "jitconfig",
    "password",
    "pem",
    "privatekey",
    "secret",
    "secretbinary",
    "secretstring",
    "signature",
    "webhooksecret",
];

/// Prefixes of secrets in a text, in lower case. The text up to the next separator is secret.
/// Source: docs.github.com/en/authentication/keeping-your-account-and-data-secure/about-authentication-to-github
const BEGINNINGS: [&str; 17] = [
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "bearer ",
    "authorization: basic ",
    "x-amz-signature=",
    "x-amz-security-token=",
    "access_token=",
    "token=",
    "sig=",
    "hooks.slack.com/services/",
    "xoxb-",
    // Base64 of JSON: a JWT, or a runner's configuration.
    "eyj",
    "aws_secret_access_key=",
];

/// The replacement for a secret.
const HIDDEN: &str = "…";

/// Returns a call's path and body without secrets.
#[must_use]
pub fn call(call: &Call) -> String {
    let body = match serde_json::from_str::<Value>(&call.body) {
        Ok(json) => value(&json).to_string(),
        Err(_) => form(&call.body),
    };
    let path = if call.path == "/" { String::new() } else { text(&call.path) };
    [path, body].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Returns a JSON value without secrets.
#[must_use]
pub fn value(json: &Value) -> Value {
    match json {
        Value::Object(fields) => {
            let one = |(name, one): (&String, &Value)| {
                let shown = if is_secret(name) { Value::from(HIDDEN) } else { value(one) };
                (name.clone(), shown)
            };
            Value::Object(fields.iter().map(one).collect())
        }
        Value::Array(all) => all.iter().map(value).collect(),
        Value::String(one) => Value::from(text(one)),
        other => other.clone(),
    }
}

fn form(body: &str) -> String {
    let fields = form_urlencoded::parse(body.as_bytes()).map(|(name, value)| {
        let value = if is_secret(&name) { HIDDEN.to_owned() } else { text(&value) };
        format!("{name}={value}")
    });
    fields.collect::<Vec<_>>().join("&")
}

/// Returns whether a field contains a secret, judging by the last part of its name.
fn is_secret(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    let plain: String = last.chars().filter(char::is_ascii_alphanumeric).collect();
    let plain = plain.to_ascii_lowercase();
    FIELDS.contains(&plain.as_str()) || plain.ends_with("token")
}

/// Returns a text without the secrets that can be recognized.
#[must_use]
pub fn text(text: &str) -> String {
    let shown = without_keys(text);
    let shown = BEGINNINGS.iter().fold(shown, |shown, beginning| without(&shown, beginning));
    without_users(&shown)
}

fn without(text: &str, beginning: &str) -> String {
    let is_end = |c: char| c.is_whitespace() || "&\"'`<>,;)]}\\".contains(c);
    cut(text, beginning, |rest| rest.find(is_end).unwrap_or(rest.len()))
}

/// Hides private keys in PEM format.
fn without_keys(text: &str) -> String {
    cut(text, "-----begin", |rest| {
        let end = rest.to_ascii_lowercase().find("-----end").unwrap_or(rest.len());
        let rest = rest.get(end + "-----end".len()..);
        let tail = rest.map(|rest| rest.find("-----").map_or(rest.len(), |at| at + "-----".len()));
        end + tail.map_or(0, |tail| tail + "-----end".len())
    })
}

/// Hides the user and password of a URL.
fn without_users(text: &str) -> String {
    cut(text, "://", |rest| {
        let host = rest.find(|c: char| c.is_whitespace() || "/?#\"'\\".contains(c));
        rest[..host.unwrap_or(rest.len())].rfind('@').unwrap_or_default()
    })
}

/// Hides the text after each prefix; `length` returns how much.
fn cut(text: &str, beginning: &str, length: impl Fn(&str) -> usize) -> String {
    let (mut shown, mut rest) = (String::new(), text);
    while let Some(at) = rest.to_ascii_lowercase().find(beginning) {
        let (before, found) = rest.split_at(at + beginning.len());
        shown.push_str(before);
        let hidden = length(found);
        if hidden > 0 {
            shown.push_str(HIDDEN);
        }
        rest = &found[hidden..];
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const CANARY: &str = "c4n4ry";

    /// Each row is a call that contains a secret, and a part that is still shown.
    #[test]
    fn verbose_shows_no_secret() {
        let pem =
            format!("-----BEGIN RSA PRIVATE KEY-----\n{CANARY}\n-----END RSA PRIVATE KEY-----");
        let secrets = |operation: &str, body: Value| {
            Call::json("secretsmanager", &format!("secretsmanager.{operation}"), &body)
        };
        let invoke = |body: Value| Call::invoke("muster-admin", &body);
        let address = format!("slack https://hooks.slack.com/services/T0/B0/{CANARY}");
        let presigned = format!("/b/k?X-Amz-Credential=A&X-Amz-Signature={CANARY}&X-Amz-Expires=9");
        let calls = [
            (
                secrets("PutSecretValue", json!({ "SecretId": "ci/n", "SecretString": CANARY })),
                "ci/n",
            ),
            (secrets("CreateSecret", json!({ "Name": "ci/n", "SecretBinary": CANARY })), "ci/n"),
            (
                secrets("PutSecretValue", json!([{ "SecretString": { "a": CANARY } }])),
                "SecretString",
            ),
            (invoke(json!({ "action": "github", "create": { "code": CANARY } })), "github"),
            (invoke(json!({ "connect": { "app_id": 7, "private_key": pem } })), "app_id"),
            (invoke(json!({ "file": format!("boot_hook: |\n  {pem}\nmax: 3") })), "max: 3"),
            (invoke(json!({ "file": format!("GH=ghp_{CANARY}\nmax: 3") })), "max: 3"),
            (
                invoke(
                    json!({ "all": [format!("ghs_{CANARY}, gho_{CANARY}; ghu_{CANARY} ghr_{CANARY} x")] }),
                ),
                " x",
            ),
            (invoke(json!({ "why": format!("github_pat_11A_{CANARY} x") })), " x"),
            (
                invoke(json!({ "client_secret": CANARY, "webhook_secret": CANARY, "a": "x" })),
                "\"a\":\"x\"",
            ),
            (invoke(json!({ "encoded_jit_config": CANARY, "pool": "x" })), "\"pool\":\"x\""),
            (invoke(json!({ "config": format!("eyJ{CANARY}"), "pool": "x" })), "\"pool\":\"x\""),
            (invoke(json!({ "headers": { "Authorization": CANARY }, "a": "x" })), "\"a\":\"x\""),
            (invoke(json!({ "line": format!("Authorization: Bearer {CANARY} x") })), " x"),
            (invoke(json!({ "line": format!("authorization: basic {CANARY} x") })), " x"),
            (invoke(json!({ "address": address })), "hooks.slack.com"),
            (
                invoke(json!({ "url": format!("https://mira:{CANARY}@mirror.example/a") })),
                "mirror.example/a",
            ),
            (Call::query("sts", &[("Action", "A"), ("SessionToken", CANARY)]), "Action=A"),
            (Call::query("x", &[("Parameters.member.1.Password", CANARY), ("N", "1")]), "N=1"),
            (Call::query("x", &[("Url", &format!("https://h/?sig={CANARY}&a=b"))]), "a=b"),
            (Call::get("s3", &presigned), "X-Amz-Expires=9"),
            (Call::get("s3", &format!("/b/k?X-Amz-Security-Token={CANARY}&a=b")), "a=b"),
        ];
        for (one, stays) in calls {
            let shown = call(&one);
            assert!(!shown.contains(CANARY), "{shown}");
            assert!(shown.contains(stays) && shown.contains(HIDDEN), "{stays}: {shown}");
        }
    }

    #[test]
    fn a_call_without_secrets_is_shown_as_it_is() {
        let body = json!({ "SecretId": "muster/notices", "token_count": 3, "why": "basic things" });
        let one = Call::json("secretsmanager", "secretsmanager.GetSecretValue", &body);
        assert_eq!(call(&one), body.to_string());
        assert_eq!(
            call(&Call::get("s3", "/bucket/i-1/machine.log.gz")),
            "/bucket/i-1/machine.log.gz"
        );
        let described =
            Call::query("ec2", &[("Action", "DescribeSubnets"), ("Version", "2016-11-15")]);
        assert_eq!(call(&described), "Action=DescribeSubnets&Version=2016-11-15");
    }
}
