//! The stack's images.

use muster_control::ports::{CreateImageError, ImageState, ImageStore as _, NewImage, StackImage};
use muster_domain::ids::ImageId;
use muster_domain::provider::ProviderError;

use crate::stub::{Form, Stub, error, silence};
use crate::{ID, id, value};

const IMAGE: &str = "ami-0123456789abcdef0";

fn image_id() -> ImageId {
    IMAGE.parse().expect("valid")
}

fn new_image() -> NewImage {
    let tag = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    NewImage {
        name: "muster-s1-7".to_owned(),
        description: "Muster's image 7".to_owned(),
        tags: vec![tag("muster:stack", "s1"), tag("Name", "muster s1")],
    }
}

fn stack_image() -> StackImage {
    StackImage {
        id: image_id(),
        name: "muster-s1-7".to_owned(),
        state: ImageState::Available,
        created_at: None,
        disk_gib: 40,
        snapshots: vec!["snap-1".to_owned(), "snap-2".to_owned()],
    }
}

/// The request without its version, in the order of its names.
fn sent(form: &Form) -> Vec<(&str, &str)> {
    let mut sent: Vec<_> = form
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .filter(|(key, _)| *key != "Version")
        .collect();
    sent.sort_unstable();
    sent
}

#[tokio::test]
async fn an_image_is_created_without_a_reboot_and_tagged_with_its_snapshots() {
    let body = format!("<CreateImageResponse><imageId>{IMAGE}</imageId></CreateImageResponse>");
    let stub = Stub::new(vec![(200, body)]).await;
    assert_eq!(stub.ec2.create_image(&id(), &new_image()).await, Ok(image_id()));
    let forms = stub.forms();
    let [form] = forms.as_slice() else { panic!("{forms:#?}") };
    assert_eq!(
        sent(form),
        [
            ("Action", "CreateImage"),
            ("Description", "Muster's image 7"),
            ("InstanceId", ID),
            ("Name", "muster-s1-7"),
            ("NoReboot", "true"),
            ("TagSpecification.1.ResourceType", "image"),
            ("TagSpecification.1.Tag.1.Key", "muster:stack"),
            ("TagSpecification.1.Tag.1.Value", "s1"),
            ("TagSpecification.1.Tag.2.Key", "Name"),
            ("TagSpecification.1.Tag.2.Value", "muster s1"),
            ("TagSpecification.2.ResourceType", "snapshot"),
            ("TagSpecification.2.Tag.1.Key", "muster:stack"),
            ("TagSpecification.2.Tag.1.Value", "s1"),
            ("TagSpecification.2.Tag.2.Key", "Name"),
            ("TagSpecification.2.Tag.2.Value", "muster s1"),
        ]
    );
}

/// What a failed call reports: what is wrong with it, and its code.
fn provider(error: &ProviderError) -> (&'static str, &str) {
    match error {
        ProviderError::Unauthorized(detail) => ("unauthorized", &detail.code),
        ProviderError::Unavailable(detail) => ("unavailable", &detail.code),
        ProviderError::RateLimited(_) => ("limited", ""),
    }
}

#[tokio::test]
async fn a_refused_image_is_asked_for_once_and_says_why() {
    for (answer, expected) in [
        (error(400, "InvalidAMIName.Duplicate"), ("name taken", "")),
        (error(400, "InvalidInstanceID.NotFound"), ("machine gone", "")),
        (error(400, "InvalidInstanceID.Malformed"), ("machine gone", "")),
        (error(400, "IncorrectInstanceState"), ("machine gone", "")),
        (error(403, "UnauthorizedOperation"), ("unauthorized", "UnauthorizedOperation")),
        (error(503, "RequestLimitExceeded"), ("unavailable", "RequestLimitExceeded")),
        (error(400, "AMIQuotaExceeded"), ("unavailable", "AMIQuotaExceeded")),
        (error(500, "InternalError"), ("unavailable", "InternalError")),
        (silence(), ("unavailable", "NoAnswer")),
        ((200, "<CreateImageResponse/>".to_owned()), ("unavailable", "OddAnswer")),
    ] {
        let stub = Stub::new(vec![answer.clone()]).await;
        let refused = stub.ec2.create_image(&id(), &new_image()).await.expect_err("refused");
        let told = match &refused {
            CreateImageError::NameTaken => ("name taken", ""),
            CreateImageError::MachineGone(_) => ("machine gone", ""),
            CreateImageError::Provider(error) => provider(error),
        };
        assert_eq!(told, expected, "{answer:?}");
        assert_eq!(stub.forms().len(), 1, "{answer:?}");
    }
}

