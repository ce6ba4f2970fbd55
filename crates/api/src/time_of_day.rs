//! Points in time as text: RFC 3339, such as `2026-03-01T14:05:09Z` or `2026-03-01T15:05:09.250+01:00`.
//!
//! Dates are of the Gregorian calendar, from 1970 to 9999. A leap second (60) is rejected: the Unix clock has none.

use std::fmt;

use holdfast_types::{Stamp, date_of, format_time};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const DAY_MS: i64 = 86_400_000;

/// A point in time by the leader's clock. Its JSON is text as of RFC 3339 in UTC, to the millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rfc3339Time(pub Stamp);

impl fmt::Display for Rfc3339Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = format_time(self.0);
        write!(f, "{}.{:03}Z", seconds.trim_end_matches('Z'), self.0.0 % 1_000)
    }
}

impl Serialize for Rfc3339Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rfc3339Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let time = parse_time(&text).map(Self);
        time.ok_or_else(|| de::Error::custom(format!("'{text}' is not a time as of RFC 3339")))
    }
}

/// Reads a time with its offset from UTC; `None` if the text is not a valid time.
pub fn parse_time(text: &str) -> Option<Stamp> {
    let (date, rest) = (text.get(..10)?, text.get(10..)?);
    let time = rest.strip_prefix(['T', 't', ' '])?;
    let zone = time.find(['Z', 'z', '+', '-'])?;
    let (time, zone) = time.split_at(zone);
    let (clock, fraction) = time.split_once('.').map_or((time, None), |(c, f)| (c, Some(f)));
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(clock, ':', [2, 2, 2])?;
    let days = days_of(year, month, day);
    if date_of(days) != (year, month, day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = hour * 3_600 + minute * 60 + second - offset(zone)?;
    let ms = days * DAY_MS + seconds * 1_000 + fraction.map_or(Some(0), milliseconds)?;
    u64::try_from(ms).ok().map(Stamp)
}

/// Reads three numbers, each with the given number of digits.
fn numbers(text: &str, between: char, digits: [usize; 3]) -> Option<[i64; 3]> {
    let mut parts = text.split(between);
    let mut read = [0; 3];
    for (number, digits) in read.iter_mut().zip(digits) {
        let part = parts.next().filter(|part| part.len() == digits)?;
        *number = part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok())??;
    }
    parts.next().is_none().then_some(read)
}

/// Seconds east of UTC.
fn offset(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let (sign, time) = match zone.split_at_checked(1)? {
        ("+", time) => (1, time),
        ("-", time) => (-1, time),
        _ => return None,
    };
    let [hours, minutes, _] = numbers(&format!("{time}:00"), ':', [2, 2, 2])?;
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3_600 + minutes * 60))
}

/// Whole milliseconds of a fraction of a second.
fn milliseconds(digits: &str) -> Option<i64> {
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    format!("{digits:0<3}").get(..3)?.parse().ok()
}

/// Days since 1970-01-01. An invalid date is accepted: the 30th of February is a day in March.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the leap day is the last day of the year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // 719,468 days from 0000-03-01 to 1970-01-01.
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_times_are_read_and_written() {
        for (text, ms) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T23:59:59Z", 951_868_799_000),
            ("2026-03-01T14:05:09Z", 1_772_373_909_000),
        ] {
            assert_eq!(parse_time(text), Some(Stamp(ms)), "{text}");
            assert_eq!(format_time(Stamp(ms)), text);
        }
        for text in [
            "2026-03-01T15:05:09.250+01:00",
            "2026-03-01 14:05:09.25z",
            "2026-03-01T09:35:09.2509-04:30",
        ] {
            assert_eq!(parse_time(text), Some(Stamp(1_772_373_909_250)), "{text}");
        }
    }

    #[test]
    fn invalid_times_are_rejected() {
        for text in [
            "",
            "5m",
            "14:05",
            "2026-03-01",
            "2026-03-01T14:05:09",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-03-01T24:00:00Z",
            "2026-03-01T14:05:60Z",
            "2026-3-1T14:05:09Z",
            "2026-03-01T14:05:09+1:00",
            "2026-03-01T14:05:09.Z",
            "1969-12-31T23:59:59Z",
            "2026-03-01T+4:05:09Z",
            "２026-03-01T14:05:09Z",
        ] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_written_time_reads_back(seconds in 0_u64..253_402_300_800) {
            let stamp = Stamp(seconds * 1_000);
            prop_assert_eq!(parse_time(&format_time(stamp)), Some(stamp));
        }

        #[test]
        fn a_moment_reads_back_to_the_millisecond(ms in 0_u64..253_402_300_800_000) {
            let moment = Rfc3339Time(Stamp(ms));
            let json = serde_json::to_string(&moment).unwrap();
            prop_assert_eq!(serde_json::from_str::<Rfc3339Time>(&json).unwrap(), moment);
        }

        #[test]
        fn arbitrary_text_never_panics(text in ".*") {
            let _read = parse_time(&text);
        }
    }
}
