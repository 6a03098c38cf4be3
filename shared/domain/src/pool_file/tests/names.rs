//! Name resolution: the queries, the use of their answers, and problems with names.

use std::collections::BTreeSet;

use serde_json::json;

use super::yaml;
use crate::ec2::Arch;
use crate::ids::{AppName, Entity, EntityKind};
use crate::pool::{Image, OwnTemplate};
use crate::pool_file::{
    Answers, EntityId, FoundImage, FoundPlacement, FoundTemplate, ImageFilter, NamedTemplate,
    Question, ReadPoolFile, RunnerGroup, UnreadPoolFile, read, written,
};

fn entity(text: &str) -> Entity {
    text.parse().expect("an entity")
}

const fn organization(number: u64) -> EntityId {
    EntityId { app: AppName::MAIN, kind: EntityKind::Organization, number }
}

fn filter(arch: Arch) -> ImageFilter {
    ImageFilter { name: "acme-runner-*".to_owned(), owner: "self".to_owned(), arch }
}

/// A file with one pool per set of lines, on top of the required fields.
fn pools(lines: &[&str]) -> String {
    let head = "
defaults:
  subnets: [subnet-0a1b2c3d]
  labels: [linux]
  instances: { types: [m7i.large] }
  limits: { max: 3 }
pools:";
    let pool = |(n, lines): (usize, &&str)| {
        format!("\n  - name: p{n}\n    {}", lines.replace('\n', "\n    "))
    };
    head.to_owned() + &lines.iter().enumerate().map(pool).collect::<String>()
}

fn asked(text: &str, answers: &Answers) -> Result<ReadPoolFile, UnreadPoolFile> {
    read(yaml(text), answers)
}

fn open(text: &str, answers: &Answers) -> BTreeSet<Question> {
    asked(text, answers).expect_err("open").open
}

fn template(id: &str, version: Option<u64>) -> NamedTemplate {
    NamedTemplate { id: id.to_owned(), version }
}

fn found(version: u64, is_ours: bool, role: Option<&str>) -> Option<FoundTemplate> {
    let (role, device) = (role.map(str::to_owned), Some("/dev/sda1".to_owned()));
    Some(FoundTemplate { version, is_ours, role, device, user_data: String::new() })
}

/// The answers of GitHub and EC2 in these tests.
fn answers() -> Answers {
    let group = |id, name: &str| RunnerGroup::new(id, name);
    let image = |id: &str| {
        Some(FoundImage { id: id.to_owned(), name: "acme-runner-2026-11-01".to_owned() })
    };
    let id = |kind, number| EntityId { app: AppName::MAIN, kind, number };
    Answers {
        entities: [
            (organization(9919), Some(entity("acme"))),
            (id(EntityKind::Repository, 1_296_269), Some(entity("octocat/hello"))),
            (id(EntityKind::Enterprise, 42), Some(entity("enterprises/big"))),
            (organization(7), None),
        ]
        .into(),
        groups: [
            (entity("acme"), vec![group(1, "Default"), group(3, "Linux-Builders")]),
            (entity("enterprises/big"), vec![group(1, "Default")]),
        ]
        .into(),
        templates: [
            (template("lt-0a1b2c3d", None), found(4, true, Some("AROA1"))),
            (template("lt-0a1b2c3d", Some(4)), found(4, true, Some("AROA1"))),
            (template("lt-0a1b2c3d", Some(7)), None),
            (template("lt-0a1b2c3e", None), found(1, false, Some("AROA1"))),
            (template("lt-0a1b2c3f", None), found(1, true, None)),
        ]
        .into(),
        placements: [
            ("release".to_owned(), Some(FoundPlacement { is_ours: true, is_cluster: true })),
            ("theirs".to_owned(), Some(FoundPlacement::default())),
            ("none".to_owned(), None),
        ]
        .into(),
        images: [
            (filter(Arch::X64), image("ami-0a1b2c3d")),
            (filter(Arch::Arm64), image("ami-0a1b2c3e")),
            (ImageFilter { owner: "amazon".to_owned(), ..filter(Arch::X64) }, None),
        ]
        .into(),
    }
}

const IMAGE: &str = "image: { filter: { name: acme-runner-* } }";

#[test]
fn a_file_that_names_nothing_asks_nothing() {
    let text = pools(&["entity: acme\nrunner_group: 3\nimage: { id: ami-0a1b2c3d }"]);
    let reading = asked(&text, &Answers::default()).expect("read");
    assert_eq!(reading.resolved, Vec::<String>::new());
}

