//! What a page and an action are.
//!
//! A page is a static [`ConsolePage`], an action a static [`ConsoleAction`]; `pages` lists them.

use axum::http::StatusCode;
use futures_util::future::BoxFuture;
use holdfast_types::Revision;
use maud::{Markup, html};

use crate::call::{ApiCall, ApiResult};
use crate::request::PageRequest;

/// The pages and the actions of the console.
#[derive(Debug)]
pub(crate) struct PageCatalog {
    /// In the order of the navigation.
    pub(crate) pages: &'static [&'static ConsolePage],
    pub(crate) actions: &'static [&'static ConsoleAction],
}

/// A page: its path below `/ui/`, and how it is rendered.
#[derive(Debug)]
pub(crate) struct ConsolePage {
    /// One component; empty for the first page.
    pub(crate) path: &'static str,
    /// In the navigation and in the title.
    pub(crate) title: &'static str,
    pub(crate) in_navigation: bool,
    pub(crate) render: for<'a> fn(&'a PageRequest) -> BoxFuture<'a, ApiResult<PageContent>>,
}

impl ConsolePage {
    /// The relative link.
    pub(crate) fn link(&self) -> &'static str {
        if self.path.is_empty() { "./" } else { self.path }
    }
}

/// What a page shows.
#[derive(Debug, Default)]
pub(crate) struct PageContent {
    pub(crate) title: String,
    /// Above the live region: filters and links. An update leaves it alone.
    pub(crate) above: Markup,
    /// The live region.
    pub(crate) live: Markup,
    /// Below the live region: forms and examples.
    pub(crate) below: Markup,
    /// The revision of the live region; `None` for figures without one.
    pub(crate) revision: Option<Revision>,
}

impl PageContent {
    /// The live region as its own element, as in the page and as in an update.
    pub(crate) fn live_region(&self) -> Markup {
        html! {
            div id="live" data-revision=[self.revision] { (self.live) }
        }
    }
}

/// An action of a page.
#[derive(Debug)]
pub(crate) struct ConsoleAction {
    /// In the field `do`.
    pub(crate) name: &'static str,
    /// Reads the state, and plans the change from the fields.
    pub(crate) plan: for<'a> fn(&'a PageRequest) -> BoxFuture<'a, ApiResult<PlannedChange>>,
}

/// A change with its effect, before it is made.
#[derive(Debug)]
pub(crate) struct PlannedChange {
    /// Such as `Force-release orders`.
    pub(crate) title: String,
    /// The text of the button.
    pub(crate) button: &'static str,
    /// What happens to whom.
    pub(crate) effect: Markup,
    /// The call, without its reason.
    pub(crate) call: ApiCall,
    /// Whether the call takes a reason, which is then required.
    pub(crate) takes_reason: bool,
    /// A text that the reader must type first, for a change that is hard to undo.
    pub(crate) typed: Option<String>,
    /// The page that the reader came from.
    pub(crate) back: String,
    /// Whether the response has a secret, which is shown once instead of the notice.
    pub(crate) has_secret: bool,
}

impl PlannedChange {
    /// A change without a reason, a text to type and a secret.
    pub(crate) fn new(
        title: String,
        button: &'static str,
        effect: Markup,
        call: ApiCall,
        back: String,
    ) -> Self {
        let (takes_reason, typed, has_secret) = (false, None, false);
        Self { title, button, effect, call, takes_reason, typed, back, has_secret }
    }
}

/// The result of a page or an action.
#[derive(Debug)]
pub(crate) enum PageReply {
    /// A title and the content of the frame.
    Page(StatusCode, String, Markup),
    Whole(Markup),
    /// A relative link.
    Redirect(String),
}
