//! Words that only this project ever used, and the field's word for each.
//!
//! A word of [`TEXT`] is wrong in any comment, string, path and name. A word of [`NAMES`] is wrong as a part of an
//! identifier, and a word of [`WHOLE`] as a whole identifier, because both are common English otherwise.
//! `unfinished` lists the folders that still have the word. The lists only shrink: a folder leaves them when it is clean.

use crate::lexer::Kind;
use crate::{Source, Tree, Violation};

/// A private word.
#[derive(Debug)]
pub struct PrivateWord {
    /// The identifier of [`WHOLE`]; else in lower case, with `_` between its parts.
    pub word: &'static str,
    /// The field's word.
    pub instead: &'static str,
    /// Folders that still have it.
    pub unfinished: &'static [&'static str],
}

const fn word(
    word: &'static str,
    instead: &'static str,
    unfinished: &'static [&'static str],
) -> PrivateWord {
    PrivateWord { word, instead, unfinished }
}

/// Wrong wherever it stands.
pub const TEXT: &[PrivateWord] = &[
    word("astray", "`unexpected_reply`", &[]),
    word("chronicle", "hold recorder or lock history", &["docs"]),
    word("closings", "cooldowns", &["crates/machine"]),
    word(
        "custody",
        "`operator`, `handover` or `revoke`",
        &["crates/machine", "crates/types", "docs"],
    ),
    word("decimal_twin", "`suggest_binary_unit`", &[]),
    word("do_what_is_due", "`run_timers`", &["crates/machine"]),
    word(
        "door",
        "front-end, HTTP API, ZooKeeper port or listener",
        &["CONTRIBUTING.md", "crates/http", "crates/machine", "crates/types", "docs", "scripts"],
    ),
    word("doors", "front-ends, HTTP APIs or listeners", &["crates/types", "docs"]),
    word("doorman", "peer handshake", &[]),
    word("drama", "fault scenario", &[]),
    word("end_if_spent", "`close_if_anonymous_and_idle`", &["crates/machine"]),
    word("entrant", "participant", &["crates/types"]),
    word("found_by_newcomer", "`preview_after_due_grants`", &["crates/machine"]),
    word("founding", "bootstrap", &["docs"]),
    word("gatherers", "barrier waiters", &[]),
    word("grant_what_waited_for_time", "`grant_due_waiters`", &["crates/machine"]),
    word("hung_up", "disconnected", &[]),
    word("newcomer", "new arrival", &["crates/machine", "docs"]),
    word("patience", "`request_timeout`, or the deadline of what", &["docs"]),
    word("planted", "mutation", &["crates/machine", "docs"]),
    word("pulse", "pause detector", &["docs"]),
    word("refuse_handed_round", "`check_handover_deadlock`", &["crates/machine"]),
    word("registrar", "membership registry", &[]),
    word("rival", "the other system", &[]),
    word("rivals", "comparison, or other systems", &["docs"]),
    word("roster", "initial members", &["docs"]),
    word("scribe", "audit writer", &[]),
    word("spend_ops", "`charge_ops`", &["crates/machine"]),
    word("sterner", "stricter", &["crates/machine"]),
    word("unsay", "`truncate_events`", &["crates/machine"]),
    word(
        "whoever",
        "the actor: the caller, the holder, the operator",
        &["crates/machine", "crates/types", "docs"],
    ),
];

/// Wrong as a part of an identifier.
pub const NAMES: &[PrivateWord] = &[
    word("board", "queue positions", &[]),
    word("bundle", "multi-lock", &["crates/api", "crates/machine", "crates/types"]),
    word("bundles", "multi-locks", &["crates/machine"]),
    word("caveat", "where the other system wins", &[]),
    word("contender", "`QueueEntry`: waiter or holder", &["crates/machine"]),
    word("crew", "workers", &[]),
    word("crowd", "`Many`", &["crates/machine"]),
    word("ear", "session events", &[]),
    word("gave_up", "`released`", &["crates/machine", "crates/types"]),
    word("hub", "apply observer", &[]),
    word("landing", "`send_batch`", &[]),
    word("lane", "`PeerChannel`", &[]),
    word("merit", "where the other system wins", &[]),
    word("plant", "mutate, or mutation", &["crates/machine"]),
    word("scene", "servers", &["crates/machine"]),
    word("seat", "waiter permit", &[]),
    word("standing", "`LockState`", &["crates/machine", "crates/service", "crates/types"]),
    word("survey", "membership registry", &[]),
];

