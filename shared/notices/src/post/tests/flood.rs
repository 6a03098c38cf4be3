//! Receivers that respond endlessly, slowly, or with too much data.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use muster_control::notices::Message;
use muster_domain::time::Time;

use super::*;
use crate::form::Form;
use crate::{Destination, send};

type Answer = fn(TcpStream);

fn resident_mib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() >> 10
}

/// Writes the head, then the part repeatedly with a pause, until the receiver closes the
/// connection.
fn without_end(mut stream: TcpStream, head: &str, part: &[u8], pause: Duration) {
    let _ = stream.write_all(head.as_bytes());
    while stream.write_all(part).is_ok() {
        std::thread::sleep(pause);
    }
}

const NO: &str = "HTTP/1.1 500 no\r\ncontent-type: text/plain\r\n";
const MILLI: Duration = Duration::from_millis(1);
const MIB: [u8; 1 << 20] = [b'x'; 1 << 20];

#[tokio::test]
async fn no_receiver_fills_the_memory_or_holds_the_sweep_up() {
    let rows: [(&str, Answer, &str, u64); 9] = [
        (
            "a body without end",
            |s| without_end(s, &format!("{NO}\r\n"), &MIB, MILLI),
            "answered 500: xxx",
            2,
        ),
        (
            "accepted, with a body without end",
            |s| without_end(s, "HTTP/1.1 200 ok\r\n\r\n", &MIB, MILLI),
            "",
            2,
        ),
        (
            "one chunk without end",
            |s| {
                without_end(
                    s,
                    &format!("{NO}transfer-encoding: chunked\r\n\r\nffffffffff\r\n"),
                    &MIB,
                    MILLI,
                );
            },
            "answered 500: xxx",
            2,
        ),
        ("a drip", |s| without_end(s, &format!("{NO}\r\n"), b"x", MILLI * 300), "answered 500", 3),
        (
            "compressed zeros",
            |s| {
                let head = format!("{NO}content-encoding: gzip\r\n\r\n\x1f\u{8b}\u{8}");
                without_end(s, &head, &[0; 1 << 20], MILLI);
            },
            "answered 500",
            3,
        ),
        (
            "heads without end",
            |s| without_end(s, NO, b"a: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n", Duration::ZERO),
            "cannot be reached",
            6,
        ),
        (
            "one head without end",
            |s| without_end(s, &format!("{NO}a: "), &MIB, MILLI),
            "cannot be reached",
            6,
        ),
        (
            "silence",
            |s| {
                std::thread::sleep(Duration::from_secs(8));
                drop(s);
            },
            "did not answer within 5 s",
            6,
        ),
        (
            "a redirect to itself",
            |mut s| {
                let _ =
                    s.write_all(b"HTTP/1.1 307 on\r\nlocation: /x\r\ncontent-length: 0\r\n\r\n");
            },
            "answered 307",
            2,
        ),
    ];
    let poster = Poster::new();
    let at = Time::from_millis(1_800_000_000_000);
    let message = Message { stack: "ci".to_owned(), at, is_first: true, notices: Vec::new() };
    for (name, answer, expected, longest) in rows {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a call");
            let _ = stream.read(&mut [0; 4096]);
            answer(stream);
        });
        let address = ReceiverUrl::read(&format!("http://127.0.0.1:{port}/x")).expect("fit");
        let destination = Destination { form: Form::Json, address };
        let (before, begun) = (resident_mib(), Instant::now());
        let result = send(&poster, &destination, &message).await;
        let said = result.map_or_else(|error| with_causes(&error).to_string(), |_| String::new());
        assert!(
            said.contains(expected) && said.is_empty() == expected.is_empty(),
            "{name}: {said}"
        );
        assert!(said.chars().count() < 300, "{name}: {said}");
        assert!(begun.elapsed().as_secs() < longest + 1, "{name}: {:?}", begun.elapsed());
        let grown = resident_mib() - before;
        assert!(grown < 24, "{name}: {grown} MiB more");
    }
}
