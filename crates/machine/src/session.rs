//! The commands of sessions: open, renew, close, expire.
//!
//! Owns who may open, renew and end a session. Refuses to know deadlines: those are the leader's.

use holdfast_types::{
    Bound, Event, Labels, OpenSession, Outcome, Rejection, Reply, SessionEnd, SessionId,
    SessionName, Ttl,
};

use crate::Machine;
use crate::apply::{Step, expired, limit_reached, no_session};
use crate::plant::Plant;
use crate::sessions::Named;

impl Machine {
    /// Opens a session, or renews it if it is open. One that expired is told so until it takes note by closing.
    pub(crate) fn open_session(&mut self, open: OpenSession, step: &mut Step<'_>) -> Outcome {
        let (id, ttl, created) = match self.sessions.named(&open.session) {
            Some(Named::Open(id)) => {
                let ttl = self.touch(id, open.ttl, open.labels, step);
                (id, ttl, false)
            }
            Some(Named::Ended { end: SessionEnd::Expired, .. }) => {
                return Err(expired(open.session));
            }
            Some(Named::Ended { end: SessionEnd::Closed, .. }) | None => {
                self.room_for_a_session()?;
                let id = self.begin_session(open, step);
                let ttl = self.sessions.get(id).map_or(Ttl::DEFAULT, |session| session.ttl);
                (id, ttl, true)
            }
        };
        Ok(Reply::SessionOpened { id, ttl, created })
    }

    /// Gives a live session a new lease.
    pub(crate) fn renew_session(
        &mut self,
        session: SessionName,
        ttl: Option<Ttl>,
        step: &mut Step<'_>,
    ) -> Outcome {
        match self.sessions.named(&session) {
            Some(Named::Open(id)) => {
                let ttl = self.touch(id, ttl, Labels::default(), step);
                Ok(Reply::SessionRenewed { id, ttl })
            }
            Some(Named::Ended { end: SessionEnd::Expired, .. }) => Err(expired(session)),
            Some(Named::Ended { end: SessionEnd::Closed, .. }) | None => Err(no_session(session)),
        }
    }

    /// Ends a session by its own wish; on one that expired, takes note and frees the name.
    pub(crate) fn close_session(&mut self, session: SessionName, step: &mut Step<'_>) -> Outcome {
        match self.sessions.named(&session) {
            Some(Named::Open(id)) => self.end_session(id, SessionEnd::Closed, step),
            Some(Named::Ended { end: SessionEnd::Expired, .. }) => self.sessions.forget(&session),
            Some(Named::Ended { end: SessionEnd::Closed, .. }) => {}
            None => return Err(no_session(session)),
        }
        Ok(Reply::SessionEnded)
    }

    /// Ends a session whose lease ran out, unless the lease was renewed since.
    pub(crate) fn expire_session(
        &mut self,
        session: SessionId,
        generation: u64,
        step: &mut Step<'_>,
    ) -> Outcome {
        match self.sessions.get(session) {
            Some(live) if live.generation == generation || self.planted(Plant::ExpiryBlind) => {
                self.end_session(session, SessionEnd::Expired, step);
                Ok(Reply::SessionEnded)
            }
            Some(_) | None => Err(Rejection::Superseded),
        }
    }

    /// Refuses one session too many.
    pub(crate) fn room_for_a_session(&self) -> Result<(), Rejection> {
        let max = self.limits.sessions_max;
        if self.sessions.len() as u64 >= u64::from(max) {
            return Err(limit_reached(Bound::Sessions, max));
        }
        Ok(())
    }

    /// A new session, the checks done.
    pub(crate) fn begin_session(&mut self, open: OpenSession, step: &mut Step<'_>) -> SessionId {
        let ttl = open.ttl.unwrap_or(Ttl::DEFAULT);
        let id = self.sessions.open(open, step.now);
        step.emit(Event::SessionTouched { id, ttl, generation: 1 });
        id
    }

    /// A sign of life: the next lease, and another time-to-live or labels if some are given. Answers the
    /// time-to-live from now on.
    pub(crate) fn touch(
        &mut self,
        id: SessionId,
        ttl: Option<Ttl>,
        labels: Labels,
        step: &mut Step<'_>,
    ) -> Ttl {
        let Some(session) = self.sessions.get_mut(id) else { return Ttl::DEFAULT };
        session.generation = session.generation.saturating_add(1);
        session.ttl = ttl.unwrap_or(session.ttl);
        if !labels.is_empty() {
            session.labels = labels;
        }
        let (ttl, generation) = (session.ttl, session.generation);
        step.emit(Event::SessionTouched { id, ttl, generation });
        ttl
    }

    /// How many places a session has, by its name.
    pub(crate) fn places_of(&self, session: &SessionName) -> u64 {
        match self.sessions.named(session) {
            Some(Named::Open(id)) => {
                self.sessions.get(id).map_or(0, |session| session.contenders.into())
            }
            Some(Named::Ended { .. }) | None => 0,
        }
    }
}
