//! `setup`: from an AWS account to a first job. Each step first checks in the account and at GitHub whether it is done,
//! so an interrupted setup continues.

use muster_api::answers::{AdoptedJobs, JobList, RepositoryList, StackStatus};
use muster_api::{GithubRequest, JobsRequest, Request};
use muster_domain::ids::Entity;
use muster_sigv4::Call;
use tokio::join;

use super::Session;
use super::batch::CallBatch;
use super::doctor::account;
use super::github::WHOSE;
use super::stack::Release;
use crate::args::{CreateAppArgs, OwnerArgs, ParameterArgs, SetupArgs, plain};
use crate::doctor::account::{of_new_stack, suggested_max};
use crate::doctor::facts::account::{AccountFacts, Concurrency};
use crate::failure::Failure;
use crate::setup::network::{Network, Networks};
use crate::setup::stack::{ExistingStack, cause, failed_at, sam_error};
use crate::views;
use crate::words::{count, span};
use crate::world::{Cloud, Console, LocalPage, Workstation};

impl<W: Cloud + Console + Workstation + LocalPage> Session<'_, W> {
    pub(super) async fn setup(&mut self, order: &SetupArgs) -> Result<String, Failure> {
        self.again = "muster setup";
        self.world.stage("account");
        self.who().await?;
        let stack = self.world.stack().await?;
        let mut owner = None;
        let mut found = self.deployed(&stack).await?;
        if let Some(one) = found.take_if(|one| one.is_moving()) {
            self.world.stage("deployment");
            found = Some(self.settled(&stack, one).await?);
        }
        match found {
            Some(one) if one.is_there() => {
                self.world.say(&format!("✓ stack {stack} is deployed; muster upgrade changes it"));
            }
            Some(one) if !one.is_nothing() => return Err(unusable(&stack, &one)),
            Some(_) | None => {
                let release = self.release(&order.from.to_string_lossy())?;
                if order.yes && order.of.org.is_none() && !order.of.user {
                    return Err(Failure::Usage(WHOSE.to_owned()));
                }
                owner = Some(self.owner(&order.of, &order.github).await?);
                let values = self.questions(&stack, &release, order).await?;
                self.world.stage("deployment");
                self.deploy(&stack, &release, &values).await?;
            }
        }
        self.world.stage("GitHub App");
        let of = owner.map_or_else(|| order.of.clone(), OwnerArgs::from);
        let create = CreateAppArgs {
            of,
            github: order.github.clone(),
            no_browser: order.no_browser,
            replace: false,
        };
        let app = self.github_create(&create, order.by.as_deref()).await?;
        self.world.stage("machine image");
        let wanted = order.image.map(|image| image == "yes");
        let builds = self.offer_images(wanted, order.yes, order.by.clone()).await?;
        self.world.stage("first job");
        if self.json {
            return Ok(app);
        }
        self.first_job(&app, builds).await
    }

    /// Prints the account. Without valid credentials, this fails early.
    async fn who(&mut self) -> Result<(), Failure> {
        let fields = [("Action", "GetCallerIdentity"), ("Version", "2011-06-15")];
        let answer = self.call(Call::query("sts", &fields)).await?;
        let who = &answer["GetCallerIdentityResult"];
        let text = |name: &str| who[name].as_str().unwrap_or("?").to_owned();
        let (account, region) = (text("Account"), self.world.region());
        self.world.say(&format!("Account {account}, {region}, as {}", text("Arn")));
        Ok(())
    }

    /// Asks for the stack's parameters that were not given.
    async fn questions(
        &mut self,
        stack: &str,
        release: &Release,
        order: &SetupArgs,
    ) -> Result<Vec<String>, Failure> {
        self.world.stage("network");
        let given = &order.parameters;
        let (all, account) = self.surroundings().await?;
        let asks = !order.yes && self.world.is_attended();
        let network = match asks && given.vpc.is_none() && given.subnets.is_empty() {
            true => self.network(&all)?,
            false => {
                let chosen = all.choose(given.vpc.as_deref(), &given.subnets);
                let network = chosen.map_err(Failure::Usage)?;
                self.world.say(&format!("Network: {}", network.told));
                network
            }
        };
        let (mut max, mut mail) = (given.max, given.mail.clone());
        let (suggested, warning) = suggested_max(&account, &self.world.region());
        if let Some(warning) = warning {
            self.world.say(&warning);
        }
        for finding in of_new_stack(&account, stack) {
            let fix = finding.fix.map(|fix| format!(" → {fix}")).unwrap_or_default();
            self.world.say(&format!("! {}{fix}", finding.message));
        }
        if asks && max.is_none() {
            max = Some(self.how_many("Maximum number of machines, of two vCPUs each", suggested)?);
        }
        if asks && mail.is_none() {
            mail = self.address()?;
        }
        self.world.say(&match &mail {
            Some(address) => {
                format!(
                    "AWS will send {address} a confirmation mail: alarms arrive after you confirm"
                )
            }
            None => "! no one receives alarms; to add an address later: muster upgrade --mail \
                ADDRESS"
                .to_owned(),
        });
        let concurrency = account.concurrency.ok();
        let reserve = concurrency.and_then(Concurrency::for_webhook);
        self.world.say(&reserved(concurrency, reserve));
        let version = release.version.as_deref().map(|version| format!(" {version}"));
        let question = format!("Deploy Muster{} as stack {stack}", version.unwrap_or_default());
        if asks {
            let said = self.world.offer(&question, "yes")?;
            if !matches!(said.as_str(), "y" | "yes" | "Y") {
                return Err(Failure::NotConfirmed);
            }
        } else {
            self.agreed(order.yes, &format!("{question}?"))?;
        }
        let given = ParameterArgs {
            vpc: Some(network.vpc),
            subnets: network.subnets,
            public_ip: given.public_ip.or(Some(network.public_ip)),
            max: Some(max.unwrap_or(suggested)),
            mail,
            ..given.clone()
        };
        let mut values = overrides(&given, release);
        values.extend(reserve.map(|most| format!("WebhookReservedConcurrency='{most}'")));
        Ok(values)
    }

    fn address(&mut self) -> Result<Option<String>, Failure> {
        loop {
            match self.world.offer("Mail for alarms", "none")?.trim() {
                "none" => return Ok(None),
                said if said.contains('@') && plain(said).is_ok() => {
                    return Ok(Some(said.to_owned()));
                }
                said => self.world.say(&format!("{said:?} is not a mail address.")),
            }
        }
    }

    fn how_many(&mut self, question: &str, usual: u32) -> Result<u32, Failure> {
        loop {
            let said = self.world.offer(question, &usual.to_string())?;
            match said.parse() {
                Ok(number) if number <= 10_000 => return Ok(number),
                Ok(_) | Err(_) => self.world.say(&format!("{said:?} is not a number up to 10000.")),
            }
        }
    }

    /// Reads the account's networks, quotas and concurrency. Only VPCs and subnets must be readable.
    async fn surroundings(&mut self) -> Result<(Networks, AccountFacts), Failure> {
        let ec2 = ["DescribeVpcs", "DescribeSubnets", "DescribeRouteTables"]
            .map(|action| Call::query("ec2", &[("Action", action), ("Version", "2016-11-15")]));
        let batch = CallBatch::default();
        let [vpcs, subnets, routes] = ec2.map(|call| batch.ask(call));
        let all = async { join!(vpcs, subnets, routes, account::facts(&batch)) };
        let (vpcs, subnets, routes, account) = self.together(&batch, all).await?;
        Ok((Networks::read(&vpcs?, &subnets?, routes.ok().as_ref()), account))
    }

    fn network(&mut self, all: &Networks) -> Result<Network, Failure> {
        let mut named = None;
        loop {
            let chosen = all.choose(named.as_deref(), &[]);
            let said = match &chosen {
                Ok(network) => {
                    self.world.offer(&format!("Network (or a VPC ID): {}", network.told), "yes")?
                }
                Err(why) => {
                    self.world.say(why);
                    self.world.ask("Which VPC?")?
                }
            };
            match (chosen, said.trim()) {
                (Ok(network), "yes" | "y" | "Y") => return Ok(network),
                (_, vpc) => named = Some(vpc.to_owned()),
            }
        }
    }

    /// Runs `sam deploy` and prints its progress.
    async fn deploy(
        &mut self,
        stack: &str,
        release: &Release,
        values: &[String],
    ) -> Result<(), Failure> {
        let begun = self.world.now();
        self.sam(stack, release, "--no-confirm-changeset", values)?;
        self.world.say(&format!("Deploying. q stops waiting; run {} to continue", self.again));
        let (mut id, mut said) = (None, String::new());
        let ended = loop {
            if let Some(ended) = self.world.ended()? {
                break ended;
            }
            self.pause().await?;
            let (seen, progress) = self.progress(stack).await?;
            id = seen.or(id);
            let now = if id.is_some() { progress.summary() } else { "sam is preparing".to_owned() };
            if now != said {
                self.world.say(&format!("  {now}, {}", span(self.world.now().since(begun))));
                said = now;
            }
        };
        if ended.is_good {
            let took = span(self.world.now().since(begun));
            self.world.say(&format!("✓ stack {stack}, {took}"));
            return Ok(());
        }
        // A failed first deployment deletes its stack, which can then be described only by ID.
        let events = match id {
            Some(id) => self.events(&id).await,
            None => Vec::new(),
        };
        Err(Failure::Ended(match cause(&events) {
            Some((resource, reason)) => failed_at(&resource, &reason),
            None => format!("The deployment failed.\n{}", sam_error(&ended.said)),
        }))
    }

    /// Prints the remaining steps and likely obstacles.
    async fn first_job(&mut self, app: &str, builds: bool) -> Result<String, Failure> {
        // Optional: an older release does not support this query.
        let seen = self.asked("github", Request::Github(GithubRequest::of_repositories())).await;
        let seen: Option<RepositoryList> = seen.ok();
        let queued = seen.as_ref().map(|seen| self.offered(seen)).transpose()?.unwrap_or_default();
        let mut left = Vec::new();
        for (repository, offered) in queued {
            if offered {
                self.take_in(repository).await?;
            } else {
                left.push(repository);
            }
        }
        let status = Request::Status { github: false };
        let status: StackStatus = self.asked("status", status).await?;
        let jobs = Request::Jobs(JobsRequest { limit: 20, ..JobsRequest::default() });
        let jobs: JobList = self.asked("jobs", jobs).await?;
        let page =
            views::setup::first_job(&status, &jobs, seen.as_ref(), &left, builds, self.screen);
        Ok(format!("{app}\n{page}"))
    }

    /// Offers to import jobs that were queued before the webhook worked.
    fn offered(&mut self, seen: &RepositoryList) -> Result<Vec<(Entity, bool)>, Failure> {
        let mut all = Vec::new();
        for one in &seen.repositories {
            let Some(queued) = one.queued.filter(|queued| *queued > 0) else { continue };
            let what = count(queued, "job");
            let (was, them) = if queued == 1 { ("was", "it") } else { ("were", "them") };
            let question = format!(
                "{what} of {} {was} queued before the webhook worked. Import {them}",
                one.name
            );
            let is_wanted = self.world.is_attended()
                && matches!(self.world.offer(&question, "yes")?.trim(), "y" | "yes" | "Y");
            all.push((one.name.clone(), is_wanted));
        }
        Ok(all)
    }

    async fn take_in(&mut self, repository: Entity) -> Result<(), Failure> {
        let name = repository.clone();
        let request = Request::Jobs(JobsRequest {
            limit: 20,
            adopt: true,
            repository: Some(repository),
            ..JobsRequest::default()
        });
        let adopted: AdoptedJobs = self.asked("jobs", request).await?;
        self.world.say(&format!("✓ {} of {name} imported", count(adopted.taken_in.len(), "job")));
        Ok(())
    }
}

