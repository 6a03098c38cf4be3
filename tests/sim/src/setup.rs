//! The App's setup at the simulated GitHub, and the stack's two secrets.

use std::collections::BTreeMap;

use muster_cloud::github::{AppOwner, GitHubError, HookPatch, Manifest};
use muster_control::ports::{
    AppAccount, AppCredentials, AppSetup, ConversionError, HookAttempt, HookError, IdentityError,
    MadeApp, SigningSecret, Unavailable,
};
use muster_domain::app::{AppProblem, AppSettings, Hook, KeyProblem, check_code, code_mark};
use muster_domain::hidden::Hidden;
use muster_domain::ids::AppName;
use muster_domain::provider::ProviderError;
use muster_domain::time::{Seconds, Time};
use serde_json::Value;

use crate::agenda::{Millis, SECOND};
use crate::door::Door;
use crate::executor::Pause;
use crate::world::World;

/// What the stack keeps.
#[derive(Clone, Debug)]
pub struct Secrets {
    /// Who the Apps are that were put in.
    pub apps: BTreeMap<AppName, AppCredentials>,
    /// What GitHub is to sign with.
    pub signing: SigningSecret,
    /// The one before, which the webhook takes too.
    pub previous: Option<Hidden>,
    /// The store takes nothing.
    pub refuses: bool,
}

impl Default for Secrets {
    fn default() -> Self {
        let value = Hidden::from("signing-canary-0123456789abcdef0123456789".to_owned());
        let signing = SigningSecret { value, since: Time::from_millis(0), has_previous: false };
        Self { apps: BTreeMap::new(), signing, previous: None, refuses: false }
    }
}

impl World {
    /// What an App's owner does on GitHub's page; the code that comes of it.
    pub fn make_app(&mut self, owner: AppOwner, name: &str, manifest: &Manifest) -> String {
        let now = self.now;
        self.github.make_app(owner, name, manifest, now)
    }

    /// The App that is kept, where GitHub made it of a manifest; the others are scripted.
    pub(crate) fn made_app(&self, app: AppName) -> Option<Result<AppSettings, AppProblem>> {
        let kept = self.secrets.apps.get(&app)?;
        self.github.truth.private_key(&kept.app_id)?;
        Some(self.app_of(kept))
    }

    fn app_of(&self, given: &AppCredentials) -> Result<AppSettings, AppProblem> {
        let (truth, app) = (&self.github.truth, given.app_id.clone());
        match truth.private_key(&app) {
            None => Err(AppProblem::Unknown { app }),
            Some(key) if key != given.private_key.expose() => {
                Err(AppProblem::Refused { app, ahead: 0 })
            }
            Some(_) => Ok(settings(&truth.app_view(&app).expect("it has a key"))),
        }
    }

    /// Where the events of an App go that was made of a manifest.
    pub(crate) fn made_hook(&self, app: AppName) -> Option<Hook> {
        self.made_app(app)?.ok()?;
        let hook = self.github.truth.hook(&self.secrets.apps.get(&app)?.app_id)?;
        Some(Hook {
            url: hook.url.clone().unwrap_or_default(),
            content_type: hook.content_type.clone(),
            insecure: hook.insecure_ssl == "1",
        })
    }

    fn secrets_answer(&self) -> Result<(), Unavailable> {
        if self.secrets.refuses { Err(Unavailable::new("simulated: no secret")) } else { Ok(()) }
    }
}

fn text(view: &Value) -> String {
    view.as_str().unwrap_or_default().to_owned()
}

fn settings(view: &Value) -> AppSettings {
    AppSettings {
        id: view["id"].as_u64().unwrap_or_default(),
        slug: text(&view["slug"]),
        name: text(&view["name"]),
        owner: view["owner"]["login"].as_str().map(str::to_owned),
        html_url: text(&view["html_url"]),
        events: serde_json::from_value(view["events"].clone()).unwrap_or_default(),
        permissions: serde_json::from_value(view["permissions"].clone()).unwrap_or_default(),
    }
}

impl AppSetup for Door {
    async fn made_by(&self, app: AppName) -> Result<Option<String>, Unavailable> {
        self.call(|world| {
            world.secrets_answer()?;
            Ok(world.secrets.apps.get(&app).and_then(|app| app.made_by.clone()))
        })
        .await
    }

