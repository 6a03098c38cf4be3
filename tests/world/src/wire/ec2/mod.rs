//! The EC2 Query door: form in, XML out.

mod form;
mod named;
mod network;
mod parse;
mod prices;
mod write;

use std::sync::Arc;

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{ConnectInfo, State},
    http::{HeaderMap, Method, Response, header::AUTHORIZATION},
};

use self::form::Form;
use super::{
    cloud::Cloud,
    gate::{self, Reply},
    listener::Cut,
};
use muster_cloud::{
    World,
    calls::CallInfo,
    ec2::{CreateImageRequest, Ec2Error, Filter, FleetAnswer, FleetRequest, Instance, STACK_TAG},
};

pub(super) fn router(cloud: Arc<Cloud>) -> Router {
    Router::new().fallback(handle).with_state(cloud)
}

/// A request whose parameters have been understood.
enum Request {
    CreateFleet(Box<FleetRequest>),
    DescribeInstances(muster_cloud::ec2::DescribeRequest),
    DescribeImages(muster_cloud::ec2::ImageRequest),
    CreateImage(CreateImageRequest),
    /// With whether its snapshots are deleted as well.
    DeregisterImage(String, bool),
    DeleteSnapshot(String),
    TerminateInstances(Vec<String>),
    GetConsoleOutput(String, bool),
    CreateTags(Vec<String>, std::collections::BTreeMap<String, String>),
    DescribePlacementGroups(Vec<Filter>),
    Network(network::Request),
    DescribeSpotPriceHistory(Vec<String>),
    /// Of the price list, whose requests are JSON.
    GetProducts(Bytes),
    /// Launch templates live in the emulator, where there is one: the request goes there as it is.
    PassOn(String),
    /// Wrong in a way that can be said before looking at the world.
    Refused(Ec2Error),
}

async fn handle(
    State(cloud): State<Arc<Cloud>>,
    ConnectInfo(cut): ConnectInfo<Cut>,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let form = Form::parse(&body);
    let mut action = form.peek("Action").unwrap_or("none").to_owned();
    let request = if prices::is_list(&headers) {
        "GetProducts".clone_into(&mut action);
        Request::GetProducts(body)
    } else if method == Method::POST {
        understand(&action, form, &headers, &body)
    } else {
        Request::Refused(Ec2Error::new("UnsupportedOperation", "EC2 Query wants a POST here."))
    };
    let info = cloud.look(|world, _| CallInfo {
        door: "ec2",
        operation: action,
        stack: stack_of(world, &request),
        owner: None,
        targets: targets_of(&request),
    });
    gate::pass(&cloud, &cut, info, write::error, move |cloud| perform(cloud, request)).await
}

fn understand(action: &str, form: Form, headers: &HeaderMap, body: &[u8]) -> Request {
    let signed = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|v| v.starts_with("AWS4-HMAC-SHA256 ") && v.contains("/ec2/aws4_request"));
    if !signed {
        return Request::Refused(Ec2Error {
            status: 401,
            code: "AuthFailure".to_owned(),
            message: "AWS was not able to validate the provided access credentials".to_owned(),
        });
    }
    let understood = match action {
        "CreateFleet" => parse::create_fleet(form).map(|r| Request::CreateFleet(Box::new(r))),
        "DescribeInstances" => parse::describe_instances(form).map(Request::DescribeInstances),
        "DescribeImages" => parse::describe_images(form).map(Request::DescribeImages),
        "CreateImage" => parse::create_image(form).map(Request::CreateImage),
        "DeregisterImage" => parse::deregister_image(form)
            .map(|(id, snapshots)| Request::DeregisterImage(id, snapshots)),
        "DeleteSnapshot" => parse::delete_snapshot(form).map(Request::DeleteSnapshot),
        "TerminateInstances" => parse::terminate_instances(form).map(Request::TerminateInstances),
        "GetConsoleOutput" => parse::get_console_output(form)
            .map(|(id, latest)| Request::GetConsoleOutput(id, latest)),
        "DescribeSpotPriceHistory" => prices::spot(form).map(Request::DescribeSpotPriceHistory),
        "CreateTags" => parse::create_tags(form).map(|(ids, tags)| Request::CreateTags(ids, tags)),
        "DescribePlacementGroups" => {
            parse::describe_placement_groups(form).map(Request::DescribePlacementGroups)
        }
        "DescribeLaunchTemplates" | "DescribeLaunchTemplateVersions" => {
            Ok(Request::PassOn(String::from_utf8_lossy(body).into_owned()))
        }
        // CloudFormation makes groups in the emulator, and tags them there.
        "DescribeSecurityGroups" if network::is_about_tags(&form) => {
            Ok(Request::PassOn(String::from_utf8_lossy(body).into_owned()))
        }
        action if network::Action::find(action).is_some() => {
            network::understand(action, form).map(Request::Network)
        }
        other => Err(Ec2Error::new(
            "InvalidAction",
            format!("The action {other} is not part of the simulated cloud."),
        )),
    };
    understood.unwrap_or_else(Request::Refused)
}

