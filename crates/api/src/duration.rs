//! Durations as text: `500ms`, `30s`, `1m30s`, `2h`.
//!
//! A duration is whole numbers with units, from large to small. A bare number is rejected, because tools disagree about
//! its unit; the error suggests a unit.

use std::fmt::Write as _;
use std::time::Duration;

use thiserror::Error;

/// The longest duration: 365 days. Parameters have narrower bounds.
pub const DURATION_MAX: Duration = Duration::from_hours(365 * 24);

/// Unit and milliseconds, largest first.
const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
/// Each unit, and other spellings of it for suggestions.
const ALIASES: [(&str, &[&str]); 4] = [
    ("h", &["hr", "hrs", "hour", "hours", "H"]),
    ("m", &["min", "mins", "minute", "minutes", "M"]),
    ("s", &["sec", "secs", "second", "seconds", "S"]),
    ("ms", &["msec", "msecs", "millis", "millisecond", "milliseconds", "Ms", "MS"]),
];

/// Words for a time without an end, which no parameter allows.
const UNBOUNDED: [&str; 7] = ["forever", "infinite", "infinity", "inf", "never", "unlimited", "-1"];

/// An invalid duration. `Display` writes [`DurationError::problem`] and [`DurationError::hint`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}: {}", self.problem(), self.hint())]
pub enum DurationError {
    /// A number without a unit.
    NoUnit {
        /// The number.
        text: String,
        /// The suggested duration.
        meant: String,
    },
    /// Not whole numbers with units.
    Malformed {
        /// The text, shortened.
        text: String,
        /// The suggested duration.
        meant: Option<String>,
    },
    /// Out of the bounds of its parameter, or longer than [`DURATION_MAX`].
    OutOfBounds {
        /// The text, shortened.
        text: String,
        /// The bounded quantity, such as "a ttl".
        what: &'static str,
        /// The minimum.
        min: String,
        /// The maximum.
        max: String,
        /// The hint.
        advice: String,
    },
}

impl DurationError {
    /// The error, without advice.
    pub fn problem(&self) -> String {
        match self {
            Self::NoUnit { text, .. } => format!("'{text}' has no unit"),
            Self::Malformed { text, .. } => format!("'{text}' is not a duration"),
            Self::OutOfBounds { text, what, min, max, .. } => {
                format!("'{text}' is out of bounds: {what} is from {min} to {max}")
            }
        }
    }

    /// The advice: a suggestion or the valid form.
    pub fn hint(&self) -> String {
        const FORM: &str = "write whole numbers with units, such as 500ms, 30s, 1m30s or 2h";
        match self {
            Self::NoUnit { meant, .. } => format!("did you mean {meant}?"),
            Self::Malformed { meant: Some(meant), .. } => format!("did you mean {meant}? {FORM}"),
            Self::Malformed { meant: None, .. } => FORM.to_owned(),
            Self::OutOfBounds { advice, .. } => advice.clone(),
        }
    }

    /// The suggested duration, if there is one.
    fn meant(&self) -> Option<Duration> {
        match self {
            Self::NoUnit { meant, .. } => parse_duration(meant).ok(),
            Self::Malformed { meant, .. } => parse_duration(meant.as_deref()?).ok(),
            Self::OutOfBounds { .. } => None,
        }
    }
}

