//! What the role of scale-up permits a pool to request.

use std::sync::Arc;

use super::Problem;
use crate::pool::{Image, Pool};

/// The prefix of the public parameters with AWS's image IDs.
const AWS_PARAMETERS: &str = "/aws/service/";

/// The role's permissions, as determined by the stack's parameters. EC2 rejects each launch that
/// requests more, so a file that does is rejected when it is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    /// The stack's name: parameters with image IDs are under it.
    pub stack: String,
    /// The parameter `Subnets`.
    pub subnets: Vec<Arc<str>>,
    /// The parameter `MachineTagKeys`.
    pub tag_keys: Vec<String>,
}

impl Rights {
    /// Returns the problems that the role causes for these pools, which are in a file's order.
    #[must_use]
    pub fn refused(&self, pools: &[Pool]) -> Vec<Problem> {
        let of_pool = |(index, pool): (usize, &Pool)| -> Vec<Problem> {
            let at = |(field, what)| Problem { path: format!("pools[{index}].{field}"), what };
            let subnets = pool.subnets.iter().enumerate();
            let subnets = subnets.filter_map(|(place, subnet)| self.subnet(place, subnet));
            let tags = pool.tags.keys().filter_map(|key| self.tag(key));
            let image = pool.image.as_ref().and_then(|image| self.image(image));
            subnets.chain(image).chain(tags).map(at).collect()
        };
        pools.iter().enumerate().flat_map(of_pool).collect()
    }

    fn subnet(&self, place: usize, subnet: &Arc<str>) -> Option<(String, String)> {
        let known = self.subnets.join(", ");
        let what = format!(
            "{subnet} is not in the stack's parameter Subnets ({known}); write one of those, or \
             deploy the stack with it"
        );
        (!self.subnets.contains(subnet)).then(|| (format!("subnets[{place}]"), what))
    }

    fn tag(&self, key: &str) -> Option<(String, String)> {
        let what = "the stack's parameter MachineTagKeys does not list this key; deploy the stack with \
                    it, or remove the tag";
        let is_known = self.tag_keys.iter().any(|known| known == key);
        (!is_known).then(|| (format!("tags.{key}"), what.to_owned()))
    }

    fn image(&self, image: &Image) -> Option<(String, String)> {
        let Image::Ssm(parameter) = image else { return None };
        let own = format!("/{}/images/", self.stack);
        let is_readable = parameter.starts_with(&own) || parameter.starts_with(AWS_PARAMETERS);
        let what = format!(
            "the stack reads only parameters under {own} and {AWS_PARAMETERS}; copy the ID to one \
             of them"
        );
        (!is_readable).then(|| ("image.ssm".to_owned(), what))
    }
}