fn stack_of(world: &World, request: &Request) -> Option<String> {
    let of_instance = |ids: &[String]| {
        let mut stacks = ids.iter().filter_map(|id| world.ec2.instance(id)?.stack());
        stacks.next().map(str::to_owned)
    };
    match request {
        Request::CreateFleet(fleet) => fleet.instance_tags().remove(STACK_TAG),
        Request::CreateImage(image) => image.tags_of("image").remove(STACK_TAG),
        Request::DescribeImages(describe) => named_stack(&describe.filters),
        Request::DeregisterImage(id, _) => world.ec2.image(id)?.tags.get(STACK_TAG).cloned(),
        Request::DeleteSnapshot(id) => {
            let snapshot = world.ec2.snapshots().find(|one| one.id == *id)?;
            snapshot.tags.get(STACK_TAG).cloned()
        }
        Request::DescribeInstances(describe) => named_stack(&describe.filters).or_else(|| {
            let by_id = describe.filters.iter().filter(|f| f.name == "instance-id");
            let ids: Vec<String> = by_id.flat_map(|f| f.values.clone()).collect();
            of_instance(&describe.ids).or_else(|| of_instance(&ids))
        }),
        Request::TerminateInstances(ids) | Request::CreateTags(ids, _) => of_instance(ids),
        Request::GetConsoleOutput(id, _) => of_instance(std::slice::from_ref(id)),
        Request::DescribePlacementGroups(_)
        | Request::DescribeSpotPriceHistory(_)
        | Request::GetProducts(_)
        | Request::Network(_)
        | Request::PassOn(_)
        | Request::Refused(_) => None,
    }
}

/// The stack that a filter names.
fn named_stack(filters: &[Filter]) -> Option<String> {
    let name = format!("tag:{STACK_TAG}");
    filters.iter().find(|filter| filter.name == name)?.values.first().cloned()
}

fn targets_of(request: &Request) -> Vec<String> {
    match request {
        Request::CreateFleet(fleet) => fleet.client_token.iter().cloned().collect(),
        Request::DescribeInstances(describe) => {
            describe.ids.iter().cloned().chain(written(&describe.filters)).collect()
        }
        Request::DescribeImages(describe) => written(&describe.filters).collect(),
        Request::CreateImage(image) => vec![image.instance.clone(), image.name.clone()],
        Request::DeregisterImage(id, _) | Request::DeleteSnapshot(id) => vec![id.clone()],
        Request::DescribePlacementGroups(filters) => written(filters).collect(),
        Request::TerminateInstances(ids) | Request::CreateTags(ids, _) => ids.clone(),
        Request::GetConsoleOutput(id, _) => vec![id.clone()],
        Request::Network(request) => written(&request.filters).collect(),
        Request::DescribeSpotPriceHistory(kinds) => kinds.clone(),
        Request::GetProducts(_) | Request::PassOn(_) | Request::Refused(_) => vec![],
    }
}

fn written(filters: &[Filter]) -> impl Iterator<Item = String> {
    filters.iter().map(|filter| format!("{}={}", filter.name, filter.values.join(",")))
}

