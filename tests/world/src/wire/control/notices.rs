//! Somebody who is told notices: takes what comes, and shows it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::routing::post;
use axum::{
    Json, Router,
    extract::{Path, State},
};
use serde_json::Value;

use super::{Answer, done, say};

/// What was told, in order, by receiver.
type Told = Arc<Mutex<BTreeMap<String, Vec<Value>>>>;

pub(super) fn routes() -> Router {
    Router::new()
        .route("/control/notices/{receiver}", post(take).get(told))
        .with_state(Told::default())
}

async fn take(
    State(all): State<Told>,
    Path(receiver): Path<String>,
    Json(message): Json<Value>,
) -> Answer {
    all.lock().unwrap_or_else(PoisonError::into_inner).entry(receiver).or_default().push(message);
    done()
}

async fn told(State(all): State<Told>, Path(receiver): Path<String>) -> Answer {
    let all = all.lock().unwrap_or_else(PoisonError::into_inner);
    say(all.get(&receiver).cloned().unwrap_or_default())
}
