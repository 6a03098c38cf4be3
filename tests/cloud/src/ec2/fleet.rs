//! `CreateFleet` of type `instant`, with the rules of its client token.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Ec2, Ec2Error, Instance, InstanceState, LaunchTemplate, Market, TemplateRef};
use crate::{
    Millis,
    agenda::{Clockwork, Due},
};

/// One override of a launch template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Override {
    pub instance_type: Option<String>,
    pub subnet_id: Option<String>,
    pub zone: Option<String>,
    pub image_id: Option<String>,
    pub max_price: Option<String>,
    /// As written in the request: a decimal number.
    pub priority: Option<String>,
    /// Whatever else it says (disks, requirements): part of what makes two requests the same, and
    /// without effect here.
    pub details: BTreeMap<String, String>,
}

/// A launch template and its overrides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetConfig {
    pub template: TemplateRef,
    pub overrides: Vec<Override>,
}

/// `SpotOptions` or `OnDemandOptions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetOptions {
    pub allocation_strategy: Option<String>,
    pub single_instance_type: bool,
    pub single_availability_zone: bool,
    pub min_target_capacity: Option<u32>,
    pub interruption_behavior: Option<String>,
    pub max_total_price: Option<String>,
}

/// Tags for one type of resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetTags {
    pub resource_type: String,
    pub tags: BTreeMap<String, String>,
}

/// A `CreateFleet` request. Two requests are the same if and only if these are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetRequest {
    pub client_token: Option<String>,
    pub kind: Option<String>,
    pub total: u32,
    pub on_demand: Option<u32>,
    pub spot: Option<u32>,
    pub default_market: Option<Market>,
    pub configs: Vec<FleetConfig>,
    pub spot_options: FleetOptions,
    pub on_demand_options: FleetOptions,
    pub tags: Vec<FleetTags>,
}

impl FleetRequest {
    /// The tags that go on every instance.
    #[must_use]
    pub fn instance_tags(&self) -> BTreeMap<String, String> {
        let of_instances = self.tags.iter().filter(|spec| spec.resource_type == "instance");
        of_instances.flat_map(|spec| spec.tags.clone()).collect()
    }
}

/// Instances of one override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetInstances {
    pub template: TemplateRef,
    pub choice: Override,
    pub market: Market,
    pub instance_type: String,
    pub ids: Vec<String>,
}

/// Why one override launched nothing, or too little.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetFault {
    pub template: TemplateRef,
    pub choice: Override,
    pub market: Market,
    pub code: String,
    pub message: String,
}

/// The answer: both lists may be filled at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetAnswer {
    pub fleet_id: String,
    pub instances: Vec<FleetInstances>,
    pub errors: Vec<FleetFault>,
    /// The client token had been used before: nothing was launched by this call.
    pub replayed: bool,
}

/// A fleet that was created, kept for its client token.
#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    request: FleetRequest,
    answer: FleetAnswer,
}

/// Limits what EC2 can launch. The first rule that matches an override decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapacityRule {
    #[serde(default)]
    pub stack: Option<String>,
    #[serde(default)]
    pub instance_type: Option<String>,
    #[serde(default)]
    pub subnet_id: Option<String>,
    #[serde(default)]
    pub market: Option<Market>,
    /// How many machines are left; none without it.
    #[serde(default)]
    pub left: u32,
    #[serde(default = "CapacityRule::default_code")]
    pub code: String,
    #[serde(default)]
    pub message: Option<String>,
}

impl CapacityRule {
    fn default_code() -> String {
        "InsufficientInstanceCapacity".to_owned()
    }

    fn matches(&self, stack: Option<&str>, choice: &Override, market: Market) -> bool {
        let same = |rule: &Option<String>, value: Option<&str>| {
            rule.as_deref().is_none_or(|wanted| Some(wanted) == value)
        };
        same(&self.stack, stack)
            && same(&self.instance_type, choice.instance_type.as_deref())
            && same(&self.subnet_id, choice.subnet_id.as_deref())
            && self.market.is_none_or(|wanted| wanted == market)
    }
}

