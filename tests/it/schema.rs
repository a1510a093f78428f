//! A checker for the JSON Schemas that this repository commits. It knows the
//! words they use, and fails on any other, so that nothing passes unread.

use serde_json::Value;

/// Words that say nothing about this value.
const KNOWN: &[&str] = &[
    "$schema",
    "title",
    "description",
    "const",
    "enum",
    "required",
    "additionalProperties",
    "properties",
    "items",
];

/// The faults of a value.
pub(crate) fn faults(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(schema, value, "$", &mut found);
    found
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn check(schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    for (word, rule) in schema.as_object().unwrap() {
        match word.as_str() {
            "type" => {
                let kinds = rule.as_array().cloned().unwrap_or_else(|| vec![rule.clone()]);
                if !kinds.iter().any(|allowed| allowed == kind(value)) {
                    found.push(format!("{at} is {value}, and not {rule}"));
                }
            }
            "const" if rule != value => found.push(format!("{at} is {value}, and not {rule}")),
            "enum" if !rule.as_array().unwrap().contains(value) => {
                found.push(format!("{at} is {value}, and none of {rule}"));
            }
            "required" if value.is_object() => {
                for name in rule.as_array().unwrap() {
                    if value.get(name.as_str().unwrap()).is_none() {
                        found.push(format!("{at} has no {name}"));
                    }
                }
            }
            "additionalProperties" if value.is_object() => {
                assert_eq!(rule, false);
                for name in value.as_object().unwrap().keys() {
                    if schema["properties"].get(name).is_none() {
                        found.push(format!("{at} has an unknown {name}"));
                    }
                }
            }
            "properties" if value.is_object() => {
                for (name, rule) in rule.as_object().unwrap() {
                    if let Some(value) = value.get(name) {
                        check(rule, value, &format!("{at}.{name}"), found);
                    }
                }
            }
            "items" if value.is_array() => {
                for (index, value) in value.as_array().unwrap().iter().enumerate() {
                    check(rule, value, &format!("{at}[{index}]"), found);
                }
            }
            "anyOf" => {
                let tried = rule.as_array().unwrap().iter().map(|branch| {
                    let mut faults = Vec::new();
                    check(branch, value, at, &mut faults);
                    faults
                });
                // The nearest one tells most.
                found.extend(tried.min_by_key(Vec::len).unwrap());
            }
            known => assert!(KNOWN.contains(&known), "the checker does not know `{known}`"),
        }
    }
}

#[test]
fn the_checker_finds_faults() {
    let schema = serde_json::json!({
        "type": "object", "required": ["a"], "additionalProperties": false,
        "properties": { "a": { "type": "array", "items": { "enum": ["x", null] } } },
    });
    assert_eq!(faults(&schema, &serde_json::json!({"a": ["x", null]})), Vec::<String>::new());
    for bad in ["{}", "[]", r#"{"a":["y"]}"#, r#"{"a":[],"b":1}"#, r#"{"a":1}"#] {
        assert!(!faults(&schema, &serde_json::from_str(bad).unwrap()).is_empty(), "{bad}");
    }
    let either = serde_json::json!({ "anyOf": [schema, { "type": "string" }] });
    assert_eq!(faults(&either, &serde_json::json!("x")), Vec::<String>::new());
    assert!(!faults(&either, &serde_json::json!(1)).is_empty());
}
