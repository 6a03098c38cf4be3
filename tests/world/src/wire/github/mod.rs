//! The GitHub REST door: the few routes that Muster needs, with GitHub's own answers.

mod jwt;
mod pages;
mod route;

use std::sync::Arc;

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{ConnectInfo, State},
    http::{HeaderMap, Method, Response, Uri, header},
};
use serde_json::{Value, json};

pub(super) use self::jwt::public_key;
use self::route::{Route, page_of, query};
use super::{
    cloud::Cloud,
    gate::{self, Reply},
    listener::Cut,
};
use muster_cloud::{
    Millis, World,
    calls::CallInfo,
    github::{Again, GitHubError, JitRequest, RateView, RunFacts, RunnerScope},
};

pub(super) fn router(cloud: Arc<Cloud>) -> Router {
    Router::new().fallback(handle).with_state(cloud)
}

struct Request {
    route: Route,
    path: String,
    query: Vec<(String, String)>,
    authorization: String,
    has_agent: bool,
    body: Bytes,
}

async fn handle(
    State(cloud): State<Arc<Cloud>>,
    ConnectInfo(cut): ConnectInfo<Cut>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let text = |name: header::HeaderName| {
        headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    let request = Request {
        route: Route::of(&method, uri.path()),
        path: uri.path().to_owned(),
        query: query(&uri),
        authorization: text(header::AUTHORIZATION),
        has_agent: headers.contains_key(header::USER_AGENT),
        body,
    };
    let info = cloud.look(|world, _| describe(world, &request));
    gate::pass(&cloud, &cut, info, write_error, |cloud| async move {
        cloud.with(|world, now| answer(world, &request, now))
    })
    .await
}

fn describe(world: &World, request: &Request) -> CallInfo {
    let owner = match &request.route {
        Route::AccessToken(installation) => {
            world.github.installation(*installation).map(|owner| owner.spec.owner.clone())
        }
        route => route.scope().map(|scope| scope.owner().to_owned()),
    };
    let stack = owner
        .as_deref()
        .and_then(|login| world.github.owner(login))
        .and_then(|owner| owner.spec.stack.clone());
    let named = serde_json::from_slice::<Value>(&request.body)
        .ok()
        .and_then(|body| body["name"].as_str().map(str::to_owned));
    CallInfo {
        door: "github",
        operation: request.route.operation().to_owned(),
        stack,
        owner,
        targets: request.route.targets().into_iter().chain(named).collect(),
    }
}

fn write_error(status: u16, _code: &str, message: &str) -> Reply {
    refuse(&GitHubError::new(status, message))
}

fn refuse(error: &GitHubError) -> Reply {
    let body = json!({
        "message": error.message,
        "documentation_url": "https://docs.github.com/rest",
        "status": error.status.to_string(),
    });
    Reply {
        headers: error.headers.clone(),
        code: error.message.clone(),
        ..json(error.status, &body)
    }
}

fn json(status: u16, body: &Value) -> Reply {
    Reply {
        status,
        content_type: "application/json; charset=utf-8",
        body: body.to_string().into_bytes(),
        ..Reply::default()
    }
}

fn answer(world: &mut World, request: &Request, now: Millis) -> Reply {
    if let Route::Page(page) = &request.route {
        let mut fields = request.query.clone();
        fields.extend(form_urlencoded::parse(&request.body).into_owned());
        return pages::show(world, page, &fields, now);
    }
    if !request.has_agent {
        let message = "Request forbidden by administrative rules. Please make sure your request \
                       has a User-Agent header.";
        return refuse(&GitHubError::new(403, message));
    }
    let answered = match &request.route {
        Route::AccessToken(installation) => access_token(world, request, *installation, now),
        Route::GetApp => get_app(world, request, now),
        Route::GetHook => get_hook(world, request, now),
        Route::SetHook => set_hook(world, request, now),
        // The code is all that is asked for.
        Route::Convert(code) => world.github.convert(code, now).map(|app| json(201, &app)),
        Route::ListDeliveries => list_deliveries(world, request, now),
        Route::Redeliver(attempt) => redeliver(world, request, *attempt, now),
        Route::ListInstallations => list_installations(world, request, now),
        Route::GetInstallation(scope) => get_installation(world, request, scope, now),
        Route::Unknown(what) => Err(GitHubError::new(
            501,
            format!("the simulated cloud does not know this route: {what}"),
        )),
        route => with_token(world, request, route, now),
    };
    answered.unwrap_or_else(|error| refuse(&error))
}

fn bearer(request: &Request) -> Result<&str, GitHubError> {
    let (scheme, credential) = request.authorization.split_once(' ').unwrap_or_default();
    if credential.is_empty() || !["bearer", "token"].contains(&&*scheme.to_ascii_lowercase()) {
        return Err(GitHubError::new(401, "Requires authentication"));
    }
    Ok(credential.trim())
}

/// Who the App is whose own token a request carries.
fn app_of(world: &mut World, request: &Request, now: Millis) -> Result<String, GitHubError> {
    let claims = jwt::verify(bearer(request)?, |app| world.github.app_key(app).map(str::to_owned))?;
    world.identify_app(&claims, now)
}

fn get_app(world: &mut World, request: &Request, now: Millis) -> Result<Reply, GitHubError> {
    let app = app_of(world, request, now)?;
    let view = world.github.app_view(&app).ok_or_else(GitHubError::not_found)?;
    Ok(json(200, &view))
}

fn get_hook(world: &mut World, request: &Request, now: Millis) -> Result<Reply, GitHubError> {
    let app = app_of(world, request, now)?;
    let hook = world.github.hook_view(&app).ok_or_else(GitHubError::not_found)?;
    Ok(json(200, &hook))
}

fn set_hook(world: &mut World, request: &Request, now: Millis) -> Result<Reply, GitHubError> {
    let app = app_of(world, request, now)?;
    let patch = serde_json::from_slice(&request.body)
        .map_err(|_| GitHubError::new(400, "Problems parsing JSON"))?;
    Ok(json(200, &world.github.patch_hook(&app, patch)?))
}

/// Its pages begin where the last one ended; the next one's beginning is in the `Link` header.
fn list_deliveries(
    world: &mut World,
    request: &Request,
    now: Millis,
) -> Result<Reply, GitHubError> {
    let app = app_of(world, request, now)?;
    let (_, size) = page_of(&request.query)?;
    let bad_cursor = || GitHubError::new(422, "cursor is not valid");
    let from = request.query.iter().find(|(key, _)| key == "cursor");
    let from: Option<u64> = from
        .map(|(_, value)| {
            let cursor = value.strip_prefix("v1_").and_then(|text| text.parse().ok());
            cursor.ok_or_else(bad_cursor)
        })
        .transpose()?;
    let github = &world.github;
    let page = github.attempts_page(&app, from, size, now).ok_or_else(bad_cursor)?;
    let shown: Vec<Value> =
        page.attempts.into_iter().map(|one| github.attempt_view(&app, one)).collect();
    let mut reply = json(200, &json!(shown));
    if let Some(next) = page.next {
        let next = format!("per_page={size}&cursor=v1_{next}");
        let link = format!("<https://api.github.com/app/hook/deliveries?{next}>; rel=\"next\"");
        reply.headers.push(("link".to_owned(), link));
    }
    Ok(reply)
}

fn redeliver(
    world: &mut World,
    request: &Request,
    attempt: u64,
    now: Millis,
) -> Result<Reply, GitHubError> {
    let app = app_of(world, request, now)?;
    world.attempt_again(&app, attempt, now)?;
    Ok(json(202, &json!({})))
}

fn access_token(
    world: &mut World,
    request: &Request,
    installation: u64,
    now: Millis,
) -> Result<Reply, GitHubError> {
    let claims = jwt::verify(bearer(request)?, |app| world.github.app_key(app).map(str::to_owned))?;
    let token = world.create_token(&claims, installation, now)?;
    Ok(json(201, &token.view()))
}

fn list_installations(
    world: &mut World,
    request: &Request,
    now: Millis,
) -> Result<Reply, GitHubError> {
    let app = app_of(world, request, now)?;
    listing(request, world.github.installations_view(&app), |_, shown| json!(shown))
}

fn get_installation(
    world: &mut World,
    request: &Request,
    scope: &RunnerScope,
    now: Millis,
) -> Result<Reply, GitHubError> {
    let app = app_of(world, request, now)?;
    let found = world.github.installation_view(&app, scope);
    found.map(|view| json(200, &view)).ok_or_else(|| GitHubError::new(404, "Not Found"))
}

fn with_token(
    world: &mut World,
    request: &Request,
    route: &Route,
    now: Millis,
) -> Result<Reply, GitHubError> {
    let scope = match route {
        // Whatever the token's account has.
        Route::ListRepositories => {
            let login = world.github.token_owner(bearer(request)?, now);
            RunnerScope::Organization(login.unwrap_or_default().to_owned())
        }
        route => route.scope().ok_or_else(|| GitHubError::new(404, "Not Found"))?,
    };
    let rate = world.authorize(bearer(request)?, &scope, now)?;
    let mut reply = act(world, request, &scope, now).unwrap_or_else(|error| refuse(&error));
    add_headers(&mut reply, rate);
    Ok(reply)
}

fn add_headers(reply: &mut Reply, rate: RateView) {
    reply.headers.extend(rate.headers());
    reply.headers.push(("x-github-api-version-selected".to_owned(), "2022-11-28".to_owned()));
}

fn act(
    world: &mut World,
    request: &Request,
    of: &RunnerScope,
    now: Millis,
) -> Result<Reply, GitHubError> {
    match &request.route {
        Route::ListRepositories => {
            let all = world.github.repositories_view(of.owner());
            listing(
                request,
                all,
                |total, shown| json!({ "total_count": total, "repositories": shown }),
            )
        }
        Route::ListGroups(scope) => {
            let all = world.github.groups_view(scope.owner());
            listing(
                request,
                all,
                |total, shown| json!({ "total_count": total, "runner_groups": shown }),
            )
        }
        Route::GenerateJit(scope) => generate_jit(world, request, scope, now),
        Route::ListRunners(scope) => {
            let name = request.query.iter().find(|(key, _)| key == "name");
            let name = name.map(|(_, value)| value.as_str());
            let page = page_of(&request.query)?;
            let (total, runners) = world.list_runners(scope, name, page, now);
            Ok(json(200, &json!({ "total_count": total, "runners": runners })))
        }
        Route::ListAgents(_) => Ok(json(200, &json!(world.github.agents_view()))),
        Route::GetRunner(scope, id) => Ok(json(200, &world.get_runner(scope, *id, now)?)),
        Route::DeleteRunner(scope, id) => {
            world.delete_runner(scope, *id, now)?;
            Ok(Reply { status: 204, ..Reply::default() })
        }
        Route::GetJob { owner, repo, id } => {
            let job = world.github.job_in(owner, repo, *id);
            let job = job.ok_or_else(|| GitHubError::new(404, "Not Found"))?;
            Ok(json(200, &world.github.job_view(job)))
        }
        Route::GetRun { owner, repo, run } => {
            let view = world.github.run_view(owner, repo, *run);
            view.map(|view| json(200, &view)).ok_or_else(|| GitHubError::new(404, "Not Found"))
        }
        Route::ListRuns { owner, repo } => {
            let status = request.query.iter().find(|(key, _)| key == "status");
            let status = status.map(|(_, value)| value.as_str());
            let runs = world.github.runs_view(owner, repo, status);
            listing(
                request,
                runs,
                |total, shown| json!({ "total_count": total, "workflow_runs": shown }),
            )
        }
        Route::RunJobs { owner, repo, run } => {
            let jobs = world.github.run_jobs_view(owner, repo, *run);
            listing(request, jobs, |total, shown| json!({ "total_count": total, "jobs": shown }))
        }
        Route::AttemptJobs { owner, repo, run, attempt } => {
            let jobs = world.github.attempt_jobs(owner, repo, *run, *attempt);
            let jobs = jobs.into_iter().map(|job| world.github.job_view(job)).collect();
            listing(request, jobs, |total, shown| json!({ "total_count": total, "jobs": shown }))
        }
        Route::LatestRuns { owner, repo, workflow } => {
            let of = |name: &str| {
                let found = request.query.iter().find(|(key, _)| key == name);
                found.map(|(_, value)| value.clone()).unwrap_or_default()
            };
            let facts = RunFacts { workflow: *workflow, event: of("event"), branch: of("branch") };
            let runs = world.github.runs_like(owner, repo, &facts).into_iter();
            let runs = runs.filter_map(|(run, _)| world.github.run_view(owner, repo, run));
            listing(
                request,
                runs.collect(),
                |total, shown| json!({ "total_count": total, "workflow_runs": shown }),
            )
        }
        Route::RerunJob { owner, repo, id } => {
            let job = world.github.job_in(owner, repo, *id).ok_or_else(GitHubError::not_found)?;
            world.rerun((owner, repo), job.run_id, Again::Job(*id), now)?;
            Ok(json(201, &json!({})))
        }
        Route::RerunFailed { owner, repo, run } => {
            world.rerun((owner, repo), *run, Again::Failed, now)?;
            Ok(json(201, &json!({})))
        }
        Route::AccessToken(_)
        | Route::GetApp
        | Route::GetHook
        | Route::SetHook
        | Route::Convert(_)
        | Route::Page(_)
        | Route::ListDeliveries
        | Route::Redeliver(_)
        | Route::ListInstallations
        | Route::GetInstallation(_)
        | Route::Unknown(_) => Err(GitHubError::new(404, "Not Found")),
    }
}

/// The page that was asked for, with a link to the next one if there is one.
fn listing(
    request: &Request,
    all: Vec<Value>,
    body: impl FnOnce(usize, Vec<Value>) -> Value,
) -> Result<Reply, GitHubError> {
    let (number, size) = page_of(&request.query)?;
    let total = all.len();
    let shown = all.into_iter().skip((number - 1) * size).take(size).collect();
    let mut reply = json(200, &body(total, shown));
    if number * size < total {
        let next = format!("{}?per_page={size}&page={}", request.path, number + 1);
        let link = format!("<https://api.github.com{next}>; rel=\"next\"");
        reply.headers.push(("link".to_owned(), link));
    }
    Ok(reply)
}

fn generate_jit(
    world: &mut World,
    request: &Request,
    scope: &RunnerScope,
    now: Millis,
) -> Result<Reply, GitHubError> {
    if serde_json::from_slice::<Value>(&request.body).is_err() {
        return Err(GitHubError::new(400, "Problems parsing JSON"));
    }
    let wanted: JitRequest = serde_json::from_slice(&request.body)
        .map_err(|error| GitHubError::new(422, format!("Invalid request.\n\n{error}")))?;
    let config = world.generate_jit(scope, &wanted, now)?;
    let runner = world.get_runner(scope, config.runner.id, now)?;
    let mut reply = json(201, &json!({ "runner": runner, "encoded_jit_config": config.encoded }));
    reply.targets = vec![config.runner.id.to_string()];
    Ok(reply)
}
