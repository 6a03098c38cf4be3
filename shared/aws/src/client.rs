//! The HTTP client and configuration that all AWS clients of a function share.
//!
//! The endpoints come from `AWS_ENDPOINT_URL` and `AWS_ENDPOINT_URL_<SERVICE>` if they are set: the
//! local stack and VPC endpoints use them.

use std::time::Duration;

use aws_config::environment::{
    EnvironmentVariableCredentialsProvider, EnvironmentVariableRegionProvider,
};
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, ConfigLoader, SdkConfig};
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};

/// Time-out for establishing a TCP and TLS connection.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Time-out of one attempt.
pub const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(8);
/// Time-out of a call with all attempts and pauses: a third of a worker's time limit.
pub const OPERATION_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum number of attempts for repeatable calls. The pauses between them are short: longer
/// outages are handled by the queue's retries.
pub const ATTEMPTS: u32 = 3;

/// Maximum idle time of a connection. A Lambda is frozen between events, and the server closes
/// connections meanwhile. For calls that are never repeated, a dead connection would cause an
/// ambiguous outcome.
const IDLE_LIMIT: Duration = Duration::from_secs(20);

/// Loads the configuration of all clients.
///
/// Credentials and region come only from the environment, where Lambda always provides them; the
/// SDK's default chain would also access files and the network.
pub async fn load() -> SdkConfig {
    loader().load().await
}

fn loader() -> ConfigLoader {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .operation_timeout(OPERATION_TIMEOUT)
        .build();
    let retries = RetryConfig::standard()
        .with_max_attempts(ATTEMPTS)
        .with_initial_backoff(Duration::from_millis(100))
        .with_max_backoff(Duration::from_secs(2));
    // Uses ring: the first random number of aws-lc takes longer than a whole cold start
    // (docs/performance.md).
    let http = Builder::new()
        .pool_idle_timeout(IDLE_LIMIT)
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .build_https();
    aws_config::defaults(BehaviorVersion::v2026_01_12())
        .http_client(http)
        .region(EnvironmentVariableRegionProvider::new())
        .credentials_provider(EnvironmentVariableCredentialsProvider::new())
        .timeout_config(timeouts)
        .retry_config(retries)
}
