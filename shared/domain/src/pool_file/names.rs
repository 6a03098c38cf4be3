//! What a file names and somebody else resolves: entities by GitHub's id, runner groups by their
//! name, images by a filter.
//!
//! Reading stays pure. A name without an answer is a question; whoever reads the file asks it, and
//! reads again. Only what was resolved is stored, so a name is asked for when a file is applied,
//! and at no other time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::named::{EntityId, NamedTemplate};
use super::read::{Section, Wrongs};
use super::rules;
use super::shape::WrittenPool;
use crate::ids::{Entity, EntityKind};
use crate::pool::{Arch, Image, OwnTemplate};

/// A runner group of an organization or enterprise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// GitHub's number of it.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// It takes no job of a public repository, however it says so.
    pub refuses_public: bool,
    /// It takes jobs of selected workflows alone.
    pub restricted_to_workflows: bool,
}

impl Group {
    /// A group that takes whatever comes.
    #[must_use]
    pub fn new(id: u64, name: &str) -> Self {
        let name = name.to_owned();
        Self { id, name, refuses_public: false, restricted_to_workflows: false }
    }
}

/// Images of which the newest is meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImageFilter {
    /// The image's name, where `*` stands for anything and `?` for one character.
    pub name: String,
    /// `self`, `amazon`, or the twelve digits of an account.
    pub owner: String,
    /// The processors of the pool's machines.
    pub arch: Arch,
}

/// An image that a filter found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundImage {
    /// `ami-…`.
    pub id: String,
    /// Its name.
    pub name: String,
}

/// What EC2 shows of a launch template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundTemplate {
    /// The version that was asked for, or the newest.
    pub version: u64,
    /// It carries the tag of this stack.
    pub is_ours: bool,
    /// The id of its machines' role, which its tag `muster:role` names.
    pub role: Option<String>,
    /// The device of its disk.
    pub device: Option<String>,
    /// Its user data.
    pub user_data: String,
}

impl FoundTemplate {
    /// What boots its machines, and its header in front of that: each template has its own.
    const BOOT: &str = "#!/usr/bin/env bash\n";

    /// Whether its machines boot as those of another template.
    #[must_use]
    pub fn boots_as(&self, other: &Self) -> bool {
        let boot = |of: &Self| of.user_data.split_once(Self::BOOT).map(|(_, boot)| boot.to_owned());
        boot(self).is_some() && boot(self) == boot(other)
    }
}

/// What EC2 shows of a placement group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundPlacement {
    /// It carries the tag of this stack.
    pub is_ours: bool,
    /// Its machines stand side by side, so they are all in one zone.
    pub is_cluster: bool,
}

/// What must be known before a file is read to its end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// Whose id is this?
    Entity(EntityId),
    /// Which runner groups are there?
    Groups(Entity),
    /// Which is the newest?
    Image(ImageFilter),
    /// Is it there, and whose machines does it make?
    Template(NamedTemplate),
    /// Is there a placement group of this name?
    Placement(String),
}

/// What was answered so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// None: GitHub shows the App no such entity.
    pub entities: BTreeMap<EntityId, Option<Entity>>,
    /// Every group of an entity.
    pub groups: BTreeMap<Entity, Vec<Group>>,
    /// None: EC2 shows no such image.
    pub images: BTreeMap<ImageFilter, Option<FoundImage>>,
    /// None: EC2 shows no such launch template, or not this version of it.
    pub templates: BTreeMap<NamedTemplate, Option<FoundTemplate>>,
    /// None: EC2 shows no such placement group.
    pub placements: BTreeMap<String, Option<FoundPlacement>>,
}

/// Puts answers in the place of names, and keeps what is still to be asked.
pub(super) struct Names<'a> {
    answers: &'a Answers,
    pub(super) open: BTreeSet<Question>,
    /// What was resolved, a line each.
    pub(super) resolved: Vec<String>,
}

impl<'a> Names<'a> {
    pub(super) const fn new(answers: &'a Answers) -> Self {
        Self { answers, open: BTreeSet::new(), resolved: Vec::new() }
    }

    /// Resolves the names of a pool as far as they are answered. The entity first: groups are an
    /// entity's.
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
                self.tell(at, entity, &id);
                written.entity = Some(entity.clone());
            }
        }
    }

    fn group(&mut self, written: &mut WrittenPool, of: &Section, problems: &mut Wrongs) {
        let Some(name) = &written.named.group else { return };
        let at = of.path_of("runner_group");
        let Some(entity) = &written.entity else {
            if of.get("entity").is_none() {
                let what = "a group's name needs an entity: without one only the job says where runners \
                            belong; write the entity, or the group's number";
                problems.add(&at, what);
            }
            return;
        };
        // A repository has none, which the rules say.
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
        self.tell(&at, &group.id, &group.name);
        written.runner_group = Some(group.id);
    }

    fn image(&mut self, written: &mut WrittenPool, of: &Section, problems: &mut Wrongs) {
        let Some(image) = &written.named.image else { return };
        let at = of.path_of("image");
        let Some(arch) = written.arch.or_else(|| rules::arch_of_all(written)) else {
            let is_known = written.types.is_some() || written.requirements.is_some();
            if is_known && of.get("arch").is_none() {
                problems.add(
                    &at,
                    "for which machines? beside a filter write arch: x64, or arch: arm64",
                );
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
                self.tell(&at, &found.id, &found.name);
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
                "{} does not carry the tags muster:stack of this stack and muster:role, so it may \
                 launch nothing from it; infra/machine.yaml makes one that has them",
                named.id
            );
            problems.add(at, what);
            return;
        };
        self.tell(at, &named.id, &format!("version {}", found.version));
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
                    let what = "the stack uses placement groups with its own tag alone; give this one \
                                the tag muster:stack, with the stack's name";
                    problems.add(&at, what);
                }
                if found.is_cluster && written.subnets.as_ref().is_some_and(|all| all.len() > 1) {
                    let what = "the machines of a cluster stand in one zone; write one subnet";
                    problems.add(&of.path_of("subnets"), what);
                }
            }
        }
    }

    fn tell(&mut self, at: &str, value: &dyn fmt::Display, name: &dyn fmt::Display) {
        let line = format!("{at}: {value} ({name})");
        // A default is resolved once for every pool that it holds for.
        if !self.resolved.contains(&line) {
            self.resolved.push(line);
        }
    }
}