/// Reads a duration, `0s` to [`DURATION_MAX`].
///
/// # Errors
/// [`DurationError`] for text that is not whole numbers with units, and for more than [`DURATION_MAX`].
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bare_number(text));
    }
    let malformed = || DurationError::Malformed { text: shorten(text), meant: meant(text) };
    let (mut rest, mut units, mut total) = (text, UNITS.as_slice(), Some(0_u64));
    while !rest.is_empty() {
        let (number, unit, tail) = next_part(rest).ok_or_else(malformed)?;
        let at = units.iter().position(|(name, _)| *name == unit).ok_or_else(malformed)?;
        let part = number.parse::<u64>().ok().and_then(|n| n.checked_mul(units[at].1));
        total = total.zip(part).and_then(|(total, part)| total.checked_add(part));
        (rest, units) = (tail, &units[at + 1..]);
    }
    if text.is_empty() {
        return Err(malformed());
    }
    let parsed = total.map(Duration::from_millis).filter(|parsed| *parsed <= DURATION_MAX);
    parsed.ok_or_else(|| DurationError::OutOfBounds {
        text: shorten(text),
        what: "a duration",
        min: format_duration(Duration::ZERO),
        max: format_duration(DURATION_MAX),
        advice: "write a shorter duration".to_owned(),
    })
}

/// Writes a duration so that [`parse_duration`] reads it back, rounded down to milliseconds.
pub fn format_duration(duration: Duration) -> String {
    let mut left = holdfast_types::millis(duration);
    let mut text = String::new();
    for (unit, ms) in UNITS {
        if left >= ms {
            // Writing to a String cannot fail.
            let _infallible = write!(text, "{}{unit}", left / ms);
            left %= ms;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Reads a duration within the bounds of its parameter. A suggestion is within them, too.
///
/// `advice` is for a value above the maximum; if it is empty, the advice names the maximum.
pub(crate) fn duration_within(
    text: &str,
    what: &'static str,
    (min, max): (Duration, Duration),
    advice: &str,
) -> Result<Duration, DurationError> {
    let bounds = || (format_duration(min), format_duration(max));
    let outside = |duration: Duration| {
        let (min_text, max_text) = bounds();
        let advice = match (duration < min, advice) {
            (true, _) => format!("write at least {min_text}"),
            (false, "") => format!("write at most {max_text}"),
            (false, advice) => advice.to_owned(),
        };
        let text = shorten(text);
        DurationError::OutOfBounds { text, what, min: min_text, max: max_text, advice }
    };
    if UNBOUNDED.iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return Err(outside(Duration::MAX));
    }
    match parse_duration(text) {
        Ok(duration) if (min..=max).contains(&duration) => Ok(duration),
        Ok(duration) => Err(outside(duration)),
        Err(error) => Err(match error.meant() {
            Some(meant) if !(min..=max).contains(&meant) => outside(meant),
            Some(_) | None => error,
        }),
    }
}

/// Splits `30s…` into `30`, `s` and the rest; `None` without a number or without a unit.
fn next_part(text: &str) -> Option<(&str, &str, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, tail) = text.split_at(digits);
    let letters = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
    let (unit, rest) = tail.split_at(letters);
    (!number.is_empty() && !unit.is_empty()).then_some((number, unit, rest))
}

/// Suggests seconds for a number of up to three digits, milliseconds for a longer one.
fn bare_number(text: &str) -> DurationError {
    let text = shorten(text);
    let unit = if text.len() <= 3 { "s" } else { "ms" };
    DurationError::NoUnit { meant: format!("{text}{unit}"), text }
}

/// Suggests a duration for one number with another spelling of a unit: `30 sec`, `1d`, `1.5s`.
fn meant(text: &str) -> Option<String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = (&text[..split], text[split..].trim());
    let unit = if unit.len() > 1 { unit.trim_end_matches('.') } else { unit };
    if matches!(unit, "d" | "day" | "days") {
        let hours = number.parse::<u64>().ok()?.checked_mul(24)?;
        return Some(format!("{hours}h"));
    }
    let known = |(name, aliases): &(&'static str, &[&str])| {
        (*name == unit || aliases.contains(&unit)).then_some(*name)
    };
    let unit = ALIASES.iter().find_map(known)?;
    if number.contains('.') {
        return fraction(number, unit);
    }
    (!number.is_empty() && number.len() <= 9).then(|| format!("{number}{unit}"))
}

