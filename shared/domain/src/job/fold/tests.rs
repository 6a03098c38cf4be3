use std::sync::Arc;

use super::*;
use crate::ids::{AppName, InstallationId, JobKey, RunnerId};
use crate::job::PassedOver;
use crate::job::labels::Labels;
use crate::time::Seconds;

fn event(status: JobStatus) -> JobEvent {
    let at = |millis| Some(Time::from_millis(millis));
    let started = status >= JobStatus::InProgress;
    JobEvent {
        key: JobKey { app: AppName::MAIN, repository: 1, job: 2 },
        status,
        repository: "acme/web".into(),
        private: true,
        user_owned: false,
        installation: Some(InstallationId(7)),
        run: 3,
        attempt: 1,
        name: "build".into(),
        workflow: (status >= JobStatus::InProgress).then(|| "CI".into()),
        branch: (status <= JobStatus::InProgress).then(|| "main".into()),
        actor: (status == JobStatus::Queued).then(|| "mira".into()),
        by_person: status == JobStatus::Queued,
        deploys: status == JobStatus::Queued,
        // Some `completed` events have no labels.
        labels: match status {
            JobStatus::Completed => Labels::default(),
            _ => Labels::new(["linux"]),
        },
        runner: started.then(|| "default-x-0-1".into()),
        runner_id: started.then_some(RunnerId(5)),
        conclusion: (status == JobStatus::Completed).then(|| "success".into()),
        queued_at: at(1000),
        started_at: started.then(|| Time::from_millis(2000)),
        completed_at: (status == JobStatus::Completed).then(|| Time::from_millis(3000)),
    }
}

fn fold_all(events: &[JobEvent]) -> Job {
    let start = None;
    events
        .iter()
        .fold(start, |job, event| Some(fold(job, event.clone(), Time::from_millis(9000))))
        .expect("at least one event")
}

/// All sequences of length seven over the four events. They cover the joins of every interleaving
/// of length twelve with each event up to three times, of which there are 369,600.
fn in_every_order(events: &[JobEvent; 4], expected: &JobEvent) {
    let job = fold_all(events);
    assert_eq!(job.last_event, *expected);
    let mut seen_all = 0;
    for code in 0..4_u32.pow(7) {
        let picks: Vec<usize> = (0..7).map(|i| (code / 4_u32.pow(i) % 4) as usize).collect();
        if (0..4).all(|n| picks.contains(&n)) {
            let sequence: Vec<JobEvent> = picks.iter().map(|n| events[*n].clone()).collect();
            assert_eq!(fold_all(&sequence), job, "{picks:?}");
            seen_all += 1;
        }
    }
    assert_eq!(seen_all, 8400);
}

#[test]
fn every_order_and_repetition_ends_in_the_same_job() {
    use JobStatus::{Completed, InProgress, Queued, Waiting};
    let events = [Waiting, Queued, InProgress, Completed].map(event);
    let branch = Some("main".into());
    let labels = Labels::new(["linux"]);
    let expected = JobEvent {
        labels,
        branch,
        by_person: true,
        deploys: true,
        actor: Some("mira".into()),
        ..event(Completed)
    };
    in_every_order(&events, &expected);
}

