//! The machine images: what machines boot, the builds, and what comes next.

use muster_api::ImageOrder;
use muster_api::answers::{FamilyStatus, ImageBuildStatus, ImageStatus, ImagesStatus};
use muster_domain::ids::{InstanceName, PoolName};
use muster_domain::image::PROBATION;
use muster_domain::time::{Seconds, Time};

use crate::page::{Screen, TextPage};
use crate::table::{Column, DataTable, Text, TextStyle};
use crate::words::{clock, count, minute, span};

/// What setup and the status say about costs and times. docs/images.md and docs/costs.md explain them.
pub const BUILD_COST: &str = "about $0.02";
/// What setup says before it asks whether to build images.
pub const OFFER: &str = "Muster can build an image with the packages and the agent, so that machines need not install \
    them at each boot.\nEstimates: jobs start about 15 seconds sooner. A build takes about ten minutes, in the background, \
    and costs about $0.02.\nIts image and the one before it cost about $0.40 a month.";
/// Price of a month of a GB in a snapshot, in dollars: EBS in us-east-1.
const SNAPSHOT_GB: f64 = 0.05;

/// The age at which an image is rebuilt.
const WEEK: Seconds = Seconds(7 * 24 * 3600);

const COLUMNS: [Column; 14] = [
    Column::name("Family"),
    Column::text("Pools"),
    Column::name("Image"),
    Column::short("Built"),
    Column::short("Agent"),
    Column::short("Boots by"),
    Column::number("GB used"),
    Column::number("Disk GiB"),
    Column::number("On probation"),
    Column::name("Previous"),
    Column::text("Build waits for"),
    Column::short("Build since"),
    Column::text("Last failure"),
    Column::short("Next build"),
];

/// Renders the answer to `images`.
#[must_use]
pub fn page(answer: &ImagesStatus, now: Time, screen: Screen) -> String {
    let mut page = TextPage::new(screen);
    if page.is_piped() {
        page.table(&DataTable::new(COLUMNS, answer.families.iter().map(|one| row(one, now))));
        return page.into_text();
    }
    page.wrapped(Text::from(summary(answer)));
    let shown = answer.families.iter().filter(|one| answer.on || has_something(one));
    for family in shown {
        page.gap();
        page.line([
            Text::new(family.family.as_str(), TextStyle::Strong),
            Text::from(format!("  {}", pools(family))),
        ]);
        let rows = lines(family, answer.on, now);
        page.marked(
            rows.into_iter()
                .map(|(label, said)| (Text::new(format!("  {label:9}"), TextStyle::Dim), said)),
        );
    }
    let end = [unused(answer), estimate(answer)];
    let end: Vec<String> = end.into_iter().flatten().collect();
    if !end.is_empty() {
        page.gap();
    }
    for sentence in end {
        page.wrapped(Text::new(sentence, TextStyle::Dim));
    }
    page.into_text()
}

/// Returns whether images are on, and how to change that.
#[must_use]
pub fn summary(answer: &ImagesStatus) -> String {
    match (answer.on, answer.families.is_empty()) {
        (false, _) => "Images are off: machines boot the launch template's image, and install packages and the agent \
                       at each boot. To turn images on: muster image on"
            .to_owned(),
        (true, true) => "Images are on, but no pool can use them: each has its own launch template or its own image."
            .to_owned(),
        (true, false) => "Images are on: machines boot an image that Muster built, with the packages and the agent."
            .to_owned(),
    }
}

const fn has_something(family: &FamilyStatus) -> bool {
    family.current.is_some() || family.previous.is_some() || family.build.is_some()
}

fn pools(family: &FamilyStatus) -> String {
    let names: Vec<&str> = family.pools.iter().map(PoolName::as_str).collect();
    match names.as_slice() {
        [] => "no pools; its images are deleted two weeks after its last pool left".to_owned(),
        [one] => format!("pool {one}"),
        several => format!("pools {}", several.join(", ")),
    }
}

