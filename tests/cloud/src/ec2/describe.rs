//! `DescribeInstances`: by id, by filter, in pages.

use std::collections::BTreeSet;

use super::{Ec2, Ec2Error, Instance, InstanceState, Reason, check_id, not_found};
use crate::Millis;

/// One filter: any of the values may match; `*` and `?` are wildcards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    pub name: String,
    pub values: Vec<String>,
}

/// A `DescribeInstances` request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DescribeRequest {
    pub ids: Vec<String>,
    pub filters: Vec<Filter>,
    pub max_results: Option<u32>,
    pub next_token: Option<String>,
}

/// An instance as a describe shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Described<'a> {
    pub instance: &'a Instance,
    /// Its state, or the one before.
    pub state: InstanceState,
}

impl<'a> Described<'a> {
    /// Why it is in that state.
    #[must_use]
    pub fn reason(&self) -> Option<&'a Reason> {
        let is_known =
            self.state == self.instance.state || self.state == InstanceState::ShuttingDown;
        self.instance.reason.as_ref().filter(|_| is_known)
    }
}

/// One page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstancePage<'a> {
    pub instances: Vec<Described<'a>>,
    pub next_token: Option<String>,
}

impl Ec2 {
    /// The instances that a request shows: at most a page, in the order of their launches.
    pub fn describe_instances(
        &self,
        request: &DescribeRequest,
        now: Millis,
        kept_ms: Millis,
    ) -> Result<InstancePage<'_>, Ec2Error> {
        check(request)?;
        let is_missing = |id: &&String| self.visible(id, now, kept_ms).is_none();
        let missing: Vec<&str> =
            request.ids.iter().filter(is_missing).map(String::as_str).collect();
        if !missing.is_empty() {
            return Err(not_found(&missing));
        }
        let after: u64 = match &request.next_token {
            Some(token) => parse_token(token)?,
            None => 0,
        };
        let after = usize::try_from(after).unwrap_or(usize::MAX);
        let limit = request.max_results.unwrap_or(u32::MAX).min(self.toggles.page_limit) as usize;
        let mut found = self
            .candidates(request, after)
            .filter(|one| one.is_visible(now, kept_ms))
            .map(|instance| Described { instance, state: instance.shown_state(now) })
            .filter(|one| request.filters.iter().all(|filter| matches(one, filter)));
        let instances: Vec<Described> = found.by_ref().take(limit).collect();
        let last = instances.last().filter(|_| found.next().is_some());
        let next_token = last.map(|last| format!("page-{}", last.instance.order));
        Ok(InstancePage { instances, next_token })
    }

    /// Those that a request names, or all, after a place in the order.
    fn candidates<'a>(
        &'a self,
        request: &DescribeRequest,
        after: usize,
    ) -> Box<dyn Iterator<Item = &'a Instance> + 'a> {
        if request.ids.is_empty() {
            return Box::new(self.instances.iter().skip(after));
        }
        let named: BTreeSet<usize> =
            request.ids.iter().filter_map(|id| self.numbers.get(id).copied()).collect();
        Box::new(named.into_iter().map(|number| &self.instances[number]))
    }
}

/// The families whose hypervisor is Xen: EC2 shows what it stored of their consoles, and not what
/// stands there now.
const XEN: [&str; 5] = ["c4.", "m4.", "r4.", "t1.", "t2."];

impl Ec2 {
    /// `GetConsoleOutput`. `latest` works on Nitro alone.
    /// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_GetConsoleOutput.html
    pub fn console_output(
        &self,
        id: &str,
        latest: bool,
        now: Millis,
        kept_ms: Millis,
    ) -> Result<&str, Ec2Error> {
        check_id(id)?;
        let instance = self.visible(id, now, kept_ms).ok_or_else(|| not_found(&[id]))?;
        if latest && XEN.iter().any(|family| instance.instance_type.starts_with(family)) {
            return Err(Ec2Error::new(
                "UnsupportedOperation",
                "This instance does not support retrieving the latest console logs. Only Nitro \
                 instances support this.",
            ));
        }
        Ok(&instance.console)
    }
}

