//! Single values of the configuration, and their parsers. Durations and sizes need a unit; the error for a bare number
//! contains the fix.

use std::path::PathBuf;
use std::time::Duration;

use holdfast_types::Address;

use crate::telemetry::{self, LogFormat};

/// A value before its key's parser reads it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    /// A TOML string, or any value of the environment or a flag.
    Text(String),
    Number(i64),
    Fraction(f64),
    Bool(bool),
    /// A TOML value of a type that no key accepts.
    Other(&'static str),
}

impl Scalar {
    /// Returns the text, or an error that names `wanted`.
    pub(super) fn text(&self, wanted: &str) -> Result<&str, String> {
        match self {
            Self::Text(text) if text.trim().is_empty() => Err(format!("is empty: write {wanted}")),
            Self::Text(text) => Ok(text),
            Self::Number(number) => Err(format!("{number} is a bare number: write {wanted}")),
            Self::Fraction(number) => Err(format!("{number} is a bare number: write {wanted}")),
            Self::Bool(value) => Err(format!("is {value}: write {wanted}")),
            Self::Other(kind) => Err(format!("is {kind}: write {wanted}")),
        }
    }

    pub(super) fn of(value: &toml::Value) -> Self {
        match value {
            toml::Value::String(text) => Self::Text(text.clone()),
            toml::Value::Integer(number) => Self::Number(*number),
            toml::Value::Float(number) => Self::Fraction(*number),
            toml::Value::Boolean(value) => Self::Bool(*value),
            toml::Value::Datetime(_) => Self::Other("a date"),
            toml::Value::Array(_) => Self::Other("a list"),
            toml::Value::Table(_) => Self::Other("a table"),
        }
    }
}

/// The units of sizes in bytes.
const SIZE_UNITS: &[(&str, u64)] =
    &[("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("B", 1)];

/// The log grows by up to 2 MiB at once, and by more between two checks of the disk.
const DISK_RESERVE_MIN: u64 = 8 << 20;

/// The maximum number of threads that serve clients and peers.
const THREADS_MAX: usize = 256;

/// Parses an address such as `127.0.0.1:7400`.
pub(super) fn address(value: &Scalar) -> Result<Address, String> {
    value.text("an address such as \"127.0.0.1:7400\"").and_then(Address::parse)
}

/// Names of hosts without ports, separated by commas, or `*`.
pub(super) fn hosts(value: &Scalar) -> Result<Vec<String>, String> {
    let wanted = "names such as \"locks.example,holdfast\", or \"*\" for every name";
    let names = value.text(wanted)?.split(',').map(|name| name.trim().to_ascii_lowercase());
    let is_name = |name: &String| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        let is_address = name.parse::<std::net::IpAddr>().is_ok();
        name == "*" || is_address || (!name.is_empty() && name.bytes().all(is_plain))
    };
    let names: Vec<String> = names.collect();
    match names.iter().find(|name| !is_name(name)) {
        Some(other) => Err(format!("{other:?} is not the name of a host: write {wanted}")),
        None => Ok(names),
    }
}

/// Parses a duration such as `150ms` or `1m30s`.
pub(super) fn duration(value: &Scalar) -> Result<Duration, String> {
    match value {
        Scalar::Number(number) => Err(format!(
            "{number} is a bare number: add the unit, for example \"{number}ms\" or \"{number}s\""
        )),
        Scalar::Text(_) | Scalar::Fraction(_) | Scalar::Bool(_) | Scalar::Other(_) => {
            let text = value.text("a duration such as \"150ms\"")?;
            holdfast_api::parse_duration(text).map_err(|error| format!("{error}: {}", error.hint()))
        }
    }
}

/// Parses a reserve of free disk space, in bytes.
pub(super) fn disk_reserve(value: &Scalar) -> Result<u64, String> {
    let bytes = size(value)?;
    if bytes < DISK_RESERVE_MIN {
        return Err("is less than the log needs to grow: use 8MiB or more (the default is 64MiB)"
            .to_owned());
    }
    Ok(bytes)
}

/// Parses a size such as `64MiB`, in bytes.
pub(super) fn size(value: &Scalar) -> Result<u64, String> {
    let wanted = "a size such as \"64MiB\" (units: B, KiB, MiB, GiB)";
    let text = match value {
        Scalar::Number(number) => {
            return Err(format!(
                "{number} is a bare number: add the unit, for example \"{number}MiB\" or \"{number}B\""
            ));
        }
        Scalar::Text(_) | Scalar::Fraction(_) | Scalar::Bool(_) | Scalar::Other(_) => {
            value.text(wanted)?.trim()
        }
    };
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim();
    if unit.is_empty() {
        return Err(format!("{text:?} is a bare number: add the unit, for example \"{text}MiB\""));
    }
    let Some((_, bytes)) = SIZE_UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(match suggest_binary_unit(unit) {
            Some(unit) => format!("{text:?} has an ambiguous unit: write \"{number}{unit}\""),
            None => format!("{text:?} is not a size: write {wanted}"),
        });
    };
    let number: u64 =
        number.parse().map_err(|_| format!("{text:?} is not a size: write {wanted}"))?;
    number.checked_mul(*bytes).ok_or_else(|| format!("{text:?} is larger than any disk"))
}

