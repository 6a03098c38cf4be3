//! Pagination of listings.

use muster_api::{AdminError, AdminErrorCode, MAX_LIMIT};
use muster_domain::hash::fnv1a;
use serde::Serialize;

use crate::ports::{Page, ReadError};

/// Maximum size of a response's rows, in bytes. Lambda's limit is 6 MB.
/// Source: docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
const MAX_BYTES: usize = 5_000_000;

/// A page of rows, which may span several parts of the table.
pub(super) struct Rows<R> {
    /// Each row with the index of its part.
    pub rows: Vec<(usize, R)>,
    /// Keys of records that this release cannot read.
    pub unreadable: Vec<String>,
    /// The start of the next page.
    pub next: Option<String>,
}

/// A page of a table: each record, and its row if it matches the request.
pub(super) type Looked<T, R> = Page<(T, Option<R>)>;

/// Reads a page of a listing. `parts` are the names of the parts, listed one after the other;
/// `read` reads a page of one part, and `after` returns the position after a record.
pub(super) async fn rows<T, R: Serialize>(
    parts: &[String],
    page: Option<&str>,
    limit: u32,
    read: impl AsyncFn(usize, Option<String>) -> Result<Looked<T, R>, AdminError>,
    after: impl Fn(usize, &T) -> Result<String, ReadError>,
) -> Result<Rows<R>, AdminError> {
    let mut room = Room::new(limit)?;
    let (first, mut at) = page.map_or(Ok((0, None)), |text| PageStart::read(text, parts))?;
    let mut found = Rows { rows: Vec::new(), unreadable: Vec::new(), next: None };
    for (part, name) in parts.iter().enumerate().skip(first) {
        loop {
            let looked = read(part, at.clone()).await?;
            found.unreadable.extend(looked.unreadable);
            let mut last = None;
            for (record, row) in looked.items {
                if let Some(row) = row {
                    if !room.has(&row) {
                        let at = last.as_ref().map(|last| after(part, last)).transpose()?.or(at);
                        found.next = Some(PageStart { part: name, at: at.as_deref() }.text());
                        return Ok(found);
                    }
                    found.rows.push((part, row));
                }
                last = Some(record);
            }
            at = looked.next;
            if at.is_none() {
                break;
            }
        }
    }
    Ok(found)
}

/// The remaining capacity of a response.
struct Room {
    rows: u32,
    bytes: usize,
}

impl Room {
    fn new(limit: u32) -> Result<Self, AdminError> {
        if (1..=MAX_LIMIT).contains(&limit) {
            return Ok(Self { rows: limit, bytes: MAX_BYTES });
        }
        Err(wrong(format!("\"limit\" must be 1 to {MAX_LIMIT}")))
    }

    /// Reserves capacity for a row. Returns false if it does not fit. A row is always far smaller
    /// than a response.
    fn has(&mut self, row: &impl Serialize) -> bool {
        let bytes = serde_json::to_vec(row).map_or(0, |text| text.len() + 1);
        if self.rows == 0 || bytes > self.bytes {
            return false;
        }
        (self.rows, self.bytes) = (self.rows - 1, self.bytes - bytes);
        true
    }
}

/// The start of a page: a part, and a position in it. Its text starts with a checksum, so that a
/// truncated token is not mistaken for a different position.
struct PageStart<'a> {
    part: &'a str,
    at: Option<&'a str>,
}

impl<'a> PageStart<'a> {
    fn text(&self) -> String {
        let place = format!("{}|{}", self.part, self.at.unwrap_or_default());
        format!("{:016x}|{place}", fnv1a(place.as_bytes()))
    }

    fn read(text: &'a str, parts: &[String]) -> Result<(usize, Option<String>), AdminError> {
        let broken =
            || wrong("\"page\" is not the \"next\" of a response: pass it unchanged".to_owned());
        let (sum, place) = text.split_once('|').ok_or_else(broken)?;
        let (part, at) = place.split_once('|').ok_or_else(broken)?;
        if format!("{:016x}", fnv1a(place.as_bytes())) != sum {
            return Err(broken());
        }
        let index = parts.iter().position(|name| name == part).ok_or_else(|| {
            wrong(format!(
                "\"page\" continues at {part}, which this request does not list: repeat the request \
                 that returned it, or start without \"page\""
            ))
        })?;
        Ok((index, (!at.is_empty()).then(|| at.to_owned())))
    }
}

