//! The final pages of setup, upgrade and teardown.

use muster_api::answers::{JobList, RepositoryList, StackStatus};
use muster_domain::ids::Entity;

use super::jobs;
use crate::page::{Screen, TextPage};
use crate::setup::stack::ResourceChange;
use crate::table::{Column, DataTable, Text, TextStyle};
use crate::words::count;

/// Renders how to run a first job, and its likely obstacles. `builds`: whether an image is being built.
#[must_use]
pub fn first_job(
    status: &StackStatus,
    waiting: &JobList,
    seen: Option<&RepositoryList>,
    left: &[Entity],
    builds: bool,
    screen: Screen,
) -> String {
    let mut page = TextPage::new(screen);
    let pool = status.overview.pools.iter().find(|pool| pool.enabled && pool.removed_at.is_none());
    let labels = pool.and_then(|pool| pool.labels.iter().next()).map(jobs::labels);
    let mut all = vec!["self-hosted".to_owned()];
    let of_pool = labels.unwrap_or_default();
    all.extend(of_pool.split_whitespace().filter(|one| *one != "self-hosted").map(str::to_owned));
    page.line([
        Text::from("Add this to a workflow:        "),
        Text::new(format!("runs-on: [{}]", all.join(", ")), TextStyle::Strong),
    ]);
    page.line([
        "Watch it:                      ".into(),
        Text::new("muster watch", TextStyle::Strong),
    ]);
    page.line([
        "Try a machine without a job:   ".into(),
        Text::new("muster doctor --canary", TextStyle::Strong),
    ]);
    if builds {
        page.line([
            "Follow the image's build:      ".into(),
            Text::new("muster image --watch", TextStyle::Strong),
        ]);
    }
    // If it is unknown whether jobs are queued, show how to import them.
    let unknown = "OWNER/REPO".to_owned();
    let is_known =
        seen.is_some_and(|seen| seen.repositories.iter().all(|one| one.queued.is_some()));
    let before = left.iter().map(ToString::to_string).chain((!is_known).then_some(unknown));
    for repository in before {
        page.line([
            "Import jobs queued earlier:    ".into(),
            Text::new(format!("muster jobs --adopt {repository}"), TextStyle::Strong),
        ]);
    }
    let rows = waiting.unserved.iter().map(|one| {
        let said = format!("{} {}: {}", one.repository, one.name, one.reason);
        (Text::new("!", TextStyle::Warning), Text::from(said))
    });
    let public = public(seen).map(|said| (Text::new("!", TextStyle::Warning), Text::from(said)));
    let rows: Vec<(Text, Text)> = rows.chain(public).collect();
    if !rows.is_empty() {
        page.gap();
        page.marked(rows);
    }
    page.into_text()
}

/// Returns the public repositories whose jobs are refused by default; `None` if all are private.
fn public(seen: Option<&RepositoryList>) -> Option<String> {
    const UNLESS: &str = "refused unless a pool allows them (muster pools edit)";
    let Some(seen) = seen else {
        return Some(format!("Jobs of public repositories are {UNLESS}."));
    };
    let all = seen.repositories.iter().filter(|one| !one.private);
    let names: Vec<String> = all.map(|one| one.name.to_string()).collect();
    let is_one = names.len() == 1;
    let (are, their) = if is_one { ("is", "its") } else { ("are", "their") };
    let all = named(&names);
    (!names.is_empty()).then(|| format!("{all} {are} public, and {their} jobs are {UNLESS}."))
}

const CHANGES: [Column; 4] = [
    Column::short("Change"),
    Column::name("Resource"),
    Column::text("Kind"),
    Column::text("Note").at_least(16),
];

