//! Types and images, of the built-in pool and of pools that say otherwise.

use muster_cli::doctor::facts::machines::{ImageFacts, Machines, Template, offers, parameters};
use muster_cli::doctor::{Facts, checks};
use muster_cli::xml;
use muster_domain::ec2::Arch;
use muster_domain::pool::{Disk, Image, Pool, Requirements};
use serde_json::{Value, json};

use super::{lines, may_not, running, told};

pub(super) const UBUNTU: &str =
    "/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id";

const TEMPLATE: &str = "<DescribeLaunchTemplateVersionsResponse><launchTemplateVersionSet><item>
    <launchTemplateData><imageId>resolve:ssm:/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id</imageId>
        <blockDeviceMappingSet><item><deviceName>/dev/sda1</deviceName></item></blockDeviceMappingSet>
    </launchTemplateData></item></launchTemplateVersionSet></DescribeLaunchTemplateVersionsResponse>";
const IMAGES: &str = "<DescribeImagesResponse><imagesSet><item>
    <imageId>ami-0aaa</imageId><imageState>available</imageState><architecture>x86_64</architecture>
    <rootDeviceName>/dev/sda1</rootDeviceName></item></imagesSet></DescribeImagesResponse>";

/// The launch template and the offers.
pub(super) fn answers() -> [Value; 2] {
    let types = ["m7i-flex.large", "m7i.large", "m7a.large", "m6i.large", "m6a.large"];
    let offer = |one: &str, zone: &str| {
        format!("<item><instanceType>{one}</instanceType><location>{zone}</location></item>")
    };
    let offers: String =
        types.iter().flat_map(|one| [offer(one, "us-east-1a"), offer(one, "us-east-1b")]).collect();
    let offers = format!("<R><instanceTypeOfferingSet>{offers}</instanceTypeOfferingSet></R>");
    [TEMPLATE, &offers].map(|text| xml::read(text).expect("XML"))
}

/// The parameter of Ubuntu's image, and that image.
pub(super) fn images() -> [Value; 2] {
    let parameter =
        json!({ "Parameters": [{ "Name": UBUNTU, "Value": "ami-0aaa" }], "InvalidParameters": [] });
    [parameter, xml::read(IMAGES).expect("XML")]
}

pub(super) fn well() -> Machines {
    let ([template, offered], [parameter, images]) = (answers(), images());
    let template = Template::read(&template).expect("an image");
    assert_eq!(template.image, Image::Ssm(UBUNTU.to_owned()));
    Machines {
        template: Ok(template),
        offers: Ok(offers(&offered)),
        parameters: Ok(parameters(&parameter)),
        images: Ok(ImageFacts::read(&images)),
    }
}

fn pool(facts: &mut Facts) -> &mut Pool {
    &mut running(facts).pools.as_mut().expect("known")[0]
}

fn machines(facts: &mut Facts) -> &mut Machines {
    &mut running(facts).machines
}

fn image(facts: &mut Facts) -> &mut ImageFacts {
    &mut machines(facts).images.as_mut().expect("known")[0]
}

#[test]
fn each_wrong_of_an_image_has_its_sentence() {
    told(
        "doctor_image.txt",
        &[
            ("it is for other processors", |facts| image(facts).arch = "arm64".to_owned()),
            ("of a pool with requirements too", |facts| {
                let pool = pool(facts);
                pool.instance_types.clear();
                pool.arch = Some(Arch::Arm64);
                pool.requirements = Some(Requirements {
                    vcpus_min: 2,
                    vcpus_max: None,
                    memory_mib_min: 4096,
                    memory_mib_max: None,
                });
            }),
            ("it is gone", |facts| machines(facts).images.as_mut().expect("known").clear()),
            ("it is not ready", |facts| image(facts).state = "failed".to_owned()),
            ("its parameter may not be read by the stack", |facts| {
                pool(facts).image = Some(Image::Ssm("/acme/runner-image".to_owned()));
            }),
            ("its parameter is not there", |facts| {
                pool(facts).image = Some(Image::Ssm("/muster/images/new".to_owned()));
            }),
            ("it boots from another device", |facts| image(facts).root = "/dev/xvda".to_owned()),
            ("the pool's disk is on another device", |facts| {
                pool(facts).disk = Some(Disk {
                    device: "/dev/xvda".to_owned(),
                    size_gib: 80,
                    iops: None,
                    throughput_mib: None,
                });
            }),
            ("the parameters may not be seen", |facts| {
                machines(facts).parameters = Err(may_not("ssm:GetParameters"));
            }),
            ("the images may not be seen", |facts| {
                machines(facts).images = Err(may_not("ec2:DescribeImages"));
            }),
            ("the launch template may not be seen", |facts| {
                machines(facts).template = Err(may_not("ec2:DescribeLaunchTemplateVersions"));
            }),
        ],
    );
}

#[test]
fn each_wrong_of_types_tags_and_places_has_its_sentence() {
    fn offered(facts: &mut Facts, keep: fn(&str, &str) -> bool) {
        machines(facts)
            .offers
            .as_mut()
            .expect("known")
            .retain(|(of_pool, zone)| keep(of_pool, zone));
    }
    told(
        "doctor_machines.txt",
        &[
            ("a zone has none of the types", |facts| {
                offered(facts, |_, zone| zone == "us-east-1a");
            }),
            ("no zone has any", |facts| offered(facts, |_, _| false)),
            ("a type is nowhere", |facts| offered(facts, |of_pool, _| of_pool != "m6a.large")),
            ("the offers may not be seen", |facts| {
                machines(facts).offers = Err(may_not("ec2:DescribeInstanceTypeOfferings"));
            }),
            ("a tag that the stack may not give", |facts| {
                pool(facts).tags = [("team", "a"), ("cost", "b"), ("Name", "c")]
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .into();
            }),
            ("a subnet that the stack may not use", |facts| {
                pool(facts).subnets.push("subnet-0c0c0c0c".into());
            }),
            ("the pools may not be asked for", |facts| {
                running(facts).pools = Err(may_not("lambda:InvokeFunction"));
            }),
        ],
    );
}

#[test]
fn a_parameter_of_a_version_is_found() {
    let answer = json!({ "Parameters": [{ "Name": "/a", "Selector": ":3", "Value": "ami-3" }] });
    assert_eq!(parameters(&answer).get("/a:3").map(String::as_str), Some("ami-3"));
}

/// A pool of its own image asks nothing of the template's; one that serves nothing is let be.
#[test]
fn only_what_machines_boot_is_judged() {
    let rows: [fn(&mut Facts); 2] = [
        |facts| {
            let arm = ImageFacts {
                id: "ami-0bbb".to_owned(),
                state: "available".to_owned(),
                arch: "arm64".to_owned(),
                root: "/dev/xvda".to_owned(),
            };
            machines(facts).images = Ok(vec![arm]);
            machines(facts).offers.as_mut().expect("known").extend([
                ("m7g.large".to_owned(), "us-east-1a".to_owned()),
                ("m7g.large".to_owned(), "us-east-1b".to_owned()),
            ]);
            let pool = pool(facts);
            pool.image = Some(Image::Id("ami-0bbb".to_owned()));
            pool.instance_types = vec!["m7g.large".into()];
            pool.disk = Some(Disk {
                device: "/dev/xvda".to_owned(),
                size_gib: 80,
                iops: None,
                throughput_mib: None,
            });
        },
        |facts| {
            pool(facts).enabled = false;
            machines(facts).images = Ok(Vec::new());
        },
    ];
    for row in rows {
        let mut facts = super::well();
        row(&mut facts);
        assert_eq!(lines(&checks(&facts)), "");
    }
}
