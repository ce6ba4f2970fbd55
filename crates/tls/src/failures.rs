//! Callers that prove no identity: failed handshakes and credentials of each source address, on every port of a node.
//!
//! Each one is counted by port and reason. The log has at most one line a second for a source and port, and at most
//! [`LINES_MAX`] in all, with the number of failures without a line. A source above [`RATE`] failures a second waits for
//! its refusals, and for its next handshakes if no caller of it proved an identity within [`PROVED_FOR`], at most
//! [`DELAY_MAX`]. A known caller never waits. A source is an IPv4 address, or a /64 of IPv6.
//! Bound: [`SOURCES_MAX`] sources.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// The maximum number of sources, of all ports.
const SOURCES_MAX: usize = 1_000;
/// Failures a second of one source that do not wait, after [`BURST`].
const RATE: u32 = 200;
/// Failures of one source at once that do not wait.
const BURST: u32 = 200;
/// The time in which a source pays for [`BURST`] failures.
const ALLOWED: Duration = Duration::from_millis(BURST as u64 * 1_000 / RATE as u64);
/// The longest wait of one failure.
const DELAY_MAX: Duration = Duration::from_secs(3);
/// How long a source with a known caller does not wait for handshakes.
const PROVED_FOR: Duration = Duration::from_mins(1);
/// The time between two lines of one source and port.
const LINE_EVERY: Duration = Duration::from_secs(1);
/// The maximum number of lines a second of all sources.
const LINES_MAX: u32 = 10;

/// A port of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodePort {
    Http,
    ZooKeeper,
    Peer,
}

/// Why a caller proved no identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureReason {
    /// No TLS on a port that requires it.
    NoTls,
    /// The TLS handshake failed, e.g. with a certificate of another CA.
    Handshake,
    /// No handshake in time.
    Timeout,
    /// Too many connections without an identity, and this was the oldest.
    Evicted,
    /// Bytes of another protocol.
    Malformed,
    /// The certificate names another node.
    Certificate,
    /// No credential, or one that is unknown or has expired.
    Credential,
    /// A node that is not a member.
    NotMember,
}

impl NodePort {
    const ALL: [Self; 3] = [Self::Http, Self::ZooKeeper, Self::Peer];

    const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::ZooKeeper => "zookeeper",
            Self::Peer => "peer",
        }
    }
}

impl FailureReason {
    const ALL: [Self; 8] = [
        Self::NoTls,
        Self::Handshake,
        Self::Timeout,
        Self::Evicted,
        Self::Malformed,
        Self::Certificate,
        Self::Credential,
        Self::NotMember,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::NoTls => "no-tls",
            Self::Handshake => "handshake",
            Self::Timeout => "timeout",
            Self::Evicted => "evicted",
            Self::Malformed => "malformed",
            Self::Certificate => "certificate",
            Self::Credential => "credential",
            Self::NotMember => "not-member",
        }
    }
}

/// The failures on all ports of a node. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct CallerFailures(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    started: Instant,
    table: Mutex<FailureTable>,
    counters: Family<[(&'static str, &'static str); 2], Counter>,
}

impl Default for Shared {
    fn default() -> Self {
        Self { started: Instant::now(), table: Mutex::default(), counters: Family::default() }
    }
}

impl CallerFailures {
    /// Failures with metrics; the registry adds the prefix.
    pub fn register(registry: &mut Registry) -> Self {
        let failures = Self::default();
        let help = "Connections and calls that this node refused because the caller proved no identity, by port and reason";
        registry.register("callers_refused", help, failures.0.counters.clone());
        for (port, reason) in
            NodePort::ALL.iter().flat_map(|port| FailureReason::ALL.map(|reason| (*port, reason)))
        {
            failures.counter(port, reason);
        }
        failures
    }

    fn counter(&self, port: NodePort, reason: FailureReason) -> Counter {
        let labels = [("port", port.name()), ("reason", reason.name())];
        self.0.counters.get_or_create(&labels).clone()
    }

    /// Counts a failure, and logs it unless its source has a recent line. Returns how long the caller must wait for its
    /// refusal.
    pub fn record(
        &self,
        port: NodePort,
        source: IpAddr,
        reason: FailureReason,
        detail: &dyn fmt::Display,
    ) -> Duration {
        self.counter(port, reason).inc();
        let now = self.0.started.elapsed();
        let Failure { delay, line } = self.0.table.lock().record(now, port, source);
        if let Some(unlogged) = line {
            let (port, reason) = (port.name(), reason.name());
            tracing::warn!(port, %source, reason, %detail, unlogged, "a caller proved no identity");
        }
        delay
    }

