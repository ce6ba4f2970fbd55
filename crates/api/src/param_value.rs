//! Values of parameters: text to value and back, with the bounds that the [`Param`] states.
//!
//! [`ParamValue`] is one value as text. [`ParamField`] adds presence: required, optional, repeated, a flag, labels.
//! [`params!`](crate::params) makes the struct of one call's parameters, so that each parameter is one line.

use std::time::Duration;

use holdfast_types::{
    Attempt, FencingToken, Labels, LockName, Mode, Owner, QueueOrder, Reason, RecipeName,
    RequestId, Revision, SessionId, SessionName, Ttl, ZnodePath,
};

use crate::duration::check_bounds;
use crate::param::{Absent, Form, Param};
use crate::{ErrorCode, Fields, ParamList, Refusal, format_duration, parse_duration};

/// The parameters of one call. Implemented by [`params!`](crate::params).
pub trait CallParams: Sized {
    /// In the order of the description.
    const LIST: ParamList;

    /// Reads every parameter.
    ///
    /// # Errors
    /// [`Refusal`] names the first parameter that is missing or invalid, and what to write instead.
    fn read(fields: &Fields<'_>) -> Result<Self, Refusal>;

    /// Reads every parameter from a query string.
    ///
    /// # Errors
    /// As [`Fields::parse`] and [`CallParams::read`].
    fn from_query(query: &str) -> Result<Self, Refusal> {
        Self::read(&Fields::parse(Some(query), &Self::LIST)?)
    }
}

/// Defines the struct of one call's parameters: `field: Type = PARAM` for each. `as "…"` is the subject of messages about
/// them, instead of "this call".
#[macro_export]
macro_rules! params {
    ($(#[$doc:meta])* $vis:vis struct $name:ident $(as $what:literal)? {
        $($(#[$note:meta])* $field:ident: $type:ty = $param:expr,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        $vis struct $name {
            $($(#[$note])* $vis $field: $type,)*
        }

        impl $crate::CallParams for $name {
            const LIST: $crate::ParamList = $crate::ParamList::of_call(&[$($param,)*])$(.of($what))?;

            fn read(fields: &$crate::Fields<'_>) -> Result<Self, $crate::Refusal> {
                Ok(Self { $($field: $crate::ParamField::read(&$param, fields)?,)* })
            }
        }
    };
}

/// A value that one parameter carries as text.
pub trait ParamValue: Sized {
    /// # Errors
    /// [`Refusal`] for text that is not such a value, or out of the bounds of `param`.
    fn parse(param: &Param, text: &str) -> Result<Self, Refusal>;

    /// The text that [`ParamValue::parse`] reads back.
    fn to_text(&self) -> String;
}

/// One field of a struct of parameters.
pub trait ParamField: Sized {
    /// # Errors
    /// As [`ParamValue::parse`]; and if a required parameter is missing.
    fn read(param: &Param, fields: &Fields<'_>) -> Result<Self, Refusal>;
}

impl<T: ParamValue> ParamField for T {
    fn read(param: &Param, fields: &Fields<'_>) -> Result<Self, Refusal> {
        match (fields.value(param.name), param.default()) {
            (Some(text), _) => T::parse(param, text),
            (None, Some(default)) => T::parse(param, &default),
            (None, None) => Err(missing(param)),
        }
    }
}

impl<T: ParamValue> ParamField for Option<T> {
    fn read(param: &Param, fields: &Fields<'_>) -> Result<Self, Refusal> {
        fields.value(param.name).map(|text| T::parse(param, text)).transpose()
    }
}

/// In the order given; empty if the parameter is absent.
impl<T: ParamValue> ParamField for Vec<T> {
    fn read(param: &Param, fields: &Fields<'_>) -> Result<Self, Refusal> {
        fields.values(param.name).map(|text| T::parse(param, text)).collect()
    }
}

impl ParamField for bool {
    fn read(param: &Param, fields: &Fields<'_>) -> Result<Self, Refusal> {
        let set = fields.value(param.name).map(|text| text == "true");
        if param.is_needed() && set != Some(true) {
            return Err(missing(param));
        }
        Ok(set.unwrap_or(param.absent == Absent::Set))
    }
}

/// A flag that leaves something unchanged when it is absent.
impl ParamField for Option<bool> {
    fn read(param: &Param, fields: &Fields<'_>) -> Result<Self, Refusal> {
        Ok(fields.value(param.name).map(|text| text == "true"))
    }
}

impl ParamField for Labels {
    fn read(_: &Param, fields: &Fields<'_>) -> Result<Self, Refusal> {
        Labels::new(fields.labels().clone()).map_err(|error| Refusal::bad_name("label", &error))
    }
}

fn missing(param: &Param) -> Refusal {
    let example = if let Absent::Rejected(example) = param.absent {
        format!("add {}={example}", param.name)
    } else {
        String::new()
    };
    let hint = if param.hint.is_empty() { example } else { param.hint.to_owned() };
    let detail = format!("'{}' is required", param.name);
    Refusal::of(param.name, ErrorCode::InvalidArgument, detail).hint(hint)
}

fn invalid(param: &Param, detail: String, hint: &str) -> Refusal {
    let hint = if param.hint.is_empty() { hint } else { param.hint };
    Refusal::of(param.name, ErrorCode::InvalidArgument, detail).hint(hint)
}

macro_rules! names {
    ($($name:ident),*) => {$(
        impl ParamValue for $name {
            fn parse(param: &Param, text: &str) -> Result<Self, Refusal> {
                $name::new(text).map_err(|error| Refusal::bad_name(param.name, &error))
            }

            fn to_text(&self) -> String {
                self.as_str().to_owned()
            }
        }
    )*};
}

names!(LockName, Owner, Reason, RecipeName, RequestId, SessionName, ZnodePath);

impl ParamValue for String {
    fn parse(param: &Param, text: &str) -> Result<Self, Refusal> {
        if let Form::Name { bytes_max } = param.form
            && text.len() > bytes_max
        {
            let detail = format!("'{}' is longer than {bytes_max} bytes", param.name);
            return Err(invalid(param, detail, "write a shorter one"));
        }
        Ok(text.to_owned())
    }

    fn to_text(&self) -> String {
        self.clone()
    }
}

/// A whole number within the bounds of its parameter.
fn number(param: &Param, text: &str) -> Result<u64, Refusal> {
    let Form::Number { min, max } = param.form else {
        return Err(invalid(param, format!("'{}' has no bounds", param.name), ""));
    };
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| digits && (min..=max).contains(number)).ok_or_else(|| {
        let detail = format!("'{}' is not a number from {min} to {max}", param.name);
        invalid(param, detail, "write it in digits, or leave it out")
    })
}

macro_rules! numbers {
    ($($type:ty: $new:expr, $get:expr;)*) => {$(
        impl ParamValue for $type {
            fn parse(param: &Param, text: &str) -> Result<Self, Refusal> {
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
    Revision: Revision, |revision| revision.0;
    SessionId: SessionId, |session| session.0;
}

impl ParamValue for i64 {
    fn parse(param: &Param, text: &str) -> Result<Self, Refusal> {
        text.parse().map_err(|_| {
            let detail = format!("'{}' is not a whole number of 64 bits", param.name);
            invalid(param, detail, &format!("write {0}=5, or {0}=-5", param.name))
        })
    }

    fn to_text(&self) -> String {
        self.to_string()
    }
}

impl ParamValue for Duration {
    fn parse(param: &Param, text: &str) -> Result<Self, Refusal> {
        let bounds = if let Form::Duration { min, max } = param.form {
            (min, max)
        } else {
            (Self::ZERO, crate::DURATION_MAX)
        };
        let hint = if param.hint.is_empty() { "write one within the bounds" } else { param.hint };
        parse_duration(text)
            .and_then(|duration| check_bounds(text, duration, param.name, bounds, hint))
            .map_err(|error| Refusal::bad_duration(param.name, &error))
    }

    fn to_text(&self) -> String {
        format_duration(*self)
    }
}

impl ParamValue for Ttl {
    fn parse(param: &Param, text: &str) -> Result<Self, Refusal> {
        let ms = Duration::parse(param, text)?.as_millis();
        let ttl = u64::try_from(ms).ok().and_then(|ms| Ttl::from_millis(ms).ok());
        Ok(ttl.unwrap_or(Ttl::MAX))
    }

    fn to_text(&self) -> String {
        format_duration(self.as_duration())
    }
}

/// The one of `all` that `text` names.
///
/// # Errors
/// [`Refusal`] lists the words that `param` takes.
pub fn parse_word<T: Copy>(
    param: &Param,
    text: &str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T, Refusal> {
    all.iter().copied().find(|value| name(*value) == text).ok_or_else(|| {
        let words = all.iter().map(|value| name(*value)).collect::<Vec<_>>().join(", ");
        let detail = format!("'{}' is not one of {words}", param.name);
        invalid(param, detail, &format!("write one of {words}"))
    })
}

impl ParamValue for Mode {
    fn parse(param: &Param, text: &str) -> Result<Self, Refusal> {
        parse_word(param, text, &Self::ALL, Self::as_str)
    }

    fn to_text(&self) -> String {
        self.as_str().to_owned()
    }
}

impl ParamValue for QueueOrder {
    fn parse(param: &Param, text: &str) -> Result<Self, Refusal> {
        parse_word(param, text, &Self::ALL, Self::as_str)
    }

    fn to_text(&self) -> String {
        self.as_str().to_owned()
    }
}

#[cfg(test)]
mod tests;
