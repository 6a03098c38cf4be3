//! Control of the agents that GitHub lists and takes.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use muster_cloud::github::Agents;
use serde::Deserialize;

use super::{super::cloud::Cloud, Answer, refuse, say};
use crate::machine::pack_agent;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Said {
    /// The newest version, whose archive machines can take from now on.
    #[serde(default)]
    lists: Option<String>,
    /// Every older one is refused.
    #[serde(default)]
    takes_from: Option<String>,
}

pub(super) async fn set(State(cloud): State<Arc<Cloud>>, Json(said): Json<Said>) -> Answer {
    let mut agents = Agents::default();
    if let Some(version) = &said.lists {
        let packed = pack_agent(&cloud.state_dir, version).await;
        let sha256 = match packed {
            Ok(sha256) => sha256,
            Err(error) => return refuse(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        };
        let folder = cloud.look(|world, _| format!("{}/agents", world.github.agent_url));
        agents = Agents::listing(version, &folder, &sha256);
    }
    agents.takes_from = said.takes_from;
    cloud.with(|world, _| world.github.agents = agents.clone());
    say(agents)
}