    /// Waits before a handshake, while the source owes time for its failures.
    pub async fn wait(&self, port: NodePort, source: IpAddr) {
        let debt = self.0.table.lock().debt(self.0.started.elapsed(), port, source);
        if !debt.is_zero() {
            tokio::time::sleep(debt).await;
        }
    }

    /// Whether the source has more failures than its rate, even if a caller of it proved an identity.
    pub fn is_above_rate(&self, port: NodePort, source: IpAddr) -> bool {
        self.0.table.lock().is_above_rate(self.0.started.elapsed(), port, source)
    }

    /// A caller of the source has proved its identity.
    pub fn proved(&self, port: NodePort, source: IpAddr) {
        self.0.table.lock().proved(self.0.started.elapsed(), port, source);
    }
}

/// The result of one failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Failure {
    /// How long its refusal waits.
    delay: Duration,
    /// The number of earlier failures of the source without a line, if this one has a line.
    line: Option<u64>,
}

/// The recent failures. Times are since any fixed moment.
#[derive(Debug, Default)]
struct FailureTable {
    sources: BTreeMap<(NodePort, IpAddr), SourceFailures>,
    /// The second of the last line of any source, and its number of lines.
    lines: (u64, u32),
}

#[derive(Clone, Copy, Debug, Default)]
struct SourceFailures {
    /// When the source has no failure left that counts against its rate.
    clear_at: Duration,
    last: Duration,
    proved_at: Option<Duration>,
    logged_at: Option<Duration>,
    unlogged: u64,
}

impl SourceFailures {
    fn delay(&self, now: Duration) -> Duration {
        self.clear_at.saturating_sub(now).saturating_sub(ALLOWED)
    }
}

impl FailureTable {
    /// How long the next handshake of a source waits.
    fn debt(&self, now: Duration, port: NodePort, source: IpAddr) -> Duration {
        let Some(source) = self.sources.get(&(port, network(source))) else {
            return Duration::ZERO;
        };
        let is_proved = source.proved_at.is_some_and(|at| now < at + PROVED_FOR);
        if is_proved { Duration::ZERO } else { source.delay(now) }
    }

    fn is_above_rate(&self, now: Duration, port: NodePort, source: IpAddr) -> bool {
        let source = self.sources.get(&(port, network(source)));
        source.is_some_and(|source| !source.delay(now).is_zero())
    }

    /// Records a caller with an identity.
    fn proved(&mut self, now: Duration, port: NodePort, source: IpAddr) {
        let source = self.source(now, port, source);
        source.proved_at = Some(now);
    }

    /// The record of a source. Above the bound, the source whose last connection is the oldest is forgotten.
    fn source(&mut self, now: Duration, port: NodePort, source: IpAddr) -> &mut SourceFailures {
        let key = (port, network(source));
        if !self.sources.contains_key(&key) && self.sources.len() >= SOURCES_MAX {
            let oldest = self.sources.iter().min_by_key(|(_, source)| source.last);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                self.sources.remove(&oldest);
            }
        }
        let source = self.sources.entry(key).or_default();
        source.last = now;
        source
    }

    fn record(&mut self, now: Duration, port: NodePort, source: IpAddr) -> Failure {
        if self.lines.0 != now.as_secs() {
            self.lines = (now.as_secs(), 0);
        }
        let has_lines_left = self.lines.1 < LINES_MAX;
        let source = self.source(now, port, source);
        source.clear_at = source.clear_at.max(now) + Duration::from_secs(1) / RATE;
        // A source that does not wait for its refusals owes no more than the longest wait.
        source.clear_at = source.clear_at.min(now + ALLOWED + DELAY_MAX);
        let delay = source.delay(now);
        let is_due = source.logged_at.is_none_or(|at| now >= at + LINE_EVERY);
        if !is_due || !has_lines_left {
            source.unlogged += 1;
            return Failure { delay, line: None };
        }
        source.logged_at = Some(now);
        let unlogged = std::mem::take(&mut source.unlogged);
        self.lines.1 += 1;
        Failure { delay, line: Some(unlogged) }
    }
}

