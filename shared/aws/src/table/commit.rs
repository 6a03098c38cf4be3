//! Writes: each is a conditional write of a whole item; several form one transaction.

mod request;

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use muster_control::ports::{CommitError, Unavailable, Write};
use muster_domain::SCHEMA;
use muster_domain::ids::{InstanceName, MachineId, PoolName};
use muster_domain::instance::Instance;
use muster_domain::pool::limits::Scope;
use muster_domain::pool_set::PoolSet;
use muster_domain::stored::{Change, Version};
use muster_domain::timings::Timings;

use self::request::request;
use super::TableNames;
use super::keys::{self, TableKind, n, s};
use super::row::{self, TableRecord};
use crate::error::{self, PutFailure};
use crate::item::Item;

/// Maximum number of actions in a DynamoDB transaction.
const MAX_ACTIONS: usize = 100;

/// The condition of a put on the existing item.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Condition {
    /// The item does not exist.
    Absent,
    /// The item does not exist, or has an equal body.
    AbsentOrSame(AttributeValue),
    /// An attribute has this value.
    Is(&'static str, AttributeValue),
    /// No condition: an existing item is equal or has less information.
    Any,
}

/// A condition in DynamoDB's syntax.
struct ConditionText {
    expression: Option<String>,
    names: Option<HashMap<String, String>>,
    values: Option<HashMap<String, AttributeValue>>,
}

impl Condition {
    fn text(self, place: TableKind) -> ConditionText {
        let named = |name: &str| Some(HashMap::from([("#k".to_owned(), name.to_owned())]));
        match self {
            Self::AbsentOrSame(body) => ConditionText {
                expression: Some("attribute_not_exists(#k) OR #body = :v".to_owned()),
                names: Some(HashMap::from([
                    ("#k".to_owned(), place.key().to_owned()),
                    ("#body".to_owned(), keys::BODY.to_owned()),
                ])),
                values: Some(HashMap::from([(":v".to_owned(), body)])),
            },
            Self::Absent => ConditionText {
                expression: Some("attribute_not_exists(#k)".to_owned()),
                names: named(place.key()),
                values: None,
            },
            Self::Any => ConditionText { expression: None, names: None, values: None },
            Self::Is(name, value) => ConditionText {
                expression: Some("#k = :v".to_owned()),
                names: named(name),
                values: Some(HashMap::from([(":v".to_owned(), value)])),
            },
        }
    }
}

/// An action on one item.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    Put {
        place: TableKind,
        item: Item,
        condition: Condition,
    },
    Delete {
        place: TableKind,
        key: String,
    },
    /// Checks a condition without writing; the transaction fails if the condition is not met.
    Check {
        place: TableKind,
        key: &'static str,
        condition: Condition,
    },
    /// Adds to a pool's counter, up to `most` and only for the holder of its lease.
    Add {
        pool: PoolName,
        count: u32,
        most: u32,
        holder: String,
        /// Only if no further pass was requested since.
        wakes: Option<u64>,
    },
    /// Subtracts from a pool's counter.
    Take {
        pool: PoolName,
        count: u32,
    },
    /// Adds to the counter of a limit, up to `most`.
    Count {
        scope: Scope,
        count: u32,
        most: u32,
    },
    /// Subtracts from the counter of a limit.
    Uncount {
        scope: Scope,
        count: u32,
    },
    /// Sets the expiry of a machine's owner item.
    Expire {
        machine: MachineId,
        instance: InstanceName,
        at: i64,
    },
}

