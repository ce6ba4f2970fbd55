//! Text for a terminal, cut and padded to its columns. A wide character, such as `鍵`, occupies two columns.
//!
//! Foreign text, e.g. the data of a znode, may have characters that a terminal obeys or hides: they become
//! visible. Files and pipes get the text as it is.

use std::borrow::Cow;
use std::fmt::Write as _;

use holdfast_types::is_hidden;
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// The colors of this program, and their end (`color.rs`).
const COLORS: [&str; 6] = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"];

/// Makes hidden characters visible, except line ends, tabs and the colors of this program.
pub(crate) fn for_terminal(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| is_hidden(c) && !matches!(c, '\n' | '\t')) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let color = COLORS.iter().find(|color| rest.starts_with(**color));
        let taken = color.map_or(c.len_utf8(), |color| color.len());
        if color.is_some() || !is_hidden(c) || matches!(c, '\n' | '\t') {
            shown.push_str(&rest[..taken]);
        } else {
            // Writing into a string does not fail.
            let _infallible = write!(shown, "{}", c.escape_unicode());
        }
        rest = &rest[taken..];
    }
    Cow::Owned(shown)
}

/// Makes the hidden characters of data visible, its escape sequences included.
pub(crate) fn data_for_terminal(data: &[u8]) -> String {
    let text = String::from_utf8_lossy(data).replace('\x1b', "\\u{1b}");
    for_terminal(&text).into_owned()
}

/// The last character of a cut text.
const CUT: &str = "…";

/// The number of columns that a text occupies.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Cuts a text to at most `max` columns, between characters as a reader sees them. A cut text ends with `…`.
pub fn truncate(text: &str, max: usize) -> String {
    if width(text) <= max {
        return text.to_owned();
    }
    let Some(room) = max.checked_sub(width(CUT)) else { return String::new() };
    let mut used = 0;
    let fits = |grapheme: &&str| {
        used += width(grapheme);
        used <= room
    };
    text.graphemes(true).take_while(fits).chain([CUT]).collect()
}

/// Cuts or pads a text to `columns`, with the text on the left.
pub fn left(text: &str, columns: usize) -> String {
    let text = truncate(text, columns);
    let padding = " ".repeat(columns.saturating_sub(width(&text)));
    text + &padding
}

/// Cuts or pads a text to `columns`, with the text on the right.
pub fn right(text: &str, columns: usize) -> String {
    let text = truncate(text, columns);
    " ".repeat(columns.saturating_sub(width(&text))) + &text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_no_control_characters_of_others() {
        let title = "\x1b]0;owned\x07 \u{9b}31m \u{202e}txt.exe\u{200b} a\rb \u{7f}\n\tü鍵";
        let shown = r"\u{1b}]0;owned\u{7} \u{9b}31m \u{202e}txt.exe\u{200b} a\u{d}b \u{7f}";
        assert_eq!(for_terminal(title), format!("{shown}\n\tü鍵"));
        assert_eq!(data_for_terminal(title.as_bytes()), format!("{shown}\n\tü鍵"));
        assert_eq!(data_for_terminal(b"\xff\x1b[31m"), "\u{fffd}\\u{1b}[31m");
    }

    #[test]
    fn only_the_colors_of_this_program_pass() {
        let ours = crate::color::Tone::Problem.paint("fail");
        assert_eq!(for_terminal(&ours), ours);
        assert_eq!(for_terminal("\x1b[8mhidden\x1b[2J"), r"\u{1b}[8mhidden\u{1b}[2J");
    }

    #[test]
    fn a_long_text_is_cut_and_never_wider_than_its_columns() {
        assert_eq!(truncate("orders", 6), "orders");
        assert_eq!(truncate("orders", 5), "orde…");
        assert_eq!(truncate("orders", 1), "…");
        assert_eq!(truncate("orders", 0), "");
    }

    #[test]
    fn a_wide_character_is_not_cut_in_half() {
        assert_eq!(truncate("鍵鍵鍵", 6), "鍵鍵鍵");
        assert_eq!(truncate("鍵鍵鍵", 5), "鍵鍵…");
        assert_eq!(truncate("鍵鍵鍵", 4), "鍵…");
        assert_eq!(left("鍵鍵鍵", 4), "鍵… ");
        assert_eq!(right("鍵", 4), "  鍵");
        let family = "👨‍👩‍👧";
        assert_eq!(truncate(&format!("{family}{family}x"), 4), format!("{family}…"));
    }
}