pub(super) fn count(value: &Scalar) -> Result<usize, String> {
    let wanted = "a whole number from 0";
    let count = match value {
        Scalar::Number(number) => usize::try_from(*number).ok(),
        Scalar::Text(text) => text.trim().parse().ok(),
        Scalar::Fraction(_) | Scalar::Bool(_) | Scalar::Other(_) => None,
    };
    count.ok_or_else(|| format!("is not a count: write {wanted}"))
}

/// Parses the priority of a node as a leader.
pub(super) fn priority(value: &Scalar) -> Result<u8, String> {
    match u8::try_from(count(value)?) {
        Ok(priority @ 0..=9) => Ok(priority),
        Ok(_) | Err(_) => Err("is out of bounds: write a number from 0 to 9".to_owned()),
    }
}

/// Parses a number of threads, at least 1.
pub(super) fn threads(value: &Scalar) -> Result<usize, String> {
    match count(value)? {
        threads @ 1..=THREADS_MAX => Ok(threads),
        _ => Err(format!("is out of bounds: write a number from 1 to {THREADS_MAX}")),
    }
}

pub(super) fn boolean(value: &Scalar) -> Result<bool, String> {
    match value {
        Scalar::Bool(value) => Some(*value),
        Scalar::Text(text) => text.trim().parse().ok(),
        Scalar::Number(_) | Scalar::Fraction(_) | Scalar::Other(_) => None,
    }
    .ok_or_else(|| "is not a boolean: write true or false".to_owned())
}

fn suggest_binary_unit(unit: &str) -> Option<&'static str> {
    match unit.to_ascii_lowercase().as_str() {
        "k" | "kb" | "kib" => Some("KiB"),
        "m" | "mb" | "mib" => Some("MiB"),
        "g" | "gb" | "gib" => Some("GiB"),
        _ => None,
    }
}

/// Parses an id, at least 1.
pub(super) fn node_id(value: &Scalar) -> Result<u64, String> {
    let wanted = "a whole number from 1";
    let id = match value {
        Scalar::Number(number) => u64::try_from(*number).ok(),
        Scalar::Text(text) => text.trim().parse().ok(),
        Scalar::Fraction(_) | Scalar::Bool(_) | Scalar::Other(_) => None,
    };
    id.filter(|id| *id > 0).ok_or_else(|| format!("is not a node id: write {wanted}"))
}

pub(super) fn path(value: &Scalar) -> Result<PathBuf, String> {
    value.text("a directory such as \"/var/lib/holdfast\"").map(PathBuf::from)
}

/// Parses a `tracing` filter.
pub(super) fn filter(value: &Scalar) -> Result<String, String> {
    let text = value.text(telemetry::FILTER_FORM)?;
    telemetry::parse_filter(text).map(|_| text.to_owned())
}

pub(super) fn log_format(value: &Scalar) -> Result<LogFormat, String> {
    let wanted = "\"auto\", \"text\" or \"json\"";
    match value.text(wanted)? {
        "auto" => Ok(LogFormat::Auto),
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        other => Err(format!("{other:?} is not a log format: write {wanted}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_names_of_a_node_are_a_list() {
        let hosts = |list: &str| hosts(&Scalar::Text(list.to_owned()));
        let names = |names: &[&str]| Ok(names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(
            hosts("Locks.example, holdfast,::1"),
            names(&["locks.example", "holdfast", "::1"])
        );
        assert_eq!(hosts("*"), names(&["*"]));
        for wrong in ["locks.example:7400", "a,,b", "http://locks.example"] {
            assert!(hosts(wrong).unwrap_err().contains("names such as"), "{wrong}");
        }
    }
}
