//! Errors of EC2 and GitHub, as records keep them and passes see them.

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// A recorded error.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ErrorDetail {
    /// When it happened.
    pub at: Time,
    /// The operation that failed.
    pub operation: String,
    /// The error code of EC2 or GitHub.
    pub code: String,
    /// The error message of EC2 or GitHub.
    pub message: String,
}

impl std::fmt::Display for ErrorDetail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}: {}", self.operation, self.code, self.message)
    }
}

/// A request that got no usable answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ProviderError {
    /// 401 or 403 that is not a rate limit.
    #[error("refused: {0}")]
    Unauthorized(ErrorDetail),
    /// A rate limit, with the time when it resets.
    #[error("rate limited until {0}")]
    RateLimited(Time),
    /// 5xx, time-out or reset: the outcome is unknown.
    #[error("no answer: {0}")]
    Unavailable(ErrorDetail),
}

#[cfg(test)]
mod tests {
    use super::{ErrorDetail, ProviderError};
    use crate::time::Time;

    #[test]
    fn a_providers_error_is_told_with_what_was_tried_and_its_code() {
        let detail = ErrorDetail {
            at: Time::from_millis(0),
            operation: "get-runner".to_owned(),
            code: "403".to_owned(),
            message: "Forbidden".to_owned(),
        };
        let told = |error: ProviderError| error.to_string();
        assert_eq!(
            told(ProviderError::Unavailable(detail.clone())),
            "no answer: get-runner: 403: Forbidden"
        );
        assert_eq!(
            told(ProviderError::Unauthorized(detail)),
            "refused: get-runner: 403: Forbidden"
        );
    }
}
