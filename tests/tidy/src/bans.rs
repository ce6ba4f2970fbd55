//! Forbidden code: panics outside tests, unfinished marks, and tests that are skipped or sleep.
//!
//! [`crate::policy`] has the exceptions with their reasons.

use crate::lexer::{Kind, Token};
use crate::policy::{self, Exception};
use crate::{Source, Tree, Violation};

/// Extensions of the files that are searched for unfinished marks.
const MARKED: [&str; 8] = [".rs", ".md", ".toml", ".sql", ".sh", ".service", ".yml", ".yaml"];

/// `.unwrap()` and `.expect(…)` outside tests. `self.expect(…)` is a parser's method and does not panic.
pub fn unwraps(sources: &[Source]) -> Vec<Violation> {
    each(sources, |source, tokens, i| {
        let called = matches!(tokens[i].text.as_str(), "unwrap" | "expect")
            && is_at(tokens, i, -1, ".")
            && !is_at(tokens, i, -2, "self")
            && is_at(tokens, i, 1, "(");
        let what = || {
            format!("`.{}(…)` outside tests: return an error with the next step", tokens[i].text)
        };
        (called && !source.is_test(&tokens[i])).then(what)
    })
}

/// Panicking macros outside tests; assertions are allowed.
pub fn panics(sources: &[Source]) -> Vec<Violation> {
    each(sources, |source, tokens, i| {
        let token = &tokens[i];
        let called = matches!(token.text.as_str(), "panic" | "unreachable")
            && is_at(tokens, i, 1, "!")
            && !source.is_test(token)
            && !policy::excepted(policy::PANICS, &source.path, token.function.as_deref());
        called.then(|| {
            format!("`{}!` outside tests: use a type to exclude it, or return an error", token.text)
        })
    })
}

/// Log fields in `Debug` format outside tests: `?field`, `name = ?value`.
pub fn debug_text_in_logs(sources: &[Source]) -> Vec<Violation> {
    let what = "a log field has `Debug` format: log a number, a word or text (`%`), one field each";
    log_fields(sources, what, |before, text, _| text == "?" && ["(", ",", "="].contains(&before))
}

/// Log fields outside tests with a name that each line has already: the node, the level and the module that log, and the time.
pub fn repeated_log_fields(sources: &[Source]) -> Vec<Violation> {
    let what = "each log line has a field with this name: choose another one, e.g. `peer` or `member` for a node";
    log_fields(sources, what, |before, text, after| {
        ["node", "level", "target", "timestamp"].contains(&text)
            && ["(", ",", "%"].contains(&before)
            && ["=", ",", ")"].contains(&after)
    })
}

/// Log calls outside tests with a token for which `is_wrong` is true. It gets the token between its neighbours.
fn log_fields(
    sources: &[Source],
    what: &str,
    is_wrong: impl Fn(&str, &str, &str) -> bool,
) -> Vec<Violation> {
    each(sources, |source, tokens, i| {
        let token = &tokens[i];
        let level =
            matches!(token.text.as_str(), "error" | "warn" | "info" | "debug" | "trace" | "span");
        if !level || !is_at(tokens, i, 1, "!") || source.is_test(token) {
            return None;
        }
        let mut depth = 0_usize;
        for at in i + 2..tokens.len() - 1 {
            let [before, text, after] = [at - 1, at, at + 1].map(|at| tokens[at].text.as_str());
            match text {
                "(" => depth += 1,
                ")" if depth == 1 => return None,
                ")" => depth -= 1,
                _ if depth == 1 && is_wrong(before, text, after) => return Some(what.to_owned()),
                _ => {}
            }
        }
        None
    })
}

/// Tests that do not run, or that pass on any panic.
pub fn skipped_tests(sources: &[Source]) -> Vec<Violation> {
    each(sources, |_, tokens, i| {
        let attribute = is_at(tokens, i, -1, "[") && is_at(tokens, i, -2, "#");
        match tokens[i].text.as_str() {
            "ignore" if attribute => Some("`#[ignore]`: run it, fix it or delete it".to_owned()),
            "should_panic" if attribute => {
                Some("`#[should_panic]`: return an error and match on it".to_owned())
            }
            _ => None,
        }
    })
}

