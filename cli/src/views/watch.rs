//! The watched object: the stack with its last log lines, or a job or an instance with its history.

use std::collections::BTreeSet;

use muster_api::answers::Overview;
use muster_domain::time::Time;

use super::logs::{LogLine, row};
use super::status;
use crate::display::clean;
use crate::page::{Screen, TextPage};
use crate::table::{Text, TextStyle};
use crate::words::clock;

/// Minimum number of log lines shown.
const LEAST: usize = 3;

/// A job or an instance that is being followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    pub title: String,
    /// Its current state and what it waits for.
    pub sentences: Vec<String>,
    /// Its history, oldest first.
    pub story: Vec<(Time, String)>,
}

/// Renders the status and below it as many of the last log lines as fit.
#[must_use]
pub fn stack(
    status: Option<&Overview>,
    region: &str,
    lines: &[LogLine],
    note: Option<&str>,
    height: u16,
    now: Time,
    screen: Screen,
) -> String {
    let mut page = TextPage::new(screen);
    if let Some(note) = note {
        page.marked([(Text::new("!", TextStyle::Warning), Text::from(note))]);
    }
    let note = page.into_text();
    let above = status.map(|status| status::page(status, region, screen)).unwrap_or_default();
    // Findings may fill the screen; the last log lines are shown anyway.
    let most = usize::from(height).saturating_sub(note.lines().count() + LEAST + 2);
    let above: String = above.split_inclusive('\n').take(most).collect();
    let taken = above.lines().count() + note.lines().count() + 2;
    let room = usize::from(height).saturating_sub(taken).max(LEAST);
    let mut below = TextPage::new(screen);
    for line in &lines[lines.len().saturating_sub(room)..] {
        row(&mut below, line, now);
    }
    let parts = [above, note, below.into_text()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Renders a job or an instance, and the end of its history.
#[must_use]
pub fn followed(one: &Followed, height: u16, now: Time, screen: Screen) -> String {
    let mut page = TextPage::new(screen);
    page.line([Text::new(&one.title, TextStyle::Strong)]);
    page.gap();
    page.marked(one.sentences.iter().map(|said| (Text::new("·", TextStyle::Dim), said.into())));
    page.gap();
    let taken = page.clone().into_text().lines().count() + 1;
    let room = usize::from(height).saturating_sub(taken).max(3);
    for (at, what) in &one.story[one.story.len().saturating_sub(room)..] {
        page.cut([Text::new(clock(*at, now), TextStyle::Dim), Text::from(format!("  {what}"))]);
    }
    page.into_text()
}

/// Returns the new lines of a history.
#[must_use]
pub fn news(one: &Followed, told: &mut BTreeSet<String>, now: Time) -> String {
    let mut text = String::new();
    for (at, what) in &one.story {
        let line = format!("{}\t{}\n", clock(*at, now), clean(what));
        if told.insert(line.clone()) {
            text.push_str(&line);
        }
    }
    for said in &one.sentences {
        if told.insert(without_figures(said)) {
            text.push_str(&format!("{}\t{}\n", clock(now, now), clean(said)));
        }
    }
    text
}

/// Returns the changes of the stack, line by line. `told`: what was printed before and is still
/// true.
#[must_use]
pub fn changes(status: &Overview, told: &mut BTreeSet<String>, now: Time) -> String {
    let pools = status.pools.iter().map(|pool| {
        let line = format!(
            "pool {}: {} of {} live, {} ending, {} waiting",
            pool.name, pool.live, pool.max, pool.groups.ending, pool.waiting_jobs
        );
        (line.clone(), line)
    });
    let talk = status::talk(status);
    let wrongs = talk.lines().map(|line| (without_figures(line), line.to_owned()));
    let all: Vec<(String, String)> = pools.chain(wrongs).collect();
    let mut text = String::new();
    for (key, line) in &all {
        if !told.contains(key) {
            text.push_str(&format!("{}\t{}\n", clock(now, now), clean(line)));
        }
    }
    *told = all.into_iter().map(|(key, _)| key).collect();
    text
}

/// Removes figures: a change in how long something has lasted is no news.
fn without_figures(text: &str) -> String {
    text.chars().filter(|one| !one.is_ascii_digit()).collect()
}
