//! The one task of a session while it has users: it renews the session, delivers its events, and closes it at the end.
//!
//! The task keeps one keepalive parked at a node ([`SessionPoll`]). The call renews the session. It returns as soon as
//! the cluster grants, takes or requests a lock of the session. If no node accepts a parked call, the task renews at a
//! third of the time-to-live with plain keepalives, and tries again. Acquires renew the session, too, so it parks none for a
//! lock that is held for a moment. It also releases holds at the limits that the client keeps. Bounds: one call in flight.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::calls::send::timer;
use crate::clock::{CLOCK_CHECK, Clocks, Moment};
use crate::sessions::events::{SessionPoll, read_requests_after_gaps};
use crate::sessions::lease::Acknowledged;
use crate::sessions::session::{PARK_AFTER, Session, SessionUsers};
use crate::{Error, Loss};

/// Runs until the session is over, or can have no more users.
#[tracing::instrument(level = "debug", name = "renew", skip_all, fields(session = %session.name))]
pub(crate) async fn renew_while_used(session: Arc<Session>) {
    tokio::select! {
        () = serve(&session) => {}
        never = notice_suspensions(&session) => match never {},
        never = end_at_limits(&session) => match never {},
        never = read_requests_after_gaps(&session) => match never {},
    }
}

async fn serve(session: &Session) {
    let mut users = session.users.subscribe();
    let mut lease = session.lease.subscribe();
    let mut events = SessionPoll::new(session.opened_at);
    loop {
        users.mark_unchanged();
        let SessionUsers { count, since, client, .. } = session.await_users();
        let park_at = events.due().max(since.plus(PARK_AFTER));
        if count == 0 && !client {
            return close(session).await;
        }
        let (deadline, renew_at) = {
            let lease = lease.borrow_and_update();
            (lease.deadline_or_loss(Moment::now()), lease.renew_at())
        };
        let deadline = match deadline {
            Ok(deadline) => deadline,
            Err(loss) => return close_after_loss(session, loss).await,
        };
        let wake = if count == 0 {
            deadline
        } else if Moment::now() >= park_at {
            poll(session, &mut events, &mut users).await;
            continue;
        } else if Moment::now() >= renew_at {
            renew(session, &mut events).await;
            continue;
        } else {
            renew_at.min(deadline).min(park_at)
        };
        tokio::select! {
            _changed = users.changed() => {}
            _changed = lease.changed() => {}
            () = timer(wake) => {}
        }
    }
}

/// Wakes the tasks that wait for a deadline of this session after a suspension of the machine. Timers stand still
/// during a suspension; deadlines do not.
async fn notice_suspensions(session: &Session) -> Infallible {
    loop {
        let before = Clocks::now();
        tokio::time::sleep(CLOCK_CHECK).await;
        if Clocks::now().is_after_suspension(before) {
            session.lease.send_modify(|_| ());
            session.entries.limited.notify_one();
        }
    }
}

/// Releases each hold that the client ends at a limit, but the cluster would keep.
async fn end_at_limits(session: &Arc<Session>) -> Infallible {
    loop {
        let (over, next) = session.entries.over_limit(Moment::now());
        for (entry, loss) in over {
            entry.lose(loss);
            session.release_in_background(vec![entry]);
        }
        let limit = async {
            match next {
                Some(next) => timer(next).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = session.entries.limited.notified() => {}
            () = limit => {}
        }
    }
}

/// Closes a session when its last user is gone. The cluster may keep a session that has ended for the client, because a
/// node renews it for a waiting call.
async fn close_after_loss(session: &Session, loss: Loss) {
    tracing::debug!(%loss, "session over");
    session.end(loss);
    let mut users = session.users.subscribe();
    if users.borrow().count > 0 {
        drop(users.wait_for(|users| users.count == 0).await);
        close(session).await;
    }
}

async fn close(session: &Session) {
    if session.is_own {
        // If no node answers, the session expires after its time-to-live.
        drop(session.calls.close(&session.name, Some(session.incarnation)).await);
    } else {
        // The releases of dropped guards need the session.
        session.settled().await;
    }
    session.end(Loss::SessionEnded);
}

/// Parks a keepalive until it is answered, the session is over, or the last user is gone.
async fn poll(
    session: &Session,
    events: &mut SessionPoll,
    users: &mut watch::Receiver<SessionUsers>,
) {
    let known_holds = session.entries.held();
    let answer = tokio::select! {
        answer = events.poll(session) => answer,
        _unused = users.wait_for(|users| users.count == 0) => return,
        _loss = session.lost() => return,
    };
    match answer {
        Ok(answer) => {
            let expires_in = answer.body.session.expires_in_ms.unwrap_or(0);
            let held = Duration::from_millis(answer.body.waited_ms.saturating_add(expires_in));
            let acknowledged = Acknowledged { counted_from: answer.sent, held };
            if session.acknowledge(acknowledged).is_ok() {
                events.deliver(session, &known_holds, answer, held).await;
            }
        }
        Err(Error::Lost(loss)) => session.end(loss),
        Err(_) => {
            events.poll_failed();
            renew(session, events).await;
        }
    }
}

async fn renew(session: &Session, events: &mut SessionPoll) {
    let Ok(deadline) = session.deadline_or_loss(Moment::now()) else { return };
    let known_holds = session.entries.held();
    let left = deadline.left(Moment::now());
    match session.calls.keep_alive(session.id(), left).await {
        Ok(answer) => {
            let held = Duration::from_millis(answer.body.expires_in_ms.unwrap_or(0));
            let acknowledged = Acknowledged { counted_from: answer.sent, held };
            if session.acknowledge(acknowledged).is_ok() {
                events.reconcile(session, &known_holds, &answer.body.holds, held).await;
            }
        }
        Err(Error::Lost(loss)) => session.end(loss),
        Err(error) => {
            tracing::debug!(%error, "renewal failed");
            // The loss reports it later, e.g. that the call needs a credential.
            let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
            let failure = format!("{error}{hint}");
            session.lease.send_modify(|lease| lease.renewal_failed(failure, Moment::now()));
        }
    }
}
