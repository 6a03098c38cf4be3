//! Checks whether machines can reach GitHub and the runner API.

use muster_api::answers::Finding;

use super::facts::Running;
use super::facts::network::{
    Acl, Endpoint, GITHUB, HTTPS, Nat, NetworkFacts, NetworkParameters, RouteTable, SecurityGroup,
    Subnet,
};
use super::{Check, CheckGroup, Facts, Unknown, console, error, judge, unasked, warn};

/// The lowest and highest port on which Linux receives answers.
/// Source: docs.kernel.org/networking/ip-sysctl.html (ip_local_port_range)
const ANSWERS: [u16; 2] = [32_768, 60_999];
/// Number of free addresses below which a subnet is nearly full.
const FEW: u64 = 8;

pub(super) fn check(facts: &Facts) -> Vec<Check> {
    let Some(running) = &facts.running else { return Vec::new() };
    match &running.network {
        Ok(network) => of_network(network, &facts.region, &proxied(running, network)),
        Err(unknown) => vec![unasked(CheckGroup::Network, "subnets", unknown)],
    }
}

/// Returns the subnets whose machines use a proxy: those that only pools with one use.
fn proxied(running: &Running, network: &NetworkFacts) -> Vec<String> {
    let pools = running.pools.as_deref().unwrap_or_default();
    let mut subnets = network.given.subnets.clone();
    subnets.retain(|id| {
        let mut own = pools.iter().filter(|pool| pool.subnets.iter().any(|one| **one == **id));
        own.next().is_some_and(|pool| pool.proxy.is_some()) && own.all(|pool| pool.proxy.is_some())
    });
    subnets
}

/// Returns the checks of a network. Subnets whose machines use a proxy (`proxied`) need no route to GitHub.
pub(crate) fn of_network(network: &NetworkFacts, region: &str, proxied: &[String]) -> Vec<Check> {
    let NetworkFacts { given, subnets, tables, nats, acls, endpoints, resolves, groups } = network;
    let page = |subnet: &Subnet| {
        console(
            region,
            &format!("vpcconsole/home?region={region}#SubnetDetails:subnetId={}", subnet.id),
        )
    };
    let mut all =
        judge(CheckGroup::Network, "subnets", subnets, |subnets| self::subnets(subnets, given));
    let ways = both(subnets, tables);
    all.extend(judge(CheckGroup::Network, "way out", &ways, |(subnets, tables)| {
        let wrongs = subnets
            .iter()
            .filter(|subnet| !proxied.contains(&subnet.id))
            .filter_map(|subnet| Some(way_out(subnet, tables, nats, given)?.url(page(subnet))));
        wrongs.collect()
    }));
    // If the NAT gateways are unknown, a route to one counts as a way out.
    if let Err(unknown) = nats {
        all.push(unasked(CheckGroup::Network, "NAT", unknown));
    }
    all.extend(judge(CheckGroup::Network, "ACL", acls, |acls| lists(acls, given)));
    all.extend(judge(CheckGroup::Network, "endpoint", endpoints, |all| private_api(all, given)));
    all.extend(judge(CheckGroup::Network, "DNS", resolves, |resolves| dns(*resolves, given)));
    all.extend(judge(CheckGroup::Network, "security groups", groups, |all| security(all, given)));
    all
}

/// Combines two facts that are useful only together.
fn both<'a, A, B>(
    a: &'a Result<A, Unknown>,
    b: &'a Result<B, Unknown>,
) -> Result<(&'a A, &'a B), Unknown> {
    match (a, b) {
        (Ok(a), Ok(b)) => Ok((a, b)),
        (Err(unknown), _) | (_, Err(unknown)) => Err(unknown.clone()),
    }
}

fn subnets(all: &[Subnet], given: &NetworkParameters) -> Vec<Finding> {
    let mut wrongs = Vec::new();
    for id in &given.subnets {
        let Some(subnet) = all.iter().find(|one| one.id == *id) else {
            let said = format!("There is no subnet {id}: EC2 refuses launches there.");
            wrongs.push(error(said).fix(without(id)));
            continue;
        };
        let Subnet { vpc, zone, free, .. } = subnet;
        if *vpc != given.vpc {
            let said = format!("{id} is in {vpc}, and the stack is in {}.", given.vpc);
            wrongs.push(error(said).fix(without(id)));
        }
        if *free < FEW {
            let addresses = match free {
                0 => "no free address".to_owned(),
                1 => "1 free address".to_owned(),
                free => format!("{free} free addresses"),
            };
            let said = format!("{id} ({zone}) has {addresses}, and each machine needs one.");
            wrongs.push(warn(said).fix("use a larger subnet, or add one"));
        }
    }
    wrongs
}

fn without(subnet: &str) -> String {
    format!(
        "remove {subnet} from Subnets (muster upgrade --subnets …) and from pools \
         that name it"
    )
}

