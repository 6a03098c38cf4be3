//! Converts the XML answers of AWS's older services to the JSON that newer ones would return.

use roxmltree::{Document, Node};
use serde_json::{Map, Value};

/// Converts a document without the name of its root. Lists are elements called `item` or `member`.
///
/// # Errors
/// Fails when it is not XML.
pub fn read(text: &str) -> Result<Value, roxmltree::Error> {
    Ok(value(Document::parse(text)?.root_element()))
}

fn value(node: Node<'_, '_>) -> Value {
    let mut children = node.children().filter(Node::is_element).peekable();
    let Some(first) = children.peek() else {
        return node.text().map_or(Value::Null, |text| Value::String(text.to_owned()));
    };
    if matches!(first.tag_name().name(), "item" | "member") {
        return Value::Array(children.map(value).collect());
    }
    let fields = children.map(|child| (child.tag_name().name().to_owned(), value(child)));
    Value::Object(fields.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_texts_and_nothing_are_told_apart() {
        let text = r#"<?xml version="1.0" encoding="UTF-8"?>
            <DescribeSubnetsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
                <requestId>r</requestId>
                <subnetSet>
                    <item><subnetId>subnet-a</subnetId><tagSet/></item>
                    <item><subnetId>a &amp; b</subnetId>
                        <tagSet><item><key>k</key></item></tagSet></item>
                </subnetSet>
            </DescribeSubnetsResponse>"#;
        let subnets = json!([
            { "subnetId": "subnet-a", "tagSet": null },
            { "subnetId": "a & b", "tagSet": [{ "key": "k" }] },
        ]);
        assert_eq!(read(text), Ok(json!({ "requestId": "r", "subnetSet": subnets })));
        assert!(read("<html><br></html>").is_err());
    }
}
