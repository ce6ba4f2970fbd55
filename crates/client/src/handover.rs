//! A hold that goes from one session to another without a gap: the giver's side, and the receiver's.
//!
//! Owns that the giver gives up first: from before the call is sent, every view of the hold says lost, because from then on
//! the cluster may have given it away. If the cluster refuses for certain, the giver gets a new guard of the same hold.
//! Refuses to know how the two programs agree on it. Bounds: one call under way.

use std::sync::Arc;
use std::time::Duration;

use holdfast_api::{
    ErrorCode, HandedBody, HolderBody, LockBody, ReleaseParams, TermsParams, WAIT_MAX, WatchBody,
    WatchParams, lock_path,
};
use holdfast_types::{FencingToken, Owner, ReleaseTarget, Revision, SessionName, ZnodePath};
use reqwest::Method;
use thiserror::Error as ThisError;

use crate::claim::{Claim, Stage};
use crate::clock::Moment;
use crate::error::argument;
use crate::exchange::Ended;
use crate::limit::Limits;
use crate::session::{Session, Use};
use crate::wanted::{Patience, Wanted, is_certain};
use crate::{Error, Guard, Hold, Lock, Loss};

/// The hold was not handed on.
#[derive(Debug, ThisError)]
#[error("not handed on: {error}")]
pub struct NotHandedOver {
    /// Why.
    pub error: Error,
    /// The hold, which goes on with the same token; none if it is lost, or may be another's by now.
    pub guard: Option<Box<Guard>>,
}

impl From<NotHandedOver> for Error {
    fn from(not: NotHandedOver) -> Self {
        not.error
    }
}

impl NotHandedOver {
    fn without(error: Error) -> Self {
        Self { error, guard: None }
    }
}

impl Guard {
    /// Hands the lock to another session that is open, which holds it in the same step, with a new token: nobody gets in
    /// between. With an `owner` to that owner of the session, else to the session as such. The receiver gets its guard from
    /// an acquire of the same lock that waits, or from [`Lock::receive`]. Answers the receiver's token.
    ///
    /// Stop what the lock protected before: from the call on, every view of this hold says [`Loss::HandedOver`].
    ///
    /// # Errors
    /// [`NotHandedOver`], with a guard that goes on if the cluster refused for certain. If it is not known whether it was
    /// handed on, what may be left of it here is given back in the background.
    pub async fn hand_over(
        mut self,
        to: &SessionName,
        owner: Option<&str>,
    ) -> Result<FencingToken, NotHandedOver> {
        self.ensure().map_err(|loss| NotHandedOver::without(Error::Lost(loss)))?;
        let owner = match owner.map(Owner::new).transpose() {
            Ok(owner) => owner,
            Err(error) => {
                return Err(NotHandedOver { error: argument(error), guard: Some(Box::new(self)) });
            }
        };
        let session = self.used.session().clone();
        if !session.claims.is_alone(&self.hold.claim) {
            let complaint = "it was entered more than once: release the other guards before";
            let error = Error::Argument(complaint.to_owned());
            return Err(NotHandedOver { error, guard: Some(Box::new(self)) });
        }
        let limits = self.stop();
        let params = ReleaseParams {
            session: session.name.clone(),
            owner: self.hold.claim.owner.clone(),
            target: ReleaseTarget::Hold(self.token()),
            to: Some((to.clone(), owner.clone())),
            redirect: false,
        };
        let Ended { result, doubtful } =
            session.calls.hand_over(self.hold.claim.lock(), &params).await;
        let error = match result {
            Ok(answered) => return Ok(self.given(&answered.body)),
            // A copy of the call may have done it, and the receiver's session may have ended since.
            Err(Error::Refused(problem)) if doubtful => Error::Unknown(problem.title.to_string()),
            Err(error) if is_certain(&error, doubtful) => {
                return Err(self.refused(&session, (to, limits), error).await);
            }
            Err(error) => error,
        };
        Err(NotHandedOver::without(error))
    }

    /// Says that it is lost, before anybody else can have it. Answers the bounds that it had.
    fn stop(&mut self) -> Limits {
        self.sentinel.abort();
        let limits = self.hold.claim.limits.borrow().clone();
        self.hold.claim.enter(Stage::Leaving);
        let lose = |limits: &mut Limits| limits.lose(Loss::HandedOver, Moment::now());
        self.hold.claim.limits.send_modify(lose);
        self.cancel.cancel();
        limits
    }

    fn given(&mut self, handed: &HandedBody) -> FencingToken {
        self.settle();
        handed.token
    }

    /// Nothing is left here.
    fn settle(&mut self) {
        self.released = true;
        self.used.session().claims.remove(&self.hold.claim);
    }

    /// It was certainly not handed on: the hold goes on in a guard of its own, unless it had been lost.
    async fn refused(
        mut self,
        session: &Arc<Session>,
        (to, limits): (&SessionName, Limits),
        error: Error,
    ) -> NotHandedOver {
        let error = match error {
            // One of the two sessions has ended.
            Error::Lost(loss) => {
                let left = session.standing(Moment::now()).map(|at| at.left(Moment::now()));
                let Ok(left) = left else { return NotHandedOver::without(Error::Lost(loss)) };
                match session.calls.keep_alive(&session.name, left).await {
                    Ok(_) => {
                        Error::Argument(format!("no session {to} is open: it opens one first"))
                    }
                    Err(_) => return NotHandedOver::without(Error::Lost(loss)),
                }
            }
            Error::Refused(problem) if problem.code == ErrorCode::NotHolder => {
                self.settle();
                return NotHandedOver::without(Error::Lost(Loss::TakenAway));
            }
            other @ (Error::Busy(_)
            | Error::Retry(_)
            | Error::Unknown(_)
            | Error::Refused(_)
            | Error::Foreign(_)
            | Error::Argument(_)) => other,
        };
        self.settle();
        NotHandedOver { error, guard: Some(Box::new(self.renewed(limits))) }
    }

