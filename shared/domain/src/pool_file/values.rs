//! Validation of single fields.

use std::collections::BTreeMap;

use super::fields::{
    DISK, ENTITY, FILTER, IMAGE, LAUNCH_TEMPLATE, PLACEMENT, RANGE, RERUN_ALL, WARM_RULE,
};
use super::named::{EntityId, NamedImage, NamedTemplate, ValueOrName};
use super::node::{Node, NodeKind};
use super::read::{self, Section, Wrongs};
use crate::ids::{AppName, Entity, EntityKind};
use crate::job::labels::{LabelRows, Labels};
use crate::pool::warm::{WarmEvent, WarmRule};
use crate::pool::{Disk, Image, Placement, Pool, Requirements, RerunPolicy};

/// Maximum number of machines in one pool.
pub(super) const MAX_MACHINES: u32 = 100_000;
/// Maximum number of tags. EC2 allows 50 per resource; the launch template and Muster use some of
/// them.
const MAX_TAGS: usize = 40;
/// Maximum size of the boot hook, in bytes.
const MAX_HOOK_BYTES: usize = 16_384;
/// Maximum length of a mirror's URL.
const MAX_ADDRESS: usize = 500;
const MAX_ENVIRONMENT: usize = 8_192;
/// GitHub's limits: the length of a label in characters, and the number of labels.
/// Source: docs.github.com/en/rest/actions/self-hosted-runners (generate-jitconfig: 1 to 100
/// labels)
const MAX_LABEL_LENGTH: usize = 256;
const MAX_LABELS: usize = 100;
/// Maximum version of a launch template. EC2's quota can be raised; this is beyond any.
const MAX_VERSION: u64 = 1_000_000;
/// Variables that `infra/machine` sets: overriding them would disable the runner's hooks.
const RESERVED_VARIABLES: &[&str] = &["ACTIONS_RUNNER_HOOK_", "MUSTER_", "HOME", "USER"];

pub(super) fn entity(node: &Node, problems: &mut Wrongs) -> Option<Entity> {
    let entity: Entity = read::parsed(node, problems)?;
    let (first, rest) = entity.name().split_once('/').unwrap_or((entity.name(), ""));
    let meant = match first {
        "enterprise" => format!("write enterprises/{rest}"),
        "org" | "orgs" => format!("write only the organization's name: {rest}"),
        "repo" | "repos" => "write a repository as owner/repo".to_owned(),
        _ => return Some(entity),
    };
    problems.add(&node.path, format!("{entity} would be a repository; {meant}"));
    None
}

/// The values of [`ENTITY`].
const ENTITY_KINDS: &[(&str, EntityKind)] = &[
    ("organization", EntityKind::Organization),
    ("repository", EntityKind::Repository),
    ("enterprise", EntityKind::Enterprise),
];

/// Reads an entity as text or as GitHub's ID.
pub(super) fn entity_or_id(
    node: &Node,
    problems: &mut Wrongs,
) -> Option<ValueOrName<Entity, EntityId>> {
    match &node.value {
        NodeKind::Map(_) => entity_id(node, problems).map(ValueOrName::Name),
        NodeKind::Number(number) => {
            let what = format!("this is only an ID; write {{ organization: {number} }}");
            problems.add(&node.path, format!("{what}, or repository or enterprise"));
            None
        }
        _ => entity(node, problems).map(ValueOrName::Value),
    }
}

fn entity_id(node: &Node, problems: &mut Wrongs) -> Option<EntityId> {
    let of = Section::open(node.clone(), ENTITY, problems);
    let said: Vec<&(&str, EntityKind)> =
        ENTITY_KINDS.iter().filter(|(name, _)| of.get(name).is_some()).collect();
    let [(name, kind)] = said[..] else {
        problems.add(
            &node.path,
            "write one of organization, repository, enterprise, with GitHub's id".to_owned(),
        );
        return None;
    };
    let number = of.read(name, problems, github_number)?;
    let app = of.read("app", problems, read::parsed);
    Some(EntityId { app: app.unwrap_or_default(), kind: *kind, number })
}

