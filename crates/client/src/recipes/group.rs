//! Groups: members, each with a value.
//!
//! A membership is the ephemeral node `/groups/<group>/<session>` of the session that joined. A session is a member at
//! most once, and the log entry that ends the session deletes the node. If another client deletes the node, one task of
//! the membership recreates it while the same session lives. Bounds: one call in flight for each membership.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdfast_api::parameters::tree::CHILDREN;
use holdfast_api::parameters::{LIMIT, PAGE_TOKEN};
use holdfast_api::{
    ChangeKind, ChildrenBody, LIST_LIMIT_MAX, OpBody, Query, StatBody, TxnBody, ZnodeKindBody,
    tree_path,
};
use holdfast_types::{RecipeName, Revision, SessionName, ZnodePath};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::checked_name;
use crate::calls::retry::retry_pause;
use crate::calls::send::Calls;
use crate::clock::Moment;
use crate::error::argument;
use crate::sessions::session::{Session, SessionUse};
use crate::tree::found;
use crate::{Client, Error, Loss, Subtree};

const GROUPS: &str = "/groups";
/// The maximum time that one call waits for a change of the node.
const WAIT: Duration = Duration::from_secs(20);

/// A group; see [`Client::group`].
///
/// ```no_run
/// # async fn example(client: holdfast_client::Client) -> Result<(), holdfast_client::Error> {
/// let web = client.group("web");
/// let me = web.join("10.0.0.7:8080").await?;
/// for member in web.members().await? {
///     println!("{} at {}", member.session, member.value);
/// }
/// me.leave().await
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Group {
    pub(super) client: Client,
    pub(super) name: String,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// The session that joined: the membership ends with it.
    pub session: SessionName,
    /// The value of the member.
    pub value: String,
}

impl Group {
    /// Joins with a value, e.g. an address. The client's session is a member at most once: joining again replaces the
    /// value.
    ///
    /// # Errors
    /// [`Error::Lost`] if a session that the caller named has ended; otherwise see [`Error`].
    pub async fn join(&self, value: impl Into<String>) -> Result<Membership, Error> {
        let directory = directory_of(&checked_name(&self.name)?)?;
        let session_use = self.client.session_for(None).await?;
        let session = session_use.session().clone();
        let path = directory.child(session.name.as_str()).map_err(argument)?;
        let calls = self.client.calls().clone();
        let record =
            Arc::new(MembershipZnode { calls, session, path, value: Mutex::new(value.into()) });
        let since = record.write().await?;
        let leave = CancellationToken::new();
        let runtime = session_use.session().runtime.clone();
        let restorer = runtime.spawn(restore_deleted(record.clone(), leave.clone(), since));
        Ok(Membership {
            active: Some(ActiveMembership { session: session_use, restorer, leave, record }),
        })
    }

    /// Returns the members, ordered by session name. Sends one call for each member, and one for each page of the list.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn members(&self) -> Result<Vec<GroupMember>, Error> {
        let directory = directory_of(&checked_name(&self.name)?)?;
        let mut members = Vec::new();
        for session in sessions_in(self.client.calls(), &directory).await? {
            let path = directory.child(session.as_str()).map_err(argument)?;
            // A listed member may have left.
            if let Some(node) = self.client.calls().node(&path).await? {
                members.push(GroupMember { session, value: node.text() });
            }
        }
        Ok(members)
    }

    /// Returns the members as a cached subtree: each child has the session as its name and the member's value as its
    /// data.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn watch(&self) -> Result<Subtree, Error> {
        self.client.subtree(directory_of(&checked_name(&self.name)?)?.as_str()).await
    }
}

fn directory_of(group: &RecipeName) -> Result<ZnodePath, Error> {
    ZnodePath::new(format!("{GROUPS}/{group}")).map_err(argument)
}

/// Lists the sessions of the ephemeral children. Other children are directories of groups with longer names.
async fn sessions_in(calls: &Calls, directory: &ZnodePath) -> Result<Vec<SessionName>, Error> {
    let mut sessions = Vec::new();
    let mut page_token: Option<String> = None;
    loop {
        let query = Query::default().with_flag(&CHILDREN, true).with(&LIMIT, &LIST_LIMIT_MAX);
        let query = query.with_some(&PAGE_TOKEN, page_token.as_ref());
        let target = query.target(&tree_path(directory));
        let Some(page) = found(calls.get::<ChildrenBody>(target).await)? else {
            return Ok(sessions);
        };
        let members = page.children.into_iter();
        let members = members.filter(|child| child.stat.kind == ZnodeKindBody::Ephemeral);
        sessions.extend(members.filter_map(|child| SessionName::new(child.name).ok()));
        page_token = page.next_page_token;
        if page_token.is_none() {
            return Ok(sessions);
        }
    }
}

/// A membership of a group, which ends with its session. Dropping this value leaves the group in the background.
#[derive(Debug)]
#[must_use = "dropping the membership leaves the group"]
pub struct Membership {
    /// `None` only while the member leaves.
    active: Option<ActiveMembership>,
}

impl Membership {
    /// The session of the member.
    pub fn session(&self) -> Option<&SessionName> {
        self.active.as_ref().map(|active| &active.record.session.name)
    }

    /// Checks that the session certainly lives. After a loss, join again.
    ///
    /// # Errors
    /// The loss of the session.
    pub fn ensure(&self) -> Result<(), Loss> {
        match &self.active {
            Some(active) => active.record.session.deadline_or_loss(Moment::now()).map(drop),
            None => Err(Loss::SessionEnded),
        }
    }

