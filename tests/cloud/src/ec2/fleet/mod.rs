//! `CreateFleet` of type `instant`, with the rules of its client token.

mod request;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::capacity::Ask;
use super::{
    Ec2, Ec2Error, Instance, InstanceState, LaunchTemplate, Market, TemplateRef, instance,
};
use crate::{Ids, Millis};

pub use self::request::{
    FleetAnswer, FleetConfig, FleetFault, FleetInstances, FleetOptions, FleetRequest, FleetTags,
    Override,
};

/// A fleet that was created, kept for its client token.
#[derive(Clone, Debug)]
pub(super) struct Fleet {
    request: FleetRequest,
    answer: FleetAnswer,
}

impl Ec2 {
    /// Launches what there is room for. A used client token launches nothing: the same request is
    /// replayed, another is refused.
    /// Source: docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html
    pub fn create_fleet(
        &mut self,
        ids: &mut Ids,
        request: &FleetRequest,
        now: Millis,
    ) -> Result<FleetAnswer, Ec2Error> {
        request::check(request)?;
        request::check_pools(request, |subnet| self.zone_of(Some(subnet)))?;
        if let Some(fleet) = request.client_token.as_ref().and_then(|t| self.fleets.get(t)) {
            return self.replay(fleet, request);
        }
        self.check_images(request, now)?;
        let choices = self.choices(request)?;
        let fleet_id = format!("fleet-{}", ids.uuid());
        let answer = FleetAnswer { fleet_id, ..FleetAnswer::default() };
        let tags = request.instance_tags();
        let mut launch = Launch { request, tags, ids, answer, launched: 0, now };
        for (market, wanted) in shares(request) {
            self.fill(&choices, &mut launch, market, wanted);
        }
        let answer = launch.answer;
        // Without a token of the caller's own the SDKs send a random one; nobody can replay it.
        if let Some(token) = &request.client_token {
            let fleet = Fleet { request: request.clone(), answer: answer.clone() };
            self.fleets.insert(token.clone(), fleet);
        }
        Ok(answer)
    }

