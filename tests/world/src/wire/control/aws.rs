//! Control of the AWS side: stacks, capacity, machines.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, Query, State},
    http::StatusCode,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{super::cloud::Cloud, Answer, done, merged, refuse, say};
use muster_cloud::{
    Stack, Timings,
    ec2::{
        CapacityRule, Ec2Toggles, Image, Instance, LaunchTemplate, PlaceSpec, TemplateRef,
        network::Network,
    },
    github::Assignment,
    machines::{Death, Script},
};

type World = State<Arc<Cloud>>;

#[derive(Deserialize)]
pub(super) struct OfStack {
    stack: Option<String>,
}

/// A stack, and the launch templates it is about to use.
#[derive(Deserialize)]
pub(super) struct NewStack {
    #[serde(flatten)]
    stack: Stack,
    /// Ids to fetch from the emulator now, so that a missing one shows here and not at a launch.
    #[serde(default)]
    launch_templates: Vec<String>,
}

pub(super) async fn register_stack(State(cloud): World, Json(mut new): Json<NewStack>) -> Answer {
    for id in std::mem::take(&mut new.launch_templates) {
        let Some(emulator) = &cloud.emulator else {
            return refuse(StatusCode::BAD_REQUEST, "the world was started without an emulator");
        };
        let version = Some("$Latest".to_owned());
        match emulator
            .launch_template(&TemplateRef { id: Some(id.clone()), name: None, version })
            .await
        {
            Ok(Some(template)) => cloud.with(|world, _| world.ec2.put_template(template)),
            Ok(None) => {
                let message = format!("the emulator has no launch template {id}");
                return refuse(StatusCode::NOT_FOUND, message);
            }
            Err(error) => return refuse(StatusCode::BAD_GATEWAY, error),
        }
    }
    cloud.with(|world, _| world.stacks.insert(new.stack.stack.clone(), new.stack));
    done()
}

pub(super) async fn stacks(State(cloud): World) -> Answer {
    cloud.look(|world, _| say(world.stacks.values().collect::<Vec<_>>()))
}

pub(super) async fn put_template(
    State(cloud): World,
    Json(template): Json<LaunchTemplate>,
) -> Answer {
    cloud.with(|world, _| world.ec2.put_template(template));
    done()
}

pub(super) async fn put_image(State(cloud): World, Json(image): Json<Image>) -> Answer {
    cloud.with(|world, _| world.ec2.put_image(image));
    done()
}

pub(super) async fn set_network(State(cloud): World, Json(network): Json<Network>) -> Answer {
    cloud.with(|world, _| world.ec2.network = network);
    done()
}

pub(super) async fn network(State(cloud): World) -> Answer {
    cloud.look(|world, _| say(&world.ec2.network))
}

pub(super) async fn set_capacity(
    State(cloud): World,
    Json(rules): Json<Vec<CapacityRule>>,
) -> Answer {
    cloud.with(|world, _| world.ec2.set_capacity(rules));
    done()
}

pub(super) async fn capacity(State(cloud): World) -> Answer {
    cloud.look(|world, _| say(world.ec2.capacity()))
}

pub(super) async fn set_timings(State(cloud): World, Json(patch): Json<Value>) -> Answer {
    let current = cloud.look(|world, _| world.timings().clone());
    let timings: Timings = merged(&current, patch)?;
    cloud.with(|world, _| *world.timings_mut() = timings);
    done()
}

pub(super) async fn timings(State(cloud): World) -> Answer {
    cloud.look(|world, _| say(world.timings()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Toggles {
    #[serde(default)]
    ec2: Option<Value>,
    #[serde(default)]
    assignment: Option<Assignment>,
    #[serde(default)]
    reused_jwt_allowed: Option<bool>,
}

pub(super) async fn set_toggles(State(cloud): World, Json(toggles): Json<Toggles>) -> Answer {
    let current = cloud.look(|world, _| world.ec2.toggles.clone());
    let ec2: Ec2Toggles = merged(&current, toggles.ec2.unwrap_or(json!({})))?;
    cloud.with(|world, _| {
        world.ec2.toggles = ec2;
        if let Some(assignment) = toggles.assignment {
            world.github.assignment = assignment;
        }
        if let Some(allowed) = toggles.reused_jwt_allowed {
            world.github.reused_jwt_allowed = allowed;
        }
    });
    done()
}

pub(super) async fn toggles(State(cloud): World) -> Answer {
    cloud.look(|world, _| {
        say(json!({
            "ec2": world.ec2.toggles,
            "assignment": world.github.assignment,
            "reused_jwt_allowed": world.github.reused_jwt_allowed,
        }))
    })
}

pub(super) async fn script(State(cloud): World, Json(script): Json<Script>) -> Answer {
    cloud.with(|world, _| world.machines.script(script));
    done()
}

pub(super) async fn clear_scripts(State(cloud): World, Query(of): Query<OfStack>) -> Answer {
    cloud.with(|world, _| world.machines.clear_scripts(of.stack.as_deref()));
    done()
}

pub(super) async fn instances(State(cloud): World, Query(of): Query<OfStack>) -> Answer {
    cloud.look(|world, _| {
        let is_asked_for =
            |one: &&Instance| of.stack.is_none() || one.stack() == of.stack.as_deref();
        say(world.ec2.instances().iter().filter(is_asked_for).collect::<Vec<_>>())
    })
}

pub(super) async fn place(State(cloud): World, Json(spec): Json<PlaceSpec>) -> Answer {
    let id = cloud.with(|world, now| world.place_instance(&spec, now));
    say(json!({ "id": id }))
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Act {
    death: Death,
    on: Option<bool>,
}

pub(super) async fn act_on_instance(
    State(cloud): World,
    Path((id, action)): Path<(String, String)>,
    body: Option<Json<Act>>,
) -> Answer {
    let act = body.map(|Json(act)| act).unwrap_or_default();
    let result = cloud.with(|world, now| {
        if world.ec2.instance(&id).is_none() {
            return Err("no such instance".to_owned());
        }
        match action.as_str() {
            "stop" => world.stop_instance(&id, now),
            "interrupt" => world.interrupt_spot(&id, now),
            "protect" => world.protect(&id, act.on.unwrap_or(true)),
            "die" => {
                world.kill_machine(&id, act.death, now);
                Ok(())
            }
            "terminate" => {
                let ids = std::slice::from_ref(&id);
                world.terminate_instances(ids, now).map(|_| ()).map_err(|e| e.message)
            }
            other => Err(format!("no such action: {other}")),
        }
    });
    match result {
        Ok(()) => done(),
        Err(message) => refuse(StatusCode::CONFLICT, message),
    }
}

pub(super) async fn machines(State(cloud): World, Query(of): Query<OfStack>) -> Answer {
    cloud.look(|world, _| {
        let found: Vec<_> =
            world.machines.iter().filter(|m| of.stack.is_none() || m.stack == of.stack).collect();
        say(found)
    })
}

pub(super) async fn console(
    State(cloud): World,
    Path(id): Path<String>,
) -> Result<String, StatusCode> {
    // The id becomes part of a path: only what the model knows may.
    let known = cloud.look(|world, _| world.machines.get(&id).is_some());
    let path = cloud.state_dir.join("machines").join(&id).join("console");
    if !known {
        return Err(StatusCode::NOT_FOUND);
    }
    Ok(std::fs::read_to_string(path).unwrap_or_default())
}
