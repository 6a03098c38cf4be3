//! Builds of machine images that fail again and again.

use muster_api::answers::{Finding, Location, Severity};
use muster_domain::image::Images;

use super::StackFacts;

/// Number of failures in a row that are reported: one may be chance, and the next build starts by itself.
const REPORTED: u32 = 2;

/// Returns a finding for each family whose builds fail.
pub(super) fn of_builds(facts: &StackFacts<'_>) -> impl Iterator<Item = Finding> {
    let now = facts.overview.now;
    let images: Option<&Images> = facts.images.filter(|images| images.on);
    let families = images.into_iter().flat_map(|images| &images.families);
    families.filter_map(move |(key, family)| {
        let failure = family.failure.as_ref().filter(|failure| failure.count >= REPORTED)?;
        let boot = match &family.current {
            Some(image) => format!("{}, built at {}", image.id, image.built_at.clock(now)),
            None => "the launch template's image".to_owned(),
        };
        let message = format!(
            "{} builds of an image for {key} failed in a row, the last one at {}: {}; machines boot {boot}",
            failure.count,
            failure.at.clock(now),
            failure.why
        );
        let key = format!("image-builds:{key}");
        let finding = Finding::new(key, Severity::Warning, Location::Stack, &message);
        Some(finding.fix("muster image history; once the cause is fixed: muster image build"))
    })
}
