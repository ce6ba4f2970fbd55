//! The blocks as one HTML page without other files, scripts and network access.

use super::document::{Block, Table};
use super::plots::{OWN, Plot};

const STYLE: &str = ":root{color-scheme:light dark;--text:#1a1a1a;--back:#fff;--line:#ccc;--code:#f3f3f3;--own:#e2f0ff;\
--own-line:#0072b2;--warn:#fff3cd;--good:#1a7f37;--bad:#b3261e;--dim:#6b6b6b}\
@media(prefers-color-scheme:dark){:root{--text:#ddd;--back:#181818;--line:#444;--code:#2a2a2a;--own:#17324d;\
--own-line:#4db1ff;--warn:#4d3d00;--good:#5fd07e;--bad:#ff8a80;--dim:#999}}\
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;\
color:var(--text);background:var(--back)}table{border-collapse:collapse;font-size:.85rem;margin:1rem 0;display:block;overflow-x:auto}\
th,td{border:1px solid var(--line);padding:.25rem .5rem;text-align:left;vertical-align:top}td.number{text-align:right}\
.own{background:var(--own)}.ok{color:var(--good)}.oversold,.stuck,.failed{color:var(--bad)}.not-run{color:var(--dim)}\
code,pre{background:var(--code);padding:.1rem .25rem}pre{padding:.75rem;overflow-x:auto}\
.warning{background:var(--warn);border-left:.4rem solid #d39e00;padding:.75rem 1rem}figure{margin:2rem 0}\
figcaption{font-weight:600}svg{width:100%;height:auto}svg text{fill:var(--text)}\
svg [stroke=\"#000000\"]{stroke:var(--text)}svg [stroke=\"#0072B2\"]{stroke:var(--own-line)}\
svg [fill=\"#0072B2\"]{fill:var(--own-line)}";

/// The words of the matrices that have a colour.
const COLOURED: [&str; 5] = ["ok", "oversold", "stuck", "failed", "not run"];

/// The page.
pub(super) fn page(blocks: &[Block]) -> String {
    let title = blocks.iter().find_map(|block| match block {
        Block::Title(words) => Some(words.as_str()),
        Block::Heading(_)
        | Block::Text(_)
        | Block::Warning(_)
        | Block::Code(_)
        | Block::List(_)
        | Block::Table(_)
        | Block::Link(..)
        | Block::Plot(_)
        | Block::Picture(..)
        | Block::Detail(_) => None,
    });
    let body: Vec<String> = blocks.iter().map(block).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{}</title><style>{STYLE}</style></head>\n<body>\n{}\n</body></html>\n",
        escaped(title.unwrap_or_default()),
        body.join("\n")
    )
}

fn block(block: &Block) -> String {
    match block {
        Block::Title(words) => format!("<h1>{}</h1>", prose(words)),
        Block::Heading(words) => format!("<h2>{}</h2>", prose(words)),
        Block::Text(words) => format!("<p>{}</p>", prose(words)),
        Block::Warning(words) => {
            format!("<p class=\"warning\"><strong>{}</strong></p>", prose(words))
        }
        Block::Code(lines) => format!("<pre>{}</pre>", escaped(lines.trim_end())),
        Block::List(points) => {
            let points = points.iter().map(|point| format!("<li>{}</li>", prose(point)));
            format!("<ul>{}</ul>", points.collect::<String>())
        }
        Block::Table(table) | Block::Detail(table) => rows(table),
        // The link leads from the summary to this page.
        Block::Link(..) => String::new(),
        Block::Plot(Plot { title, svg }) | Block::Picture(Plot { title, svg }, _) => {
            format!("<figure><figcaption>{}</figcaption>{svg}</figure>", prose(title))
        }
    }
}

