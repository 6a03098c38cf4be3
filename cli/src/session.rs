//! One command: what is asked of the stack, of GitHub and of the person, and what comes of it.

mod alarms;
mod audit;
mod backlog;
mod canary;
mod dead_letters;
mod delete;
mod doctor;
mod find;
mod github;
mod logs;
mod machine_log;
mod notices;
mod pools;
mod report;
mod setup;
mod shell;
mod simulate;
mod teardown;
mod ui;
mod upgrade;
mod usage;
mod watch;

use clap::CommandFactory as _;
use muster_control::admin::answers::{
    AdoptedJobs, ExplainedInstance, ExplainedJob, InstanceList, JobList, PhaseList, ShownInstance,
    StackStatus, SwitchedNow,
};
use muster_control::admin::{JobsRequest, ListRequest, Request, VERSION};
use muster_domain::ids::{Entity, JobKey, PoolName};
use muster_domain::instance::State;
use muster_domain::pool_file::Problem;
use muster_domain::time::{Seconds, Time};
use muster_sigv4::Call;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::app::door::{Asked, Reply};
use crate::args::{Command, Doctor, Listing, Muster, Order, Switch};
use crate::display::escaped_json;
use crate::failure::Failure;
use crate::lists::Pages;
use crate::name::of_runner;
use crate::page::Screen;
use crate::ui::Serving;
use crate::views::{self, told};

/// What a command meets.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait World {
    /// The admin function's answer to a request.
    async fn admin(&mut self, request: &Value) -> Result<Value, Failure>;
    /// The answers of AWS's services to calls that are made side by side, in the same order.
    async fn aws(&mut self, calls: Vec<Call>) -> Result<Vec<Result<Value, Failure>>, Failure>;
    /// What AWS keeps under a name, as it is.
    async fn object(&mut self, call: Call) -> Result<Vec<u8>, Failure>;
    /// The stack that is asked.
    async fn stack(&mut self) -> Result<String, Failure>;
    /// The stack is not there: takes the only other one, or says what there is.
    async fn other_stack(&mut self) -> Result<(), Failure>;
    /// GitHub's answer to a GET; none when it shows no such thing. The operator's token is sent along, so `address` has to be
    /// at the stack's GitHub.
    async fn github(&mut self, address: &str) -> Result<Option<Value>, Failure>;
    /// The GitHub that the operator usually works with: `GH_HOST`, else github.com.
    fn usual_github(&self) -> String;
    /// A file's text.
    fn read_file(&mut self, path: &str) -> Result<String, Failure>;
    /// Whether somebody sits at a terminal.
    fn is_attended(&self) -> bool;
    /// Writes text to stderr. Whatever a terminal would obey in it is removed.
    fn say(&mut self, text: &str);
    /// Writes a page to stderr, with its colours.
    fn show(&mut self, page: &str);
    /// Writes what is known so far to stdout.
    fn print(&mut self, text: &str);
    /// Shows this instead of what was shown before. For a terminal.
    fn redraw(&mut self, text: &str);
    /// How many lines that may have.
    fn height(&self) -> u16;
    /// Waits. False: the person has seen enough.
    async fn wait(&mut self, time: Seconds) -> bool;
    /// From now on Ctrl-C ends the wait that is on or comes next, and a second one the command.
    async fn hold(&mut self);
    /// Asks for yes or no.
    fn confirm(&mut self, question: &str) -> Result<bool, Failure>;
    /// Asks for a line.
    fn ask(&mut self, question: &str) -> Result<String, Failure>;
    /// The same, with an answer that Enter gives.
    fn offer(&mut self, question: &str, usual: &str) -> Result<String, Failure>;
    /// Lets the person change a text; none if it was not saved.
    fn edit(&mut self, text: &str) -> Result<Option<String>, Failure>;
    /// The time.
    fn now(&self) -> Time;
    /// Where the stack is.
    fn region(&self) -> String;
    /// Whether there is such a file.
    fn exists(&mut self, path: &str) -> bool;
    /// Starts a program in a folder, for the same account and region.
    fn start(&mut self, program: &str, line: &[String], folder: &str) -> Result<(), Failure>;
    /// Becomes another program, for the same account and region. Comes back only where that cannot be.
    fn hand_over(&mut self, program: &str, line: &[String]) -> Failure;
    /// How it ended; none while it runs.
    fn ended(&mut self) -> Result<Option<Ended>, Failure>;
    /// What is being done, should the person stop it.
    fn stage(&mut self, name: &'static str);
    /// Opens a page on the loopback interface. Its port.
    async fn listen(&mut self) -> Result<u16, Failure>;
    /// What comes next to that page, or what the person types if that is asked for.
    async fn visit(&mut self, typed: bool, time: Seconds) -> Result<Visit, Failure>;
    /// Answers the request that came last.
    async fn reply(&mut self, reply: Reply);
    /// Closes the page: whoever comes now finds nobody.
    fn close(&mut self);
    /// Serves pages until the person has enough, or nobody has looked at one for an hour.
    async fn serve(&mut self, serving: Serving) -> Result<(), Failure>;
    /// Opens a public address in the operator's browser. False: there is none.
    fn browse(&mut self, address: &str) -> bool;
    /// Opens an address with a secret in it, which no other user of the machine sees. False: there is no browser.
    fn browse_privately(&mut self, address: &str) -> bool;
    /// Bytes that cannot be guessed.
    fn random<const N: usize>(&mut self) -> Result<[u8; N], Failure>;
}

