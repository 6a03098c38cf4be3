//! Resolution of a pool file's names: the calls, and the meaning of each response.

mod support;

use axum::http::Method;
use muster_control::ports::{Directory, Github};
use muster_domain::app::{AppProblem, AppSettings, Hook};
use muster_domain::ids::{AppName, Entity, EntityKind, InstallationId};
use muster_domain::inquiry::ListPosition;
use muster_domain::pool_file::{EntityId, RunnerGroup};
use muster_domain::provider::ProviderError;
use serde_json::{Value, json};
use support::{Fake, Reply, now, reply};

const INSTALLATIONS: &str = "/app/installations";
const REPOSITORIES: &str = "/installation/repositories";
const GROUPS: &str = "/actions/runner-groups";

fn id(kind: EntityKind, number: u64) -> EntityId {
    EntityId { app: AppName::MAIN, kind, number }
}

fn entity(text: &str) -> Entity {
    text.parse().expect("an entity")
}

/// Installations in GitHub's form: an organization, a user, an enterprise, and a suspended one.
fn installations() -> Value {
    json!([
        { "id": 11, "target_type": "Organization", "target_id": 9919, "suspended_at": null,
          "account": { "id": 9919, "login": "acme", "type": "Organization" } },
        { "id": 12, "target_type": "User", "target_id": 583_231,
          "account": { "id": 583_231, "login": "octocat", "type": "User" } },
        { "id": 13, "target_type": "Enterprise", "target_id": 42,
          "account": { "id": 42, "slug": "big", "name": "Big Inc" } },
        { "id": 14, "target_type": "Organization", "suspended_at": "2026-11-01T00:00:00Z",
          "account": { "id": 77, "login": "asleep", "type": "Organization" } },
    ])
}

/// A page that is not the last one.
fn page(body: &Value) -> Reply {
    let links = r#"<https://api.github.com/x?page=2>; rel="next", <https://api.github.com/x?page=9>; rel="last""#;
    reply(200, body).header("link", links)
}

