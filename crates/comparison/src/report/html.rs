//! The blocks as one HTML page without other files, scripts and network access.

use super::document::{Block, Table};
use super::plots::escaped;

const STYLE: &str = ":root{--text:#1a1a1a;--back:#fff;--line:#ccc;--code:#f3f3f3;--own:#e2f0ff;--warn:#fff3cd;--grid:#ddd}\
@media(prefers-color-scheme:dark){:root{--text:#ddd;--back:#181818;--line:#444;--code:#2a2a2a;--own:#17324d;--warn:#4d3d00;--grid:#333}}\
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;\
color:var(--text);background:var(--back)}table{border-collapse:collapse;font-size:.85rem;margin:1rem 0;display:block;overflow-x:auto}\
th,td{border:1px solid var(--line);padding:.25rem .5rem;text-align:left;vertical-align:top}td.number{text-align:right}\
tr.own td{background:var(--own)}code,pre{background:var(--code);padding:.1rem .25rem}pre{padding:.75rem;overflow-x:auto}\
.warning{background:var(--warn);border-left:.4rem solid #d39e00;padding:.75rem 1rem}svg{width:100%;height:auto;margin:1rem 0}\
svg text{font:12px system-ui,sans-serif;fill:var(--text)}svg text.title{font-weight:600}svg .grid{stroke:var(--grid)}";

/// The prefix of holdfast's rows, which are highlighted.
const OWN: &str = "holdfast";

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
        Block::Plot(svg) => svg.clone(),
    }
}

fn rows(table: &Table) -> String {
    if table.is_empty() {
        return String::new();
    }
    let head = table.header.iter().map(|cell| format!("<th>{}</th>", prose(cell)));
    let body = table.rows.iter().map(|row| {
        let cells = row.iter().map(|cell| {
            let is_number = cell.starts_with(|first: char| first.is_ascii_digit())
                && !cell.contains(|c: char| c.is_ascii_alphabetic());
            let class = if is_number { " class=\"number\"" } else { "" };
            format!("<td{class}>{}</td>", prose(cell))
        });
        let own = row.first().is_some_and(|name| name.starts_with(OWN));
        let class = if own { " class=\"own\"" } else { "" };
        format!("<tr{class}>{}</tr>", cells.collect::<String>())
    });
    format!(
        "<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>",
        head.collect::<String>(),
        body.collect::<Vec<_>>().join("\n")
    )
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
        let page = page(&[Block::Text("`a`".to_owned()), Block::Plot("<svg></svg>".to_owned())]);
        assert!(page.contains("<code>a</code>") && page.contains("<svg>"));
        assert!(!page.contains("src=") && !page.contains("href=") && !page.contains("url("));
    }
}
