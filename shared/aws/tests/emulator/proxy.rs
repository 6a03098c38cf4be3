//! A proxy in front of the emulator that loses, rejects and delays requests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crate::support::emulator;

/// How to handle a request.
#[derive(Clone, Debug)]
pub(crate) enum Deed {
    /// Execute it, and lose the response.
    LoseAnswer,
    /// Do not execute it; respond with this status and body.
    Answer(u16, String),
    /// Do not execute it, and never respond.
    Silence,
}

/// A proxy with the handling for the requests of one operation, in order. Later requests, and all
/// other operations, are forwarded.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<u32>>,
}

impl Proxy {
    /// Starts the proxy. `operation` is the end of the `X-Amz-Target` header.
    pub(crate) fn new(operation: &'static str, deeds: Vec<Deed>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let seen = Arc::new(Mutex::new(0));
        let counter = Arc::clone(&seen);
        let deeds = Arc::new(Mutex::new(deeds.into_iter()));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (counter, deeds) = (Arc::clone(&counter), Arc::clone(&deeds));
                std::thread::spawn(move || {
                    let Some(request) = read_request(&stream) else { return };
                    let mut deed = None;
                    if request.target.ends_with(operation) {
                        *counter.lock().expect("no panic") += 1;
                        deed = deeds.lock().expect("no panic").next();
                    }
                    // Each connection serves one request: closing it loses the response.
                    let _ = handle(stream, &request, deed);
                });
            }
        });
        Self { address, seen }
    }

    /// Returns how many requests of the operation arrived.
    pub(crate) fn seen(&self) -> u32 {
        *self.seen.lock().expect("no panic")
    }
}

struct Request {
    target: String,
    bytes: Vec<u8>,
}

fn read_request(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let (mut target, mut length, mut bytes) = (String::new(), 0, Vec::new());
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if lower.starts_with("x-amz-target:") {
            target = line.trim().to_owned();
        }
        if line == "\r\n" {
            bytes.extend_from_slice(b"connection: close\r\n\r\n");
            break;
        }
        if !lower.starts_with("connection:") {
            bytes.extend_from_slice(line.as_bytes());
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    bytes.extend_from_slice(&body);
    Some(Request { target, bytes })
}

fn handle(mut client: TcpStream, request: &Request, deed: Option<Deed>) -> std::io::Result<()> {
    match deed {
        None => client.write_all(&forward(request)?),
        Some(Deed::LoseAnswer) => forward(request).map(drop),
        Some(Deed::Answer(status, body)) => write!(
            client,
            "HTTP/1.1 {status} Scripted\r\ncontent-type: application/x-amz-json-1.0\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        ),
        Some(Deed::Silence) => {
            std::thread::sleep(std::time::Duration::from_secs(120));
            Ok(())
        }
    }
}

fn forward(request: &Request) -> std::io::Result<Vec<u8>> {
    let mut upstream = TcpStream::connect(emulator())?;
    upstream.write_all(&request.bytes)?;
    let mut answer = Vec::new();
    upstream.read_to_end(&mut answer)?;
    Ok(answer)
}
