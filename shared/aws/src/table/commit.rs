//! Writes: each a conditional write of a whole item, several of them in one transaction.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::builders::UpdateBuilder;
use aws_sdk_dynamodb::types::{
    AttributeValue, Delete, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};
use muster_control::ports::{CommitError, Unavailable, Write};
use muster_domain::SCHEMA;
use muster_domain::ids::{InstanceName, MachineId, PoolName};
use muster_domain::instance::Instance;
use muster_domain::pool::limits::Scope;
use muster_domain::pool_set::PoolSet;
use muster_domain::stored::{Change, Version};
use muster_domain::timings::Timings;

use super::TableNames;
use super::keys::{self, Place, n, s};
use super::row::{self, Record};
use crate::error::{self, PutFailure};
use crate::item::Item;

/// How many actions DynamoDB takes in one transaction.
const MAX_ACTIONS: usize = 100;

/// What a put asks of the item that stands there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Condition {
    /// There is none.
    Absent,
    /// There is none, or it has the same body.
    AbsentOrSame(AttributeValue),
    /// An attribute has this value.
    Is(&'static str, AttributeValue),
    /// Nothing: what stands there is the same, or says less.
    Any,
}

/// A condition as DynamoDB takes it.
struct ConditionText {
    expression: Option<String>,
    names: Option<HashMap<String, String>>,
    values: Option<HashMap<String, AttributeValue>>,
}

impl Condition {
    fn text(self, place: Place) -> ConditionText {
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

/// One action on one item.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    Put {
        place: Place,
        item: Item,
        condition: Condition,
    },
    Delete {
        place: Place,
        key: String,
    },
    /// Adds to a pool's counter, up to `most` and only for the holder of its lease.
    Add {
        pool: PoolName,
        count: u32,
        most: u32,
        holder: String,
        /// Only while nobody has asked for another pass.
        wakes: Option<u64>,
    },
    /// Takes from a pool's counter.
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
    /// Takes from the counter of a limit.
    Uncount {
        scope: Scope,
        count: u32,
    },
    /// Lets the owner item of a machine expire.
    Expire {
        machine: MachineId,
        instance: InstanceName,
        at: i64,
    },
}

/// The actions of a commit.
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
            Write::BindMachine { machine, instance } => actions.push(Action::Put {
                place: Place::Instances,
                item: owner(machine, instance),
                condition: Condition::Absent,
            }),
            Write::Orphan(change) => actions.push(put(change, timings)?),
            Write::Switches(change) => actions.push(put(change, timings)?),
            Write::Cooldowns(change) => actions.push(put(change, timings)?),
            Write::Inquiries(change) => actions.push(put(change, timings)?),
            Write::Redeliveries(change) => actions.push(put(&**change, timings)?),
            Write::Notices(change) => actions.push(put(&**change, timings)?),
            Write::Pools(change) => actions.push(put(change, timings)?),
            Write::PoolsVersion(set) => {
                let kept = Change::create(row::KeptPoolSet(PoolSet::clone(set)));
                actions.push(put(&kept, timings)?);
            }
            Write::PoolsVersionGone(version) => {
                let key = keys::pools_version(*version);
                actions.push(Action::Delete { place: Place::Control, key });
            }
            Write::OrphanGone(machine) => {
                actions.push(Action::Delete { place: Place::Control, key: keys::orphan(machine) });
            }
            // Once for whoever asks about its subject, once for whoever asks about a time.
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

/// What stands in the table of usage: written again, it says all that is known by then.
fn usage<R: Record>(record: &R, timings: &Timings) -> Result<Action, CommitError> {
    let item = item(record, timings)?;
    Ok(Action::Put { place: Place::Usage, item, condition: Condition::Any })
}

/// A line of the audit trail. It replaces none; the same line a second time is the first one.
fn added(item: Item) -> Action {
    let condition = match item.get(keys::BODY) {
        Some(body) => Condition::AbsentOrSame(body.clone()),
        None => Condition::Absent,
    };
    Action::Put { place: Place::Control, item, condition }
}

fn put<R: Record>(change: &Change<R>, timings: &Timings) -> Result<Action, CommitError> {
    let condition = match change.replaces() {
        Some(Version(replaced)) => Condition::Is(keys::VERSION, n(replaced)),
        None if change.is_repair() => Condition::Any,
        None => Condition::Absent,
    };
    let mut item = item(change.next(), timings)?;
    item.insert(keys::VERSION.to_owned(), n(change.version().0));
    Ok(Action::Put { place: R::PLACE, item, condition })
}

pub(crate) fn item<R: Record>(record: &R, timings: &Timings) -> Result<Item, CommitError> {
    row::write(record, timings).map_err(|error| {
        let what = format!("record {} cannot be written", record.key());
        CommitError::Unavailable(Unavailable::caused(what, error))
    })
}

fn owner(machine: &MachineId, instance: &InstanceName) -> Item {
    Item::from([
        (Place::Instances.key().to_owned(), s(keys::machine(machine))),
        (keys::SCHEMA.to_owned(), n(SCHEMA)),
        (keys::INSTANCE.to_owned(), s(instance.as_str())),
    ])
}

/// The item that says who owns a machine must outlive every row that may still act on it: without
/// it the sweep would take the machine for an orphan. So it has no end of its own, and gets one,
/// the tombstone's, in the commit that ends its row.
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

