//! The stack's Apps on GitHub: shows them, creates one from a manifest, connects one, points its
//! webhook at the stack, and removes one.
//!
//! A manifest code works once, and GitHub shows the key once. So the key is stored before any other
//! call, and each later step can be repeated separately.

use futures_util::future::join;
use muster_api::answers::{
    Answer, AppStatus, ShownApp, ShownDelivery, ShownGithub, ShownHook, ShownInstallation,
};
use muster_api::{
    AdminError, AdminErrorCode, AppId, ConnectApp, CreateApp, ExpectedOwner, GithubRequest,
    HookOrder, Rotated, call_failure,
};
use muster_domain::app::{AppProblem, NewAppLinks, NoCode, check_code, code_mark, settings_page};
use muster_domain::audit::{Audit, AuditKind};
use muster_domain::causes::with_causes;
use muster_domain::hidden::Hidden;
use muster_domain::ids::AppName;
use muster_domain::pool_set::PoolSet;
use muster_domain::time::Time;

use super::Admin;
use crate::app_watch::AppWatch;
use crate::context::Ports;
use crate::ports::{
    AppAccount, AppCredentials, AppSetup, ConversionError, Directory, HookError, IdentityError,
    MadeApp, Operations as _, Table as _, Unavailable, Write,
};
use crate::writes;

pub(super) const ONE: &str = "\"github\" accepts one of \"create\", \"connect\", \"hook\", \"rotate\", \"repositories\" and \"remove\"";
/// An address that does not exist. GitHub has no API call that removes or deactivates a webhook.
/// Source: datatracker.ietf.org/doc/html/rfc2606 and docs.github.com/en/rest/apps/webhooks
pub(super) const NOWHERE: &str = "https://muster.invalid/removed";
/// The subject of the App's lines in the audit trail.
pub(super) const SUBJECT: &str = "github";

