//! Notices, from findings on record to their receiver: each is sent once, and none is lost.

use std::cell::{Cell, RefCell};

use futures_util::future::join;
use muster_control::context::Context;
use muster_control::notices::Message;
use muster_control::notifier::{NoticeError, Notifier};
use muster_control::ports::{Receiver, Unavailable};
use muster_domain::time::{Seconds, Time};
use serde_json::json;

use super::bench::Bench;
use super::damage::ask;

/// A receiver with its next response: the number of notices that it accepts, or a failure.
struct Fake {
    address: Cell<Option<&'static str>>,
    response: Cell<Option<usize>>,
    /// The calls: whether it was a greeting, and the keys of the notices.
    calls: RefCell<Vec<(bool, Vec<String>)>>,
}

impl Receiver for Fake {
    async fn address(&self, _: Time) -> Result<Option<String>, Unavailable> {
        Ok(self.address.get().map(str::to_owned))
    }

    async fn post(&self, message: &Message) -> Result<usize, Unavailable> {
        let keys = message.notices.iter().map(|one| one.key.clone()).collect();
        self.calls.borrow_mut().push((message.is_first, keys));
        self.response.get().ok_or_else(|| Unavailable::new("503"))
    }
}

const ALL: usize = 100;

fn fake() -> Fake {
    Fake { address: Some("a").into(), response: Some(ALL).into(), calls: RefCell::default() }
}

async fn tell(bench: &Bench, receiver: &Fake, now: Time) -> Result<usize, NoticeError> {
    let door = &bench.door;
    let context = Context::new(door, &(), &(), &(), &door.sim.settings);
    Notifier { context, receiver }.tell(now).await
}

fn switch(bench: &Bench, to: &str) {
    let request = json!({ "action": "switch", "launches": to, "deletes": to, "pools": { "small": to },
        "reason": "a test", "by": "ada" });
    assert_eq!(ask(bench, &request)["ok"], true);
}

#[test]
fn each_notice_is_sent_once_whatever_the_receiver_answers() {
    let (bench, receiver) = (Bench::new(), fake());
    let begun = bench.door.now();
    let three = ["deletes-paused", "launches-paused", "pool-paused:small"];
    // Second, what the operator orders before, the address, the response (none is a failure); then the call.
    type Row<'a> =
        (u32, &'a str, Option<&'static str>, Option<usize>, Option<(bool, &'a [&'a str])>);
    let rows: [Row<'_>; 17] = [
        (0, "", None, Some(ALL), None),
        (60, "", Some("a"), Some(ALL), Some((true, &[]))),
        (120, "", Some("a"), Some(ALL), None),
        (180, "off", Some("a"), Some(ALL), None),
        (299, "", Some("a"), Some(ALL), None),
        (300, "", Some("a"), Some(1), Some((false, &three))),
        (360, "", Some("a"), None, Some((false, &three[1..]))),
        (419, "", Some("a"), Some(ALL), None),
        (420, "", Some("a"), None, Some((false, &three[1..]))),
        (539, "", Some("a"), Some(ALL), None),
        (540, "", Some("a"), Some(ALL), Some((false, &three[1..]))),
        (600, "", Some("a"), Some(ALL), None),
        (660, "", Some("b"), Some(ALL), Some((true, &three))),
        (720, "on", Some("b"), Some(ALL), None),
        (1_319, "", Some("b"), Some(ALL), None),
        (1_320, "", Some("b"), Some(ALL), Some((false, &three))),
        (1_380, "", Some("b"), Some(ALL), None),
    ];
    for (second, order, address, response, expected) in rows {
        if !order.is_empty() {
            switch(&bench, order);
        }
        receiver.address.set(address);
        receiver.response.set(response);
        let sent = bench.drive(tell(&bench, &receiver, begun + Seconds(second)));
        let calls = receiver.calls.take();
        let expected = expected.map(|(is_first, keys)| {
            (is_first, keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>())
        });
        assert_eq!(calls, Vec::from_iter(expected.clone()), "at {second} s");
        let count = expected.map_or(0, |(_, keys)| keys.len().min(response.unwrap_or(0)));
        assert_eq!(sent.ok(), response.map(|_| count), "at {second} s");
    }
}

/// A call is recorded before it is made: a sweep that is killed after it delays the next call, and a
/// concurrent sweep makes none.
#[test]
fn two_sweeps_make_one_call_and_a_killed_one_is_repeated() {
    let (bench, receiver) = (Bench::new(), fake());
    let now = bench.door.now();
    let both = join(tell(&bench, &receiver, now), tell(&bench, &receiver, now));
    let (first, second) = bench.drive(both);
    assert_eq!((first.ok(), second.ok()), (Some(0), Some(0)));
    assert_eq!(receiver.calls.take().len(), 1);

    let killed = (0..).find_map(|calls| {
        let (bench, receiver) = (Bench::new(), fake());
        let whole = bench.drive_in_part(tell(&bench, &receiver, now), calls);
        assert!(whole.is_none(), "no call of the receiver");
        let is_made = !receiver.calls.take().is_empty();
        is_made.then_some((bench, receiver))
    });
    let (bench, receiver) = killed.expect("one of them");
    for (second, calls) in [(0, 0), (59, 0), (60, 1), (120, 0)] {
        assert!(bench.drive(tell(&bench, &receiver, now + Seconds(second))).is_ok());
        assert_eq!(receiver.calls.take().len(), calls, "{second} s later");
    }
}
