//! Checks which crates may name a dependency, and which names a crate must not use (`docs/contributing/architecture.md`).
//!
//! [`crate::policy`] has the tables. Packages of `tests/` are exempt.

use crate::lexer::{Kind, Token};
use crate::manifest::Manifest;
use crate::policy::{self, AllowedUse, ForbiddenUse};
use crate::{Source, Tree, Violation};

/// Reports uses of a third-party crate outside the crates of its `AllowedUse`, in code and in tests of crates.
pub fn named_only_at_home(sources: &[Source]) -> Vec<Violation> {
    each_word(sources, |source, token| {
        let crate_name = source.crate_name.as_deref()?;
        let home = policy::HOMES.iter().find(|home| home.words.contains(&token.text.as_str()))?;
        (!home.crates.contains(&crate_name)).then(|| foreign(home, &token.text))
    })
}

/// Reports dependencies on a third-party crate outside the crates of its `AllowedUse`.
///
/// # Errors
/// A manifest that cannot be read.
pub fn depended_on_only_at_home(tree: &Tree) -> Result<Vec<Violation>, String> {
    let mut found = Vec::new();
    for crate_name in tree.packages("crates") {
        let path = format!("crates/{crate_name}/Cargo.toml");
        let manifest = Manifest::parse(&path, tree.text(&path).unwrap_or_default())?;
        for (name, _) in manifest.dependencies().into_iter().chain(manifest.dev_dependencies()) {
            let word = name.replace('-', "_");
            let home = policy::HOMES.iter().find(|home| home.words.contains(&word.as_str()));
            if let Some(home) = home.filter(|home| !home.crates.contains(&crate_name)) {
                found.push(Violation::of(&path, foreign(home, name)));
            }
        }
    }
    Ok(found)
}

fn foreign(home: &AllowedUse, word: &str) -> String {
    format!("only `{}` may name `{word}`: {}", home.crates.join("`, `"), home.instead)
}

/// Reports words and modules that a crate must not use.
pub fn absences(sources: &[Source]) -> Vec<Violation> {
    let ours = sources.iter().filter(|source| !source.path.contains(policy::EXAMPLES));
    let code = ours.flat_map(|source| {
        let absence = policy::ABSENCES
            .iter()
            .find(|absence| Some(absence.krate) == source.crate_name.as_deref());
        absence.into_iter().flat_map(|absence| absences_of(source, absence))
    });
    code.collect()
}

fn absences_of(source: &Source, absence: &ForbiddenUse) -> Vec<Violation> {
    let tokens = source.tokens();
    let named = |i: usize| -> bool {
        let word = tokens[i].text.as_str();
        absence.words.contains(&word)
            || (absence.std_modules.contains(&word) && is_std_module(tokens, i))
    };
    let words =
        (0..tokens.len()).filter(|i| tokens[*i].kind == Kind::Word && !source.is_test(&tokens[*i]));
    let found = words.filter(|i| named(*i)).map(|i| {
        let what = format!(
            "`{}` is not allowed in `{}`: {}",
            tokens[i].text, absence.krate, absence.instead
        );
        Violation::at(&source.path, tokens[i].line, what)
    });
    found.collect()
}

/// Crates with the forbidden modules.
const ROOTS: [&str; 2] = ["std", "tokio"];

/// True if the word at `i` is a module of a root: after `std::`, or an entry of `use std::{…}`.
fn is_std_module(tokens: &[Token], i: usize) -> bool {
    let text = |back: usize| i.checked_sub(back).map_or("", |at| tokens[at].text.as_str());
    if text(1) == "::" {
        return ROOTS.contains(&text(2));
    }
    let mut depth = 0;
    let open = tokens[..i].iter().rposition(|token| {
        depth += match token.text.as_str() {
            "}" => 1,
            "{" => -1,
            _ => 0,
        };
        depth < 0 || token.text == ";"
    });
    let is_list = |at: usize| {
        at >= 2
            && tokens[at].text == "{"
            && tokens[at - 1].text == "::"
            && ROOTS.contains(&tokens[at - 2].text.as_str())
    };
    matches!(text(1), "{" | ",") && open.is_some_and(is_list)
}

/// Reports HTTP status codes outside `http` and the programs that act as a user's program.
pub fn status_codes(sources: &[Source]) -> Vec<Violation> {
    let is_user =
        |source: &&Source| policy::BY_PLAIN_HTTP.iter().any(|part| source.path.contains(part));
    let ours = sources.iter().filter(|source| !is_user(source));
    ours.flat_map(status_codes_of).collect()
}

fn status_codes_of(source: &Source) -> Vec<Violation> {
    let Some(crate_name) = source.crate_name.as_deref() else { return Vec::new() };
    let tokens = source.tokens();
    let code = (0..tokens.len()).filter(|i| !source.is_test(&tokens[*i]));
    let found = code.filter_map(|i| {
        let what = if names_status(tokens, i, crate_name) {
            "HTTP statuses belong to `http`: use the stable `code` of the body instead".to_owned()
        } else if is_status_number(tokens, i) && !policy::STATUS_NUMBER_CRATES.contains(&crate_name)
        {
            format!("status {} belongs to `http`: use the stable `code`", tokens[i].text)
        } else {
            return None;
        };
        Some(Violation::at(&source.path, tokens[i].line, what))
    });
    found.collect()
}

/// `StatusCode::…` outside `http`, or the type where it is not allowed either.
fn names_status(tokens: &[Token], i: usize, crate_name: &str) -> bool {
    let names_one = tokens.get(i + 1).is_some_and(|token| token.text == "::");
    let allowed: &[&str] =
        if names_one { &policy::STATUS_CODE_CRATES } else { &policy::STATUS_TYPE_CRATES };
    tokens[i].text == "StatusCode" && !allowed.contains(&crate_name)
}

