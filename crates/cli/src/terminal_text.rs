//! Text for a terminal: its colors, and its width in columns. A wide character, such as `鍵`, occupies two columns.
//!
//! Foreign text, e.g. the data of a znode, may have characters that a terminal obeys or hides: they become
//! visible. Files and pipes get the text as it is. `anstream` decides whether a stream gets colors: not if it is not a
//! terminal, and not if `NO_COLOR` has a value (<https://no-color.org>).

use std::borrow::Cow;
use std::fmt::Write as _;

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use holdfast_types::is_hidden;
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// The colors of this program, and their end.
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

/// The purpose of a text, which determines its color.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Title,
    /// Column headings and keys.
    Hint,
    Good,
    /// A state that an operator may want to look at.
    Attention,
    Problem,
}

impl Tone {
    fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Title => Style::new().bold(),
            Self::Hint => Style::new().dimmed(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Attention => AnsiColor::Yellow.on_default(),
            Self::Problem => AnsiColor::Red.on_default(),
        }
    }

    /// Adds the color to a text for a stream that removes colors if it does not want them.
    pub fn paint(self, text: &str) -> String {
        let style = self.style();
        format!("{style}{text}{style:#}")
    }
}

/// Adds colors to texts for one stream.
#[derive(Clone, Copy, Debug)]
pub struct Colors {
    enabled: bool,
}

impl Colors {
    pub fn of(stream: &impl RawStream) -> Self {
        Self { enabled: AutoStream::choice(stream) != ColorChoice::Never }
    }

    pub fn paint(self, tone: Tone, text: &str) -> String {
        if self.enabled { tone.paint(text) } else { text.to_owned() }
    }
}

/// Colors the first word of each line of a table.
pub fn color_first_words(table: &str, tone: impl Fn(&str) -> Option<Tone>) -> String {
    let line = |line: &str| {
        let (word, rest) = line.split_at(line.find(' ').unwrap_or(line.len()));
        match tone(word) {
            Some(tone) => tone.paint(word) + rest,
            None => line.to_owned(),
        }
    };
    table.lines().map(line).collect::<Vec<_>>().join("\n")
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
        let ours = Tone::Problem.paint("fail");
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

    #[test]
    fn only_known_first_words_of_a_table_are_colored() {
        let tone = |word: &str| (word == "fail").then_some(Tone::Problem);
        let colored = color_first_words("check\nfail  disk", tone);
        assert_eq!(colored, "check\n\u{1b}[31mfail\u{1b}[0m  disk");
    }

    #[test]
    fn a_stream_without_colors_gets_the_plain_text() {
        let paint = |enabled, tone| Colors { enabled }.paint(tone, "locks");
        assert_eq!(paint(true, Tone::Title), "\u{1b}[1mlocks\u{1b}[0m");
        assert_eq!(paint(true, Tone::Plain), "locks");
        assert_eq!(paint(false, Tone::Title), "locks");
    }
}
