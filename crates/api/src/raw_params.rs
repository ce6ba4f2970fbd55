//! The parameters of one call as text: from its query string, and from a JSON body with the same fields.
//!
//! An unknown key is rejected with the nearest known one; a key given twice and an empty value are rejected.
//! [`crate::ParamField`] turns the text into values. Memory is bounded by the caller's limit on heads and bodies.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use holdfast_types::{NameError, SessionName};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::Value;

use crate::param::Form;
use crate::{ErrorCode, EscapeError, ParamError, ParamList, unescape_query};

/// The prefix of a label's key: `label.host=web3`.
const LABEL: &str = "label.";
/// Labels in a JSON body: `{"labels": {"host": "web3"}}`.
const LABELS: &str = "labels";

/// The parameters of one call, each at most once.
#[derive(Debug, Default)]
pub struct RawParams<'a> {
    items: Vec<(&'static str, Cow<'a, str>)>,
    labels: BTreeMap<String, String>,
}

impl<'a> RawParams<'a> {
    /// Reads a query string, without its `?`.
    ///
    /// # Errors
    /// [`ParamError`] for a parameter that is unknown, empty, given twice or badly encoded.
    pub fn parse(query: Option<&'a str>, list: &ParamList) -> Result<Self, ParamError> {
        let mut fields = Self::default();
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = match pair.split_once('=') {
                Some((key, value)) => (key, Some(value)),
                None => (pair, None),
            };
            let key = unescape_query(key).map_err(|e| in_query("a key", e))?;
            let value = value.map(unescape_query).transpose().map_err(|e| in_query(&key, e))?;
            fields.put(&key, value, list)?;
        }
        Ok(fields)
    }

    /// Replaces the names of sessions by their whole names. A name that is not valid stays: its parameter rejects it.
    ///
    /// # Errors
    /// [`ParamError`] for a whole name that is too long.
    pub fn rename_sessions(
        &mut self,
        list: &ParamList,
        whole: impl Fn(SessionName) -> Result<SessionName, NameError>,
    ) -> Result<(), ParamError> {
        const FORM: Form = Form::Name { bytes_max: SessionName::MAX_LEN };
        for (name, value) in &mut self.items {
            let is_session = ["session", "to"].contains(name)
                && list.find(name).is_some_and(|param| param.form == FORM);
            if let (true, Ok(session)) = (is_session, SessionName::new(&*value)) {
                let whole = whole(session).map_err(|error| ParamError::bad_name(name, &error))?;
                *value = Cow::Owned(whole.to_string());
            }
        }
        Ok(())
    }

    /// Adds the fields of a JSON object.
    ///
    /// # Errors
    /// As [`RawParams::parse`], and for a body that is not a JSON object or repeats a parameter of the query.
    pub fn merge_json(&mut self, body: &[u8], list: &ParamList) -> Result<(), ParamError> {
        let pairs = serde_json::from_slice(body).map_err(|error| bad_body(&error, list))?;
        self.merge_pairs(pairs, list)
    }

    /// Reads a JSON object.
    ///
    /// # Errors
    /// As [`RawParams::merge_json`].
    pub fn from_pairs(pairs: JsonPairs, list: &ParamList) -> Result<Self, ParamError> {
        let mut fields = Self::default();
        fields.merge_pairs(pairs, list)?;
        Ok(fields)
    }

    /// Adds the fields of a JSON object.
    ///
    /// # Errors
    /// As [`RawParams::merge_json`].
    pub fn merge_pairs(&mut self, pairs: JsonPairs, list: &ParamList) -> Result<(), ParamError> {
        for (key, value) in pairs.0 {
            let repeated = list.find(&key).filter(|param| param.form.is_repeated());
            if let (LABELS, true, Value::Object(labels)) =
                (key.as_str(), list.takes_labels(), &value)
            {
                for (name, value) in labels {
                    self.put_json(&format!("{LABEL}{name}"), value.clone(), list)?;
                }
            } else if let (Some(param), Value::Array(values)) = (repeated, &value) {
                if values.is_empty() {
                    return Err(empty_list(param.name));
                }
                for value in values {
                    self.put_json(&key, value.clone(), list)?;
                }
            } else {
                self.put_json(&key, value, list)?;
            }
        }
        Ok(())
    }

    /// The value of a parameter, if it is given.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.items.iter().find(|(name, _)| *name == key).map(|(_, value)| value.as_ref())
    }

    /// The values of a repeatable parameter.
    pub fn values(&self, key: &str) -> impl Iterator<Item = &str> {
        self.items.iter().filter(move |(name, _)| *name == key).map(|(_, value)| value.as_ref())
    }

    /// Whether a repeatable parameter is given once and without a value, e.g. `?acl` to read the access list.
    pub fn bare(&self, key: &str) -> bool {
        let mut values = self.values(key);
        values.next() == Some("") && values.next().is_none()
    }

    /// Whether a flag is set.
    pub fn flag(&self, key: &str) -> bool {
        self.value(key).is_some_and(|value| value == "true")
    }

    /// The labels, ordered by key.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.labels
    }

    fn put_json(&mut self, key: &str, value: Value, list: &ParamList) -> Result<(), ParamError> {
        let known = list.find(key).is_some() || (list.takes_labels() && key.starts_with(LABEL));
        // The value of an unknown field does not matter: the error names the field.
        let value = if known { scalar(key, value)? } else { String::new() };
        self.put(key, Some(Cow::Owned(value)), list)
    }

    fn put(
        &mut self,
        key: &str,
        value: Option<Cow<'a, str>>,
        list: &ParamList,
    ) -> Result<(), ParamError> {
        if let Some(label) = key.strip_prefix(LABEL).filter(|_| list.takes_labels()) {
            return self.put_label(key, label, value);
        }
        let Some(param) = list.find(key) else { return Err(unknown(key, list)) };
        let name = param.name;
        let value = if param.form == Form::Flag {
            match value.as_deref().unwrap_or("true") {
                "true" => Cow::Borrowed("true"),
                "false" => Cow::Borrowed("false"),
                "" => return Err(empty(name).hint(format!("write {name}=true or {name}=false"))),
                text => return Err(not_a_flag(name, text)),
            }
        } else if param.form.is_repeated() || param.form == Form::TextOrEmpty {
            value.unwrap_or_default()
        } else {
            value.filter(|value| !value.is_empty()).ok_or_else(|| empty(name))?
        };
        if !param.form.is_repeated() && self.value(name).is_some() {
            return Err(twice(name));
        }
        self.items.push((name, value));
        Ok(())
    }

    fn put_label(
        &mut self,
        key: &str,
        label: &str,
        value: Option<Cow<'a, str>>,
    ) -> Result<(), ParamError> {
        let value = value.filter(|v| !v.is_empty()).ok_or_else(|| empty(key))?;
        match self.labels.insert(label.to_owned(), value.into_owned()) {
            None => Ok(()),
            Some(_) => Err(twice(key)),
        }
    }
}

