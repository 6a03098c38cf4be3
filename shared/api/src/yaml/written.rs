//! Values with their original text.

use serde::Deserialize as _;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Parses the file a second time, guided by the values of the first pass. A scalar that would print
/// differently becomes the text as written.
pub(crate) struct Written<'a>(pub(crate) &'a Value);

impl<'de> DeserializeSeed<'de> for Written<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Value, D::Error> {
        match self.0 {
            Value::String(_) => IgnoredAny::deserialize(input).map(|_| self.0.clone()),
            // A number that JSON does not support (.inf) is null after the first pass.
            Value::Null => Option::<String>::deserialize(input)
                .map(|text| text.map_or(Value::Null, Value::String)),
            Value::Bool(_) | Value::Number(_) => {
                let text = String::deserialize(input)?;
                let is_same = self.0.to_string() == text;
                Ok(if is_same { self.0.clone() } else { Value::String(text) })
            }
            Value::Array(items) => input.deserialize_seq(Items(items)),
            Value::Object(fields) => input.deserialize_map(WrittenFields(fields)),
        }
    }
}

struct Items<'a>(&'a [Value]);

impl<'de> Visitor<'de> for Items<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut input: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        for item in self.0 {
            items.extend(input.next_element_seed(Written(item))?);
        }
        // The input ends only when a further element is requested.
        input.next_element::<IgnoredAny>()?;
        Ok(Value::Array(items))
    }
}

struct WrittenFields<'a>(&'a Map<String, Value>);

impl<'de> Visitor<'de> for WrittenFields<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a group of fields")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut input: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = input.next_key::<String>()? {
            let first = self.0.get(&name).unwrap_or(&Value::Null);
            let value = input.next_value_seed(Written(first))?;
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}