/// Renders a change set, with the release before and after.
#[must_use]
pub fn changes(
    all: &[ResourceChange],
    runs: Option<&str>,
    comes: Option<&str>,
    screen: Screen,
) -> String {
    let mut page = TextPage::new(screen);
    let comes = comes.unwrap_or("the release of this checkout");
    let runs = runs.unwrap_or("unknown");
    let what = count(all.len(), "resource");
    page.line([Text::new(format!("{what} change; release {runs} → {comes}"), TextStyle::Strong)]);
    let rows = all.iter().map(|one| {
        let what = match (one.action.as_str(), one.is_replaced) {
            ("Add", _) => Text::new("new", TextStyle::Good),
            ("Remove", _) => Text::new("removed", TextStyle::Warning),
            (_, true) => Text::new("replaced", TextStyle::Warning),
            (_, false) => Text::from("changes"),
        };
        let kind = one.kind.strip_prefix("AWS::").unwrap_or(&one.kind);
        let note =
            one.loses().map_or_else(|| Text::from(""), |lost| Text::new(lost, TextStyle::Bad));
        vec![what, Text::from(&one.resource), Text::new(kind, TextStyle::Dim), note]
    });
    page.table(&DataTable::new(CHANGES, rows));
    page.into_text()
}

const SHOWN: usize = 5;

fn named(all: &[String]) -> String {
    let more = if all.len() > SHOWN { ", …" } else { "" };
    let shown: Vec<&str> = all.iter().take(SHOWN).map(String::as_str).collect();
    format!("{}{more}", shown.join(", "))
}

/// Returns the progress while records are left.
#[must_use]
pub fn waits_for(left: &[String]) -> String {
    format!(
        "{} left: {}. q stops waiting; to speed this up: muster delete NAME, with \
        --kill-running-job if its job may be killed",
        count(left.len(), "instance"),
        named(left)
    )
}

/// Returns the progress while machines are left.
#[must_use]
pub fn waits_for_machines(ids: &[String]) -> String {
    format!(
        "{} left at EC2: {}. Machines without a record end on their own within twelve hours; to \
        speed this up: aws ec2 terminate-instances --instance-ids {}",
        count(ids.len(), "machine"),
        named(ids),
        ids.join(" ")
    )
}

/// The machine images that EC2 still has after a stack was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemainingImages {
    Known(Vec<String>),
    /// EC2 did not answer; with the stack's name.
    Unknown(String),
}

impl RemainingImages {
    fn sentence(&self) -> Option<String> {
        const DELETE: &str = "aws ec2 deregister-image --delete-associated-snapshots --image-id";
        match self {
            Self::Known(ids) => match ids.as_slice() {
                [] => None,
                [id] => Some(format!("a machine image with its snapshot: {DELETE} {id}")),
                ids => Some(format!(
                    "the machine images {} with their snapshots; for each of them: {DELETE} ID",
                    ids.join(", ")
                )),
            },
            Self::Unknown(stack) => Some(format!(
                "machine images with their snapshots, if there are any. To list them: aws ec2 describe-images --owners \
                 self --filters Name=tag:muster:stack,Values={stack}. To delete one: {DELETE} ID"
            )),
        }
    }
}

/// Renders what remains after a stack was deleted.
#[must_use]
pub fn left(
    table: Option<&str>,
    logs: Option<&str>,
    notices: Option<&str>,
    images: &RemainingImages,
    screen: Screen,
) -> String {
    let mut page = TextPage::new(screen);
    page.line([Text::new("These remain:", TextStyle::Strong)]);
    let table = table.unwrap_or("…");
    // Older releases have no such bucket.
    let bucket = logs.and_then(|prefix| prefix.strip_prefix("s3://")?.split('/').next());
    let mut rows = vec![
        format!(
            "the audit trail and the orphan ledger: aws dynamodb delete-table --table-name {table}"
        ),
        "backups of the other tables, which DynamoDB deletes after 35 days".to_owned(),
        "the functions' archives under muster/ in the bucket of the SAM CLI".to_owned(),
        "the GitHub App, if you did not delete it".to_owned(),
    ];
    rows.extend(bucket.map(|name| {
        format!("the machines' logs, each until it expires: aws s3 rb --force s3://{name}")
    }));
    rows.extend(images.sentence());
    rows.extend(notices.map(|name| {
        format!(
            "the notification address, a secret: aws secretsmanager delete-secret --secret-id \
            {name}"
        )
    }));
    page.marked(rows.into_iter().map(|said| (Text::new("-", TextStyle::Dim), Text::from(said))));
    page.into_text()
}
