//! Texts cut and padded to columns of a terminal. A wide character, such as `鍵`, occupies two columns.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

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