/// The network of an address that one caller controls.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn address(n: u16) -> IpAddr {
        let [high, low] = n.to_be_bytes();
        IpAddr::from([10, 1, high, low])
    }

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_source_has_one_line_a_second_for_each_port_with_the_number_of_the_others() {
        let mut table = FailureTable::default();
        let mut line = |ms, port| table.record(at(ms), port, SOURCE).line;
        assert_eq!(line(0, NodePort::Peer), Some(0));
        assert_eq!((1..1_000).filter_map(|ms| line(ms, NodePort::Peer)).count(), 0);
        assert_eq!(line(500, NodePort::Http), Some(0), "another port");
        assert_eq!(line(1_000, NodePort::Peer), Some(999));
        assert_eq!(line(2_000, NodePort::Peer), Some(0));
    }

    #[test]
    fn all_sources_together_have_ten_lines_a_second() {
        let mut table = FailureTable::default();
        let mut lines = |second: u64| {
            let sources = (0..500).map(address);
            let failures =
                sources.map(|source| table.record(at(second * 1_000), NodePort::Http, source));
            failures.filter(|failure| failure.line.is_some()).count()
        };
        assert_eq!([lines(0), lines(1), lines(2)], [10; 3]);
    }

    #[test]
    fn a_source_above_its_rate_waits_for_its_refusals_and_no_other_one_does() {
        let mut table = FailureTable::default();
        let mut delay = |ms, source| table.record(at(ms), NodePort::Http, source).delay;
        for _ in 0..BURST {
            assert_eq!(delay(0, SOURCE), Duration::ZERO);
        }
        assert_eq!([delay(0, SOURCE), delay(0, SOURCE)], [at(5), at(10)]);
        assert_eq!(delay(0, IpAddr::from([10, 0, 0, 1])), Duration::ZERO);
        let longest = (0..10_000).map(|_| delay(0, SOURCE)).max().unwrap();
        assert_eq!(longest, DELAY_MAX);
        assert_eq!(delay(10_000, SOURCE), Duration::ZERO, "it has stopped meanwhile");
    }

    #[test]
    fn the_next_handshake_of_a_source_waits_unless_a_known_caller_shares_its_address() {
        let mut table = FailureTable::default();
        let debt = |table: &FailureTable, ms| table.debt(at(ms), NodePort::Peer, SOURCE);
        for _ in 0..10_000 {
            table.record(at(0), NodePort::Peer, SOURCE);
        }
        assert_eq!((debt(&table, 0), debt(&table, 2_000)), (DELAY_MAX, at(1_000)));
        table.proved(at(1), NodePort::Http, SOURCE);
        assert_eq!(debt(&table, 0), DELAY_MAX, "another port");
        table.proved(at(1), NodePort::Peer, SOURCE);
        assert_eq!(debt(&table, 10), Duration::ZERO);
        assert!(table.is_above_rate(at(10), NodePort::Peer, SOURCE), "its refusals still wait");
        assert!(!table.is_above_rate(at(9_000), NodePort::Peer, SOURCE));
        for _ in 0..10_000 {
            table.record(at(61_000), NodePort::Peer, SOURCE);
        }
        assert_eq!(debt(&table, 61_002), at(2_998));
    }

    #[test]
    fn the_memory_is_bounded_and_the_source_that_stopped_first_is_forgotten() {
        let mut table = FailureTable::default();
        for n in 0..3_000_u16 {
            let source = address(n);
            table.record(at(n.into()), NodePort::Http, source);
            table.record(at(n.into()), NodePort::Http, SOURCE);
            assert!(table.sources.len() <= SOURCES_MAX);
        }
        assert!(table.sources.contains_key(&(NodePort::Http, SOURCE)));
        assert!(!table.sources.contains_key(&(NodePort::Http, address(0))));
    }

    #[test]
    fn addresses_of_one_network_are_one_source() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.7"), of("10.0.0.7"));
    }

    #[test]
    fn failures_are_counted_by_port_and_reason() {
        let mut registry = Registry::with_prefix("holdfast");
        let failures = CallerFailures::register(&mut registry);
        failures.record(NodePort::Peer, SOURCE, FailureReason::Handshake, &"a foreign CA");
        failures.record(NodePort::Peer, SOURCE, FailureReason::Handshake, &"a foreign CA");
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let line = r#"holdfast_callers_refused_total{port="peer",reason="handshake"} 2"#;
        assert!(text.contains(line), "{text}");
    }
}