/// Converts the writes of a commit to actions.
pub(crate) fn actions(writes: &[Write], timings: &Timings) -> Result<Vec<Action>, CommitError> {
    let mut actions = Vec::with_capacity(writes.len());
    for write in writes {
        match write {
            Write::Instance(change) => {
                actions.push(put(change, timings)?);
                actions.extend(expiry_of_owner(change, timings));
            }
            Write::Job(change) => actions.push(put(change, timings)?),
            Write::Launch(change) => actions.push(put(change, timings)?),
            Write::Capacity(change) => actions.push(put(change, timings)?),
            Write::CapacityUp { pool, count, max, holder, wakes } => {
                // More than the maximum at once never fits.
                let most = max.checked_sub(*count).ok_or(CommitError::Conflict)?;
                let (pool, holder) = (pool.clone(), holder.clone());
                actions.push(Action::Add { pool, count: *count, most, holder, wakes: *wakes });
            }
            Write::CapacityDown(pool) => take_one(&mut actions, pool),
            Write::CountUp { scope, count, max } => {
                let most = max.checked_sub(*count).ok_or(CommitError::Conflict)?;
                actions.push(Action::Count { scope: scope.clone(), count: *count, most });
            }
            Write::CountDown(scope) => uncount_one(&mut actions, scope),
            Write::BindMachine { machine, instance } => {
                let bound = writes.iter().find_map(|write| match write {
                    Write::Instance(change) if change.name == *instance => Some(&**change),
                    _ => None,
                });
                actions.push(Action::Put {
                    place: TableKind::Instances,
                    item: owner(machine, instance, bound, timings)?,
                    condition: Condition::Absent,
                });
            }
            Write::Orphan(change) => actions.push(put(change, timings)?),
            Write::Rerun(change) => actions.push(put(&**change, timings)?),
            Write::Switches(change) => actions.push(put(change, timings)?),
            Write::Cooldowns(change) => actions.push(put(change, timings)?),
            Write::Images(change) => actions.push(put(change, timings)?),
            Write::Inquiries(change) => actions.push(put(change, timings)?),
            Write::Redeliveries(change) => actions.push(put(&**change, timings)?),
            Write::Notices(change) => actions.push(put(&**change, timings)?),
            Write::Pools(change) => {
                actions.extend([put(&**change, timings)?, pools_generation(change.version())]);
            }
            Write::PoolsUnchanged(version) => actions.push(Action::Check {
                place: TableKind::Control,
                key: keys::POOLS_GENERATION,
                condition: version.map_or(Condition::Absent, |Version(version)| {
                    Condition::Is(keys::VERSION, n(version))
                }),
            }),
            Write::PoolsVersion(set) => {
                let kept = Change::create(row::KeptPoolSet(PoolSet::clone(set)));
                actions.push(put(&kept, timings)?);
            }
            Write::PoolsVersionGone(version) => {
                let key = keys::pools_version(*version);
                actions.push(Action::Delete { place: TableKind::Control, key });
            }
            Write::OrphanGone(machine) => {
                let key = keys::orphan(machine);
                actions.push(Action::Delete { place: TableKind::Control, key });
            }
            // Written twice: for queries by subject and for queries by time.
            Write::Audit(line) => {
                let by_time = item(&row::ByTime(line.clone()), timings)?;
                actions.extend([added(item(line, timings)?), added(by_time)]);
            }
            Write::Usage(line) => actions.push(usage(&**line, timings)?),
            Write::UsageDay(part) => actions.push(usage(&**part, timings)?),
            Write::Prices(change) => {
                let of_hour = row::PricesOfHour(change.next().clone());
                actions.extend([put(change, timings)?, usage(&of_hour, timings)?]);
            }
        }
    }
    Ok(actions)
}

/// Puts a usage record. A repeated write contains everything known by then.
fn usage<R: TableRecord>(record: &R, timings: &Timings) -> Result<Action, CommitError> {
    let item = item(record, timings)?;
    Ok(Action::Put { place: TableKind::Usage, item, condition: Condition::Any })
}

/// Builds the item that contains only the version of the set of pools. A condition check costs two
/// write units per KB of the item, and the set itself can have hundreds of KB.
///
/// Source: docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html,
/// "Capacity management for transactions"
fn pools_generation(Version(version): Version) -> Action {
    let item = Item::from([
        (TableKind::Control.key().to_owned(), s(keys::POOLS_GENERATION)),
        (keys::SCHEMA.to_owned(), n(SCHEMA)),
        (keys::VERSION.to_owned(), n(version)),
    ]);
    Action::Put { place: TableKind::Control, item, condition: Condition::Any }
}

