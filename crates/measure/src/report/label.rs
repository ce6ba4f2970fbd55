//! Numbers as people read them.

/// Formats a number with three significant digits: 0.012, 1.5, 1,000.
pub(super) fn label(value: f64) -> String {
    if value >= 1000.0 {
        let whole = format!("{value:.0}");
        let mut grouped = String::new();
        for (at, digit) in whole.chars().enumerate() {
            if at > 0 && (whole.len() - at).is_multiple_of(3) {
                grouped.push(',');
            }
            grouped.push(digit);
        }
        return grouped;
    }
    let text = if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else if value >= 0.1 || value == 0.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    };
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Formats a ratio with one decimal: 7.7, or 13.
pub(super) fn ratio(value: f64) -> String {
    if value < 0.95 {
        return label(value);
    }
    let text = if value < 9.95 { format!("{value:.1}") } else { label(value.round()) };
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_three_significant_digits() {
        for (value, expected) in [
            (0.0, "0"),
            (0.0123, "0.012"),
            (0.5, "0.5"),
            (1.0, "1"),
            (12.34, "12.3"),
            (100.0, "100"),
            (1234.0, "1,234"),
            (1_000_000.0, "1,000,000"),
        ] {
            assert_eq!(label(value), expected);
        }
    }

    #[test]
    fn ratios_have_at_most_one_decimal() {
        for (value, expected) in [
            (0.333, "0.33"),
            (1.0, "1"),
            (2.554, "2.6"),
            (7.99, "8"),
            (13.5, "14"),
            (1234.0, "1,234"),
        ] {
            assert_eq!(ratio(value), expected);
        }
    }
}
