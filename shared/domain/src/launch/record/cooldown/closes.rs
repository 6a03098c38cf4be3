//! Which scopes a response from EC2 closes.

use crate::ec2::{Bucket, CooldownScope, ErrorClass, LaunchError, Override};
use crate::launch::{Launch, LaunchAnswer};

/// Returns the scopes that a response closes, each once. The response to a replay may be as old as
/// its launch, so its partial errors do not apply to the present.
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
                    // This place is not visible yet, or never will be: the others need not wait.
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

/// Returns whether the request had places that the response does not name.
fn leaves_some(launch: &Launch, answer: &LaunchAnswer) -> bool {
    let is_named = |place: &Override| {
        answer.errors.iter().any(|error| error.place.as_ref().is_none_or(|named| named == place))
    };
    !launch.request.overrides.iter().all(is_named)
}

/// Returns whether a refusal does not apply to other pools: it names no type, or concerns the price
/// or the pool's image or options.
fn is_own(launch: &Launch, place: &Override, error: &LaunchError) -> bool {
    place.instance_type.is_empty()
        || launch.request.max_price.is_some()
        || error.class != ErrorClass::Capacity
        || matches!(error.code.as_str(), "SpotMaxPriceTooLow" | "Unsupported")
}

/// Returns the scope that an error closes if it does not concern a single place.
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