fn last(body: &Value) -> Reply {
    reply(200, body).header("link", r#"<https://api.github.com/x?page=1>; rel="first""#)
}

async fn fake() -> Fake {
    let fake = Fake::start().await;
    fake.on(Method::GET, INSTALLATIONS, [reply(200, installations())]);
    fake
}

#[tokio::test]
async fn organizations_and_enterprises_are_found_among_the_installations() {
    let fake = fake().await;
    let app = fake.app();
    for (kind, number, expected) in [
        (EntityKind::Organization, 9919, Some("acme")),
        (EntityKind::Enterprise, 42, Some("enterprises/big")),
        // Not installed, a user, suspended, and an ID of a different kind.
        (EntityKind::Organization, 1, None),
        (EntityKind::Organization, 583_231, None),
        (EntityKind::Organization, 77, None),
        (EntityKind::Organization, 42, None),
        (EntityKind::Enterprise, 9919, None),
    ] {
        let found = app.entity(id(kind, number)).await;
        assert_eq!(found, Ok(expected.map(entity)), "{kind:?} {number}");
    }
    // As the App itself: no installation is used.
    let asked = fake.asked();
    assert!(asked.iter().all(|one| one.path == "/app/installations?per_page=100&page=1"));
    assert!(asked.iter().all(|one| one.bearer().starts_with("eyJ")));
}

#[tokio::test]
async fn a_listing_is_read_to_its_end() {
    let fake = Fake::start().await;
    let all = installations();
    let pages = [page(&json!([all[1]])), page(&json!([])), last(&json!([all[0]]))];
    fake.on(Method::GET, INSTALLATIONS, pages);
    let found = fake.app().entity(id(EntityKind::Organization, 9919)).await;
    assert_eq!(found, Ok(Some(entity("acme"))));
    assert_eq!(fake.paths()[2], "GET /app/installations?per_page=100&page=3");
    // Absence is proven only by the end of the listing.
    fake.on(Method::GET, INSTALLATIONS, [page(&json!([]))]);
    let found = fake.app().entity(id(EntityKind::Organization, 9919)).await;
    assert!(matches!(&found, Err(ProviderError::Unavailable(fault)) if fault.code == "too-many"));
}

#[tokio::test]
async fn repositories_are_listed_page_by_page_with_two_calls_each() {
    let fake = fake().await;
    let listed = |name: &str| json!({ "repositories": [{ "id": 1, "full_name": name }] });
    let refused = reply(403, r#"{"message":"Resource not accessible"}"#);
    let pages =
        [page(&listed("acme/web")), last(&listed("acme/api")), refused, last(&listed("b/c"))];
    fake.on(Method::GET, REPOSITORIES, pages);
    let at = |installation, page| {
        Some(ListPosition { installation: InstallationId(installation), page })
    };
    let app = fake.app();
    let (mut place, mut seen) = (None, Vec::new());
    for _ in 0..4 {
        let page = app.repositories_from(AppName::MAIN, place).await.expect("an answer");
        let names: Vec<String> = page.repositories.iter().map(ToString::to_string).collect();
        seen.push((names.concat(), page.passed_over.is_some(), page.next));
        place = page.next;
    }
    let expected = [
        ("acme/web", false, at(11, 2)),
        ("acme/api", false, at(12, 1)),
        // One owner's refusal does not affect the others.
        ("", true, at(13, 1)),
        ("b/c", false, None),
    ];
    assert_eq!(
        seen,
        expected.map(|(name, passed_over, next)| (name.to_owned(), passed_over, next))
    );
    let calls = |of: &str| fake.paths().iter().filter(|path| path.contains(of)).count();
    assert_eq!((calls("/app/installations?"), calls(REPOSITORIES)), (4, 4));
    let end = app.repositories_from(AppName::MAIN, at(99, 1)).await.expect("an answer");
    assert!(end.repositories.is_empty() && end.next.is_none());
}

#[tokio::test]
async fn a_repository_is_found_among_those_of_the_installations() {
    let fake = fake().await;
    let listed = |rows: Value| json!({ "total_count": 1, "repositories": rows });
    let other = listed(json!([{ "id": 1, "full_name": "acme/web" }]));
    let found = listed(json!([{ "id": 1_296_269, "full_name": "octocat/Hello-World" }]));
    fake.on(Method::GET, REPOSITORIES, [page(&other), last(&other), last(&found)]);
    let app = fake.app();
    let repository = app.entity(id(EntityKind::Repository, 1_296_269)).await;
    assert_eq!(repository, Ok(Some(entity("octocat/Hello-World"))));
    assert_eq!(
        fake.paths()[1..],
        [
            "POST /app/installations/11/access_tokens",
            "GET /installation/repositories?per_page=100&page=1",
            "GET /installation/repositories?per_page=100&page=2",
            "POST /app/installations/12/access_tokens",
            "GET /installation/repositories?per_page=100&page=1",
        ]
    );
    assert_eq!(fake.asked()[1].body, json!({ "permissions": { "metadata": "read" } }));
    let unknown = app.entity(id(EntityKind::Repository, 2)).await;
    assert_eq!(unknown, Ok(None));
    // Every installation except the suspended one, each with a separate token.
    assert_eq!(fake.count("/access_tokens"), 3);
}

#[tokio::test]
async fn groups_are_those_of_the_organization_or_enterprise() {
    let fake = Fake::start().await;
    let listed = |id: u64, name: &str| {
        json!({ "total_count": 2, "runner_groups": [
            { "id": id, "name": name, "default": id == 1, "visibility": "all" } ] })
    };
    fake.on(Method::GET, "/installation", [reply(200, json!({ "id": 11 }))]);
    for (text, path) in [("acme", "/orgs/acme"), ("enterprises/big", "/enterprises/big")] {
        fake.on(Method::GET, GROUPS, [page(&listed(1, "Default")), last(&listed(5, "gpu"))]);
        let groups = fake.app().groups(&entity(text)).await;
        assert_eq!(groups, Ok(vec![RunnerGroup::new(1, "Default"), RunnerGroup::new(5, "gpu")]));
        let asked = fake.paths();
        let expected = format!("GET {path}{GROUPS}?per_page=100&page=2");
        assert_eq!(asked.last(), Some(&expected), "{asked:?}");
    }
}

/// A missing response never counts as absence.
#[tokio::test]
async fn trouble_is_told_as_what_it_is() {
    type Is = fn(&ProviderError) -> bool;
    let rows: [(Reply, Is); 5] = [
        (reply(401, ""), |trouble| matches!(trouble, ProviderError::Unauthorized(_))),
        (reply(403, ""), |trouble| matches!(trouble, ProviderError::Unauthorized(_))),
        (reply(404, ""), |trouble| matches!(trouble, ProviderError::Unauthorized(_))),
        (reply(429, ""), |trouble| matches!(trouble, ProviderError::RateLimited(_))),
        (reply(502, "<html>"), |trouble| matches!(trouble, ProviderError::Unavailable(_))),
    ];
    for (answer, is) in rows {
        let fake = fake().await;
        fake.on(Method::GET, "/installation", [reply(200, json!({ "id": 11 }))]);
        fake.on(Method::GET, GROUPS, [answer.clone()]);
        fake.on(Method::GET, REPOSITORIES, [answer.clone()]);
        let app = fake.app();
        let groups = app.groups(&entity("acme")).await.expect_err("trouble");
        assert!(is(&groups), "{groups:?}");
        let repository = app.entity(id(EntityKind::Repository, 1)).await.expect_err("trouble");
        assert!(is(&repository), "{repository:?}");
        fake.on(Method::GET, INSTALLATIONS, [answer]);
        let organization = app.entity(id(EntityKind::Organization, 1)).await.expect_err("trouble");
        assert!(is(&organization), "{organization:?}");
    }
    let fake = fake().await;
    fake.on(Method::GET, INSTALLATIONS, [reply(200, "[{}]")]);
    let odd = fake.app().entity(id(EntityKind::Organization, 9919)).await;
    assert!(matches!(&odd, Err(ProviderError::Unavailable(fault)) if fault.code == "unreadable"));
}

#[tokio::test]
async fn the_app_is_asked_for_as_itself() {
    let fake = Fake::start().await;
    let answer = json!({
        "id": 31415, "slug": "muster", "name": "Muster", "installations_count": 1,
        "owner": { "id": 9919, "login": "acme", "type": "Organization" },
        "html_url": "https://github.com/apps/muster",
        "events": ["push", "workflow_job"],
        "permissions": { "actions": "read", "organization_self_hosted_runners": "write" },
    });
    let enterprise = json!({ "id": 1, "owner": { "id": 1, "slug": "big" } });
    let answers = [reply(200, answer), reply(200, enterprise), reply(200, json!({ "id": 31415 }))];
    fake.on(Method::GET, "/app", answers);
    let app = fake.app();
    let settings = app.app(AppName::MAIN).await.expect("an answer");
    assert_eq!(settings.events, ["push", "workflow_job"]);
    assert_eq!(settings.permissions.get("actions").map(String::as_str), Some("read"));
    assert_eq!(settings.owner.as_deref(), Some("acme"));
    let owner = app.app(AppName::MAIN).await.expect("an answer").owner;
    assert_eq!(owner.as_deref(), Some("enterprises/big"));
    let bare = AppSettings { id: 31415, ..AppSettings::default() };
    assert_eq!(app.app(AppName::MAIN).await, Ok(bare), "what GitHub leaves out is not there");
}

/// A wrong ID, a key of a different App and a wrong clock are all rejected in one way.
#[tokio::test]
async fn why_there_is_no_app_is_told_apart() {
    let at = |seconds: i64| {
        let time = jiff::Timestamp::from_millisecond(now().as_millis()).expect("a time");
        let time = time + jiff::SignedDuration::from_secs(seconds);
        time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
    };
    let undecodable = json!({ "message": "A JSON web token could not be decoded" });
    let integration = json!({ "message": "Integration not found" });
    let app = || "4242".to_owned();
    for (answer, expected) in [
        (
            reply(401, &undecodable).header("date", at(0)),
            AppProblem::Refused { app: app(), ahead: 0 },
        ),
        (
            reply(401, &undecodable).header("date", at(75)),
            AppProblem::Refused { app: app(), ahead: 75 },
        ),
        (
            reply(401, &undecodable).header("date", at(-600)),
            AppProblem::Refused { app: app(), ahead: -600 },
        ),
        (reply(401, &integration), AppProblem::Unknown { app: app() }),
        (reply(404, &integration), AppProblem::Unknown { app: app() }),
    ] {
        let fake = Fake::start().await;
        fake.on(Method::GET, "/app", [answer]);
        assert_eq!(fake.app().app(AppName::MAIN).await, Err(expected));
    }
    let fake = Fake::start().await;
    fake.on(Method::GET, "/app", [reply(502, "")]);
    let silent = fake.app().app(AppName::MAIN).await;
    assert!(matches!(silent, Err(AppProblem::Unanswered(ProviderError::Unavailable(_)))));
}

#[tokio::test]
async fn installations_are_shown_with_what_their_owners_have_accepted() {
    let fake = Fake::start().await;
    let mut all = installations();
    all[0]["permissions"] = json!({ "actions": "read" });
    all[0]["html_url"] = json!("https://github.com/organizations/acme/settings/installations/11");
    all[0]["created_at"] = json!("2026-10-01T00:00:00Z");
    fake.on(Method::GET, INSTALLATIONS, [reply(200, &all)]);
    let shown = fake.app().installations(AppName::MAIN).await.expect("an answer");
    let accounts: Vec<(&str, bool)> =
        shown.iter().map(|one| (one.account.as_str(), one.is_person)).collect();
    let expected =
        [("acme", false), ("octocat", true), ("enterprises/big", false), ("asleep", false)];
    assert_eq!(accounts, expected);
    assert_eq!(shown[0].permissions.get("actions").map(String::as_str), Some("read"));
    assert_eq!(shown[0].created_at, "2026-10-01T00:00:00Z".parse().ok());
    assert!(shown[0].html_url.ends_with("/11") && shown[0].suspended_at.is_none());
    assert_eq!(shown[3].suspended_at, "2026-11-01T00:00:00Z".parse().ok());
}

#[tokio::test]
async fn the_webhook_is_shown_as_github_has_it() {
    let hook = |url: &str, content_type: &str, insecure| Hook {
        url: url.to_owned(),
        content_type: content_type.to_owned(),
        insecure,
    };
    let url = "https://h.example/webhook";
    for (answer, expected) in [
        (
            reply(
                200,
                json!({ "url": url, "content_type": "json", "insecure_ssl": "0", "secret": "********" }),
            ),
            hook(url, "json", false),
        ),
        (
            reply(200, json!({ "url": url, "content_type": "form", "insecure_ssl": "1" })),
            hook(url, "form", true),
        ),
        (
            reply(200, json!({ "url": url, "content_type": "json", "insecure_ssl": 1 })),
            hook(url, "json", true),
        ),
        (reply(200, json!({ "content_type": "form" })), hook("", "form", false)),
        (reply(404, json!({ "message": "Not Found" })), hook("", "", false)),
    ] {
        let fake = Fake::start().await;
        fake.on(Method::GET, "/app/hook/config", [answer]);
        assert_eq!(fake.app().hook(AppName::MAIN).await, Ok(expected));
    }
}

#[tokio::test]
async fn the_last_deliveries_of_any_event_are_looked_at() {
    let fake = Fake::start().await;
    let attempts = json!([
        { "id": 3, "event": "workflow_job", "status_code": 401, "delivered_at": "2026-11-21T00:00:00Z" },
        { "id": 2, "event": "installation", "status_code": 0 },
        { "id": 1, "event": "ping", "status_code": null },
        { "id": 0, "event": "ping", "status_code": 200 },
    ]);
    fake.on(Method::GET, "/app/hook/deliveries", [reply(200, attempts)]);
    let answers = fake.app().hook_answers(AppName::MAIN).await.expect("an answer");
    let statuses: Vec<Option<u16>> = answers.iter().map(|one| one.status).collect();
    assert_eq!(statuses, [Some(401), None, None, Some(200)]);
    let times: Vec<Option<String>> = answers.iter().map(|one| Some(one.at?.to_string())).collect();
    assert_eq!(times, [Some("2026-11-21T00:00:00.000Z".to_owned()), None, None, None]);
    assert_eq!(answers[1].event, "installation");
    assert_eq!(fake.paths(), ["GET /app/hook/deliveries?per_page=20"]);
}

#[tokio::test]
async fn groups_are_shown_with_what_they_keep_out() {
    let fake = Fake::start().await;
    fake.on(Method::GET, "/installation", [reply(200, json!({ "id": 11 }))]);
    let group = |id: u64, public: bool, visibility: &str, restricted: bool| {
        json!({ "id": id, "name": "g", "allows_public_repositories": public,
            "visibility": visibility, "restricted_to_workflows": restricted })
    };
    let groups = json!({ "total_count": 4, "runner_groups": [
        group(1, false, "all", false), group(2, true, "private", false),
        group(3, true, "selected", true), group(4, true, "all", false),
    ] });
    fake.on(Method::GET, GROUPS, [reply(200, groups)]);
    let shown = fake.app().groups(&entity("acme")).await.expect("an answer");
    let kept_out: Vec<(bool, bool)> =
        shown.iter().map(|one| (one.refuses_public, one.restricted_to_workflows)).collect();
    assert_eq!(kept_out, [(true, false), (true, false), (false, true), (false, false)]);
}