pub(super) fn labels(node: &Node, problems: &mut Wrongs) -> Option<LabelRows> {
    let of_what = "labels, or of rows of labels";
    let has_rows = match &node.value {
        NodeKind::List(items) => items.iter().any(|item| matches!(item.value, NodeKind::List(_))),
        _ => false,
    };
    let rows = if has_rows {
        read::list(node, of_what, problems, |row, problems| label_row(row, "labels", problems))?
    } else {
        vec![label_row(node, of_what, problems)?]
    };
    let rows = LabelRows::new(rows);
    if rows.carried().iter().count() > MAX_LABELS {
        problems.add(&node.path, format!("GitHub accepts at most {MAX_LABELS} labels per runner"));
        return None;
    }
    Some(rows)
}

fn label_row(node: &Node, of_what: &str, problems: &mut Wrongs) -> Option<Labels> {
    let labels = read::list(node, of_what, problems, label)?;
    let row = Labels::new(&labels);
    if row.iter().count() < labels.len() {
        problems.add(&node.path, "a label is listed twice; labels are compared in any case");
        return None;
    }
    if row.iter().all(|label| label == "self-hosted") {
        problems
            .add(&node.path, "self-hosted alone would serve every job; add a label of your own");
        return None;
    }
    Some(row)
}

fn label(node: &Node, problems: &mut Wrongs) -> Option<String> {
    let label = read::text(node, problems)?;
    let fits = label.trim() == label
        && label.chars().count() <= MAX_LABEL_LENGTH
        && !label.chars().any(|one| one == ',' || one.is_control());
    if !fits {
        let rule = "without commas, line breaks or blanks at its ends";
        let what = format!(
            "{label:?} is not a valid label: at most {MAX_LABEL_LENGTH} characters, {rule}"
        );
        problems.add(&node.path, what);
    }
    fits.then_some(label)
}

/// Reads a runner group as an ID or a name.
pub(super) fn runner_group(node: &Node, problems: &mut Wrongs) -> Option<ValueOrName<u64, String>> {
    match &node.value {
        NodeKind::Text(_) => read::text(node, problems).map(ValueOrName::Name),
        _ => github_number(node, problems).map(ValueOrName::Value),
    }
}

fn github_number(node: &Node, problems: &mut Wrongs) -> Option<u64> {
    // Larger than any ID at GitHub, and exact in every JSON parser.
    read::number(node, 1..=9_007_199_254_740_991, problems)
}

/// Returns whether the text is an instance type, for example `m7i.large`, `u-6tb1.metal`,
/// `m7i-flex.large`.
pub(super) fn is_instance_type(text: &str) -> bool {
    let plain = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    text.split_once('.').is_some_and(|(family, size)| {
        plain(family) && plain(size) && family.starts_with(|c: char| c.is_ascii_lowercase())
    })
}

/// Returns whether the text is an EC2 ID: a prefix and 8 or 17 hexadecimal digits.
pub(super) fn is_id(text: &str, prefix: &str) -> bool {
    let digits = text.strip_prefix(prefix).unwrap_or_default();
    let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    matches!(digits.len(), 8 | 17) && digits.bytes().all(is_hex)
}

/// Returns whether the text is `owner/repo`, `owner/*` or `*`, for another App after its name.
fn is_repository(text: &str) -> bool {
    let Some((_, text)) = AppName::split(text) else { return false };
    if text == Pool::ANY_REPOSITORY {
        return true;
    }
    let parsed = text.strip_suffix("/*").map_or_else(
        || text.parse::<Entity>().is_ok_and(|entity| entity.kind() == EntityKind::Repository),
        |owner| {
            owner.parse::<Entity>().is_ok_and(|entity| entity.kind() == EntityKind::Organization)
        },
    );
    parsed && !text.starts_with("enterprises/")
}

