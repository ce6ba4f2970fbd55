//! Every module begins with a header that states its purpose.

use crate::{Source, Violation};

/// Reports files without a `//!` header of at least one sentence.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    let what =
        "begin the file with a `//!` header of 2 to 8 lines: purpose, invariants, bounds of queues";
    let bare = sources.iter().filter(|source| !is_sentence(&header(source.text())));
    bare.map(|source| Violation::at(&source.path, 1, what)).collect()
}

/// The text of the `//!` lines a file begins with.
fn header(text: &str) -> String {
    let lines = text.lines().map(str::trim).skip_while(|line| line.is_empty());
    let lines = lines.map_while(|line| line.strip_prefix("//!")).map(str::trim);
    lines.collect::<Vec<_>>().join(" ")
}

/// True for at least three words and one punctuation mark that ends a clause.
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
            ("//! Parses module headers.\nfn a() {}", true),
            ("\n//! Parses the headers\n//! of modules.\n", true),
            ("fn a() {}", false),
            ("//! placeholder\nfn a() {}", false),
            ("/// Not about the file, but about the item.\nfn a() {}", false),
        ] {
            let sources = Tree::of([("crates/a/src/mod.rs", text)]).sources().unwrap();
            assert_eq!(check(&sources).is_empty(), good, "{text}");
        }
    }
}
