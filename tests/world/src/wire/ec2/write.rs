//! EC2's XML answers.

use super::{
    super::{
        gate::Reply,
        xml::{list, text, wrap},
    },
    profile_arn,
};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use muster_cloud::{
    Millis,
    ec2::{
        Described, FleetAnswer, Image, ImagePage, InstancePage, InstanceState, Market, Override,
        SnapshotDeletion, StateChange, TemplateRef,
    },
};

pub(super) fn xml(status: u16, body: String) -> Reply {
    Reply {
        status,
        content_type: "text/xml;charset=UTF-8",
        body: body.into_bytes(),
        ..Reply::default()
    }
}

pub(super) fn error(status: u16, code: &str, message: &str) -> Reply {
    let error = wrap("Error", &(text("Code", code) + &text("Message", message)));
    let inner = wrap("Errors", &error) + &text("RequestID", REQUEST_ID);
    let document = format!("{PROLOGUE}{}", wrap("Response", &inner));
    Reply { code: code.to_owned(), ..xml(status, document) }
}

const PROLOGUE: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
/// Nothing in the simulated cloud is looked up by it.
const REQUEST_ID: &str = "00000000-0000-4000-a000-000000000000";

pub(super) fn answer(action: &str, inner: &str) -> Reply {
    let request = text("requestId", REQUEST_ID);
    xml(
        200,
        format!(
            "{PROLOGUE}<{action}Response xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\">\
             {request}{inner}</{action}Response>"
        ),
    )
}

pub(super) fn create_fleet(fleet: &FleetAnswer) -> Reply {
    let errors = fleet.errors.iter().map(|fault| {
        template_and_overrides(&fault.template, &fault.choice)
            + &text("lifecycle", fault.market.name())
            + &text("errorCode", &fault.code)
            + &text("errorMessage", &fault.message)
    });
    let instances = fleet.instances.iter().map(|group| {
        template_and_overrides(&group.template, &group.choice)
            + &text("lifecycle", group.market.name())
            // A list of bare texts, unlike every other list here.
            + &wrap("instanceIds", &group.ids.iter().map(|id| text("item", id)).collect::<String>())
            + &text("instanceType", &group.instance_type)
    });
    let inner = text("fleetId", &fleet.fleet_id)
        + &list("errorSet", errors)
        + &list("fleetInstanceSet", instances);
    answer("CreateFleet", &inner)
}

fn template_and_overrides(template: &TemplateRef, choice: &Override) -> String {
    let optional = |name: &str, value: &Option<String>| {
        value.as_ref().map(|value| text(name, value)).unwrap_or_default()
    };
    let template = optional("launchTemplateId", &template.id)
        + &optional("launchTemplateName", &template.name)
        + &optional("version", &template.version);
    let overrides = optional("instanceType", &choice.instance_type)
        + &optional("subnetId", &choice.subnet_id)
        + &optional("availabilityZone", &choice.zone)
        + &optional("imageId", &choice.image_id)
        + &optional("maxPrice", &choice.max_price)
        + &optional("priority", &choice.priority);
    let inner = wrap("launchTemplateSpecification", &template) + &wrap("overrides", &overrides);
    wrap("launchTemplateAndOverrides", &inner)
}

pub(super) fn describe_instances(page: &InstancePage, account: &str) -> Reply {
    // A reservation is one launch; its instances stay together as long as they are on one page.
    let mut reservations: Vec<(&str, Vec<&Described>)> = vec![];
    for shown in &page.instances {
        match reservations.iter_mut().find(|(id, _)| *id == shown.instance.reservation) {
            Some((_, instances)) => instances.push(shown),
            None => reservations.push((&shown.instance.reservation, vec![shown])),
        }
    }
    let reservations = reservations.into_iter().map(|(id, instances)| {
        text("reservationId", id)
            + &text("ownerId", account)
            + "<groupSet/>"
            + &list("instancesSet", instances.into_iter().map(|i| instance(i, account)))
    });
    let next = page.next_token.as_ref().map(|token| text("nextToken", token));
    answer("DescribeInstances", &(list("reservationSet", reservations) + &next.unwrap_or_default()))
}

