//! The state of the screen of `holdfast top`: the last reading, the order, the filter, the selected row, and the opened lock.
//!
//! Keys and readings change it; `render` turns it into lines. It does no I/O.

use std::cmp::Reverse;
use std::ops::ControlFlow;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use holdfast_types::{LockName, Stamp};

use super::super::lock_details;
use super::reading::{TopContent, TopLock, TopLocks, TopNodes, TopReading};

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

/// The lock that the screen shows.
#[derive(Debug)]
pub(super) struct OpenedLock {
    pub(super) name: LockName,
    /// The lines of `holdfast who`; `None` before the first reading.
    pub(super) lines: Option<Vec<String>>,
    /// The number of lines above the screen.
    pub(super) offset: usize,
}

/// The state of the screen.
#[derive(Debug)]
pub(crate) struct TopView {
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
    /// The number of rows above the selected one.
    pub(super) selected: usize,
    /// `None` while the screen shows all locks.
    pub(super) opened: Option<OpenedLock>,
    /// Whether the screen only ever shows the opened lock.
    pub(super) is_pinned: bool,
    /// The largest number of rows.
    count_max: usize,
}

impl TopView {
    pub(crate) fn new(count_max: usize) -> Self {
        Self {
            nodes: None,
            locks: None,
            error: None,
            at: None,
            order: TopOrder::Waiters,
            filter: String::new(),
            editing: false,
            offset: 0,
            selected: 0,
            opened: None,
            is_pinned: false,
            count_max,
        }
    }

    /// A view that only shows one lock.
    pub(crate) fn of_lock(name: LockName) -> Self {
        let opened = Some(OpenedLock { name, lines: None, offset: 0 });
        Self { opened, is_pinned: true, ..Self::new(0) }
    }

    pub(super) fn opened_lock(&self) -> Option<&LockName> {
        self.opened.as_ref().map(|opened| &opened.name)
    }

    /// Takes a reading. What a failed reading lacks stays as it was.
    pub(super) fn update(&mut self, reading: TopReading, at: Stamp) {
        let TopReading { nodes, content } = reading;
        let failure = match content {
            TopContent::Locks(Ok(locks)) => {
                self.locks = Some(locks);
                None
            }
            TopContent::Lock(name, Ok(body)) => {
                let opened = self.opened.as_mut().filter(|opened| opened.name == name);
                if let Some(opened) = opened {
                    opened.lines =
                        Some(lock_details::show(&body).lines().map(str::to_owned).collect());
                }
                None
            }
            TopContent::Locks(Err(error)) | TopContent::Lock(_, Err(error)) => Some(error),
        };
        self.error = failure.or_else(|| nodes.as_ref().err().cloned());
        self.nodes = nodes.ok();
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
        if self.editing {
            self.edit(key.code);
        } else if key.code == KeyCode::Char('q') {
            return ControlFlow::Break(());
        } else if let Some(opened) = &mut self.opened {
            if key.code == KeyCode::Esc {
                if self.is_pinned {
                    return ControlFlow::Break(());
                }
                self.opened = None;
            } else {
                let lines = opened.lines.as_ref().map_or(0, Vec::len);
                opened.offset = step(opened.offset, key.code).min(lines.saturating_sub(page));
            }
        } else {
            self.browse(key.code);
        }
        self.scroll_to_selected(page);
        ControlFlow::Continue(())
    }

    fn scroll_to_selected(&mut self, page: usize) {
        let rows = self.rows().len();
        self.selected = self.selected.min(rows.saturating_sub(1));
        let first = (self.selected + 1).saturating_sub(page);
        self.offset = self.offset.clamp(first, self.selected.max(first));
        self.offset = self.offset.min(rows.saturating_sub(page));
    }

