//! Classification of failed calls. Every SDK error is converted to a Muster error here.

use std::error::Error;
use std::fmt;

use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_dynamodb::types::error::TransactionCanceledException;
use aws_smithy_runtime_api::client::interceptors::context::{
    Error as OperationError, InterceptorContext,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpResponse, OrchestratorError};
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_runtime_api::client::retries::classifiers::{ClassifyRetry, RetryAction};
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use muster_control::ports::{CommitError, ReadError, Unavailable};
use muster_domain::causes::with_causes;

use crate::item::Item;

/// A failed call of any service: the useful parts of the SDK's error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceError {
    /// The service's error code. `None` if the service did not send a response with a code.
    pub code: Option<String>,
    /// The service's message, or a description of what happened instead of a response.
    pub message: String,
    /// The status of the HTTP response, if there was one.
    pub status: Option<u16>,
}

impl ServiceError {
    /// Converts an SDK error.
    #[must_use]
    pub fn from_sdk<E>(error: &SdkError<E, HttpResponse>) -> Self
    where
        E: ProvideErrorMetadata + Error + 'static,
    {
        let service = error.as_service_error();
        Self {
            code: service.and_then(ProvideErrorMetadata::code).map(str::to_owned),
            message: service
                .and_then(ProvideErrorMetadata::message)
                .filter(|message| !message.trim().is_empty())
                .map_or_else(|| with_causes(error), str::to_owned),
            status: error.raw_response().map(|response| response.status().as_u16()),
        }
    }
}

impl Error for ServiceError {}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.code {
            Some(code) => write!(f, "{code}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// Converts the error of a failed read.
pub(crate) fn read_error<E>(what: &str, error: &SdkError<E, HttpResponse>) -> ReadError
where
    E: ProvideErrorMetadata + Error + 'static,
{
    ReadError::Unavailable(Unavailable::caused(what, ServiceError::from_sdk(error)))
}

/// Converts the error of a failed unconditional write.
pub(crate) fn write_error<E>(what: &str, error: &SdkError<E, HttpResponse>) -> CommitError
where
    E: ProvideErrorMetadata + Error + 'static,
{
    let failure = ServiceError::from_sdk(error);
    if failure.code.as_deref() == Some(TRANSACTION_CONFLICT_EXCEPTION) {
        return CommitError::Conflict;
    }
    CommitError::Unavailable(Unavailable::caused(what, failure))
}

/// Why a conditional put failed.
pub(crate) enum PutFailure {
    /// The condition is not met. Contains the existing item.
    Occupied(Option<Item>),
    /// Any other failure.
    Other(CommitError),
}

/// Converts the error of a failed conditional put.
pub(crate) fn put_error(error: SdkError<PutItemError, HttpResponse>) -> PutFailure {
    if matches!(error.as_service_error(), Some(PutItemError::ConditionalCheckFailedException(_))) {
        return match error.into_service_error() {
            PutItemError::ConditionalCheckFailedException(failed) => {
                PutFailure::Occupied(failed.item)
            }
            _ => PutFailure::Occupied(None),
        };
    }
    PutFailure::Other(write_error("PutItem", &error))
}

/// Converts the error of a failed transaction.
pub(crate) fn transaction_error(
    error: &SdkError<TransactWriteItemsError, HttpResponse>,
) -> CommitError {
    match error.as_service_error() {
        Some(TransactWriteItemsError::TransactionCanceledException(canceled)) => {
            error_from_reasons(&reasons(canceled))
        }
        _ => write_error("TransactWriteItems", error),
    }
}

/// Returns the code and message for each action of a cancelled transaction.
fn reasons(canceled: &TransactionCanceledException) -> Vec<(&str, &str)> {
    canceled
        .cancellation_reasons()
        .iter()
        .map(|reason| (reason.code().unwrap_or(NO_REASON), reason.message().unwrap_or_default()))
        .collect()
}

/// Makes the SDK retry a transaction that was throttled, or that conflicted with a concurrent write
/// of one of its items; likewise a put that conflicted with a transaction.
///
/// The SDK does not do that automatically: the error equals that of an unmet condition, and only
/// its reasons distinguish them. In these cases, DynamoDB has written no item.
///
/// All ends of a pool's machines decrement one item, so they conflict there. The retry evaluates
/// the conditions again: a record that a different writer has changed is still a conflict.
///
/// Source: docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html,
/// "Errors"; docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html,
/// "Transaction conflict handling in DynamoDB"
#[derive(Debug)]
pub(crate) struct PassingObstacle;

impl ClassifyRetry for PassingObstacle {
    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        let error = context.output_or_error().and_then(std::result::Result::err);
        let error = error.and_then(OrchestratorError::as_operation_error);
        match error.is_some_and(has_passing_reason) {
            true => RetryAction::throttling_error(),
            false => RetryAction::NoActionIndicated,
        }
    }

    fn name(&self) -> &'static str {
        "passing obstacle of a transaction"
    }
}