fn rows(table: &Table) -> String {
    if table.is_empty() {
        return String::new();
    }
    let head = table.header.iter().map(|cell| element("th", &[class(is_own(cell), "own")], cell));
    let body = table.rows.iter().map(|row| {
        let is_own_row = row.first().is_some_and(|name| is_own(name));
        let columns =
            table.header.iter().map(|title| is_own(title)).chain(std::iter::repeat(false));
        let cells = row.iter().zip(columns).map(|(cell, is_own_column)| {
            let own = class(is_own_row || is_own_column, "own");
            element("td", &[own, class(is_number(cell), "number"), coloured(cell)], cell)
        });
        format!("<tr>{}</tr>", cells.collect::<String>())
    });
    format!(
        "<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>",
        head.collect::<String>(),
        body.collect::<Vec<_>>().join("\n")
    )
}

fn is_own(name: &str) -> bool {
    name.starts_with(OWN)
}

/// Returns `true` for figures without words, which are right-aligned.
fn is_number(cell: &str) -> bool {
    cell.starts_with(|first: char| first.is_ascii_digit()) && !cell.contains(char::is_alphabetic)
}

fn class(is_set: bool, name: &str) -> String {
    if is_set { name.to_owned() } else { String::new() }
}

/// Returns the class of a word of the matrices.
fn coloured(cell: &str) -> String {
    let word = cell.trim_matches('*');
    class(COLOURED.contains(&word), &word.replace(' ', "-"))
}

fn element(name: &str, classes: &[String], text: &str) -> String {
    let classes: Vec<&str> =
        classes.iter().map(String::as_str).filter(|class| !class.is_empty()).collect();
    if classes.is_empty() {
        return format!("<{name}>{}</{name}>", prose(text));
    }
    format!("<{name} class=\"{}\">{}</{name}>", classes.join(" "), prose(text))
}

/// Escapes text for HTML.
fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;")
}

/// Formats text, with code between backticks, and strong text between two asterisks.
fn prose(words: &str) -> String {
    let strong = |piece: &str| alternate(piece, "**", "strong", &escaped);
    alternate(words, "`", "code", &strong)
}

/// Puts every second piece between two marks into an element.
fn alternate(text: &str, mark: &str, element: &str, inner: &dyn Fn(&str) -> String) -> String {
    let pieces = text.split(mark).enumerate();
    let marked = pieces.map(|(at, piece)| match at % 2 {
        1 => format!("<{element}>{}</{element}>", escaped(piece)),
        _ => inner(piece),
    });
    marked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_server_is_escaped() {
        let evil = "<script>alert(1)</script>".to_owned();
        let mut table = Table::with([evil.clone()]);
        table.add([evil.clone()]);
        let page = page(&[
            Block::Title(evil.clone()),
            Block::Text(evil.clone()),
            Block::Warning(evil.clone()),
            Block::List(vec![evil.clone()]),
            Block::Code(evil.clone()),
            Block::Detail(table),
        ]);
        assert!(!page.contains("<script") && page.contains("&lt;script&gt;"), "{page}");
    }

    #[test]
    fn a_page_names_no_other_file() {
        let page = page(&[
            Block::Text("`a`".to_owned()),
            Block::Plot(Plot { title: "P".to_owned(), svg: "<svg></svg>".to_owned() }),
        ]);
        assert!(page.contains("<code>a</code>") && page.contains("<svg>"));
        assert!(!page.contains("src=") && !page.contains("href=") && !page.contains("url("));
    }

    #[test]
    fn the_row_or_column_of_holdfast_is_highlighted_and_figures_are_right_aligned() {
        let mut table = Table::with(["fault", "holdfast", "etcd"]);
        table.add(["paused", "**ok**", "not run"]);
        table.add(["holdfast-http", "1,000 (900–1,100) ×2", "16 clients"]);
        let page = page(&[Block::Table(table)]);
        for cell in [
            "<th class=\"own\">holdfast</th><th>etcd</th>",
            "<td>paused</td><td class=\"own ok\"><strong>ok</strong></td><td class=\"not-run\">not run</td>",
            "<td class=\"own\">holdfast-http</td><td class=\"own number\">1,000",
            "<td class=\"own\">16 clients</td>",
        ] {
            assert!(page.contains(cell), "{cell}: {page}");
        }
    }
}
