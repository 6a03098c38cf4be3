//! The CloudFormation stack, and releases to deploy.

use muster_domain::time::Seconds;
use serde_json::Value;

use super::Session;
use crate::failure::Failure;
use crate::setup::stack::{DeploymentProgress, ExistingStack, call};
use crate::world::{Cloud, Console, Workstation};

/// Time between two checks of a deployment.
const LOOKS: Seconds = Seconds(3);
/// Maximum number of pages of stack events that are searched for the cause of a failure.
const PAGES: usize = 10;

/// A folder with a template and functions to deploy.
pub(super) struct Release {
    pub(super) folder: String,
    /// The architecture of a checkout's functions; an unpacked release has it in its template.
    pub(super) architecture: Option<String>,
    /// The version in the template's description.
    pub(super) version: Option<String>,
}

impl<W: Cloud> Session<'_, W> {
    /// Returns the stack, or `None` if it does not exist.
    pub(super) async fn deployed(&mut self, name: &str) -> Result<Option<ExistingStack>, Failure> {
        match self.call(call("DescribeStacks", &[("StackName", name)])).await {
            Ok(answer) => Ok(ExistingStack::read(&answer)),
            Err(Failure::Service { said, .. }) if said.contains("does not exist") => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    pub(super) async fn events(&mut self, id: &str) -> Vec<Value> {
        let mut events = Vec::new();
        let mut token: Option<String> = None;
        for _ in 0..PAGES {
            let mut fields = vec![("StackName", id)];
            fields.extend(token.as_deref().map(|token| ("NextToken", token)));
            let Ok(answer) = self.call(call("DescribeStackEvents", &fields)).await else { break };
            let result = &answer["DescribeStackEventsResult"];
            events.extend(result["StackEvents"].as_array().into_iter().flatten().cloned());
            token = result["NextToken"].as_str().map(str::to_owned);
            if token.is_none() {
                break;
            }
        }
        events
    }

    /// Returns the stack's ID and progress; empty before the stack exists.
    pub(super) async fn progress(
        &mut self,
        stack: &str,
    ) -> Result<(Option<String>, DeploymentProgress), Failure> {
        let mut progress = DeploymentProgress::default();
        let Some(found) = self.deployed(stack).await? else { return Ok((None, progress)) };
        let mut token = None;
        for _ in 0..PAGES {
            let mut fields = vec![("StackName", found.id.as_str())];
            fields.extend(token.as_deref().map(|token| ("NextToken", token)));
            let Ok(answer) = self.call(call("ListStackResources", &fields)).await else { break };
            token = progress.add(&answer);
            if token.is_none() {
                break;
            }
        }
        Ok((Some(found.id), progress))
    }
}

impl<W: Cloud + Console> Session<'_, W> {
    /// Waits for the end of a deployment that is already running.
    pub(super) async fn settled(
        &mut self,
        stack: &str,
        mut one: ExistingStack,
    ) -> Result<ExistingStack, Failure> {
        self.world.say(&format!("stack {stack} is in {}: waiting for it to finish", one.status));
        while one.is_moving() {
            self.pause().await?;
            let gone = ExistingStack { status: "DELETE_COMPLETE".to_owned(), ..one.clone() };
            one = self.deployed(&one.id).await?.unwrap_or(gone);
        }
        Ok(one)
    }

    /// Waits until the next check. The user can stop waiting here.
    pub(super) async fn pause(&mut self) -> Result<(), Failure> {
        if self.world.wait(LOOKS).await { Ok(()) } else { Err(Failure::Interrupted) }
    }
}

impl<W: Cloud + Console + Workstation> Session<'_, W> {
    /// Reads the release in a folder.
    pub(super) fn release(&mut self, folder: &str) -> Result<Release, Failure> {
        let path = |name: &str| format!("{folder}/{name}");
        let is_whole = ["template.yaml", "samconfig.toml", "dist/admin/bootstrap"]
            .iter()
            .all(|name| self.world.exists(&path(name)));
        if !is_whole {
            return Err(Failure::Usage(format!(
                "{folder} contains no release to deploy. Run this in the folder of an unpacked \
                release, or in a checkout after make build; or pass --from FOLDER"
            )));
        }
        let mark = path("dist/architecture");
        let architecture = match self.world.exists(&mark) {
            true => match self.world.read_file(&mark)?.trim() {
                found @ ("x86_64" | "arm64") => Some(found.to_owned()),
                found => {
                    let why =
                        format!("{found:?} is not a Lambda architecture; make build rewrites it");
                    return Err(Failure::File { path: mark, why });
                }
            },
            false => None,
        };
        let template = self.world.read_file(&path("template.yaml"))?;
        let version = template.lines().find_map(|line| {
            let version = line.strip_prefix("  Muster ")?.split(':').next()?;
            Some(version.to_owned())
        });
        Ok(Release { folder: folder.to_owned(), architecture, version })
    }

    pub(super) fn sam(
        &mut self,
        stack: &str,
        release: &Release,
        how: &str,
        values: &[String],
    ) -> Result<(), Failure> {
        let mut line = ["deploy", "--stack-name", stack, how, "--no-fail-on-empty-changeset"]
            .map(str::to_owned)
            .to_vec();
        if !values.is_empty() {
            line.push("--parameter-overrides".to_owned());
            line.extend_from_slice(values);
        }
        self.world.start("sam", &line, &release.folder)
    }
}
