//! Finds subnets with a route to GitHub.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::doctor::facts::network::{RouteTable, Subnet};

/// The route of a subnet's traffic to GitHub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SubnetRoute {
    /// Through an internet gateway, which requires a public address.
    Internet,
    /// Through a NAT gateway or a similar target, without a public address.
    Through,
    None,
    /// Unknown: there is no permission to read route tables.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Vpc {
    id: String,
    is_default: bool,
    name: String,
}

/// The networks of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Networks {
    vpcs: Vec<Vpc>,
    subnets: Vec<Subnet>,
    /// `None` without permission to read them.
    tables: Option<Vec<RouteTable>>,
}

/// The network to deploy into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    pub vpc: String,
    pub subnets: Vec<String>,
    /// The parameter `PublicIp`.
    pub public_ip: &'static str,
    /// The description for people.
    pub told: String,
}

fn items<'a>(answer: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    answer[list].as_array().into_iter().flatten()
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

impl Networks {
    /// Reads the answers to DescribeVpcs, DescribeSubnets and, if permitted, DescribeRouteTables.
    #[must_use]
    pub fn read(vpcs: &Value, subnets: &Value, routes: Option<&Value>) -> Self {
        let vpcs = items(vpcs, "vpcSet").map(|vpc| Vpc {
            id: text(vpc, "vpcId"),
            is_default: vpc["isDefault"] == "true",
            name: items(vpc, "tagSet")
                .find(|tag| tag["key"] == "Name")
                .map(|tag| text(tag, "value"))
                .unwrap_or_default(),
        });
        Self {
            vpcs: vpcs.collect(),
            subnets: Subnet::read(subnets),
            tables: routes.map(RouteTable::read),
        }
    }

    /// Returns the route by the subnet's route table, or by the VPC's main one.
    fn route(&self, subnet: &Subnet) -> SubnetRoute {
        let Some(tables) = &self.tables else { return SubnetRoute::Unknown };
        let own = tables.iter().find(|table| table.subnets.contains(&subnet.id));
        let main = || tables.iter().find(|table| table.is_main && table.vpc == subnet.vpc);
        match own.or_else(main).and_then(|table| table.out.as_ref()) {
            Some(route) if route.is_dead => SubnetRoute::None,
            Some(route) if route.to.starts_with("igw-") => SubnetRoute::Internet,
            Some(_) => SubnetRoute::Through,
            None => SubnetRoute::None,
        }
    }

    /// Chooses the named network, else the default one, else the only one.
    ///
    /// # Errors
    /// Explains why there is none and which option to pass.
    pub fn choose(&self, vpc: Option<&str>, subnets: &[String]) -> Result<Network, String> {
        if !subnets.is_empty() {
            return self.named(vpc, subnets);
        }
        let found = match (vpc, self.vpcs.as_slice()) {
            (Some(id), all) => all.iter().find(|vpc| vpc.id == id),
            (None, [only]) => Some(only),
            (None, all) => all.iter().find(|vpc| vpc.is_default),
        };
        let Some(vpc) = found else {
            let what = vpc.map_or("no default VPC".to_owned(), |id| format!("no VPC {id}"));
            return Err(format!("There is {what} in this region. Pass --vpc{}.", self.others()));
        };
        let all: Vec<&Subnet> = self.subnets.iter().filter(|one| one.vpc == vpc.id).collect();
        let of = |way: SubnetRoute| -> Vec<&Subnet> {
            one_a_zone(all.iter().copied().filter(|one| self.route(one) == way).collect())
        };
        let public = match &self.tables {
            Some(_) => of(SubnetRoute::Internet),
            None => one_a_zone(all.iter().copied().filter(|one| one.gives_public_ip).collect()),
        };
        let chosen = if public.is_empty() { of(SubnetRoute::Through) } else { public };
        if chosen.is_empty() {
            let id = &vpc.id;
            return Err(format!(
                "No subnet of {id} has a visible route to GitHub. Pass --subnets, or --vpc{}.",
                self.others()
            ));
        }
        Ok(self.network(vpc, &chosen))
    }