/// A transaction takes one action per item, and a commit may end several instances that one counter
/// counts.
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

/// Carries the actions out, all or none.
pub(crate) async fn carry_out(
    client: &Client,
    names: &TableNames,
    mut actions: Vec<Action>,
) -> Result<(), CommitError> {
    if actions.len() > MAX_ACTIONS {
        let what = format!("a commit of {} actions; DynamoDB takes {MAX_ACTIONS}", actions.len());
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

/// A put alone. The SDK repeats a call whose answer was lost, and the repetition then fails on what
/// the first one wrote: it is told from another writer's record by the writer's mark.
async fn put_one(
    client: &Client,
    names: &TableNames,
    place: Place,
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
    place: Place,
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

/// The SDK gives every call a client request token of its own and repeats it with a retry, so a
/// transaction whose answer was lost is not carried out, and not refused, a second time.
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

const HAS_ROOM: &str = "#live <= :most AND #holder = :holder";

fn request(
    names: &TableNames,
    action: Action,
) -> Result<TransactWriteItem, aws_sdk_dynamodb::error::BuildError> {
    let request = TransactWriteItem::builder();
    let request = match action {
        Action::Put { place, item, condition } => {
            let put = Put::builder().table_name(names.table(place)).set_item(Some(item));
            let ConditionText { expression, names, values } = condition.text(place);
            let put = put
                .set_condition_expression(expression)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(values);
            request.put(put.build()?)
        }
        Action::Delete { place, key } => request.delete(
            Delete::builder().table_name(names.table(place)).key(place.key(), s(key)).build()?,
        ),
        Action::Add { pool, count, most, holder, wakes } => {
            let add = counter(names, &pool, count)
                .update_expression("SET #live = #live + :count, #version = #version + :one")
                .expression_attribute_names("#holder", "holder")
                .expression_attribute_values(":most", n(most))
                .expression_attribute_values(":holder", s(holder));
            let add = match wakes {
                None => add.condition_expression(HAS_ROOM),
                Some(wakes) => add
                    .condition_expression(format!("{HAS_ROOM} AND #wakes = :wakes"))
                    .expression_attribute_names("#wakes", "wakes")
                    .expression_attribute_values(":wakes", n(wakes)),
            };
            request.update(add.build()?)
        }
        Action::Take { pool, count } => request.update(
            counter(names, &pool, count)
                .update_expression("SET #live = #live - :count, #version = #version + :one")
                .condition_expression("#live >= :count")
                .build()?,
        ),
        Action::Count { scope, count, most } => request.update(
            limit(names, &scope, count)
                .update_expression(
                    "SET #live = if_not_exists(#live, :none) + :count, #schema = :schema",
                )
                .condition_expression("attribute_not_exists(#live) OR #live <= :most")
                .expression_attribute_names("#schema", keys::SCHEMA)
                .expression_attribute_values(":schema", n(SCHEMA))
                .expression_attribute_values(":none", n(0))
                .expression_attribute_values(":most", n(most))
                .build()?,
        ),
        Action::Uncount { scope, count } => request.update(
            limit(names, &scope, count)
                .update_expression("SET #live = #live - :count")
                .condition_expression("#live >= :count")
                .build()?,
        ),
        Action::Expire { machine, instance, at } => {
            request.update(expiry(names, &machine, &instance, at)?)
        }
    };
    Ok(request.build())
}

/// The owner of a machine, to be removed at a time. Written whole, so that the commit holds even if
/// the item had never been written.
fn expiry(
    names: &TableNames,
    machine: &MachineId,
    instance: &InstanceName,
    at: i64,
) -> Result<Update, aws_sdk_dynamodb::error::BuildError> {
    Update::builder()
        .table_name(names.table(Place::Instances))
        .key(Place::Instances.key(), s(keys::machine(machine)))
        .update_expression("SET #instance = :instance, #schema = :schema, #expires = :at")
        .expression_attribute_names("#instance", keys::INSTANCE)
        .expression_attribute_names("#schema", keys::SCHEMA)
        .expression_attribute_names("#expires", keys::EXPIRES_AT)
        .expression_attribute_values(":instance", s(instance.as_str()))
        .expression_attribute_values(":schema", n(SCHEMA))
        .expression_attribute_values(":at", n(at))
        .build()
}

/// An update of the counter of a limit: an item of nothing but the number.
fn limit(names: &TableNames, scope: &Scope, count: u32) -> UpdateBuilder {
    Update::builder()
        .table_name(names.table(Place::Control))
        .key(Place::Control.key(), s(keys::limit(scope)))
        .expression_attribute_names("#live", keys::LIVE)
        .expression_attribute_values(":count", n(count))
}

/// An update of a pool's counter. It counts as a write like any other.
fn counter(names: &TableNames, pool: &PoolName, count: u32) -> UpdateBuilder {
    Update::builder()
        .table_name(names.table(Place::Control))
        .key(Place::Control.key(), s(keys::pool(pool)))
        .expression_attribute_names("#live", keys::LIVE)
        .expression_attribute_names("#version", keys::VERSION)
        .expression_attribute_values(":count", n(count))
        .expression_attribute_values(":one", n(1))
}

#[cfg(test)]
mod tests {
    use muster_domain::audit::{Audit, AuditKind};
    use muster_domain::time::Time;

    use super::*;

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