    /// Another guard of the same hold, whose views begin anew.
    fn renewed(&self, limits: Limits) -> Guard {
        let Hold { session, claim, grant } = &self.hold;
        let fresh = Claim::new(
            claim.lock().clone(),
            claim.owner.clone(),
            claim.attempt().unwrap_or_default(),
        );
        let fresh = Arc::new(fresh);
        fresh.limits.send_replace(limits);
        fresh.enter(Stage::Held(self.token()));
        session.claims.add(fresh.clone());
        let hold = Hold { session: session.clone(), claim: fresh, grant: grant.clone() };
        Guard::new(hold, self.wanted.clone(), Use::of(session))
    }
}

impl Lock {
    /// A guard of a lock that was [handed](Guard::hand_over) to this client's session, or is about to be: waits for that as
    /// [`Lock::wait`] says, and not at all without it. None if it was not handed to it in that time. Say to whom with
    /// [`Lock::owner`]; otherwise it is the session as such. It takes nothing that was not given: use
    /// [`Lock::acquire`] to queue.
    ///
    /// ```no_run
    /// # async fn example(client: holdfast_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// // The giver must know the session; it has to be open.
    /// let session = client.session().await?;
    /// println!("hand it to {}", session.name());
    /// let given = client.lock("orders").wait(Duration::from_secs(60)).receive().await?;
    /// if let Some(guard) = given {
    ///     println!("write with token {}", guard.token());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`] if this program has a guard of it already; otherwise see [`Error`].
    pub async fn receive(self) -> Result<Option<Guard>, Error> {
        let patience = self.wait.map_or_else(Patience::none, Patience::of);
        let used = self.client.session_for(self.ttl).await?;
        let wanted = self.checked_as_given()?;
        let session = used.session().clone();
        loop {
            let body: LockBody = session.calls.get(lock_path(&wanted.lock)).await?;
            if let Some(token) = given(&body, &session, &wanted) {
                match wanted.clone().take_given(&session, token).await? {
                    Some(guard) => return Ok(Some(guard)),
                    // It was lost again between the two calls.
                    None => continue,
                }
            }
            let wait = patience.of_one_call();
            if wait.is_zero() {
                return Ok(None);
            }
            let since = body.revision.unwrap_or_default();
            tokio::select! {
                changed = change(&session, &wanted, since, wait) => changed?,
                loss = session.lost() => return Err(Error::Lost(loss)),
            }
        }
    }

    /// What a lock that was handed over is called: no attempt of ours took it.
    fn checked_as_given(&self) -> Result<Wanted, Error> {
        let wanted = self.checked()?;
        let terms = TermsParams { value: wanted.terms.value.clone(), ..TermsParams::default() };
        let owner = wanted.owner.clone().filter(|_| self.names_an_owner());
        Ok(Wanted { owner, is_given: true, mode: None, terms, ..wanted })
    }
}

impl Wanted {
    /// Becomes the guard of a hold that is the session's already; none if it is not any more.
    async fn take_given(
        self,
        session: &Arc<Session>,
        token: FencingToken,
    ) -> Result<Option<Guard>, Error> {
        if session.claims.is_owner(&self.lock, self.owner.as_ref()) {
            let complaint = format!("this program has a guard of {} already", self.lock);
            return Err(Error::Argument(complaint));
        }
        match self.ask(Use::of(session), Patience::none()).await {
            Ok(guard) if guard.token() == token => Ok(Some(guard)),
            // Taken anew, because it was free: that was not given.
            Ok(guard) => guard.release().await.map(|()| None),
            Err(Error::Busy(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The token of the session's hold, if it has one for this owner.
fn given(body: &LockBody, session: &Session, wanted: &Wanted) -> Option<FencingToken> {
    let ours =
        |holder: &&HolderBody| holder.session == session.name && holder.owner == wanted.owner;
    body.holders.iter().find(ours).map(|holder| holder.token)
}

/// Waits until something happens to the lock after a revision, or for so long.
async fn change(
    session: &Session,
    wanted: &Wanted,
    since: Revision,
    wait: Duration,
) -> Result<(), Error> {
    let place = ZnodePath::of_lock(&wanted.lock).as_str().to_owned();
    let wait = wait.min(WAIT_MAX);
    let params = WatchParams { place, exact: true, since: Some(since), wait };
    let target = format!("/v1/watch?{}", params.to_query());
    let ended: Ended<WatchBody> = session.calls.ask_waiting(Method::GET, target, wait).await;
    match ended.result {
        // So much has happened that it is forgotten: look again.
        Err(Error::Refused(problem)) if problem.code == ErrorCode::RevisionCompacted => Ok(()),
        Err(Error::Retry(_) | Error::Unknown(_)) | Ok(_) => Ok(()),
        Err(error) => Err(error),
    }
}