fn item(number: u32, state: &str, more: &str) -> String {
    format!(
        "<item><imageId>ami-0000000{number}</imageId><name>image-{number}</name>\
         <imageState>{state}</imageState><creationDate>2026-11-01T08:00:00.000Z</creationDate>\
         <blockDeviceMapping><item><deviceName>/dev/xvda</deviceName><ebs>\
         <snapshotId>snap-{number}</snapshotId><volumeSize>40</volumeSize></ebs></item><item>\
         <deviceName>/dev/sdb</deviceName><virtualName>ephemeral0</virtualName></item><item>\
         <deviceName>/dev/sdc</deviceName><ebs><volumeSize>2</volumeSize></ebs></item>\
         </blockDeviceMapping>{more}</item>"
    )
}

fn described(items: &[String], next: &str) -> (u16, String) {
    let body = format!(
        "<DescribeImagesResponse><imagesSet>{}</imagesSet><nextToken>{next}</nextToken>\
         </DescribeImagesResponse>",
        items.concat()
    );
    (200, body)
}

#[tokio::test]
async fn images_of_the_stack_are_listed_in_every_state_from_all_pages() {
    let reason = "<stateReason><code>Client.X</code><message>no space</message></stateReason>";
    let bare = "<stateReason><code>Client.X</code></stateReason>";
    let first = [
        item(1, "available", ""),
        item(2, "pending", ""),
        item(3, "failed", reason),
        item(4, "error", bare),
    ];
    let second = [
        item(5, "invalid", ""),
        item(6, "disabled", ""),
        item(7, "deregistered", ""),
        item(8, "transient", ""),
        item(9, "of-the-future", ""),
    ];
    let stub = Stub::new(vec![described(&first, "more"), described(&second, "")]).await;
    let images = stub.ec2.stack_images().await.expect("an answer");
    let failed = |reason: &str| ImageState::Failed(reason.to_owned());
    let states: Vec<(&str, ImageState)> =
        images.iter().map(|image| (image.name.as_str(), image.state.clone())).collect();
    assert_eq!(
        states,
        [
            ("image-1", ImageState::Available),
            ("image-2", ImageState::Pending),
            ("image-3", failed("no space")),
            ("image-4", failed("Client.X")),
            ("image-5", failed("invalid")),
            ("image-6", failed("disabled")),
            ("image-8", ImageState::Pending),
            ("image-9", ImageState::Pending),
        ]
    );
    let created_at = images[0].created_at.expect("a time").to_string();
    assert_eq!(created_at, "2026-11-01T08:00:00.000Z");
    assert_eq!((images[0].disk_gib, images[0].snapshots.as_slice()), (42, &["snap-1".into()][..]));
    let forms = stub.forms();
    let asked = [
        ("Action", "DescribeImages"),
        ("Filter.1.Name", "tag:muster:stack"),
        ("Filter.1.Value.1", "s1"),
        ("IncludeDeprecated", "true"),
        ("IncludeDisabled", "true"),
        ("MaxResults", "500"),
        ("Owner.1", "self"),
    ];
    assert_eq!(sent(&forms[0]), asked);
    assert_eq!((forms.len(), value(&forms[1], "NextToken")), (2, Some("more")));
}