    fn named(&self, vpc: Option<&str>, subnets: &[String]) -> Result<Network, String> {
        let mut chosen = Vec::new();
        for id in subnets {
            let found = self.subnets.iter().find(|one| one.id == *id);
            chosen.push(found.ok_or_else(|| format!("There is no subnet {id} in this region."))?);
        }
        let vpcs: BTreeSet<&str> = chosen.iter().map(|one| one.vpc.as_str()).collect();
        let of: Vec<&str> = vpcs.into_iter().collect();
        let [only] = of.as_slice() else {
            return Err(format!("The subnets are of several VPCs: {}.", of.join(", ")));
        };
        if vpc.is_some_and(|vpc| vpc != *only) {
            return Err(format!("The subnets are of {only}."));
        }
        if let Some(lost) = chosen.iter().find(|one| self.route(one) == SubnetRoute::None) {
            return Err(format!(
                "{} has no internet access: its route table has no default route.",
                lost.id
            ));
        }
        let vpc = self.vpcs.iter().find(|one| one.id == **only);
        let unknown = Vpc { id: (*only).to_owned(), is_default: false, name: String::new() };
        Ok(self.network(vpc.unwrap_or(&unknown), &chosen))
    }

    fn network(&self, vpc: &Vpc, chosen: &[&Subnet]) -> Network {
        let needs_addresses = chosen.iter().any(|one| self.route(one) == SubnetRoute::Internet);
        let (public_ip, addresses) = match chosen.iter().all(|one| one.gives_public_ip) {
            true => ("subnet", "each machine gets a public address"),
            false if needs_addresses => ("yes", "each machine gets a public address"),
            false => ("no", "through a NAT gateway, without public addresses"),
        };
        let kind = match (vpc.is_default, vpc.name.as_str()) {
            (true, _) => format!("default VPC {}", vpc.id),
            (false, "") => vpc.id.clone(),
            (false, name) => format!("{} ({name})", vpc.id),
        };
        let count = crate::words::count(chosen.len(), "subnet");
        Network {
            vpc: vpc.id.clone(),
            subnets: chosen.iter().map(|one| one.id.clone()).collect(),
            public_ip,
            told: format!("{kind}, {count}; {addresses}"),
        }
    }

    /// Lists the VPCs that could be named.
    fn others(&self) -> String {
        let names = self.vpcs.iter().map(|vpc| match vpc.name.as_str() {
            "" => vpc.id.clone(),
            name => format!("{} ({name})", vpc.id),
        });
        let names: Vec<String> = names.collect();
        if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) }
    }
}

