//! The commands that open, attach, renew, close and expire sessions. The leader tracks the deadlines.

use holdfast_types::{
    Attempt, Bound, Command, Labels, LockRejection, LossCause, OpenSession, Outcome, Password,
    Rejection, Reply, Revision, SessionEnd, SessionEvent, SessionId, SessionName,
    SessionOpenedReply, SessionRejection, SubjectName, Ttl,
};

use crate::Machine;
use crate::context::{ApplyContext, expired, limit_reached, no_session};
use crate::session::store::KnownSession;

impl Machine {
    /// Opens a session, or renews it if it is open. Rejects an expired session until a close acknowledges the expiry,
    /// and a late copy of the open of a closed one.
    pub(crate) fn open_session(
        &mut self,
        open: OpenSession,
        attempt: Option<Attempt>,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        let (id, ttl, created) = if let Some(id) = self.session_for(&open)? {
            if open.password.is_some() && !self.is_opened_by(id, open.password) {
                return Err(no_session(open.session));
            }
            let ttl = if open.password.is_some() {
                self.set_labels(id, &open.labels);
                let ttl = self.renew_lease(id, open.ttl, ctx);
                self.attach(id, ctx);
                ttl
            } else {
                let ttl = self.renew_lease_by_name(id, &open, attempt, ctx);
                // An open without settings is not repeated after the end of the session either.
                if let Some(session) = self.sessions.get_mut(id) {
                    session.settings_by = session.settings_by.max(attempt.unwrap_or_default());
                }
                ttl
            };
            (id, ttl, false)
        } else {
            self.check_open_attempt(&open.session, attempt)?;
            self.check_chosen_id(&open)?;
            self.check_room_for_session()?;
            let id = self.open_new_session(open, attempt, ctx);
            let ttl = self.sessions.get(id).map_or(Ttl::DEFAULT, |session| session.ttl.present);
            (id, ttl, true)
        };
        Ok(Reply::SessionOpened(SessionOpenedReply { id, ttl, created }))
    }

    /// Returns the open session that a command uses, or `None` if the command opens a new one. Rejects an expired session
    /// until a close acknowledges the expiry, and every session but the incarnation that the caller requires.
    pub(crate) fn session_for(&self, open: &OpenSession) -> Result<Option<SessionId>, Rejection> {
        let current = match self.sessions.named(&open.session) {
            Some(KnownSession::Open(id)) => Some(id),
            Some(KnownSession::Ended { end: SessionEnd::Expired, .. }) => {
                return Err(expired(open.session.clone()));
            }
            Some(KnownSession::Ended { end: SessionEnd::Closed, .. }) | None => None,
        };
        match open.incarnation {
            Some(incarnation) if current != Some(incarnation) => {
                let session = open.session.clone();
                Err(SessionRejection::IncarnationEnded { session, incarnation }.into())
            }
            Some(_) | None => Ok(current),
        }
    }

    /// Renews the lease of a live session. Rejects a session that was closed under the seal: the renewal may be a late copy.
    pub(crate) fn renew_session(
        &mut self,
        session: &SessionName,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        let id = self.open_session_named(session)?;
        if self.is_closed_under_seal(id) {
            return Err(no_session(session.clone()));
        }
        let ttl = self.renew_lease(id, None, ctx);
        Ok(Reply::SessionRenewed { id, ttl })
    }

    /// Returns the id of the open session with this name.
    pub(crate) fn open_session_named(&self, session: &SessionName) -> Result<SessionId, Rejection> {
        match self.sessions.named(session) {
            Some(KnownSession::Open(id)) => Ok(id),
            Some(KnownSession::Ended { end: SessionEnd::Expired, .. }) => {
                Err(expired(session.clone()))
            }
            Some(KnownSession::Ended { end: SessionEnd::Closed, .. }) | None => {
                Err(no_session(session.clone()))
            }
        }
    }

    /// Renews the lease of an open session, or opens a new session.
    pub(crate) fn renew_or_open_session(
        &mut self,
        session: Option<SessionId>,
        open: &OpenSession,
        attempt: Option<Attempt>,
        ctx: &mut ApplyContext<'_>,
    ) -> SessionId {
        if let Some(id) = session {
            self.renew_lease_by_name(id, open, attempt, ctx);
            return id;
        }
        let open = OpenSession { id: None, ..open.clone() };
        self.open_new_session(open, attempt, ctx)
    }

