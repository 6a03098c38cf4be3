//! How the App is set up: crate `github` at the world's REST door, with a store in memory.

use std::sync::{Arc, Mutex};

use muster_cloud::github::{AppOwner, HookAttributes, Manifest};
use muster_conformance::setup::{CHECKS, SetupWorld, check};
use muster_conformance::{differences, run_all};
use muster_control::ports::{SigningSecret, Unavailable};
use muster_domain::ids::AppName;
use muster_domain::time::{Seconds, Time};
use muster_github::{App, AppIdentity, AppKey, AppKeyError, AppStore};
use muster_world::Running;
use secrecy::{ExposeSecret as _, SecretString};

use crate::{RUNTIME, github_behind_tls, open};

/// The App's secret, and those that GitHub was to sign with later.
#[derive(Clone, Default)]
struct Store(Arc<Mutex<String>>, Arc<Mutex<Vec<String>>>);

impl Store {
    fn kept(&self) -> String {
        self.0.lock().expect("no panic").clone()
    }
}

impl AppKey for Store {
    async fn identity(&self, _app: AppName, _fresh: bool) -> Result<AppIdentity, AppKeyError> {
        AppIdentity::read(&self.kept(), AppName::MAIN)
            .map_err(|problem| AppKeyError::unfit(AppName::MAIN, problem, "muster/app-key"))
    }
}

impl AppStore for Store {
    async fn app_secret(&self) -> Result<SecretString, Unavailable> {
        Ok(self.kept().into())
    }

    async fn put_app_secret(&self, secret: SecretString) -> Result<(), Unavailable> {
        *self.0.lock().expect("no panic") = secret.expose_secret().to_owned();
        Ok(())
    }

    async fn signing_secret(&self, _app: AppName) -> Result<SigningSecret, Unavailable> {
        let renewed = self.1.lock().expect("no panic");
        let value = renewed.last().cloned().unwrap_or_else(|| "0123456789abcdef".repeat(4));
        let since = Time::from_millis(i64::try_from(renewed.len()).expect("few"));
        Ok(SigningSecret { value: value.into(), since, has_previous: !renewed.is_empty() })
    }

    async fn put_signing_secret(&self, secret: SecretString) -> Result<(), Unavailable> {
        self.1.lock().expect("no panic").push(secret.expose_secret().to_owned());
        Ok(())
    }
}

struct Bench {
    running: Running,
    url: String,
    app: App<Store>,
}

impl SetupWorld for Bench {
    type Github = App<Store>;

    fn github(&self) -> &App<Store> {
        &self.app
    }

    fn api(&self) -> String {
        self.url.clone()
    }

    async fn make_app(&self, name: &str, ago: Seconds, hook: bool) -> String {
        let url = Some("https://elsewhere.example/webhook".to_owned());
        let manifest = Manifest {
            hook_attributes: hook.then_some(HookAttributes { url, active: false }),
            ..Manifest::default()
        };
        let owner = AppOwner { login: "acme".to_owned(), id: 9919, is_organization: true };
        self.running.cloud.with(|world, now| {
            world.make_app(owner, name, &manifest, now - 1_000 * i64::from(ago.0))
        })
    }

    async fn told(&self, app: &str) -> (Option<String>, Option<String>) {
        self.running.cloud.look(|world, _| {
            let url = world.github.hook(app).and_then(|hook| hook.url.clone());
            (url, world.github.hook_secret(app).map(str::to_owned))
        })
    }
}

#[test]
fn the_app_is_set_up_as_the_admin_function_knows_it() {
    let run = |name: &str| {
        RUNTIME.block_on(async {
            let store = Store::default();
            let running = open().await;
            let (url, settings) = github_behind_tls(&running).await;
            let app = App::new(&settings, store).expect("a client");
            check(name, &Bench { running, url, app }).await;
        });
    };
    assert_eq!(run_all(CHECKS, differences::WIRE_SETUP, run), CHECKS.len());
}
