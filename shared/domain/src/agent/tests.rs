use super::*;
use crate::ids::PoolName;
use crate::time::{Seconds, Time};

const T0: Time = Time::from_millis(1_800_000_000_000);
const DAY: u32 = 24 * 3600;

fn day(days: u32) -> Time {
    T0 + Seconds(days * DAY)
}

fn version(text: &str) -> AgentVersion {
    text.parse().expect("a version")
}

fn download(text: &str, arch: Arch) -> AgentDownload {
    let url = format!("https://github.com/x/actions-runner-linux-{}-{text}.tar.gz", arch.as_str());
    AgentDownload { version: version(text), arch, url, sha256: Some("ab".repeat(32)) }
}

fn list(text: &str) -> Vec<AgentDownload> {
    vec![download(text, Arch::X64), download(text, Arch::Arm64)]
}

/// 2.334.0 has been listed since day 0, 2.335.0 since day 10, 2.336.0 since day 35.
fn known() -> Agents {
    let releases = [("2.334.0", 0), ("2.335.0", 10), ("2.336.0", 35)];
    releases.into_iter().fold(Agents::default(), |known, (text, since)| {
        known.after_list(&list(text), day(since)).expect("news")
    })
}

fn report(own: Option<&str>) -> AgentReport {
    AgentReport { arch: Arch::X64, version: own.map(version) }
}

#[test]
fn versions_are_three_numbers() {
    for (lower, higher) in [("2.99.9", "2.100.0"), ("2.333.0", "2.333.1"), ("1.9.9", "2.0.0")] {
        assert!(version(lower) < version(higher));
        assert_eq!(version(lower).to_string(), lower);
    }
    for wrong in
        ["", "2.333", "2.333.0.1", "v2.333.0", "2.333.+0", "2..0", "2.333.99999999999", " 2.333.0"]
    {
        assert!(wrong.parse::<AgentVersion>().is_err(), "{wrong:?}");
    }
}

#[test]
fn a_mirror_has_the_archives_of_github_by_their_names() {
    let there = download("2.336.0", Arch::Arm64).mirrored("https://mirror.example/runner/");
    assert_eq!(
        there.url,
        "https://mirror.example/runner/actions-runner-linux-arm64-2.336.0.tar.gz"
    );
    assert_eq!(there.sha256, download("2.336.0", Arch::Arm64).sha256);
}

/// GitHub has announced the end of 2.335.0.
fn announced(on: u32) -> Agents {
    known().after_end(Some(version("2.335.0")), Some(day(on))).expect("news")
}

#[test]
fn an_agent_is_taken_for_thirty_days_after_the_next_one_came() {
    use Standing::{Newest, TooOld, Until};
    let refused = known().after_refusal(version("2.334.5"), day(36)).expect("news");
    let nothing = Agents::default();
    let rows = [
        ("the newest", known(), "2.336.0", Some("2.336.0"), 36, Some(Newest)),
        ("newer than what is listed", known(), "2.337.0", Some("2.336.0"), 36, Some(Newest)),
        ("the one before", known(), "2.335.0", Some("2.336.0"), 64, Some(Until(day(65)))),
        ("the one before, in time", known(), "2.335.0", Some("2.336.0"), 65, Some(TooOld)),
        (
            "counted from the one after it",
            known(),
            "2.334.0",
            Some("2.336.0"),
            39,
            Some(Until(day(40))),
        ),
        ("the same, in time", known(), "2.334.0", Some("2.336.0"), 40, Some(TooOld)),
        ("between two of them", known(), "2.334.1", Some("2.336.0"), 39, Some(Until(day(40)))),
        ("refused", refused.clone(), "2.334.5", Some("2.336.0"), 36, Some(TooOld)),
        (
            "older than what is refused",
            refused.clone(),
            "2.334.0",
            Some("2.336.0"),
            36,
            Some(TooOld),
        ),
        (
            "newer than what is refused",
            refused.clone(),
            "2.335.0",
            Some("2.336.0"),
            36,
            Some(Until(day(65))),
        ),
        ("the newest of its entity", refused, "2.334.0", Some("2.334.0"), 99, Some(Newest)),
        ("cannot tell", known(), "2.332.9", Some("2.336.0"), 36, Some(TooOld)),
        ("as a server lists it", nothing.clone(), "2.311.0", Some("2.311.0"), 0, Some(Newest)),
        (
            "before what a server lists",
            nothing.clone(),
            "2.310.0",
            Some("2.311.0"),
            0,
            Some(Until(day(30))),
        ),
        ("nothing is known", nothing, "2.300.0", None, 0, None),
        (
            "announced, and sooner",
            announced(50),
            "2.335.0",
            Some("2.336.0"),
            49,
            Some(Until(day(50))),
        ),
        ("announced, in time", announced(50), "2.335.0", Some("2.336.0"), 50, Some(TooOld)),
        (
            "announced, and later",
            announced(90),
            "2.335.0",
            Some("2.336.0"),
            70,
            Some(Until(day(90))),
        ),
        ("of another version", announced(50), "2.334.0", Some("2.336.0"), 39, Some(Until(day(40)))),
        ("announced of the newest", announced(50), "2.335.0", Some("2.335.0"), 60, Some(Newest)),
    ];
    for (what, known, own, newest, on, expected) in rows {
        assert_eq!(known.standing(version(own), newest.map(version), day(on)), expected, "{what}");
    }
}