/// A JSON object as pairs in their order, so that a repeated key is detected.
#[derive(Debug, Default)]
pub struct JsonPairs(Vec<(String, Value)>);

impl JsonPairs {
    /// The maximum number of pairs of one object, above that of the parameters of any call with its labels.
    const MAX: usize = 256;

    /// Adds a pair.
    ///
    /// # Errors
    /// The object has as many pairs as it may have.
    pub fn push(&mut self, key: String, value: Value) -> Result<(), String> {
        if self.0.len() >= Self::MAX {
            return Err(format!("more than {} fields", Self::MAX));
        }
        self.0.push((key, value));
        Ok(())
    }

    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(key, _)| key.as_str())
    }
}

impl<'de> Deserialize<'de> for JsonPairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor;
        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = JsonPairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonPairs, A::Error> {
                let mut pairs = JsonPairs::default();
                while let Some((key, value)) = map.next_entry()? {
                    pairs.push(key, value).map_err(A::Error::custom)?;
                }
                Ok(pairs)
            }
        }
        deserializer.deserialize_map(PairsVisitor)
    }
}

/// The text of a JSON field, as in a query. A bare number gets no unit, so a duration rejects it.
fn scalar(key: &str, value: Value) -> Result<String, ParamError> {
    match value {
        Value::String(text) => Ok(text),
        Value::Bool(flag) => Ok(flag.to_string()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            let detail = format!("'{}' in the body is not a string", shown(key));
            Err(ParamError::invalid(key, detail).hint("write a string, or leave the field out"))
        }
    }
}

