//! Lines of usage.

use super::*;
use muster_control::ports::Usage;
use muster_domain::time::Seconds;
use muster_domain::usage::{Date, Line};

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
    lines.push(Line::of_job_alone(&queued(51)));
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
