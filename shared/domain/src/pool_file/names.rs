//! Resolution of names in a pool file: entities by GitHub ID, runner groups by name, images by
//! filter.
//!
//! Reading remains pure. A name without an answer becomes a query; the caller runs it and reads the
//! file again. Only resolved values are stored, so names are resolved when a file is applied and
//! never later.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::named::{EntityId, NamedTemplate};
use super::read::{Section, Wrongs};
use super::rules;
use super::shape::WrittenPool;
use crate::ec2::Arch;
use crate::ids::{Entity, EntityKind};
use crate::pool::{Image, OwnTemplate};

/// A runner group of an organization or enterprise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunnerGroup {
    /// GitHub's ID of the group.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Whether it refuses jobs of public repositories, for any reason.
    pub refuses_public: bool,
    /// Whether it accepts only jobs of selected workflows.
    pub restricted_to_workflows: bool,
}

impl RunnerGroup {
    /// Creates a group without restrictions.
    #[must_use]
    pub fn new(id: u64, name: &str) -> Self {
        let name = name.to_owned();
        Self { id, name, refuses_public: false, restricted_to_workflows: false }
    }
}

/// A filter whose newest image is used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImageFilter {
    /// The image's name, where `*` matches any text and `?` one character.
    pub name: String,
    /// `self`, `amazon`, or a 12-digit account ID.
    pub owner: String,
    /// The architecture of the pool's machines.
    pub arch: Arch,
}

/// The image that a filter found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundImage {
    /// `ami-…`.
    pub id: String,
    /// Its name.
    pub name: String,
}

/// EC2's description of a launch template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundTemplate {
    /// The requested version, or the newest.
    pub version: u64,
    /// Whether it has the tag of this stack.
    pub is_ours: bool,
    /// The ID of its machines' role, from its tag `muster:role`.
    pub role: Option<String>,
    /// The device of its disk.
    pub device: Option<String>,
    /// Its user data.
    pub user_data: String,
}

impl FoundTemplate {
    /// The start of the boot script; the header before it differs between templates.
    const BOOT: &str = "#!/usr/bin/env bash\n";

    /// Returns whether both templates have an equal boot script.
    #[must_use]
    pub fn boots_as(&self, other: &Self) -> bool {
        let boot = |of: &Self| of.user_data.split_once(Self::BOOT).map(|(_, boot)| boot.to_owned());
        boot(self).is_some() && boot(self) == boot(other)
    }
}

/// EC2's description of a placement group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundPlacement {
    /// Whether it has the tag of this stack.
    pub is_ours: bool,
    /// Whether it is a cluster, whose machines are close together and therefore in one zone.
    pub is_cluster: bool,
}

/// A query that must be answered before a file can be read completely.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// Which entity has this ID?
    Entity(EntityId),
    /// Which runner groups does this entity have?
    Groups(Entity),
    /// Which image is the newest match?
    Image(ImageFilter),
    /// Does this launch template exist, and which role do its machines have?
    Template(NamedTemplate),
    /// Does a placement group with this name exist?
    Placement(String),
}

/// The answers so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Entities by ID. `None` if GitHub shows the App no such entity.
    pub entities: BTreeMap<EntityId, Option<Entity>>,
    /// All groups of an entity.
    pub groups: BTreeMap<Entity, Vec<RunnerGroup>>,
    /// Images by filter. `None` if EC2 shows no such image.
    pub images: BTreeMap<ImageFilter, Option<FoundImage>>,
    /// Launch templates. `None` if EC2 shows no such template or version.
    pub templates: BTreeMap<NamedTemplate, Option<FoundTemplate>>,
    /// Placement groups. `None` if EC2 shows no such group.
    pub placements: BTreeMap<String, Option<FoundPlacement>>,
}

/// Replaces names with their answers, and collects the open queries.
pub(super) struct Names<'a> {
    answers: &'a Answers,
    pub(super) open: BTreeSet<Question>,
    /// The resolved names, one line each.
    pub(super) resolved: Vec<String>,
}

impl<'a> Names<'a> {
    pub(super) const fn new(answers: &'a Answers) -> Self {
        Self { answers, open: BTreeSet::new(), resolved: Vec::new() }
    }

    /// Resolves a pool's names that have an answer. The entity comes first, because groups belong
    /// to an entity.
    pub(super) fn resolve(
        &mut self,
        written: &mut WrittenPool,
        of: &Section,
        problems: &mut Wrongs,
    ) {
        self.entity(written, &of.path_of("entity"), problems);
        self.group(written, of, problems);
        self.image(written, of, problems);
        self.template(written, &of.path_of("launch_template"), problems);
        self.placement(written, of, problems);
    }

