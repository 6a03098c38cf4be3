//! Builds DynamoDB's form of a transaction's actions.

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::types::builders::UpdateBuilder;
use aws_sdk_dynamodb::types::{ConditionCheck, Delete, Put, TransactWriteItem, Update};
use muster_domain::SCHEMA;
use muster_domain::ids::{InstanceName, MachineId, PoolName};
use muster_domain::pool::limits::Scope;

use super::{Action, ConditionText};
use crate::table::TableNames;
use crate::table::keys::{self, TableKind, n, s};

const HAS_ROOM: &str = "#live <= :most AND #holder = :holder";

pub(super) fn request(names: &TableNames, action: Action) -> Result<TransactWriteItem, BuildError> {
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
        Action::Check { place, key, condition } => {
            let ConditionText { expression, names: attributes, values } = condition.text(place);
            let check = ConditionCheck::builder()
                .table_name(names.table(place))
                .key(place.key(), s(key))
                .set_condition_expression(expression)
                .set_expression_attribute_names(attributes)
                .set_expression_attribute_values(values);
            request.condition_check(check.build()?)
        }
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

/// Builds the update that expires a machine's owner item. It sets all attributes, so that the
/// commit succeeds even if the item was never written.
fn expiry(
    names: &TableNames,
    machine: &MachineId,
    instance: &InstanceName,
    at: i64,
) -> Result<Update, BuildError> {
    Update::builder()
        .table_name(names.table(TableKind::Instances))
        .key(TableKind::Instances.key(), s(keys::machine(machine)))
        .update_expression("SET #instance = :instance, #schema = :schema, #expires = :at")
        .expression_attribute_names("#instance", keys::INSTANCE)
        .expression_attribute_names("#schema", keys::SCHEMA)
        .expression_attribute_names("#expires", keys::EXPIRES_AT)
        .expression_attribute_values(":instance", s(instance.as_str()))
        .expression_attribute_values(":schema", n(SCHEMA))
        .expression_attribute_values(":at", n(at))
        .build()
}

/// Builds an update of a limit's counter: an item that contains only the number.
fn limit(names: &TableNames, scope: &Scope, count: u32) -> UpdateBuilder {
    Update::builder()
        .table_name(names.table(TableKind::Control))
        .key(TableKind::Control.key(), s(keys::limit(scope)))
        .expression_attribute_names("#live", keys::LIVE)
        .expression_attribute_values(":count", n(count))
}

/// Builds an update of a pool's counter. It increments the version like any other write.
fn counter(names: &TableNames, pool: &PoolName, count: u32) -> UpdateBuilder {
    Update::builder()
        .table_name(names.table(TableKind::Control))
        .key(TableKind::Control.key(), s(keys::pool(pool)))
        .expression_attribute_names("#live", keys::LIVE)
        .expression_attribute_names("#version", keys::VERSION)
        .expression_attribute_values(":count", n(count))
        .expression_attribute_values(":one", n(1))
}
