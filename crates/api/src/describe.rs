//! What a parameter is, for those who read the API's description: its form, its bounds, its default, what it means.
//!
//! Owns the shape of such a description. The descriptions stand beside the parsers, in the `about` of each
//! [`crate::Keys`]; tests hold the two together, by name here and by behaviour at the front-end. Refuses to know routes.

use std::time::Duration;

use holdfast_types::LockName;
use serde_json::{Value, json};

use crate::{Keys, format_duration};

/// Characters that no name contains, as a regular expression's class has them.
const FORBIDDEN: &str = "\\u0000-\\u001f\\u007f-\\u009f\\ue000-\\uf8ff\\ufff0-\\uffff";

/// What a value looks like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    /// A name: text of 1 byte to so many, with rules for its characters.
    Name {
        /// The longest, bytes.
        bytes_max: usize,
    },
    /// A name of several components joined by `/`.
    Path {
        /// The longest, bytes.
        bytes_max: usize,
        /// Whether it begins with `/`.
        rooted: bool,
    },
    /// Any text.
    Text,
    /// A duration with its units.
    Duration {
        /// The shortest.
        min: Duration,
        /// The longest.
        max: Duration,
    },
    /// A whole number.
    Number {
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// A whole number from 1, or `none`.
    Limit {
        /// The largest.
        max: u64,
    },
    /// A whole number from 0, or `any`.
    Segment {
        /// The largest.
        max: u64,
    },
    /// A whole number of 64 bits, with a sign.
    Whole,
    /// One of these words.
    Word(&'static [&'static str]),
    /// True by being there.
    Flag,
    /// An entry of an access list, `scheme:id:perms`; as often as wanted.
    AccessEntry,
    /// A name of a lock; as often as there are locks.
    Locks,
    /// Bytes in base 64.
    Base64,
    /// The conditions of a transaction; in a body alone.
    Conditions,
    /// The operations of a transaction; in a body alone.
    Operations,
}

impl Form {
    /// The JSON schema of one value, as a query string spells it and a JSON body may.
    pub fn schema(&self) -> Value {
        match self {
            Self::Name { bytes_max } => {
                let pattern = format!("^[^/\\s{FORBIDDEN}]+$");
                json!({ "type": "string", "minLength": 1, "maxLength": bytes_max, "pattern": pattern })
            }
            Self::Path { bytes_max, rooted } => {
                let one = format!("[^/{FORBIDDEN}]+");
                let all = format!("{one}(/{one})*");
                let pattern = if *rooted { format!("^/({all})?$") } else { format!("^{all}$") };
                json!({ "type": "string", "minLength": 1, "maxLength": bytes_max, "pattern": pattern })
            }
            Self::Text => json!({ "type": "string" }),
            Self::Duration { .. } => json!({
                "type": "string",
                "pattern": "^([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$",
                "minLength": 2,
            }),
            Self::Number { min, max } => {
                json!({ "type": "integer", "minimum": min, "maximum": max })
            }
            Self::Limit { max } => json!({
                "oneOf": [{ "type": "integer", "minimum": 1, "maximum": max }, { "const": "none" }],
            }),
            Self::Segment { max } => json!({
                "oneOf": [{ "type": "integer", "minimum": 0, "maximum": max }, { "const": "any" }],
            }),
            Self::Whole => {
                json!({ "type": "integer", "minimum": i64::MIN, "maximum": i64::MAX })
            }
            Self::Word(words) => json!({ "type": "string", "enum": words }),
            Self::Flag => json!({ "type": "boolean" }),
            Self::AccessEntry => json!({
                "type": "string",
                "pattern": "^[^:]+:.*:[cdrwa]{1,5}$",
            }),
            Self::Locks => Self::Path { bytes_max: LockName::MAX_LEN, rooted: false }.schema(),
            Self::Base64 => json!({ "type": "string", "contentEncoding": "base64" }),
            Self::Conditions => reference("Condition"),
            Self::Operations => reference("Operation"),
        }
    }

