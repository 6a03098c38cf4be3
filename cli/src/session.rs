//! Runs one command: queries the stack and GitHub, prompts the user, and returns the result.

mod alarms;
mod audit;
mod backlog;
mod batch;
mod canary;
mod dead_letters;
mod doctor;
mod find;
mod github;
mod images;
mod logs;
mod machine_log;
mod notices;
mod order;
mod pools;
mod report;
mod rightsize;
mod setup;
mod shell;
mod simulate;
mod stack;
mod teardown;
mod ui;
mod upgrade;
mod usage;
mod watch;

use clap::CommandFactory as _;
use muster_api::answers::{
    ExplainedInstance, ExplainedJob, InstanceList, JobList, PhaseList, ShownInstance, StackStatus,
};
use muster_api::{JobsRequest, ListRequest, MIN_REASON, Request, To, VERSION, is_reason};
use muster_domain::ids::{AppName, Entity, JobKey, PoolName};
use muster_domain::instance::State;
use muster_domain::pool_file::Problem;
use muster_domain::time::Time;
use muster_sigv4::Call;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::args::{Attribution, Command, DoctorArgs, ListingArgs, Muster};
use crate::display::escaped_json;
use crate::failure::{Failure, parsed};
use crate::lists::Pages;
use crate::name::of_runner;
use crate::orders::Order;
use crate::page::Screen;
use crate::views::{self, told};
use crate::world::{Cloud, Console, World};

/// Runs a command. Returns the text for stdout.
///
/// # Errors
/// If the command was not carried out.
pub async fn run<W: World>(args: Muster, screen: Screen, world: &mut W) -> Result<String, Failure> {
    let mut session = Session {
        world,
        screen,
        json: args.global.json,
        again: "muster github create",
        github: None,
        app: AppName::MAIN,
    };
    match args.command.unwrap_or(Command::Status) {
        Command::Status => session.status().await,
        Command::Doctor(DoctorArgs { canary: true, order, .. }) => session.canary(&order).await,
        Command::Doctor(DoctorArgs { deep, .. }) => session.doctor(deep).await,
        Command::Jobs { listing, adopt } => session.jobs(listing, adopt).await,
        Command::Explain { name } => session.explain(&name).await,
        Command::List { listing, state } => session.list(listing, state.as_deref()).await,
        Command::Show { name } => session.show(&name).await,
        Command::Phases { pool } => session.phases(pool).await,
        Command::Costs(order) => session.costs(order).await,
        Command::Waits { since, until, pool } => session.waits(since, until, pool).await,
        Command::Simulate(order) => session.simulate(order).await,
        Command::Rightsize(order) => session.rightsize(order).await,
        Command::Watch { name } => session.watch(name.as_deref()).await,
        Command::Report(order) => session.report(&order).await,
        Command::Ui(order) => session.ui(order).await,
        Command::Logs(order) => session.logs(&order).await,
        Command::Connect { name, print } => session.shell(&name, print).await,
        Command::Alarms { name } => session.alarms(name.as_deref()).await,
        Command::Notices { command } => session.notices(command).await,
        Command::DeadLetters(order) => session.dead_letters(&order).await,
        Command::Audit { name, since } => session.audit(name.as_deref(), since).await,
        Command::Delete(order) => session.delete(&order).await,
        Command::Pause { switch, length } => session.switch(&switch, To::Off, length).await,
        Command::Resume(switch) => session.switch(&switch, To::On, None).await,
        Command::Pools { command } => session.pools(command).await,
        Command::Image { watch, command } => session.image(watch, command).await,
        Command::Setup(order) => session.setup(&order).await,
        Command::Upgrade(order) => session.upgrade(&order).await,
        Command::Teardown(order) => session.teardown(&order).await,
        Command::GitHub { by, app, command } => {
            session.app = app;
            session.github(by, command).await
        }
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Muster::command(), "muster", &mut text);
            Ok(String::from_utf8_lossy(&text).into_owned())
        }
        Command::Man => Ok(man()),
    }
}