    /// Closes a session. For an expired session, acknowledges the expiry and frees the name. With an incarnation, ends
    /// only that one.
    pub(crate) fn close_session(
        &mut self,
        session: SessionName,
        attachment: Option<Revision>,
        incarnation: Option<SessionId>,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        let named = self.sessions.named(&session);
        let current = match named {
            Some(KnownSession::Open(id)) => Some(id),
            Some(KnownSession::Ended { .. }) | None => {
                self.sessions.tombstone(&session).map(|ended| ended.incarnation)
            }
        };
        if incarnation.is_some() && incarnation != current {
            // The requested incarnation has already ended.
            return Ok(Reply::SessionEnded);
        }
        match named {
            Some(KnownSession::Open(id)) => {
                self.check_attachment(id, attachment)?;
                self.end_session(id, LossCause::SessionClosed, ctx);
            }
            Some(KnownSession::Ended { end: SessionEnd::Expired, .. }) => {
                self.sessions.acknowledge_expiry(&session);
            }
            Some(KnownSession::Ended { end: SessionEnd::Closed, .. }) => {}
            None => return Err(no_session(session)),
        }
        if let Some(closed) = current {
            self.acknowledge_losses(&session, closed, ctx);
        }
        Ok(Reply::SessionEnded)
    }

    /// Ends the open session of another client, for an operator. Its holders may still write, so lock delays begin as after a
    /// break. With an incarnation, ends only that one.
    pub(crate) fn end_session_for_operator(
        &mut self,
        session: &SessionName,
        incarnation: Option<SessionId>,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        let id = self.open_session_named(session)?;
        if incarnation.is_none_or(|incarnation| incarnation == id) {
            self.end_session(id, LossCause::ForceReleased, ctx);
        }
        Ok(Reply::SessionEnded)
    }

    /// Closes those of the sessions that are open and belong to the subject, as [`Machine::end_session_for_operator`] does.
    pub(crate) fn end_sessions(
        &mut self,
        subject: &SubjectName,
        sessions: &[(SessionName, SessionId)],
        ctx: &mut ApplyContext<'_>,
    ) -> Reply {
        let mut count = 0;
        for (session, id) in sessions.iter().take(Command::END_SESSIONS_MAX) {
            let is_theirs = self.sessions.subject_of(session) == Some(subject);
            if is_theirs && self.open_session_named(session) == Ok(*id) {
                self.end_session_without_grants(*id, LossCause::ForceReleased, ctx);
                count += 1;
            }
        }
        self.grant_stale(ctx);
        Reply::SessionsEnded { count }
    }

    /// Moves a session to the connection of this revision. A wrong password gets the same rejection as an unknown
    /// session.
    pub(crate) fn attach_session(
        &mut self,
        id: SessionId,
        password: Password,
        ttl: Ttl,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        if !self.is_opened_by(id, Some(password)) {
            return Err(no_session(SessionName::of(id)));
        }
        let ttl = self.renew_lease(id, Some(ttl), ctx);
        self.attach(id, ctx);
        let session = self.session_name(id).unwrap_or_else(|| SessionName::of(id));
        Ok(Reply::SessionAttached { session, ttl })
    }

    /// Makes the actor's subject the subject of a session that has none.
    pub(crate) fn claim_session(&mut self, id: SessionId, ctx: &ApplyContext<'_>) -> Outcome {
        let Some(session) = self.sessions.get(id) else {
            return Err(no_session(SessionName::of(id)));
        };
        if session.subject.is_none() {
            let rights = self.rights_of(&ctx.actor, self.now).map_err(Rejection::Auth)?;
            if let Some(subject) = rights.subject().cloned() {
                self.sessions.set_subject(id, subject);
            }
        }
        Ok(Reply::SessionClaimed)
    }

    /// Whether the session is open, and was opened with this password.
    pub fn is_opened_by(&self, id: SessionId, password: Option<Password>) -> bool {
        self.sessions.get(id).is_some_and(|session| session.password == password)
    }

    fn attach(&mut self, id: SessionId, ctx: &mut ApplyContext<'_>) {
        if let Some(session) = self.sessions.get_mut(id) {
            session.attachment = Some(ctx.revision);
            ctx.emit(SessionEvent::Attached { id });
        }
    }

