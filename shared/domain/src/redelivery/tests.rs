use super::*;

fn at(second: i64) -> Time {
    Time::from_millis(second * 1000)
}

/// A failed first attempt of a `queued` event.
fn failed(id: u64) -> Delivery {
    Delivery {
        id,
        guid: format!("event {id}"),
        at: at(i64::try_from(id).expect("small")),
        is_settled: false,
        is_again: false,
        is_queued: true,
    }
}

fn arrived(id: u64) -> Delivery {
    Delivery { is_settled: true, ..failed(id) }
}

fn other(id: u64) -> Delivery {
    Delivery { is_queued: false, ..failed(id) }
}

/// A later attempt of a first attempt's event.
fn again(id: u64, of: u64, is_settled: bool) -> Delivery {
    Delivery { guid: format!("event {of}"), is_again: true, is_settled, ..failed(id) }
}

fn page(deliveries: &[Delivery], next: Option<&str>) -> DeliveryPage {
    DeliveryPage {
        newest: deliveries.first().map(|one| one.at),
        oldest: deliveries.last().map(|one| one.at),
        deliveries: deliveries.to_vec(),
        next: next.map(str::to_owned),
    }
}

const NOW: Time = Time::from_millis(3_000_000);

/// Runs a round over these pages, newest first. Returns what it redelivers and updates the record.
fn round(known: &mut Redeliveries, pages: &[&[Delivery]]) -> Vec<u64> {
    let pages: Vec<DeliveryPage> = (1..)
        .zip(pages)
        .map(|(number, all)| {
            let next = (number < pages.len()).then(|| number.to_string());
            page(all, next.as_deref())
        })
        .collect();
    let mut redelivered = Vec::new();
    known.begin(&pages[0], NOW);
    for _ in 0..2 * pages.len() {
        let number = known.cursor().map_or(0, |cursor| cursor.parse().expect("a number"));
        let page: &DeliveryPage = &pages[number];
        for one in known.choose(page) {
            redelivered.push(one.id);
            known.done(one);
        }
        known.turn(page);
        if !known.is_reading() {
            return redelivered;
        }
    }
    panic!("the round does not end");
}

#[test]
fn each_event_that_never_arrived_is_redelivered_once_by_its_newest_attempt() {
    // Columns: name; pages, newest first; what is redelivered, in order.
    let cases: [(&str, &[&[Delivery]], &[u64]); 11] = [
        ("nothing was sent", &[&[]], &[]),
        ("all arrived", &[&[arrived(9), arrived(8)]], &[]),
        ("the newest failed", &[&[failed(9), arrived(8)]], &[9]),
        ("the oldest failed", &[&[arrived(9)], &[arrived(8)], &[failed(7)]], &[7]),
        ("one failed twice", &[&[again(9, 5, false), arrived(8)], &[failed(5)]], &[9]),
        ("arrived later", &[&[again(9, 5, true), failed(8)], &[failed(5)]], &[8]),
        ("failed later", &[&[again(9, 5, false), again(8, 5, true), arrived(5)]], &[9]),
        ("queued first", &[&[other(9), failed(8)]], &[8, 9]),
        (
            "queued first on all pages",
            &[&[other(9)], &[other(8), failed(7)], &[other(6), failed(5)]],
            &[9, 7, 5, 8, 6],
        ),
        (
            "an attempt and the event's first one, on pages that are read twice",
            &[
                &[arrived(9)],
                &[Delivery { is_queued: false, ..again(8, 5, false) }, failed(7)],
                &[other(5), other(4)],
            ],
            &[7, 8, 4],
        ),
        ("an empty page in between", &[&[failed(9)], &[]], &[9]),
    ];
    for (name, pages, expected) in cases {
        let mut known = Redeliveries::new(AppName::MAIN, NOW);
        known.floor = at(0);
        assert_eq!(round(&mut known, pages), expected, "{name}");
        // The next round redelivers no attempt twice.
        assert_eq!(round(&mut known, pages), [0; 0], "{name}");
    }
}

#[test]
fn what_was_not_read_is_not_dealt_with() {
    let mut known = Redeliveries::new(AppName::MAIN, NOW);
    known.floor = at(0);
    let first = page(&[arrived(900)], Some("older"));
    known.begin(&first, NOW);
    assert!(known.choose(&first).is_empty());
    known.turn(&first);
    assert_eq!((known.cursor(), known.floor), (Some("older"), at(0)));
    // The next sweep continues at this point, despite newer attempts.
    known.release(None, NOW);
    assert!(known.is_due(NOW) && known.is_reading());
    let newer = page(&[failed(990), arrived(900)], Some("older"));
    assert_eq!(known.fresh(&newer), [&failed(990)], "no job waits for the end of a round");
    known.done(&failed(990));
    assert!(known.fresh(&newer).is_empty());
    // An interrupted page is read again, and none of its attempts is redelivered twice.
    let older = page(&[failed(800), failed(700)], None);
    assert_eq!(known.choose(&older).len(), 2);
    known.done(&failed(800));
    assert_eq!(known.choose(&older), [&failed(700)]);
    known.done(&failed(700));
    known.turn(&older);
    assert_eq!((known.is_reading(), known.floor), (false, at(840)));
    known.release(None, NOW);
    assert!(!known.is_due(NOW + Seconds(289)) && known.is_due(NOW + EVERY));
    assert!(round(&mut known, &[&[failed(990), arrived(900)]]).is_empty());
}