/// Adds an audit entry. It never replaces a different one; repeating it is not an error.
fn added(item: Item) -> Action {
    let condition = match item.get(keys::BODY) {
        Some(body) => Condition::AbsentOrSame(body.clone()),
        None => Condition::Absent,
    };
    Action::Put { place: TableKind::Control, item, condition }
}

fn put<R: TableRecord>(change: &Change<R>, timings: &Timings) -> Result<Action, CommitError> {
    let condition = match change.replaces() {
        Some(Version(replaced)) => Condition::Is(keys::VERSION, n(replaced)),
        None if change.is_repair() => Condition::Any,
        None => Condition::Absent,
    };
    let mut item = item(change.next(), timings)?;
    item.insert(keys::VERSION.to_owned(), n(change.version().0));
    Ok(Action::Put { place: R::PLACE, item, condition })
}

pub(crate) fn item<R: TableRecord>(record: &R, timings: &Timings) -> Result<Item, CommitError> {
    row::write(record, timings).map_err(|error| {
        let what = format!("record {} cannot be written", record.key());
        CommitError::Unavailable(Unavailable::caused(what, error))
    })
}

/// Builds a machine's owner item. It includes the instance's record as this commit writes it, so that
/// the machine's first request needs one read.
fn owner(
    machine: &MachineId,
    instance: &InstanceName,
    bound: Option<&Change<Instance>>,
    timings: &Timings,
) -> Result<Item, CommitError> {
    let mut owner = Item::from([
        (TableKind::Instances.key().to_owned(), s(keys::machine(machine))),
        (keys::SCHEMA.to_owned(), n(SCHEMA)),
        (keys::INSTANCE.to_owned(), s(instance.as_str())),
    ]);
    if let Some(bound) = bound {
        let body = item(bound.next(), timings)?.remove(keys::BODY);
        owner.extend(body.map(|body| (keys::BODY.to_owned(), body)));
        owner.insert(keys::VERSION.to_owned(), n(bound.version().0));
    }
    Ok(owner)
}

/// Returns the action that expires the owner item of a deleted instance's machine. The owner item
/// must outlive every record that may still act on the machine: without it, the sweep would
/// consider the machine an orphan. So it has no expiry until the commit that ends the instance,
/// which sets the tombstone's.
fn expiry_of_owner(instance: &Instance, timings: &Timings) -> Option<Action> {
    let machine = instance.machine().filter(|_| !instance.state().is_live())?;
    Some(Action::Expire {
        machine: machine.clone(),
        instance: instance.name.clone(),
        at: row::expiry_of_deleted(instance, timings),
    })
}

fn take_one(actions: &mut Vec<Action>, of: &PoolName) {
    let one = Action::Take { pool: of.clone(), count: 1 };
    count_one(actions, one, |action| match action {
        Action::Take { pool, count } if pool == of => Some(count),
        _ => None,
    });
}

fn uncount_one(actions: &mut Vec<Action>, of: &Scope) {
    let one = Action::Uncount { scope: of.clone(), count: 1 };
    count_one(actions, one, |action| match action {
        Action::Uncount { scope, count } if scope == of => Some(count),
        _ => None,
    });
}

/// Merges counts: a transaction allows one action per item, and a commit may end several instances
/// in one counter.
fn count_one(
    actions: &mut Vec<Action>,
    one: Action,
    count: impl Fn(&mut Action) -> Option<&mut u32>,
) {
    match actions.iter_mut().find_map(count) {
        Some(count) => *count += 1,
        None => actions.push(one),
    }
}

/// Executes all actions, or no action.
pub(crate) async fn carry_out(
    client: &Client,
    names: &TableNames,
    mut actions: Vec<Action>,
) -> Result<(), CommitError> {
    if actions.len() > MAX_ACTIONS {
        let what = format!("a commit of {} actions; DynamoDB allows {MAX_ACTIONS}", actions.len());
        return Err(CommitError::Unavailable(Unavailable::new(what)));
    }
    match actions.pop() {
        None => Ok(()),
        Some(Action::Put { place, item, condition }) if actions.is_empty() => {
            put_one(client, names, place, item, condition).await
        }
        Some(Action::Delete { place, key }) if actions.is_empty() => {
            delete_one(client, names, place, key).await
        }
        Some(last) => {
            actions.push(last);
            transact(client, names, actions).await
        }
    }
}

