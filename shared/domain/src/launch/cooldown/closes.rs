//! What an answer of EC2 closes.

use crate::ec2::{Bucket, CooldownScope, ErrorClass, Override};
use crate::launch::{Launch, LaunchAnswer, LaunchError};

/// What an answer closes, each once. The answer to a replay may be as old as its launch: its parts
/// say nothing of now.
pub(super) fn closed_by<'a>(
    launch: &Launch,
    answer: &'a Result<LaunchAnswer, LaunchError>,
) -> Vec<(CooldownScope, &'a LaunchError)> {
    let places = || launch.request.overrides.iter().cloned();
    let at = |place, error: &LaunchError| {
        let pool = is_own(launch, &place, error).then(|| launch.pool.clone());
        CooldownScope::Place { market: launch.request.market, place, pool }
    };
    let mut all: Vec<(CooldownScope, &LaunchError)> = Vec::new();
    match answer {
        Err(error) => match error.class {
            ErrorClass::Capacity => all.extend(places().map(|place| (at(place, error), error))),
            _ => all.extend(whole(launch, error).map(|closed| (closed, error))),
        },
        Ok(answer) if !launch.is_replay() => {
            let nothing = answer.machines.is_empty();
            for error in &answer.errors {
                match (error.class, &error.place) {
                    (ErrorClass::Throttle | ErrorClass::Quota, _) => {
                        all.extend(whole(launch, error).map(|closed| (closed, error)));
                    }
                    (class, Some(place)) if class == ErrorClass::Capacity || class.is_refusal() => {
                        all.push((at(place.clone(), error), error));
                    }
                    (class, None) if nothing && class.is_refusal() => {
                        all.extend(whole(launch, error).map(|closed| (closed, error)));
                    }
                    // One place is not visible yet, or never will be: the others need not wait.
                    (ErrorClass::Consistency, Some(place)) if leaves_some(launch, answer) => {
                        all.push((at(place.clone(), error), error));
                    }
                    (ErrorClass::Capacity, None) if nothing => {
                        all.extend(places().map(|place| (at(place, error), error)));
                    }
                    _ => {}
                }
            }
        }
        Ok(_) => {}
    }
    let mut seen = Vec::new();
    all.retain(|(closed, _)| {
        let first = !seen.contains(closed);
        seen.push(closed.clone());
        first
    });
    all
}

/// Whether the request had places that the answer does not name.
fn leaves_some(launch: &Launch, answer: &LaunchAnswer) -> bool {
    let is_named = |place: &Override| {
        answer.errors.iter().any(|error| error.place.as_ref().is_none_or(|named| named == place))
    };
    !launch.request.overrides.iter().all(is_named)
}

/// Whether a refusal says nothing of other pools: it is of no type, or of the price, or of what the
/// pool's image or options want.
fn is_own(launch: &Launch, place: &Override, error: &LaunchError) -> bool {
    place.instance_type.is_empty()
        || launch.request.max_price.is_some()
        || error.class != ErrorClass::Capacity
        || matches!(error.code.as_str(), "SpotMaxPriceTooLow" | "Unsupported")
}

/// What an error closes that is not about one place.
fn whole(launch: &Launch, error: &LaunchError) -> Option<CooldownScope> {
    match error.class {
        ErrorClass::Throttle => Some(CooldownScope::Calls),
        ErrorClass::Quota => Some(CooldownScope::Quota {
            market: launch.request.market,
            bucket: Bucket::refused(launch, error),
        }),
        ErrorClass::Configuration | ErrorClass::Authorization => {
            Some(CooldownScope::Pool(launch.pool.clone()))
        }
        ErrorClass::Capacity
        | ErrorClass::Consistency
        | ErrorClass::Idempotency
        | ErrorClass::Blocked
        | ErrorClass::Ambiguous => None,
    }
}