/// Reads a list of repositories.
pub(super) fn repositories(node: &Node, problems: &mut Wrongs) -> Option<Vec<String>> {
    let of_what = "repositories as owner/repo, or owner/*, or \"*\" for all";
    read::texts(node, of_what, problems, is_repository)
}

/// Reads the rules of `warm_on`.
pub(super) fn warm_on(node: &Node, problems: &mut Wrongs) -> Option<Vec<WarmRule>> {
    let rules = read::list(node, "rules with event and idle", problems, warm_rule)?;
    if rules.len() > Pool::MAX_WARM_RULES {
        let what = format!("a pool has at most {} rules", Pool::MAX_WARM_RULES);
        problems.add(&node.path, what);
        return None;
    }
    Some(rules)
}

fn warm_rule(node: &Node, problems: &mut Wrongs) -> Option<WarmRule> {
    const MINUTE: u32 = 60;
    const HOURS: u32 = 4 * 3600;
    let of = Section::open(node.clone(), WARM_RULE, problems);
    if of.is_other {
        return None;
    }
    let event = of.read("event", problems, |node, w| read::one_of(node, WarmEvent::ALL, w));
    let listed = of.read("repositories", problems, repositories);
    let branches = of.read("branches", problems, |node, w| {
        read::texts(node, "branches, like main, or the start of names and *", w, is_branch)
    });
    let idle = of.read("idle", problems, |node, w| read::count(node, 1..=MAX_MACHINES, w));
    let time = of.read("for", problems, |node, w| read::duration(node, MINUTE..=HOURS, w));
    for name in ["event", "idle"] {
        if of.get(name).is_none() {
            problems.add(&node.path, format!("{name} is missing"));
        }
    }
    Some(WarmRule {
        event: event?,
        repositories: listed.unwrap_or_default(),
        branches: branches.unwrap_or_default(),
        idle: idle?,
        for_seconds: time.unwrap_or(WarmRule::FOR),
    })
}

/// Returns whether a text can be a branch, or the start of branches and `*`. Git forbids these
/// characters in names.
/// Source: git-scm.com/docs/git-check-ref-format
fn is_branch(text: &str) -> bool {
    let name = text.strip_suffix('*').unwrap_or(text);
    let is_forbidden = |c: char| c.is_control() || " ~^:?*[\\".contains(c);
    text.len() <= 200 && !text.starts_with("refs/") && !name.contains(is_forbidden)
}

pub(super) fn requirements(instances: &Section, problems: &mut Wrongs) -> Option<Requirements> {
    const MAX_VCPUS: u32 = 1024;
    const MAX_MEMORY: u32 = 33_554_432;
    let vcpus = instances.read("vcpus", problems, |node, w| range(node, MAX_VCPUS, w));
    let memory = instances.read("memory_mib", problems, |node, w| range(node, MAX_MEMORY, w));
    let ((vcpus_min, vcpus_max), (memory_mib_min, memory_mib_max)) = (vcpus?, memory?);
    Some(Requirements { vcpus_min, vcpus_max, memory_mib_min, memory_mib_max })
}

fn range(node: &Node, most: u32, problems: &mut Wrongs) -> Option<(u32, Option<u32>)> {
    let range = Section::open(node.clone(), RANGE, problems);
    let max = range.read("max", problems, |node, w| read::count(node, 1..=most, w));
    if range.is_other {
        return None;
    }
    let Some(least) = range.get("min") else {
        problems.add(&node.path, "min is missing");
        return None;
    };
    let min = read::count(least, 1..=most, problems)?;
    if max.is_some_and(|max| max < min) {
        problems.add(&range.path_of("max"), format!("this is less than min, {min}"));
        return None;
    }
    Some((min, max))
}