/// Wrong as an identifier.
pub const WHOLE: &[PrivateWord] = &[
    word("Ask", "`LockRequest`", &["crates/machine"]),
    word("Closing", "cooldown", &["crates/machine"]),
    word("Exchange", "`RequestContext`", &[]),
    word("Fault", "`Problem`, or a qualified noun", &[]),
    word("Means", "`…Context`", &[]),
    word("Reach", "applied-index waiters", &[]),
    word("Nobody", "`None`", &["crates/machine"]),
    word("Several", "multi-lock", &["crates/machine"]),
    word("Subject", "`LogFields`", &[]),
    word("Terms", "`AcquireOptions`", &["crates/machine"]),
    word("Together", "multi-lock", &[]),
    word("depart", "`leave`", &["crates/machine"]),
    word("elsewhere", "`redirect_to_leader`", &["crates/machine"]),
    word("knowing", "`queue_info`", &[]),
    word("several", "`multi_lock`", &["crates/machine"]),
    word("together", "`multi_lock`", &["crates/machine"]),
    word("truth", "`Bool`", &[]),
];

/// Files whose text is read: sources, scripts and manifests. Documents have code spans only.
const ENDINGS: [&str; 8] = [".rs", ".toml", ".py", ".c", ".java", ".sh", ".yml", ".md"];
/// The lists of what is not to be written.
const LISTS: [&str; 2] = ["tests/tidy/src/private_words.rs", "tests/tidy/src/type_names.rs"];
/// Documents of the past.
const HISTORY: [&str; 3] = ["docs/adr/", "docs/glossary.md", "CHANGELOG.md"];

/// Private words in any text of the tree outside their unfinished folders.
pub fn text(tree: &Tree) -> Vec<Violation> {
    occurrences(tree).iter().filter(|found| !is_unfinished(found)).map(violation).collect()
}

/// Private words in identifiers outside their unfinished folders.
pub fn names(sources: &[Source]) -> Vec<Violation> {
    named(sources).iter().filter(|found| !is_unfinished(found)).map(violation).collect()
}

/// Folders that have a word no more, and stand in its list.
pub fn clean(tree: &Tree, sources: &[Source]) -> Vec<String> {
    let found: Vec<Occurrence> = occurrences(tree).into_iter().chain(named(sources)).collect();
    let mut clean = Vec::new();
    for private in TEXT.iter().chain(NAMES).chain(WHOLE) {
        let has = |folder: &str| {
            let mut of_word = found.iter().filter(|o| o.private.word == private.word);
            of_word.any(|o| is_below(&o.path, folder))
        };
        let folders = private.unfinished.iter().filter(|folder| !has(folder));
        clean.extend(folders.map(|folder| format!("`{}` in {folder}", private.word)));
    }
    clean
}

struct Occurrence {
    private: &'static PrivateWord,
    path: String,
    line: usize,
}

fn violation(found: &Occurrence) -> Violation {
    let PrivateWord { word, instead, .. } = found.private;
    Violation::at(&found.path, found.line, format!("`{word}` is a private word: say {instead}"))
}

