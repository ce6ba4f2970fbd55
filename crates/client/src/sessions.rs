//! The sessions of one client: one for each time-to-live that its locks ask for, opened when it is first needed.
//!
//! Owns how sessions are called and when a new one takes the place of one that is over. A session that the caller
//! named is never replaced: that it has ended is for the caller to know.
//! Bounds: [`SESSIONS_MAX`] times-to-live.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_api::OpenParams;
use holdfast_types::{Labels, SessionName, Ttl};
use tokio::sync::Mutex;

use crate::calls::Calls;
use crate::clock::Moment;
use crate::error::argument;
use crate::session::{Session, Use};
use crate::{Error, random};

/// Times-to-live of one client at most.
const SESSIONS_MAX: usize = 64;

/// How sessions are called.
#[derive(Clone, Debug)]
pub(crate) enum Naming {
    /// This, and something that nobody else has.
    Prefix(String),
    /// Exactly so: it outlives the client, and others may use it.
    Exactly(String),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Sessions {
    naming: Naming,
    /// None leaves it to the cluster, or to whoever opened the session.
    ttl: Option<Duration>,
    pub(crate) labels: BTreeMap<String, String>,
    open: Mutex<BTreeMap<Option<Ttl>, Arc<Session>>>,
}

impl Sessions {
    pub(crate) fn new(
        naming: Naming,
        ttl: Option<Duration>,
        labels: BTreeMap<String, String>,
    ) -> Self {
        Self { naming, ttl, labels, open: Mutex::default() }
    }

    /// The live session for this time-to-live.
    pub(crate) async fn session_for(
        &self,
        calls: &Calls,
        ttl: Option<Duration>,
    ) -> Result<Use, Error> {
        let ttl = self.checked_ttl(ttl)?;
        // Held while one is opened, so that tasks that begin together share it.
        let mut open = self.open.lock().await;
        if let Some(session) =
            open.get(&ttl).filter(|session| session.standing(Moment::now()).is_ok())
        {
            return Ok(Use::of(session));
        }
        if open.len() >= SESSIONS_MAX && !open.contains_key(&ttl) {
            let complaint = format!(
                "one client's locks have at most {SESSIONS_MAX} different times-to-live: use fewer"
            );
            return Err(Error::Argument(complaint));
        }
        let (name, own) = self.name()?;
        let labels = Labels::new(self.labels.clone()).map_err(argument)?;
        let params = OpenParams { ttl, labels, redirect: false };
        let session = Session::open(calls.clone(), name, own, &params).await?;
        let used = Use::of(&session);
        if let Some(over) = open.insert(ttl, session) {
            over.leave();
        }
        Ok(used)
    }

    /// Ends those of our own for certain; of the others, waits until what was dropped is given back.
    pub(crate) async fn close(&self) -> Result<(), Error> {
        let sessions = std::mem::take(&mut *self.open.lock().await);
        let mut result = Ok(());
        for session in sessions.into_values() {
            session.leave();
            if session.standing(Moment::now()).is_err() {
                continue;
            }
            if session.own {
                session.end(crate::Loss::SessionEnded);
                let closed = session.calls.close(&session.name, Some(session.incarnation)).await;
                result = result.and(closed);
            } else {
                tokio::select! {
                    () = session.claims.settled() => {}
                    _over = session.lost() => {}
                }
            }
        }
        result
    }

    fn checked_ttl(&self, asked: Option<Duration>) -> Result<Option<Ttl>, Error> {
        let ttl = match (&self.naming, asked) {
            (Naming::Exactly(name), Some(asked)) if self.ttl != Some(asked) => {
                return Err(Error::Argument(format!(
                    "the time-to-live of the named session {name} is set where it is named, not at a lock"
                )));
            }
            (Naming::Exactly(_) | Naming::Prefix(_), asked) => asked.or(self.ttl),
        };
        ttl.map(|ttl| Ttl::from_millis(holdfast_types::millis(ttl)).map_err(argument)).transpose()
    }

    fn name(&self) -> Result<(SessionName, bool), Error> {
        let (name, own) = match &self.naming {
            Naming::Exactly(name) => (name.clone(), false),
            Naming::Prefix(prefix) => (format!("{prefix}-{:016x}", random::bits()?), true),
        };
        Ok((SessionName::new(name).map_err(argument)?, own))
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        self.open.get_mut().values().for_each(|session| session.leave());
    }
}