/// Reads a price as a decimal in EC2's notation.
pub(super) fn price(node: &Node, problems: &mut Wrongs) -> Option<String> {
    let text = match &node.value {
        NodeKind::Number(number) => number.to_string(),
        NodeKind::Text(text) => text.clone(),
        _ => String::new(),
    };
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let (whole, part) = text.split_once('.').unwrap_or((&text, "0"));
    let is_decimal = digits(whole) && digits(part) && text.len() <= 12;
    if !is_decimal || text.bytes().all(|b| matches!(b, b'0' | b'.')) {
        let wanted = "US dollars an hour as a decimal in quotes, like \"0.05\"";
        problems.add(&node.path, format!("this is {}; write {wanted}", node.described()));
        return None;
    }
    Some(text)
}

pub(super) fn image(node: &Node, problems: &mut Wrongs) -> Option<ValueOrName<Image, NamedImage>> {
    let of = Section::open(node.clone(), IMAGE, problems);
    if of.is_other {
        return None;
    }
    match (of.get("id"), of.get("ssm"), of.get("filter")) {
        (Some(id), None, None) => {
            let wanted = "an image id, like ami-0a1b2c3d";
            let id = fitting(id, problems, wanted, |text| is_id(text, "ami-"))?;
            Some(ValueOrName::Value(Image::Id(id)))
        }
        (None, Some(parameter), None) => {
            let wanted = "the name of a parameter, like /acme/runner-image or /acme/runner-image:3, \
                          without \"resolve:ssm:\"";
            let parameter = fitting(parameter, problems, wanted, is_parameter)?;
            Some(ValueOrName::Value(Image::Ssm(parameter)))
        }
        (None, None, Some(filter)) => image_filter(filter, problems).map(ValueOrName::Name),
        _ => {
            problems.add(&node.path, "write one of id, ssm and filter");
            None
        }
    }
}

/// Reads `true`, `false` or `all`.
pub(super) fn rerun_policy(node: &Node, problems: &mut Wrongs) -> Option<RerunPolicy> {
    match &node.value {
        NodeKind::Bool(true) => Some(RerunPolicy::Interrupted),
        NodeKind::Bool(false) => Some(RerunPolicy::Off),
        NodeKind::Text(text) if text == RERUN_ALL => Some(RerunPolicy::All),
        _ => {
            problems.unlike(node, "true, false or all");
            None
        }
    }
}

/// Reads a launch template as an ID, or as ID and version.
pub(super) fn launch_template(node: &Node, problems: &mut Wrongs) -> Option<NamedTemplate> {
    let id = |node: &Node, problems: &mut Wrongs| {
        fitting(node, problems, "the id of a launch template, like lt-0a1b2c3d", |text| {
            is_id(text, "lt-")
        })
    };
    if !matches!(node.value, NodeKind::Map(_)) {
        return Some(NamedTemplate { id: id(node, problems)?, version: None });
    }
    let of = Section::open(node.clone(), LAUNCH_TEMPLATE, problems);
    let version = of.read("version", problems, |node, w| read::number(node, 1..=MAX_VERSION, w));
    if of.get("id").is_none() {
        problems.add(&node.path, "id is missing");
    }
    let id = of.read("id", problems, id)?;
    let is_wrong = of.get("version").is_some() && version.is_none();
    (!is_wrong).then_some(NamedTemplate { id, version })
}

fn image_filter(node: &Node, problems: &mut Wrongs) -> Option<NamedImage> {
    let of = Section::open(node.clone(), FILTER, problems);
    if of.is_other {
        return None;
    }
    let name = of.read("name", problems, |node, w| {
        let wanted = "the name of images, like acme-runner-*, with three plain characters at least";
        fitting(node, w, wanted, is_image_name)
    });
    if of.get("name").is_none() {
        problems.add(&node.path, "name is missing");
    }
    let owner = match of.get("owner") {
        None => Some("self".to_owned()),
        Some(owner) => {
            fitting(owner, problems, "self, amazon, or an account's twelve digits", is_owner)
        }
    };
    Some(NamedImage { name: name?, owner: owner? })
}

