//! Text for a terminal. Foreign text, e.g. the data of a znode, may have characters that a terminal obeys or hides: they become
//! visible. Files and pipes get the text as it is.

use std::borrow::Cow;
use std::fmt::Write as _;

use holdfast_types::is_hidden;

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
}