#[test]
fn names_are_asked_for_and_groups_once_their_entity_is_known() {
    let text = pools(&[&format!(
        "entity: {{ organization: 9919 }}\nrunner_group: linux-builders\n{IMAGE}"
    )]);
    let mut known = Answers::default();
    let first = [Question::Entity(organization(9919)), Question::Image(filter(Arch::X64))];
    assert_eq!(open(&text, &known), first.into());
    known.entities = answers().entities;
    known.images = answers().images;
    assert_eq!(open(&text, &known), [Question::Groups(entity("acme"))].into());
    known.groups = answers().groups;
    let reading = asked(&text, &known).expect("read");
    let pool = &reading.file.pools[0];
    assert_eq!(pool.entity, Some(entity("acme")));
    assert_eq!(pool.runner_group_id, 3);
    assert_eq!(pool.image, Some(Image::Id("ami-0a1b2c3d".to_owned())));
    assert_eq!(
        reading.resolved,
        [
            "pools[0].entity: acme (organization 9919)",
            "pools[0].runner_group: 3 (Linux-Builders)",
            "pools[0].image: ami-0a1b2c3d (acme-runner-2026-11-01)",
        ]
    );
    // Shown as stored, so that it can be applied again without a query.
    let again = json!({ "pools": [written(pool)] });
    assert_eq!(read(again, &Answers::default()).map(|reading| reading.file), Ok(reading.file));
}

#[test]
fn every_kind_of_entity_has_ids() {
    let text = pools(&[
        "entity: { repository: 1296269 }",
        "entity: { enterprise: 42 }\nrunner_group: default",
        "entity: acme\nrunner_group: DEFAULT",
    ]);
    let reading = asked(&text, &answers()).expect("read");
    let told: Vec<(String, u64)> = reading
        .file
        .pools
        .iter()
        .map(|pool| (pool.entity.as_ref().map(ToString::to_string), pool.runner_group_id))
        .map(|(entity, group)| (entity.unwrap_or_default(), group))
        .collect();
    let expected = [("octocat/hello", 1), ("enterprises/big", 1), ("acme", 1)];
    assert_eq!(told, expected.map(|(entity, group)| (entity.to_owned(), group)));
}

/// An image must match the architecture of the pool's machines, given explicitly or by their types.
#[test]
fn an_image_is_of_the_pools_architecture() {
    let arm = format!("instances: {{ types: [m7g.large, c7gn.large] }}\n{IMAGE}");
    let said = format!(
        "instances: {{ vcpus: {{ min: 2 }}, memory_mib: {{ min: 2 }} }}\narch: arm64\n{IMAGE}"
    );
    let reading = asked(&pools(&[IMAGE, &arm, &said]), &answers()).expect("read");
    let ids: Vec<Option<Image>> =
        reading.file.pools.iter().map(|pool| pool.image.clone()).collect();
    let image = |id: &str| Some(Image::Id(id.to_owned()));
    assert_eq!(ids, ["ami-0a1b2c3d", "ami-0a1b2c3e", "ami-0a1b2c3e"].map(image));
}

/// A default is queried and reported once, at its own path; a pool's value replaces it entirely.
#[test]
fn defaults_are_resolved_where_they_hold() {
    let text = pools(&["priority: 1", "priority: 2", "entity: { enterprise: 42 }"])
        .replace("defaults:", &format!("defaults:\n  entity: {{ organization: 9919 }}\n  {IMAGE}"));
    let asked_for = open(&text, &Answers::default());
    let enterprise = EntityId { app: AppName::MAIN, kind: EntityKind::Enterprise, number: 42 };
    let expected = [
        Question::Entity(organization(9919)),
        Question::Entity(enterprise),
        Question::Image(filter(Arch::X64)),
    ];
    assert_eq!(asked_for, expected.into());
    assert_eq!(
        asked(&text, &answers()).expect("read").resolved,
        [
            "defaults.entity: acme (organization 9919)",
            "defaults.image: ami-0a1b2c3d (acme-runner-2026-11-01)",
            "pools[2].entity: enterprises/big (enterprise 42)",
        ]
    );
}

/// Names in unused defaults are not queried.
#[test]
fn an_unused_default_is_not_asked_for() {
    let text = pools(&["entity: acme"])
        .replace("defaults:", "defaults:\n  entity: { organization: 9919 }");
    asked(&text, &Answers::default()).expect("read");
}