/// Converts e.g. `1.5` of a unit to whole smaller units; at most three decimals.
fn fraction(number: &str, unit: &str) -> Option<String> {
    let (whole, decimals) = number.split_once('.')?;
    let scale = 10_u64.checked_pow(u32::try_from(decimals.len()).ok().filter(|n| *n <= 3)?)?;
    let ms = UNITS.iter().find(|(name, _)| *name == unit)?.1;
    let whole = whole.parse::<u64>().ok()?.checked_mul(ms)?;
    let part = decimals.parse::<u64>().ok()?.checked_mul(ms)? / scale;
    let total = Duration::from_millis(whole.checked_add(part)?);
    (total <= DURATION_MAX).then(|| format_duration(total))
}

/// At most 40 characters of a text, for a message.
fn shorten(text: &str) -> String {
    const SHOWN_MAX: usize = 40;
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn hint(text: &str) -> String {
        parse_duration(text).unwrap_err().hint()
    }

    #[test]
    fn units_are_read_from_large_to_small() {
        for (text, ms) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("1m30s", 90_000),
            ("2h", 7_200_000),
            ("1h1m1s1ms", 3_661_001),
            ("0s", 0),
            ("90s", 90_000),
            ("007s", 7_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn a_bare_number_is_rejected_with_a_suggestion() {
        assert_eq!(hint("30"), "did you mean 30s?");
        assert_eq!(hint("0"), "did you mean 0s?");
        assert_eq!(hint("30000"), "did you mean 30000ms?");
        assert!(hint(&"9".repeat(10_000)).len() < 100);
    }

    #[test]
    fn other_spellings_are_rejected_with_a_suggestion() {
        for (text, meant) in [
            ("30sec", "30s"),
            ("30 s", "30s"),
            ("5 minutes", "5m"),
            ("1d", "24h"),
            ("1.5s", "1s500ms"),
            ("2.5h", "2h30m"),
            ("30S", "30s"),
        ] {
            let hint = hint(text);
            assert!(hint.starts_with(&format!("did you mean {meant}?")), "{text}: {hint}");
        }
    }

    #[test]
    fn malformed_durations_are_rejected_with_the_valid_form() {
        for text in [
            "", "s", "-1s", "+1s", "30s1m", "1s1s", "1m30", "1e3s", "١s", "soon", " 1s", "1s ",
            "1sm", "1us",
        ] {
            let error = parse_duration(text).unwrap_err();
            assert!(matches!(error, DurationError::Malformed { .. }), "{text:?}: {error}");
            assert!(error.hint().contains("such as 500ms, 30s"), "{text:?}");
        }
    }

    #[test]
    fn durations_over_the_maximum_are_rejected_with_the_bounds() {
        for text in
            ["8761h", "99999999999999999999h", "18446744073709551615h", "18446744073709551616ms"]
        {
            let error = parse_duration(text).unwrap_err().problem();
            assert!(error.ends_with("is out of bounds: a duration is from 0s to 8760h"), "{error}");
        }
        assert_eq!(parse_duration("8760h"), Ok(DURATION_MAX));
    }

    proptest! {
        #[test]
        fn every_duration_reads_back_as_written(ms in 0..=31_536_000_000_u64) {
            let duration = Duration::from_millis(ms);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }

        #[test]
        fn any_text_is_read_or_rejected_with_a_short_error(text in "\\PC*|[0-9hms. ]{0,30}|[0-9]+[a-z]+") {
            if let Err(error) = parse_duration(&text) {
                prop_assert!(error.hint().len() < 400 && error.to_string().len() < 400);
            }
        }

        #[test]
        fn a_suggested_duration_is_valid(number in 0..100_000_u32) {
            let hint = parse_duration(&number.to_string()).unwrap_err().hint();
            let meant = hint.strip_prefix("did you mean ").and_then(|h| h.strip_suffix('?')).unwrap();
            prop_assert!(parse_duration(meant).is_ok());
        }
    }
}
