//! One parameter of an HTTP call: its name, the form and bounds of its value, its default, and its description.
//!
//! A [`Param`] is the single definition of a parameter. The server reads values with it ([`crate::ParamValue`],
//! [`crate::ParamField`]), clients write values with it ([`crate::Query`]), and the OpenAPI description contains it.

use std::time::Duration;

use holdfast_types::LockName;
use serde_json::{Value, json};

use crate::format_duration;

/// Characters up to U+FFFF that names must not contain, for a class of a regular expression.
const FORBIDDEN: &str = "\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f-\\u1160\\u17b4-\\u17b5\\u180b-\\u180f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ue000-\\uf8ff\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\uffff";

/// The form of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    /// A name: text of 1 to `bytes_max` bytes, without '/' and white space.
    Name {
        /// The maximum length, bytes.
        bytes_max: usize,
    },
    /// A name of several components joined by `/`.
    Path {
        /// The maximum length, bytes.
        bytes_max: usize,
        /// Whether it starts with `/`.
        rooted: bool,
    },
    /// Any text except the empty one.
    Text,
    /// Any text of 1 to `bytes_max` bytes.
    BoundedText {
        /// The maximum length, bytes.
        bytes_max: usize,
    },
    /// Any text, or the empty text.
    TextOrEmpty,
    /// A duration with its units.
    Duration {
        /// The shortest.
        min: Duration,
        /// The longest.
        max: Duration,
    },
    /// A duration from zero, or `off` for zero.
    DurationOrOff {
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
    Shard {
        /// The largest.
        max: u64,
    },
    /// A whole number of 64 bits, with a sign.
    Whole,
    /// One of the listed words.
    Word(&'static [&'static str]),
    /// A flag: present without a value means true.
    Flag,
    /// An entry of an access list, `scheme:id:perms`; repeatable.
    AccessEntry,
    /// A name of a lock; repeated for each lock.
    Locks,
    /// A permission, `KIND VERB PATTERN`.
    Permission,
    /// Any text of 1 to `bytes_max` bytes; repeatable.
    Texts {
        /// The maximum length of one, bytes.
        bytes_max: usize,
    },
    /// Bytes in base 64.
    Base64,
    /// The conditions of a transaction; only in a body.
    Conditions,
    /// The operations of a transaction; only in a body.
    Operations,
    /// The labels of a session: `label.KEY=VALUE`, in a body an object.
    Labels,
}

impl Form {
    /// The JSON schema of one value in a query string or a JSON body.
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
            Self::Text | Self::TextOrEmpty => json!({ "type": "string" }),
            Self::BoundedText { bytes_max } | Self::Texts { bytes_max } => {
                json!({ "type": "string", "minLength": 1, "maxLength": bytes_max })
            }
            Self::Labels => {
                json!({ "type": "object", "additionalProperties": { "type": "string" } })
            }
            Self::Duration { .. } => json!({
                "type": "string",
                "pattern": "^([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$",
                "minLength": 2,
            }),
            Self::DurationOrOff { .. } => json!({
                "type": "string",
                "pattern": "^(off|([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?)$",
                "minLength": 2,
            }),
            Self::Number { min, max } => {
                json!({ "type": "integer", "minimum": min, "maximum": max })
            }
            Self::Limit { max } => json!({
                "oneOf": [{ "type": "integer", "minimum": 1, "maximum": max }, { "const": "none" }],
            }),
            Self::Shard { max } => json!({
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
            Self::Permission => json!({ "type": "string", "pattern": "^[a-z]+ [a-z-]+( .+)?$" }),
            Self::Base64 => json!({ "type": "string", "contentEncoding": "base64" }),
            Self::Conditions => reference("Condition"),
            Self::Operations => reference("Operation"),
        }
    }

