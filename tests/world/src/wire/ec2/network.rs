//! What EC2 says of the network, and of where its types are.

use super::form::Form;
use super::write::answer as xml_answer;
use super::{Reply, parse};
use crate::wire::xml::{list, text, wrap};
use muster_cloud::ec2::network::{
    Acl, AclEntry, Endpoint, Filtered, NatGateway, Network, Route, RouteTable, SecurityGroup,
    Subnet, Traffic, Vpc, select,
};
use muster_cloud::ec2::{Ec2Error, Filter};

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Vpcs,
    Subnets,
    RouteTables,
    NatGateways,
    NetworkAcls,
    VpcEndpoints,
    VpcAttribute,
    SecurityGroups,
    InstanceTypeOfferings,
}

impl Action {
    pub(super) fn find(name: &str) -> Option<Self> {
        Some(match name {
            "DescribeVpcs" => Self::Vpcs,
            "DescribeSubnets" => Self::Subnets,
            "DescribeRouteTables" => Self::RouteTables,
            "DescribeNatGateways" => Self::NatGateways,
            "DescribeNetworkAcls" => Self::NetworkAcls,
            "DescribeVpcEndpoints" => Self::VpcEndpoints,
            "DescribeVpcAttribute" => Self::VpcAttribute,
            "DescribeSecurityGroups" => Self::SecurityGroups,
            "DescribeInstanceTypeOfferings" => Self::InstanceTypeOfferings,
            _ => return None,
        })
    }
}

/// A request.
pub(super) struct Request {
    action: Action,
    pub(super) filters: Vec<Filter>,
    /// The VPC whose attribute is asked for.
    vpc: String,
}

/// Whether groups are looked for by what they are tagged with.
pub(super) fn is_about_tags(form: &Form) -> bool {
    form.peek("Filter.1.Name").is_some_and(|name| name.starts_with("tag:"))
}

pub(super) fn understand(name: &str, mut form: Form) -> Result<Request, Ec2Error> {
    let unknown = || Ec2Error::new("InvalidAction", format!("The action {name} is not known."));
    let action = Action::find(name).ok_or_else(unknown)?;
    let request = Request {
        action,
        filters: parse::filters(&mut form),
        vpc: form.take("VpcId").unwrap_or_default(),
    };
    let only = |form: &mut Form, parameter: &str, value: &str| match form.take(parameter) {
        Some(given) if given != value => Err(Ec2Error::new(
            "UnsupportedOperation",
            format!("The simulated cloud knows {parameter} {value} alone, not {given}."),
        )),
        _ => Ok(()),
    };
    match action {
        Action::VpcAttribute => only(&mut form, "Attribute", "enableDnsSupport")?,
        Action::InstanceTypeOfferings => only(&mut form, "LocationType", "availability-zone")?,
        _ => {}
    }
    form.finish()?;
    Ok(request)
}

pub(super) fn answer(network: &Network, request: &Request) -> Result<Reply, Ec2Error> {
    let filters = &request.filters;
    Ok(match request.action {
        Action::Vpcs => listed("DescribeVpcs", "vpcSet", &network.vpcs, filters, vpc)?,
        Action::Subnets => {
            listed("DescribeSubnets", "subnetSet", &network.subnets, filters, subnet)?
        }
        Action::RouteTables => listed(
            "DescribeRouteTables",
            "routeTableSet",
            &network.route_tables,
            filters,
            route_table,
        )?,
        Action::NatGateways => {
            listed("DescribeNatGateways", "natGatewaySet", &network.nat_gateways, filters, nat)?
        }
        Action::NetworkAcls => {
            listed("DescribeNetworkAcls", "networkAclSet", &network.acls, filters, acl)?
        }
        Action::VpcEndpoints => {
            listed("DescribeVpcEndpoints", "vpcEndpointSet", &network.endpoints, filters, endpoint)?
        }
        Action::SecurityGroups => listed(
            "DescribeSecurityGroups",
            "securityGroupInfo",
            &network.security_groups,
            filters,
            group,
        )?,
        Action::VpcAttribute => attribute(network, &request.vpc)?,
        Action::InstanceTypeOfferings => {
            let all = network.offerings(filters)?;
            let items = all.iter().map(|(kind, zone)| {
                text("instanceType", kind)
                    + &text("locationType", "availability-zone")
                    + &text("location", zone)
            });
            xml_answer("DescribeInstanceTypeOfferings", &list("instanceTypeOfferingSet", items))
        }
    })
}

fn listed<T: Filtered>(
    action: &str,
    set: &str,
    all: &[T],
    filters: &[Filter],
    write: impl Fn(&T) -> String,
) -> Result<Reply, Ec2Error> {
    Ok(xml_answer(action, &list(set, select(all, filters)?.into_iter().map(write))))
}