#[test]
fn a_machine_gets_an_agent_where_it_has_none_that_github_takes() {
    let newest = |text| Some(AgentOffer::Download(download(text, Arch::X64)));
    let (listed, older) = (list("2.337.0"), list("2.335.0"));
    let arm = [download("2.337.0", Arch::Arm64)];
    let refused = Agents::default().after_refusal(version("2.335.0"), day(0)).expect("news");
    let rows = [
        ("none, and GitHub lists one", known(), None, Some(&listed[..]), newest("2.337.0")),
        ("none, and GitHub does not answer", known(), None, None, newest("2.336.0")),
        (
            "none, and GitHub never answered",
            Agents::default(),
            None,
            None,
            Some(AgentOffer::Newest),
        ),
        ("none for its processors is listed", known(), None, Some(&arm[..]), newest("2.336.0")),
        ("one that is taken", known(), Some("2.335.0"), Some(&listed[..]), None),
        ("one that is too old", known(), Some("2.334.0"), Some(&listed[..]), newest("2.337.0")),
        (
            "one that is too old, without an answer",
            known(),
            Some("2.334.0"),
            None,
            newest("2.336.0"),
        ),
        ("one of which nothing is known", Agents::default(), Some("2.300.0"), None, None),
        ("the newest that its entity is listed", known(), Some("2.335.0"), Some(&older[..]), None),
        (
            "one that was refused, and no list",
            refused,
            Some("2.335.0"),
            None,
            Some(AgentOffer::Newest),
        ),
    ];
    for (what, known, own, listed, expected) in rows {
        assert_eq!(known.offer(report(own), listed, day(50)), expected, "{what}");
    }
}

#[test]
fn what_is_no_news_is_not_written() {
    let known = known();
    assert_eq!(known.after_list(&list("2.336.0"), day(50)), None);
    assert_eq!(known.after_list(&list("2.335.0"), day(50)), None, "of an owner who has it later");
    assert_eq!(known.after_list(&[], day(50)), None);
    let mut moved = list("2.336.0");
    moved[0].url = "https://elsewhere.example/actions-runner-linux-x64-2.336.0.tar.gz".to_owned();
    let next = known.after_list(&moved, day(50)).expect("news");
    assert_eq!((&next.listed, &*next.downloads), (&known.listed, &*moved));
    let linux: PoolName = "linux".parse().expect("a pool");
    assert_eq!(known.after_image(&linux, None), None);
    let with = known.after_image(&linux, Some(version("2.335.0"))).expect("news");
    assert_eq!(with.after_image(&linux, Some(version("2.335.0"))), None);
    assert_eq!(with.after_image(&linux, None), Some(known));
}

#[test]
fn the_newest_is_never_held_to_be_too_old() {
    let known = known();
    assert_eq!(known.after_refusal(version("2.336.0"), day(50)), None);
    let once = known.after_refusal(version("2.335.0"), day(50)).expect("news");
    assert_eq!(once.after_refusal(version("2.335.0"), day(51)), None);
    let refused = |is_newest| AgentInUse { version: version("2.336.0"), is_newest }.refused();
    assert_eq!(
        refused(true),
        "GitHub rejected its agent 2.336.0 as too old, and lists no newer one"
    );
    assert_eq!(refused(false), "GitHub no longer accepts its agent 2.336.0: it is too old");
}

#[test]
fn the_record_stays_small_and_is_read_as_it_was_written() {
    let many = (0..100).fold(Agents::default(), |known, n| {
        let next = known.after_list(&list(&format!("2.{}.0", 333 + n)), day(n)).expect("news");
        next.after_refusal(version(&format!("2.{}.0", 332 + n)), day(n)).expect("news")
    });
    assert!(many.listed.len() <= 24 && many.refused.len() <= 24);
    assert_eq!(many.newest(), Some(version("2.432.0")));
    let text = serde_json::to_string(&many).expect("JSON");
    assert_eq!(serde_json::from_str::<Agents>(&text).expect("a record"), many);
    assert_eq!(serde_json::from_str::<Agents>("{}").expect("a record"), Agents::default());
}
