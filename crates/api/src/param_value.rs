//! Values of parameters: conversion from and to text, within the bounds of the [`Param`].
//!
//! [`ParamValue`] converts one value. [`ParamField`] adds presence: required, optional, repeated, a flag, labels.
//! [`params!`](crate::params) defines the struct of one call's parameters, one line for each.

use std::time::Duration;

use holdfast_types::{
    Address, Attempt, AuditAction, AuthMode, CertificateName, FencingToken, Labels, LockName, Mode,
    NodeId, Owner, Permission, PermissionError, QueueOrder, Reason, RecipeKind, RecipeName,
    RequestId, RequestNumber, Revision, RoleName, SessionId, SessionName, ShardChoice, SubjectName,
    Ttl, VotingRole, ZnodePath, Zone,
};

use crate::duration::duration_within;
use crate::param::{Absent, Form, Param};
use crate::{ParamError, ParamList, RawParams, format_duration};

/// The parameters of one call. Implemented by [`params!`](crate::params).
pub trait CallParams: Sized {
    /// In the order of the API description.
    const LIST: ParamList;

    /// Reads every parameter.
    ///
    /// # Errors
    /// [`ParamError`] for the first parameter that is missing or invalid, with a hint.
    fn read(fields: &RawParams<'_>) -> Result<Self, ParamError>;

    /// Reads every parameter from a query string.
    ///
    /// # Errors
    /// As [`RawParams::parse`] and [`CallParams::read`].
    fn from_query(query: &str) -> Result<Self, ParamError> {
        Self::read(&RawParams::parse(Some(query), &Self::LIST)?)
    }
}

/// Defines structs of parameters, one for each call: `field: Type = PARAM` for each parameter. `as "…"` replaces the subject
/// "this call" in messages.
#[macro_export]
macro_rules! params {
    ($($(#[$doc:meta])* $vis:vis struct $name:ident $(as $what:literal)? {
        $($field:ident: $type:ty = $param:expr,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        $vis struct $name {
            $($vis $field: $type,)*
        }

        impl $crate::CallParams for $name {
            const LIST: $crate::ParamList = $crate::ParamList::of_call(&[$($param,)*])$(.of($what))?;

            fn read(fields: &$crate::RawParams<'_>) -> Result<Self, $crate::ParamError> {
                Ok(Self { $($field: $crate::ParamField::read(&$param, fields)?,)* })
            }
        }
    )*};
}

/// The value of one parameter, as text.
pub trait ParamValue: Sized {
    /// # Errors
    /// [`ParamError`] for text that is not such a value, or is out of the bounds of `param`.
    fn parse(param: &Param, text: &str) -> Result<Self, ParamError>;

    /// The text that [`ParamValue::parse`] reads back.
    fn to_text(&self) -> String;
}

/// One field of a struct of parameters.
pub trait ParamField: Sized {
    /// # Errors
    /// As [`ParamValue::parse`], and for a missing required parameter.
    fn read(param: &Param, fields: &RawParams<'_>) -> Result<Self, ParamError>;
}

impl<T: ParamValue> ParamField for T {
    fn read(param: &Param, fields: &RawParams<'_>) -> Result<Self, ParamError> {
        match (fields.value(param.name), param.default()) {
            (Some(text), _) => T::parse(param, text),
            (None, Some(default)) => T::parse(param, &default),
            (None, None) => Err(missing(param)),
        }
    }
}

impl<T: ParamValue> ParamField for Option<T> {
    fn read(param: &Param, fields: &RawParams<'_>) -> Result<Self, ParamError> {
        fields.value(param.name).map(|text| T::parse(param, text)).transpose()
    }
}

/// In the order given; empty if the parameter is absent.
impl<T: ParamValue> ParamField for Vec<T> {
    fn read(param: &Param, fields: &RawParams<'_>) -> Result<Self, ParamError> {
        fields.values(param.name).map(|text| T::parse(param, text)).collect()
    }
}

impl ParamField for bool {
    fn read(param: &Param, fields: &RawParams<'_>) -> Result<Self, ParamError> {
        let set = fields.value(param.name).map(|text| text == "true");
        if param.is_needed() && set != Some(true) {
            return Err(missing(param));
        }
        Ok(set.unwrap_or(param.absent == Absent::Set))
    }
}

/// A flag that leaves something unchanged when it is absent.
impl ParamField for Option<bool> {
    fn read(param: &Param, fields: &RawParams<'_>) -> Result<Self, ParamError> {
        Ok(fields.value(param.name).map(|text| text == "true"))
    }
}

impl ParamField for Labels {
    fn read(_: &Param, fields: &RawParams<'_>) -> Result<Self, ParamError> {
        Labels::new(fields.labels().clone()).map_err(|error| ParamError::bad_name("label", &error))
    }
}

/// The error of a parameter that the call needs.
pub fn missing(param: &Param) -> ParamError {
    let example = if let Absent::Rejected(example) = param.absent {
        format!("write ?{}={example}", param.name)
    } else {
        String::new()
    };
    let hint = if param.hint.is_empty() { example } else { param.hint.to_owned() };
    let detail = format!("'{}' is required", param.name);
    ParamError::invalid(param.name, detail).hint(hint)
}

fn invalid(param: &Param, detail: String, hint: &str) -> ParamError {
    let hint = if param.hint.is_empty() { hint } else { param.hint };
    ParamError::invalid(param.name, detail).hint(hint)
}

macro_rules! names {
    ($($name:ident),*) => {$(
        impl ParamValue for $name {
            fn parse(param: &Param, text: &str) -> Result<Self, ParamError> {
                $name::new(text).map_err(|error| ParamError::bad_name(param.name, &error))
            }

            fn to_text(&self) -> String {
                self.as_str().to_owned()
            }
        }
    )*};
}

names!(
    CertificateName,
    LockName,
    Owner,
    Reason,
    RecipeName,
    RequestId,
    RoleName,
    SessionName,
    SubjectName,
    ZnodePath,
    Zone
);

impl ParamValue for Permission {
    fn parse(param: &Param, text: &str) -> Result<Self, ParamError> {
        text.parse().map_err(|error: PermissionError| {
            let hint = format!("write {}=lock acquire orders/*", param.name);
            invalid(param, error.to_string(), &hint)
        })
    }

    fn to_text(&self) -> String {
        self.to_string()
    }
}

impl ParamValue for Address {
    fn parse(param: &Param, text: &str) -> Result<Self, ParamError> {
        let hint = format!("write {}=HOST:PORT", param.name);
        Self::parse(text)
            .map_err(|problem| invalid(param, format!("'{}': {problem}", param.name), &hint))
    }

    fn to_text(&self) -> String {
        self.to_string()
    }
}

impl ParamValue for String {
    fn parse(param: &Param, text: &str) -> Result<Self, ParamError> {
        if let Form::Name { bytes_max } | Form::BoundedText { bytes_max } = param.form
            && text.len() > bytes_max
        {
            let detail = format!("'{}' is longer than {bytes_max} bytes", param.name);
            return Err(invalid(param, detail, "write a shorter value"));
        }
        Ok(text.to_owned())
    }

    fn to_text(&self) -> String {
        self.clone()
    }
}

/// A whole number within the bounds of its parameter.
fn number(param: &Param, text: &str) -> Result<u64, ParamError> {
    let (min, max) = if let Form::Number { min, max } = param.form {
        (min, max)
    } else if let Form::Limit { max } = param.form {
        (1, max)
    } else if let Form::Shard { max } = param.form {
        (0, max)
    } else {
        (0, u64::MAX)
    };
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| digits && (min..=max).contains(number)).ok_or_else(|| {
        let detail = format!("'{}' is not a number from {min} to {max}", param.name);
        invalid(param, detail, &format!("write {}=N, from {}", param.name, param.form.bounds()))
    })
}

macro_rules! numbers {
    ($($type:ty: $new:expr, $get:expr;)*) => {$(
        impl ParamValue for $type {
            fn parse(param: &Param, text: &str) -> Result<Self, ParamError> {
                number(param, text).map($new)
            }

            fn to_text(&self) -> String {
                let get: fn(&$type) -> u64 = $get;
                get(self).to_string()
            }
        }
    )*};
}

// The bounds of the parameter are within those of the type.
numbers! {
    u64: |number| number, |number| *number;
    u32: |number| u32::try_from(number).unwrap_or(u32::MAX), |number| u64::from(*number);
    i32: |number| i32::try_from(number).unwrap_or(i32::MAX), |number| u64::try_from(*number).unwrap_or(0);
    u8: |number| u8::try_from(number).unwrap_or(u8::MAX), |number| u64::from(*number);
    usize: |number| usize::try_from(number).unwrap_or(usize::MAX), |number| *number as u64;
    Attempt: Attempt, |attempt| attempt.0;
    FencingToken: FencingToken, |token| token.0;
    RequestNumber: RequestNumber, |request| request.0;
    Revision: Revision, |revision| revision.0;
    SessionId: SessionId, |session| session.0;
    NodeId: NodeId, |node| node.0;
}

impl ParamValue for i64 {
    fn parse(param: &Param, text: &str) -> Result<Self, ParamError> {
        text.parse().map_err(|_| {
            let detail = format!("'{}' is not a 64-bit integer", param.name);
            invalid(param, detail, &format!("write {0}=5, or {0}=-5", param.name))
        })
    }

    fn to_text(&self) -> String {
        self.to_string()
    }
}

impl ParamValue for Duration {
    fn parse(param: &Param, text: &str) -> Result<Self, ParamError> {
        let bounds = if let Form::Duration { min, max } = param.form {
            (min, max)
        } else if let Form::DurationOrOff { max } = param.form {
            if text == "off" {
                return Ok(Self::ZERO);
            }
            (Self::ZERO, max)
        } else {
            (Self::ZERO, crate::DURATION_MAX)
        };
        duration_within(text, param.name, bounds, param.hint).map_err(|error| {
            let or_off = matches!(param.form, Form::DurationOrOff { .. });
            let hint = format!("{}{}", error.hint(), if or_off { ", or off" } else { "" });
            ParamError::bad_duration(param.name, &error).hint(hint)
        })
    }

    fn to_text(&self) -> String {
        format_duration(*self)
    }
}

impl ParamValue for Ttl {
    fn parse(param: &Param, text: &str) -> Result<Self, ParamError> {
        let ms = Duration::parse(param, text)?.as_millis();
        let ttl = u64::try_from(ms).ok().and_then(|ms| Ttl::from_millis(ms).ok());
        Ok(ttl.unwrap_or(Ttl::MAX))
    }

    fn to_text(&self) -> String {
        format_duration(self.as_duration())
    }
}

/// A count, or `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountOrNone(pub Option<u32>);

impl ParamValue for CountOrNone {
    fn parse(param: &Param, text: &str) -> Result<Self, ParamError> {
        if text == "none" { Ok(Self(None)) } else { u32::parse(param, text).map(|n| Self(Some(n))) }
    }

    fn to_text(&self) -> String {
        self.0.map_or("none".to_owned(), |count| count.to_string())
    }
}

impl ParamValue for ShardChoice {
    fn parse(param: &Param, text: &str) -> Result<Self, ParamError> {
        if text == "any" { Ok(Self::Any) } else { u32::parse(param, text).map(Self::At) }
    }

    fn to_text(&self) -> String {
        match self {
            Self::Any => "any".to_owned(),
            Self::At(index) => index.to_string(),
        }
    }
}

/// The allowed word that equals `text`.
fn word(param: &Param, text: &str) -> Result<&'static str, ParamError> {
    let words = if let Form::Word(words) = param.form { words } else { &[] };
    words.iter().copied().find(|word| *word == text).ok_or_else(|| {
        let words = words.join(", ");
        let detail = format!("'{}' is not one of {words}", param.name);
        invalid(param, detail, &format!("write one of {words}"))
    })
}

/// One of the allowed words of the parameter.
impl ParamValue for &'static str {
    fn parse(param: &Param, text: &str) -> Result<Self, ParamError> {
        word(param, text)
    }

    fn to_text(&self) -> String {
        (*self).to_owned()
    }
}

macro_rules! words {
    ($($type:ident),*) => {$(
        impl ParamValue for $type {
            fn parse(param: &Param, text: &str) -> Result<Self, ParamError> {
                let word = word(param, text)?;
                let value = Self::ALL.into_iter().find(|value| value.as_str() == word);
                value.ok_or_else(|| invalid(param, format!("'{word}' is not supported"), ""))
            }

            fn to_text(&self) -> String {
                self.as_str().to_owned()
            }
        }
    )*};
}

words!(AuditAction, AuthMode, Mode, QueueOrder, RecipeKind, VotingRole);

#[cfg(test)]
mod tests;