impl<P: Ports<Github: Directory + AppSetup>> Admin<'_, P> {
    pub(super) async fn github(
        &self,
        request: &GithubRequest,
        now: Time,
    ) -> Result<Answer, AdminError> {
        let GithubRequest { app, remove, create, connect, hook, rotate, repositories, by } =
            request;
        let (app, by) = (*app, by.as_deref().unwrap_or("operator"));
        if *repositories {
            return self.repositories(request, now).await;
        }
        let shown = match (create, connect, hook, rotate) {
            (None, None, None, None) if *remove => self.remove(app, by, now).await?,
            _ if *remove => return Err(bad(ONE)),
            (None, None, None | Some(HookOrder::Show), None) => self.shown(app, now).await,
            (Some(create), None, None, None) => self.create(app, create, by, now).await?,
            (None, Some(connect), None, None) => self.connect(app, connect, by, now).await?,
            (None, None, Some(HookOrder::Set), None) => {
                self.note(app, "the webhook is pointed at this stack", by, now).await?;
                self.take_up(app).await?;
                self.shown(app, now).await
            }
            (None, None, Some(HookOrder::Remove), None) => {
                self.remove_hook(app, by, now).await?;
                self.shown(app, now).await
            }
            (None, None, Some(HookOrder::Test), None) => return self.test_hook(app).await,
            (None, None, None, Some(Rotated::WebhookSecret)) => {
                self.rotate_secret(by, now).await?;
                self.shown(app, now).await
            }
            _ => {
                return Err(bad(ONE));
            }
        };
        Ok(Answer::Github(Box::new(shown)))
    }

    async fn shown(&self, app: AppName, now: Time) -> ShownGithub {
        let watch = AppWatch { context: self.context };
        let facts = watch.facts(app).await;
        let AppStatus { lacks, unknown, .. } = watch.status(app, &facts, now);
        let settings = self.context.settings;
        let own = settings.webhook_of(app);
        let own = own.as_deref();
        let is_main = app == AppName::MAIN;
        ShownGithub {
            name: app,
            other_apps: if is_main { settings.other_apps.clone() } else { Vec::new() },
            app: facts.app.as_ref().ok().map(ShownApp::from),
            installations: facts
                .installations
                .iter()
                .flatten()
                .map(ShownInstallation::from)
                .collect(),
            hook: facts.hook.as_ref().ok().map(|hook| ShownHook::new(hook, own)),
            webhook_url: own.map(str::to_owned),
            deliveries: facts.deliveries.iter().flatten().map(ShownDelivery::from).collect(),
            lacks,
            unknown,
            new_app: own.map(|webhook| NewAppLinks::new(&settings.stack, webhook)),
            install_url: None,
            left: None,
        }
    }

    async fn create(
        &self,
        app: AppName,
        request: &CreateApp,
        by: &str,
        now: Time,
    ) -> Result<ShownGithub, AdminError> {
        let CreateApp { code, api_url, replace, owner } = request;
        check_code(code.expose()).map_err(|NoCode| {
            bad("\"code\" is not a manifest code of GitHub: those have only letters, digits, \"-\" and \"_\"")
        })?;
        if self.is_made(app, code, *replace).await? {
            return Ok(self.finish(app, None, now).await);
        }
        self.note(app, "GitHub creates the App from a manifest", by, now).await?;
        let github = self.context.github;
        let made = github.convert(api_url, code).await.map_err(not_made)?;
        if let Some(expected) = owner.as_ref().filter(|expected| !belongs(&made.owner, expected)) {
            return Err(of_another(&made, expected));
        }
        let kept = github.keep(app, Some(&made.credentials)).await;
        kept.map_err(|error| not_kept(&made, &error))?;
        Ok(self.finish(app, Some(made.credentials.html_url), now).await)
    }

    /// Whether the App of this code is already stored: an earlier identical request succeeded, but
    /// its response was lost.
    async fn is_made(
        &self,
        app: AppName,
        code: &Hidden,
        replace: bool,
    ) -> Result<bool, AdminError> {
        let github = self.context.github;
        let (made_by, app) = join(github.made_by(app), github.app(app)).await;
        if made_by.map_err(|error| unavailable(&error))? == Some(code_mark(code.expose())) {
            return Ok(true);
        }
        match app {
            _ if replace => Ok(false),
            Ok(app) => {
                let (name, id) = (&app.slug, app.id);
                let message = format!(
                    "the stack already has a working App, {name} ({id}); pass \"replace\": true to \
                     replace it"
                );
                Err(AdminError::new(AdminErrorCode::AppExists, message))
            }
            Err(AppProblem::Unanswered(trouble)) => {
                let (code, why) = call_failure("GitHub", &trouble);
                let message =
                    format!("could not check whether the stack already has a working App: {why}");
                Err(AdminError::new(code, message))
            }
            Err(
                AppProblem::NoKey(_)
                | AppProblem::BadKey(_)
                | AppProblem::Refused { .. }
                | AppProblem::Unknown { .. },
            ) => Ok(false),
        }
    }

    async fn connect(
        &self,
        name: AppName,
        request: &ConnectApp,
        by: &str,
        now: Time,
    ) -> Result<ShownGithub, AdminError> {
        let ConnectApp { app_id, private_key, api_url } = request;
        let app_id = match app_id {
            AppId::Number(number) => number.to_string(),
            AppId::Text(text) => text.clone(),
        };
        let mut credentials = AppCredentials {
            app_id,
            client_id: None,
            slug: String::new(),
            html_url: String::new(),
            api_url: api_url.clone(),
            private_key: private_key.clone(),
            made_by: None,
        };
        let github = self.context.github;
        let app = github.identify(&credentials).await.map_err(|problem| not_it(&problem))?;
        self.note(name, &format!("App {} is connected", app.id), by, now).await?;
        (credentials.slug, credentials.html_url) = (app.slug, app.html_url);
        let kept = github.keep(name, Some(&credentials)).await;
        kept.map_err(|error| unavailable(&error))?;
        Ok(self.finish(name, Some(credentials.html_url), now).await)
    }

    /// Removes an App that no pool uses: its webhook, its entry in the stack's record, and its key.
    /// The App stays at GitHub, where its owner can delete it.
    async fn remove(&self, app: AppName, by: &str, now: Time) -> Result<ShownGithub, AdminError> {
        if app == AppName::MAIN {
            return Err(bad("the main App cannot be removed, only replaced"));
        }
        let settings = self.context.settings;
        if let Some(error) = settings.unknown_pools() {
            return Err(error.clone().into());
        }
        if !settings.other_apps.contains(&app) {
            let apps = settings.apps().iter().map(ToString::to_string).collect::<Vec<_>>();
            let message = format!("the stack's Apps are {}", apps.join(", "));
            return Err(AdminError::new(AdminErrorCode::NotFound, message));
        }
        // A removed pool keeps its place until its last machine is gone.
        if let Some(pool) = settings.pools.iter().find(|pool| pool.uses_app(app)) {
            let message =
                format!("pool {} uses App {app}: remove it from the pool file first", pool.name);
            return Err(AdminError::new(AdminErrorCode::NotAllowed, message));
        }
        self.note(app, "the App is removed", by, now).await?;
        let github = self.context.github;
        // The App may be gone at GitHub, or its key invalid.
        let left = github.set_hook(app, NOWHERE, None).await.err();
        self.list_app(app, false).await?;
        github.keep(app, None).await.map_err(|error| unavailable(&error))?;
        let left = left.map(|problem| {
            let why = not_set(problem).message;
            format!(
                "the App is removed, but GitHub still sends its events: {why}. Delete it at GitHub"
            )
        });
        let mut shown = self.shown(AppName::MAIN, now).await;
        shown.other_apps.retain(|other| *other != app);
        Ok(ShownGithub { left, ..shown })
    }

    /// Adds an App to the stack's record, or removes it.
    async fn list_app(&self, app: AppName, is_there: bool) -> Result<(), AdminError> {
        let table = self.context.table;
        let next = |stored: Option<&PoolSet>| PoolSet::with_other_app(stored, app, is_there);
        writes::update(table, async || table.pool_set().await, next).await?;
        Ok(())
    }

    /// Adds an App to the stack and points its webhook here.
    async fn take_up(&self, app: AppName) -> Result<(), AdminError> {
        self.list_app(app, true).await?;
        self.point_hook(app).await
    }

    /// Performs the steps after the App's key is stored. A failed step is reported and can be
    /// repeated.
    async fn finish(&self, app: AppName, html_url: Option<String>, now: Time) -> ShownGithub {
        let left = self.take_up(app).await.err();
        let shown = self.shown(app, now).await;
        let html_url = html_url.or_else(|| shown.app.as_ref().map(|app| app.html_url.clone()));
        ShownGithub {
            install_url: html_url.map(|url| format!("{url}/installations/new")),
            left: left.map(|error| {
                let why = error.message;
                let set = match app {
                    AppName::MAIN => r#"{"action":"github","hook":"set"}"#.to_owned(),
                    _ => format!(r#"{{"action":"github","app":"{app}","hook":"set"}}"#),
                };
                format!("the App's key is stored, but its webhook is not set: {why}. Set it: {set}")
            }),
            ..shown
        }
    }

    /// Points the App's webhook at this stack, with the stack's secret.
    pub(super) async fn point_hook(&self, app: AppName) -> Result<(), AdminError> {
        let github = self.context.github;
        let Some(url) = self.context.settings.webhook_of(app) else {
            return Err(bad("the stack's webhook address is not configured (MUSTER_WEBHOOK_URL)"));
        };
        let secret = github.signing_secret(app).await.map_err(|error| unavailable(&error))?;
        github.set_hook(app, &url, Some(&secret.value)).await.map_err(not_set)
    }

    /// Records an action in the audit trail before it is performed. `why` must not contain a
    /// secret.
    pub(super) async fn note(
        &self,
        app: AppName,
        why: &str,
        by: &str,
        now: Time,
    ) -> Result<(), AdminError> {
        let why = match app {
            AppName::MAIN => why.to_owned(),
            _ => format!("App {app}: {why}"),
        };
        let line = Audit {
            at: now,
            kind: AuditKind::AppChanged,
            subject: SUBJECT.to_owned(),
            by: by.to_owned(),
            why: why.clone(),
        };
        self.context.table.commit(&[Write::Audit(line)]).await?;
        tracing::warn!(by, why, "operator changes the App");
        Ok(())
    }
}

