//! AWS and GitHub behind one TLS door. They answer at once, always the same, and count.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use muster_domain::SCHEMA;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

use crate::function::WEBHOOK_SECRET;
use crate::http::{self, Request};

/// Calls by operation.
pub(crate) type Calls = BTreeMap<String, usize>;

/// The stubs.
pub(crate) struct Stubs {
    pub(crate) address: SocketAddr,
    calls: Arc<Mutex<Calls>>,
}

impl Stubs {
    /// Listens until the program ends.
    pub(crate) fn start(tls: Arc<ServerConfig>) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let calls = Arc::new(Mutex::new(Calls::new()));
        let counted = Arc::clone(&calls);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (tls, calls) = (Arc::clone(&tls), Arc::clone(&counted));
                std::thread::spawn(move || serve(stream, tls, &calls));
            }
        });
        Ok(Self { address, calls })
    }

    /// What was called since the last time somebody asked.
    pub(crate) fn take_calls(&self) -> Calls {
        std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn serve(stream: TcpStream, tls: Arc<ServerConfig>, calls: &Mutex<Calls>) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let tls = ServerConnection::new(tls)?;
    let mut stream = BufReader::new(StreamOwned::new(tls, stream));
    while let Some(request) = http::read(&mut stream)? {
        let operation = operation(&request);
        let (status, kind, body) = answer(&operation, &request);
        *calls.lock().unwrap_or_else(PoisonError::into_inner).entry(operation).or_default() += 1;
        http::answer(stream.get_mut(), status, &[("content-type", kind)], body.as_bytes())?;
    }
    Ok(())
}

/// `secretsmanager.GetSecretValue`, `EC2.CreateFleet`, `GET /repos/…`
fn operation(request: &Request) -> String {
    let target = request.header("x-amz-target");
    if !target.is_empty() {
        return target.replace("DynamoDB_20120810", "DynamoDB").replace("AmazonSQS", "SQS");
    }
    let body = String::from_utf8_lossy(&request.body);
    match body.split('&').find_map(|field| field.strip_prefix("Action=")) {
        Some(action) => format!("EC2.{action}"),
        None => format!("{} {}", request.method, request.target),
    }
}

const JSON: &str = "application/x-amz-json-1.0";

fn answer(operation: &str, request: &Request) -> (u16, &'static str, String) {
    let body = match operation {
        "secretsmanager.GetSecretValue" => json!({
            "ARN": "arn:aws:secretsmanager:us-east-1:1:secret:s", "Name": "s", "VersionId": "v",
            "SecretString": WEBHOOK_SECRET, "VersionStages": ["AWSCURRENT"],
            // Long ago: the secret before it is not asked for.
            "CreatedDate": 1_700_000_000.0,
        }),
        "SQS.SendMessageBatch" => return sent(request),
        "SQS.SendMessage" => json!({"MessageId": "m", "MD5OfMessageBody": "0"}),
        "DynamoDB.Query" | "DynamoDB.Scan" => json!({"Items": [], "Count": 0, "ScannedCount": 0}),
        "DynamoDB.GetItem" if wants(request, "pools") => json!({ "Item": {
            "id": {"S": "pools"}, "schema": {"N": SCHEMA.to_string()}, "generation": {"N": "1"},
            "body": {"M": {
                "schema": {"N": SCHEMA.to_string()}, "version": {"N": "0"}, "by": {"S": ""}, "pools": {"L": []},
                "applied_at": {"S": "1970-01-01T00:00:00.000Z"}, "limits": {"M": {}},
                "balance": {"S": "pack"}, "app_owner": {"S": "harbor-example"},
            }},
        }}),
        "DynamoDB.BatchGetItem" => json!({"Responses": {}, "UnprocessedKeys": {}}),
        other if other.starts_with("DynamoDB.") || other.starts_with("SQS.") => json!({}),
        "EC2.DescribeInstances" => {
            let empty = r#"<?xml version="1.0" encoding="UTF-8"?><DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>r</requestId><reservationSet/></DescribeInstancesResponse>"#;
            return (200, "text/xml", empty.to_owned());
        }
        _ => return (404, "application/json", json!({"message": "no such stub"}).to_string()),
    };
    (200, JSON, body.to_string())
}

/// Whether this record of the control table is asked for.
fn wants(request: &Request, id: &str) -> bool {
    let asked: serde_json::Value = serde_json::from_slice(&request.body).unwrap_or_default();
    asked["Key"]["id"]["S"] == id
}

/// SQS names every entry that it took, and refuses an empty batch.
fn sent(request: &Request) -> (u16, &'static str, String) {
    let batch: serde_json::Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let entries = batch["Entries"].as_array().map_or(&[][..], Vec::as_slice);
    if entries.is_empty() {
        let error = json!({"__type": "com.amazonaws.sqs#EmptyBatchRequest", "message": "empty"});
        return (400, JSON, error.to_string());
    }
    let successful: Vec<_> = entries
        .iter()
        .map(|entry| json!({"Id": entry["Id"], "MessageId": "m", "MD5OfMessageBody": "0"}))
        .collect();
    (200, JSON, json!({"Successful": successful, "Failed": []}).to_string())
}
