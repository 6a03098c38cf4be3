//! How the App is made and set up, as `muster_control::ports::AppSetup` shows it.

use muster_control::ports::{
    AppAccount, AppCredentials, AppSetup, ConversionError, Directory, HookError, IdentityError,
};
use muster_domain::app::{AppProblem, KeyProblem, code_mark};
use muster_domain::hidden::Hidden;
use muster_domain::ids::AppName;
use muster_domain::time::Seconds;

use crate::checks;

/// GitHub and a store of secrets behind their doors; no App is kept.
#[expect(async_fn_in_trait, reason = "checks run on one thread")]
pub trait SetupWorld {
    /// The port.
    type Github: Directory + AppSetup;

    /// The port.
    fn github(&self) -> &Self::Github;
    /// Where GitHub's API is.
    fn api(&self) -> String;
    /// Organization acme made an App of this name on GitHub's page, so long ago; the code of it. Its
    /// webhook is somewhere else, or nowhere.
    async fn make_app(&self, name: &str, ago: Seconds, hook: bool) -> String;
    /// Where the App's events go, and what GitHub signs them with.
    async fn told(&self, app: &str) -> (Option<String>, Option<String>);
}

checks! { SetupWorld:
    a_code_becomes_an_app_once,
    a_code_is_good_for_an_hour,
    the_app_that_is_kept_is_asked,
    an_app_is_identified_by_its_own_key,
    the_webhook_is_pointed_here_and_signed_with_our_secret,
    another_secret_is_kept_and_told,
    an_app_without_a_webhook_takes_no_settings,
    an_address_without_tls_is_not_asked,
}

const HERE: &str = "https://hooks.example/webhook";
const NOW: Seconds = Seconds(0);

async fn convert<W: SetupWorld>(world: &W, code: &str) -> Result<AppCredentials, ConversionError> {
    let made = world.github().convert(&world.api(), &Hidden::from(code.to_owned())).await?;
    assert_eq!(made.owner, AppAccount::Organization("acme".to_owned()));
    Ok(made.credentials)
}

async fn made<W: SetupWorld>(world: &W, name: &str) -> AppCredentials {
    let code = world.make_app(name, NOW, true).await;
    convert(world, &code).await.expect("an App")
}

async fn a_code_becomes_an_app_once<W: SetupWorld>(world: &W) {
    let code = world.make_app("Muster Acme", NOW, true).await;
    let app = convert(world, &code).await.expect("an App");
    assert_eq!((app.slug.as_str(), app.api_url.as_str()), ("muster-acme", world.api().as_str()));
    assert_eq!(app.html_url, "https://github.com/apps/muster-acme");
    assert!(app.private_key.expose().contains("RSA PRIVATE KEY"));
    assert_eq!((app.made_by, app.client_id.is_some()), (Some(code_mark(&code)), true));
    assert_eq!(convert(world, &code).await, Err(ConversionError::UnknownCode));
    assert_eq!(convert(world, "unheard-of").await, Err(ConversionError::UnknownCode));
}

async fn a_code_is_good_for_an_hour<W: SetupWorld>(world: &W) {
    let young = world.make_app("young", Seconds(3_500), true).await;
    let old = world.make_app("old", Seconds(3_600), true).await;
    assert!(convert(world, &young).await.is_ok());
    assert_eq!(convert(world, &old).await, Err(ConversionError::UnknownCode));
}

async fn the_app_that_is_kept_is_asked<W: SetupWorld>(world: &W) {
    assert_eq!(world.github().made_by(AppName::MAIN).await, Ok(None));
    for name in ["first", "second"] {
        let app = made(world, name).await;
        world.github().keep(AppName::MAIN, Some(&app)).await.expect("kept");
        let seen = world.github().app(AppName::MAIN).await.expect("an answer");
        assert_eq!((seen.slug.as_str(), seen.name.as_str()), (name, name));
        assert_eq!((seen.id.to_string(), seen.owner.as_deref()), (app.app_id, Some("acme")));
        assert_eq!(world.github().made_by(AppName::MAIN).await, Ok(app.made_by));
    }
}