/// Reads a text that satisfies a rule.
fn fitting(
    node: &Node,
    problems: &mut Wrongs,
    wanted: &str,
    fits: impl Fn(&str) -> bool,
) -> Option<String> {
    let text = read::text(node, problems)?;
    if !fits(&text) {
        problems.add(&node.path, format!("{text:?} is not {wanted}"));
        return None;
    }
    Some(text)
}

/// Returns whether the text is a valid image name for EC2, optionally with the two wildcards of its
/// filters. Requires some plain characters, because otherwise a filter could match half of an
/// owner's images.
/// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateImage.html
fn is_image_name(text: &str) -> bool {
    let is_wild = |b: u8| matches!(b, b'*' | b'?');
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"()[] ./-'@_".contains(&b);
    (3..=128).contains(&text.len())
        && text.bytes().all(|b| is_wild(b) || is_plain(b))
        && text.bytes().filter(|b| !is_wild(*b)).count() >= 3
}

fn is_owner(text: &str) -> bool {
    let is_account = text.len() == 12 && text.bytes().all(|b| b.is_ascii_digit());
    is_account || matches!(text, "self" | "amazon")
}

/// Returns whether the text is a parameter's name.
/// Source: docs.aws.amazon.com/systems-manager/latest/userguide/sysman-paramstore-su-create.html
fn is_parameter(text: &str) -> bool {
    let (name, version) = text.split_once(':').unwrap_or((text, "1"));
    (1..=1011).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-/".contains(&b))
        && !version.is_empty()
        && version.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
}

/// Reads a gp3 disk.
/// Source: docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html
pub(super) fn disk(node: &Node, problems: &mut Wrongs) -> Option<Disk> {
    let of = Section::open(node.clone(), DISK, problems);
    if of.is_other {
        return None;
    }
    let device = of.read("device", problems, device);
    let size = of.read("size_gib", problems, |node, w| read::count(node, 1..=65_536, w));
    let iops = of.read("iops", problems, |node, w| read::count(node, 3000..=80_000, w));
    let throughput =
        of.read("throughput_mib", problems, |node, w| read::count(node, 125..=2000, w));
    for name in ["device", "size_gib"] {
        if of.get(name).is_none() {
            problems.add(&node.path, format!("{name} is missing"));
        }
    }
    if let (Some(size), Some(iops)) = (size, iops)
        && iops > 3000.max(size.saturating_mul(500))
    {
        problems.add(&of.path_of("iops"), "a gp3 disk has at most 500 operations a second per GiB");
    }
    if let Some(throughput) = throughput
        && throughput.saturating_mul(4) > iops.unwrap_or(3000)
    {
        let what = "a gp3 disk has at most a quarter of a MiB a second per operation; raise iops";
        problems.add(&of.path_of("throughput_mib"), what);
    }
    Some(Disk { device: device?, size_gib: size?, iops, throughput_mib: throughput })
}

fn device(node: &Node, problems: &mut Wrongs) -> Option<String> {
    let text = read::text(node, problems)?;
    let name = text.strip_prefix("/dev/").unwrap_or_default();
    let fits = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric());
    if !fits {
        problems.add(
            &node.path,
            format!("{text:?} is not a device; write the image's root, like /dev/xvda"),
        );
    }
    fits.then_some(text)
}

pub(super) fn placement(node: &Node, problems: &mut Wrongs) -> Option<Placement> {
    let of = Section::open(node.clone(), PLACEMENT, problems);
    if of.is_other {
        return None;
    }
    let group = of.read("group", problems, |node, w| {
        fitting(node, w, "the name of a placement group", is_group_name)
    });
    let dedicated = of.read("dedicated", problems, read::boolean);
    if of.get("group").is_none() && of.get("dedicated").is_none() {
        problems.add(&node.path, "write group, or dedicated, or both");
        return None;
    }
    Some(Placement { group, dedicated: dedicated.unwrap_or_default() })
}