    /// The bounds in words; empty if there are none.
    pub fn bounds(&self) -> String {
        match self {
            Self::Name { bytes_max }
            | Self::Path { bytes_max, .. }
            | Self::BoundedText { bytes_max } => format!("1 to {bytes_max} bytes"),
            Self::Texts { bytes_max } => format!("1 to {bytes_max} bytes, repeatable"),
            Self::Duration { min, max } => {
                format!("{} to {}", format_duration(*min), format_duration(*max))
            }
            Self::DurationOrOff { max } => format!("0s to {}, or off", format_duration(*max)),
            Self::Number { min, max } => format!("{min} to {max}"),
            Self::Word(words) => words.join(", "),
            Self::Limit { max } => format!("1 to {max}, or none"),
            Self::Shard { max } => format!("0 to {max}, or any"),
            Self::AccessEntry => "repeatable".to_owned(),
            Self::Locks => format!("1 to {} bytes, once for each lock", LockName::MAX_LEN),
            Self::Whole => "64 bits".to_owned(),
            Self::Text
            | Self::TextOrEmpty
            | Self::Flag
            | Self::Base64
            | Self::Permission
            | Self::Conditions
            | Self::Operations
            | Self::Labels => String::new(),
        }
    }

    /// The form in one or two words.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Name { .. } | Self::Locks => "name",
            Self::Path { .. } => "path",
            Self::Text | Self::BoundedText { .. } | Self::TextOrEmpty | Self::Texts { .. } => {
                "text"
            }
            Self::Labels => "labels",
            Self::Duration { .. } | Self::DurationOrOff { .. } => "duration",
            Self::Number { .. } | Self::Limit { .. } | Self::Shard { .. } => "number",
            Self::Whole => "whole number",
            Self::Word(_) => "word",
            Self::Flag => "flag",
            Self::AccessEntry => "scheme:id:perms",
            Self::Permission => "permission",
            Self::Base64 => "base 64",
            Self::Conditions => "conditions",
            Self::Operations => "operations",
        }
    }

    /// Whether a call may repeat it; in a body it is a list.
    pub const fn is_repeated(&self) -> bool {
        matches!(
            self,
            Self::AccessEntry
                | Self::Locks
                | Self::Texts { .. }
                | Self::Conditions
                | Self::Operations
        )
    }

    /// Whether a query string can contain it as one pair.
    pub const fn fits_query(&self) -> bool {
        !matches!(self, Self::Conditions | Self::Operations | Self::Labels)
    }
}

fn reference(name: &str) -> Value {
    json!({ "type": "array", "items": { "$ref": format!("#/components/schemas/{name}") } })
}

/// The effect of an absent parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Absent {
    /// None, or the effect that the description states.
    Nothing,
    /// The call is rejected. Carries a valid value, for examples and tests.
    Rejected(&'static str),
    /// The default is this word.
    Word(&'static str),
    /// The default is this number.
    Number(u64),
    /// The default is this duration.
    Duration(Duration),
    /// The default of the flag is true.
    Set,
    /// The present value stays.
    Unchanged,
}

/// One parameter of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Param {
    /// The key in a query string and in a body.
    pub name: &'static str,
    pub form: Form,
    /// Its meaning: one or two sentences without a final full stop.
    pub about: &'static str,
    pub absent: Absent,
    /// The hint for a missing value or a value out of bounds; empty for the default hint of the form.
    pub hint: &'static str,
}

impl Param {
    /// A name of at most `bytes_max` bytes.
    pub const fn name(name: &'static str, bytes_max: usize, about: &'static str) -> Self {
        Self::of(name, Form::Name { bytes_max }, about)
    }

    /// A name of several components, at most `bytes_max` bytes.
    pub const fn path(name: &'static str, bytes_max: usize, about: &'static str) -> Self {
        Self::of(name, Form::Path { bytes_max, rooted: false }, about)
    }

    /// Any text, or the empty text.
    pub const fn text_or_empty(name: &'static str, about: &'static str) -> Self {
        Self::of(name, Form::TextOrEmpty, about)
    }

    /// Text of 1 to `bytes_max` bytes.
    pub const fn bounded_text(name: &'static str, bytes_max: usize, about: &'static str) -> Self {
        Self::of(name, Form::BoundedText { bytes_max }, about)
    }

    /// Any text except the empty one.
    pub const fn text(name: &'static str, about: &'static str) -> Self {
        Self::of(name, Form::Text, about)
    }

    /// A duration within bounds.
    pub const fn duration(
        name: &'static str,
        (min, max): (Duration, Duration),
        about: &'static str,
    ) -> Self {
        Self::of(name, Form::Duration { min, max }, about)
    }

    /// A whole number within bounds.
    pub const fn number(name: &'static str, (min, max): (u64, u64), about: &'static str) -> Self {
        Self::of(name, Form::Number { min, max }, about)
    }

