//! Text in pages: names and values of clients, numbers, and times.
//!
//! `maud` escapes markup; characters that change the display of other text are shown as their code. A time has its absolute form
//! in UTC, and the time since then or until then, which the script of the page counts on between two updates.

use holdfast_types::{Stamp, format_time};
use maud::{Markup, html};

/// A name that a client chose, isolated from the direction of the text around it.
pub(crate) fn name(text: impl AsRef<str>) -> Markup {
    html! { bdi { (visible(text.as_ref())) } }
}

/// The text with control characters and characters of the display direction as `\u{202e}`.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_invisible(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

fn is_invisible(character: char) -> bool {
    let code = u32::from(character);
    character.is_control()
        || matches!(code, 0xad | 0x61c | 0x180e | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfeff)
        || (0xe_0000..=0xe_007f).contains(&code)
}

/// Two digits for each byte.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

/// `1 lock`, `2 locks`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{} {noun}s", grouped(number)) }
}

/// `512 B`, `1.5 GiB`.
pub(crate) fn size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let power = bytes.checked_ilog2().map_or(0, |log| log / 10);
    let Some(unit) = power.checked_sub(1).and_then(|at| units.get(at as usize)) else {
        return format!("{bytes} B");
    };
    let tenths = (u128::from(bytes) * 10) >> (10 * power);
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

/// A number with a thin space between groups of three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 * 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) && digits.len() > 4 {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The time since `at`: `4 min 12 s`.
pub(crate) fn since(at: Stamp, now: Stamp) -> Markup {
    timed(at, "since", &span(now.0.saturating_sub(at.0)))
}

/// The time until `at`.
pub(crate) fn until(at: Stamp, now: Stamp) -> Markup {
    timed(at, "until", &span(at.0.saturating_sub(now.0)))
}

/// The absolute time, with the time since then.
pub(crate) fn at(at: Stamp, now: Stamp) -> Markup {
    let clock = format_time(at).replace('T', " ");
    html! { span.nowrap { (clock) } " (" (since(at, now)) " ago)" }
}

/// The time of something that began `age` milliseconds before now.
pub(crate) fn before(now: Stamp, age: u64) -> Stamp {
    Stamp(now.0.saturating_sub(age))
}

/// The time of something that ends in `left` milliseconds.
pub(crate) fn after(now: Stamp, left: u64) -> Stamp {
    Stamp(now.0.saturating_add(left))
}

fn timed(at: Stamp, direction: &str, text: &str) -> Markup {
    let absolute = format_time(at);
    html! { time datetime=(absolute) title=(absolute) data-count=(direction) { (text) } }
}

/// Milliseconds in words: the largest unit and the next one.
pub(crate) fn span(ms: u64) -> String {
    let pair = |large: u64, small: u64, names: (&str, &str)| {
        format!("{} {} {} {}", ms / large, names.0, ms % large / small, names.1)
    };
    match ms {
        0..MINUTE => format!("{} s", ms / SECOND),
        MINUTE..HOUR => pair(MINUTE, SECOND, ("min", "s")),
        HOUR..DAY => pair(HOUR, MINUTE, ("h", "min")),
        DAY.. => pair(DAY, HOUR, ("d", "h")),
    }
}

/// A duration that was measured, in its most readable unit.
pub(crate) fn measured(ms: u64) -> String {
    if ms < 10 * SECOND { format!("{ms} ms") } else { span(ms) }
}

/// The page without the texts of its times: equal for two pages that differ only in the time since something.
pub(crate) fn without_counts(page: &str) -> String {
    let mut parts = page.split("<time ");
    let mut rest = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (tag, after) = part.split_once('>').unwrap_or((part, ""));
        rest.push_str(tag);
        rest.push_str(after.split_once("</time>").map_or(after, |(_, after)| after));
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_characters_of_the_direction_are_shown_as_text() {
        let hostile = "<img src=x onerror=alert(1)>\u{202e}gnp\u{200b}\n";
        let markup = name(hostile).into_string();
        assert_eq!(
            markup,
            "<bdi>&lt;img src=x onerror=alert(1)&gt;\\u{202e}gnp\\u{200b}\\u{a}</bdi>"
        );
        assert_eq!(visible("zażółć עברית"), "zażółć עברית");
    }

    #[test]
    fn numbers_have_groups_of_digits() {
        assert_eq!(count(1, "lock"), "1 lock");
        assert_eq!(count(0, "waiter"), "0 waiters");
        assert_eq!(grouped(4_812), "4812");
        assert_eq!(grouped(10_000), "10\u{202f}000");
        let sizes = [0, 1_023, 1_024, 1_610_612_735, 1_610_612_736, u64::MAX].map(size);
        assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "1.4 GiB", "1.5 GiB", "15.9 EiB"]);
        assert_eq!(hexadecimal(&[0, 0x1f, 0xa0]), "001fa0");
    }

    #[test]
    fn a_span_has_the_two_largest_units() {
        for (ms, text) in [
            (999, "0 s"),
            (59_999, "59 s"),
            (252_000, "4 min 12 s"),
            (3_600_000, "1 h 0 min"),
            (86_400_000 + 7_200_000, "1 d 2 h"),
        ] {
            assert_eq!(span(ms), text);
        }
        assert_eq!((measured(9_999), measured(10_000)), ("9999 ms".to_owned(), "10 s".to_owned()));
    }

    #[test]
    fn a_time_has_its_absolute_form_too() {
        let markup = since(Stamp(1_772_373_909_000), Stamp(1_772_373_969_000)).into_string();
        let expected = "<time datetime=\"2026-03-01T14:05:09Z\" title=\"2026-03-01T14:05:09Z\" data-count=\"since\">1 min 0 s</time>";
        assert_eq!(markup, expected);
    }

    #[test]
    fn two_pages_that_differ_only_in_the_time_since_something_are_equal() {
        let page =
            |now| html! { p { "held " (since(Stamp(1_000), Stamp(now))) " by a" } }.into_string();
        assert_ne!(page(2_000), page(9_000));
        assert_eq!(without_counts(&page(2_000)), without_counts(&page(9_000)));
        assert_ne!(
            without_counts(&page(2_000)),
            without_counts(&page(2_000).replace("by a", "by b"))
        );
    }
}
