//! Resolves the names in a pool file by querying GitHub and EC2.

use muster_api::{AdminError, call_failure};
use muster_domain::pool_file::{self, Answers, Question, ReadPoolFile, UnreadPoolFile};
use muster_domain::provider::ProviderError;
use serde_json::Value;

use super::Admin;
use super::pools::refused;
use crate::context::Ports;
use crate::ports::{Catalogue, Directory};

impl<P: Ports<Compute: Catalogue, Github: Directory>> Admin<'_, P> {
    /// Parses a file and resolves its names. Without names, makes no call; otherwise at most two
    /// rounds of queries: first IDs and images, then the groups of entities behind IDs.
    pub(super) async fn resolve(&self, file: Value) -> Result<ReadPoolFile, AdminError> {
        let mut answers = Answers::default();
        loop {
            let UnreadPoolFile { open, problems } = match pool_file::read(file.clone(), &answers) {
                Ok(reading) => return Ok(reading),
                Err(unread) => unread,
            };
            if open.is_empty() {
                return Err(refused(problems));
            }
            for question in open {
                let provider = provider(&question);
                if let Err(trouble) = self.ask(question, &mut answers).await {
                    // An error in the file remains with any answer, so it is more useful than
                    // advice to retry.
                    return Err(match problems.is_empty() {
                        true => unanswered(provider, &trouble),
                        false => refused(problems),
                    });
                }
            }
        }
    }

    async fn ask(&self, question: Question, answers: &mut Answers) -> Result<(), ProviderError> {
        match question {
            Question::Entity(id) => {
                answers.entities.insert(id, self.context.github.entity(id).await?);
            }
            Question::Groups(entity) => {
                let groups = self.context.github.groups(&entity).await?;
                answers.groups.insert(entity, groups);
            }
            Question::Image(filter) => {
                let image = self.context.compute.newest(&filter).await?;
                answers.images.insert(filter, image);
            }
            Question::Template(named) => {
                let template = self.context.compute.template(&named).await?;
                answers.templates.insert(named, template);
            }
            Question::Placement(group) => {
                let found = self.context.compute.placement(&group).await?;
                answers.placements.insert(group, found);
            }
        }
        Ok(())
    }
}

const fn provider(question: &Question) -> &'static str {
    match question {
        Question::Entity(_) | Question::Groups(_) => "GitHub",
        Question::Image(_) | Question::Template(_) | Question::Placement(_) => "EC2",
    }
}

fn unanswered(provider: &str, trouble: &ProviderError) -> AdminError {
    let (code, message) = call_failure(provider, trouble);
    AdminError::new(code, format!("nothing was changed: {message}"))
}