    /// The bounds in words; empty if there are none.
    pub fn bounds(&self) -> String {
        match self {
            Self::Name { bytes_max } | Self::Path { bytes_max, .. } => {
                format!("1 to {bytes_max} bytes")
            }
            Self::Duration { min, max } => {
                format!("{} to {}", format_duration(*min), format_duration(*max))
            }
            Self::Number { min, max } => format!("{min} to {max}"),
            Self::Word(words) => words.join(", "),
            Self::Limit { max } => format!("1 to {max}, or none"),
            Self::Segment { max } => format!("0 to {max}, or any"),
            Self::AccessEntry => "as often as wanted".to_owned(),
            Self::Locks => format!("1 to {} bytes, as often as there are locks", LockName::MAX_LEN),
            Self::Whole => "64 bits".to_owned(),
            Self::Text | Self::Flag | Self::Base64 | Self::Conditions | Self::Operations => {
                String::new()
            }
        }
    }

    /// Its kind in one word or two.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Name { .. } | Self::Locks => "name",
            Self::Path { .. } => "path",
            Self::Text => "text",
            Self::Duration { .. } => "duration",
            Self::Number { .. } | Self::Limit { .. } | Self::Segment { .. } => "number",
            Self::Whole => "whole number",
            Self::Word(_) => "word",
            Self::Flag => "flag",
            Self::AccessEntry => "scheme:id:perms",
            Self::Base64 => "base 64",
            Self::Conditions => "conditions",
            Self::Operations => "operations",
        }
    }

    /// Whether a query string can carry it.
    pub const fn fits_query(&self) -> bool {
        !matches!(self, Self::Conditions | Self::Operations)
    }
}

fn reference(name: &str) -> Value {
    json!({ "type": "array", "items": { "$ref": format!("#/components/schemas/{name}") } })
}

/// What a call does when a parameter is not given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unsaid {
    /// Nothing in particular, or what the text says.
    Nothing,
    /// It refuses: the parameter is needed. A value that is good, for examples and tests.
    Refused(&'static str),
    /// As if this word were given.
    Word(&'static str),
    /// As if this number were given.
    Number(u64),
    /// As if this duration were given.
    Duration(Duration),
    /// As if the flag were given.
    Set,
    /// What was stays.
    Kept,
}

/// One parameter of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Param {
    /// As the query spells it.
    pub name: &'static str,
    /// What its value looks like.
    pub form: Form,
    /// What it means: one or two sentences without a last full stop.
    pub about: &'static str,
    /// What happens without it.
    pub unsaid: Unsaid,
}

impl Param {
    const fn new(name: &'static str, form: Form, about: &'static str) -> Self {
        Self { name, form, about, unsaid: Unsaid::Nothing }
    }

    /// A name of at most so many bytes.
    pub const fn name(name: &'static str, bytes_max: usize, about: &'static str) -> Self {
        Self::new(name, Form::Name { bytes_max }, about)
    }

    /// A name of several components, at most so many bytes.
    pub const fn path(name: &'static str, bytes_max: usize, about: &'static str) -> Self {
        Self::new(name, Form::Path { bytes_max, rooted: false }, about)
    }

    /// Any text.
    pub const fn text(name: &'static str, about: &'static str) -> Self {
        Self::new(name, Form::Text, about)
    }

    /// A duration within bounds.
    pub const fn duration(
        name: &'static str,
        (min, max): (Duration, Duration),
        about: &'static str,
    ) -> Self {
        Self::new(name, Form::Duration { min, max }, about)
    }

    /// A whole number within bounds.
    pub const fn number(name: &'static str, (min, max): (u64, u64), about: &'static str) -> Self {
        Self::new(name, Form::Number { min, max }, about)
    }

