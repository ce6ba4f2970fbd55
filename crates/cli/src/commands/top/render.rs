//! The screen of `holdfast top` as lines: a header, the column headings, one line for each lock, and a footer. An opened lock has
//! the lines of `holdfast who`.
//!
//! No line is wider than the screen. A screen narrower than [`WIDE`] has shorter texts and no longest wait.

use holdfast_types::Stamp;

use super::reading::{TopLock, TopNodes};
use super::view::{OpenedLock, TopView};
use crate::output::{cell, short_time};
use crate::terminal_text::Tone;
use crate::terminal_text::{for_terminal, left, right, truncate, width};

/// The width from which on all columns are shown.
const WIDE: usize = 60;
/// The lines that are not rows: header, column headings and footer.
const FRAME: usize = 3;

/// The columns of the mark before the selected row.
const MARK: usize = 2;

/// A line of the screen.
pub(super) type ToneLine = (Tone, String);

/// The number of rows on a screen of this height.
pub(super) fn page(view: &TopView, height: usize) -> usize {
    height.saturating_sub(FRAME + usize::from(view.error.is_some()))
}

/// Returns at most `height` lines of at most `columns` columns.
pub(super) fn render(view: &TopView, columns: usize, height: usize) -> Vec<ToneLine> {
    if let Some(opened) = &view.opened {
        return framed(view, opened_lines(opened), opened_footer(view), (columns, height));
    }
    let (rows, page) = (view.rows(), page(view, height));
    let first = view.offset.min(rows.len().saturating_sub(page));
    let shown: Vec<&TopLock> = rows.iter().copied().skip(first).take(page).collect();
    let layout = TopColumns::of(&rows, columns.saturating_sub(MARK));
    let mut lines = vec![(Tone::Hint, format!("  {}", layout.headings()))];
    lines.extend((first..).zip(&shown).map(|(number, lock)| {
        let mark = if number == view.selected { ">" } else { " " };
        (tone(lock), format!("{mark} {}", layout.row(lock)))
    }));
    if shown.is_empty() && page > 0 {
        lines.push((Tone::Plain, empty(view)));
    }
    let footer = footer(view, columns, (first, shown.len(), rows.len()));
    framed(view, lines, footer, (columns, height))
}

/// Adds the header, the error and the footer to lines.
fn framed(
    view: &TopView,
    content: Vec<ToneLine>,
    footer: String,
    (columns, height): (usize, usize),
) -> Vec<ToneLine> {
    let mut lines = vec![(Tone::Title, header(view, columns))];
    lines.extend(content);
    let above_footer = height.saturating_sub(1 + usize::from(view.error.is_some()));
    lines.resize(above_footer, (Tone::Plain, String::new()));
    lines.extend(view.error.iter().map(|error| (Tone::Problem, one_line(error))));
    lines.push((Tone::Hint, footer));
    lines.truncate(height);
    for (_, line) in &mut lines {
        truncate(&for_terminal(line), columns).trim_end().clone_into(line);
    }
    lines
}

fn opened_lines(opened: &OpenedLock) -> Vec<ToneLine> {
    let Some(lines) = &opened.lines else {
        return vec![(Tone::Plain, format!("reading {}", opened.name))];
    };
    let shown = lines.iter().skip(opened.offset).map(|line| (Tone::Plain, line.clone()));
    std::iter::once((Tone::Plain, String::new())).chain(shown).collect()
}

fn opened_footer(view: &TopView) -> String {
    let back = if view.is_pinned { "" } else { "Esc back  " };
    format!("q quit  {back}j/k scroll")
}

fn tone(lock: &TopLock) -> Tone {
    if lock.waiters > 0 { Tone::Attention } else { Tone::Plain }
}

fn empty(view: &TopView) -> String {
    match (&view.locks, view.filter.as_str()) {
        (None, _) if view.error.is_some() => String::new(),
        (None, _) => "reading the locks".to_owned(),
        (Some(_), "") => "no locks are held or waited for".to_owned(),
        (Some(_), filter) => format!("no lock in use has a name with \"{filter}\""),
    }
}

/// The leader, the nodes, the numbers of locks and waiters, and the time of the reading.
fn header(view: &TopView, columns: usize) -> String {
    let wide = columns >= WIDE;
    let nodes =
        view.nodes.map_or_else(|| "no node responds".to_owned(), |nodes| nodes_text(nodes, wide));
    let text = format!("{nodes}  {}", counts(view, wide));
    let time = view.at.map(clock).unwrap_or_default();
    if width(&text) + 2 + width(&time) > columns { text } else { sides(&text, &time, columns) }
}

fn nodes_text(nodes: TopNodes, wide: bool) -> String {
    let TopNodes { leader, reachable, total } = nodes;
    let leader = leader.map_or_else(|| "none".to_owned(), |leader| leader.to_string());
    let state = if wide { " reachable" } else { "" };
    format!("leader {leader}  nodes {reachable}/{total}{state}")
}