    async fn convert(&self, api_url: &str, code: &Hidden) -> Result<MadeApp, ConversionError> {
        if !api_url.starts_with("https://") || check_code(code.expose()).is_err() {
            return Err(ConversionError::Address);
        }
        self.call(|world| {
            world.github_answers("convert-manifest").map_err(ConversionError::ProviderError)?;
            let now = world.now;
            let made = world.github.truth.convert(code.expose(), now);
            let made = made.map_err(|_| ConversionError::UnknownCode)?;
            let login = text(&made["owner"]["login"]);
            let owner = match made["owner"]["type"] == "Organization" {
                _ if world.github.script.hides_app_owner => AppAccount::Other,
                true => AppAccount::Organization(login),
                false => AppAccount::Person(login),
            };
            Ok(MadeApp {
                credentials: AppCredentials {
                    app_id: made["id"].to_string(),
                    client_id: made["client_id"].as_str().map(str::to_owned),
                    slug: text(&made["slug"]),
                    html_url: text(&made["html_url"]),
                    api_url: api_url.to_owned(),
                    private_key: text(&made["pem"]).into(),
                    made_by: Some(code_mark(code.expose())),
                },
                owner,
            })
        })
        .await
    }

    async fn identify(&self, app: &AppCredentials) -> Result<AppSettings, IdentityError> {
        if !app.private_key.expose().starts_with("-----BEGIN") {
            return Err(IdentityError::Unfit(KeyProblem::NoRsaKey));
        }
        self.call(|world| {
            let answers = world.github_answers("get-app").map_err(AppProblem::Unanswered);
            answers.and_then(|()| world.app_of(app)).map_err(IdentityError::App)
        })
        .await
    }

    async fn keep(
        &self,
        app: AppName,
        credentials: Option<&AppCredentials>,
    ) -> Result<(), Unavailable> {
        self.call(|world| {
            world.secrets_answer()?;
            match credentials {
                Some(credentials) => world.secrets.apps.insert(app, credentials.clone()),
                None => world.secrets.apps.remove(&app),
            };
            Ok(())
        })
        .await
    }

    async fn signing_secret(&self, app: AppName) -> Result<SigningSecret, Unavailable> {
        self.call(|world| {
            world.secrets_answer()?;
            let own = world.secrets.signing.clone();
            let value = app.qualify(own.value.expose()).into();
            Ok(SigningSecret { value, ..own })
        })
        .await
    }

    async fn renew_signing_secret(&self) -> Result<(), Unavailable> {
        self.call(|world| {
            world.secrets_answer()?;
            let value = format!("signing-canary-{:032x}", world.rng.next());
            let (value, since) = (Hidden::from(value), world.time());
            let before = std::mem::replace(
                &mut world.secrets.signing,
                SigningSecret { value, since, has_previous: true },
            );
            world.secrets.previous = Some(before.value);
            Ok(())
        })
        .await
    }

    async fn hook_attempts(&self, app: AppName) -> Result<Vec<HookAttempt>, ProviderError> {
        self.call(|world| {
            world.app_call(app, "list-deliveries")?;
            let all = world.github.truth.attempts().iter().rev();
            Ok(all
                .map(|one| HookAttempt {
                    id: one.id,
                    guid: one.number.to_string(),
                    event: "workflow_job".to_owned(),
                    at: Time::from_millis(one.at),
                    status: one.code,
                })
                .collect())
        })
        .await
    }

    async fn pause(&self, length: Seconds) {
        Pause::new(&self.sim, SECOND * Millis::from(length.0)).await;
    }

    async fn set_hook(
        &self,
        app: AppName,
        url: &str,
        secret: Option<&Hidden>,
    ) -> Result<(), HookError> {
        self.call(|world| {
            world.app_call(app, "set-hook").map_err(HookError::ProviderError)?;
            if world.made_app(app).is_none() {
                let content_type = "json".to_owned();
                world.app.hook = Ok(Hook { url: url.to_owned(), content_type, insecure: false });
                return Ok(());
            }
            let patch = HookPatch {
                url: Some(url.to_owned()),
                content_type: Some("json".to_owned()),
                secret: secret.map(|secret| secret.expose().to_owned()),
                insecure_ssl: Some("0".into()),
            };
            let app =
                world.secrets.apps.get(&app).map(|app| app.app_id.clone()).unwrap_or_default();
            let set = world.github.truth.patch_hook(&app, patch).map(drop);
            set.map_err(|GitHubError { status, .. }| {
                HookError::Refused(world.github_told("set-hook", &status.to_string()))
            })
        })
        .await
    }
}