impl Ec2 {
    /// Replaces the capacity rules.
    pub fn set_capacity(&mut self, rules: Vec<CapacityRule>) {
        self.capacity = rules;
    }

    /// The capacity rules, with what is left.
    #[must_use]
    pub fn capacity(&self) -> &[CapacityRule] {
        &self.capacity
    }

    pub(crate) fn create_fleet(
        &mut self,
        clockwork: &mut Clockwork,
        request: &FleetRequest,
        now: Millis,
    ) -> Result<FleetAnswer, Ec2Error> {
        check(request)?;
        if let Some(fleet) = request.client_token.as_ref().and_then(|t| self.fleets.get(t)) {
            return self.replay(fleet, request);
        }
        let mut launch = Launch {
            fleet_id: format!("fleet-{}", clockwork.ids.uuid()),
            stack: request.instance_tags().remove(super::STACK_TAG),
            answer: FleetAnswer::default(),
            launched: 0,
        };
        launch.answer.fleet_id.clone_from(&launch.fleet_id);
        let choices = self.choices(request)?;
        for (market, wanted) in shares(request) {
            self.fill(clockwork, request, &choices, &mut launch, market, wanted, now);
        }
        let answer = launch.answer;
        // Without a token of the caller's own the SDKs send a random one; nobody can replay it.
        if let Some(token) = &request.client_token {
            let fleet = Fleet { request: request.clone(), answer: answer.clone() };
            self.fleets.insert(token.clone(), fleet);
        }
        Ok(answer)
    }

    fn replay(&self, fleet: &Fleet, request: &FleetRequest) -> Result<FleetAnswer, Ec2Error> {
        if fleet.request != *request {
            return Err(Ec2Error::new(
                "IdempotentParameterMismatch",
                "The client token has been used before with other parameters.",
            ));
        }
        let mut answer = fleet.answer.clone();
        answer.replayed = true;
        if !self.toggles.replay_shows_instances {
            answer.instances.clear();
            answer.errors.clear();
        }
        Ok(answer)
    }

