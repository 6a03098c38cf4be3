//! As much of HTTP/1.1 as the stubs need, over blocking streams.

use std::io::{self, BufRead, Write};

/// A request that has arrived whole.
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// A header's value, empty when it is missing.
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value)
    }
}

/// Reads the next request; none when the other side has hung up.
pub(crate) fn read(stream: &mut impl BufRead) -> io::Result<Option<Request>> {
    let start = line(stream)?;
    let mut words = start.split(' ').map(str::to_owned);
    let (Some(method), Some(target)) = (words.next().filter(|m| !m.is_empty()), words.next())
    else {
        return Ok(None);
    };
    let mut headers = Vec::new();
    loop {
        let line = line(stream)?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    let mut request = Request { method, target, headers, body: Vec::new() };
    if request.header("transfer-encoding").eq_ignore_ascii_case("chunked") {
        while let size @ 1.. = chunk_size(&line(stream)?)? {
            exactly(stream, size, &mut request.body)?;
            line(stream)?;
        }
        line(stream)?;
    } else {
        let size = request.header("content-length").parse().unwrap_or(0);
        exactly(stream, size, &mut request.body)?;
    }
    Ok(Some(request))
}

fn chunk_size(line: &str) -> io::Result<usize> {
    usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)
}

fn exactly(stream: &mut impl BufRead, size: usize, body: &mut Vec<u8>) -> io::Result<()> {
    let start = body.len();
    body.resize(start + size, 0);
    stream.read_exact(&mut body[start..])
}

fn line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    line.truncate(line.trim_end().len());
    Ok(line)
}

/// Answers in one write, so that the other side reads once.
pub(crate) fn answer(
    stream: &mut impl Write,
    status: u16,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<()> {
    let mut bytes =
        format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n", body.len()).into_bytes();
    for (name, value) in headers {
        write!(bytes, "{name}: {value}\r\n")?;
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    stream.write_all(&bytes)?;
    stream.flush()
}
