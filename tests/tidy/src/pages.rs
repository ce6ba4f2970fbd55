//! Checks the pages of the documentation: the contents of the site, and the style and the size of the pages for users.
//!
//! The pages for users are the README and everything below `docs/`, except `CONTRIBUTING` and `GENERATED`. A page on
//! `LONG_SENTENCES` or `WITH_PRIVATE_WORDS` breaks that rule so far. These lists only get shorter.

use std::collections::{BTreeMap, BTreeSet};

use crate::documents::resolve;
use crate::markdown::Page;
use crate::{Tree, Violation, private_words};

/// The contents of the site.
const SUMMARY: &str = "docs/SUMMARY.md";
/// Words of a sentence.
const SENTENCE_MAX: usize = 25;
/// Words of the prose and the tables of all pages for users. Lower it after each shortened page. Raised by 2,000 for the pages
/// about Python, Terraform, Kubernetes jobs and load balancers, and for what `run` and mixed ZooKeeper clients do. Users asked
/// for them, and no other page covered them. Raised by 500 for the table of late copies,
/// by 1,400 for the software that runs on holdfast, by 450 for durable holds, by 140 for quotas of subtrees and the names of sessions,
/// by 230 for alarms by the policy of a lock and for recent figures,
/// by 2,400 for capacity, the Kubernetes runbook, and the limits and rights of callers that nobody trusts, by 60 for the
/// clients in four more languages, by 1,550 for what each client has, five pages for those who move from other libraries, and why
/// Terraform's lock calls are not accepted, by 460 for the console, by 40 for what four clients leave to other tools, by 80
/// for the Kubernetes runbook as it was followed on a cluster, by 120 for what the command line does not have, by 245 for
/// halts, recovery, a restore and new ids on Kubernetes, and by 95 for the permissions of a subtree, the keys of latches,
/// expired tokens, killed writers and the last of Curator's tests, and by 350 for what renewals, quotas, probes, alarms and exit
/// codes really do.
pub const WORDS_MAX: usize = 31_900;

/// The folder of the pages for contributors.
const CONTRIBUTING: &str = "docs/contributing/";
/// Written by programs.
const GENERATED: [&str; 4] =
    ["docs/cli-reference.md", "docs/comparison.md", "docs/http-reference.md", "docs/questions.md"];
/// Pages with a sentence over `SENTENCE_MAX` words.
const LONG_SENTENCES: &[&str] = &[];
/// Pages with a private word in prose.
const WITH_PRIVATE_WORDS: &[&str] = &[];

/// The pages for users, with their texts.
fn users_pages(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.ending(".md").filter(|(path, _)| {
        let in_site = path.starts_with("docs/") && *path != SUMMARY;
        let other = path.starts_with(CONTRIBUTING) || GENERATED.contains(path);
        *path == "README.md" || (in_site && !other)
    })
}

/// Pages that the contents of the site do not list, and pages that they list twice or that are not in `docs/`.
pub fn contents(tree: &Tree) -> Vec<Violation> {
    let links = Page::parse(tree.text(SUMMARY).unwrap_or_default()).links;
    let mut missing: BTreeSet<&str> =
        tree.ending(".md").map(|(path, _)| path).filter(|path| path.starts_with("docs/")).collect();
    missing.remove(SUMMARY);
    let mut found = Vec::new();
    for (line, target) in &links {
        let path = resolve(SUMMARY, target).map(|(path, _)| path).unwrap_or_default();
        if !missing.remove(path.as_str()) {
            let what = format!("`{target}`: list each page of docs/ once, and nothing else");
            found.push(Violation::at(SUMMARY, *line, what));
        }
    }
    let what = format!("add the page to {SUMMARY}: the site has only the pages that it lists");
    found.extend(missing.into_iter().map(|path| Violation::of(path, what.clone())));
    found
}

/// Links from pages of the site to files that are not on it.
pub fn links_off_the_site(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.ending(".md").filter(|(path, _)| path.starts_with("docs/")) {
        for (line, target) in Page::parse(text).links {
            if resolve(path, &target).is_some_and(|(path, _)| !path.starts_with("docs/")) {
                let what = format!("`{target}` is not on the site: write its path as code");
                found.push(Violation::at(path, line, what));
            }
        }
    }
    found
}

/// Sentences of the pages for users that are too long.
pub fn long_sentences(tree: &Tree) -> Vec<Violation> {
    unless_listed(tree, LONG_SENTENCES, too_long)
}

/// Private words in the prose of the pages for users.
pub fn private_words(tree: &Tree) -> Vec<Violation> {
    unless_listed(tree, WITH_PRIVATE_WORDS, private)
}

/// The violations of the pages that the list does not name, and the entries of the list that are not necessary.
fn unless_listed(
    tree: &Tree,
    listed: &[&str],
    check: fn(&str, &Page) -> Vec<Violation>,
) -> Vec<Violation> {
    let checked = users_pages(tree).map(|(path, text)| (path, check(path, &Page::parse(text))));
    let mut pages: BTreeMap<&str, Vec<Violation>> = checked.collect();
    let mut found = Vec::new();
    for path in listed {
        if pages.insert(path, Vec::new()).is_none_or(|violations| violations.is_empty()) {
            found.push(Violation::of(path, "the page follows the rule: remove it from the list"));
        }
    }
    found.extend(pages.into_values().flatten());
    found
}

