//! One HTTP client and one configuration for every AWS client of a function.
//!
//! The endpoints come from `AWS_ENDPOINT_URL` and `AWS_ENDPOINT_URL_<SERVICE>` where they are set:
//! the local stack and VPC endpoints use them.

use std::time::Duration;

use aws_config::environment::{
    EnvironmentVariableCredentialsProvider, EnvironmentVariableRegionProvider,
};
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, ConfigLoader, SdkConfig};
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};

/// Until a TCP and TLS connection stands.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Until one attempt is answered.
pub const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(8);
/// Until the last attempt is answered, pauses included: a third of a worker's time limit.
pub const OPERATION_TIMEOUT: Duration = Duration::from_secs(20);
/// Attempts of calls that may be repeated. The pauses between them are short: what lasts longer is
/// a matter for the queue's clock.
pub const ATTEMPTS: u32 = 3;

/// A Lambda is frozen between events, and the other side hangs up meanwhile. A connection that has
/// been idle this long is not trusted: on calls that are never repeated, a dead one would turn into
/// an unclear answer.
const IDLE_LIMIT: Duration = Duration::from_secs(20);

/// The configuration of all clients.
///
/// Credentials and region come from the environment alone, where Lambda always puts them; the SDK's
/// usual chain would look into files and the network as well.
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
    // ring: the first random number of aws-lc costs more than a whole cold start
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