fn counts(view: &TopView, wide: bool) -> String {
    let Some(locks) = &view.locks else { return String::new() };
    let held = locks.locks.iter().filter(|lock| lock.held_for_ms.is_some()).count();
    let waiters: u64 = locks.locks.iter().map(|lock| u64::from(lock.waiters)).sum();
    let more = if locks.incomplete { "+" } else { "" };
    let what = if wide { "locks held" } else { "held" };
    format!("{what} {held}{more}  waiters {waiters}{more}")
}

/// The time of day in UTC, e.g. `14:05:09Z`.
fn clock(at: Stamp) -> String {
    let time = holdfast_api::format_time(at);
    time.split_once('T').map(|(_, clock)| clock.to_owned()).unwrap_or_default()
}

fn footer(view: &TopView, columns: usize, (first, shown, total): (usize, usize, usize)) -> String {
    if view.editing {
        return format!("filter: {}_  Enter keeps it, Esc clears it", view.filter);
    }
    let filter = match view.filter.as_str() {
        "" => "/ filter".to_owned(),
        filter => format!("/ filter: {filter}"),
    };
    let keys = format!("q quit  s sort: {}  {filter}  Enter open", view.order.as_str());
    let range = if shown == 0 {
        String::new()
    } else {
        format!("{}-{} of {total}", first + 1, first + shown)
    };
    sides(&keys, &range, columns)
}