fn way_out(
    subnet: &Subnet,
    tables: &[RouteTable],
    nats: &Result<Vec<Nat>, Unknown>,
    given: &NetworkParameters,
) -> Option<Finding> {
    const DEAF: &str = "machines there cannot reach GitHub";
    let id = &subnet.id;
    let own = tables.iter().find(|table| table.subnets.contains(id));
    // Without permission to see the table, the route is unknown.
    let table = own.or_else(|| tables.iter().find(|table| table.is_main))?;
    let Some(route) = &table.out else {
        let said = format!("{id} has no route out ({}): {DEAF}.", table.id);
        let remedy = format!(
            "add a route 0.0.0.0/0 to a NAT gateway or an internet gateway, or {}",
            without(id)
        );
        return Some(error(said).fix(remedy));
    };
    let to = &route.to;
    if route.is_dead {
        let said = format!("The route of {id} leads to {to}, which no longer exists: {DEAF}.");
        return Some(error(said).fix(format!("set a new target in {}", table.id)));
    }
    if to.starts_with("igw-") {
        let is_public =
            given.public_ip == "yes" || given.public_ip == "subnet" && subnet.gives_public_ip;
        let said = format!("{id} has an internet gateway and assigns no public address: {DEAF}.");
        return (!is_public).then(|| {
            error(said).fix(format!("muster upgrade --public-ip yes, or {}", without(id)))
        });
    }
    if to.starts_with("nat-") {
        let nat = nats.iter().flatten().find(|nat| nat.id == *to)?;
        let why = if nat.why.is_empty() { String::new() } else { format!(" ({})", nat.why) };
        let said =
            format!("{id} routes through {to}, which is in state {}{why}: {DEAF}.", nat.state);
        return match nat.state.as_str() {
            "available" => None,
            "pending" => Some(warn(said).fix("wait a minute")),
            _ => Some(error(said).fix(format!(
                "create a new NAT gateway, and point the route of {} to it",
                table.id
            ))),
        };
    }
    None
}

fn lists(all: &[Acl], given: &NetworkParameters) -> Vec<Finding> {
    let mut wrongs = Vec::new();
    for acl in all {
        let own: Vec<&str> = given
            .subnets
            .iter()
            .filter(|id| acl.subnets.contains(id))
            .map(String::as_str)
            .collect();
        if own.is_empty() {
            continue;
        }
        let of = format!("The network ACL {} of {}", acl.id, own.join(", "));
        let mut refused = |what: &str| {
            let remedy = format!("add a rule to {} that allows it", acl.id);
            wrongs.push(
                error(format!("{of} refuses {what}: machines there cannot reach GitHub."))
                    .fix(remedy),
            );
        };
        if !acl.lets(true, GITHUB, HTTPS) {
            refused("TCP port 443 out");
        }
        if !ANSWERS.iter().all(|port| acl.lets(false, GITHUB, *port)) {
            refused("the answers, TCP ports 32768-60999 in");
        }
    }
    wrongs
}

fn private_api(all: &[Endpoint], given: &NetworkParameters) -> Vec<Finding> {
    let takes = |one: &&Endpoint| one.service.ends_with(".execute-api") && one.private_dns;
    let wrongs = all.iter().filter(takes).map(|one| {
        let said = format!(
            "{} has an execute-api endpoint with private DNS ({}): machines reach it instead \
             of the runner API, and get 403.",
            given.vpc, one.id
        );
        error(said).fix(format!(
            "aws ec2 modify-vpc-endpoint --no-private-dns-enabled --vpc-endpoint-id {}, \
             or use subnets of a different VPC",
            one.id
        ))
    });
    wrongs.collect()
}

fn dns(resolves: bool, given: &NetworkParameters) -> Vec<Finding> {
    if resolves {
        return Vec::new();
    }
    let vpc = &given.vpc;
    let said = format!("DNS support of {vpc} is off: machines cannot resolve GitHub's names.");
    vec![
        error(said)
            .fix(format!("aws ec2 modify-vpc-attribute --enable-dns-support --vpc-id {vpc}")),
    ]
}

fn security(all: &[SecurityGroup], given: &NetworkParameters) -> Vec<Finding> {
    let is_there = |id: &&String| all.iter().any(|group| group.id == **id);
    let missing = given.groups.iter().filter(|id| !is_there(id)).map(|id| {
        let said = format!("There is no security group {id}: EC2 refuses every launch.");
        error(said).fix("sam deploy --parameter-overrides SecurityGroupIds=…")
    });
    let foreign = all.iter().filter(|group| group.vpc != given.vpc).map(|group| {
        let said = format!(
            "{} is in {}, and the stack is in {}: EC2 refuses every launch.",
            group.id, group.vpc, given.vpc
        );
        error(said).fix("sam deploy --parameter-overrides SecurityGroupIds=…")
    });
    let mut wrongs: Vec<Finding> = missing.chain(foreign).collect();
    if all.is_empty() && given.groups.is_empty() {
        wrongs.push(warn(
            "No security group has the stack's tag: which one machines get is unknown.",
        ));
    }
    let lets = |group: &SecurityGroup| {
        group.to_lists || group.out.iter().any(|out| out.has(GITHUB, HTTPS))
    };
    if !all.is_empty() && !all.iter().any(lets) {
        let names: Vec<&str> = all.iter().map(|group| group.id.as_str()).collect();
        let said = format!(
            "{} {} no outbound traffic on TCP port 443: machines cannot reach GitHub.",
            names.join(", "),
            if names.len() == 1 { "allows" } else { "allow" }
        );
        wrongs.push(error(said).fix("add an outbound rule to 0.0.0.0/0"));
    }
    wrongs
}
