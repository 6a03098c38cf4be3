//! Who is logged in at GitHub's pages, and what those let be done.

use std::collections::BTreeMap;

use super::{AppOwner, GitHub};
use crate::Ids;

/// Who is logged in.
#[derive(Clone, Debug)]
pub struct Person {
    pub login: String,
    pub id: u64,
    /// The organizations that are theirs, in lower case, with their numbers.
    pub owns: BTreeMap<String, u64>,
}

impl Default for Person {
    /// The owner of no organization.
    fn default() -> Self {
        Self { login: "octocat".to_owned(), id: 583_231, owns: BTreeMap::new() }
    }
}

impl Person {
    /// Whose App is made on a page: the person's, or that of an organization of theirs.
    #[must_use]
    pub fn acts_for(&self, organization: Option<&str>) -> Option<AppOwner> {
        let Some(login) = organization else {
            return Some(AppOwner {
                login: self.login.clone(),
                id: self.id,
                is_organization: false,
            });
        };
        let id = *self.owns.get(&login.to_ascii_lowercase())?;
        Some(AppOwner { login: login.to_owned(), id, is_organization: true })
    }
}

impl GitHub {
    /// The person becomes an owner of an organization, or is one no more.
    pub(crate) fn set_organization(&mut self, ids: &mut Ids, login: &str, is_owned: bool) {
        let key = login.to_ascii_lowercase();
        if is_owned {
            let known = self.owner(login).map(|owner| owner.id);
            self.person.owns.entry(key).or_insert_with(|| known.unwrap_or_else(|| ids.small()));
        } else {
            self.person.owns.remove(&key);
        }
    }
}