/// The alphabetical order contradicts the newer event, and `completed` omits fields of the others.
#[test]
fn the_texts_are_those_of_the_higher_status() {
    use JobStatus::{Completed, InProgress, Queued, Waiting};
    let named = |status, repository: &str, name: &str| JobEvent {
        repository: repository.into(),
        name: name.into(),
        ..event(status)
    };
    let events = [
        named(Waiting, "acme/web-d", "d"),
        named(Queued, "acme/web-c", "c"),
        named(InProgress, "acme/web-b", "b"),
        JobEvent { runner: None, runner_id: None, ..named(Completed, "acme/web-a", "a") },
    ];
    let branch: Option<Arc<str>> = Some("main".into());
    let expected = JobEvent {
        labels: Labels::new(["linux"]),
        branch: branch.clone(),
        by_person: true,
        deploys: true,
        runner: events[2].runner.clone(),
        runner_id: events[2].runner_id,
        actor: Some("mira".into()),
        ..events[3].clone()
    };
    in_every_order(&events, &expected);
    let [waiting, queued, started, ended] = events;
    let elsewhere = JobEvent { runner: Some("default-a-0-1".into()), ..ended };
    let labels = Labels::new(["linux"]);
    let expected = JobEvent {
        labels,
        branch,
        by_person: true,
        deploys: true,
        actor: Some("mira".into()),
        ..elsewhere.clone()
    };
    in_every_order(&[waiting, queued, started, elsewhere], &expected);
}

#[test]
fn two_events_of_one_status_are_not_mixed() {
    let named = |repository: &str, name: &str, label| JobEvent {
        repository: repository.into(),
        name: name.into(),
        labels: Labels::new([label]),
        ..event(JobStatus::Queued)
    };
    let (one, two) = (named("acme/a", "y", "x64"), named("acme/b", "x", "arm64"));
    let there = fold_all(&[one.clone(), two.clone()]).last_event;
    assert_eq!(there, fold_all(&[two.clone(), one.clone()]).last_event);
    assert!([one, two].contains(&there), "{there:?}");
}

