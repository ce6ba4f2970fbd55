//! Every module begins by saying what it is.

use crate::{Source, Violation};

/// Files without a `//!` header of at least one sentence.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    let what =
        "begin the file with `//!` and a sentence: what it owns, and what it refuses to know";
    let bare = sources.iter().filter(|source| !is_sentence(&header(source.text())));
    bare.map(|source| Violation::at(&source.path, 1, what)).collect()
}

/// The text of the `//!` lines a file begins with.
fn header(text: &str) -> String {
    let lines = text.lines().map(str::trim).skip_while(|line| line.is_empty());
    let lines = lines.map_while(|line| line.strip_prefix("//!")).map(str::trim);
    lines.collect::<Vec<_>>().join(" ")
}

/// At least three words, closed like a sentence.
fn is_sentence(header: &str) -> bool {
    let closed = header.find(['.', ':', '?']).is_some();
    closed && header.split_whitespace().count() >= 3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tree;

    #[test]
    fn a_module_without_a_sentence_is_caught() {
        for (text, good) in [
            ("//! Owns the words of a header.\nfn a() {}", true),
            ("\n//! Owns the words\n//! of a header.\n", true),
            ("fn a() {}", false),
            ("//! placeholder\nfn a() {}", false),
            ("/// Not about the file, but about the item.\nfn a() {}", false),
        ] {
            let sources = Tree::of([("crates/a/src/mod.rs", text)]).sources().unwrap();
            assert_eq!(check(&sources).is_empty(), good, "{text}");
        }
    }
}