    /// Whether a client token has been used.
    #[must_use]
    pub fn has_fleet(&self, client_token: &str) -> bool {
        self.fleets.contains_key(client_token)
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
    fn choices<'a>(&self, request: &'a FleetRequest) -> Result<Vec<Choice<'a>>, Ec2Error> {
        const PLAIN: &[Override] = &[Override::NONE];
        let mut choices = vec![];
        for config in &request.configs {
            let template = self.stored(&config.template).ok_or_else(|| unknown(config))?;
            let none = config.overrides.is_empty();
            let overrides = if none { PLAIN } else { &config.overrides };
            choices.extend(overrides.iter().map(|choice| Choice {
                wanted: &config.template,
                template: Arc::clone(template),
                choice,
            }));
        }
        choices.sort_by(Choice::by_priority);
        // EC2 chooses among equals, and does not always choose the same.
        for equals in choices.chunk_by_mut(|a, b| a.by_priority(b) == Ordering::Equal) {
            equals.rotate_left(self.fleets.len() % equals.len());
        }
        Ok(choices)
    }

    fn fill(&mut self, choices: &[Choice], launch: &mut Launch, market: Market, wanted: u32) {
        let options = match market {
            Market::Spot => &launch.request.spot_options,
            Market::OnDemand => &launch.request.on_demand_options,
        };
        let least = options.min_target_capacity.unwrap_or(0);
        let stack = launch.tags.get(super::STACK_TAG).cloned();
        let ask = |choice| Ask { stack: stack.as_deref(), choice, market };
        let possible: u32 = choices.iter().map(|c| self.capacity.room(&ask(c), wanted)).sum();
        let enough = possible.min(wanted) >= least;
        let mut missing = wanted;
        for choice in choices {
            if missing == 0 {
                break;
            }
            let ask = ask(choice);
            let count = if enough { self.capacity.room(&ask, missing) } else { 0 };
            if count > 0 {
                self.capacity.take(&ask, count);
                self.launch(choice, launch, market, count);
                missing -= count;
            }
            if missing > 0 {
                launch.answer.errors.push(self.capacity.fault(&ask));
            }
        }
    }

    fn launch(&mut self, choice: &Choice, launch: &mut Launch, market: Market, count: u32) {
        let reservation = launch.ids.resource("r");
        let mut ids = vec![];
        for launch_index in 0..count {
            let order = 1 + self.instances.len() as u64;
            let id = launch.ids.instance(order);
            launch.launched += 1;
            let reservation = reservation.clone();
            ids.push(id.clone());
            let instance = Instance {
                id,
                reservation,
                launch_index,
                order,
                ..self.made(choice, launch, market)
            };
            self.push(instance);
        }
        launch.answer.instances.push(FleetInstances {
            template: choice.resolved(),
            choice: choice.choice.clone(),
            market,
            instance_type: choice.instance_type().to_owned(),
            ids,
        });
    }

    /// An instance as its template and override describe it; its ids are still to come.
    fn made(&self, choice: &Choice, launch: &Launch, market: Market) -> Instance {
        let (template, fleet) = (&choice.template, &launch.answer.fleet_id);
        let mut tags = template.instance_tags.clone();
        tags.extend(launch.tags.clone());
        tags.insert("aws:ec2:fleet-id".to_owned(), fleet.clone());
        tags.insert("aws:ec2launchtemplate:id".to_owned(), template.id.clone());
        tags.insert("aws:ec2launchtemplate:version".to_owned(), template.version.to_string());
        let subnet_id = choice.choice.subnet_id.clone();
        let zone = choice.choice.zone.clone();
        Instance {
            id: String::new(),
            reservation: String::new(),
            launch_index: 0,
            order: 0,
            image_id: choice.image_id().to_owned(),
            instance_type: choice.instance_type().to_owned(),
            zone: zone.unwrap_or_else(|| self.zone_of(subnet_id.as_deref())),
            subnet_id,
            market,
            // A fleet gives each of its launches a token of its own: looking for the fleet's token
            // among instances finds nothing.
            client_token: format!("{fleet}-{}", launch.launched),
            fleet_id: Some(fleet.clone()),
            launched_at: launch.now,
            state: InstanceState::Pending,
            previous: InstanceState::Pending,
            stale_until: launch.now,
            since: launch.now,
            ended_at: None,
            reason: None,
            tags,
            user_data: template.user_data.clone(),
            disk_gib: choice.disk_gib(),
            console: String::new(),
            instance_profile: template.instance_profile.clone(),
            on_shutdown: template.on_shutdown,
            protected: template.protected,
            visible_from: launch.now,
            reclaim_at: None,
        }
    }
}

/// One template with one override.
pub(super) struct Choice<'a> {
    wanted: &'a TemplateRef,
    template: Arc<LaunchTemplate>,
    pub(super) choice: &'a Override,
}

impl Choice<'_> {
    pub(super) fn instance_type(&self) -> &str {
        let chosen = self.choice.instance_type.as_deref();
        chosen.or(self.template.instance_type.as_deref()).unwrap_or("m1.small")
    }

    fn image_id(&self) -> &str {
        let chosen = self.choice.image_id.as_deref();
        chosen.or(self.template.image_id.as_deref()).unwrap_or_default()
    }

    /// The size of the disk that the override names.
    fn disk_gib(&self) -> u32 {
        let mut details = self.choice.details.iter();
        let size = details.find(|(key, _)| key.ends_with(".Ebs.VolumeSize"));
        size.and_then(|(_, size)| size.parse().ok()).unwrap_or(instance::DISK_GIB)
    }

    pub(super) fn resolved(&self) -> TemplateRef {
        TemplateRef {
            id: Some(self.template.id.clone()),
            name: None,
            version: Some(
                self.wanted.version.clone().unwrap_or_else(|| self.template.version.to_string()),
            ),
        }
    }

    /// Overrides without a priority come last.
    fn priority(&self) -> f64 {
        self.choice.priority.as_deref().and_then(|p| p.parse().ok()).unwrap_or(f64::MAX)
    }

    fn by_priority(&self, other: &Self) -> Ordering {
        self.priority().total_cmp(&other.priority())
    }
}

/// A fleet on its way.
struct Launch<'a> {
    request: &'a FleetRequest,
    tags: BTreeMap<String, String>,
    ids: &'a mut Ids,
    answer: FleetAnswer,
    launched: u32,
    now: Millis,
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
