//! The sessions of one client: one for each time-to-live that its locks name, opened on first use.
//!
//! The client replaces a generated session that has ended. It never replaces a session that the caller named, because
//! the caller must see its end. Bounds: [`SESSIONS_MAX`] times-to-live.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdfast_types::{Labels, SessionId, SessionName, Ttl, millis};
use tokio::sync::Mutex;

use crate::calls::send::{Calls, SessionSettings};
use crate::error::argument;
use crate::sessions::renewal;
use crate::sessions::session::{Session, SessionUse};
use crate::{Error, Loss, numbers};

const SESSIONS_MAX: usize = 64;

#[derive(Clone, Debug)]
pub(crate) enum SessionNaming {
    /// A prefix; a random suffix makes the name unique.
    Prefix(String),
    /// The complete name. The session outlives the client, and other clients may use it.
    Named(String),
}

#[derive(Debug)]
pub(crate) struct Sessions {
    naming: SessionNaming,
    /// `None` is the default of the cluster, or the time-to-live of the existing session.
    ttl: Option<Duration>,
    pub(crate) labels: BTreeMap<String, String>,
    open: Mutex<BTreeMap<Option<Ttl>, Arc<Session>>>,
    is_closed: AtomicBool,
}

impl Sessions {
    pub(crate) fn new(
        naming: SessionNaming,
        ttl: Option<Duration>,
        labels: BTreeMap<String, String>,
    ) -> Self {
        Self { naming, ttl, labels, open: Mutex::default(), is_closed: AtomicBool::new(false) }
    }

    /// Returns the live session for this time-to-live; opens it if necessary.
    pub(crate) async fn session_for(
        &self,
        calls: &Calls,
        ttl: Option<Duration>,
    ) -> Result<SessionUse, Error> {
        let ttl = self.checked_ttl(ttl)?;
        // The mutex stays locked during the call, so that concurrent tasks share the session.
        let mut open = self.open.lock().await;
        if self.is_closed() {
            return Err(argument("the client is closed"));
        }
        if let Some(session) = open.get(&ttl).filter(|session| session.is_alive()) {
            return Ok(SessionUse::of(session));
        }
        if open.len() >= SESSIONS_MAX && !open.contains_key(&ttl) {
            return Err(Error::InvalidArgument(format!(
                "the locks of one client have at most {SESSIONS_MAX} different times-to-live: use fewer"
            )));
        }
        let (name, is_own) = self.name()?;
        let labels = Labels::new(self.labels.clone()).map_err(argument)?;
        let incarnation = open.get(&ttl).filter(|_| !is_own).map(|ended| ended.incarnation);
        let settings = SessionSettings { ttl, labels, incarnation };
        let session = Session::open(calls.clone(), name, is_own, &settings).await?;
        session.runtime.spawn(renewal::renew_while_used(session.clone()));
        let session_use = SessionUse::of(&session);
        if let Some(ended) = open.insert(ttl, session) {
            ended.abandon();
        }
        Ok(session_use)
    }

    pub(crate) async fn used_incarnation(&self, name: &SessionName) -> Option<SessionId> {
        self.open.lock().await.values().find(|used| used.name == *name).map(|used| used.incarnation)
    }

    /// Forgets a session that the caller has closed: the next use of the name opens a new one.
    pub(crate) async fn forget(&self, name: &SessionName, incarnation: SessionId) {
        self.open.lock().await.retain(|_, session| session.id() != (name, incarnation));
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Closes generated sessions, and leaves named sessions.
    pub(crate) async fn close(&self) -> Result<(), Error> {
        let mut open = self.open.lock().await;
        self.is_closed.store(true, Ordering::SeqCst);
        let sessions = std::mem::take(&mut *open);
        drop(open);
        let mut result = Ok(());
        for session in sessions.into_values() {
            session.abandon();
            if !session.is_alive() {
                continue;
            }
            if session.is_own {
                session.end(Loss::SessionEnded);
                let closed = session.calls.close(&session.name, Some(session.incarnation)).await;
                if !matches!(closed, Err(Error::Lost(_))) {
                    result = result.and(closed);
                }
            } else {
                session.leave().await;
            }
        }
        result
    }

    fn checked_ttl(&self, requested: Option<Duration>) -> Result<Option<Ttl>, Error> {
        if let (SessionNaming::Named(name), Some(_)) = (&self.naming, requested)
            && self.ttl != requested
        {
            return Err(Error::InvalidArgument(format!(
                "set the time-to-live of the named session {name} on the client builder, not on a lock"
            )));
        }
        let ttl = requested.or(self.ttl).map(|ttl| Ttl::from_millis(millis(ttl)));
        ttl.transpose().map_err(argument)
    }

    /// Returns the name of a new session, and whether it is generated.
    fn name(&self) -> Result<(SessionName, bool), Error> {
        let (name, is_own) = match &self.naming {
            SessionNaming::Named(name) => (name.clone(), false),
            SessionNaming::Prefix(prefix) => (format!("{prefix}-{:016x}", numbers::bits()?), true),
        };
        Ok((SessionName::new(name).map_err(argument)?, is_own))
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        self.open.get_mut().values().for_each(|session| session.abandon());
    }
}
