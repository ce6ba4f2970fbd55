//! The state of the screen of `holdfast top`: the last reading, the order, the filter and the first row.
//!
//! Keys and readings change it; `render` turns it into lines. It does no I/O.

use std::cmp::Reverse;
use std::ops::ControlFlow;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use holdfast_types::Stamp;

use super::reading::{TopLock, TopLocks, TopNodes, TopReading};

/// The order of the rows. Locks with equal keys are in the order of their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TopOrder {
    Waiters,
    LongestWait,
    HeldFor,
    Name,
}

impl TopOrder {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Waiters => "waiters",
            Self::LongestWait => "longest wait",
            Self::HeldFor => "held for",
            Self::Name => "name",
        }
    }

    fn next(self) -> Self {
        match self {
            Self::Waiters => Self::LongestWait,
            Self::LongestWait => Self::HeldFor,
            Self::HeldFor => Self::Name,
            Self::Name => Self::Waiters,
        }
    }
}

/// The state of the screen.
#[derive(Debug)]
pub(super) struct TopView {
    /// `None` before the first reading, and while no node responds.
    pub(super) nodes: Option<TopNodes>,
    /// `None` before the first successful reading.
    pub(super) locks: Option<TopLocks>,
    /// The reason why the last reading failed.
    pub(super) error: Option<String>,
    /// The time of the last reading.
    pub(super) at: Option<Stamp>,
    pub(super) order: TopOrder,
    /// Only locks whose names contain this.
    pub(super) filter: String,
    /// Whether keys change the filter.
    pub(super) editing: bool,
    /// The number of rows above the screen.
    pub(super) offset: usize,
    /// The largest number of rows.
    count_max: usize,
}

impl TopView {
    pub(super) fn new(count_max: usize) -> Self {
        Self {
            nodes: None,
            locks: None,
            error: None,
            at: None,
            order: TopOrder::Waiters,
            filter: String::new(),
            editing: false,
            offset: 0,
            count_max,
        }
    }

    /// Takes a reading. The locks of the previous reading remain if the new reading has none.
    pub(super) fn update(&mut self, reading: TopReading, at: Stamp) {
        let TopReading { nodes, locks } = reading;
        self.error = locks.as_ref().err().or(nodes.as_ref().err()).cloned();
        self.nodes = nodes.ok();
        self.locks = locks.ok().or(self.locks.take());
        self.at = Some(at);
    }

    /// The rows, in order.
    pub(super) fn rows(&self) -> Vec<&TopLock> {
        let all = self.locks.iter().flat_map(|locks| &locks.locks);
        let mut rows: Vec<&TopLock> =
            all.filter(|lock| lock.name.as_str().contains(&self.filter)).collect();
        rows.sort_by(|one, other| one.name.cmp(&other.name));
        match self.order {
            TopOrder::Waiters => rows.sort_by_key(|lock| Reverse(lock.waiters)),
            TopOrder::LongestWait => rows.sort_by_key(|lock| Reverse(lock.longest_wait_ms)),
            TopOrder::HeldFor => rows.sort_by_key(|lock| Reverse(lock.held_for_ms)),
            TopOrder::Name => {}
        }
        rows.truncate(self.count_max);
        rows
    }

    /// Takes a key; `page` is the number of rows on the screen. Breaks if the key ends the program.
    pub(super) fn press(&mut self, key: KeyEvent, page: usize) -> ControlFlow<()> {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return ControlFlow::Break(());
        }
        match self.editing {
            true => self.edit(key.code),
            false if key.code == KeyCode::Char('q') => return ControlFlow::Break(()),
            false => self.browse(key.code),
        }
        self.offset = self.offset.min(self.rows().len().saturating_sub(page));
        ControlFlow::Continue(())
    }

    fn browse(&mut self, key: KeyCode) {
        if matches!(key, KeyCode::Char('s')) {
            (self.order, self.offset) = (self.order.next(), 0);
        } else if matches!(key, KeyCode::Char('/')) {
            self.editing = true;
        } else if matches!(key, KeyCode::Esc) {
            self.filter.clear();
        } else if matches!(key, KeyCode::Down | KeyCode::Char('j')) {
            self.offset = self.offset.saturating_add(1);
        } else if matches!(key, KeyCode::Up | KeyCode::Char('k')) {
            self.offset = self.offset.saturating_sub(1);
        }
    }

    fn edit(&mut self, key: KeyCode) {
        if let KeyCode::Char(typed) = key {
            self.filter.push(typed);
        } else if matches!(key, KeyCode::Backspace) {
            self.filter.pop();
        } else if matches!(key, KeyCode::Enter) {
            self.editing = false;
        } else if matches!(key, KeyCode::Esc) {
            self.filter.clear();
            self.editing = false;
        }
        self.offset = 0;
    }
}