/// Chooses one subnet per zone, as the template requires; one that assigns public addresses first.
fn one_a_zone(mut all: Vec<&Subnet>) -> Vec<&Subnet> {
    all.sort_by_key(|one| (&one.zone, !one.gives_public_ip, &one.id));
    all.dedup_by_key(|one| &one.zone);
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn subnet(id: &str, vpc: &str, zone: &str, public: bool) -> Value {
        json!({ "subnetId": id, "vpcId": vpc, "availabilityZone": zone, "mapPublicIpOnLaunch": public.to_string() })
    }

    fn table(vpc: &str, of: Value, route: Value) -> Value {
        json!({ "vpcId": vpc, "associationSet": [of], "routeSet": [route] })
    }

    fn looked() -> Networks {
        let vpcs = json!({ "vpcSet": [
            { "vpcId": "vpc-1", "isDefault": "true", "tagSet": null },
            { "vpcId": "vpc-2", "isDefault": "false", "tagSet": [{ "key": "Name", "value": "prod" }] },
            { "vpcId": "vpc-3", "isDefault": "false" },
        ] });
        let subnets = json!({ "subnetSet": [
            subnet("subnet-b", "vpc-1", "us-east-1b", true),
            subnet("subnet-a2", "vpc-1", "us-east-1a", true),
            subnet("subnet-a", "vpc-1", "us-east-1a", true),
            subnet("subnet-n", "vpc-2", "us-east-1a", false),
            subnet("subnet-p", "vpc-2", "us-east-1a", false),
            subnet("subnet-x", "vpc-2", "us-east-1b", false),
            subnet("subnet-q", "vpc-3", "us-east-1a", false),
        ] });
        let internet =
            json!({ "destinationCidrBlock": "0.0.0.0/0", "gatewayId": "igw-1", "state": "active" });
        let nat = json!({ "destinationCidrBlock": "0.0.0.0/0", "natGatewayId": "nat-1", "state": "active" });
        let gone = json!({ "destinationCidrBlock": "0.0.0.0/0", "natGatewayId": "nat-2", "state": "blackhole" });
        let main = json!({ "main": "true" });
        let routes = json!({ "routeTableSet": [
            table("vpc-1", main.clone(), internet.clone()),
            table("vpc-2", main.clone(), gone),
            table("vpc-2", json!({ "main": "false", "subnetId": "subnet-n" }), nat.clone()),
            table("vpc-2", json!({ "main": "false", "subnetId": "subnet-p" }), internet),
            table("vpc-3", main, nat),
        ] });
        Networks::read(&vpcs, &subnets, Some(&routes))
    }

    fn told(network: Result<Network, String>) -> String {
        match network {
            Ok(Network { vpc, subnets, public_ip, told }) => {
                format!("{vpc} {} {public_ip}: {told}", subnets.join(","))
            }
            Err(why) => why,
        }
    }

    #[test]
    fn a_network_with_a_way_out_is_found_by_looking() {
        let all = looked();
        for (vpc, subnets, wanted) in [
            (
                None,
                vec![],
                "vpc-1 subnet-a,subnet-b subnet: default VPC vpc-1, 2 subnets; each machine gets a public address",
            ),
            (
                Some("vpc-2"),
                vec![],
                "vpc-2 subnet-p yes: vpc-2 (prod), 1 subnet; each machine gets a public address",
            ),
            (
                Some("vpc-3"),
                vec![],
                "vpc-3 subnet-q no: vpc-3, 1 subnet; through a NAT gateway, without public \
                addresses",
            ),
            (
                Some("vpc-4"),
                vec![],
                "There is no VPC vpc-4 in this region. Pass --vpc: vpc-1, vpc-2 (prod), vpc-3.",
            ),
            (
                None,
                vec!["subnet-n"],
                "vpc-2 subnet-n no: vpc-2 (prod), 1 subnet; through a NAT gateway, without public \
                addresses",
            ),
            (
                None,
                vec!["subnet-x"],
                "subnet-x has no internet access: its route table has no default route.",
            ),
            (None, vec!["subnet-y"], "There is no subnet subnet-y in this region."),
            (None, vec!["subnet-a", "subnet-n"], "The subnets are of several VPCs: vpc-1, vpc-2."),
            (Some("vpc-1"), vec!["subnet-n"], "The subnets are of vpc-2."),
        ] {
            let subnets: Vec<String> = subnets.into_iter().map(str::to_owned).collect();
            assert_eq!(told(all.choose(vpc, &subnets)), wanted);
        }
    }

    #[test]
    fn an_account_without_a_default_network_is_told_what_there_is() {
        let mut all = looked();
        all.vpcs.remove(0);
        let wanted = "There is no default VPC in this region. Pass --vpc: vpc-2 (prod), vpc-3.";
        assert_eq!(told(all.choose(None, &[])), wanted);
        all.vpcs.remove(0);
        assert!(told(all.choose(None, &[])).starts_with("vpc-3 subnet-q no"));
        all.subnets.clear();
        let wanted =
            "No subnet of vpc-3 has a visible route to GitHub. Pass --subnets, or --vpc: vpc-3.";
        assert_eq!(told(all.choose(None, &[])), wanted);
        all.vpcs.clear();
        assert_eq!(
            told(all.choose(None, &[])),
            "There is no default VPC in this region. Pass --vpc."
        );
    }

    #[test]
    fn without_route_tables_the_subnets_own_setting_counts() {
        let mut all = looked();
        all.tables = None;
        assert!(told(all.choose(None, &[])).starts_with("vpc-1 subnet-a,subnet-b subnet:"));
        assert!(told(all.choose(Some("vpc-3"), &[])).starts_with("No subnet of vpc-3"));
    }
}