#[tokio::test]
async fn images_that_are_not_listed_are_no_empty_list() {
    for (answer, expected) in [
        (error(403, "UnauthorizedOperation"), "unauthorized"),
        (error(400, "InvalidParameterValue"), "unavailable"),
    ] {
        let stub = Stub::new(vec![answer]).await;
        let refused = stub.ec2.stack_images().await.expect_err("refused");
        assert_eq!(provider(&refused).0, expected);
    }
}

fn deregistered(codes: &[(&str, &str)]) -> (u16, String) {
    let items: String = codes
        .iter()
        .map(|(snapshot, code)| {
            format!(
                "<item><snapshotId>{snapshot}</snapshotId><returnCode>{code}</returnCode></item>"
            )
        })
        .collect();
    let body = format!(
        "<DeregisterImageResponse><return>true</return><deleteSnapshotResultSet>{items}\
         </deleteSnapshotResultSet></DeregisterImageResponse>"
    );
    (200, body)
}

/// What a deletion does: EC2's answers, the calls, and what the caller hears.
#[tokio::test]
async fn an_image_is_deleted_with_all_of_its_snapshots() {
    let done = || {
        (200, "<DeleteSnapshotResponse><return>true</return></DeleteSnapshotResponse>".to_owned())
    };
    let deregister = ("DeregisterImage", IMAGE);
    let (first, second) = (("DeleteSnapshot", "snap-1"), ("DeleteSnapshot", "snap-2"));
    for (answers, calls, expected) in [
        (
            vec![deregistered(&[("snap-1", "success"), ("snap-2", "success")])],
            vec![deregister],
            "done",
        ),
        // EC2 keeps a snapshot of another image.
        (
            vec![deregistered(&[("snap-1", "skipped"), ("snap-2", "success")])],
            vec![deregister],
            "done",
        ),
        (
            vec![deregistered(&[("snap-1", "success"), ("snap-2", "internal-error")]), done()],
            vec![deregister, second],
            "done",
        ),
        (
            vec![
                deregistered(&[("snap-1", "client-error"), ("snap-2", "missing-permissions")]),
                error(400, "InvalidSnapshot.NotFound"),
                error(403, "UnauthorizedOperation"),
            ],
            vec![deregister, first, second],
            "unauthorized",
        ),
        // The image is gone already; its snapshots may not be.
        (
            vec![error(400, "InvalidAMIID.NotFound"), error(400, "InvalidSnapshot.NotFound")],
            vec![deregister, first, second],
            "done",
        ),
        (
            vec![error(400, "InvalidAMIID.Unavailable"), done()],
            vec![deregister, first, second],
            "done",
        ),
        (
            vec![error(400, "InvalidAMIID.Unavailable"), error(400, "InvalidSnapshot.InUse")],
            vec![deregister, first],
            "unavailable",
        ),
        (vec![error(403, "UnauthorizedOperation")], vec![deregister], "unauthorized"),
        (vec![error(503, "RequestLimitExceeded")], vec![deregister], "unavailable"),
        (vec![silence()], vec![deregister], "unavailable"),
    ] {
        let stub = Stub::new(answers.clone()).await;
        let answer = stub.ec2.delete_image(&stack_image()).await;
        let told = answer.as_ref().map_or_else(|error| provider(error).0, |()| "done");
        assert_eq!(told, expected, "{answers:?}");
        let forms = stub.forms();
        let called: Vec<_> = forms
            .iter()
            .map(|form| {
                let target = value(form, "ImageId").or_else(|| value(form, "SnapshotId"));
                (value(form, "Action").unwrap_or_default(), target.unwrap_or_default())
            })
            .collect();
        assert_eq!(called, calls, "{answers:?}");
        assert_eq!(value(&forms[0], "DeleteAssociatedSnapshots"), Some("true"));
    }
}
