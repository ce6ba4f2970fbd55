//! The Gregorian calendar: a time as text of RFC 3339, without a library of time zones.
//!
//! `holdfast_api` reads such texts and tests both directions.

use crate::Stamp;

const DAY_MS: i64 = 86_400_000;

/// Writes a time in UTC, to the second.
pub fn format_time(stamp: Stamp) -> String {
    let ms = i64::try_from(stamp.0).unwrap_or(i64::MAX);
    let (days, seconds) = (ms / DAY_MS, ms % DAY_MS / 1_000);
    let (year, month, day) = date_of(days);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The year, the month and the day that is `days` days after 1970-01-01.
pub const fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (0, month + 3) } else { (1, month - 9) };
    (year_of_era + era * 400 + year, month, day)
}