/// Describes the concurrency that is reserved for the webhook, or why it is not reserved.
fn reserved(account: Option<Concurrency>, reserve: Option<u64>) -> String {
    match (reserve, account) {
        (Some(most), _) => {
            format!("Webhook: {most} of the account's concurrent executions are reserved for it")
        }
        (None, Some(Concurrency { free, .. })) => format!(
            "! the account has {free} free concurrent executions, too few to reserve some for the \
            webhook: a flood of calls can delay jobs by minutes. Ask AWS for 1,000 (quota L-B99A9384)"
        ),
        (None, None) => "! no concurrency is reserved for the webhook: lambda:GetAccountSettings \
            is denied, so the account's concurrency is unknown"
            .to_owned(),
    }
}

/// Returns the parameters for `sam`, quoted as it requires for values with commas.
pub(super) fn overrides(given: &ParameterArgs, release: &Release) -> Vec<String> {
    let ParameterArgs { vpc, public_ip, max, mail, sessions, boundary, .. } = given;
    let list = |all: &[String]| (!all.is_empty()).then(|| all.join(","));
    let all = [
        ("VpcId", vpc.clone()),
        ("Subnets", list(&given.subnets)),
        ("PublicIp", public_ip.map(str::to_owned)),
        ("MaxMachines", max.map(|max| max.to_string())),
        ("AlarmEmail", mail.clone()),
        ("Sessions", sessions.map(str::to_owned)),
        ("GitHubCaBundle", given.github_ca_bundle.clone()),
        ("FunctionSubnets", list(&given.function_subnets)),
        ("FunctionSecurityGroups", list(&given.function_groups)),
        ("PermissionsBoundary", boundary.clone()),
        ("Architecture", release.architecture.clone()),
    ];
    let given = all.into_iter().filter_map(|(name, value)| Some((name, value?)));
    given.map(|(name, value)| format!("{name}='{value}'")).collect()
}

fn unusable(stack: &str, one: &ExistingStack) -> Failure {
    let ExistingStack { status, reason, .. } = one;
    let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    Failure::Ended(format!(
        "Stack {stack} is in {status}{because}\nFor details: muster doctor. If its first \
        deployment failed, delete it before you deploy again: muster teardown"
    ))
}
