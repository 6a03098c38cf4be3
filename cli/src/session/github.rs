//! `github`: sets up the App, from its creation to its first delivery. The state is in the account and at GitHub, so
//! each step first checks whether it is done, and an interrupted setup continues.

use muster_api::answers::{ShownApp, ShownGithub, TestedHook};
use muster_domain::ids::AppName;
use muster_domain::time::Seconds;
use serde_json::{Value, json};

use super::{Session, pretty};
use crate::app::door::{BrowserResponse, PageOutcome, SetupPage};
use crate::app::{Host, Login, Owner, manifest};
use crate::args::{
    Attribution, ConnectAppArgs, CreateAppArgs, GitHubCommand, HookArgs, HookWhat, OwnerArgs,
};
use crate::failure::{Failure, parsed};
use crate::orders::{HookAction, Order};
use crate::views::{github as views, told};
use crate::world::{Cloud, Console, LocalPage, Visit, Workstation};

/// GitHub's time limit for the manifest flow.
const OPEN: Seconds = Seconds(3_600);
/// Number of test redeliveries to request while GitHub has not sent a first delivery yet.
const TESTS: u32 = 3;
/// Time until GitHub knows a new App.
const KNOWN: Seconds = Seconds(60);
/// Time between two checks of what the user does at GitHub.
const LOOKS: Seconds = Seconds(5);

impl<W: Cloud> Session<'_, W> {
    /// Returns the host of the stack's GitHub: that of its App, or the operator's usual one while GitHub does not say. The
    /// operator's token goes to no other host.
    pub(super) async fn github_host(&mut self) -> String {
        if let Some(host) = &self.github {
            return host.clone();
        }
        let app = self.github_now().await.ok().and_then(|now| now.app);
        let host = app.and_then(|app| Some(app.html_url.split('/').nth(2)?.to_owned()));
        let host =
            host.filter(|host| !host.is_empty()).unwrap_or_else(|| self.world.usual_github());
        self.github.insert(host).clone()
    }

    /// Returns the request that shows the App.
    fn about_app(&self) -> Value {
        match self.app {
            AppName::MAIN => json!({ "action": "github" }),
            app => json!({ "action": "github", "app": app }),
        }
    }

    /// Returns a request with one order about the App, and who gives it.
    fn asks(&self, what: &str, order: &Value, by: Option<&str>) -> Value {
        let mut request = self.about_app();
        request[what] = order.clone();
        if let Some(by) = by {
            request["by"] = json!(by);
        }
        request
    }

    async fn github_now(&mut self) -> Result<ShownGithub, Failure> {
        let answer = self.answer(&self.about_app()).await?;
        parsed("github", answer)
    }
}

