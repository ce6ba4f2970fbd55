//! What the four-letter words tell of connections: who is connected, and the figures of each and of all.
//!
//! Owns the list of open connections and the count of each address, which is also the bound on them. Refuses to know
//! sessions and watches beyond a number to show: those are the service's.
//!
//! Bounds: one account an open connection.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use crate::kind::Kind;

/// Latencies and counts, since the start or the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// Frames received.
    pub(crate) received: u64,
    /// Frames sent: replies and watch events.
    pub(crate) sent: u64,
    /// Requests without a reply yet.
    pub(crate) outstanding: u64,
    answered: u64,
    total: Duration,
    /// The shortest and the longest from a request to its reply.
    least: Option<Duration>,
    pub(crate) most: Duration,
}

impl Figures {
    pub(crate) fn receive(&mut self) {
        self.received += 1;
        self.outstanding += 1;
    }

    pub(crate) fn answer(&mut self, took: Duration) {
        self.sent += 1;
        self.outstanding = self.outstanding.saturating_sub(1);
        self.answered += 1;
        self.total += took;
        self.least = Some(self.least.map_or(took, |least| least.min(took)));
        self.most = self.most.max(took);
    }

    pub(crate) fn notify(&mut self) {
        self.sent += 1;
    }

    /// The shortest time.
    pub(crate) fn least(&self) -> Duration {
        self.least.unwrap_or_default()
    }

    /// The average time, milliseconds.
    pub(crate) fn average_ms(&self) -> f64 {
        let answered = u32::try_from(self.answered).unwrap_or(u32::MAX);
        if answered == 0 { 0.0 } else { self.total.as_secs_f64() * 1e3 / f64::from(answered) }
    }

    fn reset(&mut self) {
        *self = Self { outstanding: self.outstanding, ..Self::default() };
    }
}

/// What one connection did last, and for which session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Last {
    /// The session, 0 before the handshake.
    pub(crate) session: i64,
    /// Its timeout, milliseconds.
    pub(crate) timeout_ms: u32,
    /// Kind of the last request.
    pub(crate) kind: Option<Kind>,
    /// The last request's number.
    pub(crate) xid: i32,
    /// The zxid of the last reply.
    pub(crate) zxid: i64,
    /// When it was sent, since the door opened.
    pub(crate) at: Duration,
    /// How long it took.
    pub(crate) took: Duration,
}

/// One connection's page.
#[derive(Debug)]
pub(crate) struct Account {
    /// Whose.
    pub(crate) peer: SocketAddr,
    /// Since when, milliseconds since 1970.
    pub(crate) since_ms: u128,
    pub(crate) figures: Mutex<Figures>,
    pub(crate) last: Mutex<Last>,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Ledger {
    opened: Instant,
    per_address_max: usize,
    next: AtomicU64,
    open: Mutex<Open>,
    totals: Mutex<Figures>,
}

#[derive(Debug, Default)]
struct Open {
    accounts: BTreeMap<u64, Arc<Account>>,
    addresses: BTreeMap<IpAddr, usize>,
}

impl Ledger {
    pub(crate) fn new(per_address_max: usize) -> Arc<Self> {
        Arc::new(Self {
            opened: Instant::now(),
            per_address_max,
            next: AtomicU64::new(0),
            open: Mutex::default(),
            totals: Mutex::default(),
        })
    }

    /// Opens an account; none if the address has too many already.
    pub(crate) fn open(self: &Arc<Self>, peer: SocketAddr) -> Option<Seat> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let last = Last {
            session: 0,
            timeout_ms: 0,
            kind: None,
            xid: 0,
            zxid: 0,
            at: Duration::ZERO,
            took: Duration::ZERO,
        };
        let account = Arc::new(Account {
            peer,
            since_ms: since.as_millis(),
            figures: Mutex::default(),
            last: Mutex::new(last),
        });
        let mut open = self.open.lock();
        let address = open.addresses.entry(peer.ip().to_canonical()).or_default();
        if self.per_address_max > 0 && *address >= self.per_address_max {
            return None;
        }
        *address += 1;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        open.accounts.insert(number, account.clone());
        drop(open);
        Some(Seat { ledger: self.clone(), number, account })
    }