    fn browse(&mut self, key: KeyCode) {
        if matches!(key, KeyCode::Char('s')) {
            (self.order, self.offset, self.selected) = (self.order.next(), 0, 0);
        } else if matches!(key, KeyCode::Char('/')) {
            self.editing = true;
        } else if matches!(key, KeyCode::Esc) {
            self.filter.clear();
        } else if matches!(key, KeyCode::Enter) {
            let name = self.rows().get(self.selected).map(|lock| lock.name.clone());
            self.opened = name.map(|name| OpenedLock { name, lines: None, offset: 0 });
        } else {
            self.selected = step(self.selected, key);
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
        (self.offset, self.selected) = (0, 0);
    }
}

/// The next number of a row or line for a key.
fn step(number: usize, key: KeyCode) -> usize {
    if matches!(key, KeyCode::Down | KeyCode::Char('j')) {
        number.saturating_add(1)
    } else if matches!(key, KeyCode::Up | KeyCode::Char('k')) {
        number.saturating_sub(1)
    } else {
        number
    }
}

#[cfg(test)]
mod tests {
    use holdfast_types::NodeId;

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
        let content = TopContent::Locks(Ok(locks));
        view.update(TopReading { nodes: Ok(nodes), content }, Stamp(0));
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
        assert_eq!((view.selected, view.offset), (3, 2));
        press(&mut view, "k");
        assert_eq!((view.selected, view.offset), (2, 2));
        press(&mut view, "k");
        assert_eq!((view.selected, view.offset), (1, 1));
        press(&mut view, "/a");
        assert_eq!((view.selected, view.offset), (0, 0));
    }

    /// A reading of a held lock with waiters.
    fn lock_reading(name: &str) -> TopReading {
        let waiter =
            r#"{"session":"w","waiting_for_ms":3000,"labels":{},"mode":"exclusive","priority":5}"#;
        let queue = [waiter; 9].join(",");
        let json = format!(
            r#"{{"lock":"{name}","mode":"exclusive","held":true,"holders":[{{"session":"s1","token":4,"held_for_ms":1000,"hold_count":1,"labels":{{}}}}],"holders_total":1,"waiters":9,"queue":[{queue}],"last_token":5}}"#
        );
        let nodes = TopNodes { leader: Some(NodeId(1)), reachable: 3, total: 3 };
        let body = Ok(Box::new(serde_json::from_str(&json).unwrap()));
        let name = LockName::new(name).unwrap();
        TopReading { nodes: Ok(nodes), content: TopContent::Lock(name, body) }
    }

    #[test]
    fn enter_opens_the_selected_lock_and_esc_returns() {
        let mut view = view(&[("a", 3, 1, 1), ("b", 2, 1, 1)]);
        press(&mut view, "j\n");
        assert_eq!(view.opened_lock().map(LockName::as_str), Some("b"));
        view.update(lock_reading("a"), Stamp(1));
        assert!(view.opened.as_ref().unwrap().lines.is_none(), "the answer for another lock");
        view.update(lock_reading("b"), Stamp(1));
        let opened = view.opened.as_ref().unwrap();
        let lines = opened.lines.clone().unwrap();
        assert_eq!(lines[0], "b is held by s1 for 1s, token 4");
        press(&mut view, "jk".repeat(9).as_str());
        press(&mut view, &"j".repeat(99));
        assert_eq!(view.opened.as_ref().unwrap().offset, lines.len() - 2, "the last page");
        press(&mut view, "\u{1b}");
        assert_eq!((view.opened_lock(), view.selected), (None, 1));
    }

    #[test]
    fn a_view_of_one_lock_ends_with_esc() {
        let mut view = TopView::of_lock(LockName::new("a").unwrap());
        view.update(lock_reading("a"), Stamp(1));
        press(&mut view, "j");
        let escape = KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE);
        assert!(view.press(escape, 2).is_break());
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
        let content = TopContent::Locks(Err(failed()));
        view.update(TopReading { nodes: Err(failed()), content }, Stamp(9));
        assert_eq!((names(&view).as_str(), view.nodes), ("a", None));
        assert_eq!(view.error.as_deref(), Some("no leader"));
    }
}
