//! What a pool file names, asked of GitHub and EC2 before anything else is done with it.

use muster_domain::app::{NOT_INSTALLED, is_before_github};
use muster_domain::instance::ErrorDetail;
use muster_domain::observation::ProviderError;
use muster_domain::pool_file::{self, Answers, Question, ReadPoolFile, UnreadPoolFile};
use serde_json::Value;

use super::pools::refused;
use super::{Admin, AdminError, AdminErrorCode};
use crate::context::Ports;
use crate::ports::{Catalogue, Directory};

impl<P: Ports<Compute: Catalogue, Github: Directory>> Admin<'_, P> {
    /// Reads a file to its end. One that names nothing makes no call; otherwise there are two
    /// rounds of questions at most, ids and images first and then the groups behind ids.
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
                let whom = whom(&question);
                if let Err(trouble) = self.ask(question, &mut answers).await {
                    // A mistake is there with any answer: it is more use than the advice to try
                    // again.
                    return Err(match problems.is_empty() {
                        true => unanswered(whom, &trouble),
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

const fn whom(question: &Question) -> &'static str {
    match question {
        Question::Entity(_) | Question::Groups(_) => "GitHub",
        Question::Image(_) | Question::Template(_) | Question::Placement(_) => "EC2",
    }
}

fn unanswered(whom: &str, trouble: &ProviderError) -> AdminError {
    let (code, message) = told(whom, trouble);
    AdminError::new(code, format!("nothing was changed: {message}"))
}

/// Why there is no answer: its code, and a sentence for an operator.
pub(crate) fn told(whom: &str, trouble: &ProviderError) -> (AdminErrorCode, String) {
    let told =
        |fault: &ErrorDetail| format!("{}: {} ({})", fault.operation, fault.message, fault.code);
    match trouble {
        ProviderError::Unauthorized(fault) if is_before_github(&fault.code) => {
            (AdminErrorCode::NotAllowed, format!("{whom} was not asked: {}", fault.message))
        }
        ProviderError::Unavailable(fault) if is_before_github(&fault.code) => (
            AdminErrorCode::Unavailable,
            format!("{whom} was not asked: {}; try again", fault.message),
        ),
        ProviderError::Unauthorized(fault) if fault.code == NOT_INSTALLED => {
            (AdminErrorCode::NotAllowed, fault.message.clone())
        }
        ProviderError::Unavailable(fault) => (
            AdminErrorCode::Unavailable,
            format!("{whom} gives no answer to {}; try again", told(fault)),
        ),
        ProviderError::RateLimited(until) => (
            AdminErrorCode::Unavailable,
            format!("{whom} answers no more calls before {until}; try again then"),
        ),
        ProviderError::Unauthorized(fault) => (
            AdminErrorCode::NotAllowed,
            format!("{whom} refuses {}; see to the permission first", told(fault)),
        ),
    }
}