fn check(request: &DescribeRequest) -> Result<(), Ec2Error> {
    request.ids.iter().try_for_each(|id| check_id(id))?;
    if !request.ids.is_empty() && request.max_results.is_some() {
        return Err(Ec2Error::new(
            "InvalidParameterCombination",
            "The parameter instancesSet cannot be used with the parameter maxResults",
        ));
    }
    check_page_size(request.max_results)?;
    for filter in &request.filters {
        if !is_known(&filter.name) {
            return Err(Ec2Error::new(
                "InvalidParameterValue",
                format!("The filter '{}' is invalid", filter.name),
            ));
        }
        if filter.values.len() > 200 {
            return Err(Ec2Error::new(
                "FilterLimitExceeded",
                "The maximum number of filter values specified on a single call is 200",
            ));
        }
    }
    Ok(())
}

pub(super) fn check_page_size(wanted: Option<u32>) -> Result<(), Ec2Error> {
    match wanted {
        Some(count) if !(5..=1000).contains(&count) => Err(Ec2Error::new(
            "InvalidParameterValue",
            "Value for parameter maxResults is invalid. Expecting a value between 5 and 1000.",
        )),
        _ => Ok(()),
    }
}

pub(super) fn parse_token(token: &str) -> Result<u64, Ec2Error> {
    let order = token.strip_prefix("page-").and_then(|rest| rest.parse().ok());
    order.ok_or_else(|| Ec2Error::new("InvalidParameterValue", "Unable to parse pagination token"))
}

const FILTERS: [&str; 11] = [
    "availability-zone",
    "client-token",
    "image-id",
    "instance-id",
    "instance-lifecycle",
    "instance-state-code",
    "instance-state-name",
    "instance-type",
    "reservation-id",
    "subnet-id",
    "tag-key",
];

fn is_known(name: &str) -> bool {
    name.starts_with("tag:") || FILTERS.contains(&name)
}

fn matches(shown: &Described, filter: &Filter) -> bool {
    let Described { instance, state } = shown;
    let any = |value: &str| filter.values.iter().any(|pattern| wildcard(pattern, value));
    if let Some(key) = filter.name.strip_prefix("tag:") {
        return instance.tags.get(key).is_some_and(|value| any(value));
    }
    match filter.name.as_str() {
        "availability-zone" => any(&instance.zone),
        "client-token" => any(&instance.client_token),
        "image-id" => any(&instance.image_id),
        "instance-id" => any(&instance.id),
        // EC2 calls the lifecycle of an on-demand instance nothing at all.
        "instance-lifecycle" => instance.market == super::Market::Spot && any("spot"),
        "instance-state-code" => any(&state.code().to_string()),
        "instance-state-name" => any(state.name()),
        "instance-type" => any(&instance.instance_type),
        "reservation-id" => any(&instance.reservation),
        "subnet-id" => instance.subnet_id.as_deref().is_some_and(any),
        "tag-key" => instance.tags.keys().any(|key| any(key)),
        _ => false,
    }
}

/// Matches `*` (any run) and `?` (any one character). Filter values are case-sensitive.
pub(super) fn wildcard(pattern: &str, value: &str) -> bool {
    if !pattern.contains(['*', '?']) {
        return pattern == value;
    }
    fn go(pattern: &[char], value: &[char]) -> bool {
        match pattern.split_first() {
            None => value.is_empty(),
            Some(('*', rest)) => (0..=value.len()).any(|skip| go(rest, &value[skip..])),
            Some(('?', rest)) => value.split_first().is_some_and(|(_, tail)| go(rest, tail)),
            Some((c, rest)) => {
                value.split_first().is_some_and(|(first, tail)| first == c && go(rest, tail))
            }
        }
    }
    go(&pattern.chars().collect::<Vec<_>>(), &value.chars().collect::<Vec<_>>())
}