fn bad(message: &str) -> AdminError {
    AdminError::new(AdminErrorCode::BadRequest, message)
}

pub(super) fn unavailable(error: &Unavailable) -> AdminError {
    let message = format!("{}; no data was lost, try again", with_causes(error));
    AdminError::new(AdminErrorCode::Unavailable, message)
}

/// Returns the error for rejected webhook settings.
pub(super) fn not_set(problem: HookError) -> AdminError {
    match problem {
        HookError::Refused(fault) => {
            let message = format!(
                "GitHub rejects the webhook's settings: {} ({}); check the webhook in the App's \
                 settings (General)",
                fault.message, fault.code
            );
            AdminError::new(AdminErrorCode::NotAllowed, message)
        }
        HookError::ProviderError(trouble) => {
            let (code, why) = call_failure("GitHub", &trouble);
            AdminError::new(code, why)
        }
    }
}

fn not_made(problem: ConversionError) -> AdminError {
    match problem {
        ConversionError::Address => bad("\"api_url\" is not an https URL of GitHub's API"),
        ConversionError::UnknownCode => AdminError::new(
            AdminErrorCode::NotFound,
            "GitHub does not know this code: a code works once, within an hour. Start again; or, if \
             GitHub lists the App as yours, generate a private key in its settings and use \"connect\"",
        ),
        ConversionError::ProviderError(trouble) => {
            let (code, why) = call_failure("GitHub", &trouble);
            AdminError::new(code, why)
        }
    }
}