fn too_long(path: &str, page: &Page) -> Vec<Violation> {
    let mut found = Vec::new();
    for passage in page.passages.iter().filter(|passage| !passage.in_table) {
        for sentence in passage.sentences() {
            if sentence.len() > SENTENCE_MAX {
                let (words, start) = (sentence.len(), sentence[..5].join(" "));
                let what = format!("{words} words, at most {SENTENCE_MAX}: divide `{start} …`");
                found.push(Violation::at(path, passage.line, what));
            }
        }
    }
    found
}

fn private(path: &str, page: &Page) -> Vec<Violation> {
    let mut found = Vec::new();
    for passage in &page.passages {
        for (word, instead) in private_words::in_text(&passage.text) {
            let what = format!("`{word}` is a private word: write {instead}");
            found.push(Violation::at(path, passage.line, what));
        }
    }
    found
}

/// The number of words of all pages for users, without code blocks.
pub fn words(tree: &Tree) -> usize {
    let passages = users_pages(tree).flat_map(|(_, text)| Page::parse(text).passages);
    passages.map(|passage| passage.words().count()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(found: &[Violation]) -> Vec<String> {
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn pages_without_contents_and_contents_without_page_are_caught() {
        let summary = "# Pages\n\n# Start\n\n- [a](a.md)\n- [b](how-to/b.md)\n- [b](how-to/b.md)\n\
                       - [c](../README.md)\n- [d](d.md)\n";
        let tree = Tree::of([
            ("README.md", ""),
            (SUMMARY, summary),
            ("docs/a.md", ""),
            ("docs/how-to/b.md", ""),
            ("docs/images/a.svg", ""),
            ("docs/new.md", ""),
        ]);
        let expected = [
            "docs/SUMMARY.md:7: `how-to/b.md`: list each page of docs/ once, and nothing else",
            "docs/SUMMARY.md:8: `../README.md`: list each page of docs/ once, and nothing else",
            "docs/SUMMARY.md:9: `d.md`: list each page of docs/ once, and nothing else",
            "docs/new.md: add the page to docs/SUMMARY.md: the site has only the pages that it lists",
        ];
        assert_eq!(lines(&contents(&tree)), expected);
    }

    #[test]
    fn links_to_files_that_are_not_on_the_site_are_caught() {
        let text = "[a](../a.md)\n[b](../CONTRIBUTING.md)\n[c](https://c.example) [d](#d)\n# d\n";
        let tree = Tree::of([("docs/how-to/b.md", text), ("README.md", "[c](CONTRIBUTING.md)")]);
        assert_eq!(lines(&links_off_the_site(&tree)), [""; 0]);
        let tree = Tree::of([("docs/b.md", text), ("README.md", "[c](CONTRIBUTING.md)")]);
        let expected = ["a.md", "CONTRIBUTING.md"].into_iter().enumerate().map(|(i, name)| {
            format!("docs/b.md:{}: `../{name}` is not on the site: write its path as code", i + 1)
        });
        assert_eq!(lines(&links_off_the_site(&tree)), expected.collect::<Vec<_>>());
    }

    #[test]
    fn long_sentences_are_caught_outside_code_and_tables() {
        let of = |words: usize| "word ".repeat(words);
        let long = of(SENTENCE_MAX + 1);
        let good = format!(
            "{0}: {0}.\n\n```\n{long}\n```\n\n| a |\n|---|\n| {long} |\n",
            of(SENTENCE_MAX).trim()
        );
        let bad = format!("# Title\n\n- One.\n- {long}");
        let tree = Tree::of([
            ("docs/good.md", good.as_str()),
            ("docs/bad.md", bad.as_str()),
            ("docs/contributing/architecture.md", bad.as_str()),
            ("docs/comparison.md", bad.as_str()),
            ("CHANGELOG.md", bad.as_str()),
        ]);
        let found = unless_listed(&tree, &[], too_long);
        let expected = "docs/bad.md:4: 26 words, at most 25: divide `word word word word word …`";
        assert_eq!(lines(&found), [expected]);
    }

    #[test]
    fn a_listed_page_is_exempt_until_it_follows_the_rule() {
        let long = "word ".repeat(SENTENCE_MAX + 1);
        let tree = Tree::of([("docs/bad.md", long.as_str()), ("docs/good.md", "One. Two.")]);
        assert_eq!(lines(&unless_listed(&tree, &["docs/bad.md"], too_long)), [""; 0]);
        for entry in ["docs/good.md", "docs/gone.md"] {
            let found = unless_listed(&tree, &["docs/bad.md", entry], too_long);
            let expected = format!("{entry}: the page follows the rule: remove it from the list");
            assert_eq!(lines(&found), [expected]);
        }
    }

    #[test]
    fn private_words_are_caught_in_prose_and_not_in_code_blocks() {
        let word = private_words::TEXT[0].0;
        let bad = format!("One line.\n\n| a |\n|---|\n| The {word}. |\n\n```\n{word}\n```\n");
        let tree = Tree::of([("docs/bad.md", bad.as_str()), ("docs/adr.md", "")]);
        let found = unless_listed(&tree, &[], private);
        assert_eq!(found.iter().map(|violation| violation.line).collect::<Vec<_>>(), [5]);
    }

    #[test]
    fn words_are_those_of_the_pages_for_users() {
        let tree = Tree::of([
            ("README.md", "# One\n\ntwo three"),
            ("docs/a.md", "| four |\n|---|\n| `five six` – seven |\n\n```\neight\n```\n"),
            ("docs/contributing/b.md", "five"),
            (SUMMARY, "six"),
        ]);
        assert_eq!(words(&tree), 6);
    }
}
