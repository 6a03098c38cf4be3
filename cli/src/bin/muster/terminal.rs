//! The world as it is: AWS, GitHub, and the person at the terminal.

use std::io::{IsTerminal as _, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_smithy_types::body::SdkBody;
use dialoguer::{Confirm, Editor, Input};
use muster_cli::args::Global;
use muster_cli::failure::Failure;
use muster_cli::lambda;
use muster_cli::session::World;
use muster_control::causes::with_causes;
use muster_domain::time::Time;
use serde_json::Value;

use crate::aws::Aws;
use crate::http::send;

pub(crate) struct Terminal {
    global: Global,
    /// Looked for when it is first needed: a file is checked without credentials.
    aws: Option<Aws>,
}

impl Terminal {
    pub(crate) const fn new(global: Global) -> Self {
        Self { global, aws: None }
    }
}

/// Tells the person something, on stderr.
pub(crate) fn say(text: &str) {
    let _ = writeln!(anstream::AutoStream::auto(std::io::stderr()), "{text}");
}

fn no_terminal(error: &dialoguer::Error) -> Failure {
    Failure::Usage(format!("Nobody could be asked: {}", with_causes(error)))
}

impl World for Terminal {
    async fn admin(&mut self, request: &Value) -> Result<Value, Failure> {
        if self.aws.is_none() {
            self.aws = Some(Aws::find(&self.global).await?);
        }
        match &mut self.aws {
            Some(aws) => aws.admin(request).await,
            None => Err(Failure::NoRegion),
        }
    }

    /// The token is GitHub's own for that host: that of github.com goes to no other server.
    async fn github(&mut self, address: &str) -> Result<Option<Value>, Failure> {
        let host = address.split('/').nth(2).unwrap_or_default().to_owned();
        let names: &[&str] = if host == "api.github.com" || host.ends_with(".ghe.com") {
            &["GH_TOKEN", "GITHUB_TOKEN"]
        } else {
            &["GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"]
        };
        let mut request = http::Request::get(address)
            .header("accept", "application/vnd.github+json")
            .header("user-agent", "muster");
        if let Some(token) = names.iter().find_map(|name| std::env::var(name).ok()) {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(SdkBody::empty()).map_err(|error| Failure::Unreachable {
            address: host.clone(),
            why: with_causes(&error),
        })?;
        lambda::github(&host, &send(request, &host).await?)
    }

    fn read_file(&mut self, path: &str) -> Result<String, Failure> {
        let text = if path == "-" {
            std::io::read_to_string(std::io::stdin())
        } else {
            std::fs::read_to_string(path)
        };
        text.map_err(|error| Failure::File { path: path.to_owned(), why: with_causes(&error) })
    }

    fn is_attended(&self) -> bool {
        std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }

    fn say(&mut self, text: &str) {
        say(text);
    }

    fn confirm(&mut self, question: &str) -> Result<bool, Failure> {
        let asked = Confirm::new().with_prompt(question).default(false).interact();
        asked.map_err(|error| no_terminal(&error))
    }

    fn ask(&mut self, question: &str) -> Result<String, Failure> {
        Input::new().with_prompt(question).interact_text().map_err(|error| no_terminal(&error))
    }

    fn edit(&mut self, text: &str) -> Result<Option<String>, Failure> {
        Editor::new().extension(".yaml").edit(text).map_err(|error| no_terminal(&error))
    }

    fn now(&self) -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time::from_millis(i64::try_from(since.as_millis()).unwrap_or_default())
    }

    fn region(&self) -> String {
        self.aws.as_ref().map(|aws| aws.region.clone()).unwrap_or_default()
    }
}