/// Returns whether the text is a valid name of a placement group.
/// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreatePlacementGroup.html
fn is_group_name(text: &str) -> bool {
    text.len() <= 255 && text.bytes().all(|b| b == b' ' || b.is_ascii_graphic())
}

/// Reads the tags.
/// Source: docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html#tag-restrictions
pub(super) fn tags(node: &Node, problems: &mut Wrongs) -> Option<BTreeMap<String, String>> {
    let fits = |text: &str, most: usize| {
        text.chars().count() <= most
            && text.chars().all(|c| c.is_alphanumeric() || " _.:/=+-@".contains(c))
    };
    let tags = read::named(node, problems, |key, node, problems| {
        let value = read::text(node, problems)?;
        let lower = key.to_lowercase();
        let wrong = if lower.starts_with("aws:") {
            "tags that begin with aws: are Amazon's own; choose another name"
        } else if lower.starts_with("muster:") {
            "tags that begin with muster: are Muster's own; choose another name"
        } else if lower == "name" {
            "Muster names the machines itself; choose another tag"
        } else if key.is_empty() || !fits(key, 128) || !fits(&value, 256) {
            "a tag is letters, digits, blanks and _ . : / = + - @; its name at most 128, its value at most 256"
        } else {
            return Some(value);
        };
        problems.add(&node.path, wrong);
        None
    })?;
    if tags.len() > MAX_TAGS {
        problems.add(&node.path, format!("{} tags; at most {MAX_TAGS}", tags.len()));
        return None;
    }
    Some(tags)
}

pub(super) fn hook(node: &Node, problems: &mut Wrongs) -> Option<String> {
    let text = read::text(node, problems)?;
    if text.len() > MAX_HOOK_BYTES || text.contains('\0') {
        let rule = format!("a hook is shell text of at most {MAX_HOOK_BYTES} bytes");
        problems.add(&node.path, format!("{rule}; let it download longer scripts"));
        return None;
    }
    Some(text)
}

pub(super) fn agent_mirror(node: &Node, problems: &mut Wrongs) -> Option<String> {
    let text = read::text(node, problems)?;
    let rest = text.strip_prefix("https://").unwrap_or_default();
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~:/%+".contains(&b);
    if text.len() > MAX_ADDRESS
        || !rest.starts_with(|c: char| c.is_ascii_alphanumeric())
        || !rest.bytes().all(is_plain)
    {
        let rule = "a mirror is the https:// address of a folder, like https://mirror.example.com/actions-runner";
        problems.add(&node.path, rule);
        return None;
    }
    Some(text)
}

pub(super) fn environment(node: &Node, problems: &mut Wrongs) -> Option<BTreeMap<String, String>> {
    let environment = read::named(node, problems, |name, node, problems| {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        let reserved = |prefix: &&str| match prefix.strip_suffix('_') {
            Some(_) => name.starts_with(*prefix),
            None => name == *prefix,
        };
        if !name.bytes().all(plain) || name.starts_with(|c: char| c.is_ascii_digit()) {
            let rule = "a variable's name is letters, digits and _, and begins with no digit";
            problems.add(&node.path, rule);
            return None;
        }
        if RESERVED_VARIABLES.iter().any(reserved) {
            problems.add(&node.path, "Muster sets this variable itself; choose another name");
            return None;
        }
        let value = match &node.value {
            NodeKind::Text(text) => Some(text.clone()),
            _ => read::text(node, problems),
        }?;
        if value.contains('\0') {
            problems.add(&node.path, "a value cannot contain NUL");
            return None;
        }
        Some(value)
    })?;
    let size: usize = environment.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    if size > MAX_ENVIRONMENT {
        problems.add(&node.path, format!("{size} bytes; at most {MAX_ENVIRONMENT} in all"));
        return None;
    }
    Some(environment)
}