/// An empty list is rejected, because it could mean no item or every item.
fn empty_list(key: &'static str) -> ParamError {
    ParamError::invalid(key, format!("'{key}' in the body is an empty list"))
        .hint("leave it out, or write at least one item")
}

fn bad_body(error: &serde_json::Error, list: &ParamList) -> ParamError {
    let detail = format!("the body is not a JSON object: {error}");
    ParamError::new(ErrorCode::InvalidArgument, detail)
        .hint(format!("send the parameters in the query, or as a JSON object; {}", list.listed()))
}

fn in_query(what: &str, error: EscapeError) -> ParamError {
    let what = format!("'{}' in the query", shown(what));
    ParamError::bad_escape(&what, error, ErrorCode::InvalidArgument)
}

fn empty(key: &str) -> ParamError {
    let detail = format!("'{}' has no value", shown(key));
    ParamError::invalid(key, detail).hint(format!("write {0}=VALUE, or leave {0} out", shown(key)))
}

fn twice(key: &str) -> ParamError {
    let detail = format!("'{}' is given twice", shown(key));
    ParamError::invalid(key, detail).hint("give it once, in the query or in the body")
}

/// The hint has the word for the same truth value in other languages and formats.
fn not_a_flag(key: &str, text: &str) -> ParamError {
    let detail = format!("'{key}' is neither true nor false");
    let hint = match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "y" | "on" | "1" | "t" | "enabled" => format!("write {key}=true"),
        "false" | "no" | "n" | "off" | "0" | "f" | "disabled" | "none" | "null" | "nil" => {
            format!("write {key}=false")
        }
        _ => format!("write {key}=true or {key}=false"),
    };
    ParamError::invalid(key, detail).hint(hint)
}

fn unknown(key: &str, list: &ParamList) -> ParamError {
    let listed = list.listed();
    let hint = match list.hint_of_unknown(key) {
        Some(hint) if hint.ends_with('?') => format!("{hint} {listed}"),
        Some(hint) => format!("{hint}; {listed}"),
        None => listed,
    };
    let detail = format!("unknown parameter '{}'", shown(key));
    ParamError::of(shown(key), ErrorCode::InvalidArgument, detail).hint(hint)
}