    /// Rejects a connection from which a live session has moved to another one.
    pub(crate) fn check_attachment(
        &self,
        id: SessionId,
        attachment: Option<Revision>,
    ) -> Result<(), Rejection> {
        match self.sessions.get(id) {
            Some(session) if attachment.is_some() && session.attachment != attachment => {
                Err(Rejection::Session(SessionRejection::Moved { session: session.name.clone() }))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Ends a session whose lease expired. Rejects the command if the lease was renewed in the meantime.
    pub(crate) fn expire_session(
        &mut self,
        session: SessionId,
        generation: u64,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        match self.sessions.get(session) {
            Some(live) if live.generation == generation && !live.name.is_durable() => {
                self.end_session(session, LossCause::SessionExpired, ctx);
                Ok(Reply::SessionEnded)
            }
            Some(_) | None => Err(Rejection::Session(SessionRejection::LeaseRenewed)),
        }
    }

    /// Rejects a new session beyond `sessions_max`.
    pub(crate) fn check_room_for_session(&self) -> Result<(), Rejection> {
        let max = self.limits.sessions_max;
        if self.sessions.len() as u64 >= u64::from(max) {
            return Err(limit_reached(Bound::Sessions, max));
        }
        Ok(())
    }

    /// Opens a new session. The caller has done all checks.
    pub(crate) fn open_new_session(
        &mut self,
        open: OpenSession,
        attempt: Option<Attempt>,
        ctx: &mut ApplyContext<'_>,
    ) -> SessionId {
        let ttl = open.ttl.unwrap_or(Ttl::DEFAULT);
        let attaches = open.password.is_some();
        // An unknown token opens a session without a subject. Only the mode `off` accepts it.
        let rights = self.rights_of(&ctx.actor, self.now).ok();
        let subject = rights.and_then(|rights| rights.subject()).cloned();
        let is_durable = open.session.is_durable();
        let open = OpenSession { anonymous: open.anonymous || is_durable, ..open };
        let id = self.sessions.open(open, attempt, subject, ctx.now);
        if !is_durable {
            ctx.emit(SessionEvent::LeaseStarted { id, ttl, generation: 1 });
        }
        if attaches {
            self.attach(id, ctx);
        }
        id
    }

    /// Renews the lease, and replaces the TTL if the call has one. Returns the current TTL.
    pub(crate) fn renew_lease(
        &mut self,
        id: SessionId,
        ttl: Option<Ttl>,
        ctx: &mut ApplyContext<'_>,
    ) -> Ttl {
        let now = self.now;
        let Some(session) = self.sessions.get_mut(id) else { return Ttl::DEFAULT };
        session.generation = session.generation.saturating_add(1);
        if let Some(ttl) = ttl {
            session.ttl.replace(ttl, now);
        }
        let (ttl, generation) = (session.ttl.present, session.generation);
        if !session.name.is_durable() {
            ctx.emit(SessionEvent::LeaseStarted { id, ttl, generation });
        }
        ttl
    }

    /// As [`Machine::renew_lease`], for a caller that has only the session's name. Also replaces the labels if the call
    /// has any. An attempt that is not newer than the last one that set either changes neither, because it may be a late
    /// copy. A session with a password keeps its TTL, because its connection has negotiated it.
    pub(crate) fn renew_lease_by_name(
        &mut self,
        id: SessionId,
        open: &OpenSession,
        attempt: Option<Attempt>,
        ctx: &mut ApplyContext<'_>,
    ) -> Ttl {
        let by = attempt.unwrap_or(Attempt::UNNAMED);
        let set_by = self.sessions.get(id).map_or(Attempt::UNNAMED, |session| session.settings_by);
        let is_newer = by > set_by || set_by == Attempt::UNNAMED;
        if is_newer && (open.ttl.is_some() || !open.labels.is_empty()) {
            self.set_labels(id, &open.labels);
            if let Some(session) = self.sessions.get_mut(id) {
                session.settings_by = by;
            }
        }
        let ttl = open.ttl.filter(|_| is_newer && self.is_opened_by(id, None));
        self.renew_lease(id, ttl, ctx)
    }

    /// Replaces the labels if there are any.
    fn set_labels(&mut self, id: SessionId, labels: &Labels) {
        if !labels.is_empty() {
            self.sessions.set_labels(id, labels.clone());
        }
    }

    /// Rejects a chosen id that another session has, and a late copy of the open: the name of such a session is new.
    fn check_chosen_id(&self, open: &OpenSession) -> Result<(), Rejection> {
        let Some(id) = open.id else { return Ok(()) };
        let is_free = SessionId::CHOSEN.contains(&id.0)
            && self.sessions.get(id).is_none()
            && self.sessions.tombstone(&open.session).is_none();
        if is_free { Ok(()) } else { Err(no_session(open.session.clone())) }
    }

    /// Rejects a late copy of the open of a session that is closed.
    fn check_open_attempt(
        &self,
        session: &SessionName,
        attempt: Option<Attempt>,
    ) -> Result<(), Rejection> {
        let newest = self.sessions.tombstone(session).map(|ended| ended.over);
        match newest {
            Some(newest) if attempt.is_some_and(|attempt| attempt <= newest) => {
                Err(LockRejection::AttemptOver { newest }.into())
            }
            Some(_) | None => Ok(()),
        }
    }
}