/// Fields of one event that only make sense together, as text.
type Group = (&'static str, fn(&JobEvent) -> String);

const GROUPS: [Group; 4] = [
    ("owner", |one| format!("{} {} {:?}", one.repository, one.user_owned, one.installation)),
    ("run", |one| format!("{} {}", one.run, one.attempt)),
    ("runner", |one| format!("{:?} {:?}", one.runner, one.runner_id)),
    ("labels", |one| format!("{:?}", one.labels)),
];

/// A repository moves from a user to an organization and back while its job waits: each event's
/// fields are larger in one part and smaller in another.
#[test]
fn what_belongs_together_comes_from_one_event() {
    use JobStatus::{Completed, InProgress, Queued, Waiting};
    let of = |status, owner: &str, n: u64, label: &str| JobEvent {
        repository: format!("{owner}/web").into(),
        user_owned: owner == "zoe",
        installation: (n != 0).then_some(InstallationId(n)),
        run: n,
        attempt: 9 - u32::try_from(n).expect("a digit"),
        runner: (status >= InProgress).then(|| format!("{owner}-{n}")),
        runner_id: (status >= InProgress).then_some(RunnerId(9 - n)),
        labels: Labels::new([label]),
        ..event(status)
    };
    let sets = [
        [
            of(Waiting, "zoe", 8, "x"),
            of(Queued, "acme", 3, "a"),
            of(InProgress, "acme", 3, "b"),
            of(Completed, "acme", 3, "b"),
        ],
        [
            of(Waiting, "acme", 3, "a"),
            of(Queued, "zoe", 8, "x"),
            of(InProgress, "acme", 0, "b"),
            of(Completed, "acme", 5, "c"),
        ],
        // Events of one status, and an API answer of GitHub's without an installation.
        [
            of(Queued, "zoe", 2, "x"),
            of(Queued, "acme", 7, "a"),
            of(Queued, "acme", 0, "a"),
            of(Queued, "zoe", 9, "y"),
        ],
        [
            of(Queued, "acme", 7, "a"),
            of(Queued, "acme", 2, "a"),
            of(Completed, "acme", 0, "b"),
            of(Completed, "zoe", 1, "b"),
        ],
    ];
    for events in sets {
        let there = fold_all(&events).last_event;
        in_every_order(&events, &there);
        for (name, group) in GROUPS {
            let one = group(&there);
            assert!(events.iter().any(|event| group(event) == one), "{name}: {one}");
        }
    }
}

#[test]
fn a_repeated_event_changes_nothing() {
    let once = fold(None, event(JobStatus::Queued), Time::from_millis(1));
    let twice = fold(Some(once.clone()), event(JobStatus::Queued), Time::from_millis(2));
    assert_eq!(once, twice);
}

/// Whoever approves a job sends its next `queued` event.
#[test]
fn the_first_actor_stays() {
    let by =
        |actor: Option<&str>| JobEvent { actor: actor.map(Into::into), ..event(JobStatus::Queued) };
    for (events, expected) in
        [([Some("zoe"), Some("mira"), None], "zoe"), ([None, Some("mira"), Some("zoe")], "mira")]
    {
        assert_eq!(fold_all(&events.map(by)).last_event.actor.as_deref(), Some(expected));
    }
}

fn at(seconds: i64) -> Time {
    Time::from_millis(seconds * 1000)
}

fn pooled(status: JobStatus, now: Time) -> Job {
    Job { pool: Some("default".parse().expect("a name")), ..fold(None, event(status), now) }
}

#[test]
fn a_delivery_that_says_waiting_is_a_reason_to_ask_and_hides_nothing() {
    let hour = Seconds(3600);
    let queued = pooled(JobStatus::Queued, at(10));
    assert!(!queued.is_silent(hour, at(20)));
    let told = fold(Some(queued), event(JobStatus::Waiting), at(20));
    assert!(told.is_demand() && !told.is_gated(), "it may have come late");
    assert!(told.is_silent(hour, at(21)), "GitHub is asked at once");
    assert_eq!(fold(Some(told.clone()), event(JobStatus::Waiting), at(30)), told);
    let asked = Job { asked_at: Some(at(25)), ..told.clone() };
    assert!(!asked.is_silent(hour, at(26)), "and, without an answer, not again at once");
    assert!(asked.is_silent(hour, at(326)), "but long before a job that is only silent");
    let again = fold(Some(told), event(JobStatus::Queued), at(30));
    assert_eq!((again.approval, again.is_demand()), (None, true));
}

#[test]
fn the_second_answer_of_github_closes_the_gate_and_queued_opens_it() {
    let once = pooled(JobStatus::Queued, at(10)).found_waiting(at(100));
    assert!(once.is_demand() && once.is_silent(Seconds(3600), at(101)));
    // The approval arrived during the first query to GitHub.
    let approved = fold(Some(once.clone()), event(JobStatus::Queued), at(102));
    assert_ne!(approved, once, "an answer that is older than it must not be stored");
    let passed_over = Some(PassedOver { times: 3, at: at(90) });
    let closed = Job { passed_over, ..once }.found_waiting(at(160));
    assert!(closed.is_gated() && !closed.is_waiting() && !closed.is_unmatched());
    assert_eq!((closed.passed_over, closed.gated_since()), (None, at(100)));
    let open = fold(Some(closed), event(JobStatus::Queued), at(5000));
    assert!(open.is_demand() && !open.is_gated());
    assert_eq!(open.waits_since(), at(5000), "nobody was late before");
}

#[test]
fn a_job_that_was_given_up_is_revived_when_it_is_queued_again() {
    for status in [JobStatus::Waiting, JobStatus::Queued] {
        let gone = Job { expired: true, ..pooled(status, at(10)) };
        assert!(!gone.is_waiting() && !gone.is_gated());
        let back = fold(Some(gone), event(JobStatus::Queued), at(5000));
        assert!(back.is_demand(), "{status:?}");
        assert_eq!(back.waits_since(), at(5000));
    }
}

#[test]
fn a_late_queued_does_not_revive_an_ended_job() {
    let ended = fold(None, event(JobStatus::Completed), Time::from_millis(1));
    let job = fold(Some(ended), event(JobStatus::Queued), Time::from_millis(2));
    assert_eq!(job.status(), JobStatus::Completed);
    assert!(!job.is_waiting());
}
