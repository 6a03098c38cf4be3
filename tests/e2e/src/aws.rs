//! The emulator, by AWS's own protocols. Every request is signed: the local stack checks signatures
//! and permissions.

use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, anyhow, bail};
use aws_credential_types::Credentials;
use muster_sigv4::Call;
use reqwest::Method;
use serde_json::{Value, json};

use crate::local::Env;

/// Someone who can call the emulator.
#[derive(Clone, Debug)]
pub struct Aws {
    endpoint: String,
    region: String,
    credentials: Credentials,
    http: reqwest::Client,
}

/// An answer, whatever it is.
#[derive(Clone, Debug)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// The body as text.
    pub body: String,
    /// `X-Amz-Function-Error`, of an invoke.
    pub function_error: Option<String>,
}

impl Reply {
    /// Whether IAM refused the call.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        self.status >= 400 && self.body.contains("AccessDenied")
    }

    /// The body of a success.
    ///
    /// # Errors
    /// The body of a failure, as the message.
    pub fn ok(self) -> Result<String> {
        if self.status < 300 {
            Ok(self.body)
        } else {
            Err(anyhow!("{}: {}", self.status, self.body))
        }
    }

    /// The body of a success, read as JSON.
    ///
    /// # Errors
    /// As [`Self::ok`], or when it is no JSON.
    pub fn json(self) -> Result<Value> {
        let body = self.ok()?;
        if body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&body).with_context(|| format!("no JSON: {body}"))
    }
}

impl Aws {
    /// The account's root, as the env file has it.
    ///
    /// # Errors
    /// When the file lacks something.
    pub fn root(env: &Env) -> Result<Self> {
        let (id, secret) = (env.get("AWS_ACCESS_KEY_ID")?, env.get("AWS_SECRET_ACCESS_KEY")?);
        Ok(Self {
            endpoint: env.get("AWS_ENDPOINT_URL")?.to_owned(),
            region: env.get("AWS_REGION")?.to_owned(),
            credentials: Credentials::new(id, secret, None, None, "env file"),
            http: client()?,
        })
    }

    /// A JSON call, for example `DynamoDB_20120810.PutItem`, whatever comes of it.
    ///
    /// # Errors
    /// When the emulator does not answer.
    pub async fn try_json(&self, service: &str, target: &str, body: &Value) -> Result<Reply> {
        self.send(Call::json(service, target, body)).await.with_context(|| target.to_owned())
    }

    /// A JSON call that must succeed.
    ///
    /// # Errors
    /// When it does not.
    pub async fn json(&self, service: &str, target: &str, body: &Value) -> Result<Value> {
        let reply = self.try_json(service, target, body).await?;
        reply.json().with_context(|| target.to_owned())
    }

    /// A call in the old form: names and values there, XML back.
    ///
    /// # Errors
    /// When it does not succeed.
    pub async fn query(&self, service: &str, fields: &[(&str, &str)]) -> Result<String> {
        let reply = self.send(Call::query(service, fields)).await?;
        reply.ok().with_context(|| format!("{service} {fields:?}"))
    }