#[test]
fn what_github_did_not_redeliver_is_tried_again_in_the_next_round() {
    let mut known = Redeliveries::new(AppName::MAIN, NOW);
    known.floor = at(0);
    let first = page(&[failed(900), failed(300)], None);
    known.begin(&first, NOW);
    assert!(known.failed(&failed(300)));
    assert_eq!(known.choose(&first), [&failed(900)], "it holds up no other");
    known.done(&failed(900));
    known.turn(&first);
    assert_eq!((known.floor, known.left(NOW)), (at(840), vec![failed(300)]));
    // Attempts that were just retried have the last turn.
    known.failed(&failed(200));
    known.failed(&failed(300));
    assert_eq!(known.left(NOW), [failed(200), failed(300)]);
    known.done(&failed(200));
    assert_eq!(known.left(NOW), [failed(300)]);
    assert!(known.left(NOW + KEPT).is_empty(), "GitHub does not keep it any more");
    // An attempt that the next round also finds in its list.
    known.left.push(failed(850));
    known.begin(&page(&[failed(990)], None), NOW);
    known.done(&failed(850));
    assert!(known.choose(&page(&[failed(850)], None)).is_empty());
    let all: Vec<bool> = (1..=301).map(|id| known.failed(&failed(id))).collect();
    assert_eq!(all.iter().filter(|is_kept| **is_kept).count(), MAX_LEFT);
}

#[test]
fn a_cursor_that_expired_loses_nothing() {
    let mut known = Redeliveries::new(AppName::MAIN, NOW);
    known.floor = at(0);
    let first = page(&[arrived(900)], Some("older"));
    known.begin(&first, NOW);
    known.turn(&first);
    known.give_up();
    assert_eq!((known.cursor(), known.floor), (None, at(0)));
    assert_eq!(round(&mut known, &[&[arrived(900)], &[failed(3)]]), [3]);
}

#[test]
fn a_webhook_that_refuses_everything_is_tried_with_a_few() {
    let mut known = Redeliveries::new(AppName::MAIN, NOW);
    known.floor = at(0);
    let down = page(&[other(9), failed(8), again(7, 6, false)], None);
    let ids = |probes: Vec<&Delivery>| probes.iter().map(|one| one.id).collect::<Vec<_>>();
    assert_eq!(ids(known.probes(&down, NOW)), [8, 7, 9]);
    // Every minute for an hour, then every five minutes.
    known.release(None, NOW);
    assert!(known.is_due(NOW));
    known.release(None, NOW + TRIED_OFTEN);
    assert!(!known.is_due(NOW + TRIED_OFTEN + Seconds(60)));
    // An attempt that GitHub has dropped does not delay the others.
    [other(9), failed(8), again(7, 6, false)].iter().for_each(|one| known.done(one));
    assert_eq!((ids(known.probes(&down, NOW)), known.down_since()), (vec![], None));
    // One of the newest attempts succeeded.
    let mut known = Redeliveries::new(AppName::MAIN, NOW);
    known.floor = at(0);
    let up = page(&[failed(9), again(8, 6, true), failed(7), failed(6)], None);
    assert_eq!(ids(known.probes(&up, NOW)), [0; 0]);
    // Failures before the last round prove nothing.
    known.floor = at(20);
    assert_eq!(ids(known.probes(&down, NOW)), [0; 0]);
}

#[test]
fn the_webhook_is_down_if_its_twenty_newest_attempts_failed() {
    // The number of failed attempts before one that arrived, and how many of them GitHub has dropped.
    for (count, dropped, is_down) in
        [(0, 0, false), (19, 0, false), (20, 0, true), (20, 1, false), (21, 1, true)]
    {
        let mut known = Redeliveries::new(AppName::MAIN, NOW);
        known.floor = at(0);
        let all: Vec<Delivery> =
            (100..100 + count).rev().map(failed).chain([arrived(50)]).collect();
        all.iter().take(dropped).for_each(|one| known.done(one));
        let probes = known.probes(&page(&all, None), NOW).len();
        assert_eq!(probes > 0, is_down, "{count} failed, {dropped} dropped");
        assert_eq!(known.down_since(), is_down.then_some(NOW), "{count} failed, {dropped} dropped");
    }
}

