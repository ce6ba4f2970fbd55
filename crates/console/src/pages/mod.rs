//! The pages and the actions of the console: one file for each page.
//!
//! A page is a static [`ConsolePage`] in its file and a line of [`PAGES`]; the router, the navigation and the live updates follow
//! from that line. An action is a static [`ConsoleAction`] and a line of [`ACTIONS`].

mod about;
mod access;
mod audit;
mod cluster;
mod events;
mod fence;
mod lock_actions;
mod lock_history;
mod lock_snippets;
mod locks;
mod one_lock;
mod overview;
mod recipes;
mod sessions;
mod tree;

use crate::page::{ConsoleAction, ConsolePage, PageCatalog};

/// Everything that the console shows and does.
pub(crate) static CATALOG: PageCatalog = PageCatalog { pages: PAGES, actions: ACTIONS };

static PAGES: &[&ConsolePage] = &[
    &overview::PAGE,
    &locks::PAGE,
    &one_lock::PAGE,
    &sessions::LIST,
    &sessions::ONE,
    &cluster::PAGE,
    &tree::PAGE,
    &recipes::PAGE,
    &events::PAGE,
    &fence::PAGE,
    &access::PAGE,
    &audit::PAGE,
    &about::PAGE,
];

static ACTIONS: &[&ConsoleAction] = &[
    &lock_actions::FORCE_RELEASE,
    &lock_actions::REQUEST_RELEASE,
    &lock_actions::SET_POLICY,
    &cluster::TRANSFER,
    &cluster::ADD,
    &cluster::SET,
    &cluster::REMOVE,
    &sessions::CLOSE,
    &access::NEW_TOKEN,
    &access::ROTATE_TOKEN,
    &access::DELETE_TOKEN,
    &about::SET_LOG,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_and_every_action_has_its_own_name() {
        for (at, page) in PAGES.iter().enumerate() {
            assert!(!page.path.contains(['/', '?', '.']), "{}: links are relative", page.path);
            assert!(PAGES[..at].iter().all(|other| other.path != page.path), "{}", page.path);
        }
        for (at, action) in ACTIONS.iter().enumerate() {
            assert!(ACTIONS[..at].iter().all(|other| other.name != action.name), "{}", action.name);
        }
    }
}
