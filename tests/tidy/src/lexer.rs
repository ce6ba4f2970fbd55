//! Converts Rust text to a flat list of tokens, each with its line, its function and a flag for test code.
//!
//! Test code inside a file is an item under `#[test]`, `#[…::test]` or a `#[cfg(…)]` that requires `test`, with its
//! contents. Documentation comments are string literals here, so rules about names ignore them.

use std::ops::RangeInclusive;
use std::rc::Rc;

use proc_macro2::{Delimiter, Group, Punct, Spacing, TokenStream, TokenTree};

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Word,
    Literal,
    Punctuation,
}

/// One token; brackets are two tokens around their contents, and `::` is one.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    pub(crate) line: usize,
    pub(crate) test: bool,
    pub(crate) function: Option<Rc<str>>,
}

/// A function with a body.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) name: Rc<str>,
    pub(crate) lines: RangeInclusive<usize>,
    pub(crate) test: bool,
}

/// Tokens, functions and test modules of a file.
#[derive(Debug, Default)]
pub(crate) struct Lexed {
    pub(crate) tokens: Vec<Token>,
    pub(crate) functions: Vec<Function>,
    /// Lines of items that are test code.
    pub(crate) test_lines: Vec<RangeInclusive<usize>>,
    /// `mod x;` in test code: the whole file of that module is test code.
    pub(crate) test_modules: Vec<String>,
    /// No white space between the last token and the next one.
    joint: bool,
}

/// Converts the text of a file.
pub(crate) fn lex(text: &str) -> Result<Lexed, String> {
    let stream: TokenStream = text.parse().map_err(|error| format!("{error}"))?;
    let mut lexed = Lexed::default();
    lexed.walk(stream, Inside { test: false, function: None });
    Ok(lexed)
}

/// The enclosing items of the current token.
#[derive(Clone, Copy)]
struct Inside<'a> {
    test: bool,
    function: Option<&'a Rc<str>>,
}

/// The position within one level of brackets.
#[derive(Default)]
struct Item {
    /// First line of an item under a test attribute.
    test_from: Option<usize>,
    /// A function before its body, with its first line.
    function: Option<(Rc<str>, usize)>,
}

impl Lexed {
    fn walk(&mut self, stream: TokenStream, inside: Inside<'_>) {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        let test = inside.test || trees.windows(3).any(is_inner_test_attribute);
        let mut item = Item::default();
        for (i, tree) in trees.iter().enumerate() {
            item.notice(tree, trees.get(i + 1));
            let inside = Inside { test: test || item.test_from.is_some(), ..inside };
            if let TokenTree::Group(group) = tree {
                self.walk_group(group, inside, &mut item);
            } else {
                self.notice_test_module(&trees[i..], inside);
                self.push(tree, inside);
            }
            item.end(self, tree);
        }
    }

    fn walk_group(&mut self, group: &Group, inside: Inside<'_>, item: &mut Item) {
        let (open, close) = brackets(group.delimiter());
        let (first, last) = (group.span_open().start().line, group.span_close().start().line);
        let is_body = group.delimiter() == Delimiter::Brace;
        let entered = if is_body { item.function.take() } else { None };
        if let Some((name, start)) = &entered {
            let (name, lines) = (name.clone(), *start..=last);
            self.functions.push(Function { name, lines, test: inside.test });
        }
        let function = entered.as_ref().map(|(name, _)| name).or(inside.function);
        let inside = Inside { function, ..inside };
        self.push_text(Kind::Punctuation, open, first, inside);
        self.walk(group.stream(), inside);
        self.push_text(Kind::Punctuation, close, last, inside);
    }

    fn notice_test_module(&mut self, trees: &[TokenTree], inside: Inside<'_>) {
        if let [TokenTree::Ident(word), TokenTree::Ident(name), TokenTree::Punct(end), ..] = trees
            && inside.test
            && word == "mod"
            && end.as_char() == ';'
        {
            self.test_modules.push(name.to_string());
        }
    }

    fn push(&mut self, tree: &TokenTree, inside: Inside<'_>) {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Ident(word) => self.push_text(Kind::Word, &word.to_string(), line, inside),
            TokenTree::Literal(literal) => {
                self.push_text(Kind::Literal, &literal.to_string(), line, inside);
            }
            TokenTree::Punct(punct) if self.closes_path_separator(punct) => {}
            TokenTree::Punct(punct) => {
                self.push_text(Kind::Punctuation, &punct.to_string(), line, inside);
                self.joint = punct.spacing() == Spacing::Joint;
            }
            TokenTree::Group(_) => {}
        }
    }

    /// Joins the two colons of `::` into one token.
    fn closes_path_separator(&mut self, punct: &Punct) -> bool {
        let joint = self.joint && punct.as_char() == ':';
        match self.tokens.last_mut().filter(|last| joint && last.text == ":") {
            Some(last) => {
                last.text.push(':');
                self.joint = false;
                true
            }
            None => false,
        }
    }

    fn push_text(&mut self, kind: Kind, text: &str, line: usize, inside: Inside<'_>) {
        self.joint = false;
        let Inside { test: in_test, function } = inside;
        let (text, function) = (text.to_owned(), function.cloned());
        self.tokens.push(Token { kind, text, line, test: in_test, function });
    }
}