#[cfg(test)]
mod tests {
    use holdfast_types::{LockName, NodeId};

    use super::*;

    fn view(locks: &[(&str, u32, u64, u64)]) -> TopView {
        let lock = |(name, waiters, held, wait): &(&str, u32, u64, u64)| TopLock {
            name: LockName::new(name).unwrap(),
            holder: "me".to_owned(),
            held_for_ms: Some(*held),
            waiters: *waiters,
            longest_wait_ms: Some(*wait),
        };
        let locks = locks.iter().map(lock).collect();
        let nodes = TopNodes { leader: Some(NodeId(1)), reachable: 3, total: 3 };
        let mut view = TopView::new(usize::MAX);
        let locks = TopLocks { locks, incomplete: false };
        view.update(TopReading { nodes: Ok(nodes), locks: Ok(locks) }, Stamp(0));
        view
    }

    fn press(view: &mut TopView, keys: &str) {
        for typed in keys.chars() {
            let code = match typed {
                '\u{1b}' => KeyCode::Esc,
                '\n' => KeyCode::Enter,
                '\u{8}' => KeyCode::Backspace,
                typed => KeyCode::Char(typed),
            };
            assert!(view.press(KeyEvent::new(code, KeyModifiers::NONE), 2).is_continue());
        }
    }

    fn names(view: &TopView) -> String {
        view.rows().iter().map(|lock| lock.name.as_str()).collect()
    }

    #[test]
    fn s_selects_the_next_order() {
        let mut view = view(&[("c", 2, 7, 1), ("a", 2, 8, 3), ("b", 9, 6, 2)]);
        let mut orders = vec![names(&view)];
        for _ in 0..4 {
            press(&mut view, "s");
            orders.push(names(&view));
        }
        assert_eq!(orders, ["bac", "abc", "acb", "abc", "bac"]);
    }

    #[test]
    fn the_filter_is_edited_kept_and_cleared() {
        let mut view = view(&[("shop/q", 0, 1, 1), ("stock", 0, 1, 1), ("jobs", 0, 1, 1)]);
        press(&mut view, "/shox\u{8}p/q\n");
        assert_eq!((names(&view).as_str(), view.editing), ("shop/q", false));
        press(&mut view, "\u{1b}");
        assert_eq!(view.rows().len(), 3);
        press(&mut view, "/s\u{1b}");
        assert_eq!((view.rows().len(), view.editing), (3, false));
    }

    #[test]
    fn the_screen_scrolls_only_within_the_rows() {
        let mut view = view(&[("a", 0, 1, 1), ("b", 0, 1, 1), ("c", 0, 1, 1), ("d", 0, 1, 1)]);
        press(&mut view, "jjjjj");
        assert_eq!(view.offset, 2);
        press(&mut view, "k");
        assert_eq!(view.offset, 1);
        press(&mut view, "/a");
        assert_eq!(view.offset, 0);
    }

    #[test]
    fn q_and_control_c_end_the_program() {
        let mut view = view(&[]);
        let mut press = |code, modifiers| view.press(KeyEvent::new(code, modifiers), 2);
        assert!(press(KeyCode::Char('q'), KeyModifiers::NONE).is_break());
        assert!(press(KeyCode::Char('/'), KeyModifiers::NONE).is_continue());
        assert!(press(KeyCode::Char('q'), KeyModifiers::NONE).is_continue());
        assert!(press(KeyCode::Char('c'), KeyModifiers::CONTROL).is_break());
    }

    #[test]
    fn a_failed_reading_keeps_the_last_locks() {
        let mut view = view(&[("a", 0, 1, 1)]);
        let failed = || "no leader".to_owned();
        view.update(TopReading { nodes: Err(failed()), locks: Err(failed()) }, Stamp(9));
        assert_eq!((names(&view).as_str(), view.nodes), ("a", None));
        assert_eq!(view.error.as_deref(), Some("no leader"));
    }
}