    fn entity(&mut self, written: &mut WrittenPool, at: &str, problems: &mut Wrongs) {
        let Some(id) = written.named.entity else { return };
        match self.answers.entities.get(&id) {
            None => {
                self.open.insert(Question::Entity(id));
            }
            Some(None) => {
                let what = "install the App there (and end its suspension), or write another id";
                problems.add(at, format!("GitHub shows the App no {id}; {what}"));
            }
            Some(Some(entity)) => {
                self.add_resolved(at, entity, &id);
                written.entity = Some(entity.clone());
            }
        }
    }

    fn group(&mut self, written: &mut WrittenPool, of: &Section, problems: &mut Wrongs) {
        let Some(name) = &written.named.group else { return };
        let at = of.path_of("runner_group");
        let Some(entity) = &written.entity else {
            if of.get("entity").is_none() {
                let what = "a group's name requires an entity: without one, each job determines \
                    where its runner is registered; write the entity, or the group's ID";
                problems.add(&at, what);
            }
            return;
        };
        // Repositories have no groups; the rules report that.
        if entity.kind() == EntityKind::Repository {
            return;
        }
        let Some(groups) = self.answers.groups.get(entity) else {
            self.open.insert(Question::Groups(entity.clone()));
            return;
        };
        let lower = name.to_lowercase();
        let Some(group) = groups.iter().find(|group| group.name.to_lowercase() == lower) else {
            let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
            let known = names.join(", ");
            problems
                .add(&at, format!("{entity} has no runner group {name:?}; its groups are {known}"));
            return;
        };
        self.add_resolved(&at, &group.id, &group.name);
        written.runner_group = Some(group.id);
    }

    fn image(&mut self, written: &mut WrittenPool, of: &Section, problems: &mut Wrongs) {
        let Some(image) = &written.named.image else { return };
        let at = of.path_of("image");
        let Some(arch) = written.arch.or_else(|| rules::arch_of_all(written)) else {
            let is_known = written.types.is_some() || written.requirements.is_some();
            if is_known && of.get("arch").is_none() {
                problems
                    .add(&at, "a filter requires an architecture; write arch: x64 or arch: arm64");
            }
            return;
        };
        let (name, owner) = (image.name.clone(), image.owner.clone());
        let filter = ImageFilter { name, owner, arch };
        match self.answers.images.get(&filter) {
            None => {
                self.open.insert(Question::Image(filter));
            }
            Some(None) => {
                let ImageFilter { name, owner, arch } = filter;
                let what = format!("EC2 shows no available image {name:?} for {}", arch.as_str());
                problems.add(&at, format!("{what} in this region, owner {owner}"));
            }
            Some(Some(found)) => {
                self.add_resolved(&at, &found.id, &found.name);
                written.image = Some(Image::Id(found.id.clone()));
            }
        }
    }

    fn template(&mut self, written: &mut WrittenPool, at: &str, problems: &mut Wrongs) {
        let Some(named) = written.named.template.clone() else { return };
        let Some(found) = self.answers.templates.get(&named) else {
            self.open.insert(Question::Template(named));
            return;
        };
        let Some(found) = found else {
            problems.add(at, format!("EC2 shows no {named} in this region"));
            return;
        };
        let Some(role) = found.role.as_ref().filter(|_| found.is_ours) else {
            let what = format!(
                "{} lacks the tags muster:stack of this stack and muster:role, so \
                 scale-up cannot launch from it; infra/machine.yaml creates a template with both",
                named.id
            );
            problems.add(at, what);
            return;
        };
        self.add_resolved(at, &named.id, &format!("version {}", found.version));
        written.own_template = Some(OwnTemplate {
            id: named.id.into(),
            version: found.version.to_string().into(),
            role: role.as_str().into(),
            device: found.device.as_deref().map(Into::into),
        });
    }

    fn placement(&mut self, written: &WrittenPool, of: &Section, problems: &mut Wrongs) {
        let Some(group) = written.placement.as_ref().and_then(|one| one.group.as_ref()) else {
            return;
        };
        let at = format!("{}.group", of.path_of("placement"));
        match self.answers.placements.get(group) {
            None => {
                self.open.insert(Question::Placement(group.clone()));
            }
            Some(None) => {
                problems.add(&at, format!("EC2 shows no placement group {group:?} in this region"));
            }
            Some(Some(found)) => {
                if !found.is_ours {
                    let what = "the stack uses only placement groups with its own tag; give this \
                        one \
                                the tag muster:stack, with the stack's name";
                    problems.add(&at, what);
                }
                if found.is_cluster && written.subnets.as_ref().is_some_and(|all| all.len() > 1) {
                    let what = "the machines of a cluster are in one zone; write one subnet";
                    problems.add(&of.path_of("subnets"), what);
                }
            }
        }
    }

    fn add_resolved(&mut self, at: &str, value: &dyn fmt::Display, name: &dyn fmt::Display) {
        let line = format!("{at}: {value} ({name})");
        // A default is resolved once for every pool that uses it.
        if !self.resolved.contains(&line) {
            self.resolved.push(line);
        }
    }
}