fn attribute(network: &Network, id: &str) -> Result<Reply, Ec2Error> {
    let found = network.vpcs.iter().find(|vpc| vpc.id == id);
    let vpc = found.ok_or_else(|| {
        Ec2Error::new("InvalidVpcID.NotFound", format!("The vpc ID '{id}' does not exist"))
    })?;
    let value = text("value", truth(vpc.dns_support));
    let inner = text("vpcId", id) + &wrap("enableDnsSupport", &value);
    Ok(xml_answer("DescribeVpcAttribute", &inner))
}

fn truth(is: bool) -> &'static str {
    if is { "true" } else { "false" }
}

fn vpc(one: &Vpc) -> String {
    text("vpcId", &one.id)
        + &text("state", "available")
        + &text("cidrBlock", &one.cidr)
        + &text("isDefault", truth(one.is_default))
}

fn subnet(one: &Subnet) -> String {
    text("subnetId", &one.id)
        + &text("state", "available")
        + &text("vpcId", &one.vpc)
        + &text("cidrBlock", &one.cidr)
        + &text("availableIpAddressCount", &one.free_addresses.to_string())
        + &text("availabilityZone", &one.zone)
        + &text("mapPublicIpOnLaunch", truth(one.gives_public_ip))
}

fn route_table(one: &RouteTable) -> String {
    let main = one.is_main.then(|| text("main", "true"));
    let named = one.subnets.iter().map(|id| text("subnetId", id) + &text("main", "false"));
    text("routeTableId", &one.id)
        + &text("vpcId", &one.vpc)
        + &list("routeSet", one.routes.iter().map(route))
        + &list("associationSet", main.into_iter().chain(named))
}

fn route(one: &Route) -> String {
    let kind = match one.target.split('-').next() {
        Some("nat") => "natGatewayId",
        Some("tgw") => "transitGatewayId",
        Some("eni") => "networkInterfaceId",
        Some("pcx") => "vpcPeeringConnectionId",
        _ => "gatewayId",
    };
    text("destinationCidrBlock", &one.destination)
        + &text(kind, &one.target)
        + &text("state", &one.state)
}

fn nat(one: &NatGateway) -> String {
    let failure = one.failure.as_ref().map(|why| text("failureMessage", why));
    text("natGatewayId", &one.id)
        + &text("vpcId", &one.vpc)
        + &text("subnetId", &one.subnet)
        + &text("state", &one.state)
        + &failure.unwrap_or_default()
}

fn acl(one: &Acl) -> String {
    // What no rule allows is refused by one that always is the last.
    let last = |egress| AclEntry {
        number: 32_767,
        egress,
        allow: false,
        traffic: Traffic { protocol: "-1".to_owned(), cidr: "0.0.0.0/0".to_owned(), ports: None },
    };
    let last = [last(false), last(true)];
    let associated =
        one.subnets.iter().map(|subnet| text("networkAclId", &one.id) + &text("subnetId", subnet));
    text("networkAclId", &one.id)
        + &text("vpcId", &one.vpc)
        + &list("entrySet", one.entries.iter().chain(&last).map(acl_entry))
        + &list("associationSet", associated)
}

fn acl_entry(one: &AclEntry) -> String {
    let Traffic { protocol, cidr, ports } = &one.traffic;
    let ports = ports.map(|(from, to)| {
        let range = text("from", &from.to_string()) + &text("to", &to.to_string());
        wrap("portRange", &range)
    });
    text("ruleNumber", &one.number.to_string())
        + &text("protocol", protocol)
        + &text("ruleAction", if one.allow { "allow" } else { "deny" })
        + &text("egress", truth(one.egress))
        + &text("cidrBlock", cidr)
        + &ports.unwrap_or_default()
}

fn endpoint(one: &Endpoint) -> String {
    text("vpcEndpointId", &one.id)
        + &text("vpcId", &one.vpc)
        + &text("serviceName", &one.service)
        + &text("state", "available")
        + &text("privateDnsEnabled", truth(one.private_dns))
}

fn group(one: &SecurityGroup) -> String {
    let rule = |out: &Traffic| {
        let ports = out.ports.map(|(from, to)| {
            text("fromPort", &from.to_string()) + &text("toPort", &to.to_string())
        });
        text("ipProtocol", &out.protocol)
            + &ports.unwrap_or_default()
            + &list("ipRanges", [text("cidrIp", &out.cidr)])
            + "<groups/><prefixListIds/>"
    };
    text("groupId", &one.id)
        + &text("groupName", &one.name)
        + &text("vpcId", &one.vpc)
        + "<ipPermissions/>"
        + &list("ipPermissionsEgress", one.out.iter().map(rule))
}
