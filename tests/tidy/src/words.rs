//! Checks the names of modules and of their declarations against the glossary (`docs/contributing/glossary.md`).
//!
//! The lists contain only words that are wrong in every name of the workspace, to avoid false reports.

use crate::lexer::{Kind, Token};
use crate::private_words::snake;
use crate::{Source, Violation};

/// Names of modules that do not describe the contents.
const MODULES: [&str; 9] =
    ["utils", "util", "common", "helpers", "helper", "manager", "managers", "misc", "old"];
/// Words that introduce a name.
const DECLARE: [&str; 8] = ["fn", "struct", "enum", "trait", "type", "mod", "const", "static"];
/// Forbidden parts of names, with their replacements.
const PARTS: [(&str, &str); 8] = [
    ("master", "leader, node or member"),
    ("replica", "node, member, voter or learner"),
    ("manager", "a noun for what it stores"),
    ("util", "a verb for what it does"),
    ("utils", "a verb for what it does"),
    ("helper", "a verb for what it does"),
    ("notification", "event or notice"),
    ("checkpoint", "snapshot"),
];
/// Forbidden names, with their replacements.
const NAMES: [(&str, &str); 4] = [
    ("lock_id", "lock, or fencing token"),
    ("LockId", "LockName, or FencingToken"),
    ("lease_id", "session and lease generation"),
    ("LeaseId", "SessionId and lease generation"),
];
/// Forbidden endings of type names.
const ENDINGS: [&str; 2] = ["Handler", "Impl"];

/// Reports files and folders whose names do not describe the contents.
pub fn modules(sources: &[Source]) -> Vec<Violation> {
    let what = |name: &str| format!("`{name}` does not describe the contents: name the purpose");
    let mut found = Vec::new();
    for source in sources {
        let names = source.path.split('/').map(|name| name.trim_end_matches(".rs"));
        let bad = names
            .filter(|name| says_nothing(name))
            .map(|name| Violation::of(&source.path, what(name)));
        found.extend(bad);
        let inline = declared(source)
            .filter(|(keyword, name)| keyword.text == "mod" && says_nothing(&name.text));
        found.extend(
            inline.map(|(_, name)| Violation::at(&source.path, name.line, what(&name.text))),
        );
    }
    found
}

fn says_nothing(name: &str) -> bool {
    let versioned = || {
        let (_, last) = name.rsplit_once('_')?;
        let digits = last.strip_prefix('v')?;
        Some(!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    MODULES.contains(&name) || name.ends_with("_old") || versioned().unwrap_or(false)
}

/// Reports declared names with a word that the glossary replaces.
pub fn glossary(sources: &[Source]) -> Vec<Violation> {
    let mut found = Vec::new();
    // The comparison names the parts of other systems as those systems do.
    for source in sources.iter().filter(|source| !source.path.starts_with("crates/measure/")) {
        for (keyword, name) in declared(source).filter(|(keyword, _)| is_ours(source, keyword)) {
            if let Some(what) = objection(&keyword.text, &name.text) {
                found.push(Violation::at(&source.path, name.line, what));
            }
        }
    }
    found
}

/// True if the declaration determines the name: a method without `pub` may have the name of a trait's method.
fn is_ours(source: &Source, keyword: &Token) -> bool {
    let line = source.text().lines().nth(keyword.line - 1).unwrap_or_default();
    keyword.text != "fn" || line.starts_with("fn ") || line.contains("pub")
}

fn objection(keyword: &str, name: &str) -> Option<String> {
    if keyword == "fn" && name.starts_with("get_") && name != "get_mut" {
        return Some(format!("`{name}`: remove `get_`"));
    }
    if let Some((_, instead)) = NAMES.iter().find(|(word, _)| *word == name) {
        return Some(format!("`{name}`: use {instead}"));
    }
    let part = PARTS.iter().find(|(word, _)| snake(name).split('_').any(|part| part == *word));
    if let Some((word, instead)) = part {
        return Some(format!("`{name}`: replace {word} by {instead}"));
    }
    let is_type = matches!(keyword, "struct" | "enum" | "trait" | "type");
    let ending = ENDINGS.iter().find(|ending| is_type && name.ends_with(**ending))?;
    Some(format!("`{name}`: a type is a noun, not a {ending}"))
}

/// The names declared in a file, with their keywords.
fn declared(source: &Source) -> impl Iterator<Item = (&Token, &Token)> {
    let pairs = source.tokens().windows(2).map(|pair| (&pair[0], &pair[1]));
    pairs.filter(|(keyword, name)| {
        keyword.kind == Kind::Word
            && name.kind == Kind::Word
            && DECLARE.contains(&keyword.text.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tree;

    fn found(rule: fn(&[Source]) -> Vec<Violation>, path: &str, text: &str) -> usize {
        rule(&Tree::of([(path, text)]).sources().unwrap()).len()
    }

    #[test]
    fn modules_that_say_nothing_are_caught() {
        for path in [
            "src/utils.rs",
            "tests/common/mod.rs",
            "src/log_old.rs",
            "src/log_v2.rs",
            "src/manager.rs",
        ] {
            assert_eq!(found(modules, &format!("crates/a/{path}"), ""), 1, "{path}");
        }
        for path in ["src/reserve.rs", "src/common_path.rs", "src/old_log.rs", "src/v.rs"] {
            assert_eq!(found(modules, &format!("crates/a/{path}"), ""), 0, "{path}");
        }
        assert_eq!(found(modules, "crates/a/src/lib.rs", "mod helpers { }"), 1);
    }

    #[test]
    fn names_that_the_glossary_replaces_are_caught() {
        for text in [
            "fn get_lock() {}",
            "struct SessionManager;",
            "struct AcquireHandler;",
            "enum MasterState {}",
            "const REPLICA_COUNT: u8 = 3;",
            "type LeaseId = u64;",
            "fn on_checkpoint() {}",
        ] {
            assert_eq!(found(glossary, "crates/a/src/lib.rs", text), 1, "{text}");
        }
        for text in
            ["fn get() {}", "struct Replication;", "use axum::handler::Handler;", "fn handle() {}"]
        {
            assert_eq!(found(glossary, "crates/a/src/lib.rs", text), 0, "{text}");
        }
    }
}
