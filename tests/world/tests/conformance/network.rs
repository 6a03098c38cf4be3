//! The network of the account, on the wire of EC2.

use serde_json::json;

use crate::common::cloud::Cloud;

const VERSION: (&str, &str) = ("Version", "2016-11-15");

/// An operation with one filter.
fn filtered<'a>(action: &'a str, name: &'a str, value: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![("Action", action), VERSION, ("Filter.1.Name", name), ("Filter.1.Value.1", value)]
}

#[tokio::test]
async fn an_account_begins_with_a_network_that_leads_out() {
    let cloud = Cloud::open("").await;
    for (action, filter, value, set, path, expected) in [
        ("DescribeVpcs", "vpc-id", "vpc-00000001", "vpcSet", &["isDefault"][..], "true"),
        (
            "DescribeSubnets",
            "subnet-id",
            "subnet-00000002",
            "subnetSet",
            &["availabilityZone"],
            "us-east-1b",
        ),
        (
            "DescribeSubnets",
            "vpc-id",
            "vpc-00000001",
            "subnetSet",
            &["mapPublicIpOnLaunch"],
            "true",
        ),
        (
            "DescribeRouteTables",
            "vpc-id",
            "vpc-00000001",
            "routeTableSet",
            &["associationSet", "item", "main"],
            "true",
        ),
        (
            "DescribeNetworkAcls",
            "vpc-id",
            "vpc-00000001",
            "networkAclSet",
            &["associationSet", "item", "subnetId"],
            "subnet-00000001",
        ),
        (
            "DescribeSecurityGroups",
            "group-id",
            "sg-00000001",
            "securityGroupInfo",
            &["ipPermissionsEgress", "item", "ipRanges", "item", "cidrIp"],
            "0.0.0.0/0",
        ),
    ] {
        let (status, answer) = cloud.ec2(&filtered(action, filter, value)).await;
        assert_eq!(status, 200, "{answer:?}");
        let all = answer.items(&[set]);
        assert_eq!(all[0].at(path), expected, "{action}: {answer:?}");
    }
    for (action, set) in
        [("DescribeNatGateways", "natGatewaySet"), ("DescribeVpcEndpoints", "vpcEndpointSet")]
    {
        let (status, answer) = cloud.ec2(&filtered(action, "vpc-id", "vpc-00000001")).await;
        assert_eq!((status, answer.items(&[set]).len()), (200, 0), "{answer:?}");
    }
    let other = cloud.ec2(&filtered("DescribeSubnets", "vpc-id", "vpc-2")).await.1;
    assert!(other.items(&["subnetSet"]).is_empty());
    let (status, answer) = cloud.ec2(&filtered("DescribeSubnets", "colour", "red")).await;
    assert_eq!((status, answer.at(&["Errors", "Error", "Code"])), (400, "InvalidParameterValue"));
}

#[tokio::test]
async fn the_network_is_what_was_said_of_it() {
    let cloud = Cloud::open("").await;
    let mut network = cloud.ask("network").await;
    network["vpcs"][0]["dns_support"] = json!(false);
    network["nat_gateways"] = json!([{ "id": "nat-1", "vpc": "vpc-00000001",
        "subnet": "subnet-00000001", "state": "failed", "failure": "no address" }]);
    network["route_tables"][0]["routes"][1]["target"] = json!("nat-1");
    network["acls"][0]["entries"] = json!([{ "number": 90, "egress": true, "allow": false,
        "protocol": "6", "cidr": "0.0.0.0/0", "ports": [443, 443] }]);
    network["not_offered"] = json!([["m7i.large", "us-east-1b"]]);
    cloud.control("network", network).await;

    let of_vpc = async |action| {
        let (status, answer) = cloud.ec2(&filtered(action, "vpc-id", "vpc-00000001")).await;
        assert_eq!(status, 200, "{answer:?}");
        answer
    };
    let nats = of_vpc("DescribeNatGateways").await;
    assert_eq!(nats.items(&["natGatewaySet"])[0].at(&["failureMessage"]), "no address");
    let tables = of_vpc("DescribeRouteTables").await;
    let routes = tables.items(&["routeTableSet"])[0].items(&["routeSet"]);
    assert_eq!(routes[1].at(&["natGatewayId"]), "nat-1");
    let acls = of_vpc("DescribeNetworkAcls").await;
    let entries = acls.items(&["networkAclSet"])[0].items(&["entrySet"]);
    let told = |entry: &muster_world::wire::Element| {
        ["ruleNumber", "ruleAction", "egress"].map(|name| entry.at(&[name]).to_owned())
    };
    assert_eq!(entries[0].at(&["portRange", "from"]), "443");
    assert_eq!(
        entries.iter().map(told).collect::<Vec<_>>(),
        [["90", "deny", "true"], ["32767", "deny", "false"], ["32767", "deny", "true"]],
        "the last rule is always there"
    );

    let dns = [
        ("Action", "DescribeVpcAttribute"),
        VERSION,
        ("VpcId", "vpc-00000001"),
        ("Attribute", "enableDnsSupport"),
    ];
    let (_, answer) = cloud.ec2(&dns).await;
    assert_eq!(answer.at(&["enableDnsSupport", "value"]), "false");
    let mut offers = filtered("DescribeInstanceTypeOfferings", "instance-type", "m7i.large");
    offers.push(("LocationType", "availability-zone"));
    let (_, answer) = cloud.ec2(&offers).await;
    let zones = answer.items(&["instanceTypeOfferingSet"]).iter();
    let zones: Vec<&str> = zones.map(|one| one.at(&["location"])).collect();
    assert_eq!(zones, ["us-east-1a", "us-east-1c"]);
}
