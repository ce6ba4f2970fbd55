//! A held lock. There is no empty guard: only a grant makes one.
//!
//! Owns the renewal (a third of the time-to-live apart) and the deadline after which the lock must be taken for
//! lost. Renewal asks for the session's life and looks whether the lock is still among what it holds, so that a lock
//! that was lost is never taken anew behind the caller's back. A lost guard stays lost.

use std::time::{Duration, Instant};

use holdfast_api::{GrantBody, SessionBody};
use holdfast_types::{FencingToken, LockName, SessionName};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::exchange::Answered;
use crate::{Client, Error};

/// Why a lock is no longer held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// No renewal was acknowledged in time: somebody else may have it from now on.
    NotRenewed {
        /// What stood in the way the last time.
        reason: String,
    },
    /// The cluster says that the session has ended.
    SessionEnded,
    /// The session lives, but no longer holds the lock: it was released elsewhere, or taken away.
    TakenAway,
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotRenewed { reason } => {
                write!(f, "no renewal was acknowledged before the deadline: {reason}")
            }
            Self::SessionEnded => f.write_str("the session has ended"),
            Self::TakenAway => f.write_str("the session no longer holds the lock"),
        }
    }
}

#[derive(Clone, Debug)]
struct State {
    /// Before this instant nobody else can have the lock.
    deadline: Instant,
    loss: Option<Loss>,
}

/// A lock that is held, renewed in the background. Dropping it gives the lock back in the background;
/// [`Guard::release`] does so for certain.
#[derive(Debug)]
#[must_use = "dropping the guard gives the lock back"]
pub struct Guard {
    client: Client,
    grant: GrantBody,
    /// The session is ours alone and ends with the guard.
    own_session: bool,
    state: watch::Receiver<State>,
    renewal: JoinHandle<()>,
    released: bool,
}

impl Guard {
    pub(crate) fn new(client: Client, answered: Answered<GrantBody>, own_session: bool) -> Self {
        let Answered { body: grant, sent } = answered;
        let held = Duration::from_millis(grant.waited_ms.saturating_add(grant.expires_in_ms));
        let renew_from = sent + Duration::from_millis(grant.waited_ms);
        let (sender, state) = watch::channel(State { deadline: deadline(sent, held), loss: None });
        let renewal = Renewal {
            client: client.clone(),
            lock: grant.lock.clone(),
            session: grant.session.clone(),
            token: grant.token,
            state: sender,
        };
        let every = Duration::from_millis(grant.expires_in_ms) / 3;
        let renewal = tokio::spawn(renewal.run(renew_from + every));
        Self { client, grant, own_session, state, renewal, released: false }
    }

    /// The proof of order to carry into every write that the lock protects.
    pub fn token(&self) -> FencingToken {
        self.grant.token
    }

    /// The lock.
    pub fn lock(&self) -> &LockName {
        &self.grant.lock
    }

    /// The session that holds it.
    pub fn session(&self) -> &SessionName {
        &self.grant.session
    }

    /// The grant as the node answered it.
    pub fn grant(&self) -> &GrantBody {
        &self.grant
    }

    /// Nobody else can have the lock before this instant. Moves on with every renewal.
    pub fn deadline(&self) -> Instant {
        self.state.borrow().deadline
    }

    /// What is left until the deadline; zero if it is past or the lock is lost.
    pub fn remaining(&self) -> Duration {
        let state = self.state.borrow();
        match state.loss {
            Some(_) => Duration::ZERO,
            None => state.deadline.saturating_duration_since(Instant::now()),
        }
    }

    /// Resolves when the lock is lost; never, if it is not. Stop then what it protected.
    pub async fn lost(&self) -> Loss {
        let mut state = self.state.clone();
        // The renewal ends only with a loss, or with the guard.
        let ended = state.wait_for(|state| state.loss.is_some()).await;
        let loss = ended.ok().and_then(|state| state.loss.clone());
        match loss {
            Some(loss) => loss,
            None => std::future::pending().await,
        }
    }

    /// Gives the lock back and waits until that is certain.
    ///
    /// # Errors
    /// See [`Error`]; whatever it is, the lock is free after its time-to-live at the latest.
    pub async fn release(mut self) -> Result<(), Error> {
        self.released = true;
        self.renewal.abort();
        give_back(&self.client, &self.grant, self.own_session).await
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.renewal.abort();
        if self.released {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (client, grant, own) = (self.client.clone(), self.grant.clone(), self.own_session);
            // If it fails, the lock is free after its time-to-live.
            drop(runtime.spawn(async move { give_back(&client, &grant, own).await }));
        }
    }
}

async fn give_back(client: &Client, grant: &GrantBody, own_session: bool) -> Result<(), Error> {
    if own_session {
        client.close_session(&grant.session).await
    } else {
        client.release(&grant.lock, &grant.session).await
    }
}

/// Two clocks that count the same time may differ a little: this side counts it shorter.
fn deadline(sent: Instant, held: Duration) -> Instant {
    sent + held.mul_f64(0.99)
}

/// The task that keeps a guard alive. The session may hold more than this lock; all of it is kept.
struct Renewal {
    client: Client,
    lock: LockName,
    session: SessionName,
    token: FencingToken,
    state: watch::Sender<State>,
}

impl Renewal {
    async fn run(self, mut next: Instant) {
        let mut reason = "no renewal was answered".to_owned();
        loop {
            let deadline = self.state.borrow().deadline;
            tokio::time::sleep_until(next.min(deadline).into()).await;
            if Instant::now() >= deadline {
                return self.lose(Loss::NotRenewed { reason });
            }
            match self.client.keep_alive(&self.session, deadline).await {
                Ok(answered) if self.is_among(&answered.body) || self.is_holder().await => {
                    next = self.renewed(&answered);
                }
                Ok(_) => return self.lose(Loss::TakenAway),
                Err(Error::Lost(_)) => return self.lose(Loss::SessionEnded),
                Err(error) => {
                    reason = error.to_string();
                    next = Instant::now() + Duration::from_millis(200);
                }
            }
        }
    }

    /// Moves the deadline; answers when to renew next.
    fn renewed(&self, answered: &Answered<SessionBody>) -> Instant {
        let left = Duration::from_millis(answered.body.expires_in_ms.unwrap_or(0));
        let until = deadline(answered.sent, left);
        self.state.send_modify(|state| state.deadline = state.deadline.max(until));
        answered.sent + left / 3
    }

    fn is_among(&self, session: &SessionBody) -> bool {
        session.holds.iter().any(|hold| hold.lock == self.lock && hold.token == self.token)
    }

    /// The node that renewed may show its own state, which may be older than our grant: ask the cluster. If it
    /// cannot tell, the session's life is what counts.
    async fn is_holder(&self) -> bool {
        match self.client.look(&self.lock).await {
            Ok(body) => body
                .holder()
                .is_some_and(|holder| holder.session == self.session && holder.token == self.token),
            Err(_) => true,
        }
    }

    fn lose(self, loss: Loss) {
        self.state.send_modify(|state| state.loss = Some(loss));
    }
}