    /// Resolves when the session is over.
    pub async fn lost(&self) -> Loss {
        match &self.active {
            Some(active) => active.record.session.lost().await,
            None => Loss::SessionEnded,
        }
    }

    /// Replaces the value.
    ///
    /// # Errors
    /// [`Error::Lost`] if the session has ended; otherwise see [`Error`].
    pub async fn set_value(&self, value: impl Into<String>) -> Result<(), Error> {
        self.ensure()?;
        let Some(active) = &self.active else { return Err(Error::Lost(Loss::SessionEnded)) };
        active.record.replace_value(value.into());
        active.record.write().await.map(drop)
    }

    /// Leaves the group and waits for the confirmation.
    ///
    /// # Errors
    /// [`Error::Lost`] if the session had ended; otherwise see [`Error`]. In any case the membership ends with
    /// the session.
    pub async fn leave(mut self) -> Result<(), Error> {
        match self.active.take() {
            Some(active) => active.leave().await,
            None => Ok(()),
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let Some(active) = self.active.take() else { return };
        let runtime = active.record.session.runtime.clone();
        // If no node answers, the membership ends with the session.
        runtime.spawn(async move { drop(active.leave().await) });
    }
}

#[derive(Debug)]
struct ActiveMembership {
    session: SessionUse,
    restorer: JoinHandle<()>,
    leave: CancellationToken,
    record: Arc<MembershipZnode>,
}

impl ActiveMembership {
    async fn leave(mut self) -> Result<(), Error> {
        // The task ends before the node is deleted: otherwise it could create the node again.
        self.leave.cancel();
        drop((&mut self.restorer).await);
        let left = self.record.delete().await;
        drop(self.session);
        left
    }
}

/// The node of a membership.
#[derive(Debug)]
struct MembershipZnode {
    calls: Calls,
    session: Arc<Session>,
    path: ZnodePath,
    value: Mutex<String>,
}

impl MembershipZnode {
    /// Creates the node or replaces its data. Returns the revision.
    async fn write(&self) -> Result<Revision, Error> {
        let (path, value) = (&self.path, self.value());
        let create = json!({ "create": path, "data": value, "ephemeral": true, "parents": true });
        let set = json!({ "set": path, "data": value });
        let exists = json!({ "path": path, "exists": true });
        let body = self.change(json!({ "if": [exists], "then": [set], "else": [create] })).await?;
        for stat in body.results.iter().filter_map(stat_of) {
            if stat.kind != ZnodeKindBody::Ephemeral {
                let reason = format!("{path} is not ephemeral, so it is not a membership");
                return Err(Error::InvalidArgument(reason));
            }
        }
        Ok(body.revision)
    }

    /// Creates the node if it does not exist.
    async fn restore(&self) -> Result<Revision, Error> {
        let (path, value) = (&self.path, self.value());
        let create = json!({ "create": path, "data": value, "ephemeral": true, "parents": true });
        let absent = json!({ "path": path, "exists": false });
        let body = self.change(json!({ "if": [absent], "then": [create] })).await?;
        Ok(body.revision)
    }

    async fn delete(&self) -> Result<(), Error> {
        let path = &self.path;
        let exists = json!({ "path": path, "exists": true });
        self.change(json!({ "if": [exists], "then": [{ "delete": path }] })).await.map(drop)
    }

    /// Sends a transaction of the session. It has no effect after the end of the session, and a copy has no effect.
    async fn change(&self, transaction: Value) -> Result<TxnBody, Error> {
        let send = |request| {
            let mut transaction = transaction.clone();
            transaction["session"] = json!(self.session.name);
            transaction["request"] = json!(request);
            async move { self.calls.transact(&transaction).await }
        };
        self.session.numbered_calls.send(send).await
    }

    fn value(&self) -> String {
        self.value.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn replace_value(&self, value: String) {
        *self.value.lock().unwrap_or_else(PoisonError::into_inner) = value;
    }
}

fn stat_of(op: &OpBody) -> Option<&StatBody> {
    match op {
        OpBody::Created { stat, .. } | OpBody::DataSet { stat, .. } => Some(stat),
        OpBody::AclSet { .. } | OpBody::Deleted { .. } | OpBody::Checked { .. } => None,
    }
}

/// Recreates the node after each deletion, until the session is over or the member leaves.
async fn restore_deleted(
    record: Arc<MembershipZnode>,
    leave: CancellationToken,
    mut since: Revision,
) {
    // Consecutive rounds with a failed call.
    let mut failures: u32 = 0;
    // A failed restoration is repeated: the watch does not report the deletion again.
    let mut may_be_deleted = false;
    loop {
        let mut is_failed = false;
        if !may_be_deleted {
            let changes = tokio::select! {
                changes = record.calls.changes(&record.path, since, WAIT, true) => changes,
                _loss = record.session.lost() => return,
                () = leave.cancelled() => return,
            };
            is_failed = changes.is_err();
            may_be_deleted = match changes {
                Ok(body) => {
                    since = body.revision.max(since);
                    body.events.iter().any(|change| change.kind == ChangeKind::Deleted)
                }
                // The changes since then are unknown.
                Err(_) => true,
            };
        }
        if may_be_deleted {
            match record.restore().await {
                Ok(revision) => (since, may_be_deleted) = (revision.max(since), false),
                Err(Error::Lost(loss)) => return record.session.end(loss),
                Err(_) => is_failed = true,
            }
        }
        failures = if is_failed { failures.saturating_add(1) } else { 0 };
        if is_failed {
            tokio::select! {
                () = tokio::time::sleep(retry_pause(failures)) => {}
                _loss = record.session.lost() => return,
                () = leave.cancelled() => return,
            }
        }
    }
}
