//! Orders in forms and addresses.

use muster_api::To;
use muster_domain::ids::{AppName, Entity, EntityKind};

use super::fields::{Fields, address};
use super::memory::PageQuery;
use super::page::{Filter, UiPage};
use crate::args::Dead;
use crate::orders::{DeleteFlags, HookAction, IMAGE_ORDERS, Lookup, Order, Switched, image_word};

impl Order {
    /// Parses an order from its action and the fields of a query or form.
    #[must_use]
    pub fn read(action: &str, fields: &Fields) -> Option<Self> {
        let switch =
            |to| Some(Self::Switch { what: vec![Switched::read(fields.get("what")?)?], to });
        let delete = |flags| Some(Self::Delete { name: fields.parsed("name")?, flags });
        match action {
            "pause" => switch(To::Off),
            "resume" => switch(To::On),
            "delete" => delete(DeleteFlags::PLAIN),
            "force" => delete(DeleteFlags::FORCE),
            "kill" => delete(DeleteFlags::KILL),
            "bypass" => delete(DeleteFlags::BYPASS),
            // A browser sends CRLF line ends.
            "apply" => Some(Self::Apply { file: fields.get("file")?.replace("\r\n", "\n") }),
            "restore" => Some(Self::Restore { version: fields.parsed("version")? }),
            "canary" => {
                let entity = match fields.get("entity") {
                    Some(entity) => Some(entity.trim().parse().ok()?),
                    None => None,
                };
                let pool = Some(fields.parsed("pool")?);
                let template_image = fields.get("template_image").is_some();
                Some(Self::Canary { pool, entity, template_image })
            }
            "redrive" => Some(Self::Redrive { queue: Dead::read(fields.get("queue")?)? }),
            "hook" => {
                let what = fields.get("what")?;
                HookAction::ALL
                    .into_iter()
                    .find(|hook| hook.as_str() == what)
                    .map(|hook| Self::Hook(hook, AppName::MAIN))
            }
            "image" => {
                let word = fields.get("what")?;
                let what = IMAGE_ORDERS.into_iter().find(|what| image_word(*what) == word)?;
                let family = match fields.get("family") {
                    Some(family) => Some(family.parse().ok()?),
                    None => None,
                };
                Some(Self::Image { what, family })
            }
            "adopt" => {
                let repository: Entity = fields.get("repository")?.trim().parse().ok()?;
                let is_one = repository.kind() == EntityKind::Repository;
                is_one.then_some(Self::Adopt { repository })
            }
            _ => None,
        }
    }

    /// Returns the message for invalid fields.
    #[must_use]
    pub fn unread(action: &str) -> &'static str {
        match action {
            "canary" => "Write the entity to register its runner at as OWNER or OWNER/REPO.",
            "adopt" => "Write the repository as OWNER/REPO.",
            _ => "There is no such order.",
        }
    }

    /// Returns its action word.
    #[must_use]
    pub const fn action(&self) -> &'static str {
        match self {
            Self::Switch { to: To::Off, .. } => "pause",
            Self::Switch { to: To::On, .. } => "resume",
            Self::Delete { flags: DeleteFlags { kill: true, .. }, .. } => "kill",
            Self::Delete { flags: DeleteFlags { force: true, .. }, .. } => "force",
            Self::Delete { flags: DeleteFlags { bypass: true, .. }, .. } => "bypass",
            Self::Delete { .. } => "delete",
            Self::Apply { .. } => "apply",
            Self::Restore { .. } => "restore",
            Self::Canary { .. } => "canary",
            Self::Redrive { .. } => "redrive",
            Self::Adopt { .. } => "adopt",
            Self::Hook(..) => "hook",
            Self::Image { .. } => "image",
        }
    }

    /// Returns its form fields.
    #[must_use]
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Switch { what, .. } => {
                what.iter().map(|what| ("what", what.as_str().to_owned())).collect()
            }
            Self::Delete { name, .. } => vec![("name", name.to_string())],
            Self::Apply { file } => vec![("file", file.clone())],
            Self::Restore { version } => vec![("version", version.to_string())],
            Self::Redrive { queue } => vec![("queue", queue.name().to_owned())],
            Self::Adopt { repository } => vec![("repository", repository.to_string())],
            Self::Hook(hook, _) => vec![("what", hook.as_str().to_owned())],
            Self::Image { what, family } => {
                let family = family.iter().map(|family| ("family", family.to_string()));
                std::iter::once(("what", image_word(*what).to_owned())).chain(family).collect()
            }
            Self::Canary { pool, entity, template_image } => {
                let pool = pool.iter().map(|pool| ("pool", pool.to_string()));
                let entity = entity.iter().map(|entity| ("entity", entity.to_string()));
                let image = template_image.then(|| ("template_image", "yes".to_owned()));
                pool.chain(entity).chain(image).collect()
            }
        }
    }

    /// Returns a text that identifies the order; orders for different objects differ.
    #[must_use]
    pub fn identity(&self) -> String {
        self.address("")
    }

    /// Returns the address of its confirmation page.
    #[must_use]
    pub fn confirmed_at(&self) -> String {
        self.address("/confirm/")
    }

    fn address(&self, before: &str) -> String {
        let fields = self.fields();
        let fields: Vec<(&str, &str)> =
            fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        address(&format!("{before}{}", self.action()), &fields)
    }

    /// Returns the page where its effect is visible, which also offers it.
    #[must_use]
    pub fn shown_at(&self) -> UiPage {
        match self {
            Self::Switch { what, .. } => match what.as_slice() {
                [Switched::Pool(name)] => UiPage::Pool(name.clone()),
                _ => UiPage::Overview,
            },
            Self::Delete { name, .. } => UiPage::Machine(name.to_string()),
            Self::Canary { pool: Some(pool), .. } => UiPage::Pool(pool.clone()),
            Self::Apply { .. }
            | Self::Restore { .. }
            | Self::Canary { pool: None, .. }
            | Self::Image { .. } => UiPage::Pools,
            Self::Redrive { .. } => UiPage::DeadLetters(None),
            Self::Adopt { .. } => UiPage::Jobs(Filter::default()),
            Self::Hook(..) => UiPage::GitHub,
        }
    }
}

impl Lookup {
    /// Returns it as a query of the pages.
    #[must_use]
    pub fn question(&self) -> PageQuery {
        match self {
            Self::Overview => PageQuery::Overview,
            Self::Instance(name) => PageQuery::Show(name.to_string()),
            Self::DeadLetters => PageQuery::DeadLetters,
            Self::Github(_) => PageQuery::GitHub,
        }
    }
}
