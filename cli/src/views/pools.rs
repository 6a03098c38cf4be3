//! The set of pools: the one in force, changes, and history.

use muster_api::answers::{AppliedPools, PoolsHistory, ShownPools};
use muster_domain::pool_file::{Question, fields};
use muster_domain::time::Time;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::page::{Screen, TextPage};
use crate::table::{Cell, Column, DataTable, Text, TextStyle};
use crate::words::{clock, count};

/// Returns the set as a pool file, with its fields in the order of the example.
#[must_use]
pub fn file(answer: &ShownPools) -> String {
    yaml(&answer.file)
}

/// Returns a part of it as YAML.
pub(crate) fn yaml(value: &Value) -> String {
    serde_saphyr::to_string(&Ordered(value)).unwrap_or_else(|_| format!("{value:#}\n"))
}

/// A value whose fields are in the usual order: a pool begins with its name.
struct Ordered<'a>(&'a Value);

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(fields) => {
                let known = if fields.contains_key("pools") { fields::FILE } else { fields::POOL };
                let place =
                    |name: &str| known.iter().position(|one| *one == name).unwrap_or(known.len());
                let mut fields: Vec<_> = fields.iter().collect();
                fields.sort_by_key(|(name, _)| place(name));
                serializer.collect_map(fields.into_iter().map(|(name, value)| (name, Self(value))))
            }
            Value::Array(all) => serializer.collect_seq(all.iter().map(Ordered)),
            plain => plain.serialize(serializer),
        }
    }
}

/// Returns which set it is, for people.
#[must_use]
pub fn about(answer: &ShownPools, now: Time) -> String {
    let ShownPools { pools_version, applied_at, by, draining, .. } = answer;
    let which = match (applied_at, by) {
        (Some(at), Some(by)) => {
            format!("version {pools_version}, applied {} by {by}", clock(*at, now))
        }
        _ => "the pool of the stack's parameters; no pool file was applied".to_owned(),
    };
    let names: Vec<&str> = draining.iter().map(muster_domain::ids::PoolName::as_str).collect();
    match names.as_slice() {
        [] => format!("# {which}"),
        names => format!("# {which}; draining: {}", names.join(", ")),
    }
}

/// Renders the changes of an apply or a dry run.
#[must_use]
pub fn changes(answer: &AppliedPools, screen: Screen) -> String {
    let mut page = TextPage::new(screen);
    for line in &answer.resolved {
        page.line([Text::new(line, TextStyle::Dim)]);
    }
    // The first file replaces the stack's parameters even if it equals them.
    if answer.diff.is_empty() && answer.pools_version == 0 {
        page.wrapped(Text::from(
            "No pool changes. Once applied, the file determines the pools instead of the stack's \
             parameters.",
        ));
        return page.into_text();
    }
    for line in &answer.lines {
        let look = match line.as_bytes().first() {
            Some(b'+') => TextStyle::Good,
            Some(b'-') => TextStyle::Bad,
            Some(b'~') => TextStyle::Warning,
            _ => TextStyle::Plain,
        };
        page.line([Text::new(line, look)]);
    }
    page.into_text()
}

/// Renders the result of an apply.
#[must_use]
pub fn applied(answer: &AppliedPools, screen: Screen) -> String {
    let mut page = TextPage::new(screen);
    if answer.applied {
        let said = format!(" applied as version {}", answer.pools_version);
        page.line([Text::new("✓", TextStyle::Good), Text::from(said)]);
    } else {
        page.line(["no change was needed".into()]);
    }
    page.into_text()
}

const VERSIONS: [Column; 5] = [
    Column::number("Version"),
    Column::short("Applied"),
    Column::name("By"),
    Column::text("Pools"),
    Column::text("Why"),
];

/// Returns the table of applied pool files.
pub(crate) fn versions(answer: &PoolsHistory, now: Time) -> DataTable {
    let row = |set: &ShownPools| {
        let prefix = format!("version {}, ", set.pools_version);
        let why = answer.audit.iter().find_map(|line| line.why.strip_prefix(&prefix));
        vec![
            Text::new(set.pools_version.to_string(), TextStyle::Strong).into(),
            Cell::time(set.applied_at, now),
            Text::known(set.by.as_ref()).into(),
            names(&set.file).join(" ").into(),
            Text::known(why).into(),
        ]
    };
    DataTable::new(VERSIONS, answer.versions.iter().map(row))
}

/// Renders the answer to `pools` with `history`.
#[must_use]
pub fn history(answer: &PoolsHistory, now: Time, screen: Screen) -> String {
    let mut page = TextPage::new(screen);
    if answer.versions.is_empty() && !page.is_piped() {
        page.line(["No pool file has been applied yet.".into()]);
        return page.into_text();
    }
    page.table(&versions(answer, now));
    page.into_text()
}

fn names(file: &Value) -> Vec<&str> {
    let pools = file["pools"].as_array().map(Vec::as_slice).unwrap_or_default();
    pools.iter().filter_map(|pool| pool["name"].as_str()).collect()
}

/// Renders the contents of a file that was checked offline, and its open questions.
#[must_use]
pub fn checked(path: &str, pools: &Value, open: &[Question], screen: Screen) -> String {
    let mut page = TextPage::new(screen);
    let names = names(pools);
    page.line([
        Text::new("✓", TextStyle::Good),
        Text::from(format!(" {path}: {}: {}", count(names.len(), "pool"), names.join(", "))),
    ]);
    page.marked(
        open.iter().map(|question| (Text::new("?", TextStyle::Dim), asked(question).into())),
    );
    page.into_text()
}

/// Returns a question that only GitHub or EC2 can answer.
pub(crate) fn asked(question: &Question) -> String {
    match question {
        Question::Entity(id) => {
            format!("{id}: its name is read from GitHub when the file is applied")
        }
        Question::Groups(entity) => {
            format!("{entity}: its runner groups are read from GitHub when the file is applied")
        }
        Question::Image(filter) => format!(
            "image {} of {}: the newest is looked up at EC2 when the file is applied",
            filter.name, filter.owner
        ),
        Question::Template(named) => {
            format!("{named}: its owner is read from EC2 when the file is applied")
        }
        Question::Placement(group) => {
            format!("placement group {group}: its owner is read from EC2 when the file is applied")
        }
    }
}