/// Examples in the documentation of a library whose manifest disables doctests.
pub fn skipped_examples(tree: &Tree) -> Vec<Violation> {
    let is_example = |line: &str| {
        let text = line.trim().strip_prefix("///").or_else(|| line.trim().strip_prefix("//!"));
        let info = text.and_then(|text| text.trim().strip_prefix("```"));
        info.is_some_and(|info| {
            ["rust", "no_run", "compile_fail"].iter().any(|word| info.starts_with(word))
        }) || line.starts_with("#[doc = include_str!")
    };
    let mut found = Vec::new();
    for (manifest, _) in
        tree.ending("Cargo.toml").filter(|(_, text)| text.contains("doctest = false"))
    {
        let folder = manifest.trim_end_matches("Cargo.toml").to_owned() + "src/";
        for (path, text) in tree.ending(".rs").filter(|(path, _)| path.starts_with(&folder)) {
            let lines = text.lines().enumerate().filter(|(_, line)| is_example(line));
            let what = format!("this example never runs: remove `doctest = false` from {manifest}");
            found.extend(lines.map(|(i, _)| Violation::at(path, i + 1, what.clone())));
        }
    }
    found
}

/// Tests that wait for a fixed time instead of a condition.
pub fn sleeps(sources: &[Source]) -> Vec<Violation> {
    each(sources, |source, tokens, i| {
        let token = &tokens[i];
        let called = matches!(token.text.as_str(), "sleep" | "sleep_ms")
            && is_at(tokens, i, 1, "(")
            && !is_at(tokens, i, -1, "fn")
            && source.is_test(token)
            && !policy::excepted(policy::SLEEPS, &source.path, token.function.as_deref());
        let what = "a test sleeps: wait for the condition instead, with a deadline; if the sleep is the fault \
                    under test or the step of such a wait, list it with its reason in tests/tidy/src/policy.rs";
        called.then(|| what.to_owned())
    })
}

/// Exceptions for functions that no longer exist.
pub fn stale_exceptions(sources: &[Source]) -> Vec<Violation> {
    let is_there = |exception: &Exception| {
        let mut sources = sources.iter().filter(|source| source.path == exception.path);
        sources.any(|source| source.has_function(exception.function))
    };
    let stale =
        policy::SLEEPS.iter().chain(policy::PANICS).filter(|exception| !is_there(exception));
    let what = |exception: &Exception| {
        format!(
            "there is no `{}`: remove its exception from tests/tidy/src/policy.rs",
            exception.function
        )
    };
    stale.map(|exception| Violation::of(exception.path, what(exception))).collect()
}

/// Unfinished marks in any text of the repository.
pub fn marks(tree: &Tree) -> Vec<Violation> {
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    let mut found = Vec::new();
    let ours = |path: &str| {
        MARKED.iter().any(|ending| path.ends_with(ending)) || path.starts_with("scripts/")
    };
    for (path, file) in tree.files().filter(|(path, _)| ours(path)) {
        for (i, line) in file.text.lines().enumerate() {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            if words.any(|word| marks.contains(&word)) {
                found.push(Violation::at(
                    path,
                    i + 1,
                    "an unfinished mark: do it, or open an issue",
                ));
            }
        }
    }
    found
}

fn is_at(tokens: &[Token], i: usize, offset: isize, text: &str) -> bool {
    let token = i.checked_add_signed(offset).and_then(|at| tokens.get(at));
    token.is_some_and(|token| token.text == text)
}

