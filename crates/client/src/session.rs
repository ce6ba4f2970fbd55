//! A session of this client: its life, what it claims, and who needs it.
//!
//! Owns the lease all guards of the session share, and the count of those that need it: guards, acquires under way and
//! [`SessionHandle`]s. Renewal (`keeper.rs`) goes on exactly as long as that count is not zero, so nothing is renewed
//! for work that is over.

use std::sync::Arc;
use std::time::Duration;

use holdfast_api::OpenParams;
use holdfast_types::{Revision, SessionId, SessionName};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::calls::{Calls, timer};
use crate::claim::{Claim, Claims, Stage, release_all_of, release_of};
use crate::clock::Moment;
use crate::error::argument;
use crate::lease::{Acknowledged, Lease};
use crate::{Error, Loss, keeper, random};

/// Who needs the session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    pub(crate) users: usize,
    /// A client may come back to it.
    pub(crate) client: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) calls: Calls,
    pub(crate) name: SessionName,
    pub(crate) incarnation: SessionId,
    /// Nobody else may use it: it ends with us.
    pub(crate) own: bool,
    /// The revision of the answer that opened it.
    pub(crate) opened_at: Option<Revision>,
    pub(crate) lease: watch::Sender<Lease>,
    pub(crate) claims: Claims,
    pub(crate) needs: watch::Sender<Needs>,
    pub(crate) runtime: Handle,
}

impl Session {
    /// Opens it at the cluster and begins to look after it.
    pub(crate) async fn open(
        calls: Calls,
        name: SessionName,
        own: bool,
        params: &OpenParams,
    ) -> Result<Arc<Self>, Error> {
        let runtime = Handle::try_current().map_err(|_| {
            argument("call this inside a tokio runtime, or use the blocking client")
        })?;
        let answered = calls.open(&name, params).await?;
        let held = Duration::from_millis(answered.body.expires_in_ms.unwrap_or(0));
        let lease =
            Lease::new(Acknowledged { counted_from: answered.sent, held }, random::chance());
        let session = Arc::new(Self {
            calls,
            name,
            incarnation: answered.body.incarnation,
            own,
            opened_at: answered.body.revision,
            lease: watch::Sender::new(lease),
            claims: Claims::default(),
            needs: watch::Sender::new(Needs { users: 0, client: true }),
            runtime: runtime.clone(),
        });
        runtime.spawn(keeper::keep(session.clone()));
        Ok(session)
    }

    /// The deadline while it certainly lives; else why not.
    pub(crate) fn standing(&self, now: Moment) -> Result<Moment, Loss> {
        self.lease.borrow().standing(now)
    }

    /// A sign of life was acknowledged.
    pub(crate) fn acknowledge(&self, acknowledged: Acknowledged) -> Result<(), Loss> {
        let mut result = Ok(());
        self.lease.send_modify(|lease| {
            result = lease.acknowledge(acknowledged, random::chance(), Moment::now());
        });
        result
    }

    /// It is over.
    pub(crate) fn end(&self, loss: Loss) {
        self.lease.send_modify(|lease| lease.end(loss, Moment::now()));
    }

    /// Resolves when it is over.
    pub(crate) async fn lost(&self) -> Loss {
        let mut lease = self.lease.subscribe();
        loop {
            let deadline = match lease.borrow_and_update().standing(Moment::now()) {
                Ok(deadline) => deadline,
                Err(loss) => return loss,
            };
            tokio::select! {
                _changed = lease.changed() => {}
                () = timer(deadline) => {}
            }
        }
    }

    /// The client will not come back to it.
    pub(crate) fn leave(&self) {
        self.needs.send_modify(|needs| needs.client = false);
    }

    /// Gives a claim back and waits until that is certain, or the session is over.
    pub(crate) async fn give_back(&self, claim: &Arc<Claim>) -> Result<(), Error> {
        claim.enter(Stage::Leaving);
        let released = self.calls.release(claim.lock(), &release_of(claim, &self.name)).await;
        if !matches!(released, Err(Error::Retry(_) | Error::Unknown(_))) {
            self.claims.remove(claim);
        }
        released
    }

    /// The same in the background, until it is certain: the session may live on for other locks.
    pub(crate) fn give_back_later(self: &Arc<Self>, claim: Arc<Claim>) {
        let session = self.clone();
        claim.enter(Stage::Leaving);
        self.runtime.spawn(async move {
            while session.standing(Moment::now()).is_ok() {
                match session.give_back(&claim).await {
                    Err(Error::Retry(_) | Error::Unknown(_)) => {}
                    Ok(()) | Err(_) => break,
                }
            }
            session.claims.remove(&claim);
        });
    }
}

impl Session {
    /// Gives several claims back together, as [`Session::give_back`] does one.
    pub(crate) async fn give_back_all(&self, claims: &[Arc<Claim>]) -> Result<(), Error> {
        let Some(params) = release_all_of(claims, &self.name) else { return Ok(()) };
        for claim in claims {
            claim.enter(Stage::Leaving);
        }
        let released = self.calls.release_all(&params).await;
        if !matches!(released, Err(Error::Retry(_) | Error::Unknown(_))) {
            for claim in claims {
                self.claims.remove(claim);
            }
        }
        released
    }

    /// The same in the background, until it is certain.
    pub(crate) fn give_back_all_later(self: &Arc<Self>, claims: Vec<Arc<Claim>>) {
        let session = self.clone();
        for claim in &claims {
            claim.enter(Stage::Leaving);
        }
        self.runtime.spawn(async move {
            while session.standing(Moment::now()).is_ok() {
                match session.give_back_all(&claims).await {
                    Err(Error::Retry(_) | Error::Unknown(_)) => {}
                    Ok(()) | Err(_) => break,
                }
            }
            for claim in &claims {
                session.claims.remove(claim);
            }
        });
    }
}

/// Keeps a session needed, and with that renewed.
#[derive(Debug)]
pub(crate) struct Use(Arc<Session>);

impl Use {
    pub(crate) fn of(session: &Arc<Session>) -> Self {
        session.needs.send_modify(|needs| needs.users += 1);
        Self(session.clone())
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.0
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.0.needs.send_modify(|needs| needs.users -= 1);
    }
}

/// A session that is renewed as long as this lives, whether it holds locks or not.
#[derive(Debug)]
#[must_use = "the session is renewed as long as this lives"]
pub struct SessionHandle(Use);

impl SessionHandle {
    pub(crate) fn new(used: Use) -> Self {
        Self(used)
    }

    /// Its name, for calls beside this client (`?session=…`).
    pub fn name(&self) -> &SessionName {
        &self.0.session().name
    }

    /// How long it certainly lives without another renewal; zero once it is over.
    pub fn remaining(&self) -> Duration {
        let now = Moment::now();
        self.0.session().standing(now).map_or(Duration::ZERO, |deadline| deadline.left(now))
    }

    /// Resolves when it is over.
    pub async fn lost(&self) -> Loss {
        self.0.session().lost().await
    }
}
