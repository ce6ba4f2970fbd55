//! Calls about nodes of the tree, for groups and cached subtrees.

use std::str::FromStr;
use std::time::Duration;

use holdfast_api::parameters::tree::RECURSIVE;
use holdfast_api::parameters::{LIMIT, PAGE_TOKEN, watch};
use holdfast_api::{
    ErrorCode, LIST_LIMIT_MAX, Query, SubtreeBody, TxnBody, WatchBody, node_headers, tree_path,
};
use holdfast_types::{Revision, ZnodePath};
use serde_json::Value;

use crate::Error;
use crate::calls::call::{Call, Copies, TRANSACTIONS};
use crate::calls::send::Calls;
use crate::http::{Headers, HttpResponse, Method};

/// A node of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedZnode {
    /// The data.
    pub data: Vec<u8>,
    /// The number of changes of the data.
    pub version: i32,
    /// The revision that created the node. A node that was deleted and created again has another one.
    pub created: Revision,
    /// Whether the node is deleted when the session that created it ends.
    pub is_ephemeral: bool,
}

impl CachedZnode {
    /// The data as text; invalid UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.data).into_owned()
    }
}

pub(crate) fn too_many(root: &ZnodePath, max: usize) -> Error {
    Error::InvalidArgument(format!("more than {max} nodes below {root}: choose a smaller subtree"))
}

impl Calls {
    /// Reads a node; `None` if it does not exist.
    pub(crate) async fn node(&self, path: &ZnodePath) -> Result<Option<CachedZnode>, Error> {
        let delivery = self.deliver(&Call::get(tree_path(path))).await;
        found(delivery.result.and_then(|answer| read_node(answer.body)))
    }

    /// Lists the nodes at a path and below it; empty if the path does not exist.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for more than `max` nodes.
    pub(crate) async fn paths_below(
        &self,
        root: &ZnodePath,
        max: usize,
    ) -> Result<Vec<ZnodePath>, Error> {
        let first = Query::default().with_flag(&RECURSIVE, true).with(&LIMIT, &LIST_LIMIT_MAX);
        let mut query = first.clone();
        let mut paths = Vec::new();
        loop {
            let target = query.target(&tree_path(root));
            let Some(page) = found(self.get::<SubtreeBody>(target).await)? else {
                return Ok(Vec::new());
            };
            paths.extend(page.znodes.into_iter().map(|znode| znode.path));
            if paths.len() > max {
                return Err(too_many(root, max));
            }
            match page.next_page_token {
                Some(token) => query = first.clone().with(&PAGE_TOKEN, &token),
                None => return Ok(paths),
            }
        }
    }

    /// Sends a transaction. It must name a session and a request id, so that a copy has no effect.
    pub(crate) async fn transact(&self, transaction: &Value) -> Result<TxnBody, Error> {
        let body = transaction.to_string().into_bytes();
        let call = Call::new(Method::POST, TRANSACTIONS).copies(Copies::Harmless);
        self.json(&Call { body, ..call }).await
    }

    /// Returns a revision from which a watch reports all later changes.
    pub(crate) async fn current_revision(&self, root: &ZnodePath) -> Result<Revision, Error> {
        let query = Query::default().with(&watch::PATH, root).with(&watch::WAIT, &Duration::ZERO);
        self.get::<WatchBody>(query.target("/v1/watch")).await.map(|body| body.revision)
    }

    /// Returns the changes after `since`, or the next ones within `wait`, of one path or of all paths with this prefix.
    pub(crate) async fn changes(
        &self,
        root: &ZnodePath,
        since: Revision,
        wait: Duration,
        is_exact: bool,
    ) -> Result<WatchBody, Error> {
        let param = if is_exact { watch::PATH } else { watch::PREFIX };
        let query = Query::default().with(&param, root).with(&watch::SINCE, &since);
        let target = query.with(&watch::WAIT, &wait).target("/v1/watch");
        self.json(&Call::get(target).wait(wait)).await
    }
}

/// Turns "not found" into `None`.
pub(crate) fn found<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(body) => Ok(Some(body)),
        Err(error) if is(&error, ErrorCode::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the cluster rejected a call with this code.
pub(crate) fn is(error: &Error, code: ErrorCode) -> bool {
    error.problem().is_some_and(|problem| problem.code == code)
}

fn read_node(response: HttpResponse) -> Result<CachedZnode, Error> {
    let headers = &response.headers;
    Ok(CachedZnode {
        version: header(headers, node_headers::VERSION)?,
        created: Revision(header(headers, node_headers::CREATED_REVISION)?),
        is_ephemeral: header::<String>(headers, node_headers::KIND)? == "ephemeral",
        data: response.body,
    })
}

fn header<T: FromStr>(headers: &Headers, name: &str) -> Result<T, Error> {
    let value = headers.get(name).and_then(|text| text.parse().ok());
    value.ok_or_else(|| Error::UnexpectedResponse(format!("the answer has no header {name}")))
}