/// Returns what is known about a family, each line with its label.
fn lines(family: &FamilyStatus, on: bool, now: Time) -> Vec<(&'static str, Text)> {
    let mut all = Vec::new();
    match &family.current {
        Some(current) => of_image(&mut all, current, family.previous.as_ref(), on, now),
        None => all.push(("image", Text::from("none yet; boots the launch template's image"))),
    }
    if let Some(previous) = &family.previous {
        let said = format!(
            "{}; to go back to it: muster image rollback --family {}",
            built(previous, now),
            family.family
        );
        all.push(("previous", said.into()));
    }
    if let Some(build) = &family.build {
        all.push(("build", Text::from(building(build, now))));
    } else if let Some(by) = &family.ordered_by {
        let said = format!("ordered by {by}; it starts as soon as a machine is available");
        all.push(("build", said.into()));
    }
    if let Some(why) = family.blocked.as_ref().filter(|_| on && family.build.is_none()) {
        let said = format!("a build is due, and waits for a machine: {why}");
        all.push(("", Text::new(said, TextStyle::Warning)));
    }
    if let Some(said) = failed(family, on, now) {
        all.push(("failure", Text::new(said, TextStyle::Bad)));
    }
    if on && family.build.is_none() && family.ordered_by.is_none() && family.blocked.is_none() {
        all.extend(next(family, now).map(|said| ("next", Text::from(said))));
    }
    all
}

