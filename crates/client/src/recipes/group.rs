//! Groups: who is there, each with something to say, from Rust.
//!
//! A membership is an ephemeral node of the session that joined, `/groups/<group>/<session>`: its name is the session's, so
//! that no session is there twice, and it goes in the very entry that ends the session. Owns that it stays there meanwhile:
//! if somebody deletes it, it is created again, by the session it stands for and while that lives, never under another one.
//! Bounds: one call under way for each membership.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdfast_api::{
    Aspect, ChangeKind, ChildrenBody, KindBody, LIST_LIMIT_MAX, NodeParams, OpBody, StatBody,
    TxnBody, tree_path,
};
use holdfast_types::{RecipeName, Revision, SessionName, ZnodePath};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{checked, own_request};
use crate::calls::Calls;
use crate::clock::Moment;
use crate::error::argument;
use crate::nodes::found;
use crate::session::{Session, Use};
use crate::{Client, Error, Loss, Subtree};

/// Where groups are.
const GROUPS: &str = "/groups";
/// How long one call listens whether the record was deleted.
const WAIT: Duration = Duration::from_secs(20);
/// The rest after a call that failed.
const REST: Duration = Duration::from_millis(200);

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

/// Who is in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The session that joined; it is there while that lives.
    pub session: SessionName,
    /// What it says of itself.
    pub value: String,
}

impl Group {
    /// Joins, with something to say to the others: an address, for example. The client's session is in a group once: who joins
    /// again says something else.
    ///
    /// # Errors
    /// [`Error::Lost`] if a session that the caller named has ended; otherwise see [`Error`].
    pub async fn join(&self, value: impl Into<String>) -> Result<Membership, Error> {
        let directory = directory_of(&checked(&self.name)?)?;
        let used = self.client.session_for(None).await?;
        let session = used.session().clone();
        let path = directory.child(session.name.as_str()).map_err(argument)?;
        let calls = self.client.calls().clone();
        let record = Arc::new(Record { calls, session, path, value: Mutex::new(value.into()) });
        let since = record.write().await?;
        let leave = CancellationToken::new();
        let runtime = used.session().runtime.clone();
        let keeper = runtime.spawn(keep(record.clone(), leave.clone(), since));
        Ok(Membership { place: Some(Place { used, keeper, leave, record }) })
    }

    /// Who is there, in the order of the sessions' names: one call, and one more for each member.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn members(&self) -> Result<Vec<Member>, Error> {
        let directory = directory_of(&checked(&self.name)?)?;
        let mut members = Vec::new();
        for session in sessions_in(self.client.calls(), &directory).await? {
            let path = directory.child(session.as_str()).map_err(argument)?;
            // It may have left since the list was made.
            if let Some(node) = self.client.calls().node(&path).await? {
                members.push(Member { session, value: node.text() });
            }
        }
        Ok(members)
    }

    /// The members as a part of the tree that can be followed: each is a child whose name is its session's and whose data is
    /// what it says.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn follow(&self) -> Result<Subtree, Error> {
        self.client.subtree(directory_of(&checked(&self.name)?)?.as_str()).await
    }
}

fn directory_of(group: &RecipeName) -> Result<ZnodePath, Error> {
    ZnodePath::new(format!("{GROUPS}/{group}")).map_err(argument)
}

/// The children that go with a session: a group of a longer name is a directory beside them.
async fn sessions_in(calls: &Calls, directory: &ZnodePath) -> Result<Vec<SessionName>, Error> {
    let mut sessions = Vec::new();
    let mut page_token = None;
    loop {
        let (aspect, limit) = (Aspect::Children, LIST_LIMIT_MAX);
        let params = NodeParams { aspect, limit, page_token, ..NodeParams::default() };
        let target = format!("{}?{}", tree_path(directory), params.to_query());
        let Some(page) = found(calls.get::<ChildrenBody>(target).await)? else {
            return Ok(sessions);
        };
        let members = page.children.into_iter();
        let members = members.filter(|child| child.stat.kind == KindBody::Ephemeral);
        sessions.extend(members.filter_map(|child| SessionName::new(child.name).ok()));
        page_token = page.next_page_token;
        if page_token.is_none() {
            return Ok(sessions);
        }
    }
}

/// A membership, as long as this lives and its session does. Dropping it leaves in the background.
#[derive(Debug)]
#[must_use = "dropping the membership leaves the group"]
pub struct Membership {
    /// Only none while it is left.
    place: Option<Place>,
}

impl Membership {
    /// Whose it is.
    pub fn session(&self) -> Option<&SessionName> {
        self.place.as_ref().map(|place| &place.record.session.name)
    }

    /// Whether its session certainly lives. If not, it is over: whoever wants to be there again joins again.
    ///
    /// # Errors
    /// Why it is over.
    pub fn ensure(&self) -> Result<(), Loss> {
        match &self.place {
            Some(place) => place.record.session.standing(Moment::now()).map(drop),
            None => Err(Loss::SessionEnded),
        }
    }