    /// All accounts, oldest first.
    pub(crate) fn accounts(&self) -> Vec<Arc<Account>> {
        self.open.lock().accounts.values().cloned().collect()
    }

    /// Open connections.
    pub(crate) fn count(&self) -> usize {
        self.open.lock().accounts.len()
    }

    /// The sum of all, closed ones included.
    pub(crate) fn totals(&self) -> Figures {
        *self.totals.lock()
    }

    /// Begins the sums anew.
    pub(crate) fn reset_totals(&self) {
        self.totals.lock().reset();
    }

    /// Begins the figures of every connection anew.
    pub(crate) fn reset_accounts(&self) {
        for account in self.accounts() {
            account.figures.lock().reset();
        }
    }

    /// For how long the door has been open.
    pub(crate) fn uptime(&self) -> Duration {
        self.opened.elapsed()
    }
}

/// A connection's place in the ledger; closes the account when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    ledger: Arc<Ledger>,
    number: u64,
    account: Arc<Account>,
}

impl Seat {
    /// The session is known.
    pub(crate) fn attached(&self, session: i64, timeout_ms: u32) {
        let mut last = self.account.last.lock();
        (last.session, last.timeout_ms) = (session, timeout_ms);
    }

    /// A request came.
    pub(crate) fn received(&self) {
        self.account.figures.lock().receive();
        self.ledger.totals.lock().receive();
    }

    /// Its reply went.
    pub(crate) fn answered(&self, kind: Kind, xid: i32, zxid: i64, took: Duration) {
        self.account.figures.lock().answer(took);
        self.ledger.totals.lock().answer(took);
        let mut last = self.account.last.lock();
        let at = self.ledger.opened.elapsed();
        *last = Last { kind: Some(kind), xid, zxid, at, took, ..*last };
    }

    /// A watch event went.
    pub(crate) fn notified(&self) {
        self.account.figures.lock().notify();
        self.ledger.totals.lock().notify();
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let outstanding = self.account.figures.lock().outstanding;
        let mut totals = self.ledger.totals.lock();
        totals.outstanding = totals.outstanding.saturating_sub(outstanding);
        drop(totals);
        let mut open = self.ledger.open.lock();
        open.accounts.remove(&self.number);
        let address = self.account.peer.ip().to_canonical();
        if let Some(count) = open.addresses.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                open.addresses.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn an_address_has_so_many_connections_and_gets_room_when_one_closes() {
        let ledger = Ledger::new(2);
        let first = ledger.open(peer(1));
        let _second = ledger.open(peer(2)).unwrap();
        assert!(ledger.open(peer(3)).is_none());
        assert!(ledger.open(SocketAddr::from(([127, 0, 0, 2], 1))).is_some());
        drop(first);
        assert!(ledger.open(peer(3)).is_some());
        assert_eq!(ledger.count(), 1);
    }

    #[test]
    fn figures_follow_requests_and_forget_what_a_closed_connection_was_owed() {
        let ledger = Ledger::new(0);
        let seat = ledger.open(peer(1)).unwrap();
        seat.received();
        seat.received();
        seat.answered(Kind::of(1), 5, 9, Duration::from_millis(4));
        seat.notified();
        let totals = ledger.totals();
        assert_eq!((totals.received, totals.sent, totals.outstanding), (2, 2, 1));
        assert_eq!((totals.least().as_millis(), totals.most.as_millis()), (4, 4));
        assert!((totals.average_ms() - 4.0).abs() < f64::EPSILON);
        assert_eq!(ledger.accounts()[0].last.lock().zxid, 9);
        drop(seat);
        assert_eq!(ledger.totals().outstanding, 0);
        ledger.reset_totals();
        assert_eq!(ledger.totals(), Figures::default());
    }
}
