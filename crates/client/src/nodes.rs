//! The calls about nodes of the tree that groups and cached subtrees are made of.
//!
//! Owns how a node is read with its version, and how several changes are sent as one. Refuses to know what the nodes mean.

use std::str::FromStr;
use std::time::Duration;

use holdfast_api::{
    Aspect, ErrorCode, LIST_LIMIT_MAX, NodeParams, SubtreeBody, TxnBody, WatchBody, WatchParams,
    node_headers, tree_path,
};
use holdfast_types::{Revision, ZnodePath};
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::Error;
use crate::calls::Calls;
use crate::exchange::Call;

/// A node of the tree as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its data as it was written.
    pub data: Vec<u8>,
    /// Changes of its data, from 0.
    pub version: i32,
    /// The revision that created it: another one is another node of the same path.
    pub created: Revision,
    /// Whether it goes with the session that created it.
    pub is_ephemeral: bool,
}

impl Node {
    /// Its data as text; what is not UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.data).into_owned()
    }
}

/// There is more at and below a path than is kept on this side.
pub(crate) fn too_many(root: &ZnodePath, max: usize) -> Error {
    Error::Argument(format!("more than {max} nodes below {root}: choose a smaller part"))
}

impl Calls {
    /// Reads a node; none if there is none.
    pub(crate) async fn node(&self, path: &ZnodePath) -> Result<Option<Node>, Error> {
        let call = self.call(Method::GET, tree_path(path));
        found(self.exchange.read(call, read_node).await)
    }

    /// Reads which nodes are at a path and below it, if they are not too many; none if there is no such path.
    pub(crate) async fn paths_below(
        &self,
        root: &ZnodePath,
        max: usize,
    ) -> Result<Vec<ZnodePath>, Error> {
        let aspect = Aspect::Recursive;
        let mut params = NodeParams { aspect, limit: LIST_LIMIT_MAX, ..NodeParams::default() };
        let mut paths = Vec::new();
        loop {
            let target = format!("{}?{}", tree_path(root), params.to_query());
            let Some(page) = found(self.get::<SubtreeBody>(target).await)? else {
                return Ok(Vec::new());
            };
            paths.extend(page.nodes.into_iter().map(|node| node.path));
            if paths.len() > max {
                return Err(too_many(root, max));
            }
            match page.next_page_token {
                Some(token) => params.page_token = Some(token),
                None => return Ok(paths),
            }
        }
    }

    /// Sends a transaction. With a session and a request id in it, sending it again is harmless.
    pub(crate) async fn transact(&self, transaction: &Value) -> Result<TxnBody, Error> {
        let call = self.call(Method::POST, "/v1/txn".to_owned());
        let call = Call { body: transaction.to_string(), ..call };
        self.exchange.ask(call).await.map(|answered| answered.body)
    }

    /// Where the present is, for a watch to begin.
    pub(crate) async fn now(&self, root: &ZnodePath) -> Result<Revision, Error> {
        let params = watching(root, None, Duration::ZERO, true);
        self.get::<WatchBody>(format!("/v1/watch?{}", params.to_query()))
            .await
            .map(|body| body.revision)
    }

    /// What has changed since, or changes within the wait: at a path alone, or in everything that begins so.
    pub(crate) async fn changes(
        &self,
        root: &ZnodePath,
        since: Revision,
        wait: Duration,
        is_exact: bool,
    ) -> Result<WatchBody, Error> {
        let params = watching(root, Some(since), wait, is_exact);
        let target = format!("/v1/watch?{}", params.to_query());
        let ended = self.ask_waiting(Method::GET, target, wait).await;
        ended.result.map(|answered| answered.body)
    }
}

fn watching(root: &ZnodePath, since: Option<Revision>, wait: Duration, exact: bool) -> WatchParams {
    WatchParams { place: root.as_str().to_owned(), exact, since, wait }
}

/// Nothing there is an answer.
pub(crate) fn found<T>(asked: Result<T, Error>) -> Result<Option<T>, Error> {
    match asked {
        Ok(body) => Ok(Some(body)),
        Err(error) if is(&error, ErrorCode::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a node refused a call for this reason.
pub(crate) fn is(error: &Error, code: ErrorCode) -> bool {
    error.problem().is_some_and(|problem| problem.code == code)
}

fn read_node(head: &HeaderMap, data: &[u8]) -> Result<Node, Error> {
    Ok(Node {
        data: data.to_vec(),
        version: told(head, node_headers::VERSION)?,
        created: Revision(told(head, node_headers::CREATED_REVISION)?),
        is_ephemeral: told::<String>(head, node_headers::KIND)? == "ephemeral",
    })
}

/// What a header of the answer says.
fn told<T: FromStr>(head: &HeaderMap, name: &str) -> Result<T, Error> {
    let text = head.get(name).and_then(|value| value.to_str().ok());
    let value = text.and_then(|text| text.parse().ok());
    value.ok_or_else(|| Error::Foreign(format!("a node without the header {name}")))
}