    /// Every template with each of its overrides, best first.
    fn choices(&self, request: &FleetRequest) -> Result<Vec<Choice>, Ec2Error> {
        let mut choices = vec![];
        for config in &request.configs {
            let template = self.template(&config.template).ok_or_else(|| unknown(config))?;
            let plain = [Override::default()];
            let overrides =
                if config.overrides.is_empty() { &plain[..] } else { &config.overrides[..] };
            choices.extend(overrides.iter().map(|choice| Choice {
                wanted: config.template.clone(),
                template: template.clone(),
                choice: choice.clone(),
            }));
        }
        choices.sort_by(|a, b| a.priority().total_cmp(&b.priority()));
        Ok(choices)
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one request, split by market")]
    fn fill(
        &mut self,
        clockwork: &mut Clockwork,
        request: &FleetRequest,
        choices: &[Choice],
        launch: &mut Launch,
        market: Market,
        wanted: u32,
        now: Millis,
    ) {
        let options = match market {
            Market::Spot => &request.spot_options,
            Market::OnDemand => &request.on_demand_options,
        };
        let least = options.min_target_capacity.unwrap_or(0);
        let possible: u32 = choices.iter().map(|c| self.room(launch, c, market, wanted)).sum();
        let enough = possible.min(wanted) >= least;
        let mut missing = wanted;
        for choice in choices {
            if missing == 0 {
                break;
            }
            let count = if enough { self.room(launch, choice, market, missing) } else { 0 };
            if count > 0 {
                self.take_room(launch, choice, market, count);
                self.launch(clockwork, request, choice, launch, market, count, now);
                missing -= count;
            }
            if missing > 0 {
                launch.answer.errors.push(self.fault(launch, choice, market));
            }
        }
    }

    fn rule(&self, launch: &Launch, choice: &Choice, market: Market) -> Option<usize> {
        let stack = launch.stack.as_deref();
        self.capacity.iter().position(|rule| rule.matches(stack, &choice.effective(), market))
    }

    fn room(&self, launch: &Launch, choice: &Choice, market: Market, wanted: u32) -> u32 {
        let left = self.rule(launch, choice, market).map(|i| self.capacity[i].left);
        left.unwrap_or(wanted).min(wanted)
    }

    fn take_room(&mut self, launch: &Launch, choice: &Choice, market: Market, count: u32) {
        if let Some(index) = self.rule(launch, choice, market) {
            self.capacity[index].left -= count;
        }
    }

    fn fault(&self, launch: &Launch, choice: &Choice, market: Market) -> FleetFault {
        let rule = self.rule(launch, choice, market).map(|index| &self.capacity[index]);
        let code = rule.map_or_else(CapacityRule::default_code, |rule| rule.code.clone());
        let message = rule.and_then(|rule| rule.message.clone()).unwrap_or_else(|| {
            let kind = choice.instance_type();
            format!("We currently do not have sufficient {kind} capacity.")
        });
        FleetFault {
            template: choice.resolved(),
            choice: choice.choice.clone(),
            market,
            code,
            message,
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one request, split by override")]
    fn launch(
        &mut self,
        clockwork: &mut Clockwork,
        request: &FleetRequest,
        choice: &Choice,
        launch: &mut Launch,
        market: Market,
        count: u32,
        now: Millis,
    ) {
        let reservation = clockwork.ids.resource("r");
        let mut ids = vec![];
        for index in 0..count {
            let id = clockwork.ids.resource("i");
            self.launches += 1;
            launch.launched += 1;
            let mut tags = choice.template.instance_tags.clone();
            tags.extend(request.instance_tags());
            tags.insert("aws:ec2:fleet-id".to_owned(), launch.fleet_id.clone());
            tags.insert("aws:ec2launchtemplate:id".to_owned(), choice.template.id.clone());
            let version = choice.template.version.to_string();
            tags.insert("aws:ec2launchtemplate:version".to_owned(), version);
            let subnet_id = choice.choice.subnet_id.clone();
            let zone = choice.choice.zone.clone();
            let instance = Instance {
                id: id.clone(),
                reservation: reservation.clone(),
                launch_index: index,
                order: self.launches,
                image_id: choice.image_id(),
                instance_type: choice.instance_type(),
                zone: zone.unwrap_or_else(|| self.zone_of(subnet_id.as_deref())),
                subnet_id,
                market,
                // A fleet gives each of its launches a token of its own: looking for the
                // fleet's token among instances finds nothing.
                client_token: format!("{}-{}", launch.fleet_id, launch.launched),
                fleet_id: Some(launch.fleet_id.clone()),
                launched_at: now,
                state: InstanceState::Pending,
                since: now,
                reason: None,
                tags,
                user_data: choice.template.user_data.clone(),
                instance_profile: choice.template.instance_profile.clone(),
                on_shutdown: choice.template.on_shutdown,
                protected: choice.template.protected,
                visible_from: now + clockwork.timings.visible_after_ms,
                reclaim_at: None,
            };
            clockwork.at(
                now + clockwork.timings.pending_ms,
                Due::Instance(id.clone(), InstanceState::Running),
            );
            self.instances.insert(id.clone(), instance);
            ids.push(id);
        }
        launch.answer.instances.push(FleetInstances {
            template: choice.resolved(),
            choice: choice.choice.clone(),
            market,
            instance_type: choice.instance_type(),
            ids,
        });
    }
}

/// One template with one override.
struct Choice {
    wanted: TemplateRef,
    template: LaunchTemplate,
    choice: Override,
}

impl Choice {
    fn instance_type(&self) -> String {
        let chosen = self.choice.instance_type.clone();
        chosen.or_else(|| self.template.instance_type.clone()).unwrap_or("m1.small".to_owned())
    }

    fn image_id(&self) -> String {
        let chosen = self.choice.image_id.clone();
        chosen.or_else(|| self.template.image_id.clone()).unwrap_or_default()
    }

    fn effective(&self) -> Override {
        Override { instance_type: Some(self.instance_type()), ..self.choice.clone() }
    }

    fn resolved(&self) -> TemplateRef {
        TemplateRef {
            id: Some(self.template.id.clone()),
            name: None,
            version: Some(
                self.wanted.version.clone().unwrap_or_else(|| self.template.version.to_string()),
            ),
        }
    }

    /// Overrides without a priority come last, in the order of the request.
    fn priority(&self) -> f64 {
        self.choice.priority.as_deref().and_then(|p| p.parse().ok()).unwrap_or(f64::MAX)
    }
}

/// A fleet on its way.
struct Launch {
    fleet_id: String,
    stack: Option<String>,
    answer: FleetAnswer,
    launched: u32,
}

fn shares(request: &FleetRequest) -> Vec<(Market, u32)> {
    let (on_demand, spot) = (request.on_demand.unwrap_or(0), request.spot.unwrap_or(0));
    let rest = request.total.saturating_sub(on_demand + spot);
    let (mut on_demand, mut spot) = (on_demand, spot);
    match request.default_market.unwrap_or(Market::OnDemand) {
        Market::OnDemand => on_demand += rest,
        Market::Spot => spot += rest,
    }
    let shares = [(Market::OnDemand, on_demand), (Market::Spot, spot)];
    shares.into_iter().filter(|(_, count)| *count > 0).collect()
}

fn check(request: &FleetRequest) -> Result<(), Ec2Error> {
    if request.kind.as_deref() != Some("instant") {
        // EC2's own default is `maintain`, which is a standing fleet and nothing Muster may want.
        return Err(Ec2Error::new(
            "UnsupportedOperation",
            "The simulated cloud only creates fleets of type 'instant'.",
        ));
    }
    if let Some(token) = &request.client_token
        && (token.is_empty() || token.len() > 64 || !token.is_ascii())
    {
        return Err(Ec2Error::new(
            "InvalidParameterValue",
            "Invalid value for parameter clientToken: at most 64 ASCII characters.",
        ));
    }
    if request.configs.is_empty() {
        return Err(Ec2Error::new(
            "MissingParameter",
            "The request must contain the parameter LaunchTemplateConfigs",
        ));
    }
    if request.total == 0
        || request.on_demand.unwrap_or(0) + request.spot.unwrap_or(0) > request.total
    {
        return Err(Ec2Error::new(
            "InvalidTargetCapacitySpecification",
            "TotalTargetCapacity must be positive and cover the on-demand and spot targets.",
        ));
    }
    for spec in &request.tags {
        if !["fleet", "instance", "volume", "network-interface"]
            .contains(&spec.resource_type.as_str())
        {
            return Err(Ec2Error::new(
                "InvalidParameterValue",
                format!("'{}' is not a valid taggable resource type.", spec.resource_type),
            ));
        }
        super::terminate::check_tags(&spec.tags)?;
    }
    Ok(())
}

fn unknown(config: &FleetConfig) -> Ec2Error {
    let wanted = &config.template;
    match (&wanted.id, &wanted.name) {
        (Some(id), _) => Ec2Error::new(
            "InvalidLaunchTemplateId.NotFound",
            format!(
                "The specified launch template, with template ID {id} and version {}, does not \
                 exist.",
                wanted.version.as_deref().unwrap_or("$Default")
            ),
        ),
        (None, name) => Ec2Error::new(
            "InvalidLaunchTemplateName.NotFoundException",
            format!("The launch template '{}' does not exist.", name.clone().unwrap_or_default()),
        ),
    }
}
