//! Checks that files have at most 500 lines, without blank lines and tests, that they are few, and reports lengths of files
//! and functions.
//!
//! Clippy limits the length of a function (`too-many-lines-threshold`).

use std::collections::BTreeMap;

use crate::policy::limits;
use crate::{Source, Violation};

/// A file with fewer production lines is small: most of them belong into the file that they serve.
const SMALL: usize = 60;
/// The crate that measures: it is not part of what users run.
const MEASURE: &str = "crates/measure/";

/// Files over the limit.
pub fn files(sources: &[Source]) -> Vec<Violation> {
    let long = sources.iter().filter(|source| source.code_lines() > limits::FILE);
    let what = |source: &Source| {
        format!("{} lines, at most {}: split it by purpose", source.code_lines(), limits::FILE)
    };
    long.map(|source| Violation::of(&source.path, what(source))).collect()
}

/// The size of a crate, with comments and blank lines, without tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CrateSize {
    /// Production lines.
    pub lines: usize,
    /// Files with production lines.
    pub files: usize,
    /// Files with fewer production lines than a small file may have.
    pub small: usize,
}

/// The size of each crate of the product, without the code that measures.
pub fn crates(sources: &[Source]) -> BTreeMap<&str, CrateSize> {
    let mut sizes: BTreeMap<&str, CrateSize> = BTreeMap::new();
    let product = sources.iter().filter(|source| {
        !source.test && !source.path.starts_with(MEASURE) && source.path.contains("/src/")
    });
    for source in product {
        let Some(krate) = &source.crate_name else { continue };
        let (size, lines) = (sizes.entry(krate).or_default(), source.production_lines());
        size.lines += lines;
        size.files += 1;
        size.small += usize::from(lines < SMALL);
    }
    sizes
}

/// The sum of all crates.
pub fn product(sources: &[Source]) -> CrateSize {
    let sizes = crates(sources);
    let sum = |of: fn(&CrateSize) -> usize| sizes.values().map(of).sum();
    CrateSize { lines: sum(|s| s.lines), files: sum(|s| s.files), small: sum(|s| s.small) }
}

/// More files than the limits of `policy.rs`.
pub fn rooms(sources: &[Source]) -> Vec<Violation> {
    let CrateSize { files, small, .. } = product(sources);
    let counts = [("files", files, limits::FILES), ("small files", small, limits::SMALL_FILES)];
    let over = counts.into_iter().filter(|(_, count, max)| count > max);
    let what = |(what, count, max)| {
        format!("{count} {what}, at most {max}: put new code into the file of its noun")
    };
    over.map(|count| Violation::of("crates", what(count))).collect()
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
    fn tests_and_measurements_are_no_part_of_the_product() {
        let line = "fn a() {}\n";
        let tests = format!("#[cfg(test)]\nmod tests {{\n{line}}}\n");
        let tree = Tree::of([
            ("crates/a/src/lib.rs", line.repeat(SMALL).as_str()),
            ("crates/a/src/b.rs", format!("{line}\n// a comment\n{tests}").as_str()),
            ("crates/a/tests/c.rs", line),
            ("crates/measure/src/lib.rs", line),
        ]);
        let size = CrateSize { lines: SMALL + 3, files: 2, small: 1 };
        assert_eq!(product(&tree.sources().unwrap()), size);
    }

    #[test]
    fn spreads() {
        let spread = Spread::of((1..=100).rev().collect());
        assert_eq!(spread, Spread { count: 100, median: 51, p90: 91, max: 100 });
        assert_eq!(Spread::of(Vec::new()).max, 0);
    }
}
