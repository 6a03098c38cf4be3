//! Control of the GitHub side: owners, jobs, webhooks.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json,
    extract::{Path, Query, State},
    http::StatusCode,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{super::cloud::Cloud, Answer, done, merged, of_github, refuse, say};
use muster_cloud::{
    Millis,
    github::{Group, HookRule, Job, JobSpec, Lies, OwnerSpec, Runner},
};

type World = State<Arc<Cloud>>;

#[derive(Deserialize)]
pub(super) struct OfOwner {
    owner: Option<String>,
    status: Option<String>,
    repo: Option<String>,
}

impl OfOwner {
    fn is(&self, login: &str) -> bool {
        self.owner.as_ref().is_none_or(|owner| owner.eq_ignore_ascii_case(login))
    }
}

pub(super) async fn register_owner(State(cloud): World, Json(spec): Json<OwnerSpec>) -> Answer {
    if super::super::github::public_key(&spec.app_public_key).is_none() {
        return refuse(StatusCode::BAD_REQUEST, "app_public_key is not an RSA key in PEM form");
    }
    let taken = cloud.look(|world, _| {
        let holder = world.github.installation(spec.installation_id);
        holder.is_some_and(|holder| !holder.spec.owner.eq_ignore_ascii_case(&spec.owner))
    });
    if taken {
        return refuse(StatusCode::CONFLICT, "another owner has this installation_id");
    }
    cloud.with(|world, _| world.register_owner(spec));
    done()
}

pub(super) async fn owners(State(cloud): World) -> Answer {
    cloud.look(|world, _| {
        let shown = world.github.owners().map(|owner| {
            let mut view = serde_json::to_value(&owner.spec).unwrap_or_default();
            view["id"] = json!(owner.id);
            view
        });
        say(shown.collect::<Vec<_>>())
    })
}

pub(super) async fn set_groups(
    State(cloud): World,
    Path(owner): Path<String>,
    Json(groups): Json<Vec<Group>>,
) -> Answer {
    cloud.with(|world, _| world.set_groups(&owner, groups)).map_err(of_github)?;
    done()
}

pub(super) async fn set_lies(
    State(cloud): World,
    Path(owner): Path<String>,
    Json(patch): Json<Value>,
) -> Answer {
    let current = cloud.look(|world, _| world.github.owner(&owner).map(|o| o.spec.lies.clone()));
    let Some(current) = current else { return refuse(StatusCode::NOT_FOUND, "no such owner") };
    let lies: Lies = merged(&current, patch)?;
    cloud.with(|world, _| world.set_lies(&owner, lies)).map_err(of_github)?;
    done()
}

/// An App, as its owner changes it; what is not named stays.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ChangedApp {
    settings: Value,
    hook: Value,
}

pub(super) async fn set_app(
    State(cloud): World,
    Path(app): Path<String>,
    Json(ChangedApp { settings, hook }): Json<ChangedApp>,
) -> Answer {
    let current = cloud.look(|world, _| {
        world.github.app_settings(&app).cloned().zip(world.github.hook(&app).cloned())
    });
    let Some(current) = current else { return refuse(StatusCode::NOT_FOUND, "no such App") };
    let (settings, hook) = (merged(&current.0, settings)?, merged(&current.1, hook)?);
    cloud.with(|world, _| {
        world.github.set_app(&app, settings);
        world.github.set_hook(&app, hook);
    });
    done()
}

pub(super) async fn app(State(cloud): World, Path(app): Path<String>) -> Answer {
    cloud.look(|world, _| match world.github.app_settings(&app).zip(world.github.hook(&app)) {
        None => refuse(StatusCode::NOT_FOUND, "no such App"),
        Some((settings, hook)) => say(json!({ "settings": settings, "hook": hook })),
    })
}

/// What is not named stays.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pages {
    /// Whether the person who is logged in owns these organizations.
    #[serde(default)]
    owns: BTreeMap<String, bool>,
    /// Where the pages are, in what GitHub shows of Apps that are made there.
    #[serde(default)]
    address: Option<String>,
    /// A webhook may be at an address that leads back to its caller.
    #[serde(default)]
    local_hooks_allowed: Option<bool>,
}

pub(super) async fn set_pages(State(cloud): World, Json(told): Json<Pages>) -> Answer {
    cloud.with(|world, _| {
        for (organization, is_owned) in &told.owns {
            world.set_organization(organization, *is_owned);
        }
        if told.address.is_some() {
            world.github.pages_address = told.address;
        }
        if let Some(allowed) = told.local_hooks_allowed {
            world.github.local_hooks_allowed = allowed;
        }
    });
    done()
}

