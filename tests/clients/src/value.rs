//! Values of a scenario: references to earlier answers, and comparisons.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The answers that steps have saved, by name.
#[derive(Debug, Default)]
pub struct Saved(BTreeMap<String, Value>);

impl Saved {
    /// Saves a value.
    pub fn insert(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }

    /// Looks up `name` or `name.field`.
    pub fn get(&self, reference: &str) -> Option<&Value> {
        let (name, path) = reference.split_once('.').unwrap_or((reference, ""));
        self.0.get(name).and_then(|value| at(value, path))
    }

    /// Replaces each `$name.field` in the texts of a value. A text that is only a reference becomes the value itself.
    ///
    /// # Errors
    /// The reference that no step has saved.
    pub fn resolve(&self, value: &Value) -> Result<Value, String> {
        Ok(match value {
            Value::String(text) => self.resolve_text(text)?,
            Value::Array(items) => {
                items.iter().map(|item| self.resolve(item)).collect::<Result<_, _>>()?
            }
            Value::Object(fields) => {
                let resolved = fields
                    .iter()
                    .map(|(key, value)| Ok((key.clone(), self.resolve(value)?)))
                    .collect::<Result<Map<_, _>, String>>();
                Value::Object(resolved?)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        })
    }

    fn resolve_text(&self, text: &str) -> Result<Value, String> {
        let mut resolved = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            let end = after.find(|c: char| !is_in_reference(c)).unwrap_or(after.len());
            let (reference, after) = after.split_at(end);
            let found = self.get(reference).ok_or_else(|| format!("${reference} is not saved"))?;
            if before.is_empty() && after.is_empty() && resolved.is_empty() {
                return Ok(found.clone());
            }
            resolved.push_str(before);
            resolved.push_str(&plain(found));
            rest = after;
        }
        resolved.push_str(rest);
        Ok(Value::String(resolved))
    }

    /// Compares fields with what a step expects.
    ///
    /// # Errors
    /// The first field that differs.
    pub fn compare(&self, expected: &Map<String, Value>, actual: &Value) -> Result<(), String> {
        for (path, wanted) in expected {
            let found = at(actual, path).unwrap_or(&Value::Null);
            if !self.matches(wanted, found)? {
                return Err(format!("{path} is {found}, expected {wanted}"));
            }
        }
        Ok(())
    }

    fn matches(&self, wanted: &Value, found: &Value) -> Result<bool, String> {
        const COMPARISONS: [&str; 7] = [">", "<", ">=", "<=", "!=", "=", "^"];
        let comparison = wanted.as_str().and_then(|text| text.split_once(' '));
        let Some((sign, operand)) = comparison.filter(|(sign, _)| COMPARISONS.contains(sign))
        else {
            return Ok(self.resolve(wanted)? == *found);
        };
        let literal = || serde_json::from_str(operand).unwrap_or_else(|_| operand.into());
        let operand = self.get(operand).cloned().unwrap_or_else(literal);
        let numbers = found.as_f64().zip(operand.as_f64());
        Ok(match sign {
            ">" => numbers.is_some_and(|(found, operand)| found > operand),
            "<" => numbers.is_some_and(|(found, operand)| found < operand),
            ">=" => numbers.is_some_and(|(found, operand)| found >= operand),
            "<=" => numbers.is_some_and(|(found, operand)| found <= operand),
            "!=" => !found.is_null() && *found != operand,
            "^" => plain(found).starts_with(&plain(&operand)),
            _ => *found == operand,
        })
    }
}

fn is_in_reference(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '.'
}

/// The field at a path: a key with this text, otherwise keys and indexes between dots.
fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    if path.is_empty() {
        return Some(value);
    }
    if let Some(found) = value.get(path) {
        return Some(found);
    }
    let (key, rest) = path.split_once('.').unwrap_or((path, ""));
    let field = match key.parse::<usize>() {
        Ok(index) => value.get(index)?,
        Err(_) => value.get(key)?,
    };
    at(field, rest)
}

/// A text without quotes; everything else as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn saved() -> Saved {
        let mut saved = Saved::default();
        saved.insert("t1", json!({ "token": 5, "session": "s", "tokens": { "a/b": 7 } }));
        saved
    }

    fn compare(expected: &Value, actual: &Value) -> Result<(), String> {
        saved().compare(expected.as_object().expect("an object"), actual)
    }

    #[test]
    fn references_become_values() {
        assert_eq!(saved().resolve(&json!("$t1.token")), Ok(json!(5)));
        let text = json!(["/x/$t1.session?token=$t1.token&a"]);
        assert_eq!(saved().resolve(&text), Ok(json!(["/x/s?token=5&a"])));
        assert!(saved().resolve(&json!("$t2.token")).is_err());
    }

    #[test]
    fn fields_are_compared_with_numbers_and_saved_answers() {
        let actual = json!({ "token": 6, "holders": [{ "session": "s" }], "none": null });
        for right in [
            json!({ "token": "> t1.token" }),
            json!({ "token": "<= 6", "holders.0.session": "= t1.session" }),
            json!({ "token": 6, "none": null, "absent": null }),
            json!({ "token": "!= t1.token" }),
        ] {
            assert_eq!(compare(&right, &actual), Ok(()), "{right}");
        }
        for wrong in [
            json!({ "token": "< 6" }),
            json!({ "token": "= t1.token" }),
            json!({ "holders.0.session": "$t1.token" }),
            json!({ "none": "> 0" }),
            json!({ "absent": "!= 5" }),
        ] {
            assert!(compare(&wrong, &actual).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_key_may_have_slashes() {
        let tokens = json!({ "tokens": { "a/b": 7 } });
        assert_eq!(compare(&json!({ "tokens.a/b": "> t1.token" }), &tokens), Ok(()));
    }
}