    /// A call of a service that has paths, with a body where there is one.
    ///
    /// # Errors
    /// When it does not succeed.
    pub async fn rest(
        &self,
        method: Method,
        service: &str,
        path: &str,
        body: &Value,
    ) -> Result<Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let reply = self.send(Call { method, body, ..Call::get(service, path) }).await?;
        reply.json().with_context(|| format!("{service} {path}"))
    }

    /// Invokes a function and waits for its answer.
    ///
    /// # Errors
    /// When it cannot be invoked or fails.
    pub async fn invoke(&self, function: &str, payload: &Value) -> Result<Value> {
        let reply = self.send(Call::invoke(function, payload)).await?;
        if let Some(error) = &reply.function_error {
            bail!("{function} failed ({error}): {}", reply.body);
        }
        reply.json().with_context(|| format!("invoke {function}"))
    }

    /// The same emulator, called by a role.
    ///
    /// # Errors
    /// When the role cannot be assumed.
    pub async fn assume(&self, role: &str, session: &str) -> Result<Self> {
        let fields = [
            ("Action", "AssumeRole"),
            ("Version", "2011-06-15"),
            ("RoleArn", role),
            ("RoleSessionName", session),
        ];
        let answer = self.query("sts", &fields).await?;
        let (id, secret) = (tag(&answer, "AccessKeyId")?, tag(&answer, "SecretAccessKey")?);
        let token = tag(&answer, "SessionToken")?.to_owned();
        let credentials = Credentials::new(id, secret, Some(token), None, "AssumeRole");
        Ok(Self { credentials, ..self.clone() })
    }

    /// How many messages a queue holds, visible or not.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub async fn queue_depth(&self, url: &str) -> Result<u64> {
        const VISIBLE: &str = "ApproximateNumberOfMessages";
        const HIDDEN: &str = "ApproximateNumberOfMessagesNotVisible";
        let body = json!({ "QueueUrl": url, "AttributeNames": [VISIBLE, HIDDEN] });
        let answer = self.json("sqs", "AmazonSQS.GetQueueAttributes", &body).await?;
        let count = |name| answer["Attributes"][name].as_str().and_then(|n| n.parse::<u64>().ok());
        count(VISIBLE).zip(count(HIDDEN)).map(|(a, b)| a + b).context("no counts")
    }

    /// All items of a table, in DynamoDB's own JSON. Nothing but a test may scan.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn scan(&self, table: &str) -> Result<Vec<Value>> {
        let mut items = Vec::new();
        let mut start = Value::Null;
        loop {
            let mut body = json!({ "TableName": table, "ConsistentRead": true });
            if !start.is_null() {
                body["ExclusiveStartKey"] = start;
            }
            let mut answer = self.json("dynamodb", "DynamoDB_20120810.Scan", &body).await?;
            if let Value::Array(page) = answer["Items"].take() {
                items.extend(page);
            }
            start = answer["LastEvaluatedKey"].take();
            if start.is_null() {
                return Ok(items);
            }
        }
    }

    async fn send(&self, call: Call) -> Result<Reply> {
        let Self { endpoint, region, credentials, .. } = self;
        let request = call.signed(endpoint, region, credentials, SystemTime::now())?;
        let (parts, body) = request.into_parts();
        let url = parts.uri.to_string();
        let answer = self.http.post(url).headers(parts.headers).body(body).send().await?;
        let error = answer.headers().get("x-amz-function-error");
        Ok(Reply {
            function_error: error.and_then(|text| text.to_str().ok()).map(str::to_owned),
            status: answer.status().as_u16(),
            body: answer.text().await?,
        })
    }
}

/// The text of the first element of that name; AWS's answers are flat enough for that.
fn tag<'a>(xml: &'a str, name: &str) -> Result<&'a str> {
    let rest = xml.split_once(&format!("<{name}>")).map(|(_, rest)| rest);
    let text = rest.and_then(|rest| rest.split_once("</")).map(|(text, _)| text);
    text.with_context(|| format!("no <{name}> in {xml}"))
}

/// An HTTP client for loopback.
pub(crate) fn client() -> Result<reqwest::Client> {
    Ok(reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(90)).build()?)
}

/// A value in DynamoDB's own JSON, as plain JSON.
#[must_use]
pub fn plain(value: &Value) -> Value {
    let Some((kind, value)) = value.as_object().and_then(|one| one.iter().next()) else {
        return Value::Null;
    };
    match (kind.as_str(), value) {
        ("N", Value::String(number)) => number.parse().map_or(Value::Null, Value::Number),
        ("L", Value::Array(list)) => list.iter().map(plain).collect(),
        ("M", Value::Object(map)) => {
            map.iter().map(|(name, value)| (name.clone(), plain(value))).collect()
        }
        ("NULL", _) => Value::Null,
        _ => value.clone(),
    }
}
