//! One Rust file: its crate, its tokens, and which lines are test code.
//!
//! A whole file is test code in the folders `tests/` and `benches/`, and if its parent declares the module under
//! `#[cfg(test)]`.

use crate::lexer::{self, Function, Lexed, Token};

/// A Rust file, read.
#[derive(Debug)]
pub struct Source {
    /// From the root of the repository.
    pub path: String,
    /// The folder's name below `crates/`; `None` for files elsewhere.
    pub crate_name: Option<String>,
    /// The whole file is test code.
    pub test: bool,
    text: String,
    lexed: Lexed,
}

impl Source {
    /// Parses a file.
    ///
    /// # Errors
    /// The path and the reason if the text is not Rust.
    pub fn parse(path: &str, text: &str) -> Result<Self, String> {
        let lexed = lexer::lex(text).map_err(|error| format!("{path} is not Rust: {error}"))?;
        let crate_name = path.strip_prefix("crates/").and_then(|rest| rest.split('/').next());
        Ok(Self {
            path: path.to_owned(),
            crate_name: crate_name.map(str::to_owned),
            test: path.split('/').any(|folder| matches!(folder, "tests" | "benches")),
            text: text.to_owned(),
            lexed,
        })
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Counts lines that are neither blank nor test code; in a file of test code, all lines that are not blank.
    pub fn code_lines(&self) -> usize {
        let lines = self.text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        lines.filter(|(i, _)| self.test || !self.is_test_line(i + 1)).count()
    }

    /// Counts lines, with comments and blank lines, that are not test code.
    pub fn production_lines(&self) -> usize {
        (1..=self.text.lines().count()).filter(|line| !self.is_test_line(*line)).count()
    }

    /// True if the file has a test function of this name.
    pub fn has_test(&self, name: &str) -> bool {
        let mut functions = self.lexed.functions.iter();
        functions.any(|function| function.name.as_ref() == name && (self.test || function.test))
    }

    /// True if the file has a function of this name.
    pub fn has_function(&self, name: &str) -> bool {
        self.lexed.functions.iter().any(|function| function.name.as_ref() == name)
    }

    /// True if a line belongs to an item that is test code.
    pub fn is_test_line(&self, line: usize) -> bool {
        self.test || self.lexed.test_lines.iter().any(|lines| lines.contains(&line))
    }

    /// The values of constants of this name, without spaces.
    pub(crate) fn constants(&self, name: &str) -> Vec<String> {
        self.values("const", name, "=", |text| text == ";")
    }

    /// The values given to fields of this name, without spaces.
    pub(crate) fn fields(&self, name: &str) -> Vec<String> {
        self.values("", name, ":", |text| matches!(text, "," | "}"))
    }

    /// The tokens after `keyword name … sign`, up to the end token outside of brackets.
    fn values(&self, keyword: &str, name: &str, sign: &str, ends: fn(&str) -> bool) -> Vec<String> {
        let tokens = &self.lexed.tokens;
        let named = (0..tokens.len()).filter(|i| {
            let before = i.checked_sub(1).map_or("", |before| tokens[before].text.as_str());
            tokens[*i].text == name && (keyword.is_empty() || before == keyword)
        });
        let after = named.filter_map(|i| {
            let sign = tokens[i + 1..].iter().take(8).position(|token| token.text == sign)?;
            (keyword == "const" || sign == 0).then(|| &tokens[i + 2 + sign..])
        });
        after.map(|rest| until(rest, ends)).collect()
    }

    pub(crate) fn tokens(&self) -> &[Token] {
        &self.lexed.tokens
    }

    pub(crate) fn is_test(&self, token: &Token) -> bool {
        self.test || token.test
    }

    /// Functions outside tests.
    pub(crate) fn functions(&self) -> impl Iterator<Item = &Function> {
        self.lexed.functions.iter().filter(|function| !self.test && !function.test)
    }

    /// Lines of a function that are not blank.
    pub(crate) fn function_lines(&self, function: &Function) -> usize {
        let (first, last) = function.lines.clone().into_inner();
        let lines = self.text.lines().skip(first - 1).take(last + 1 - first);
        lines.filter(|line| !line.trim().is_empty()).count()
    }

    /// Paths of the modules declared here as tests, without their ending.
    fn test_modules(&self) -> impl Iterator<Item = String> {
        let (folder, file) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let base = match file {
            "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
            file => format!("{folder}/{}", file.trim_end_matches(".rs")),
        };
        self.lexed.test_modules.iter().map(move |name| format!("{base}/{name}"))
    }
}

/// The text of tokens up to the first end token at this depth.
fn until(tokens: &[Token], ends: fn(&str) -> bool) -> String {
    let mut depth = 0_i32;
    let inside = tokens.iter().take_while(|token| {
        let at_end = depth == 0 && ends(&token.text);
        depth += match token.text.as_str() {
            "(" | "[" | "{" => 1,
            ")" | "]" | "}" => -1,
            _ => 0,
        };
        !at_end
    });
    inside.map(|token| token.text.as_str()).collect()
}

/// Marks the files of modules that their parents declare as tests.
pub(crate) fn mark_test_modules(sources: &mut [Source]) {
    let modules: Vec<String> = sources.iter().flat_map(Source::test_modules).collect();
    for source in sources {
        let below = |module: &String| {
            let rest = source.path.strip_prefix(module.as_str());
            rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        source.test = source.test || modules.iter().any(below);
    }
}

#[cfg(test)]
mod tests {
    use crate::Tree;

    #[test]
    fn files_of_test_modules_are_test_code() {
        let tree = Tree::of([
            ("crates/a/src/lib.rs", "#[cfg(test)] mod model; mod real;"),
            ("crates/a/src/model.rs", "mod deep;"),
            ("crates/a/src/model/deep.rs", ""),
            ("crates/a/src/real.rs", "#[cfg(test)] mod inner;"),
            ("crates/a/src/real/inner.rs", ""),
            ("crates/a/tests/whole.rs", ""),
        ]);
        let sources = tree.sources().unwrap();
        let tests: Vec<&str> = sources.iter().filter(|s| s.test).map(|s| s.path.as_str()).collect();
        assert_eq!(
            tests,
            [
                "crates/a/src/model.rs",
                "crates/a/src/model/deep.rs",
                "crates/a/src/real/inner.rs",
                "crates/a/tests/whole.rs"
            ]
        );
    }

    #[test]
    fn lines_of_tests_and_blank_lines_do_not_count() {
        let text =
            "//! A.\n\nfn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
        let tree = Tree::of([("crates/a/src/lib.rs", text)]);
        assert_eq!(tree.sources().unwrap()[0].code_lines(), 3);
    }
}