/// A number from 100 to 599 at most three tokens after the word `status`, as in `status: 423` or `status() == 423`.
fn is_status_number(tokens: &[Token], i: usize) -> bool {
    let digits: String = tokens[i].text.chars().take_while(char::is_ascii_digit).collect();
    let is_status = tokens[i].kind == Kind::Literal && matches!(digits.parse(), Ok(100..=599_u32));
    let before = &tokens[i.saturating_sub(5)..i];
    is_status && before.iter().any(|token| matches!(token.text.as_str(), "status" | "status_code"))
}

/// Reports names with "zxid" outside the ZooKeeper front-end; `types`, `machine` and `service` may use stat fields.
pub fn zxids(sources: &[Source]) -> Vec<Violation> {
    each_word(sources, |source, token| {
        let crate_name = source.crate_name.as_deref()?;
        let word = token.text.as_str();
        let stat = policy::STAT_FIELDS.contains(&word) && policy::STAT_CRATES.contains(&crate_name);
        let foreign = word.to_lowercase().contains("zxid")
            && !stat
            && !policy::ZXID_CRATES.contains(&crate_name);
        foreign.then(|| format!("`{word}`: only `zk` and `zkwire` say zxid; say `revision`"))
    })
}

/// A violation for each word for which `complaint` returns a message, tests included.
fn each_word(
    sources: &[Source],
    complaint: impl Fn(&Source, &Token) -> Option<String>,
) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in sources {
        let words = source.tokens().iter().filter(|token| token.kind == Kind::Word);
        let complaints = words.filter_map(|token| Some((token.line, complaint(source, token)?)));
        found.extend(complaints.map(|(line, what)| Violation::at(&source.path, line, what)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(path: &str, text: &str) -> Vec<Source> {
        Tree::of([(path, text)]).sources().unwrap()
    }

    fn lines(found: &[Violation]) -> Vec<usize> {
        found.iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn a_third_party_outside_its_crate_is_caught() {
        let text = "//! openraft in a comment.\nuse openraft::Raft;\n#[cfg(test)]\nmod tests { use sled::Db; }";
        assert_eq!(lines(&named_only_at_home(&sources("crates/service/src/a.rs", text))), [2, 4]);
        assert_eq!(lines(&named_only_at_home(&sources("crates/raft/src/a.rs", text))), [4]);
        assert_eq!(lines(&named_only_at_home(&sources("tests/lab/src/a.rs", text))), []);
    }

    #[test]
    fn a_third_party_in_a_foreign_manifest_is_caught() {
        let manifest = "[dev-dependencies]\nopenraft-rt-tokio.workspace = true";
        let found = |path| depended_on_only_at_home(&Tree::of([(path, manifest)])).unwrap().len();
        assert_eq!((found("crates/http/Cargo.toml"), found("crates/raft/Cargo.toml")), (1, 0));
    }

    #[test]
    fn a_clock_a_hash_map_or_io_in_the_machine_is_caught() {
        let text = "use std::collections::{BTreeMap, HashMap};\nuse std::{fmt, fs};\nuse std::time::Instant;\n\
                    fn a() { std::thread::park() }\nasync fn b() {}\nfn c(fs: u8, io: u8) { fs + io }\n\
                    #[cfg(test)]\nmod tests { use std::fs; }";
        assert_eq!(lines(&absences(&sources("crates/machine/src/a.rs", text))), [1, 2, 3, 4, 5]);
        assert_eq!(lines(&absences(&sources("crates/holdfast/src/a.rs", text))), []);
        assert_eq!(lines(&absences(&sources("crates/machine/examples/a.rs", text))), []);
    }

    #[test]
    fn a_socket_in_the_service_is_caught() {
        let text = "use tokio::{net::TcpListener, sync::watch};\nuse tokio::time::sleep;\nfn a() { std::fs::read(b) }";
        assert_eq!(lines(&absences(&sources("crates/service/src/a.rs", text))), [1, 3]);
    }

    #[test]
    fn raft_in_the_store_is_caught() {
        let text = "/// The raft log.\nuse openraft::LogId;";
        assert_eq!(lines(&absences(&sources("crates/storage/src/a.rs", text))), [2, 2]);
    }

    #[test]
    fn a_status_outside_http_is_caught() {
        let text = "use reqwest::StatusCode;\nfn a() -> bool { answer.status() == 423 }\nfn b() { wait_ms(423) }\n\
                    fn c() { StatusCode::LOCKED }";
        assert_eq!(lines(&status_codes(&sources("crates/service/src/a.rs", text))), [1, 2, 4]);
        assert_eq!(lines(&status_codes(&sources("crates/client/src/a.rs", text))), [2, 4]);
        assert_eq!(lines(&status_codes(&sources("crates/api/src/a.rs", text))), [1, 4]);
        assert_eq!(lines(&status_codes(&sources("crates/http/src/a.rs", text))), []);
        assert_eq!(lines(&status_codes(&sources("crates/client/tests/a.rs", text))), []);
        assert_eq!(lines(&status_codes(&sources("crates/client/examples/a.rs", text))), []);
    }

    #[test]
    fn a_zxid_outside_the_zookeeper_front_end_is_caught() {
        let text = "fn a(czxid: u8) {}\nfn last_zxid() {}";
        assert_eq!(lines(&zxids(&sources("crates/machine/src/a.rs", text))), [2]);
        assert_eq!(lines(&zxids(&sources("crates/raft/src/a.rs", text))), [1, 2]);
        assert_eq!(lines(&zxids(&sources("crates/zkwire/src/a.rs", text))), []);
    }
}