/// A program that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub is_good: bool,
    /// On stdout and stderr.
    pub said: String,
}

/// Who comes to the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visit {
    /// A browser, or whoever knocks.
    Asked(Asked),
    /// The person, at the terminal.
    Typed(String),
    /// The time is over.
    Nobody,
}

/// Runs a command. What it returns belongs on stdout.
///
/// # Errors
/// Why it was not done.
pub async fn run<W: World>(args: Muster, screen: Screen, world: &mut W) -> Result<String, Failure> {
    let mut session = Session {
        world,
        screen,
        json: args.global.json,
        again: "muster github create",
        github: None,
    };
    match args.command.unwrap_or(Command::Status) {
        Command::Status => session.status().await,
        Command::Doctor(Doctor { canary: true, order, .. }) => session.canary(&order).await,
        Command::Doctor(Doctor { deep, .. }) => session.doctor(deep).await,
        Command::Jobs { listing, adopt } => session.jobs(listing, adopt).await,
        Command::Explain { name } => session.explain(&name).await,
        Command::List { listing, state } => session.list(listing, state.as_deref()).await,
        Command::Show { name } => session.show(&name).await,
        Command::Phases { pool } => session.phases(pool).await,
        Command::Costs(order) => session.costs(order).await,
        Command::Waits { since, until, pool } => session.waits(since, until, pool).await,
        Command::Simulate(order) => session.simulate(order).await,
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
        Command::Pause { switch, length } => session.switch(&switch, "off", length).await,
        Command::Resume(switch) => session.switch(&switch, "on", None).await,
        Command::Pools { command } => session.pools(command).await,
        Command::Setup(order) => session.setup(&order).await,
        Command::Upgrade(order) => session.upgrade(&order).await,
        Command::Teardown(order) => session.teardown(&order).await,
        Command::GitHub { by, command } => session.github(by, command).await,
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Muster::command(), "muster", &mut text);
            Ok(String::from_utf8_lossy(&text).into_owned())
        }
        Command::Man => Ok(man()),
    }
}

/// The man page: the command, and each of its own below it.
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
    /// The command that continues after an interruption.
    again: &'static str,
    /// The host of the stack's GitHub, once it is known.
    github: Option<String>,
}

/// What the function says when it says no. The code is a text: another release may have others.
#[derive(Deserialize)]
struct Refusal {
    code: String,
    message: String,
    #[serde(default)]
    errors: Vec<Problem>,
}

