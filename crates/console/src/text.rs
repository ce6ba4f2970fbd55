//! Text of clients in pages: names, labels and values. `maud` escapes markup; characters that change the display of other
//! text are shown as their code.

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
}
