//! The colors of the output. No other module chooses them.
//!
//! `anstream` decides whether a stream gets colors: not if it is not a terminal, and not if `NO_COLOR` has a value
//! (<https://no-color.org>).

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};

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