fn of_image(
    all: &mut Vec<(&'static str, Text)>,
    image: &ImageStatus,
    previous: Option<&ImageStatus>,
    on: bool,
    now: Time,
) {
    let kept = if on { "" } else { "; kept, but not used while images are off" };
    all.push(("image", Text::from(format!("{}{kept}", built(image, now)))));
    all.push(("boots by", Text::from(boots_by(image))));
    all.push((
        "size",
        Text::from(format!(
            "{:.1} GB used; a machine needs a disk of {} GiB",
            gigabytes(image),
            image.disk_gib
        )),
    ));
    if let Some(launched) = image.on_probation {
        let others = previous
            .map_or_else(|| "the launch template's image".to_owned(), |one| one.id.to_string());
        let so_far = match launched {
            0 => "no machine was launched with it yet".to_owned(),
            1 => format!("1 of {PROBATION} machines launched, it has not booted yet"),
            _ => format!("{launched} of {PROBATION} machines launched, none has booted yet"),
        };
        let said = format!("on probation: {so_far}. Other machines boot {others}");
        all.push(("", Text::new(said, TextStyle::Warning)));
    }
    if let Some(why) = &image.untried {
        all.push(("", Text::new(format!("its trial proved nothing: {why}"), TextStyle::Warning)));
    }
}

fn built(image: &ImageStatus, now: Time) -> String {
    let agent = match image.agent {
        Some(agent) => format!(", agent {agent}"),
        None => ", agent unknown".to_owned(),
    };
    format!(
        "{}, built {} ago ({}){agent}",
        image.id,
        span(now.since(image.built_at)),
        minute(image.built_at)
    )
}

fn boots_by(image: &ImageStatus) -> String {
    let how = match image.boot.as_str() {
        "unit" => "Muster's own unit, which is faster than cloud-init",
        other => other,
    };
    match &image.why {
        Some(why) => format!("{how}, because {}", lowered(why)),
        None => how.to_owned(),
    }
}

fn gigabytes(image: &ImageStatus) -> f64 {
    // Exact up to 9 PB.
    #[expect(clippy::cast_precision_loss, reason = "a size for people")]
    let bytes = image.used_bytes as f64;
    bytes / 1e9
}

fn building(build: &ImageBuildStatus, now: Time) -> String {
    let by = build.by.as_ref().map(|by| format!(" ({by})")).unwrap_or_default();
    let machines = [Some(&build.builder), build.trial.as_ref()];
    let machines: Vec<&str> = machines.into_iter().flatten().map(InstanceName::as_str).collect();
    let image = build.image.as_ref().map(|image| format!(", image {image}")).unwrap_or_default();
    format!(
        "for {}: {}. Started at {}, because {}{by}; pool {}, {} {}{image}",
        span(now.since(build.since)),
        build.waits_for,
        clock(build.since, now),
        build.reason,
        build.pool,
        if machines.len() == 1 { "machine" } else { "machines" },
        machines.join(", "),
    )
}

fn failed(family: &FamilyStatus, on: bool, now: Time) -> Option<String> {
    let failure = family.failure.as_ref()?;
    let times = match failure.count {
        1 => "the last build failed".to_owned(),
        more => format!("the last {more} builds failed, most recently"),
    };
    let after = match family.next_build_at.filter(|at| *at > now) {
        _ if !on || family.build.is_some() => String::new(),
        Some(at) => format!(
            " The next attempt is at {}, or now: muster image build --family {}",
            clock(at, now),
            family.family
        ),
        None => " The next attempt starts within a minute.".to_owned(),
    };
    Some(format!("{times} at {}: {}{after}", clock(failure.at, now), sentence(&failure.why)))
}

fn next(family: &FamilyStatus, now: Time) -> Option<String> {
    match family.next_build_at {
        _ if family.pools.is_empty() => None,
        // The failure's line has it.
        _ if family.failure.is_some() => None,
        Some(at) if at > now => {
            let weekly = family.current.as_ref().map(|image| image.built_at + WEEK);
            let when = match weekly == Some(at) {
                true => format!("{}; sooner for a newer agent or after an upgrade", minute(at)),
                // After a rollback.
                false => format!("not before {}", minute(at)),
            };
            Some(format!("{when}. Now: muster image build --family {}", family.family))
        }
        _ => Some("within a minute, as soon as a machine is available".to_owned()),
    }
}

fn unused(answer: &ImagesStatus) -> Option<String> {
    match answer.unused {
        0 => None,
        1 => Some("1 image is no longer used; it is deleted within a day.".to_owned()),
        more => Some(format!("{more} images are no longer used; they are deleted within a day.")),
    }
}

/// Returns what the images cost; `None` without images and builds.
fn estimate(answer: &ImagesStatus) -> Option<String> {
    let images: Vec<&ImageStatus> =
        answer.families.iter().flat_map(|one| one.current.iter().chain(&one.previous)).collect();
    let cost: f64 = images.iter().map(|image| gigabytes(image) * SNAPSHOT_GB).sum();
    match (images.len(), answer.on && !answer.families.is_empty()) {
        (0, false) => None,
        (0, true) => Some(format!(
            "Estimate: {BUILD_COST} for each build, and $0.40 a month for a family's images."
        )),
        (number, builds) => {
            let builds =
                if builds { format!(", and {BUILD_COST} for each build") } else { String::new() };
            Some(format!(
                "Estimate: ${cost:.2} a month for the snapshots of {}{builds}.",
                count(number, "image")
            ))
        }
    }
}

fn row(family: &FamilyStatus, now: Time) -> Vec<Text> {
    let current = family.current.as_ref();
    let pools: Vec<&str> = family.pools.iter().map(PoolName::as_str).collect();
    let build = family.build.as_ref();
    vec![
        Text::from(family.family.as_str()),
        Text::from(pools.join(" ")),
        Text::known(current.map(|image| &image.id)),
        Text::known(current.map(|image| clock(image.built_at, now))),
        Text::known(current.and_then(|image| image.agent)),
        Text::known(current.map(|image| &image.boot)),
        Text::known(current.map(|image| format!("{:.1}", gigabytes(image)))),
        Text::known(current.map(|image| image.disk_gib)),
        Text::known(current.and_then(|image| image.on_probation)),
        Text::known(family.previous.as_ref().map(|image| &image.id)),
        Text::known(match (build, &family.ordered_by) {
            (Some(build), _) => Some(build.waits_for.as_str()),
            (None, Some(_)) => Some("a machine"),
            (None, None) => family.blocked.as_deref(),
        }),
        Text::known(build.map(|build| clock(build.since, now))),
        Text::known(family.failure.as_ref().map(|failure| &failure.why)),
        Text::known(family.next_build_at.map(|at| clock(at, now))),
    ]
}

/// Returns what an order will do, from the answer to its dry run.
#[must_use]
pub fn plan(what: ImageOrder, would: &ImagesStatus) -> Vec<String> {
    if would.changes.is_empty() {
        return vec![unchanged(what, would)];
    }
    let changes = would.changes.iter().map(|change| sentence(change));
    let after = match what {
        ImageOrder::Delete => Some(
            "Machines that are running keep running. A deleted image cannot be restored, but it can be built again.",
        ),
        ImageOrder::Off | ImageOrder::Rollback => Some("Machines that are running keep running."),
        ImageOrder::On | ImageOrder::Build => None,
    };
    changes.chain(after.map(str::to_owned)).collect()
}

/// Returns what an order has done.
#[must_use]
pub fn done(what: ImageOrder, answer: &ImagesStatus) -> String {
    if answer.changes.is_empty() {
        return unchanged(what, answer);
    }
    let changes: Vec<String> = answer.changes.iter().map(|change| sentence(change)).collect();
    match what {
        ImageOrder::On | ImageOrder::Build => {
            format!("{} To follow it: muster image --watch", changes.join(" "))
        }
        ImageOrder::Off | ImageOrder::Rollback => changes.join(" "),
        ImageOrder::Delete => match deleted(&answer.changes) {
            0 => changes.join(" "),
            number => format!(
                "{} will be deleted within a few minutes; muster image shows what is left",
                count(number, "image")
            ),
        },
    }
}

/// Returns which images and builds remain; `None` if there are no more.
#[must_use]
pub fn left(answer: &ImagesStatus) -> Option<String> {
    let builds = answer.families.iter().filter(|one| one.build.is_some()).count();
    match (answer.unused, builds) {
        (0, 0) => None,
        (images, 0) => Some(format!("{} left", count(images, "machine image"))),
        (0, builds) => Some(format!("{} of a machine image in progress", count(builds, "build"))),
        (images, builds) => Some(format!(
            "{} left, and {} in progress",
            count(images, "machine image"),
            count(builds, "build")
        )),
    }
}

/// Returns the number of images that an order deletes.
#[must_use]
pub fn deleted(changes: &[String]) -> usize {
    changes.iter().filter(|change| change.starts_with("image ")).count()
}

/// Returns why an order changes nothing.
fn unchanged(what: ImageOrder, answer: &ImagesStatus) -> String {
    match what {
        ImageOrder::On => "Images are on already: muster image".to_owned(),
        ImageOrder::Off => "Images are off already.".to_owned(),
        ImageOrder::Build if answer.families.iter().all(|one| one.pools.is_empty()) => {
            "No pool can use an image that Muster builds: each has its own launch template or its own image.".to_owned()
        }
        ImageOrder::Build => "A build is in progress or ordered already: muster image --watch".to_owned(),
        ImageOrder::Rollback => "There is no image to go back from.".to_owned(),
        ImageOrder::Delete if answer.unused > 0 => format!(
            "There is no image to delete; {} no longer used and will be deleted.",
            match answer.unused {
                1 => "1 is".to_owned(),
                more => format!("{more} are"),
            }
        ),
        ImageOrder::Delete => "There is no image to delete.".to_owned(),
    }
}

/// Returns a text that begins with a capital letter and ends with a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|one| one.to_uppercase().to_string()).unwrap_or_default();
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

/// Returns a text that begins with a small letter, for the middle of a sentence.
fn lowered(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|one| one.to_lowercase().to_string()).unwrap_or_default();
    format!("{first}{}", letters.as_str())
}
