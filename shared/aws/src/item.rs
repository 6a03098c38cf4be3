//! DynamoDB's representation of a record.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

/// An item of a table.
pub(crate) type Item = HashMap<String, AttributeValue>;
