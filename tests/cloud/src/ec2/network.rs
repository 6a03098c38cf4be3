//! The network of the account, as EC2 describes it. Nothing here carries traffic.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::describe::wildcard;
use super::{Ec2Error, Filter};

/// All of it. A test changes what it likes, and says the whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    pub vpcs: Vec<Vpc>,
    pub subnets: Vec<Subnet>,
    pub route_tables: Vec<RouteTable>,
    pub nat_gateways: Vec<NatGateway>,
    pub acls: Vec<Acl>,
    pub endpoints: Vec<Endpoint>,
    pub security_groups: Vec<SecurityGroup>,
    /// Zones that do not have a type; every other has every type.
    pub not_offered: BTreeSet<(String, String)>,
}

/// A VPC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vpc {
    pub id: String,
    pub cidr: String,
    pub is_default: bool,
    /// Its own resolver answers.
    pub dns_support: bool,
}

/// A subnet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subnet {
    pub id: String,
    pub vpc: String,
    pub zone: String,
    pub cidr: String,
    pub free_addresses: u32,
    pub gives_public_ip: bool,
}

/// A route table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteTable {
    pub id: String,
    pub vpc: String,
    /// That of subnets that name none.
    pub is_main: bool,
    pub subnets: Vec<String>,
    pub routes: Vec<Route>,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    pub destination: String,
    /// `local`, or the id of a gateway of any kind.
    pub target: String,
    /// `active` or `blackhole`.
    pub state: String,
}

/// A NAT gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NatGateway {
    pub id: String,
    pub vpc: String,
    pub subnet: String,
    pub state: String,
    #[serde(default)]
    pub failure: Option<String>,
}

/// A network ACL. Its last rule, which refuses, is not said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Acl {
    pub id: String,
    pub vpc: String,
    pub subnets: Vec<String>,
    pub entries: Vec<AclEntry>,
}

/// A rule of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AclEntry {
    pub number: u32,
    pub egress: bool,
    pub allow: bool,
    #[serde(flatten)]
    pub traffic: Traffic,
}

/// Some traffic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// A number; `-1` is every one.
    pub protocol: String,
    pub cidr: String,
    /// All ports, without it.
    #[serde(default)]
    pub ports: Option<(u16, u16)>,
}

impl Traffic {
    fn all() -> Self {
        Self { protocol: "-1".to_owned(), cidr: "0.0.0.0/0".to_owned(), ports: None }
    }
}

/// A VPC endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    pub id: String,
    pub vpc: String,
    pub service: String,
    pub private_dns: bool,
}

/// A security group, and what it lets out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecurityGroup {
    pub id: String,
    pub vpc: String,
    pub name: String,
    pub out: Vec<Traffic>,
}

const VPC: &str = "vpc-00000001";
const IGW: &str = "igw-00000001";

impl Default for Network {
    /// The default VPC as AWS makes it: a public subnet in each zone. The ids are those of the local
    /// stack's emulator, which has such a VPC too.
    fn default() -> Self {
        let subnet = |(number, zone): (u8, &str)| Subnet {
            id: format!("subnet-0000000{number}"),
            vpc: VPC.to_owned(),
            zone: zone.to_owned(),
            cidr: format!("172.31.{}.0/20", 16 * (number - 1)),
            free_addresses: 4091,
            gives_public_ip: true,
        };
        let subnets: Vec<Subnet> =
            [(1, "us-east-1a"), (2, "us-east-1b"), (3, "us-east-1c")].map(subnet).into();
        let route = |destination: &str, target: &str| Route {
            destination: destination.to_owned(),
            target: target.to_owned(),
            state: "active".to_owned(),
        };
        let entry = |egress| AclEntry { number: 100, egress, allow: true, traffic: Traffic::all() };
        Self {
            vpcs: vec![Vpc {
                id: VPC.to_owned(),
                cidr: "172.31.0.0/16".to_owned(),
                is_default: true,
                dns_support: true,
            }],
            route_tables: vec![RouteTable {
                id: "rtb-00000001".to_owned(),
                vpc: VPC.to_owned(),
                is_main: true,
                subnets: Vec::new(),
                routes: vec![route("172.31.0.0/16", "local"), route("0.0.0.0/0", IGW)],
            }],
            nat_gateways: Vec::new(),
            acls: vec![Acl {
                id: "acl-00000001".to_owned(),
                vpc: VPC.to_owned(),
                subnets: subnets.iter().map(|subnet| subnet.id.clone()).collect(),
                entries: [false, true].map(entry).into(),
            }],
            endpoints: Vec::new(),
            security_groups: vec![SecurityGroup {
                id: "sg-00000001".to_owned(),
                vpc: VPC.to_owned(),
                name: "default".to_owned(),
                out: vec![Traffic::all()],
            }],
            not_offered: BTreeSet::new(),
            subnets,
        }
    }
}

