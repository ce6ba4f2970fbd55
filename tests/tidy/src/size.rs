//! Checks that files have at most 500 lines, without blank lines and tests, and reports lengths of files and functions.
//!
//! Clippy limits the length of a function (`too-many-lines-threshold`).

use crate::policy::limits;
use crate::{Source, Violation};

/// Files over the limit.
pub fn files(sources: &[Source]) -> Vec<Violation> {
    let long = sources.iter().filter(|source| source.code_lines() > limits::FILE);
    let what = |source: &Source| {
        format!("{} lines, at most {}: split it by purpose", source.code_lines(), limits::FILE)
    };
    long.map(|source| Violation::of(&source.path, what(source))).collect()
}

/// Median, 90th percentile and maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Number of samples.
    pub count: usize,
    /// Median.
    pub median: usize,
    /// 90th percentile.
    pub p90: usize,
    /// Maximum.
    pub max: usize,
}

impl Spread {
    /// The spread of `lengths`; zeros if there are none.
    pub fn of(mut lengths: Vec<usize>) -> Self {
        lengths.sort_unstable();
        let count = lengths.len();
        let at = |percent: usize| lengths.get((count * percent / 100).min(count.saturating_sub(1)));
        let at = |percent| at(percent).copied().unwrap_or(0);
        Self { count, median: at(50), p90: at(90), max: at(100) }
    }
}

/// The spread of lengths of files and of functions, without tests.
pub fn report(sources: &[Source]) -> (Spread, Spread) {
    let ours = || sources.iter().filter(|source| !source.test);
    let files = ours().map(Source::code_lines).collect();
    let functions = ours().flat_map(|source| source.functions().map(|f| source.function_lines(f)));
    (Spread::of(files), Spread::of(functions.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tree;

    fn sources(text: &str) -> Vec<Source> {
        Tree::of([("crates/a/src/lib.rs", text)]).sources().unwrap()
    }

    #[test]
    fn a_file_over_the_limit_is_caught_and_its_tests_do_not_count() {
        let code = "fn a() {}\n".repeat(limits::FILE);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{code}}}\n");
        assert_eq!(files(&sources(&format!("{code}\n\n{tests}"))).len(), 0);
        assert_eq!(files(&sources(&format!("{code}fn b() {{}}\n{tests}"))).len(), 1);
    }

    #[test]
    fn spreads() {
        let spread = Spread::of((1..=100).rev().collect());
        assert_eq!(spread, Spread { count: 100, median: 51, p90: 91, max: 100 });
        assert_eq!(Spread::of(Vec::new()).max, 0);
    }
}