    /// One of several words.
    pub const fn word(
        name: &'static str,
        words: &'static [&'static str],
        about: &'static str,
    ) -> Self {
        Self::of(name, Form::Word(words), about)
    }

    /// A flag: present without a value means true.
    pub const fn flag(name: &'static str, about: &'static str) -> Self {
        Self::of(name, Form::Flag, about)
    }

    /// A parameter of any form.
    pub const fn of(name: &'static str, form: Form, about: &'static str) -> Self {
        Self { name, form, about, absent: Absent::Nothing, hint: "" }
    }

    /// Sets the effect of its absence.
    #[must_use]
    pub const fn absent(mut self, absent: Absent) -> Self {
        self.absent = absent;
        self
    }

    /// Makes it required. `example` is a valid value.
    #[must_use]
    pub const fn needed(self, example: &'static str) -> Self {
        self.absent(Absent::Rejected(example))
    }

    /// Sets the hint for a missing value or a value out of bounds.
    #[must_use]
    pub const fn hint(mut self, hint: &'static str) -> Self {
        self.hint = hint;
        self
    }

    /// Whether the call is rejected without it.
    pub const fn is_needed(&self) -> bool {
        matches!(self.absent, Absent::Rejected(_))
    }

    /// The default value, as text in a query.
    pub fn default(&self) -> Option<String> {
        match self.absent {
            Absent::Nothing | Absent::Rejected(_) | Absent::Unchanged => None,
            Absent::Set => Some("true".to_owned()),
            Absent::Word(word) => Some(word.to_owned()),
            Absent::Number(number) => Some(number.to_string()),
            Absent::Duration(duration) => Some(format_duration(duration)),
        }
    }

    /// The JSON schema, with its default.
    pub fn schema(&self) -> Value {
        let mut schema = self.form.schema();
        if let Some(object) = schema.as_object_mut() {
            let default = match self.absent {
                Absent::Number(number) => Some(json!(number)),
                Absent::Set => Some(json!(true)),
                Absent::Nothing
                | Absent::Rejected(_)
                | Absent::Word(_)
                | Absent::Duration(_)
                | Absent::Unchanged => self.default().map(Value::from),
            };
            let default = match (default, self.form) {
                (None, Form::Flag) if self.absent == Absent::Nothing => Some(json!(false)),
                (default, _) => default,
            };
            object.extend(default.map(|default| ("default".to_owned(), default)));
            if let Absent::Rejected(example) = self.absent {
                object.insert("examples".to_owned(), json!([self.as_json(example)]));
            }
        }
        schema
    }

    /// Converts text to the JSON type of the schema.
    fn as_json(&self, text: &str) -> Value {
        match self.form {
            Form::Number { .. } | Form::Whole | Form::Flag => {
                serde_json::from_str(text).unwrap_or_default()
            }
            Form::Name { .. }
            | Form::Path { .. }
            | Form::Text
            | Form::BoundedText { .. }
            | Form::TextOrEmpty
            | Form::Labels
            | Form::Duration { .. }
            | Form::DurationOrOff { .. }
            | Form::Limit { .. }
            | Form::Shard { .. }
            | Form::Word(_)
            | Form::AccessEntry
            | Form::Locks
            | Form::Texts { .. }
            | Form::Permission
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

#[cfg(test)]
mod tests {
    use holdfast_types::SessionName;

    use super::*;

    #[test]
    fn the_class_has_exactly_the_characters_that_names_reject() {
        let code = |text: &str| u32::from_str_radix(text, 16).unwrap();
        let pieces = FORBIDDEN.split("\\u").skip(1).collect::<Vec<_>>();
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for (at, piece) in pieces.iter().enumerate() {
            match piece.strip_suffix('-') {
                Some(from) => ranges.push((code(from), code(pieces[at + 1].trim_end_matches('-')))),
                None if at > 0 && pieces[at - 1].ends_with('-') => {}
                None => ranges.push((code(piece), code(piece))),
            }
        }
        for c in ('\0'..='\u{ffff}').filter(|c| !c.is_whitespace() && *c != '/') {
            let in_class = ranges.iter().any(|(from, to)| (*from..=*to).contains(&u32::from(c)));
            assert_eq!(SessionName::new(format!("a{c}")).is_err(), in_class, "{c:?}");
        }
    }
}