fn each(
    sources: &[Source],
    say: impl Fn(&Source, &[Token], usize) -> Option<String>,
) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in sources {
        let tokens = source.tokens();
        for i in (0..tokens.len()).filter(|i| tokens[*i].kind == Kind::Word) {
            if let Some(what) = say(source, tokens, i) {
                found.push(Violation::at(&source.path, tokens[i].line, what));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(rule: fn(&[Source]) -> Vec<Violation>, path: &str, text: &str) -> Vec<usize> {
        let sources = Tree::of([(path, text)]).sources().unwrap();
        rule(&sources).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn unwraps_outside_tests_are_caught() {
        let text = "#[expect(dead_code, reason = \"…\")]\nfn a() { b.unwrap(); }\nfn c() { d.expect(\"e\"); }\n\
                    fn f() { g.unwrap_or(h); self.expect(k) }\n#[cfg(test)]\nmod tests { fn i() { j.unwrap(); } }";
        assert_eq!(lines(unwraps, "crates/a/src/lib.rs", text), [2, 3]);
        assert_eq!(lines(unwraps, "crates/a/tests/b.rs", text), []);
    }

    #[test]
    fn panics_outside_tests_are_caught() {
        let text = "fn a() { panic!() }\nfn b() { unreachable!(\"c\") }\nfn d() { assert!(e); }\n#[test]\nfn f() { panic!() }";
        assert_eq!(lines(panics, "crates/a/src/lib.rs", text), [1, 2]);
    }

    #[test]
    fn debug_text_in_logs_is_caught() {
        let text = "fn a() { tracing::info!(?b, \"c\"); }\nfn d() { warn!(e = ?f, \"g\"); }\n\
                    fn h() { debug!(%i, j = k?, l(m?), \"n\"); }\n#[test]\nfn o() { tracing::info!(?p); }";
        assert_eq!(lines(debug_text_in_logs, "crates/a/src/lib.rs", text), [1, 2]);
    }

    #[test]
    fn a_log_field_with_a_name_that_each_line_has_is_caught() {
        let text = "fn a() { tracing::info!(node = b.0, \"c\"); }\nfn d() { warn!(%node, \"e\"); }\n\
                    fn f() { debug!(peer = node.0, g(node), \"node\"); debug!(target: \"i\", \"j\"); }\n#[test]\nfn h() { info!(node); }";
        assert_eq!(lines(repeated_log_fields, "crates/a/src/lib.rs", text), [1, 2]);
    }

    #[test]
    fn skipped_tests_are_caught() {
        let text = "#[test]\n#[ignore = \"slow\"]\nfn a() {}\n#[test]\n#[should_panic(expected = \"b\")]\nfn c() { ignore() }";
        assert_eq!(lines(skipped_tests, "crates/a/tests/b.rs", text), [2, 5]);
    }

    #[test]
    fn examples_that_never_run_are_caught() {
        let example = "/// Adds.\n///\n/// ```rust\n/// assert_eq!(1 + 1, 2);\n/// ```\nfn a() {}";
        let tree = |manifest| {
            Tree::of([("crates/a/Cargo.toml", manifest), ("crates/a/src/lib.rs", example)])
        };
        assert_eq!(skipped_examples(&tree("[lib]\ndoctest = false"))[0].line, 3);
        assert_eq!(skipped_examples(&tree("[lib]")).len(), 0);
        let guide = Tree::of([
            ("crates/a/Cargo.toml", "[lib]\ndoctest = false"),
            ("crates/a/src/lib.rs", "#[doc = include_str!(\"guide.md\")]\nmod guide {}"),
        ]);
        assert_eq!(skipped_examples(&guide)[0].line, 1);
    }

    #[test]
    fn sleeping_tests_are_caught_and_sleeping_code_is_not_a_test() {
        let text = "fn a() { std::thread::sleep(b); }\nasync fn c() { tokio::time::sleep(d).await; }\nfn e() { sleep(f); }";
        assert_eq!(lines(sleeps, "crates/a/tests/b.rs", text), [1, 2, 3]);
        assert_eq!(lines(sleeps, "tests/lab/src/b.rs", text), [1, 2, 3]);
        assert_eq!(lines(sleeps, "crates/a/src/b.rs", text), []);
    }

    #[test]
    fn exceptions_whose_place_is_gone_are_caught() {
        let all = policy::SLEEPS.len() + policy::PANICS.len();
        assert_eq!(stale_exceptions(&[]).len(), all);
        let text = format!("fn {}() {{}}", policy::SLEEPS[0].function);
        let sources = Tree::of([(policy::SLEEPS[0].path, text.as_str())]).sources().unwrap();
        assert_eq!(stale_exceptions(&sources).len(), all - 1);
    }

    #[test]
    fn unfinished_marks_are_caught_in_comments_too() {
        let mark = concat!("// TO", "DO: later\n// TODOMIR is a town");
        let tree = Tree::of([("a.md", mark), ("scripts/b", mark), ("c.bin", mark)]);
        assert_eq!(marks(&tree).len(), 2);
    }
}