fn has_passing_reason(error: &OperationError) -> bool {
    if let Some(error) = error.downcast_ref::<PutItemError>() {
        return matches!(error, PutItemError::TransactionConflictException(_));
    }
    match error.downcast_ref() {
        Some(TransactWriteItemsError::TransactionCanceledException(canceled)) => {
            passes(&reasons(canceled))
        }
        _ => false,
    }
}

/// Returns whether all reasons are temporary.
fn passes(reasons: &[(&str, &str)]) -> bool {
    let mut named = reasons.iter().map(|(code, _)| *code).filter(|code| *code != NO_REASON);
    let passing = |code| PASSING.contains(&code);
    named.next().is_some_and(passing) && named.all(passing)
}

const PASSING: [&str; 3] =
    ["ThrottlingError", "ProvisionedThroughputExceeded", TRANSACTION_CONFLICT];
const NO_REASON: &str = "None";
const CONDITION_FAILED: &str = "ConditionalCheckFailed";
const TRANSACTION_CONFLICT: &str = "TransactionConflict";
const TRANSACTION_CONFLICT_EXCEPTION: &str = "TransactionConflictException";

/// Converts the reasons of a cancelled transaction, one per action. A conflict on any action is a
/// conflict of the whole: the caller should then read again, regardless of the other reasons.
fn error_from_reasons(reasons: &[(&str, &str)]) -> CommitError {
    if reasons.iter().any(|(code, _)| [CONDITION_FAILED, TRANSACTION_CONFLICT].contains(code)) {
        return CommitError::Conflict;
    }
    let told: Vec<String> = reasons
        .iter()
        .enumerate()
        .filter(|(_, (code, _))| *code != NO_REASON)
        .map(|(n, (code, message))| format!("action {n}: {code} {message}"))
        .collect();
    let what = format!("TransactWriteItems cancelled: {}", told.join("; "));
    CommitError::Unavailable(Unavailable::new(what))
}

/// Returns the value of a text attribute.
pub(crate) fn text(value: Option<&AttributeValue>) -> Option<&str> {
    value.and_then(|value| value.as_s().ok()).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancelled_transaction_is_a_conflict_only_when_a_condition_or_another_writer_stopped_it() {
        let cases: [(&[&str], bool); 8] = [
            (&["None", "ConditionalCheckFailed"], true),
            (&["TransactionConflict"], true),
            (&["ThrottlingError", "ConditionalCheckFailed"], true),
            (&["ThrottlingError", "None"], false),
            (&["ProvisionedThroughputExceeded"], false),
            (&["ItemCollectionSizeLimitExceeded"], false),
            (&["ValidationError"], false),
            (&[], false),
        ];
        for (codes, conflict) in cases {
            let reasons: Vec<(&str, &str)> = codes.iter().map(|code| (*code, "why")).collect();
            assert_eq!(
                error_from_reasons(&reasons) == CommitError::Conflict,
                conflict,
                "{codes:?}"
            );
        }
    }

    #[test]
    fn the_reasons_are_told_with_the_number_of_their_action() {
        let CommitError::Unavailable(text) =
            error_from_reasons(&[("None", ""), ("ValidationError", "item too large")])
        else {
            panic!("a conflict")
        };
        let text = text.to_string();
        assert!(text.ends_with("action 1: ValidationError item too large"), "{text}");
    }
}