/// Puts texts on both sides of a line. Without room for both, the left text is cut.
fn sides(text: &str, end: &str, columns: usize) -> String {
    match columns.checked_sub(width(end) + 2) {
        Some(room) if !end.is_empty() => format!("{}  {end}", left(text, room)),
        Some(_) | None => text.to_owned(),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The widths of the columns.
struct TopColumns {
    wide: bool,
    name: usize,
    holder: usize,
}

impl TopColumns {
    const HELD: usize = 8;
    const WAITERS: usize = 7;
    const WAIT: usize = 12;

    /// Gives the name and the holder the remaining columns: the name gets three fifths, or what the holder does not need.
    fn of(rows: &[&TopLock], columns: usize) -> Self {
        let wide = columns >= WIDE;
        let fixed = if wide {
            Self::HELD + Self::WAITERS + Self::WAIT + 8
        } else {
            Self::HELD + Self::WAITERS + 3
        };
        let room = columns.saturating_sub(fixed);
        let longest = |text: fn(&TopLock) -> &str| {
            rows.iter().map(|lock| width(text(lock))).max().unwrap_or_default().max(6)
        };
        let holder = longest(|lock| &lock.holder);
        let name =
            longest(|lock| lock.name.as_str()).min(room.saturating_sub(holder).max(room * 3 / 5));
        Self { wide, name, holder: room.saturating_sub(name) }
    }

    fn headings(&self) -> String {
        self.line(["lock", "holder", "held for", "waiters", "longest wait"])
    }

    fn row(&self, lock: &TopLock) -> String {
        let held = cell(lock.held_for_ms.map(short_time));
        let wait = cell(lock.longest_wait_ms.map(short_time));
        let holder = cell(Some(&lock.holder));
        self.line([lock.name.as_str(), &holder, &held, &lock.waiters.to_string(), &wait])
    }

    fn line(&self, [name, holder, held, waiters, wait]: [&str; 5]) -> String {
        let gap = if self.wide { "  " } else { " " };
        let mut cells = vec![
            left(name, self.name),
            left(holder, self.holder),
            right(held, Self::HELD),
            right(waiters, Self::WAITERS),
        ];
        if self.wide {
            cells.push(right(wait, Self::WAIT));
        }
        cells.join(gap)
    }
}

#[cfg(test)]
mod tests {
    use holdfast_types::{LockName, NodeId};

    use super::super::reading::{TopContent, TopLocks, TopReading};
    use super::*;

    fn lock(name: &str, holder: &str, waiters: u32) -> TopLock {
        TopLock {
            name: LockName::new(name).unwrap(),
            holder: holder.to_owned(),
            held_for_ms: Some(252_000),
            waiters,
            longest_wait_ms: (waiters > 0).then_some(61_000),
        }
    }

    fn view(locks: Vec<TopLock>) -> TopView {
        let mut view = TopView::new(usize::MAX);
        let nodes = TopNodes { leader: Some(NodeId(2)), reachable: 3, total: 3 };
        let locks = TopLocks { locks, incomplete: false };
        let content = TopContent::Locks(Ok(locks));
        view.update(TopReading { nodes: Ok(nodes), content }, Stamp(50_709_000));
        view
    }

    fn texts(view: &TopView, columns: usize, height: usize) -> Vec<String> {
        let lines = render(view, columns, height);
        assert_eq!(lines.len(), height);
        let texts: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
        assert!(texts.iter().all(|line| width(line) <= columns), "{texts:#?}");
        texts
    }

    #[test]
    fn a_screen_of_80_by_24_shows_every_column() {
        let shown = texts(
            &view(vec![lock("shop/orders", "web-3-812 (user=alice)", 3), lock("stock", "me", 0)]),
            80,
            24,
        );
        assert_eq!(
            shown[0],
            "leader 2  nodes 3/3 reachable  locks held 2  waiters 3                 14:05:09Z"
        );
        assert_eq!(
            shown[1],
            "  lock         holder                            held for  waiters  longest wait"
        );
        assert_eq!(
            shown[2],
            "> shop/orders  web-3-812 (user=alice)               4m12s        3          1m1s"
        );
        assert_eq!(
            shown[3],
            "  stock        me                                   4m12s        0             -"
        );
        assert_eq!(shown[4..23], vec![""; 19]);
        assert_eq!(
            shown[23],
            "q quit  s sort: waiters  / filter  Enter open                           1-2 of 2"
        );
    }

    #[test]
    fn a_screen_of_40_by_10_shows_the_first_rows_in_short_form() {
        let locks = (0..45).map(|i| lock(&format!("shop/orders/{i:02}"), "web-3-812", 1)).collect();
        let mut view = view(locks);
        let shown = texts(&view, 40, 10);
        assert_eq!(shown[0], "leader 2  nodes 3/3  held 45  waiters 45");
        assert_eq!(shown[1], "  lock         holder   held for waiters");
        assert_eq!(shown[2], "> shop/orders… web-3-8…    4m12s       1");
        assert_eq!(shown[9], "q quit  s sort: waiters  / f…  1-7 of 45");
        view.offset = 100;
        let end = texts(&view, 40, 10);
        assert!(end[9].ends_with("39-45 of 45"), "{end:#?}");
    }

    #[test]
    fn long_and_wide_names_are_cut_and_keep_the_columns_aligned() {
        let long = "warehouse/europe/berlin/shelf/".repeat(4) + "x";
        let locks = || {
            vec![
                lock(&long, "build-agent-0017.internal.example-4711 (user=ci)", 3),
                lock(
                    "倉庫/棚/商品在庫管理の鍵/東京/大阪/名古屋/福岡",
                    "東京サーバー壱号機-812 (user=山田)",
                    3,
                ),
                lock("deploy/👩🏽🚀👩🏽🚀👩🏽🚀👩🏽🚀👩🏽🚀👩🏽🚀👩🏽🚀👩🏽🚀👩🏽🚀👩🏽🚀👩🏽🚀👩🏽🚀", "me", 3),
            ]
        };
        for (columns, height) in [(80, 24), (40, 10), (60, 5), (25, 4), (1, 1), (0, 0)] {
            texts(&view(locks()), columns, height);
        }
        let shown = texts(&view(locks()), 80, 24);
        for row in &shown[2..5] {
            assert_eq!(width(row), 80, "{row}");
            assert!(row.contains('…') && row.ends_with("   4m12s        3          1m1s"), "{row}");
        }
    }

    #[test]
    fn a_terminal_gets_no_control_characters_of_a_holder() {
        let mut view = view(vec![lock("a", "\x1b]0;owned\x07\u{202e}", 0)]);
        view.error = Some("\x1b[2J".to_owned());
        let texts = texts(&view, 80, 24).join("\n");
        assert!(texts.contains(r"\u{1b}]0;owned\u{7}\u{202e}"), "{texts}");
        assert!(texts.contains(r"\u{1b}[2J") && !texts.contains('\x1b'), "{texts}");
    }

    #[test]
    fn the_reason_of_a_failed_reading_is_above_the_footer() {
        let mut view = view(vec![lock("a", "me", 0)]);
        view.update(
            TopReading {
                nodes: Err("x".to_owned()),
                content: TopContent::Locks(Err("no node\nresponded".to_owned())),
            },
            Stamp(50_709_000),
        );
        let shown = texts(&view, 80, 24);
        assert!(shown[0].starts_with("no node responds  locks held 1"), "{}", shown[0]);
        assert!(shown[2].starts_with("> a  "), "{}", shown[2]);
        assert_eq!(shown[22], "no node responded");
    }

    #[test]
    fn an_opened_lock_has_the_lines_of_who_and_its_keys() {
        let mut view = TopView::of_lock(LockName::new("a").unwrap());
        assert_eq!(texts(&view, 80, 24)[1], "reading a");
        let lines = (0..40).map(|number| format!("line {number}")).collect();
        view.opened =
            view.opened.map(|opened| OpenedLock { lines: Some(lines), offset: 7, ..opened });
        let shown = texts(&view, 80, 24);
        assert_eq!((shown[1].as_str(), shown[2].as_str()), ("", "line 7"));
        assert_eq!((shown[22].as_str(), shown[23].as_str()), ("line 27", "q quit  j/k scroll"));
        view.is_pinned = false;
        assert_eq!(texts(&view, 80, 24)[23], "q quit  Esc back  j/k scroll");
    }

    #[test]
    fn an_empty_screen_says_why() {
        let mut none = view(Vec::new());
        assert_eq!(texts(&none, 80, 24)[2], "no locks are held or waited for");
        none.filter = "shop".to_owned();
        assert_eq!(texts(&none, 80, 24)[2], "no lock in use has a name with \"shop\"");
        none.editing = true;
        assert_eq!(texts(&none, 80, 24)[23], "filter: shop_  Enter keeps it, Esc clears it");
        assert_eq!(texts(&TopView::new(20), 80, 24)[2], "reading the locks");
    }
}
