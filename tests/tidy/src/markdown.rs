//! Markdown pages as GitHub and the site render them: links, anchors of headings, and prose.
//!
//! Code blocks, HTML and the descriptions of images are no prose. A code span counts as the one word [`CODE`].

use std::collections::BTreeMap;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Replaces a code span in prose.
pub const CODE: &str = "``";

/// The contents of a page.
#[derive(Debug, Default)]
pub struct Page {
    /// Targets of links and images, with their lines.
    pub links: Vec<(usize, String)>,
    /// Anchors of the headings, in order.
    pub anchors: Vec<String>,
    /// Headings, paragraphs, list items and cells of tables, in order.
    pub passages: Vec<Passage>,
}

/// A heading, a paragraph, a list item or a cell of a table.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// The line on which the text begins, from 1.
    pub line: usize,
    /// The text, with [`CODE`] for each code span.
    pub text: String,
    /// True for a cell of a table.
    pub in_table: bool,
}

impl Page {
    /// Parses a page.
    pub fn parse(text: &str) -> Self {
        let line_starts = text.match_indices('\n').map(|(end, _)| end + 1).collect();
        let mut reader = Reader { line_starts, ..Reader::default() };
        let parser = Parser::new_ext(text, Options::ENABLE_TABLES);
        for (event, range) in parser.into_offset_iter() {
            reader.read(event, range.start);
        }
        reader.end_passage();
        reader.page
    }
}

impl Passage {
    /// The words; a code span is one word.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.text.split_whitespace().filter(|token| is_word(token))
    }

    /// The sentences. A sentence ends with a word that ends with one of `. ! ? : ;`, or with the passage.
    pub fn sentences(&self) -> Vec<Vec<&str>> {
        let ends = |word: &&str| {
            let closing: [char; 6] = [')', ']', '"', '\'', '*', '”'];
            word.trim_end_matches(closing).ends_with(['.', '!', '?', ':', ';'])
        };
        let words: Vec<&str> = self.words().collect();
        words.split_inclusive(ends).map(<[&str]>::to_vec).collect()
    }

    /// The text for a spelling checker: without addresses, settings, and tokens with a digit.
    pub fn spelled(&self) -> String {
        let is_name = |token: &&str| {
            token.contains("://") || token.contains(|c: char| c == '=' || c.is_ascii_digit())
        };
        let words = self.text.split_whitespace().filter(|token| !is_name(token));
        words.collect::<Vec<_>>().join(" ").replace('’', "'")
    }
}

fn is_word(token: &str) -> bool {
    token.contains(CODE) || token.contains(char::is_alphanumeric)
}

#[derive(Default)]
struct Reader {
    line_starts: Vec<usize>,
    page: Page,
    passage: Passage,
    /// Depth of code blocks, HTML blocks and images.
    hidden: usize,
    in_table: bool,
    heading: Option<String>,
    /// How often each anchor occurred: GitHub and mdBook number repeated headings.
    repeated: BTreeMap<String, usize>,
}

impl Reader {
    fn read(&mut self, event: Event<'_>, at: usize) {
        match event {
            Event::Start(tag) => self.start(&tag, at),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.add(&text, &text, at),
            Event::Code(text) => self.add(CODE, &text, at),
            Event::SoftBreak | Event::HardBreak => self.add(" ", " ", at),
            Event::InlineMath(_)
            | Event::DisplayMath(_)
            | Event::Html(_)
            | Event::InlineHtml(_)
            | Event::FootnoteReference(_)
            | Event::Rule
            | Event::TaskListMarker(_) => {}
        }
    }