impl<W: Cloud + Console + Workstation + LocalPage> Session<'_, W> {
    pub(super) async fn github(
        &mut self,
        by: Option<String>,
        command: Option<GitHubCommand>,
    ) -> Result<String, Failure> {
        let by = by.as_deref();
        match command.unwrap_or(GitHubCommand::Status) {
            GitHubCommand::Status => {
                let answer = self.answer(&self.about_app()).await?;
                self.github_page(answer)
            }
            GitHubCommand::Create(order) => self.github_create(&order, by).await,
            GitHubCommand::Link { of, github } => self.github_link(&of, &github).await,
            GitHubCommand::Connect(order) => self.github_connect(&order, by).await,
            GitHubCommand::Remove { yes } => self.github_remove(by, yes).await,
            GitHubCommand::Hook(order) => self.github_hook(&order, by).await,
            GitHubCommand::Rotate { yes } => {
                let rotated = self.hook_ordered(HookAction::Rotate, by, yes).await?;
                if self.json {
                    return Ok(rotated);
                }
                self.world.say(rotated.trim_end());
                self.hook_tested().await
            }
        }
    }

    fn github_page(&self, answer: Value) -> Result<String, Failure> {
        if self.json {
            return Ok(pretty(&answer));
        }
        Ok(views::page(&parsed("github", answer)?, self.screen))
    }

    pub(super) async fn github_create(
        &mut self,
        order: &CreateAppArgs,
        by: Option<&str>,
    ) -> Result<String, Failure> {
        let now = self.github_now().await?;
        let is_shown = match &now.app {
            Some(app) if !order.replace => {
                is_owned(app, &order.of)?;
                self.world.say(&format!("✓ App {} is connected", views::named(app)));
                false
            }
            // A second App would be created, and then refused.
            None if !now.unknown.is_empty() => {
                let why = now.unknown.join("; ");
                return Err(Failure::Unknown(format!(
                    "Cannot determine whether the stack has an App: {why}"
                )));
            }
            Some(_) | None => self.make_app(order, by, &now).await?,
        };
        self.installed(!order.no_browser && !is_shown).await?;
        self.tell_hook_tested().await;
        let answer = self.answer(&self.about_app()).await?;
        self.github_page(answer)
    }

    /// Creates an App at GitHub and stores its key in the account. Returns true if a browser already shows the page
    /// that installs it.
    async fn make_app(
        &mut self,
        order: &CreateAppArgs,
        by: Option<&str>,
        now: &ShownGithub,
    ) -> Result<bool, Failure> {
        let (Some(webhook), Some(new)) = (&now.webhook_url, &now.new_app) else {
            return Err(Failure::Unknown(NO_ADDRESS.to_owned()));
        };
        let owner = self.owner(&order.of, &order.github).await?;
        let order = &CreateAppArgs { of: owner.clone().into(), ..order.clone() };
        let port = self.world.listen().await?;
        let (path, state) = (self.world.random::<16>()?, self.world.random::<32>()?);
        let setup_page = SetupPage::new(port, &path, &state, &owner, &order.github);
        let stack = self.world.stack().await?;
        let manifest = manifest(&stack, &owner, webhook, &setup_page.redirect());
        let mut setup_page = setup_page.with(manifest);
        let address = setup_page.address();
        let is_open = !order.no_browser && self.world.browse_privately(&address);
        self.world.say(&views::invitation(&owner, &address, port, is_open));
        if order.no_browser {
            let link = owner.link(new, &order.github);
            self.world.say(&views::other_ways(&link));
        }
        let outcome = self.through(&mut setup_page, order, by, now).await;
        self.world.close();
        outcome
    }

    /// Waits for GitHub's answer.
    async fn through(
        &mut self,
        setup_page: &mut SetupPage,
        order: &CreateAppArgs,
        by: Option<&str>,
        now: &ShownGithub,
    ) -> Result<bool, Failure> {
        let until = self.world.now() + OPEN;
        loop {
            let left = until.since(self.world.now());
            let met = match self.world.visit(order.no_browser, left).await? {
                Visit::Asked(asked) => setup_page.handle(&asked),
                Visit::Typed(text) => {
                    match self.typed(setup_page, order, by, now, text.trim()).await? {
                        true => return Ok(false),
                        false => continue,
                    }
                }
                Visit::Nobody => {
                    let said =
                        "GitHub created no App within an hour. To try again: muster github create";
                    return Err(Failure::Ended(said.to_owned()));
                }
            };
            match met {
                PageOutcome::Reply(reply) => self.world.reply(reply).await,
                PageOutcome::Refused(reply) => {
                    self.world.reply(reply).await;
                    let again = self.again;
                    return Err(Failure::Ended(format!(
                        "GitHub created no App. To try again: {again}"
                    )));
                }
                PageOutcome::Code(code) => {
                    return self.answer_code(&code, order, by).await.map(|()| true);
                }
            }
        }
    }

    /// Stores the App while the browser waits, and redirects the browser to the page that installs it.
    async fn answer_code(
        &mut self,
        code: &str,
        order: &CreateAppArgs,
        by: Option<&str>,
    ) -> Result<(), Failure> {
        match self.take_code(code, order, by).await {
            Ok(address) => {
                self.world.reply(BrowserResponse::to(&address)).await;
                Ok(())
            }
            Err(failure) => {
                self.world.reply(BrowserResponse::failed(&failure.sentence())).await;
                Err(failure)
            }
        }
    }

    /// Passes GitHub's code to the function, which exchanges it for the key if the App belongs to the requested
    /// account. Returns the address of the page that installs the App.
    async fn take_code(
        &mut self,
        code: &str,
        order: &CreateAppArgs,
        by: Option<&str>,
    ) -> Result<String, Failure> {
        let mut create = json!({ "code": code, "api_url": order.github.api() });
        create["owner"] = match &order.of.org {
            Some(name) => json!({ "organization": name.as_str() }),
            None => json!("person"),
        };
        if order.replace {
            create["replace"] = json!(true);
        }
        let request = self.asks("create", &create, by);
        let answer = match self.answer(&request).await {
            // The code works once. The function recognizes a code that it has used, and answers again.
            Err(Failure::NoAnswer { .. }) => match self.answer(&request).await {
                Err(Failure::NoAnswer { .. }) => return Err(lost()),
                answer => answer?,
            },
            answer => answer?,
        };
        let now: ShownGithub = parsed("github", answer)?;
        let Some(app) = &now.app else { return Err(lost()) };
        let named = views::named(app);
        self.world.say(&format!("✓ App {named}; its key and webhook secret never left AWS"));
        self.tell_left(&now);
        Ok(install_address(&now, app))
    }

    /// Prints what failed after the key was stored.
    fn tell_left(&mut self, now: &ShownGithub) {
        if let Some(left) = &now.left {
            self.world.say(&format!("! {}", told(left)));
        }
    }

    /// Handles what the user typed instead of using the page. Returns true if the App is connected.
    async fn typed(
        &mut self,
        setup_page: &SetupPage,
        order: &CreateAppArgs,
        by: Option<&str>,
        now: &ShownGithub,
        text: &str,
    ) -> Result<bool, Failure> {
        if text.contains("code=") {
            match setup_page.pasted(text) {
                Ok(code) => return self.take_code(&code, order, by).await.map(|_| true),
                Err(why) => self.world.say(&why),
            }
            return Ok(false);
        }
        let Ok(app_id) = text.parse::<u64>() else {
            if !text.is_empty() {
                // Do not repeat the text: it may be a key that was pasted by mistake.
                self.world.say("That is neither GitHub's answer nor an App ID.");
            }
            return Ok(false);
        };
        let key = self.world.ask("Path of the App's private key (.pem)")?;
        let github = order.github.clone();
        self.connect(
            &ConnectAppArgs { app_id, key: key.trim().into(), github, yes: true },
            by,
            now,
        )
        .await?;
        Ok(true)
    }

    /// Asks who will own the App. The default is the organization that the user owns, if GitHub knows the user here and
    /// there is exactly one.
    pub(super) async fn owner(&mut self, of: &OwnerArgs, host: &Host) -> Result<Owner, Failure> {
        if of.user {
            return Ok(Owner::Person);
        }
        if let Some(name) = &of.org {
            return Ok(Owner::Organization(name.clone()));
        }
        if !self.world.is_attended() {
            return Err(Failure::Usage(WHOSE.to_owned()));
        }
        // There is no App yet that would show where the token may be sent.
        let answer = match host.name().eq_ignore_ascii_case(&self.world.usual_github()) {
            true => {
                let path = "user/memberships/orgs?state=active&per_page=100";
                let address = format!("{}/{path}", host.api());
                self.world.github(&address).await.ok().flatten().unwrap_or_default()
            }
            false => Value::Null,
        };
        let all = answer.as_array().map(Vec::as_slice).unwrap_or_default();
        let owned = all.iter().filter(|one| one["role"] == "admin");
        let names: Vec<&str> =
            owned.filter_map(|one| one["organization"]["login"].as_str()).collect();
        let usual = if let [only] = names.as_slice() { *only } else { "me" };
        let question = "Which organization owns the repositories? (me: your own account)";
        loop {
            match self.world.offer(question, usual)?.trim() {
                "me" => return Ok(Owner::Person),
                name => match Login::read(name) {
                    Ok(name) => return Ok(Owner::Organization(name)),
                    Err(why) => self.world.say(&why),
                },
            }
        }
    }

    /// Waits until the App is installed at least once.
    async fn installed(&mut self, may_browse: bool) -> Result<(), Failure> {
        let until = self.world.now() + OPEN;
        let mut is_told = false;
        loop {
            let now = self.github_now().await?;
            let Some(app) = &now.app else {
                // GitHub may not answer for a moment, or not know a key that it has just created.
                if self.world.now() >= until - OPEN + KNOWN {
                    return Err(lost());
                }
                self.pause().await?;
                continue;
            };
            if !now.installations.is_empty() {
                self.world.say(&views::installed(&now.installations));
                return Ok(());
            }
            if !is_told {
                let address = install_address(&now, app);
                self.world.say(&views::to_install(&address));
                if may_browse {
                    let _ = self.world.browse(&address);
                }
                is_told = true;
            }
            if self.world.now() >= until || !self.world.wait(LOOKS).await {
                let again = self.again;
                let said = format!("The App is not installed yet. To continue: {again}");
                return Err(Failure::Ended(said));
            }
        }
    }

    async fn github_link(&mut self, of: &OwnerArgs, github: &Host) -> Result<String, Failure> {
        let owner = self.owner(of, github).await?;
        let Some(new) = self.github_now().await?.new_app else {
            return Err(Failure::Unknown(NO_ADDRESS.to_owned()));
        };
        Ok(views::letter(&owner, &owner.link(&new, github)))
    }

    async fn github_connect(
        &mut self,
        order: &ConnectAppArgs,
        by: Option<&str>,
    ) -> Result<String, Failure> {
        let now = self.github_now().await?;
        self.connect(order, by, &now).await?;
        self.tell_hook_tested().await;
        let answer = self.answer(&self.about_app()).await?;
        self.github_page(answer)
    }

    async fn github_remove(&mut self, by: Option<&str>, yes: bool) -> Result<String, Failure> {
        let app = self.app;
        let question = format!("Remove App {app} from the stack? Its jobs are then not served.");
        self.agreed(yes, &question)?;
        let answer = self.answer(&self.asks("remove", &json!(true), by)).await?;
        if self.json {
            return Ok(pretty(&answer));
        }
        self.world.say(&format!("✓ App {app} is removed; its owner can delete it at GitHub"));
        self.tell_left(&parsed("github", answer)?);
        Ok(String::new())
    }

    /// Stores the key of an existing App.
    async fn connect(
        &mut self,
        order: &ConnectAppArgs,
        by: Option<&str>,
        now: &ShownGithub,
    ) -> Result<(), Failure> {
        let path = order.key.to_string_lossy();
        let key = self.world.read_file(&path)?;
        if !key.contains("-----BEGIN ") || !key.contains("PRIVATE KEY-----") {
            let why =
                "this is not a private key in PEM format; generate one in the App's settings \
                on GitHub"
                    .to_owned();
            return Err(Failure::File { path: path.into_owned(), why });
        }
        if let Some(app) = now.app.as_ref().filter(|app| app.id != order.app_id) {
            let named = views::named(app);
            let question = format!("Use App {} instead of {named}?", order.app_id);
            self.agreed(order.yes, &question)?;
        }
        let api_url = order.github.api();
        let connect = json!({ "app_id": order.app_id, "private_key": key, "api_url": api_url });
        let answer = self.answer(&self.asks("connect", &connect, by)).await?;
        let now: ShownGithub = parsed("github", answer)?;
        if let Some(app) = &now.app {
            self.world.say(&format!("✓ App {} is connected", views::named(app)));
        }
        self.tell_left(&now);
        Ok(())
    }

    async fn github_hook(&mut self, order: &HookArgs, by: Option<&str>) -> Result<String, Failure> {
        let yes = order.yes;
        match order.what.unwrap_or_default() {
            HookWhat::Set => self.hook_ordered(HookAction::Set, by, yes).await,
            HookWhat::Remove => self.hook_ordered(HookAction::Remove, by, yes).await,
            HookWhat::Test if self.json => self.hook_ordered(HookAction::Test, by, yes).await,
            HookWhat::Test => self.hook_tested().await,
            HookWhat::Show => {
                let answer = self.answer(&self.asks("hook", &json!("show"), by)).await?;
                if self.json {
                    return Ok(pretty(&answer));
                }
                Ok(views::hook(&parsed("github", answer)?, self.screen))
            }
        }
    }

    async fn hook_ordered(
        &mut self,
        hook: HookAction,
        by: Option<&str>,
        yes: bool,
    ) -> Result<String, Failure> {
        let attribution = Attribution { reason: None, by: by.map(str::to_owned) };
        self.ordered(&Order::Hook(hook, self.app), &attribution, yes, None).await
    }

    /// Asks GitHub to redeliver an event. Fails if the response is not a success.
    async fn hook_tested(&mut self) -> Result<String, Failure> {
        let tested = self.tested().await?;
        let (is_good, said) = views::tested(&tested);
        if is_good { Ok(format!("✓ {said}\n")) } else { Err(Failure::Ended(said)) }
    }

    /// Tests the webhook. GitHub may not have sent the first delivery yet, shortly after the App
    /// was installed.
    async fn tested(&mut self) -> Result<TestedHook, Failure> {
        let request = self.asks("hook", &json!("test"), None);
        let mut tries = 0;
        loop {
            tries += 1;
            let tested: TestedHook = parsed("github", self.answer(&request).await?)?;
            if tested.tested.is_some() || tries == TESTS {
                return Ok(tested);
            }
            self.pause().await?;
        }
    }

    /// Tests the webhook as one of several steps, which a failure does not undo.
    pub(super) async fn tell_hook_tested(&mut self) {
        match self.hook_tested().await {
            Ok(said) => self.world.say(said.trim_end()),
            // An old release has no webhook test.
            Err(Failure::Refused { code, .. }) if code == "bad_request" => {
                self.world.say(
                    "! the stack's release cannot test its webhook: muster github shows \
                    the last deliveries and their responses",
                );
            }
            Err(failure) => self.world.say(&format!("! {}", failure.sentence())),
        }
    }
}

pub(super) const WHOSE: &str =
    "Choose the App's owner: --org ORG, or --user for your own repositories.";
const NO_ADDRESS: &str =
    "The stack does not know its webhook's address; its release may be too old.";

/// Checks that the connected App belongs to the requested organization, if one was given.
fn is_owned(app: &ShownApp, of: &OwnerArgs) -> Result<(), Failure> {
    let (Some(asked), Some(owner)) = (&of.org, &app.owner) else { return Ok(()) };
    let asked = asked.as_str();
    if owner.eq_ignore_ascii_case(asked) {
        return Ok(());
    }
    let named = views::named(app);
    Err(Failure::Usage(format!(
        "The stack's App is {named}, which {asked} does not own. Omit --org to keep it, or replace \
        it: muster github create --org {asked} --replace"
    )))
}

fn lost() -> Failure {
    Failure::Ended(views::LOST_CODE.to_owned())
}

fn install_address(now: &ShownGithub, app: &ShownApp) -> String {
    let usual = || format!("{}/installations/new", app.html_url);
    now.install_url.clone().unwrap_or_else(usual)
}