fn wrong(message: String) -> AdminError {
    AdminError::new(AdminErrorCode::BadRequest, message)
}

/// Whether any of these words contains the text, case-insensitive. No text matches everything.
pub(super) fn has<T: AsRef<str>>(words: &[T], text: Option<&str>) -> bool {
    let Some(text) = text.map(|text| text.trim().to_lowercase()) else { return true };
    words.iter().any(|word| word.as_ref().to_lowercase().contains(&text))
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn done<R>(work: impl Future<Output = R>) -> R {
        match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => done,
            Poll::Pending => unreachable!("nothing is waited for"),
        }
    }

    /// Two parts with numbers, three per page of the table; odd numbers match.
    fn page(
        page: Option<&str>,
        limit: u32,
        row: fn(u32) -> String,
    ) -> Result<Rows<String>, AdminError> {
        let parts = ["a".to_owned(), "b".to_owned()];
        let read = |part: usize, at: Option<String>| {
            let from = at.map_or(0, |at| at.parse().expect("a number"));
            let last = if part == 0 { 10_u32 } else { 4 };
            let to = (from + 3).min(last);
            let wanted = |n: u32| (n % 2 == 1).then(|| row(n));
            let items = (from..to).map(|n| (n, wanted(n))).collect();
            let next = (to < last).then(|| to.to_string());
            ready(Ok(Page { items, unreadable: Vec::new(), next }))
        };
        let after = |_: usize, last: &u32| Ok((last + 1).to_string());
        done(rows(&parts, page, limit, async |part, at| read(part, at).await, after))
    }

    #[test]
    fn pages_of_any_size_have_each_row_once() {
        for limit in 1..9 {
            let (mut all, mut next, mut pages) = (Vec::new(), None::<String>, 0);
            loop {
                let found = page(next.as_deref(), limit, |n| n.to_string()).expect("a page");
                all.extend(found.rows);
                pages += 1;
                next = found.next;
                if next.is_none() {
                    break;
                }
            }
            let told: Vec<(usize, &str)> = all.iter().map(|(part, row)| (*part, &**row)).collect();
            let expected = [(0, "1"), (0, "3"), (0, "5"), (0, "7"), (0, "9"), (1, "1"), (1, "3")];
            assert_eq!(told, expected, "{limit} a page");
            assert_eq!(pages, 7_u32.div_ceil(limit), "no page is empty");
        }
    }

    #[test]
    fn an_answer_stays_below_what_lambda_sends() {
        let found = page(None, 7, |_| "x".repeat(2_000_000)).expect("a page");
        assert_eq!(found.rows.len(), 2);
        let rest = page(found.next.as_deref(), 7, |n| n.to_string()).expect("the rest");
        assert_eq!((rest.rows.len(), rest.next), (5, None));
    }

    #[test]
    fn what_is_no_page_of_this_list_is_refused_with_a_reason() {
        let next = page(None, 6, |n| n.to_string()).expect("a page").next.expect("more");
        let cut = &next[..next.len() - 1];
        let other = PageStart { part: "gone", at: None }.text();
        let cases = [
            ("", "pass it unchanged"),
            ("a|3", "pass it unchanged"),
            (cut, "pass it unchanged"),
            (&other, "continues at gone"),
        ];
        for (text, part) in cases {
            let Err(refused) = page(Some(text), 6, |n| n.to_string()) else {
                panic!("{text:?} is taken")
            };
            assert_eq!(refused.code.as_str(), "bad_request", "{text:?}");
            assert!(refused.message.contains(part), "{text:?}: {}", refused.message);
        }
        assert!(page(None, 0, |n| n.to_string()).is_err());
        assert!(page(None, MAX_LIMIT + 1, |n| n.to_string()).is_err());
    }

    #[test]
    fn a_text_is_found_in_whatever_case() {
        let words = ["acme/App", "build 👷"];
        let cases =
            [(None, true), (Some(" app "), true), (Some("BUILD"), true), (Some("web"), false)];
        for (text, is) in cases {
            assert_eq!(has(&words, text), is, "{text:?}");
        }
    }
}
