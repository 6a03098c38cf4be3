//! What a command can reach, in four parts: each command names the parts that it uses, and cannot touch the others.

use muster_domain::time::{Seconds, Time};
use muster_sigv4::Call;
use serde_json::Value;

use crate::app::door::{BrowserRequest, BrowserResponse};
use crate::failure::Failure;
use crate::ui::Serving;

/// AWS and GitHub, with the operator's own credentials.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Cloud {
    /// Returns the admin function's answer to a request.
    async fn admin(&mut self, request: &Value) -> Result<Value, Failure>;
    /// Makes calls to AWS's services concurrently. Returns their answers in the order of the calls.
    async fn aws(&mut self, calls: Vec<Call>) -> Result<Vec<Result<Value, Failure>>, Failure>;
    /// Returns an object's content, unparsed.
    async fn object(&mut self, call: Call) -> Result<Vec<u8>, Failure>;
    /// Returns the name of the stack that is queried.
    async fn stack(&mut self) -> Result<String, Failure>;
    /// Switches to the region's only other stack if the stack does not exist. Otherwise fails with the list of stacks.
    async fn other_stack(&mut self) -> Result<(), Failure>;
    /// Returns GitHub's answer to a GET, or `None` for a 404. The operator's token is sent along,
    /// so `address` must be at the stack's GitHub.
    async fn github(&mut self, address: &str) -> Result<Option<Value>, Failure>;
    /// Returns the GitHub host that the operator usually works with: `GH_HOST`, else github.com.
    fn usual_github(&self) -> String;
    /// Returns the stack's region.
    fn region(&self) -> String;
}

/// The terminal: output, prompts, waits and the time.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Console {
    /// Returns whether stdin is a terminal.
    fn is_attended(&self) -> bool;
    /// Writes text to stderr. Removes everything that a terminal would interpret.
    fn say(&mut self, text: &str);
    /// Writes a page to stderr, with its colours.
    fn show(&mut self, page: &str);
    /// Writes interim results to stdout.
    fn print(&mut self, text: &str);
    /// Replaces the text that was shown last. For a terminal only.
    fn redraw(&mut self, text: &str);
    /// Returns the maximum number of lines of that text.
    fn height(&self) -> u16;
    /// Waits. Returns false if the user stopped the wait.
    async fn wait(&mut self, time: Seconds) -> bool;
    /// Makes the first Ctrl-C from now on end the current or next wait, and the second one the command.
    async fn hold(&mut self);
    /// Prompts for yes or no.
    fn confirm(&mut self, question: &str) -> Result<bool, Failure>;
    /// Prompts for a line.
    fn ask(&mut self, question: &str) -> Result<String, Failure>;
    /// Prompts for a line; Enter accepts the default.
    fn offer(&mut self, question: &str, usual: &str) -> Result<String, Failure>;
    /// Opens a text in the user's editor. Returns `None` if it was not saved.
    fn edit(&mut self, text: &str) -> Result<Option<String>, Failure>;
    /// Returns the current time.
    fn now(&self) -> Time;
    /// Sets the name of the current step, which is printed if the user stops the command.
    fn stage(&mut self, name: &'static str);
}

/// Files and programs of the operator's machine.
pub trait Workstation {
    /// Returns a file's text.
    fn read_file(&mut self, path: &str) -> Result<String, Failure>;
    /// Returns whether a file exists.
    fn exists(&mut self, path: &str) -> bool;
    /// Starts a program in a folder, for the same account and region.
    fn start(&mut self, program: &str, line: &[String], folder: &str) -> Result<(), Failure>;
    /// Replaces this process with a program, for the same account and region. Returns only if that fails.
    fn hand_over(&mut self, program: &str, line: &[String]) -> Failure;
    /// Returns how the program ended, or `None` while it runs.
    fn ended(&mut self) -> Result<Option<ProgramResult>, Failure>;
    /// Opens a public address in the operator's browser. Returns false if there is none.
    fn browse(&mut self, address: &str) -> bool;
    /// Opens an address that contains a secret, hidden from the machine's other users. Returns
    /// false if there is no browser.
    fn browse_privately(&mut self, address: &str) -> bool;
    /// Returns random bytes that cannot be guessed.
    fn random<const N: usize>(&mut self) -> Result<[u8; N], Failure>;
}

/// Pages that this command serves on the loopback interface.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait LocalPage {
    /// Opens a page on the loopback interface. Returns its port.
    async fn listen(&mut self) -> Result<u16, Failure>;
    /// Waits for the next request to that page, or for a line from the user if `typed` is set.
    async fn visit(&mut self, typed: bool, time: Seconds) -> Result<Visit, Failure>;
    /// Answers the last request.
    async fn reply(&mut self, reply: BrowserResponse);
    /// Closes the page. Later requests are refused.
    fn close(&mut self);
    /// Serves pages until the user stops it, or an hour after the last request.
    async fn serve(&mut self, serving: Serving) -> Result<(), Failure>;
}

/// Everything that a command can reach.
pub trait World: Cloud + Console + Workstation + LocalPage {}

impl<T: Cloud + Console + Workstation + LocalPage> World for T {}

/// A program that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramResult {
    pub is_good: bool,
    /// Its output on stdout and stderr.
    pub said: String,
}

/// A request to the local page, or a line typed at the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visit {
    /// A request from a browser or from any other program.
    Asked(BrowserRequest),
    /// A line from the user.
    Typed(String),
    /// The time limit passed.
    Nobody,
}