    /// Resolves when it is over because its session is.
    pub async fn lost(&self) -> Loss {
        match &self.place {
            Some(place) => place.record.session.lost().await,
            None => Loss::SessionEnded,
        }
    }

    /// Says something else to the others.
    ///
    /// # Errors
    /// [`Error::Lost`] if the session has ended; otherwise see [`Error`].
    pub async fn say(&self, value: impl Into<String>) -> Result<(), Error> {
        self.ensure()?;
        let Some(place) = &self.place else { return Err(Error::Lost(Loss::SessionEnded)) };
        place.record.put(value.into());
        place.record.write().await.map(drop)
    }

    /// Leaves, and waits until that is certain.
    ///
    /// # Errors
    /// [`Error::Lost`] if the session had ended; otherwise see [`Error`]. Whatever it is, the membership ends with the
    /// session at the latest.
    pub async fn leave(mut self) -> Result<(), Error> {
        match self.place.take() {
            Some(place) => place.leave().await,
            None => Ok(()),
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let Some(place) = self.place.take() else { return };
        let runtime = place.record.session.runtime.clone();
        // If nobody takes it, it goes with the session.
        runtime.spawn(async move { drop(place.leave().await) });
    }
}

#[derive(Debug)]
struct Place {
    used: Use,
    keeper: JoinHandle<()>,
    leave: CancellationToken,
    record: Arc<Record>,
}

impl Place {
    async fn leave(mut self) -> Result<(), Error> {
        // It is not stopped in the middle of writing: what it wrote afterwards would stay.
        self.leave.cancel();
        drop((&mut self.keeper).await);
        let left = self.record.delete().await;
        drop(self.used);
        left
    }
}

/// The node that stands for a session.
#[derive(Debug)]
struct Record {
    calls: Calls,
    session: Arc<Session>,
    path: ZnodePath,
    value: Mutex<String>,
}

impl Record {
    /// Creates it, or replaces what it says; answers when.
    async fn write(&self) -> Result<Revision, Error> {
        let (path, value) = (&self.path, self.value());
        let create = json!({ "create": path, "data": value, "ephemeral": true, "parents": true });
        let set = json!({ "set": path, "data": value });
        let there = json!({ "path": path, "exists": true });
        let body = self.change(json!({ "if": [there], "then": [set], "else": [create] })).await?;
        for stat in body.results.iter().filter_map(stat_of) {
            if stat.kind != KindBody::Ephemeral {
                let complaint = format!("{path} is a node of another kind, and no membership");
                return Err(Error::Argument(complaint));
            }
        }
        Ok(body.revision)
    }

    /// Creates it if it is not there.
    async fn restore(&self) -> Result<Revision, Error> {
        let (path, value) = (&self.path, self.value());
        let create = json!({ "create": path, "data": value, "ephemeral": true, "parents": true });
        let absent = json!({ "path": path, "exists": false });
        let body = self.change(json!({ "if": [absent], "then": [create] })).await?;
        Ok(body.revision)
    }

    async fn delete(&self) -> Result<(), Error> {
        let path = &self.path;
        let there = json!({ "path": path, "exists": true });
        self.change(json!({ "if": [there], "then": [{ "delete": path }] })).await.map(drop)
    }

    /// In the name of the session alone: when that has ended, nothing is done. Sent again it is done once.
    async fn change(&self, mut transaction: Value) -> Result<TxnBody, Error> {
        transaction["session"] = json!(self.session.name);
        transaction["request"] = json!(own_request()?.as_str());
        self.calls.transact(&transaction).await
    }

    fn value(&self) -> String {
        self.value.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn put(&self, value: String) {
        *self.value.lock().unwrap_or_else(PoisonError::into_inner) = value;
    }
}

fn stat_of(op: &OpBody) -> Option<&StatBody> {
    match op {
        OpBody::Created { stat, .. } | OpBody::DataSet { stat, .. } => Some(stat),
        OpBody::AclSet { .. } | OpBody::Deleted { .. } | OpBody::Checked { .. } => None,
    }
}

/// Sees to it that the record is there while its session lives, until it is to leave.
async fn keep(record: Arc<Record>, leave: CancellationToken, mut since: Revision) {
    loop {
        let heard = tokio::select! {
            heard = record.calls.changes(&record.path, since, WAIT, true) => heard,
            _over = record.session.lost() => return,
            () = leave.cancelled() => return,
        };
        let is_in_doubt = match &heard {
            Ok(body) => body.events.iter().any(|change| change.kind == ChangeKind::Deleted),
            // It is not known what happened meanwhile.
            Err(_) => true,
        };
        if let Ok(body) = &heard {
            since = body.revision.max(since);
        }
        if is_in_doubt {
            match record.restore().await {
                Ok(revision) => since = revision.max(since),
                Err(Error::Lost(loss)) => return record.session.end(loss),
                Err(_) => rest(&leave).await,
            }
        }
    }
}

async fn rest(leave: &CancellationToken) {
    tokio::select! {
        () = tokio::time::sleep(REST) => {}
        () = leave.cancelled() => {}
    }
}
