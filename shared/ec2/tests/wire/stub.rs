//! A stub of EC2 on loopback, and its responses.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use aws_sdk_ec2::config::{Credentials, Region, SharedCredentialsProvider};
use muster_ec2::Ec2;

pub(crate) type Form = Vec<(String, String)>;
pub(crate) type Answers = Vec<(u16, String)>;

/// Responds to requests in order, repeating the last response, and records the requests.
pub(crate) struct Stub {
    forms: Arc<Mutex<Vec<Form>>>,
    pub(crate) ec2: Ec2,
}

impl Stub {
    pub(crate) async fn new(answers: Answers) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let forms = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&forms);
        std::thread::spawn(move || {
            for (n, stream) in listener.incoming().flatten().enumerate() {
                let (status, body) = &answers[n.min(answers.len() - 1)];
                let form = read_form(&stream);
                kept.lock().expect("no panic").push(form);
                answer(stream, *status, body);
            }
        });
        let config = muster_aws::client::load().await.into_builder();
        let config = config
            .endpoint_url(format!("http://{address}"))
            .region(Region::new("us-east-1"))
            .credentials_provider(SharedCredentialsProvider::new(Credentials::for_tests()))
            .build();
        Self { forms, ec2: Ec2::new(&config, "s1".into()) }
    }

    pub(crate) fn forms(&self) -> Vec<Form> {
        self.forms.lock().expect("no panic").clone()
    }
}

fn read_form(stream: &TcpStream) -> Form {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a number");
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    form_urlencoded::parse(&body).into_owned().collect()
}

fn answer(mut stream: TcpStream, status: u16, body: &str) {
    if status == 0 {
        return;
    }
    let _ = write!(
        stream,
        "HTTP/1.1 {status} Scripted\r\ncontent-type: text/xml\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    );
}

/// Closes the connection without a response.
pub(crate) fn silence() -> (u16, String) {
    (0, String::new())
}

pub(crate) fn error(status: u16, code: &str) -> (u16, String) {
    let body = format!(
        "<Response><Errors><Error><Code>{code}</Code><Message>scripted</Message></Error></Errors>\
         <RequestID>r</RequestID></Response>"
    );
    (status, body)
}

pub(crate) fn instance(id: &str, state: &str, tags: &[(&str, &str)]) -> String {
    let tags: String = tags
        .iter()
        .map(|(key, value)| format!("<item><key>{key}</key><value>{value}</value></item>"))
        .collect();
    format!(
        "<item><instanceId>{id}</instanceId><instanceState><code>16</code><name>{state}</name>\
         </instanceState><launchTime>2026-11-18T11:06:40.000Z</launchTime><tagSet>{tags}</tagSet></item>"
    )
}

pub(crate) fn described(instances: &[String], next: &str) -> (u16, String) {
    let body = format!(
        "<DescribeInstancesResponse><reservationSet><item><instancesSet>{}</instancesSet></item>\
         </reservationSet><nextToken>{next}</nextToken></DescribeInstancesResponse>",
        instances.concat()
    );
    (200, body)
}