/// At most 64 bytes of a key, for a message.
fn shown(key: &str) -> &str {
    &key[..key.floor_char_boundary(64)]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::Param;

    const LONGEST: Duration = Duration::from_mins(1);

    const KEYS: ParamList = ParamList::of_call(&[
        Param::name("session", 8, ""),
        Param::duration("ttl", (Duration::ZERO, LONGEST), ""),
        Param::duration("wait", (Duration::ZERO, LONGEST), ""),
        Param::text_or_empty("data", ""),
        Param::of("acl", Form::AccessEntry, ""),
        Param::flag("stale", ""),
        Param::of("labels", Form::Labels, ""),
    ]);

    #[track_caller]
    fn rejected(query: &str) -> ParamError {
        RawParams::parse(Some(query), &KEYS).unwrap_err()
    }

    #[test]
    fn values_flags_and_labels_are_read() {
        let query = "session=me&ttl=30s&stale&label.host=web%203&&";
        let fields = RawParams::parse(Some(query), &KEYS).unwrap();
        assert_eq!(fields.value("session"), Some("me"));
        assert_eq!(fields.value("wait"), None);
        assert!(fields.flag("stale"));
        let labels = fields.labels();
        assert_eq!(labels.get("host").map(String::as_str), Some("web 3"));
        assert!(!RawParams::parse(Some("stale=false"), &KEYS).unwrap().flag("stale"));
        assert!(RawParams::parse(None, &KEYS).unwrap().value("ttl").is_none());
    }

    #[test]
    fn an_unknown_key_is_rejected_with_the_nearest() {
        let error = rejected("sesion=me");
        assert_eq!(error.code, ErrorCode::InvalidArgument);
        assert_eq!(error.detail, "unknown parameter 'sesion'");
        let hint = "did you mean 'session'? this call takes session, ttl, wait, data, acl, stale, label.KEY";
        assert_eq!(error.hint.as_deref(), Some(hint));
        assert_eq!(rejected("q=1").hint.unwrap(), hint.split_once("? ").unwrap().1);
        let none = RawParams::parse(Some("a=1"), &ParamList::of_call(&[])).unwrap_err();
        assert_eq!(none.hint.as_deref(), Some("this call takes no parameters"));
    }

    #[test]
    fn a_key_given_twice_is_rejected() {
        for query in ["ttl=1s&ttl=1s", "stale&stale", "label.a=1&label.a=2", "ttl=1s&t%74l=2s"] {
            assert!(rejected(query).detail.ends_with("is given twice"), "{query}");
        }
    }

    #[test]
    fn an_empty_value_is_rejected() {
        for query in ["ttl=", "ttl", "label.a=", "label.a", "stale="] {
            assert!(rejected(query).detail.ends_with("has no value"), "{query}");
        }
    }

    #[test]
    fn some_parameters_repeat_and_some_may_be_empty() {
        let fields = RawParams::parse(Some("acl=a&data=&acl=b"), &KEYS).unwrap();
        assert_eq!(fields.values("acl").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((fields.value("data"), fields.bare("acl")), (Some(""), false));
        assert!(RawParams::parse(Some("acl"), &KEYS).unwrap().bare("acl"));
        let mut fields = RawParams::default();
        fields.merge_json(br#"{"acl":["a","b"],"data":""}"#, &KEYS).unwrap();
        assert_eq!(fields.values("acl").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(fields.value("data"), Some(""));
        let nested = RawParams::default().merge_json(br#"{"acl":[["a"]]}"#, &KEYS).unwrap_err();
        assert_eq!(nested.parameter.as_deref(), Some("acl"));
    }

    #[test]
    fn a_broken_escape_is_rejected_with_the_parameter() {
        assert!(rejected("ttl=%zz").detail.starts_with("'ttl' in the query: a '%' must"));
        assert!(rejected("%ff=1").detail.contains("not UTF-8"));
        assert!(rejected("stale=maybe").detail.contains("neither true nor false"));
    }

    #[test]
    fn a_body_field_equals_a_query_parameter() {
        let mut fields = RawParams::parse(Some("session=me"), &KEYS).unwrap();
        let body = br#"{"ttl":"30s","stale":true,"labels":{"host":"web3"},"label.pid":812}"#;
        fields.merge_json(body, &KEYS).unwrap();
        assert_eq!((fields.value("ttl"), fields.flag("stale")), (Some("30s"), true));
        let labels = fields.labels();
        assert_eq!(labels.len(), 2);
        assert_eq!(labels["pid"], "812");
    }

    #[test]
    fn a_field_in_both_query_and_body_is_rejected() {
        let mut fields = RawParams::parse(Some("ttl=30s"), &KEYS).unwrap();
        let error = fields.merge_json(br#"{"ttl":"30s"}"#, &KEYS).unwrap_err();
        assert_eq!(error.detail, "'ttl' is given twice");
        let error =
            RawParams::default().merge_json(br#"{"ttl":"1s","ttl":"1s"}"#, &KEYS).unwrap_err();
        assert_eq!(error.detail, "'ttl' is given twice");
    }

    #[test]
    fn an_invalid_body_is_rejected() {
        for body in [
            "",
            "[]",
            "7",
            "{",
            "nope",
            r#"{"ttl":null}"#,
            r#"{"ttl":["30s"]}"#,
            r#"{"x":1}"#,
            r#"{"labels":"x"}"#,
            r#"{"labels":{"a":{}}}"#,
            "{} {}",
        ] {
            let error = RawParams::default().merge_json(body.as_bytes(), &KEYS).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidArgument, "{body}");
        }
        let deep = "[".repeat(100_000);
        assert!(RawParams::default().merge_json(deep.as_bytes(), &KEYS).is_err());
    }

    proptest! {
        #[test]
        fn any_query_is_read_or_rejected_with_a_short_error(query in "\\PC*|([a-z%.]{0,8}=?[0-9a-z%+]{0,8}&?){0,6}") {
            if let Err(error) = RawParams::parse(Some(&query), &KEYS) {
                prop_assert!(error.detail.len() < 300 && error.hint.map_or(0, |h| h.len()) < 300);
            }
        }

        #[test]
        fn any_body_is_read_or_rejected(body in proptest::collection::vec(any::<u8>(), 0..64)) {
            drop(RawParams::default().merge_json(&body, &KEYS));
        }
    }
}