    fn start(&mut self, tag: &Tag<'_>, at: usize) {
        if let Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } = tag {
            self.page.links.push((self.line(at), dest_url.to_string()));
        }
        if !is_inline(tag.to_end()) {
            self.end_passage();
        }
        let end = tag.to_end();
        if matches!(end, TagEnd::Heading(_)) {
            self.heading = Some(String::new());
        }
        self.in_table |= end == TagEnd::Table;
        self.hidden += usize::from(is_hidden(end));
    }

    fn end(&mut self, tag: TagEnd) {
        if !is_inline(tag) {
            self.end_passage();
        }
        if matches!(tag, TagEnd::Heading(_)) {
            self.end_heading();
        }
        self.in_table &= tag != TagEnd::Table;
        self.hidden -= usize::from(is_hidden(tag));
    }

    /// Adds a text to the passage, and its form in anchors to the heading.
    fn add(&mut self, text: &str, in_anchor: &str, at: usize) {
        if let Some(heading) = &mut self.heading {
            heading.push_str(in_anchor);
        }
        if self.hidden > 0 {
            return;
        }
        if self.passage.text.is_empty() {
            self.passage.line = self.line(at);
        }
        self.passage.text.push_str(text);
    }

    fn end_passage(&mut self) {
        let passage = std::mem::take(&mut self.passage);
        if passage.text.split_whitespace().any(is_word) {
            self.page.passages.push(Passage { in_table: self.in_table, ..passage });
        }
    }

    fn end_heading(&mut self) {
        let slug = slug(&self.heading.take().unwrap_or_default());
        let times = self.repeated.entry(slug.clone()).or_default();
        self.page.anchors.push(if *times == 0 { slug } else { format!("{slug}-{times}") });
        *times += 1;
    }

    fn line(&self, at: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= at) + 1
    }
}

fn is_inline(tag: TagEnd) -> bool {
    matches!(
        tag,
        TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough | TagEnd::Link | TagEnd::Image
    )
}

fn is_hidden(tag: TagEnd) -> bool {
    matches!(tag, TagEnd::CodeBlock | TagEnd::HtmlBlock | TagEnd::Image)
}

/// The anchor of a heading on GitHub and in mdBook.
fn slug(title: &str) -> String {
    let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_code_with_their_lines() {
        let text = "[a](a.md) `[b](b.md)`\n![c](c.svg)\n\n```\n[d](d.md)\n```\n\n- [e](e.md)\n";
        let links = Page::parse(text).links;
        let expected = [(1, "a.md"), (2, "c.svg"), (8, "e.md")];
        assert_eq!(links, expected.map(|(line, target)| (line, target.to_owned())));
    }

    #[test]
    fn anchors_follow_github_and_repeated_headings_have_numbers() {
        let text =
            "# `PUT /v1/locks/{name}`\n## What, *why*?\n## [Late](a.md) copies_2\n## What, why?\n";
        let expected = ["put-v1locksname", "what-why", "late-copies_2", "what-why-1"];
        assert_eq!(Page::parse(text).anchors, expected);
    }

    #[test]
    fn prose_has_no_code_and_no_descriptions_of_images() {
        let text = "One `two` three\nfour.\n\n```\nfive\n```\n\n- six\n- seven\n\n|a|b|\n|-|-|\n|c|d|\n\n![e](e.svg)\n";
        let passages = Page::parse(text).passages;
        let found: Vec<_> =
            passages.iter().map(|p| (p.line, p.text.as_str(), p.in_table)).collect();
        let cells = [(11, "a", true), (11, "b", true), (13, "c", true), (13, "d", true)];
        let prose = [(1, "One `` three four.", false), (8, "six", false), (9, "seven", false)];
        assert_eq!(found, [&prose[..], &cells[..]].concat());
    }

    #[test]
    fn a_spelling_checker_sees_words_only() {
        let text = "A node’s `nodde` at https://nodde.example waits 30s (ttl=nodde), see [nodes](nodde.md).";
        let found = Page::parse(text).passages.remove(0).spelled();
        assert_eq!(found, "A node's `` at waits see nodes.");
    }

    #[test]
    fn sentences_end_with_punctuation_at_the_end_of_a_word() {
        let text = "A node (10.0.0.1:80) starts. It `stops`; then: \"why?\" – never.";
        let found = Page::parse(text).passages.remove(0);
        let lengths: Vec<usize> = found.sentences().iter().map(Vec::len).collect();
        assert_eq!(lengths, [4, 2, 1, 1, 1]);
    }
}