async fn an_app_is_identified_by_its_own_key<W: SetupWorld>(world: &W) {
    let (ours, theirs) = (made(world, "ours").await, made(world, "theirs").await);
    let seen = world.github().identify(&ours).await.expect("an answer");
    assert_eq!(seen.slug, "ours");
    let mixed = AppCredentials { private_key: theirs.private_key, ..ours.clone() };
    let refused = world.github().identify(&mixed).await;
    // GitHub tells its time in whole seconds, so one may lie between.
    let is_refused = matches!(&refused, Err(IdentityError::App(AppProblem::Refused { app, ahead: -1..=1 })) if *app == ours.app_id);
    assert!(is_refused, "{refused:?}");
    let nobody = AppCredentials { app_id: "99".to_owned(), ..ours.clone() };
    let unknown = AppProblem::Unknown { app: "99".to_owned() };
    assert_eq!(world.github().identify(&nobody).await, Err(IdentityError::App(unknown)));
    let keyless = AppCredentials { private_key: "no key".to_owned().into(), ..ours };
    let unfit = IdentityError::Unfit(KeyProblem::NoRsaKey);
    assert_eq!(world.github().identify(&keyless).await, Err(unfit));
}

async fn the_webhook_is_pointed_here_and_signed_with_our_secret<W: SetupWorld>(world: &W) {
    let app = made(world, "muster").await;
    world.github().keep(AppName::MAIN, Some(&app)).await.expect("kept");
    let (elsewhere, _) = world.told(&app.app_id).await;
    assert_ne!(elsewhere.as_deref(), Some(HERE));
    let secret = world.github().signing_secret(AppName::MAIN).await.expect("read").value;
    for _ in 0..2 {
        world.github().set_hook(AppName::MAIN, HERE, Some(&secret)).await.expect("set");
        let hook = world.github().hook(AppName::MAIN).await.expect("an answer");
        assert!(hook.is_at(HERE) && hook.content_type == "json" && !hook.insecure);
        let told = world.told(&app.app_id).await;
        assert_eq!(told, (Some(HERE.to_owned()), Some(secret.expose().to_owned())));
    }
    world.github().set_hook(AppName::MAIN, "https://other.example/", None).await.expect("set");
    assert_eq!(world.told(&app.app_id).await.1.as_deref(), Some(secret.expose()), "it stays");
}

async fn another_secret_is_kept_and_told<W: SetupWorld>(world: &W) {
    let app = made(world, "muster").await;
    world.github().keep(AppName::MAIN, Some(&app)).await.expect("kept");
    let first = world.github().signing_secret(AppName::MAIN).await.expect("read");
    world.github().pause(Seconds(1)).await;
    world.github().renew_signing_secret().await.expect("written");
    let second = world.github().signing_secret(AppName::MAIN).await.expect("read");
    assert!(second.value != first.value && second.value.expose().len() >= 32);
    assert!(second.since > first.since && second.has_previous);
    world.github().set_hook(AppName::MAIN, HERE, Some(&second.value)).await.expect("set");
    assert_eq!(world.told(&app.app_id).await.1.as_deref(), Some(second.value.expose()));
    world.github().hook_attempts(AppName::MAIN).await.expect("an answer");
}

async fn an_app_without_a_webhook_takes_no_settings<W: SetupWorld>(world: &W) {
    let code = world.make_app("deaf", NOW, false).await;
    let app = convert(world, &code).await.expect("an App");
    world.github().keep(AppName::MAIN, Some(&app)).await.expect("kept");
    let refused = world.github().set_hook(AppName::MAIN, HERE, None).await;
    assert!(matches!(refused, Err(HookError::Refused(_))), "{refused:?}");
}

async fn an_address_without_tls_is_not_asked<W: SetupWorld>(world: &W) {
    let code = Hidden::from(world.make_app("muster", NOW, true).await);
    let refused = world.github().convert("http://github.example", &code).await;
    assert_eq!(refused.expect_err("refused"), ConversionError::Address);
    assert!(convert(world, code.expose()).await.is_ok(), "the code was not used up");
}