impl Network {
    /// The zone of a subnet.
    #[must_use]
    pub fn zone_of(&self, subnet: &str) -> Option<&str> {
        self.subnets.iter().find(|one| one.id == subnet).map(|one| one.zone.as_str())
    }

    /// Where the types that a request filters by are offered: type and zone.
    pub fn offerings(&self, filters: &[Filter]) -> Result<Vec<(String, String)>, Ec2Error> {
        known(filters, &["instance-type", "location"])?;
        let zones: BTreeSet<&str> = self.subnets.iter().map(|one| one.zone.as_str()).collect();
        // Without a name it would be every type that there is, and those are not known here.
        let types = filters.iter().filter(|filter| filter.name == "instance-type");
        let types = types.flat_map(|filter| filter.values.iter());
        let all = types.flat_map(|kind| zones.iter().map(move |zone| (kind.clone(), *zone)));
        let all = all.map(|(kind, zone)| (kind, zone.to_owned()));
        Ok(all
            .filter(|one| !self.not_offered.contains(one))
            .filter(|(_, zone)| has(filters, "location", zone))
            .collect())
    }
}

/// A resource, by what filters ask of it.
pub trait Filtered {
    /// The filters that are known of it.
    const FILTERS: &'static [&'static str];

    /// What one of them is compared with.
    fn value(&self, filter: &str) -> &str;
}

/// Those of them that fit every filter.
pub fn select<'a, T: Filtered>(all: &'a [T], filters: &[Filter]) -> Result<Vec<&'a T>, Ec2Error> {
    known(filters, T::FILTERS)?;
    let fits = |one: &&T| filters.iter().all(|filter| fits(filter, one.value(&filter.name)));
    Ok(all.iter().filter(fits).collect())
}

fn fits(filter: &Filter, value: &str) -> bool {
    filter.values.iter().any(|pattern| wildcard(pattern, value))
}

fn has(filters: &[Filter], name: &str, value: &str) -> bool {
    filters.iter().filter(|filter| filter.name == name).all(|filter| fits(filter, value))
}

fn known(filters: &[Filter], names: &[&str]) -> Result<(), Ec2Error> {
    match filters.iter().find(|filter| !names.contains(&filter.name.as_str())) {
        None => Ok(()),
        Some(filter) => Err(Ec2Error::new(
            "InvalidParameterValue",
            format!("The filter '{}' is invalid", filter.name),
        )),
    }
}

macro_rules! filtered {
    ($($kind:ident { $own:literal })*) => {$(
        impl Filtered for $kind {
            const FILTERS: &'static [&'static str] = &[$own, "vpc-id"];

            fn value(&self, filter: &str) -> &str {
                if filter == "vpc-id" { &self.vpc } else { &self.id }
            }
        }
    )*};
}

filtered! {
    Subnet { "subnet-id" }
    RouteTable { "route-table-id" }
    NatGateway { "nat-gateway-id" }
    Acl { "network-acl-id" }
    Endpoint { "vpc-endpoint-id" }
    SecurityGroup { "group-id" }
}

impl Filtered for Vpc {
    const FILTERS: &'static [&'static str] = &["vpc-id"];

    fn value(&self, _: &str) -> &str {
        &self.id
    }
}
