//! The JSON Schema of the configuration file, for editors.

use serde_json::{Value, json};

use super::Config;

/// Where the schema of this version can be read.
pub const SCHEMA_URL: &str = concat!(
    env!("CARGO_PKG_REPOSITORY"),
    "/raw/v",
    env!("CARGO_PKG_VERSION"),
    "/docs/config.schema.json"
);

/// The schema. The loader is the judge: it knows more than a schema can say.
pub fn json_schema() -> Value {
    let mut schema = schemars::schema_for!(Config).to_value();
    schema["$id"] = json!(SCHEMA_URL);
    schema["title"] = json!("the-loop's configuration");
    let_groups_be_empty(&mut schema);
    schema
}

/// A group or a list with nothing behind its key has its defaults. Numbers have
/// no formats that an editor would know.
fn let_groups_be_empty(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if matches!(map.get("type").and_then(Value::as_str), Some("object" | "array")) {
                let kind = map["type"].take();
                map.insert("type".to_owned(), json!([kind, "null"]));
            }
            if matches!(map.get("type").and_then(Value::as_str), Some("integer")) {
                map.remove("format");
            }
            map.values_mut().for_each(let_groups_be_empty);
        }
        Value::Array(items) => items.iter_mut().for_each(let_groups_be_empty),
        _ => {}
    }
}