/// A request as the function takes it.
#[must_use]
pub fn versioned(request: &Value) -> Value {
    let mut request = request.clone();
    request["version"] = json!(VERSION);
    request
}

/// What the function says; its refusal is a failure.
///
/// # Errors
/// That refusal.
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

impl<W: World> Session<'_, W> {
    /// Asks the function; its refusal is a failure.
    async fn answer(&mut self, request: &Value) -> Result<Value, Failure> {
        judged(self.world.admin(&versioned(request)).await?)
    }

    /// Makes one call.
    async fn call(&mut self, call: Call) -> Result<Value, Failure> {
        self.world.aws(vec![call]).await?.pop().unwrap_or(Ok(Value::Null))
    }

    /// The answer as it is for programs, or as a page.
    async fn shown<T: DeserializeOwned>(
        &mut self,
        what: &'static str,
        request: Request,
        page: impl FnOnce(&T, Time, Screen) -> String,
    ) -> Result<String, Failure> {
        let answer = self.answer(&json!(request)).await?;
        self.put(what, answer, page)
    }

    /// The same of a list that comes in pages. A program gets all of it, if it does not say how much.
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
        Ok(page(&read(what, answer)?, self.world.now(), self.screen))
    }

    async fn asked<T: DeserializeOwned>(
        &mut self,
        what: &'static str,
        request: Request,
    ) -> Result<T, Failure> {
        read(what, self.answer(&json!(request)).await?)
    }

    async fn status(&mut self) -> Result<String, Failure> {
        let answer = self.answer(&json!(Request::Status { github: true })).await?;
        if self.json {
            return Ok(pretty(&answer));
        }
        let mut status: StackStatus = read("status", answer)?;
        // First, since whatever a function fails to record is missing in the answer.
        status.overview.wants.splice(0..0, self.backlog_wants().await);
        if self.screen.width.is_none() {
            self.tell(&views::status::talk(&status.overview));
        }
        let StackStatus { overview, app, .. } = &status;
        Ok(views::status::page(overview, app.as_ref(), &self.world.region(), self.screen))
    }

    /// What belongs beside the answer, if there is anything.
    fn tell(&mut self, text: &str) {
        if !text.is_empty() {
            self.world.say(text.trim_end());
        }
    }

    async fn jobs(
        &mut self,
        Listing { pool, find, limit }: Listing,
        adopt: Option<Entity>,
    ) -> Result<String, Failure> {
        if adopt.is_some() {
            let request = JobsRequest { adopt: true, repository: adopt, ..JobsRequest::default() };
            let request = Request::Jobs(request);
            return self.shown::<AdoptedJobs>("jobs", request, views::jobs::adopted).await;
        }
        let is_found = find.is_some();
        let request = Request::Jobs(JobsRequest { pool, q: find, ..JobsRequest::default() });
        let page = |told: &JobList, now, screen: Screen| match told.is_empty() {
            true if is_found && screen.width.is_some() => {
                "No job that waits is like that.\n".into()
            }
            _ => views::jobs::list(told, now, screen),
        };
        self.listed("jobs", &request, limit, page).await
    }

    async fn list(&mut self, listing: Listing, state: Option<&str>) -> Result<String, Failure> {
        let state = state.map(state_of).transpose()?;
        let Listing { pool, find, limit } = listing;
        let is_found = find.is_some();
        let request = Request::List(ListRequest { pool, state, q: find, ..ListRequest::default() });
        let page = |told: &InstanceList, now, screen: Screen| match told.instances.is_empty() {
            true if is_found && screen.width.is_some() => "No live instance is like that.\n".into(),
            _ => views::instances::list(told, now, screen),
        };
        self.listed("list", &request, limit, page).await
    }

    async fn phases(&mut self, pool: Option<PoolName>) -> Result<String, Failure> {
        self.shown::<PhaseList>("phases", Request::Phases { pool }, views::phases::page).await
    }

    async fn explain(&mut self, name: &str) -> Result<String, Failure> {
        match self.find(name).await? {
            find::Found::Jobs(keys) => self.explain_jobs(&keys).await,
            find::Found::Instance(name) => {
                let request = |name| json!(Request::Explain { job: None, name: Some(name) });
                let answer = self.of_instance(&name, request).await?;
                if self.json {
                    return Ok(pretty(&answer));
                }
                let told: ExplainedInstance = read("explain", answer)?;
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
                    let told: ExplainedJob = read("explain", answer)?;
                    pages.push(views::job::page(&told, self.screen));
                }
                // Of a run's many jobs, others' runners serve some.
                Err(Failure::Refused { code, message, .. })
                    if code == "not_found" && keys.len() > 1 =>
                {
                    self.world.say(&message);
                }
                Err(Failure::Refused { code, message, problems }) if code == "not_found" => {
                    let message = match self.not_on_record().await {
                        Some(why) => format!("Job {key} is not on record. {why}"),
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
        let shown: ShownInstance = read("show", answer)?;
        Ok(views::instances::show(&shown, self.world.now(), self.screen))
    }

    /// The answer to `show`, by any name.
    async fn show_instance(&mut self, name: &str) -> Result<Value, Failure> {
        let name = self.instance(name).await?;
        self.of_instance(&name, |name| json!(Request::Show { name, github: false })).await
    }

    /// Asks about an instance. A runner's name is not one, and only the function knows which of them it was given.
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

    async fn switch(
        &mut self,
        switch: &Switch,
        to: &str,
        length: Option<Seconds>,
    ) -> Result<String, Failure> {
        let Order { reason, by } = self.order(&switch.order, "Why?")?;
        let mut request = json!({ "action": "switch", "reason": reason, "by": by, "pools": {} });
        if let Some(length) = length {
            request["for_seconds"] = json!(length);
        }
        for what in &switch.what {
            match what.as_str() {
                "launches" | "deletes" => request[what] = json!(to),
                pool => request["pools"][pool] = json!(to),
            }
        }
        let answer = self.answer(&request).await?;
        if self.json {
            return Ok(pretty(&answer));
        }
        let now: SwitchedNow = read("switch", answer)?;
        Ok(views::orders::switches(&now.switches, self.world.now(), self.screen))
    }

    /// An order with its reason; the person is asked for one that is missing.
    fn order(&mut self, order: &Order, question: &str) -> Result<Order, Failure> {
        let reason = match &order.reason {
            Some(reason) => reason.clone(),
            None if self.world.is_attended() => self.world.ask(question)?,
            None => return Err(Failure::Usage("Say why: --reason \"…\"".to_owned())),
        };
        Ok(Order { reason: Some(reason), by: order.by.clone() })
    }

    /// Asks for a yes where somebody can give it.
    fn agreed(&mut self, yes: bool, question: &str) -> Result<(), Failure> {
        if yes {
            return Ok(());
        }
        if !self.world.is_attended() {
            let message = "Nobody can be asked here; --yes says yes. Nothing was changed.";
            return Err(Failure::Usage(message.to_owned()));
        }
        if self.world.confirm(question)? { Ok(()) } else { Err(Failure::NotConfirmed) }
    }
}

/// The `limit` of a listing for people that names none.
const USUAL_LIMIT: u32 = 200;

fn state_of(text: &str) -> Result<State, Failure> {
    serde_json::from_value(json!(text)).map_err(|_| {
        let all: Vec<&str> = State::ALL.iter().map(|state| state.as_str()).collect();
        Failure::Usage(format!("{text:?} is not a state; there are {}", all.join(", ")))
    })
}

fn read<T: DeserializeOwned>(what: &'static str, answer: Value) -> Result<T, Failure> {
    serde_json::from_value(answer)
        .map_err(|error| Failure::Unreadable { what, why: error.to_string() })
}

fn pretty(value: &Value) -> String {
    escaped_json(&format!("{value:#}\n"))
}
