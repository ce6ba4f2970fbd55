//! Files of at most 500 lines and functions of at most 70, blank lines and tests apart.
//!
//! Owns the limits' check and the report of medians, which has no limit: it is there to be looked at.

use crate::policy::limits;
use crate::{Source, Violation};

/// Files over the limit.
pub fn files(sources: &[Source]) -> Vec<Violation> {
    let long = sources.iter().filter(|source| source.code_lines() > limits::FILE);
    let what = |source: &Source| {
        format!("{} lines, at most {}: split it by what it owns", source.code_lines(), limits::FILE)
    };
    long.map(|source| Violation::of(&source.path, what(source))).collect()
}

/// Functions over the limit.
pub fn functions(sources: &[Source]) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in sources {
        for function in source.functions() {
            let lines = source.function_lines(function);
            if lines > limits::FUNCTION {
                let (name, max) = (&function.name, limits::FUNCTION);
                let what = format!(
                    "`{name}` has {lines} lines, at most {max}: name its steps and call them"
                );
                found.push(Violation::at(&source.path, *function.lines.start(), what));
            }
        }
    }
    found
}

/// Median, 90th percentile and maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// How many were measured.
    pub count: usize,
    /// Half are at most this.
    pub median: usize,
    /// Nine of ten are at most this.
    pub p90: usize,
    /// The largest.
    pub max: usize,
}

impl Spread {
    /// Of some lengths; zeros of none.
    pub fn of(mut lengths: Vec<usize>) -> Self {
        lengths.sort_unstable();
        let count = lengths.len();
        let at = |percent: usize| lengths.get((count * percent / 100).min(count.saturating_sub(1)));
        let at = |percent| at(percent).copied().unwrap_or(0);
        Self { count, median: at(50), p90: at(90), max: at(100) }
    }
}

/// The spread of files and of functions, tests apart.
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
    fn a_function_over_the_limit_is_caught_and_tests_are_free() {
        let body = "    one();\n".repeat(limits::FUNCTION - 2);
        let fits = format!("fn a() {{\n\n{body}}}\n");
        let long = format!("fn a() {{\n{body}    two();\n}}\n");
        assert_eq!(functions(&sources(&fits)).len(), 0);
        assert_eq!(functions(&sources(&long)).len(), 1);
        assert_eq!(functions(&sources(&format!("#[test]\n{long}"))).len(), 0);
    }

    #[test]
    fn spreads() {
        let spread = Spread::of((1..=100).rev().collect());
        assert_eq!(spread, Spread { count: 100, median: 51, p90: 91, max: 100 });
        assert_eq!(Spread::of(Vec::new()).max, 0);
    }
}