/// From the end of the last round to the newest attempt at the start of this one, both included.
#[test]
fn a_round_redelivers_its_own_period_only() {
    let mut known = Redeliveries::new(AppName::MAIN, NOW);
    known.floor = at(100);
    known.begin(&page(&[failed(200)], None), NOW);
    let all = page(&[failed(201), failed(200), failed(100), failed(99)], None);
    assert_eq!(known.choose(&all), [&failed(200), &failed(100)]);
    assert_eq!(known.fresh(&all), [&failed(201)]);
}

#[test]
fn an_event_that_was_tried_in_the_middle_of_a_round_is_left_to_the_next_one() {
    let mut known = Redeliveries::new(AppName::MAIN, NOW);
    known.floor = at(0);
    let first = page(&[arrived(900)], Some("1"));
    known.begin(&first, NOW);
    known.turn(&first);
    known.probed(&failed(700));
    assert_eq!(known.choose(&page(&[failed(700), failed(600)], None)), [&failed(600)]);
}

#[test]
fn one_sweep_at_a_time_and_no_wrong_clock_stops_them() {
    let mut known = Redeliveries::new(AppName::MAIN, NOW);
    assert!(known.is_due(NOW));
    known.claim(NOW);
    assert!(!known.is_due(NOW + Seconds(89)) && known.is_due(NOW + CLAIM), "a crash ends it");
    known.release(Some(NOW + Seconds(100)), NOW);
    assert!(!known.is_due(NOW + Seconds(99)) && known.is_due(NOW + Seconds(100)));
    known.release(Some(NOW + Seconds(3_600)), NOW);
    assert!(!known.is_due(NOW + Seconds(289)) && known.is_due(NOW + EVERY));
    // A sweep whose clock was hours ahead.
    known.release(None, NOW + Seconds(7_200));
    assert!(known.is_due(NOW));
    known.claim(NOW + Seconds(7_200));
    assert!(known.is_due(NOW));
}

#[test]
fn a_gap_that_github_no_longer_keeps_is_reported_and_a_quiet_webhook_is_none() {
    let mut known = Redeliveries::new(AppName::MAIN, NOW);
    let later = NOW + KEPT + Seconds(1);
    assert!(known.begin(&page(&[], None), later));
    known.turn(&page(&[], None));
    assert!(!known.begin(&page(&[], None), later + EVERY));
}

#[test]
fn the_record_stays_small() {
    let mut known = Redeliveries::new(AppName::MAIN, NOW);
    known.floor = at(0);
    // As long as GitHub's own values.
    let long = |id: u64| Delivery {
        guid: format!("{id:036}"),
        ..again(17_000_000_000_000 + id, 0, false)
    };
    let all: Vec<Delivery> = (0..20_000).rev().map(long).collect();
    let first = page(&all[..1], Some("1"));
    known.begin(&first, NOW);
    for chunk in all.chunks(100) {
        let page = page(chunk, Some("1"));
        for one in known.choose(&page) {
            if !known.failed(one) {
                known.done(one);
            }
        }
        known.turn(&page);
    }
    assert_eq!((known.left.len(), known.failing.len()), (MAX_LEFT, MAX_FAILING));
    let length = serde_json::to_string(&known).expect("JSON").len();
    assert!(length < 390_000, "{length} bytes; DynamoDB takes 400 KiB");
}

/// The webhook fails for this event each time, and for no other.
#[test]
fn an_event_that_keeps_failing_is_redelivered_less_and_less_often() {
    let (mut known, mut id, mut now) = (Redeliveries::new(AppName::MAIN, NOW), 1_000, NOW);
    let mut newest = vec![failed(id), arrived(999)];
    let mut waits = Vec::new();
    let mut last = NOW;
    for _ in 0..(24 * 12) {
        known.begin(&page(&newest, None), now);
        let mut sent = Vec::new();
        for one in known.left(now) {
            known.done(&one);
            sent.push(one.guid);
        }
        let first = page(&newest, None);
        for one in known.choose(&first) {
            known.done(one);
            sent.push(one.guid.clone());
        }
        known.turn(&first);
        for guid in sent {
            assert_eq!(guid, "event 1000");
            waits.push(now.since(last).0 / EVERY.0);
            last = now;
            id += 1;
            newest.insert(0, Delivery { at: now, ..again(id, 1_000, false) });
        }
        now = now + EVERY;
        // GitHub lists other events as well.
        id += 1;
        newest.insert(0, Delivery { at: now, ..arrived(id) });
    }
    // In rounds.
    assert_eq!(waits[..9], [0, 1, 1, 2, 4, 8, 13, 13, 13]);
    assert!(waits.len() < 32, "{waits:?}");

    // One that arrives at last is no longer known.
    newest.insert(0, Delivery { at: now, ..again(id + 1, 1_000, true) });
    known.begin(&page(&newest, None), now);
    let first = page(&newest, None);
    assert_eq!((known.choose(&first).len(), known.failing.len(), known.left.len()), (0, 0, 0));
}
