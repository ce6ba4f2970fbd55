//! Compares the output of a program with the output that a page shows.

/// Whether an output is the shown one: `…` stands for any text, and several spaces equal one.
pub fn as_shown(shown: &str, output: &str) -> bool {
    let narrow = |text: &str| {
        let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        lines.collect::<Vec<_>>().join("\n")
    };
    let (shown, output) = (narrow(shown), narrow(output));
    let mut parts: Vec<&str> = shown.split('…').map(str::trim).collect();
    let (first, last) = (parts.remove(0), parts.pop());
    let Some(mut rest) = output.strip_prefix(first) else { return false };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    last.map_or(rest.is_empty(), |last| rest.ends_with(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_stand_for_any_text_and_nothing_else_does() {
        for (shown, output, expected) in [
            ("1\n", "1\n", true),
            ("1\n", "12\n", false),
            ("1\n", "1\n2\n", false),
            ("a …\n", "a b\nc\n", true),
            ("…\nb c …\n", "a\nb   c d\n", true),
            ("…\nguarded: …\n", "A\nguarded\n", false),
            ("a … c\n", "a b\n", false),
        ] {
            assert_eq!(as_shown(shown, output), expected, "{shown:?} {output:?}");
        }
    }
}
