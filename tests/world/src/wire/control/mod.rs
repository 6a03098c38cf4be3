//! The control door: what tests say to the world, and ask of it. JSON both ways.
//!
//! | endpoint (below `/control`) | |
//! |-|-|
//! | `GET health` | the world is up |
//! | `POST stacks` · `GET` | a Muster stack: its reap queue, its machines' role |
//! | `POST owners` · `GET` | an account with the App: key, installation, webhook; with GitHub's id |
//! | `POST owners/{owner}/groups` | its runner groups beside the default one |
//! | `POST owners/{owner}/lies` | how GitHub's answers differ from the truth |
//! | `POST owners/{owner}/rate` | what is left of the rate limit |
//! | `POST pages` · `GET` | who is logged in at GitHub's pages, and what those allow |
//! | `POST apps/{app}` · `GET` | what an App is told and may do, and where its events go |
//! | `POST jobs` · `GET` · `GET jobs/{id}` | queue a job; look at jobs |
//! | `POST jobs/{id}/finish`, `…/approve`, `…/cancel` | end a job's work; approve the deployment that it waits for; cancel it |
//! | `POST agents` | the agent that GitHub lists as the newest, and from which on it takes them |
//! | `GET runners`, `GET kills` | registrations, old and new; jobs that lost their machine |
//! | `POST hooks` · `DELETE` | rules for webhook deliveries |
//! | `GET deliveries` · `GET deliveries/{n}` · `POST deliveries/{n}/send` | deliveries; send one again |
//! | `POST capacity` · `GET` | what EC2 can launch |
//! | `POST timings` · `GET`, `POST toggles` · `GET` | durations; undocumented behaviour |
//! | `POST behaviours` · `DELETE` | what goes wrong with the next machines |
//! | `POST instances` · `GET` | put an instance into the world; the truth about all |
//! | `POST instances/{id}/{stop,interrupt,terminate,protect,die}` | what others do to an instance |
//! | `GET machines`, `GET machines/{id}/console` | machines, and what they print |
//! | `POST templates` | launch templates for a world without emulator |
//! | `POST network` · `GET` | the VPC, its subnets and whatever decides whether machines get out, as a whole |
//! | `POST images` | an image that `DescribeImages` shows |
//! | `POST faults` · `GET` · `DELETE` · `DELETE faults/{id}` | what goes wrong with calls |
//! | `GET holds` · `POST holds/{call}` | calls that wait; let one go |
//! | `POST notices/{receiver}` · `GET` | somebody who is told notices; what was told |
//! | `GET calls` · `DELETE`, `GET counters` | the call log; how many calls there were |

mod agents;
mod aws;
mod faults;
mod github;
mod notices;

use std::sync::Arc;

use axum::{
    Json, Router,
    http::StatusCode,
    routing::{get, post},
};
use serde_json::{Value, json};

use super::cloud::Cloud;
use muster_cloud::github::GitHubError;

/// An answer; an error is `{"error": "…"}`.
type Answer = Result<Json<Value>, (StatusCode, Json<Value>)>;

pub(super) fn router(cloud: Arc<Cloud>) -> Router {
    Router::new()
        .route("/control/health", get(async || done()))
        .merge(aws_routes())
        .merge(github_routes())
        .merge(fault_routes())
        .fallback(async || -> Answer { refuse(StatusCode::NOT_FOUND, "no such control endpoint") })
        .with_state(cloud)
        .merge(notices::routes())
}

fn aws_routes() -> Router<Arc<Cloud>> {
    Router::new()
        .route("/control/stacks", post(aws::register_stack).get(aws::stacks))
        .route("/control/templates", post(aws::put_template))
        .route("/control/network", post(aws::set_network).get(aws::network))
        .route("/control/images", post(aws::put_image))
        .route("/control/capacity", post(aws::set_capacity).get(aws::capacity))
        .route("/control/timings", post(aws::set_timings).get(aws::timings))
        .route("/control/toggles", post(aws::set_toggles).get(aws::toggles))
        .route("/control/behaviours", post(aws::script).delete(aws::clear_scripts))
        .route("/control/instances", get(aws::instances).post(aws::place))
        .route("/control/instances/{id}/{action}", post(aws::act_on_instance))
        .route("/control/machines", get(aws::machines))
        .route("/control/machines/{id}/console", get(aws::console))
}

fn github_routes() -> Router<Arc<Cloud>> {
    Router::new()
        .route("/control/owners", post(github::register_owner).get(github::owners))
        .route("/control/owners/{owner}/groups", post(github::set_groups))
        .route("/control/owners/{owner}/lies", post(github::set_lies))
        .route("/control/owners/{owner}/rate", post(github::set_rate))
        .route("/control/apps/{app}", post(github::set_app).get(github::app))
        .route("/control/pages", post(github::set_pages).get(github::pages))
        .route("/control/jobs", post(github::queue_job).get(github::jobs))
        .route("/control/jobs/{id}", get(github::job))
        .route("/control/jobs/{id}/finish", post(github::finish_job))
        .route("/control/jobs/{id}/approve", post(github::approve_job))
        .route("/control/jobs/{id}/cancel", post(github::cancel_job))
        .route("/control/agents", post(agents::set))
        .route("/control/runners", get(github::runners))
        .route("/control/kills", get(github::kills))
        .route("/control/hooks", post(github::add_hook_rule).delete(github::clear_hook_rules))
        .route("/control/deliveries", get(github::deliveries))
        .route("/control/deliveries/{number}", get(github::delivery))
        .route("/control/deliveries/{number}/send", post(github::redeliver))
}

fn fault_routes() -> Router<Arc<Cloud>> {
    Router::new()
        .route("/control/faults", post(faults::add).get(faults::all).delete(faults::clear))
        .route("/control/faults/{id}", axum::routing::delete(faults::remove))
        .route("/control/holds", get(faults::holds))
        .route("/control/holds/{call}", post(faults::release))
        .route("/control/calls", get(faults::calls).delete(faults::forget_calls))
        .route("/control/counters", get(faults::counters))
}

fn done() -> Answer {
    Ok(Json(json!({ "ok": true })))
}

fn say(value: impl serde::Serialize) -> Answer {
    match serde_json::to_value(value) {
        Ok(value) => Ok(Json(value)),
        Err(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

fn refuse<T>(
    status: StatusCode,
    message: impl Into<String>,
) -> Result<T, (StatusCode, Json<Value>)> {
    Err((status, Json(json!({ "error": message.into() }))))
}

fn of_github(error: GitHubError) -> (StatusCode, Json<Value>) {
    let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::BAD_REQUEST);
    (status, Json(json!({ "error": error.message })))
}

/// Puts what a test wrote over what holds already, so that one field can be changed alone.
fn merged<T>(current: &T, patch: Value) -> Result<T, (StatusCode, Json<Value>)>
where
    T: serde::Serialize + serde::de::DeserializeOwned,
{
    let mut value = match serde_json::to_value(current) {
        Ok(value) => value,
        Err(error) => return refuse(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    };
    if let (Some(value), Value::Object(patch)) = (value.as_object_mut(), patch) {
        value.extend(patch);
    }
    match serde_json::from_value(value) {
        Ok(value) => Ok(value),
        Err(error) => refuse(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()),
    }
}