impl Item {
    fn notice(&mut self, tree: &TokenTree, next: Option<&TokenTree>) {
        let line = tree.span().start().line;
        match (tree, next) {
            (TokenTree::Punct(hash), Some(TokenTree::Group(group)))
                if hash.as_char() == '#' && is_test_attribute(group) =>
            {
                self.test_from.get_or_insert(line);
            }
            (TokenTree::Ident(word), Some(TokenTree::Ident(name))) if word == "fn" => {
                self.function = Some((name.to_string().into(), line));
            }
            _ => {}
        }
    }

    /// An item ends with its braces or with a semicolon.
    fn end(&mut self, lexed: &mut Lexed, tree: &TokenTree) {
        let ends = match tree {
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
            TokenTree::Punct(punct) => punct.as_char() == ';',
            TokenTree::Ident(_) | TokenTree::Literal(_) => false,
        };
        if ends {
            self.function = None;
            if let Some(from) = self.test_from.take() {
                lexed.test_lines.push(from..=tree.span().end().line);
            }
        }
    }
}

fn brackets(delimiter: Delimiter) -> (&'static str, &'static str) {
    match delimiter {
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::Brace => ("{", "}"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::None => ("", ""),
    }
}

/// `#![cfg(test)]`.
fn is_inner_test_attribute(trees: &[TokenTree]) -> bool {
    matches!(trees, [TokenTree::Punct(hash), TokenTree::Punct(bang), TokenTree::Group(group)]
        if hash.as_char() == '#' && bang.as_char() == '!' && is_test_attribute(group))
}

/// The inside of `#[test]`, `#[tokio::test(…)]` or `#[cfg(…)]` with a `test` that is not negated.
fn is_test_attribute(group: &Group) -> bool {
    let trees: Vec<TokenTree> = group.stream().into_iter().collect();
    let path = trees.iter().take_while(|tree| !matches!(tree, TokenTree::Group(_)));
    let words: Vec<String> =
        path.filter(|tree| matches!(tree, TokenTree::Ident(_))).map(ToString::to_string).collect();
    match words.as_slice() {
        [only] if only == "cfg" => {
            matches!(trees.get(1), Some(TokenTree::Group(g)) if needs_test(g))
        }
        [.., last] => last == "test",
        [] => false,
    }
}

fn needs_test(condition: &Group) -> bool {
    let trees: Vec<TokenTree> = condition.stream().into_iter().collect();
    trees.iter().enumerate().any(|(i, tree)| match tree {
        TokenTree::Ident(word) => word == "test",
        TokenTree::Group(inner) => {
            let negated = matches!(&trees[..i], [.., TokenTree::Ident(not)] if not == "not");
            !negated && needs_test(inner)
        }
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<(String, bool)> {
        let lexed = lex(text).unwrap();
        let words = lexed.tokens.into_iter().filter(|token| token.kind == Kind::Word);
        words.map(|token| (token.text, token.test)).collect()
    }

    fn is_test(text: &str, word: &str) -> bool {
        words(text).into_iter().find(|(text, _)| text == word).unwrap().1
    }

    #[test]
    fn test_items_are_known_and_end_where_they_end() {
        let text = "#[cfg(test)] mod a { b } mod c { d } #[tokio::test(flavor = \"x\")] async fn e() { f } g";
        for (word, expected) in [("b", true), ("d", false), ("f", true), ("g", false)] {
            assert_eq!(is_test(text, word), expected, "{word}");
        }
        assert!(is_test("#[cfg(all(test, unix))] mod a { b }", "b"));
        assert!(!is_test("#[cfg(not(test))] mod a { b }", "b"));
        assert!(!is_test("#[cfg_attr(test, derive(Debug))] struct A { b: u8 }", "b"));
        assert!(is_test("#![cfg(test)] fn a() { b }", "b"));
        assert!(!is_test("#[cfg(test)] use a::c; mod d { b }", "b"));
    }

    #[test]
    fn functions_know_their_lines_and_tokens_their_function() {
        let lexed =
            lex("impl A {\n  fn one(\n    &self,\n  ) {\n    two\n  }\n}\nfn three() {}").unwrap();
        let functions: Vec<_> =
            lexed.functions.iter().map(|f| (f.name.as_ref(), f.lines.clone())).collect();
        assert_eq!(functions, [("one", 2..=6), ("three", 8..=8)]);
        let two = lexed.tokens.iter().find(|token| token.text == "two").unwrap();
        assert_eq!(two.function.as_deref(), Some("one"));
    }

    #[test]
    fn functions_inside_a_macro_call_are_functions() {
        let lexed = lex("proptest! { #[test] fn p(x in 0..9) { y } }").unwrap();
        assert!(lexed.functions.iter().any(|f| f.name.as_ref() == "p" && f.test));
    }

    #[test]
    fn test_modules_in_files_of_their_own_are_named() {
        assert_eq!(lex("#[cfg(test)]\nmod model;\nmod other;").unwrap().test_modules, ["model"]);
    }

    #[test]
    fn comments_and_strings_are_not_words() {
        assert!(
            words("/// sled\nconst A: &str = \"sled\"; // sled").iter().all(|(w, _)| w != "sled")
        );
    }
}