/// Returns the man page: the command, with all its subcommands.
fn man() -> String {
    let mut text = Vec::new();
    let mut command = Muster::command();
    command.build();
    let pages = std::iter::once(&command).chain(command.get_subcommands());
    for page in pages.filter(|page| page.get_name() != "help") {
        // Writing to memory does not fail.
        let _ = clap_mangen::Man::new(page.clone()).render(&mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}

struct Session<'a, W> {
    world: &'a mut W,
    screen: Screen,
    json: bool,
    /// Command that continues after an interruption.
    again: &'static str,
    /// Host of the stack's GitHub, once it is known.
    github: Option<String>,
    /// The App that `github` is about.
    app: AppName,
}

/// The function's refusal. The code is text, because a different release may have other codes.
#[derive(Deserialize)]
struct Refusal {
    code: String,
    message: String,
    #[serde(default)]
    errors: Vec<Problem>,
}

/// Returns a request in the format that the function expects.
#[must_use]
pub fn versioned(request: &Value) -> Value {
    let mut request = request.clone();
    request["version"] = json!(VERSION);
    request
}

/// Parses the function's answer.
///
/// # Errors
/// If the function refused the request, or its answer cannot be parsed.
pub fn judged(answer: Value) -> Result<Value, Failure> {
    if answer["ok"] == true {
        return Ok(answer);
    }
    match serde_json::from_value::<Refusal>(answer["error"].clone()) {
        Ok(Refusal { code, message, errors }) => {
            Err(Failure::Refused { code, message: told(&message), problems: errors })
        }
        Err(error) => Err(Failure::Unreadable { what: "the request", why: error.to_string() }),
    }
}

impl<W: Cloud> Session<'_, W> {
    /// Queries an instance. A runner's name is not an instance name, and only the function can map it to its instance.
    async fn of_instance(
        &mut self,
        name: &str,
        request: impl Fn(String) -> Value,
    ) -> Result<Value, Failure> {
        let refused = match self.answer(&request(name.to_owned())).await {
            Err(Failure::Refused { code, message, problems }) if code == "not_found" => {
                Failure::Refused { code, message, problems }
            }
            answer => return answer,
        };
        let Some(instance) = of_runner(name) else { return Err(refused) };
        match self.answer(&request(instance.to_owned())).await {
            Err(Failure::Refused { code, .. }) if code == "not_found" => Err(refused),
            answer => answer,
        }
    }

    /// Calls the function. A refusal is a failure.
    async fn answer(&mut self, request: &Value) -> Result<Value, Failure> {
        judged(self.world.admin(&versioned(request)).await?)
    }

    /// Makes one AWS call.
    async fn call(&mut self, call: Call) -> Result<Value, Failure> {
        self.world.aws(vec![call]).await?.pop().unwrap_or(Ok(Value::Null))
    }

    async fn asked<T: DeserializeOwned>(
        &mut self,
        what: &'static str,
        request: Request,
    ) -> Result<T, Failure> {
        parsed(what, self.answer(&json!(request)).await?)
    }
}

