//! Joins paginated lists into one.

use serde_json::{Value, json};

/// Maximum number of rows that a page may request; the function's own limit.
pub const MOST: u32 = 5_000;
/// The fields of an answer that are lists.
const LISTS: [&str; 5] = ["instances", "unreadable", "jobs", "unserved", "waiting_for_approval"];
/// The fields whose rows `limit` counts.
const ROWS: [&str; 4] = ["instances", "jobs", "unserved", "waiting_for_approval"];

/// A list that is being read page by page.
#[derive(Clone, Debug, PartialEq)]
pub struct Pages {
    request: Value,
    /// Number of rows still to read; `None` for all.
    left: Option<u32>,
    whole: Option<Value>,
}

impl Pages {
    /// Creates a list for a request, with a maximum number of rows or all of them.
    #[must_use]
    pub const fn new(request: Value, most: Option<u32>) -> Self {
        Self { request, left: most, whole: None }
    }

    /// Returns the request for the next page.
    #[must_use]
    pub fn request(&self) -> Value {
        let mut request = self.request.clone();
        request["limit"] = json!(self.left.map_or(MOST, |left| left.min(MOST)));
        request
    }

    /// Adds an answer. Returns whether there is a next page to request.
    pub fn add(&mut self, answer: Value) -> bool {
        let rows: usize =
            ROWS.iter().filter_map(|list| answer[list].as_array()).map(Vec::len).sum();
        self.left =
            self.left.map(|left| left.saturating_sub(u32::try_from(rows).unwrap_or(u32::MAX)));
        let next = answer["next"].clone();
        let goes_on = next.is_string() && next != self.request["page"] && self.left != Some(0);
        self.request["page"] = next;
        self.whole = Some(match self.whole.take() {
            Some(whole) => joined(whole, answer),
            None => answer,
        });
        goes_on
    }

    /// Returns all pages as one answer.
    #[must_use]
    pub fn into_answer(self) -> Value {
        self.whole.unwrap_or_default()
    }
}

/// Appends the rows of a later page. An unreadable record may be on two pages.
fn joined(whole: Value, mut later: Value) -> Value {
    for list in LISTS {
        let Some(Value::Array(mut rows)) = whole.get(list).cloned() else { continue };
        if let Some(Value::Array(more)) = later.get_mut(list).map(Value::take) {
            let is_new = |row: &Value| list != "unreadable" || !rows.contains(row);
            let more: Vec<Value> = more.into_iter().filter(is_new).collect();
            rows.extend(more);
        }
        later[list] = Value::Array(rows);
    }
    later
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seven rows, at most three per page.
    fn answer(request: &Value) -> Value {
        let from = request["page"].as_str().map_or(0, |page| page.parse().expect("a page"));
        let limit = request["limit"].as_u64().expect("a limit").min(3);
        let to = (from + limit).min(7);
        let next = (to < 7).then(|| to.to_string());
        json!({
            "instances": (from..to).collect::<Vec<u64>>(), "unreadable": ["x"], "more": to < 7,
            "next": next,
        })
    }

    fn whole(most: Option<u32>) -> (Value, u32) {
        let (mut pages, mut asked) = (Pages::new(json!({ "action": "list" }), most), 1);
        while pages.add(answer(&pages.request())) {
            asked += 1;
        }
        (pages.into_answer(), asked)
    }

    #[test]
    fn a_list_is_whole_or_as_long_as_is_wanted() {
        for (most, rows, asked) in
            [(None, 7, 3), (Some(9), 7, 3), (Some(7), 7, 3), (Some(4), 4, 2), (Some(2), 2, 1)]
        {
            let (answer, pages) = whole(most);
            assert_eq!(answer["instances"], json!((0..rows).collect::<Vec<u64>>()), "{most:?}");
            assert_eq!((pages, &answer["more"]), (asked, &json!(rows < 7)), "{most:?}");
            assert_eq!(answer["unreadable"], json!(["x"]), "{most:?}");
        }
    }

    #[test]
    fn a_page_that_leads_to_itself_is_the_last() {
        let mut pages = Pages::new(json!({ "action": "jobs" }), None);
        let answer = json!({ "jobs": [1], "next": "a" });
        assert!(pages.add(answer.clone()));
        assert!(!pages.add(answer));
    }

    #[test]
    fn every_kind_of_row_counts_and_every_list_is_joined() {
        let first =
            json!({ "jobs": [1], "unserved": [2], "waiting_for_approval": [3], "next": "a" });
        let second = json!({ "jobs": [], "unserved": [4], "waiting_for_approval": [5, 6] });
        for (most, goes_on, limit) in [(None, true, 5_000), (Some(3), false, 0), (Some(4), true, 1)]
        {
            let mut pages = Pages::new(json!({ "action": "jobs" }), most);
            assert_eq!(pages.add(first.clone()), goes_on, "{most:?}");
            assert_eq!(pages.request()["limit"], json!(limit), "{most:?}");
        }
        let mut pages = Pages::new(json!({ "action": "jobs" }), None);
        assert!(pages.add(first) && !pages.add(second));
        let joined = json!({ "jobs": [1], "unserved": [2, 4], "waiting_for_approval": [3, 5, 6], "next": null });
        let mut answer = pages.into_answer();
        answer["next"] = Value::Null;
        assert_eq!(answer, joined);
        assert_eq!(Pages::new(json!({}), Some(6_000)).request()["limit"], json!(MOST));
    }
}
