//! Lines of usage.

use super::*;
use muster_control::ports::Usage;
use muster_domain::time::Seconds;
use muster_domain::usage::{By, Date, Day, Learned, Line, PartOfDay, Prices};

fn line(instance: &Instance, job: Option<&Job>) -> Line {
    Line::of_machine(&deleted(instance), job).expect("it had a machine")
}

/// What the table shows of a day, page by page, in the order of time.
async fn shown<W: TableWorld>(world: &W, day: Date) -> Vec<Line> {
    let (mut lines, mut page) = (Vec::new(), None);
    loop {
        let Page { items, unreadable, next } =
            world.table().lines(day, page).await.expect("a page");
        assert_eq!(unreadable, [] as [String; 0]);
        lines.extend(items);
        page = next;
        if page.is_none() {
            lines.sort_by_key(|line| (line.at, line.subject()));
            return lines;
        }
    }
}

pub(super) async fn lines_of_usage_lie_under_the_day_of_their_end<W: TableWorld>(world: &W) {
    let mut lines: Vec<Line> = (1..=50).map(|n| line(&running(n, None), None)).collect();
    lines.extend(Line::of_job_alone(&queued(51)));
    let mut other = lines[0].clone();
    other.at = other.at + Seconds(86_400);
    for some in lines.chunks(20) {
        let writes: Vec<Write> = some.iter().cloned().map(Write::from).collect();
        commit(world, &writes).await;
    }
    commit(world, &[other.clone().into()]).await;
    lines.sort_by_key(|line| (line.at, line.subject()));
    let day = Date::of(lines[0].at);
    assert_eq!(shown(world, day).await, lines);
    assert_eq!(shown(world, Date::of(other.at)).await, [other]);
    assert_eq!(shown(world, day.before()).await, []);
}

pub(super) async fn a_line_of_usage_written_again_says_what_is_known_by_then<W: TableWorld>(
    world: &W,
) {
    let mut instance = running(1, None);
    instance.runner.ran = Some(key(1));
    let mut job = queued(1);
    let early = line(&instance, Some(&job));
    commit(world, &[new(&job), early.clone().into()]).await;
    job.last_event.conclusion = Some("success".to_owned());
    let late = line(&instance, Some(&job));
    assert_ne!(early, late);
    commit(world, &[late.clone().into()]).await;
    assert_eq!(shown(world, Date::of(late.at)).await, [late]);
}

pub(super) async fn days_of_usage_are_kept_in_items<W: TableWorld>(world: &W) {
    let lines: Vec<Line> =
        (1..=3).map(|n| line(&running(n, None), Some(&queued(n.into())))).collect();
    let date = Date::of(lines[0].at);
    let day = Day::fold(date, By::Job, &lines);
    let [part] = day.to_parts().try_into().expect("one part");
    let second = PartOfDay { part: 1, parts: 2, ..part.clone() };
    let first = PartOfDay { parts: 2, ..part };
    commit(world, &[first.clone().into(), second.clone().into()]).await;
    let mut found = world.table().rolled_up(date).await.expect("read");
    found.sort_by_key(|part| part.part);
    assert_eq!(found, [first, second]);
    assert_eq!(world.table().rolled_up(date.before()).await, Ok(Vec::new()));
    // Made anew it is one again, and the second part is left over.
    let whole: Vec<Write> = day.to_parts().into_iter().map(Write::from).collect();
    commit(world, &whole).await;
    let found = world.table().rolled_up(date).await.expect("read");
    assert_eq!(Day::of_parts(found), Some(day));
    assert_eq!(shown(world, date).await, [], "a day is none of its lines");
}

pub(super) async fn prices_are_kept_by_the_hour<W: TableWorld>(world: &W) {
    assert_eq!(world.table().prices().await, Ok(None));
    let at = running(1, None).since();
    let zones = [("us-east-1a".into(), 40_000)].into();
    let mut first = Prices::default();
    for learned in [
        Learned::Spot("m7i.large".into(), zones),
        Learned::List("m7i.large".into(), Some(100_800)),
        Learned::List("x9.metal".into(), None),
        Learned::Disk(Some(80_000)),
    ] {
        first.learn(learned, at);
    }
    commit(world, &[Change::create(first.clone()).into()]).await;
    let stored = world.table().prices().await.expect("read").expect("prices");
    let second = Prices { at: at + Seconds(3_600), ..first.clone() };
    commit(world, &[stored.change(second.clone()).into()]).await;
    let again = world.table().commit(&[stored.change(first.clone()).into()]).await;
    assert_eq!(again, Err(CommitError::Conflict), "another sweep was faster");
    let last = world.table().prices().await.expect("read").expect("prices");
    assert_eq!(*last.record(), second);
    let instance = running(1, None);
    commit(world, &[Change::create(instance.clone()).into()]).await;
    for (name, known) in [(instance.name.clone(), true), (running(2, None).name, false)] {
        let (read, prices) = world.table().instance_and_prices(&name).await.expect("read");
        assert_eq!((read.is_some(), prices), (known, Some(second.clone())));
    }
    let mut of_day = world.table().prices_of(Date::of(at)).await.expect("read");
    of_day.sort_by_key(|prices| prices.at);
    assert_eq!(of_day, [first, second]);
    assert_eq!(world.table().prices_of(Date::of(at).before()).await, Ok(Vec::new()));
}