impl<W: Cloud + Console> Session<'_, W> {
    /// Returns the answer as JSON for programs, or as a page.
    async fn shown<T: DeserializeOwned>(
        &mut self,
        what: &'static str,
        request: Request,
        page: impl FnOnce(&T, Time, Screen) -> String,
    ) -> Result<String, Failure> {
        let answer = self.answer(&json!(request)).await?;
        self.put(what, answer, page)
    }

    /// Returns a list that has several pages, as JSON or as a page. JSON includes all pages unless a limit is given.
    async fn listed<T: DeserializeOwned>(
        &mut self,
        what: &'static str,
        request: &Request,
        limit: Option<u32>,
        page: impl FnOnce(&T, Time, Screen) -> String,
    ) -> Result<String, Failure> {
        let is_for_people = self.screen.width.is_some() && !self.json;
        let limit = limit.or(is_for_people.then_some(USUAL_LIMIT));
        let mut pages = Pages::new(json!(request), limit);
        while pages.add(self.answer(&pages.request()).await?) {}
        self.put(what, pages.into_answer(), page)
    }

    fn put<T: DeserializeOwned>(
        &self,
        what: &'static str,
        answer: Value,
        page: impl FnOnce(&T, Time, Screen) -> String,
    ) -> Result<String, Failure> {
        if self.json {
            return Ok(pretty(&answer));
        }
        Ok(page(&parsed(what, answer)?, self.world.now(), self.screen))
    }

    async fn status(&mut self) -> Result<String, Failure> {
        let answer = self.answer(&json!(Request::Status { github: true })).await?;
        if self.json {
            return Ok(pretty(&answer));
        }
        let mut status: StackStatus = parsed("status", answer)?;
        // First, because the answer does not include what the function failed to record.
        status.overview.findings.splice(0..0, self.backlog_findings().await);
        if self.screen.width.is_none() {
            self.tell(&views::status::talk(&status.overview));
        }
        Ok(views::status::page(&status.overview, &self.world.region(), self.screen))
    }

    /// Writes a note next to the answer, unless it is empty.
    fn tell(&mut self, text: &str) {
        if !text.is_empty() {
            self.world.say(text.trim_end());
        }
    }

    async fn jobs(
        &mut self,
        ListingArgs { pool, find, limit }: ListingArgs,
        adopt: Option<Entity>,
    ) -> Result<String, Failure> {
        if let Some(repository) = adopt {
            let order = Order::Adopt { repository };
            return self.ordered(&order, &Attribution::default(), false, None).await;
        }
        let is_found = find.is_some();
        let request = Request::Jobs(JobsRequest { pool, q: find, ..JobsRequest::default() });
        let page = |told: &JobList, now, screen: Screen| match told.is_empty() {
            true if is_found && screen.width.is_some() => "No waiting job matches.\n".into(),
            _ => views::jobs::list(told, now, screen),
        };
        self.listed("jobs", &request, limit, page).await
    }

    async fn list(&mut self, listing: ListingArgs, state: Option<&str>) -> Result<String, Failure> {
        let state = state.map(state_of).transpose()?;
        let ListingArgs { pool, find, limit } = listing;
        let is_found = find.is_some();
        let request = Request::List(ListRequest { pool, state, q: find, ..ListRequest::default() });
        let page = |told: &InstanceList, now, screen: Screen| match told.instances.is_empty() {
            true if is_found && screen.width.is_some() => "No live instance matches.\n".into(),
            _ => views::instances::list(told, now, screen),
        };
        self.listed("list", &request, limit, page).await
    }

    async fn phases(&mut self, pool: Option<PoolName>) -> Result<String, Failure> {
        self.shown::<PhaseList>("phases", Request::Phases { pool }, views::phases::page).await
    }

    async fn explain(&mut self, name: &str) -> Result<String, Failure> {
        match self.find(name).await? {
            find::NamedObject::Jobs(keys) => self.explain_jobs(&keys).await,
            find::NamedObject::Instance(name) => {
                let request = |name| json!(Request::Explain { job: None, name: Some(name) });
                let answer = self.of_instance(&name, request).await?;
                if self.json {
                    return Ok(pretty(&answer));
                }
                let told: ExplainedInstance = parsed("explain", answer)?;
                Ok(views::sentences(&told.explanation, self.screen))
            }
        }
    }

    async fn explain_jobs(&mut self, keys: &[JobKey]) -> Result<String, Failure> {
        let mut pages = Vec::new();
        for key in keys {
            let request = json!(Request::Explain { job: Some(*key), name: None });
            match self.answer(&request).await {
                Ok(answer) if self.json => pages.push(pretty(&answer)),
                Ok(answer) => {
                    let told: ExplainedJob = parsed("explain", answer)?;
                    pages.push(views::job::page(&told, self.screen));
                }
                // Other fleets' runners may run some of a run's jobs.
                Err(Failure::Refused { code, message, .. })
                    if code == "not_found" && keys.len() > 1 =>
                {
                    self.world.say(&message);
                }
                Err(Failure::Refused { code, message, problems }) if code == "not_found" => {
                    let message = match self.not_on_record().await {
                        Some(why) => format!("Job {key} has no record. {why}"),
                        None => message,
                    };
                    return Err(Failure::Refused { code, message, problems });
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(pages.join("\n"))
    }

    async fn show(&mut self, name: &str) -> Result<String, Failure> {
        let answer = self.show_instance(name).await?;
        if self.json {
            return Ok(pretty(&answer));
        }
        let shown: ShownInstance = parsed("show", answer)?;
        Ok(views::instances::show(&shown, self.world.now(), self.screen))
    }

    /// Returns the answer to `show` for any name.
    async fn show_instance(&mut self, name: &str) -> Result<Value, Failure> {
        let name = self.instance(name).await?;
        self.of_instance(&name, |name| json!(Request::Show { name, github: false })).await
    }

    /// Prompts until the reason is long enough.
    fn ask_reason(&mut self) -> Result<String, Failure> {
        loop {
            let reason = self.world.ask("Reason")?;
            if is_reason(&reason) {
                return Ok(reason);
            }
            self.world.say(&format!(
                "Give a reason of at least {MIN_REASON} characters; the audit log records it."
            ));
        }
    }

    /// Prompts for a confirmation if stdin is a terminal.
    fn agreed(&mut self, yes: bool, question: &str) -> Result<(), Failure> {
        if yes {
            return Ok(());
        }
        if !self.world.is_attended() {
            let message = "Cannot prompt without a terminal; pass --yes. Nothing was changed.";
            return Err(Failure::Usage(message.to_owned()));
        }
        if self.world.confirm(question)? { Ok(()) } else { Err(Failure::NotConfirmed) }
    }
}

/// Default `limit` of a listing on a terminal.
const USUAL_LIMIT: u32 = 200;

fn state_of(text: &str) -> Result<State, Failure> {
    serde_json::from_value(json!(text)).map_err(|_| {
        let all: Vec<&str> = State::ALL.iter().map(|state| state.as_str()).collect();
        Failure::Usage(format!("{text:?} is not a state; the states are {}", all.join(", ")))
    })
}

fn pretty(value: &Value) -> String {
    escaped_json(&format!("{value:#}\n"))
}