async fn perform(cloud: Arc<Cloud>, request: Request) -> Reply {
    let answer = match request {
        Request::CreateFleet(fleet) => create_fleet(&cloud, &fleet).await,
        Request::DescribeInstances(describe) => cloud.look(|world, now| {
            let page = world.describe_instances(&describe, now)?;
            Ok(write::describe_instances(&page, &cloud.account))
        }),
        Request::DescribeImages(describe) => cloud
            .look(|world, now| world.ec2.describe_images(&describe, now))
            .map(|page| write::describe_images(&page, &cloud.account)),
        Request::CreateImage(image) => cloud
            .with(|world, now| world.create_image(&image, now))
            .map(|id| Reply { targets: vec![id.clone()], ..write::create_image(&id) }),
        Request::DeregisterImage(id, snapshots) => cloud
            .with(|world, now| world.deregister_image(&id, snapshots, now))
            .map(|deletions| write::deregister_image(&deletions)),
        Request::DeleteSnapshot(id) => {
            cloud.with(|world, _| world.ec2.delete_snapshot(&id)).map(|()| write::delete_snapshot())
        }
        Request::TerminateInstances(ids) => cloud
            .with(|world, now| world.terminate_instances(&ids, now))
            .map(|changes| write::terminate_instances(&changes)),
        Request::GetConsoleOutput(id, latest) => console_output(&cloud, &id, latest),
        Request::CreateTags(ids, tags) => cloud
            .with(|world, now| world.create_tags(&ids, &tags, now))
            .map(|()| write::create_tags()),
        Request::Network(request) => {
            cloud.look(|world, _| network::answer(&world.ec2.network, &request))
        }
        Request::DescribePlacementGroups(filters) => cloud.look(|world, _| {
            let groups = world.ec2.describe_placement_groups(&filters)?;
            Ok(named::placement_groups(&groups))
        }),
        Request::DescribeSpotPriceHistory(kinds) => {
            cloud.look(|world, _| Ok(prices::history(world, &kinds)))
        }
        Request::GetProducts(body) => Ok(prices::products(&body)),
        Request::PassOn(body) => pass_on(&cloud, body).await,
        Request::Refused(error) => Err(error),
    };
    answer.unwrap_or_else(|e| write::error(e.status, &e.code, &e.message))
}

/// What was written on the console here, and what the machine's own process wrote.
fn console_output(cloud: &Cloud, id: &str, latest: bool) -> Result<Reply, Ec2Error> {
    let written = |world: &World, now| world.console_output(id, latest, now).map(str::to_owned);
    let mut output = cloud.look(written)?;
    let console = cloud.state_dir.join("machines").join(id).join("console");
    output.push_str(&std::fs::read_to_string(console).unwrap_or_default());
    Ok(write::console_output(id, &output))
}

async fn create_fleet(cloud: &Cloud, fleet: &FleetRequest) -> Result<Reply, Ec2Error> {
    for config in &fleet.configs {
        fetch_template(cloud, &config.template).await?;
    }
    let answer = cloud.with(|world, now| world.create_fleet(fleet, now))?;
    let mut reply = write::create_fleet(&answer);
    reply.targets = launched(&answer);
    Ok(reply)
}

/// Brings a launch template from the emulator, unless this version is known already. Versions
/// never change; what `$Latest` and `$Default` mean does.
async fn fetch_template(
    cloud: &Cloud,
    wanted: &muster_cloud::ec2::TemplateRef,
) -> Result<(), Ec2Error> {
    let numbered = wanted.version.as_deref().is_some_and(|v| !v.starts_with('$'));
    let known = cloud.look(|world, _| world.ec2.template(wanted).is_some());
    let Some(emulator) = cloud.emulator.as_ref().filter(|_| !(known && numbered)) else {
        return Ok(());
    };
    match emulator.launch_template(wanted).await {
        Ok(Some(template)) => {
            cloud.with(|world, _| {
                // The model takes `$Latest` and `$Default` for the newest version it knows.
                if !numbered {
                    world.ec2.forget_versions_after(&template.id, template.version);
                }
                world.ec2.put_template(template);
            });
            Ok(())
        }
        Ok(None) => Ok(()),
        Err(error) => Err(Ec2Error {
            status: 500,
            code: "InternalError".to_owned(),
            message: format!("world: {error}"),
        }),
    }
}

fn launched(answer: &FleetAnswer) -> Vec<String> {
    if answer.replayed {
        return vec!["replayed".to_owned()];
    }
    answer.instances.iter().flat_map(|group| group.ids.clone()).collect()
}

async fn pass_on(cloud: &Cloud, body: String) -> Result<Reply, Ec2Error> {
    let Some(emulator) = &cloud.emulator else {
        return cloud.look(|world, _| named::templates(world, &body));
    };
    match emulator.ec2(body).await {
        Ok((status, body)) => Ok(write::xml(status, body)),
        Err(error) => Err(Ec2Error {
            status: 500,
            code: "InternalError".to_owned(),
            message: format!("world: {error}"),
        }),
    }
}

fn profile_arn(instance: &Instance, account: &str) -> Option<String> {
    let profile = instance.instance_profile.as_ref()?;
    if profile.starts_with("arn:") {
        return Some(profile.clone());
    }
    Some(format!("arn:aws:iam::{account}:instance-profile/{profile}"))
}
