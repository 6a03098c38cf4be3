//! Control of faults, held calls, and the call log.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, Query, State},
    http::StatusCode,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    super::cloud::{Cloud, Release, lock},
    Answer, done, refuse, say,
};
use muster_cloud::{calls::CallFilter, faults::FaultSpec};

type World = State<Arc<Cloud>>;

pub(super) async fn add(State(cloud): World, Json(spec): Json<FaultSpec>) -> Answer {
    match cloud.with(|world, _| world.faults.add(spec)) {
        Ok(id) => say(json!({ "id": id })),
        Err(message) => refuse(StatusCode::UNPROCESSABLE_ENTITY, message),
    }
}

pub(super) async fn all(State(cloud): World) -> Answer {
    cloud.look(|world, _| say(world.faults.all()))
}

#[derive(Deserialize)]
pub(super) struct OfStack {
    stack: Option<String>,
}

pub(super) async fn clear(State(cloud): World, Query(of): Query<OfStack>) -> Answer {
    cloud.with(|world, _| world.faults.clear(of.stack.as_deref()));
    done()
}

pub(super) async fn remove(State(cloud): World, Path(id): Path<u64>) -> Answer {
    if cloud.with(|world, _| world.faults.remove(id)) {
        return done();
    }
    refuse(StatusCode::NOT_FOUND, "no such fault")
}

pub(super) async fn holds(State(cloud): World) -> Answer {
    let holds: Vec<Value> = lock(&cloud.holds)
        .values()
        .map(|hold| json!({ "call": hold.call, "info": hold.info }))
        .collect();
    say(holds)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Then {
    then: Release,
}

pub(super) async fn release(
    State(cloud): World,
    Path(call): Path<u64>,
    Json(Then { then }): Json<Then>,
) -> Answer {
    let hold = lock(&cloud.holds).remove(&call);
    if hold.is_some_and(|hold| hold.release.send(then).is_ok()) {
        return done();
    }
    refuse(StatusCode::NOT_FOUND, "no such call is held")
}

pub(super) async fn calls(State(cloud): World, Query(filter): Query<CallFilter>) -> Answer {
    cloud.look(|world, _| say(world.calls.select(&filter).collect::<Vec<_>>()))
}

pub(super) async fn forget_calls(State(cloud): World, Query(filter): Query<CallFilter>) -> Answer {
    cloud.with(|world, _| world.calls.forget(&filter));
    done()
}

pub(super) async fn counters(State(cloud): World, Query(filter): Query<CallFilter>) -> Answer {
    cloud.look(|world, _| say(world.calls.count(&filter)))
}
