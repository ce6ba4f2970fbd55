//! Words that only this project ever used, and the field's word for each.
//!
//! A word of [`TEXT`] is wrong in any comment, string, path and name. A word of [`NAMES`] is wrong as a part of an
//! identifier, and a word of [`WHOLE`] as a whole identifier, because both are common English otherwise.

use crate::lexer::Kind;
use crate::{Source, Tree, Violation};

/// A private word, and the field's word. The word is the identifier of [`WHOLE`]; else in lower case, with `_` between
/// its parts.
pub(crate) type PrivateWord = (&'static str, &'static str);

/// Wrong wherever it stands.
pub const TEXT: &[PrivateWord] = &[
    ("astray", "`unexpected_reply`"),
    ("chronicle", "hold recorder or lock history"),
    ("closings", "cooldowns"),
    ("custody", "`operator`, `handover` or `revoke`"),
    ("decimal_twin", "`suggest_binary_unit`"),
    ("do_what_is_due", "`run_timers`"),
    ("door", "front-end, HTTP API, ZooKeeper port or listener"),
    ("doors", "front-ends, HTTP APIs or listeners"),
    ("doorman", "peer handshake"),
    ("drama", "fault scenario"),
    ("end_if_spent", "`close_if_anonymous_and_idle`"),
    ("found_by_newcomer", "`preview_after_due_grants`"),
    ("founding", "bootstrap"),
    ("gatherers", "barrier waiters"),
    ("grant_what_waited_for_time", "`grant_due_waiters`"),
    ("hung_up", "disconnected"),
    ("patience", "`request_timeout`, or the deadline of what"),
    ("planted", "mutation"),
    ("pulse", "pause detector"),
    ("refuse_handed_round", "`check_handover_deadlock`"),
    ("registrar", "membership registry"),
    ("rival", "the other system"),
    ("rivals", "comparison, or other systems"),
    ("roster", "initial members"),
    ("scribe", "audit writer"),
    ("spend_ops", "`charge_ops`"),
    ("sterner", "stricter"),
    ("unsay", "`truncate_events`"),
    ("whoever", "the actor: the caller, the holder, the operator"),
];

/// Wrong as a part of an identifier.
pub const NAMES: &[PrivateWord] = &[
    ("board", "queue positions"),
    ("bundle", "multi-lock"),
    ("bundles", "multi-locks"),
    ("caveat", "where the other system wins"),
    ("contender", "`QueueEntry`: waiter or holder"),
    ("crew", "workers"),
    ("crowd", "`Many`"),
    ("ear", "session events"),
    ("entrant", "participant"),
    ("gave_up", "`released`"),
    ("hub", "apply observer"),
    ("landing", "`send_batch`"),
    ("lane", "`PeerChannel`"),
    ("merit", "where the other system wins"),
    ("plant", "mutate, or mutation"),
    ("scene", "servers"),
    ("seat", "waiter permit"),
    ("standing", "`LockState`"),
    ("survey", "membership registry"),
];

/// Wrong as an identifier.
pub const WHOLE: &[PrivateWord] = &[
    ("Ask", "`LockRequest`"),
    ("Closing", "cooldown"),
    ("Exchange", "`RequestContext`"),
    ("Fault", "`Problem`, or a qualified noun"),
    ("Means", "`…Context`"),
    ("Reach", "applied-index waiters"),
    ("Nobody", "`None`"),
    ("Several", "multi-lock"),
    ("Terms", "`AcquireOptions`"),
    ("Together", "multi-lock"),
    ("depart", "`leave`"),
    ("elsewhere", "`redirect_to_leader`"),
    ("knowing", "`queue_info`"),
    ("several", "`multi_lock`"),
    ("together", "`multi_lock`"),
    ("truth", "`Bool`"),
];

/// Files whose text is read: sources, scripts and manifests. Documents have code spans only.
const ENDINGS: [&str; 8] = [".rs", ".toml", ".py", ".c", ".java", ".sh", ".yml", ".md"];
/// The lists of what is not to be written.
const LISTS: [&str; 2] = ["tests/tidy/src/private_words.rs", "tests/tidy/src/type_names.rs"];
/// Documents of the past.
const HISTORY: [&str; 2] = ["docs/contributing/adr/", "docs/contributing/glossary.md"];

/// Private words in any text of the tree.
pub fn text(tree: &Tree) -> Vec<Violation> {
    occurrences(tree).iter().map(violation).collect()
}

/// Private words in identifiers.
pub fn names(sources: &[Source]) -> Vec<Violation> {
    named(sources).iter().map(violation).collect()
}

struct Occurrence {
    private: &'static PrivateWord,
    path: String,
    line: usize,
}

fn violation(found: &Occurrence) -> Violation {
    let (word, instead) = found.private;
    Violation::at(&found.path, found.line, format!("`{word}` is a private word: say {instead}"))
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
            let whole = WHOLE.iter().filter(|private| private.0 == token.text);
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
    list.iter().filter(|private| maybe(private.0) && has_word(text, private.0)).collect()
}

/// The words of [`TEXT`] in a text, each with the field's word.
pub(crate) fn in_text(text: &str) -> Vec<&'static PrivateWord> {
    words_of(TEXT, text)
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
    fn a_private_word_is_caught() {
        let word = TEXT[0].0;
        let line = format!("// {word}\n");
        let document = format!("{word} and `{word}_max`");
        let tree = Tree::of([
            ("crates/new/src/lib.rs", line.as_str()),
            ("docs/new.md", document.as_str()),
            ("docs/contributing/adr/0001.md", document.as_str()),
        ]);
        let found: Vec<String> = text(&tree).into_iter().map(|found| found.path).collect();
        assert_eq!(found, ["crates/new/src/lib.rs", "docs/new.md"]);
        let declared = format!(
            "// {0} {1}\nfn {0}_a() {{}}\nfn {1}_a() {{}}\nfn {1}() {{}}",
            NAMES[0].0, WHOLE[0].0
        );
        let sources = Tree::of([("crates/new/src/lib.rs", declared.as_str())]).sources().unwrap();
        assert_eq!(names(&sources).iter().map(|found| found.line).collect::<Vec<_>>(), [2, 4]);
    }

    #[test]
    fn names_fall_into_parts() {
        assert_eq!(snake("LockNameMax_ms"), "lock_name_max_ms");
    }
}
