//! The parameters of an EC2 Query request, taken out one by one so that leftovers show.

use std::collections::BTreeMap;

use muster_cloud::ec2::Ec2Error;

/// What is left of a request's parameters.
#[derive(Debug, Default)]
pub(super) struct Form {
    pairs: BTreeMap<String, String>,
}

impl Form {
    pub(super) fn parse(body: &[u8]) -> Self {
        Self { pairs: form_urlencoded::parse(body).into_owned().collect() }
    }

    pub(super) fn peek(&self, key: &str) -> Option<&str> {
        self.pairs.get(key).map(String::as_str)
    }

    pub(super) fn take(&mut self, key: &str) -> Option<String> {
        self.pairs.remove(key)
    }

    pub(super) fn take_number(&mut self, key: &str) -> Result<Option<u32>, Ec2Error> {
        let Some(value) = self.take(key) else { return Ok(None) };
        value.parse().map(Some).map_err(|_| {
            Ec2Error::new(
                "InvalidParameterValue",
                format!("Value ({value}) for parameter {key} is invalid."),
            )
        })
    }

    pub(super) fn take_bool(&mut self, key: &str) -> Result<bool, Ec2Error> {
        match self.take(key).as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(value) => Err(Ec2Error::new(
                "InvalidParameterValue",
                format!("Value ({value}) for parameter {key} is invalid."),
            )),
        }
    }

    /// The members of a list, as prefixes: `Filter` gives `Filter.1`, `Filter.2`, …
    pub(super) fn members(&self, list: &str) -> Vec<String> {
        let mut numbers: Vec<u32> = self
            .pairs
            .keys()
            .filter_map(|key| key.strip_prefix(list)?.strip_prefix('.'))
            .filter_map(|rest| rest.split('.').next()?.parse().ok())
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.into_iter().map(|number| format!("{list}.{number}")).collect()
    }

    pub(super) fn take_list(&mut self, list: &str) -> Vec<String> {
        self.members(list).iter().filter_map(|member| self.take(member)).collect()
    }

    /// What is below a prefix and begins with one of some names.
    pub(super) fn take_below(&mut self, prefix: &str, names: &[&str]) -> BTreeMap<String, String> {
        let below = |key: &String| {
            let rest = key.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('.'));
            rest.is_some_and(|rest| names.iter().any(|name| rest.starts_with(name)))
        };
        let keys: Vec<String> = self.pairs.keys().filter(|key| below(key)).cloned().collect();
        keys.into_iter().filter_map(|key| Some((key.clone(), self.take(&key)?))).collect()
    }

    pub(super) fn take_tags(&mut self, list: &str) -> BTreeMap<String, String> {
        let mut tags = BTreeMap::new();
        for member in self.members(list) {
            let key = self.take(&format!("{member}.Key")).unwrap_or_default();
            tags.insert(key, self.take(&format!("{member}.Value")).unwrap_or_default());
        }
        tags
    }

    /// Refuses a request with parameters that nobody took: a parameter that is not understood may
    /// change the meaning of all others.
    pub(super) fn finish(mut self) -> Result<(), Ec2Error> {
        self.take("Action");
        self.take("Version");
        if self.take("DryRun").as_deref() == Some("true") {
            return Err(Ec2Error {
                status: 412,
                code: "DryRunOperation".to_owned(),
                message: "Request would have succeeded, but DryRun flag is set.".to_owned(),
            });
        }
        match self.pairs.first_key_value() {
            None => Ok(()),
            Some((name, _)) => Err(Ec2Error::new(
                "UnknownParameter",
                format!("The parameter {name} is not recognized by the simulated cloud"),
            )),
        }
    }
}