    /// One of several words.
    pub const fn word(
        name: &'static str,
        words: &'static [&'static str],
        about: &'static str,
    ) -> Self {
        Self::new(name, Form::Word(words), about)
    }

    /// True by being there.
    pub const fn flag(name: &'static str, about: &'static str) -> Self {
        Self::new(name, Form::Flag, about)
    }

    /// Of another form.
    pub const fn of(name: &'static str, form: Form, about: &'static str) -> Self {
        Self::new(name, form, about)
    }

    /// The same, with what happens when it is not given.
    #[must_use]
    pub const fn unsaid(mut self, unsaid: Unsaid) -> Self {
        self.unsaid = unsaid;
        self
    }

    /// The same, needed; with a value that is good.
    #[must_use]
    pub const fn needed(self, example: &'static str) -> Self {
        self.unsaid(Unsaid::Refused(example))
    }

    /// Whether the call refuses without it.
    pub const fn is_needed(&self) -> bool {
        matches!(self.unsaid, Unsaid::Refused(_))
    }

    /// What it is when it is not given, as the query would spell it.
    pub fn default(&self) -> Option<String> {
        match self.unsaid {
            Unsaid::Nothing | Unsaid::Refused(_) | Unsaid::Kept => None,
            Unsaid::Set => Some("true".to_owned()),
            Unsaid::Word(word) => Some(word.to_owned()),
            Unsaid::Number(number) => Some(number.to_string()),
            Unsaid::Duration(duration) => Some(format_duration(duration)),
        }
    }

    /// The JSON schema, with its default.
    pub fn schema(&self) -> Value {
        let mut schema = self.form.schema();
        if let Some(object) = schema.as_object_mut() {
            let default = match self.unsaid {
                Unsaid::Number(number) => Some(json!(number)),
                Unsaid::Set => Some(json!(true)),
                Unsaid::Nothing
                | Unsaid::Refused(_)
                | Unsaid::Word(_)
                | Unsaid::Duration(_)
                | Unsaid::Kept => self.default().map(Value::from),
            };
            let default = match (default, self.form) {
                (None, Form::Flag) if self.unsaid == Unsaid::Nothing => Some(json!(false)),
                (default, _) => default,
            };
            object.extend(default.map(|default| ("default".to_owned(), default)));
            if let Unsaid::Refused(example) = self.unsaid {
                object.insert("examples".to_owned(), json!([self.as_json(example)]));
            }
        }
        schema
    }

    /// A value in the type that its schema has.
    fn as_json(&self, text: &str) -> Value {
        match self.form {
            Form::Number { .. } | Form::Whole | Form::Flag => {
                serde_json::from_str(text).unwrap_or_default()
            }
            Form::Name { .. }
            | Form::Path { .. }
            | Form::Text
            | Form::Duration { .. }
            | Form::Limit { .. }
            | Form::Segment { .. }
            | Form::Word(_)
            | Form::AccessEntry
            | Form::Locks
            | Form::Base64
            | Form::Conditions
            | Form::Operations => Value::from(text),
        }
    }

    /// Its meaning and its bounds in one text.
    pub fn explained(&self) -> String {
        match self.form.bounds() {
            bounds if bounds.is_empty() => format!("{}.", self.about),
            bounds => format!("{}. {}: {bounds}.", self.about, capital(self.form.kind())),
        }
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

impl Keys {
    /// What is taken without a description, and what is described without being taken. Empty if the two agree.
    pub fn undescribed(&self) -> Vec<&'static str> {
        let described = |name: &&str| self.about.iter().any(|param| param.name == *name);
        let taken = |param: &&Param| self.taken().any(|name| name == param.name);
        let missing = self.taken().filter(|name| !described(name));
        missing.chain(self.about.iter().filter(|param| !taken(param)).map(|p| p.name)).collect()
    }

    /// The object that says the same as the query: every parameter a property, and nothing else.
    pub fn schema(&self) -> Value {
        let mut properties = serde_json::Map::new();
        for param in self.about {
            let schema = match (param.form, self.many.contains(&param.name)) {
                (Form::AccessEntry | Form::Locks, true) => {
                    json!({ "type": "array", "items": param.schema() })
                }
                _ => param.schema(),
            };
            properties.insert(param.name.to_owned(), described(schema, &param.explained()));
        }
        if self.labels {
            let about = "Labels, shown to those who wait: as label.KEY=VALUE in a query";
            let labels = json!({ "type": "object", "additionalProperties": { "type": "string" } });
            properties.insert("labels".to_owned(), described(labels, about));
        }
        json!({ "type": "object", "properties": properties, "additionalProperties": false })
    }
}

fn described(mut schema: Value, about: &str) -> Value {
    if let Some(object) = schema.as_object_mut() {
        object.insert("description".to_owned(), Value::from(about));
    }
    schema
}