fn is_unfinished(found: &Occurrence) -> bool {
    found.private.unfinished.iter().any(|folder| is_below(&found.path, folder))
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn occurrences(tree: &Tree) -> Vec<Occurrence> {
    let mut found = Vec::new();
    let ours = |path: &str| {
        let read =
            ENDINGS.iter().any(|ending| path.ends_with(ending)) || path.starts_with("scripts/");
        read && !LISTS.contains(&path) && !HISTORY.iter().any(|past| path.starts_with(past))
    };
    for (path, file) in tree.files().filter(|(path, _)| ours(path)) {
        let document = path.rsplit('.').next() == Some("md");
        let lines = file.text.lines().enumerate().map(|(i, line)| (i + 1, line));
        for (number, line) in std::iter::once((0, path)).chain(lines) {
            let line = if document && number > 0 { code_spans(line) } else { line.to_owned() };
            for private in words_of(TEXT, &line) {
                found.push(Occurrence { private, path: path.to_owned(), line: number });
            }
        }
    }
    found
}

fn named(sources: &[Source]) -> Vec<Occurrence> {
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| !LISTS.contains(&source.path.as_str())) {
        for token in source.tokens().iter().filter(|token| token.kind == Kind::Word) {
            let whole = WHOLE.iter().filter(|private| private.word == token.text);
            for private in words_of(NAMES, &token.text).into_iter().chain(whole) {
                found.push(Occurrence { private, path: source.path.clone(), line: token.line });
            }
        }
    }
    found
}

/// The private words of a text.
fn words_of(list: &'static [PrivateWord], text: &str) -> Vec<&'static PrivateWord> {
    // A quick look comes before the exact one.
    let squeezed = text.replace('_', "").to_ascii_lowercase();
    let maybe = |word: &str| word.split('_').all(|part| squeezed.contains(part));
    list.iter().filter(|private| maybe(private.word) && has_word(text, private.word)).collect()
}

/// Whether an identifier or word of a text has the word as a part.
fn has_word(text: &str, word: &str) -> bool {
    let mut names = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    names.any(|name| format!("_{}_", snake(name)).contains(&format!("_{word}_")))
}

/// The parts of a name in snake or camel case, in lower case with `_` between them.
pub(crate) fn snake(name: &str) -> String {
    let mut parts = String::new();
    let mut was_lower = false;
    for c in name.chars() {
        if c.is_uppercase() && was_lower {
            parts.push('_');
        }
        was_lower = c.is_lowercase() || c.is_numeric();
        parts.extend(c.to_lowercase());
    }
    parts
}

/// What stands between backticks in a line of a document.
fn code_spans(line: &str) -> String {
    line.split('`').skip(1).step_by(2).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_as_a_part_of_any_name() {
        for text in
            ["// An old astray.", "fn astray() {}", "go_astray_now", "WasAstray", "ASTRAY_MAX"]
        {
            assert!(has_word(text, "astray"), "{text}");
        }
        for text in ["castray", "astrays", "Astraying"] {
            assert!(!has_word(text, "astray"), "{text}");
        }
        assert!(
            has_word("the_hung_up_one and HungUp", "hung_up") && !has_word("hung up", "hung_up")
        );
    }

    #[test]
    fn a_private_word_is_caught_outside_its_unfinished_folders() {
        let word = TEXT[0].word;
        let line = format!("// {word}\n");
        let document = format!("{word} and `{word}_max`");
        let tree = Tree::of([
            ("crates/new/src/lib.rs", line.as_str()),
            ("docs/new.md", document.as_str()),
            ("docs/adr/0001.md", document.as_str()),
        ]);
        let found: Vec<String> = text(&tree).into_iter().map(|found| found.path).collect();
        assert_eq!(found, ["crates/new/src/lib.rs", "docs/new.md"]);
        let declared = format!(
            "// {0} {1}\nfn {0}_a() {{}}\nfn {1}_a() {{}}\nfn {1}() {{}}",
            NAMES[0].word, WHOLE[0].word
        );
        let sources = Tree::of([("crates/new/src/lib.rs", declared.as_str())]).sources().unwrap();
        assert_eq!(names(&sources).iter().map(|found| found.line).collect::<Vec<_>>(), [2, 4]);
    }

    #[test]
    fn names_fall_into_parts() {
        assert_eq!(snake("LockNameMax_ms"), "lock_name_max_ms");
    }
}
