//! Deliveries of the App's webhook, which GitHub keeps for three days: listing and redelivery.
//!
//! Source: "Automatically redelivering failed deliveries for a GitHub App webhook" and "REST API
//! endpoints for GitHub App webhooks" in GitHub's documentation.

use http::{Method, StatusCode};
use muster_domain::ids::AppName;
use muster_domain::provider::ProviderError;
use muster_domain::redelivery::{Delivery, DeliveryPage};
use muster_domain::time::Time;
use serde::Deserialize;

use crate::client::ApiRequest;
use crate::{App, AppKey, PAGE_SIZE};

/// The event for jobs, and its action for a queued job.
const JOBS: &str = "workflow_job";
const QUEUED: &str = "queued";

#[derive(Deserialize)]
struct DeliveryAttempt {
    id: u64,
    guid: String,
    delivered_at: jiff::Timestamp,
    /// The status of our response; 0 or absent if there was none.
    #[serde(default)]
    status_code: Option<u16>,
    /// Whether the event was sent before.
    #[serde(default)]
    redelivery: bool,
    event: String,
    #[serde(default)]
    action: Option<String>,
}

impl DeliveryAttempt {
    fn at(&self) -> Time {
        Time::from_millis(self.delivered_at.as_millisecond())
    }

    /// Returns whether a further attempt would be useless: the event was accepted, or was rejected
    /// because it is too large, not an event, or unreadable (400; its repository was queried for
    /// queued jobs instead). A rejected signature is not among these, because the secret may be
    /// fixed.
    fn is_settled(&self) -> bool {
        let code = self.status_code.unwrap_or_default();
        (200..300).contains(&code) || matches!(code, 400 | 413 | 422)
    }

    fn delivery(self) -> Delivery {
        Delivery {
            id: self.id,
            at: self.at(),
            is_settled: self.is_settled(),
            is_again: self.redelivery,
            is_queued: self.action.as_deref() == Some(QUEUED),
            guid: self.guid,
        }
    }
}

impl<K: AppKey> App<K> {
    pub(crate) async fn attempts(
        &self,
        app: AppName,
        cursor: Option<&str>,
    ) -> Result<Option<DeliveryPage>, ProviderError> {
        let from = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let call = ApiRequest {
            operation: "list-deliveries",
            method: Method::GET,
            path: format!("/app/hook/deliveries?per_page={PAGE_SIZE}{from}"),
            body: None,
        };
        let answer = self.call_as_app(app, &call).await?;
        match answer.status {
            StatusCode::OK => {}
            // GitHub does not document its response to an expired cursor.
            StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::UNPROCESSABLE_ENTITY
                if cursor.is_some() =>
            {
                return Ok(None);
            }
            _ => return Err(answer.trouble()),
        }
        let attempts: Vec<DeliveryAttempt> = answer.read()?;
        let (newest, oldest) =
            (attempts.first().map(DeliveryAttempt::at), attempts.last().map(DeliveryAttempt::at));
        let next = answer.next_page().and_then(cursor_of).map(str::to_owned);
        let ours = attempts.into_iter().filter(|one| one.event == JOBS);
        let deliveries = ours.map(DeliveryAttempt::delivery).collect();
        Ok(Some(DeliveryPage { deliveries, newest, oldest, next }))
    }

    pub(crate) async fn attempt_again(
        &self,
        app: AppName,
        delivery: u64,
    ) -> Result<bool, ProviderError> {
        let call = ApiRequest {
            operation: "redeliver",
            method: Method::POST,
            path: format!("/app/hook/deliveries/{delivery}/attempts"),
            body: None,
        };
        let answer = self.call_as_app(app, &call).await?;
        match answer.status {
            status if status.is_success() => Ok(true),
            StatusCode::NOT_FOUND | StatusCode::UNPROCESSABLE_ENTITY => Ok(false),
            _ => Err(answer.trouble()),
        }
    }
}

/// Returns the cursor of the next page. It is used in a URL unchanged, so it must need no encoding.
fn cursor_of(address: &str) -> Option<&str> {
    let (_, query) = address.split_once('?')?;
    let cursor = query.split('&').find_map(|pair| pair.strip_prefix("cursor="))?;
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "_-.~%".contains(one);
    (!cursor.is_empty() && cursor.chars().all(is_plain)).then_some(cursor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_begins_at_its_cursor() {
        assert_eq!(
            cursor_of("https://h/app/hook/deliveries?per_page=100&cursor=v1_2"),
            Some("v1_2")
        );
        assert_eq!(cursor_of("https://h/app/hook/deliveries?cursor=a%3D"), Some("a%3D"));
        assert_eq!(cursor_of("https://h/x?cursor=a b"), None);
        assert_eq!(cursor_of("https://h/x?cursor="), None);
        assert_eq!(cursor_of("https://h/x?page=2"), None);
        assert_eq!(cursor_of("https://h/x"), None);
    }

    #[test]
    fn an_attempt_is_settled_by_an_answer_that_another_one_would_get_again() {
        let of = |status_code| DeliveryAttempt {
            id: 1,
            guid: "g".to_owned(),
            delivered_at: jiff::Timestamp::UNIX_EPOCH,
            status_code,
            redelivery: false,
            event: JOBS.to_owned(),
            action: None,
        };
        for code in [200, 202, 204, 400, 413, 422] {
            assert!(of(Some(code)).is_settled(), "{code}");
        }
        for code in [0, 301, 401, 403, 404, 408, 429, 500, 502, 503] {
            assert!(!of(Some(code)).is_settled(), "{code}");
        }
        assert!(!of(None).is_settled());
    }
}