fn instance(shown: &Described, account: &str) -> String {
    let instance = shown.instance;
    let mut out = text("instanceId", &instance.id)
        + &text("imageId", &instance.image_id)
        + &state("instanceState", shown.state)
        + "<privateDnsName/><dnsName/>"
        + &text("amiLaunchIndex", &instance.launch_index.to_string())
        + "<productCodes/>"
        + &text("instanceType", &instance.instance_type)
        + &text("launchTime", &with_millis(instance.launched_at))
        + &wrap(
            "placement",
            &(text("availabilityZone", &instance.zone)
                + "<groupName/>"
                + &text("tenancy", "default")),
        )
        + &wrap("monitoring", &text("state", "disabled"));
    if let Some(subnet) = &instance.subnet_id {
        out += &text("subnetId", subnet);
    }
    if let Some(reason) = shown.reason() {
        let inner = text("code", &reason.code) + &text("message", &reason.message);
        out += &wrap("stateReason", &inner);
        let at = muster_cloud::rfc3339(instance.ended_at.unwrap_or(instance.since));
        let at = at.trim_end_matches('Z').replace('T', " ");
        out += &text("reason", &format!("User initiated ({at} GMT)"));
    }
    out += &text("architecture", "x86_64");
    out += &text("rootDeviceType", "ebs");
    out += &text("virtualizationType", "hvm");
    out += &text("clientToken", &instance.client_token);
    if instance.market == Market::Spot {
        out += &text("instanceLifecycle", "spot");
        out += &text("spotInstanceRequestId", &instance.id.replace("i-0", "sir-"));
    }
    if let Some(arn) = profile_arn(instance, account) {
        out += &wrap("iamInstanceProfile", &text("arn", &arn));
    }
    let tags = instance.tags.iter().map(|(key, value)| text("key", key) + &text("value", value));
    out + &list("tagSet", tags)
}

pub(super) fn describe_images(page: &ImagePage, account: &str) -> Reply {
    let items = page.images.iter().map(|image| image_item(image, account));
    let next = page.next_token.as_ref().map(|token| text("nextToken", token));
    answer("DescribeImages", &(list("imagesSet", items) + &next.unwrap_or_default()))
}

fn image_item(image: &Image, account: &str) -> String {
    // What the caller owns has its number, and Amazon's images have an alias besides.
    let owner = match image.owner.as_str() {
        "self" => text("imageOwnerId", account),
        "amazon" => text("imageOwnerId", "137112412989") + &text("imageOwnerAlias", "amazon"),
        account => text("imageOwnerId", account),
    };
    let disks = image.snapshots.iter().map(|snapshot| {
        let disk = text("snapshotId", snapshot) + &text("volumeSize", &image.disk_gib.to_string());
        text("deviceName", &image.root_device) + &wrap("ebs", &disk)
    });
    let reason = image.reason.as_ref().filter(|_| image.state == "failed").map(|reason| {
        let code = reason.split(':').next().unwrap_or_default();
        wrap("stateReason", &(text("code", code) + &text("message", reason)))
    });
    let tags = image.tags.iter().map(|(key, value)| text("key", key) + &text("value", value));
    text("imageId", &image.id)
        + &text("name", &image.name)
        + &text("imageState", &image.state)
        + &owner
        + &text("creationDate", &with_millis(image.created_at))
        + &text("architecture", &image.architecture)
        + &text("imageType", "machine")
        + &text("rootDeviceType", "ebs")
        + &text("rootDeviceName", &image.root_device)
        + &text("virtualizationType", "hvm")
        + &list("blockDeviceMapping", disks)
        + &reason.unwrap_or_default()
        + &list("tagSet", tags)
}

pub(super) fn create_image(id: &str) -> Reply {
    answer("CreateImage", &text("imageId", id))
}

pub(super) fn deregister_image(deletions: &[SnapshotDeletion]) -> Reply {
    let items = deletions
        .iter()
        .map(|deletion| text("snapshotId", &deletion.id) + &text("returnCode", &deletion.code));
    answer("DeregisterImage", &(text("return", "true") + &list("deleteSnapshotResultSet", items)))
}

pub(super) fn delete_snapshot() -> Reply {
    answer("DeleteSnapshot", &text("return", "true"))
}

fn state(name: &str, state: InstanceState) -> String {
    let code = text("code", &state.code().to_string());
    wrap(name, &(code + &text("name", state.name())))
}

fn with_millis(at: Millis) -> String {
    format!("{}.{:03}Z", muster_cloud::rfc3339(at).trim_end_matches('Z'), at % 1000)
}

pub(super) fn terminate_instances(changes: &[StateChange]) -> Reply {
    let items = changes.iter().map(|change| {
        text("instanceId", &change.id)
            + &state("currentState", change.current)
            + &state("previousState", change.previous)
    });
    answer("TerminateInstances", &list("instancesSet", items))
}

pub(super) fn console_output(id: &str, output: &str) -> Reply {
    let inner = text("instanceId", id) + &text("output", &BASE64.encode(output));
    answer("GetConsoleOutput", &inner)
}

pub(super) fn create_tags() -> Reply {
    answer("CreateTags", &text("return", "true"))
}
