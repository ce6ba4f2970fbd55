//! Times in pages: the absolute time in UTC, and the time since then or until then.
//!
//! The script of the page counts on between two updates, in the same words.

use holdfast_types::{Stamp, format_time};
use maud::{Markup, html};

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