/// Whether an App belongs to the expected account. GitHub's logins are case-insensitive.
fn belongs(owner: &AppAccount, expected: &ExpectedOwner) -> bool {
    match (owner, expected) {
        (AppAccount::Organization(login), ExpectedOwner::Organization(name)) => {
            login.eq_ignore_ascii_case(name)
        }
        (AppAccount::Person(_), ExpectedOwner::Person) => true,
        _ => false,
    }
}

/// Returns the error for an App of an unexpected account. Pools without an `entity` serve the App's
/// owner, so it would start that account's jobs here. Its key is not stored.
fn of_another(made: &MadeApp, expected: &ExpectedOwner) -> AdminError {
    let owner = match &made.owner {
        AppAccount::Organization(login) => format!("the organization {login}"),
        AppAccount::Person(login) => format!("the personal account {login}"),
        AppAccount::Other => "another account".to_owned(),
    };
    let (expected, sign_in) = match expected {
        ExpectedOwner::Organization(name) => (name.clone(), format!("as an owner of {name}")),
        ExpectedOwner::Person => ("a personal account".to_owned(), "with that account".to_owned()),
    };
    let app = &made.credentials;
    let (slug, id, page) = (&app.slug, &app.app_id, made_settings(made));
    AdminError::new(
        AdminErrorCode::NotAllowed,
        format!(
            "GitHub created App {slug} ({id}) for {owner}, but the request was for {expected}. The stack did not store its key. If you \
             created it by mistake, delete it at {page}, sign in at GitHub {sign_in} and start again; if you did not, someone else \
             on your machine used the page"
        ),
    )
}

fn made_settings(made: &MadeApp) -> String {
    let organization = match &made.owner {
        AppAccount::Organization(login) => Some(login.as_str()),
        AppAccount::Person(_) | AppAccount::Other => None,
    };
    settings_page(&made.credentials.html_url, organization)
}

/// Returns the error for a new App whose key could not be stored. GitHub shows a key once, but a
/// new key can be created.
fn not_kept(made: &MadeApp, error: &Unavailable) -> AdminError {
    let app = &made.credentials;
    let page = made_settings(made);
    let (slug, id, why) = (&app.slug, &app.app_id, with_causes(error));
    let message = format!(
        "GitHub created App {slug} ({id}), but its key could not be stored: {why}. Fix that, \
         generate a private key at {page} and use \"connect\""
    );
    AdminError::new(AdminErrorCode::Unavailable, message)
}

fn not_it(problem: &IdentityError) -> AdminError {
    let (code, message) = match problem {
        IdentityError::Unfit(problem) => (AdminErrorCode::BadRequest, problem.of_request()),
        IdentityError::App(AppProblem::Unanswered(trouble)) => call_failure("GitHub", trouble),
        IdentityError::App(problem) => (AdminErrorCode::NotAllowed, problem.of_request()),
    };
    AdminError::new(code, format!("{message}; nothing was changed"))
}