/// Puts a single item. The SDK repeats a call whose response was lost, and the repetition fails on
/// the item that the first call wrote: the writer's mark distinguishes it from a different
/// writer's.
async fn put_one(
    client: &Client,
    names: &TableNames,
    place: TableKind,
    mut item: Item,
    condition: Condition,
) -> Result<(), CommitError> {
    let writer = s(format!("{:016x}", RandomState::new().build_hasher().finish()));
    item.insert(keys::WRITER.to_owned(), writer.clone());
    let ConditionText { expression, names: attributes, values } = condition.text(place);
    let shown = expression.as_ref().map(|_| ReturnValuesOnConditionCheckFailure::AllOld);
    let put = client
        .put_item()
        .table_name(names.table(place))
        .set_item(Some(item))
        .set_return_values_on_condition_check_failure(shown)
        .set_condition_expression(expression)
        .set_expression_attribute_names(attributes)
        .set_expression_attribute_values(values);
    let Err(error) = put.send().await else { return Ok(()) };
    match error::put_error(error) {
        PutFailure::Occupied(Some(found)) if found.get(keys::WRITER) == Some(&writer) => Ok(()),
        PutFailure::Occupied(_) => Err(CommitError::Conflict),
        PutFailure::Other(error) => Err(error),
    }
}

pub(crate) async fn delete_one(
    client: &Client,
    names: &TableNames,
    place: TableKind,
    key: String,
) -> Result<(), CommitError> {
    client
        .delete_item()
        .table_name(names.table(place))
        .key(place.key(), s(key))
        .send()
        .await
        .map(drop)
        .map_err(|error| error::write_error("DeleteItem", &error))
}

/// Executes a transaction. The SDK sends a unique client request token with every call and its
/// retries, so a transaction whose response was lost is neither executed nor rejected twice.
async fn transact(
    client: &Client,
    names: &TableNames,
    actions: Vec<Action>,
) -> Result<(), CommitError> {
    let items = actions
        .into_iter()
        .map(|action| request(names, action))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| {
            CommitError::Unavailable(Unavailable::caused("TransactWriteItems", error))
        })?;
    client
        .transact_write_items()
        .set_transact_items(Some(items))
        .send()
        .await
        .map(drop)
        .map_err(|error| error::transaction_error(&error))
}

#[cfg(test)]
mod tests {
    use muster_domain::audit::{Audit, AuditKind};
    use muster_domain::pool::limits::{Balance, Limits};
    use muster_domain::time::Time;

    use super::*;

    #[test]
    fn a_check_of_the_set_finds_the_version_that_was_written() {
        let set = PoolSet::from_parameters(Vec::new(), Limits::default(), Balance::default());
        let change = Change::create(set);
        let version = Some(change.version());
        let writes = [Write::Pools(Box::new(change)), Write::PoolsUnchanged(version)];
        let written = actions(&writes, &Timings::default()).expect("written");
        let [_, Action::Put { item, .. }, Action::Check { key, condition, .. }] = &written[..]
        else {
            panic!("{written:?}")
        };
        let Condition::Is(attribute, value) = condition else { panic!("{condition:?}") };
        assert_eq!((item.get("id"), item.get(*attribute)), (Some(&s(*key)), Some(value)));
    }

    #[test]
    fn a_line_of_the_trail_replaces_no_other() {
        let name = "default-l-1".parse().expect("a name");
        let line = Audit::new(&name, AuditKind::Ordered, "ada", "a test", Time::default());
        let written = actions(&[Write::Audit(line)], &Timings::default()).expect("written");
        assert!(!written.is_empty());
        for action in written {
            let Action::Put { place, item, condition } = action else { panic!("{action:?}") };
            let text = condition.text(place);
            assert_eq!(text.expression.as_deref(), Some("attribute_not_exists(#k) OR #body = :v"));
            let body = text.values.as_ref().and_then(|values| values.get(":v"));
            assert!(body.is_some() && body == item.get(keys::BODY));
        }
    }
}