pub(super) async fn pages(State(cloud): World) -> Answer {
    cloud.look(|world, _| {
        let person = &world.github.person;
        say(json!({
            "login": person.login,
            "owns": person.owns.keys().collect::<Vec<_>>(),
            "address": world.github.pages_address,
            "local_hooks_allowed": world.github.local_hooks_allowed,
        }))
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rate {
    remaining: u32,
    #[serde(default)]
    resets_in_ms: Millis,
}

pub(super) async fn set_rate(
    State(cloud): World,
    Path(owner): Path<String>,
    Json(rate): Json<Rate>,
) -> Answer {
    cloud
        .with(|world, now| world.set_rate(&owner, rate.remaining, now + rate.resets_in_ms))
        .map_err(of_github)?;
    done()
}

pub(super) async fn queue_job(State(cloud): World, Json(spec): Json<JobSpec>) -> Answer {
    let id = cloud.with(|world, now| world.queue_job(&spec, now)).map_err(of_github)?;
    cloud.look(|world, _| say(world.github.job(id)))
}

pub(super) async fn jobs(State(cloud): World, Query(of): Query<OfOwner>) -> Answer {
    cloud.look(|world, _| {
        let wanted = |job: &&Job| {
            of.is(&job.repository.owner)
                && of.repo.as_ref().is_none_or(|repo| *repo == job.repository.name)
                && of.status.as_ref().is_none_or(|status| status == job.status.name())
        };
        say(world.github.jobs().filter(wanted).collect::<Vec<_>>())
    })
}

pub(super) async fn job(State(cloud): World, Path(id): Path<u64>) -> Answer {
    cloud.look(|world, _| match world.github.job(id) {
        None => refuse(StatusCode::NOT_FOUND, "no such job"),
        Some(job) => {
            let fitting: Vec<&str> = world
                .github
                .runners()
                .filter(|runner| world.github.serves(runner, job))
                .map(|runner| runner.name.as_str())
                .collect();
            let mut value = serde_json::to_value(job).unwrap_or_default();
            value["runners_that_fit"] = json!(fitting);
            say(value)
        }
    })
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Finish {
    conclusion: Option<String>,
}

pub(super) async fn finish_job(
    State(cloud): World,
    Path(id): Path<u64>,
    body: Option<Json<Finish>>,
) -> Answer {
    let conclusion = body.and_then(|Json(finish)| finish.conclusion);
    let conclusion = conclusion.unwrap_or_else(|| "success".to_owned());
    cloud.with(|world, _| world.finish_job(id, &conclusion)).map_err(of_github)?;
    done()
}

pub(super) async fn approve_job(State(cloud): World, Path(id): Path<u64>) -> Answer {
    cloud.with(|world, now| world.approve_job(id, now)).map_err(of_github)?;
    done()
}

pub(super) async fn cancel_job(State(cloud): World, Path(id): Path<u64>) -> Answer {
    cloud.with(|world, now| world.cancel_job(id, now)).map_err(of_github)?;
    done()
}

pub(super) async fn runners(State(cloud): World, Query(of): Query<OfOwner>) -> Answer {
    cloud.look(|world, now| {
        let offline_after = world.timings().offline_after_ms;
        let ours = |runner: &&Runner| of.is(runner.scope.owner());
        let registered: Vec<Value> = world
            .github
            .runners()
            .filter(ours)
            .map(|runner| {
                let mut view = world.github.see(runner, now, offline_after).json();
                view["truth"] = json!({
                    "scope": runner.scope,
                    "created_at": runner.created_at,
                    "session": world.github.session_view(runner.id),
                });
                view
            })
            .collect();
        let former: Vec<&Runner> = world.github.former_runners().iter().filter(ours).collect();
        say(json!({ "registered": registered, "former": former }))
    })
}

pub(super) async fn kills(State(cloud): World) -> Answer {
    cloud.look(|world, _| say(world.github.kills()))
}

pub(super) async fn add_hook_rule(State(cloud): World, Json(rule): Json<HookRule>) -> Answer {
    cloud.with(|world, _| world.github.add_hook_rule(rule));
    done()
}

pub(super) async fn clear_hook_rules(State(cloud): World, Query(of): Query<OfOwner>) -> Answer {
    cloud.with(|world, _| world.github.clear_hook_rules(of.owner.as_deref()));
    done()
}

pub(super) async fn deliveries(State(cloud): World, Query(of): Query<OfOwner>) -> Answer {
    cloud.look(|world, _| {
        let theirs = world.github.deliveries().filter(|delivery| of.is(delivery.owner()));
        say(theirs.map(|delivery| world.github.delivery_view(delivery)).collect::<Vec<_>>())
    })
}

pub(super) async fn delivery(State(cloud): World, Path(number): Path<u64>) -> Answer {
    cloud.look(|world, _| match world.github.delivery(number) {
        None => refuse(StatusCode::NOT_FOUND, "no such delivery"),
        Some(delivery) => {
            let mut value = world.github.delivery_view(delivery);
            value["body"] = json!(world.github.webhook(delivery).map(|webhook| webhook.body));
            say(value)
        }
    })
}

pub(super) async fn redeliver(State(cloud): World, Path(number): Path<u64>) -> Answer {
    cloud.with(|world, now| world.redeliver(number, now)).map_err(of_github)?;
    done()
}
