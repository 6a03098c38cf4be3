//! What the passes say and hear, in EC2's words and back.

use std::collections::BTreeSet;

use muster_cloud::ec2::{
    DescribeRequest, Described, Ec2Error, Filter, FleetAnswer, FleetConfig, FleetRequest,
    FleetTags, Image as CloudImage, Instance, InstanceState, LaunchTemplate, Market as Ec2Market,
    Override as Ec2Override, STACK_TAG, TemplateRef,
};
use muster_domain::ec2::classify::{classify, classify_part};
use muster_domain::ec2::{ErrorClass, LaunchError, Make, Market, Override, StateReason};
use muster_domain::ids::{LaunchId, MachineId};
use muster_domain::launch::plan::LAUNCH_TAG;
use muster_domain::launch::{LaunchAnswer, LaunchRequest};
use muster_domain::observation::{Machine as Shown, MachineSeen};
use muster_domain::pool::Image;
use muster_domain::time::Time;

/// The states of a machine that is not gone.
const PRESENT: [InstanceState; 4] = [
    InstanceState::Pending,
    InstanceState::Running,
    InstanceState::Stopping,
    InstanceState::Stopped,
];

pub(super) const fn market(market: Market) -> Ec2Market {
    match market {
        Market::Spot => Ec2Market::Spot,
        Market::OnDemand => Ec2Market::OnDemand,
    }
}

pub(super) const fn shown(state: InstanceState) -> Shown {
    match state {
        InstanceState::Pending => Shown::Pending,
        InstanceState::Running => Shown::Running,
        InstanceState::ShuttingDown | InstanceState::Terminated => Shown::Gone,
        InstanceState::Stopping | InstanceState::Stopped => Shown::Stopped,
    }
}

pub(super) fn seen(shown: &Described) -> MachineSeen {
    let reason = shown.reason().map(|reason| StateReason::new(&reason.code, &reason.message));
    let state = self::shown(shown.state);
    // EC2 shows seconds.
    let ended_at = shown.instance.ended_at.filter(|_| state == Shown::Gone);
    let ended_at = ended_at.map(|at| Time::from_millis(at / 1000 * 1000));
    MachineSeen { state, reason, ended_at, make: make(shown.instance) }
}

/// What a machine is, as every look at it shows.
pub(super) fn make(instance: &Instance) -> Make {
    Make {
        kind: Some(instance.instance_type.as_str().into()),
        zone: Some(instance.zone.as_str().into()),
        subnet: instance.subnet_id.as_deref().map(Into::into),
        market: Some(market_of(instance.market)),
    }
}

const fn market_of(market: Ec2Market) -> Market {
    match market {
        Ec2Market::Spot => Market::Spot,
        Ec2Market::OnDemand => Market::OnDemand,
    }
}

/// A request as it is sent. The launch's id is its client token.
pub(super) fn fleet(id: &LaunchId, request: &LaunchRequest) -> FleetRequest {
    let choice = |place: &Override| Ec2Override {
        instance_type: some(&place.instance_type),
        subnet_id: some(&place.subnet),
        priority: request.priority(place).map(|rank| rank.to_string()),
        image_id: request.image.as_ref().map(image_id),
        max_price: request.max_price.clone(),
        ..Ec2Override::default()
    };
    FleetRequest {
        client_token: Some(id.to_string()),
        kind: Some("instant".to_owned()),
        total: request.capacity,
        default_market: Some(market(request.market)),
        configs: vec![FleetConfig {
            template: TemplateRef {
                id: Some(request.template_id.to_string()),
                name: None,
                version: Some(request.template_version.to_string()),
            },
            overrides: request.overrides.iter().map(choice).collect(),
        }],
        tags: vec![FleetTags {
            resource_type: "instance".to_owned(),
            tags: request.tags.iter().cloned().collect(),
        }],
        ..FleetRequest::default()
    }
}

fn some(text: &str) -> Option<String> {
    Some(text).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn image_id(image: &Image) -> String {
    match image {
        Image::Id(id) => id.to_string(),
        Image::Ssm(name) => format!("resolve:ssm:{name}"),
    }
}

/// The image that a request names by its ID. All exist that were not created here.
pub(super) fn image(request: &LaunchRequest) -> Option<CloudImage> {
    let Some(Image::Id(id)) = &request.image else { return None };
    let (id, owner) = (id.to_string(), "amazon".to_owned());
    Some(CloudImage { name: id.clone(), id, owner, ..CloudImage::default() })
}

/// The launch template that a request names. All of them exist.
pub(super) fn template(request: &LaunchRequest) -> LaunchTemplate {
    LaunchTemplate {
        id: request.template_id.to_string(),
        version: request.template_version.parse().unwrap_or(1),
        ..LaunchTemplate::default()
    }
}

pub(super) fn launched(answer: &FleetAnswer) -> LaunchAnswer {
    let machines = answer.instances.iter().flat_map(|group| {
        let make = Make {
            kind: Some(group.instance_type.as_str().into()),
            zone: group.choice.zone.as_deref().map(Into::into),
            subnet: group.choice.subnet_id.as_deref().map(Into::into),
            market: Some(market_of(group.market)),
        };
        group.ids.iter().filter_map(move |id| Some((id.parse().ok()?, make.clone())))
    });
    let errors = answer.errors.iter().map(|error| {
        let text = |part: &Option<String>| part.as_deref().unwrap_or_default().into();
        let place = Override {
            instance_type: text(&error.choice.instance_type),
            subnet: text(&error.choice.subnet_id),
        };
        let class = classify_part(Some(&error.code), &error.message);
        LaunchError { place: Some(place), ..LaunchError::new(class, &*error.code, &*error.message) }
    });
    LaunchAnswer { machines: machines.collect(), errors: errors.collect() }
}

/// What the error of a whole call means.
pub(super) fn class(error: &Ec2Error) -> ErrorClass {
    classify(Some(&error.code), Some(error.status), &error.message)
}

/// The machines of a stack that are not gone; of one launch, where that is asked for.
pub(super) fn present(
    stack: &str,
    launch: Option<&LaunchId>,
    page: Option<String>,
) -> DescribeRequest {
    let filter = |name: String, values: Vec<String>| Filter { name, values };
    let tag = |key: &str, value: &str| filter(format!("tag:{key}"), vec![value.to_owned()]);
    let states = PRESENT.iter().map(|state| state.name().to_owned()).collect();
    let of_launch = launch.map(|id| tag(LAUNCH_TAG, id.as_str()));
    let filters = [tag(STACK_TAG, stack), filter("instance-state-name".to_owned(), states)];
    DescribeRequest {
        filters: of_launch.into_iter().chain(filters).collect(),
        next_token: page,
        ..DescribeRequest::default()
    }
}

/// One machine by its id.
pub(super) fn by_ids(ids: &BTreeSet<MachineId>) -> DescribeRequest {
    let values = ids.iter().map(ToString::to_string).collect();
    let named = Filter { name: "instance-id".to_owned(), values };
    DescribeRequest { filters: vec![named], ..DescribeRequest::default() }
}

pub(super) fn by_id(id: &MachineId) -> DescribeRequest {
    DescribeRequest { ids: vec![id.to_string()], ..DescribeRequest::default() }
}
