//! Changes of the record of images that several passes make, and their audit entries.

use muster_domain::audit::{Audit, AuditKind};
use muster_domain::ids::{FamilyKey, ImageId};
use muster_domain::image::Images;
use muster_domain::stored::{Change, Stored};
use muster_domain::time::Time;

use crate::ports::{Table, Write};
use crate::writes::{self, PassError};

/// The subject of audit entries about images.
const SUBJECT: &str = "images";

/// Returns an audit entry about images.
pub(crate) fn entry(by: &str, why: &str, at: Time) -> Write {
    let (by, subject, why) = (by.to_owned(), SUBJECT.to_owned(), why.to_owned());
    Write::Audit(Audit { at, kind: AuditKind::ImagesChanged, subject, by, why })
}

/// Returns what a family's machines boot, in a few words.
pub(crate) fn boots(images: &Images, key: &FamilyKey) -> String {
    let current = images.families.get(key).and_then(|family| family.current.as_ref());
    current.map_or_else(|| "the launch template's image".to_owned(), |image| image.id.to_string())
}

/// Stops using an image that EC2 rejects. Returns the record as stored.
///
/// # Errors
/// When the table does not answer.
pub(crate) async fn reject<T: Table>(
    table: &T,
    image: &ImageId,
    why: &str,
    now: Time,
) -> Result<Option<Stored<Images>>, PassError> {
    writes::in_rounds(async || {
        let Some(stored) = table.images().await? else { return Ok(None) };
        let mut next = stored.record().clone();
        let Some(key) = next.family_with(image).cloned() else { return Ok(Some(stored)) };
        if next.reject(image, why, now).is_none() {
            return Ok(Some(stored));
        }
        let what =
            format!("machines of {key} no longer boot {image}, but {}: {why}", boots(&next, &key));
        let change: Change<Images> = stored.change(next);
        let committed = table.commit(&[change.clone().into(), entry("muster", &what, now)]).await?;
        Ok(Some(change.stored(&committed)))
    })
    .await
}