#[test]
fn what_is_not_there_is_told_by_its_place() {
    let rows: &[(&str, &str, &str)] = &[
        ("entity: { organization: 7 }", "pools[0].entity", "no organization 7; install the App"),
        (
            "entity: { organization: 9919 }\nrunner_group: gpu",
            "pools[0].runner_group",
            "acme has no runner group \"gpu\"; its groups are Default, Linux-Builders",
        ),
        (
            "image: { filter: { name: acme-runner-*, owner: amazon } }",
            "pools[0].image",
            "no available image \"acme-runner-*\" for x64 in this region, owner amazon",
        ),
        (
            "launch_template: { id: lt-0a1b2c3d, version: 7 }",
            "pools[0].launch_template",
            "no version 7 of launch template lt-0a1b2c3d in this region",
        ),
        (
            "launch_template: lt-0a1b2c3e",
            "pools[0].launch_template",
            "infra/machine.yaml creates a template with both",
        ),
        ("launch_template: lt-0a1b2c3f", "pools[0].launch_template", "muster:role"),
        ("placement: { group: none }", "pools[0].placement.group", "no placement group \"none\""),
        (
            "placement: { group: theirs }",
            "pools[0].placement.group",
            "only placement groups with its own tag",
        ),
        (
            "placement: { group: release }\nsubnets: [subnet-0000000a, subnet-0000000b]",
            "pools[0].subnets",
            "are in one zone",
        ),
        // The rules that apply to a written value also apply to a resolved one.
        (
            "entity: { repository: 1296269 }\nrunner_group: default",
            "pools[0].runner_group",
            "no runner groups",
        ),
        (
            "entity: { organization: 9919 }\nrepositories: [other/web]",
            "pools[0].repositories",
            "does not belong to acme",
        ),
    ];
    for (lines, path, words) in rows {
        let unread = asked(&pools(&[lines]), &answers()).expect_err("wrong");
        assert!(unread.open.is_empty(), "{unread:?}");
        let [wrong] = &unread.problems[..] else { panic!("{lines}: {unread:#?}") };
        assert_eq!(wrong.path, *path, "{lines}");
        assert!(wrong.what.contains(words), "{wrong}\n{lines}");
    }
}

/// EC2's description is stored, so that launches do not query it.
#[test]
fn a_launch_template_is_stored_with_its_version_and_its_role() {
    let text = pools(&["launch_template: lt-0a1b2c3d\nplacement: { group: release }"]);
    let asked_for = open(&text, &Answers::default());
    let expected = [
        Question::Template(template("lt-0a1b2c3d", None)),
        Question::Placement("release".to_owned()),
    ];
    assert_eq!(asked_for, expected.into());
    let reading = asked(&text, &answers()).expect("read");
    let pool = &reading.file.pools[0];
    let own = OwnTemplate {
        id: "lt-0a1b2c3d".into(),
        version: "4".into(),
        role: "AROA1".into(),
        device: Some("/dev/sda1".into()),
    };
    assert_eq!(pool.own_template, Some(own));
    assert_eq!(reading.resolved, ["pools[0].launch_template: lt-0a1b2c3d (version 4)"]);
    // Shown with its version: applying the file again changes nothing.
    let again = json!({ "pools": [written(pool)] });
    assert_eq!(again["pools"][0]["launch_template"], json!({ "id": "lt-0a1b2c3d", "version": 4 }));
    assert_eq!(read(again, &answers()).map(|reading| reading.file), Ok(reading.file));
}

/// Queries and problems are returned together, so that all problems can be reported at once.
#[test]
fn a_mistake_keeps_no_question_back() {
    let text = pools(&["entity: { organization: 7 }\nlimits: { max: 0 }", IMAGE]);
    let unread = asked(&text, &Answers::default()).expect_err("wrong");
    assert_eq!(unread.open.len(), 2);
    assert_eq!(unread.problems[0].path, "pools[0].limits.max");
    let unread = asked(&text, &answers()).expect_err("wrong");
    let paths: BTreeSet<&str> = unread.problems.iter().map(|wrong| wrong.path.as_str()).collect();
    assert_eq!(paths, ["pools[0].entity", "pools[0].limits.max"].into());
}

/// The entity's idle runners count against its limit, in any spelling.
#[test]
fn an_entity_behind_an_id_is_counted() {
    let text = pools(&["entity: { organization: 9919 }\nlimits: { max: 9, min_idle: 3 }"]);
    let text = format!("limits: {{ entities: {{ ACME: 3 }} }}{text}");
    let unread = asked(&text, &answers()).expect_err("wrong");
    assert_eq!(unread.problems[0].path, "limits.entities.ACME");
}
