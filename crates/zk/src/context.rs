//! What all connections of the front-end share: its configuration, the service and the state of its shutdown.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use holdfast_service::{Service, StreamLimits};
use holdfast_tls::CallerFailures;
use holdfast_trace::Sampler;
use holdfast_types::{MemberAddresses, NodeId, Ttl};
use holdfast_zkwire::{FRAME_MAX_DEFAULT, FourLetterWord};

use crate::connection_table::ConnectionTable;
use crate::metrics::ZkMetrics;

/// Bounds and time limits of the ZooKeeper front-end.
#[derive(Clone, Debug)]
pub struct ZkConfig {
    /// The unit of session timeouts: a client gets the timeout that it requests, limited to 2 to 20 ticks. From
    /// [`ZkConfig::TICK_MIN`] to [`ZkConfig::TICK_MAX`].
    pub tick: Duration,
    /// Further connections are closed at once.
    pub connections_max: usize,
    /// For each client address; 0 is no limit.
    pub connections_per_address_max: usize,
    /// From the accept to the end of the first frame, or of a four-letter word, and to the credential if it is required.
    pub handshake_timeout: Duration,
    /// Where calls need a permission, a connection gets a session only after a credential.
    pub requires_credential: bool,
    /// Bytes of a frame, checked before anything is allocated.
    pub frame_bytes_max: usize,
    /// The connection of a client that reads nothing for this long is closed.
    pub write_timeout: Duration,
    /// From the shutdown signal to the last reply; connections that are still busy then are closed.
    pub drain_timeout: Duration,
    /// The bounds of one connection's stream.
    pub stream: StreamLimits,
    pub words: Words,
    /// The share of the requests that are traced, from 0 to 1. `None` traces no request at all.
    pub trace_sample: Option<f64>,
    /// Counts, logs and slows callers that prove no identity.
    pub failures: CallerFailures,
    /// The node's data directory; `dirs` and `conf` show its size.
    pub data_dir: PathBuf,
}

impl ZkConfig {
    /// The shortest tick: two of them are the shortest session.
    pub const TICK_MIN: Duration = Duration::from_millis(500);
    /// The longest tick: twenty of them are the longest session.
    pub const TICK_MAX: Duration = Duration::from_mins(72);

    /// The longest session timeout, milliseconds. The session in the log lives for up to a second longer, and at most a day.
    const TIMEOUT_MAX_MS: u32 = 86_400_000 - 1_000;

    /// The session timeout of a client that requests `requested_ms`.
    pub(crate) fn negotiated(&self, requested_ms: i32) -> Ttl {
        let (min, max) = self.timeouts();
        let requested = u32::try_from(requested_ms).unwrap_or(0);
        Ttl::try_from(requested.clamp(min, max)).unwrap_or(Ttl::DEFAULT)
    }

    /// The shortest and the longest timeout, milliseconds.
    pub(crate) fn timeouts(&self) -> (u32, u32) {
        let tick = self.tick.clamp(Self::TICK_MIN, Self::TICK_MAX);
        let millis = |ticks| u32::try_from((tick * ticks).as_millis()).unwrap_or(u32::MAX);
        (millis(2), millis(20).min(Self::TIMEOUT_MAX_MS))
    }
}

impl Default for ZkConfig {
    fn default() -> Self {
        Self {
            tick: Duration::from_secs(2),
            connections_max: 10_000,
            connections_per_address_max: 60,
            handshake_timeout: Duration::from_secs(10),
            requires_credential: true,
            frame_bytes_max: FRAME_MAX_DEFAULT,
            write_timeout: Duration::from_secs(10),
            drain_timeout: Duration::from_secs(2),
            stream: StreamLimits::default(),
            words: Words::default(),
            trace_sample: None,
            failures: CallerFailures::default(),
            data_dir: PathBuf::new(),
        }
    }
}

/// An allow-list of four-letter words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words(BTreeSet<FourLetterWord>);

impl Words {
    /// `*`.
    pub fn all() -> Self {
        Self(FourLetterWord::ALL.iter().copied().collect())
    }

    /// Parses `*`, or words separated by commas or spaces; an empty list allows none.
    ///
    /// # Errors
    /// The first unknown word.
    pub fn parse(list: &str) -> Result<Self, String> {
        if list.trim() == "*" {
            return Ok(Self::all());
        }
        let words = list.split([',', ' ']).map(str::trim).filter(|word| !word.is_empty());
        let known = |word: &str| {
            let letters: Option<[u8; 4]> = word.as_bytes().try_into().ok();
            letters.and_then(FourLetterWord::parse).ok_or_else(|| word.to_owned())
        };
        words.map(known).collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn allow(&self, word: FourLetterWord) -> bool {
        self.0.contains(&word)
    }
}

impl Default for Words {
    /// `srvr`, which is ZooKeeper's own default, and the words that monitoring and version checks of clients use. None of
    /// them lists sessions, watches or a client's nodes, or resets anything.
    fn default() -> Self {
        use FourLetterWord::{Conf, Envi, Isro, Mntr, Ruok, Srvr, Stat, Wchs};
        Self(BTreeSet::from([Conf, Envi, Isro, Mntr, Ruok, Srvr, Stat, Wchs]))
    }
}

#[derive(Debug)]
pub(crate) struct ServerContext {
    pub(crate) config: ZkConfig,
    pub(crate) service: Service,
    pub(crate) metrics: ZkMetrics,
    pub(crate) connections: Arc<ConnectionTable>,
    /// `None` if the node exports no traces.
    pub(crate) trace_sampler: Option<Sampler>,
    /// The address of the listener.
    pub(crate) address: Option<SocketAddr>,
}

/// The members in the format of `/zookeeper/config`; `None` on a single node, as in ZooKeeper. A member has one peer port
/// where ZooKeeper has two, and ZooKeeper's Java client rejects equal ones: the election port is that of the clients. The
/// version is constant: ZooKeeper clients cannot change the members.
pub(crate) fn members_text(members: &BTreeMap<NodeId, MemberAddresses>) -> Option<String> {
    let line = |(id, member): (&NodeId, &MemberAddresses)| {
        let MemberAddresses { peer, zookeeper, .. } = member;
        format!("server.{id}={peer}:{}:participant;{zookeeper}\n", zookeeper.port())
    };
    let lines = (members.len() > 1).then(|| members.iter().map(line))?;
    Some(lines.collect::<String>() + "version=0")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shutdown {
    NotStarted,
    /// Connections read no more requests and answer those they have read.
    Draining,
    /// Connections close at once.
    Now,
}

#[cfg(test)]
mod tests {
    use holdfast_types::Address;

    use super::*;

    #[test]
    fn members_have_the_format_of_zookeeper_and_a_single_node_has_none() {
        let member = |n: u64| {
            let address = |port: u16| Address::parse(&format!("h{n}:{port}")).unwrap();
            MemberAddresses { http: address(7400), peer: address(7401), zookeeper: address(7402) }
        };
        let members = |ids: &[u64]| ids.iter().map(|n| (NodeId(*n), member(*n))).collect();
        let text = "server.1=h1:7401:7402:participant;h1:7402\nserver.2=h2:7401:7402:participant;h2:7402\nversion=0";
        assert_eq!(members_text(&members(&[1, 2])).as_deref(), Some(text));
        assert_eq!(members_text(&members(&[1])), None);
    }

    #[test]
    fn session_timeouts_are_limited_to_2_to_20_ticks() {
        let config = ZkConfig::default();
        let negotiated = |asked| config.negotiated(asked).as_millis();
        assert_eq!(
            [i32::MIN, -1, 0, 4_000, 10_001, 40_000, i32::MAX].map(negotiated),
            [4_000, 4_000, 4_000, 4_000, 10_001, 40_000, 40_000]
        );
        let wide = ZkConfig { tick: ZkConfig::TICK_MAX, ..ZkConfig::default() };
        assert_eq!(wide.negotiated(i32::MAX).as_millis(), Ttl::MAX.as_millis() - 1_000);
        let narrow = ZkConfig { tick: ZkConfig::TICK_MIN, ..ZkConfig::default() };
        assert_eq!(narrow.negotiated(0), Ttl::MIN);
    }

    #[test]
    fn four_letter_words_are_allowed_by_name_or_all_at_once() {
        assert_eq!(Words::parse("*"), Ok(Words::all()));
        let some = Words::parse("ruok, mntr dump").unwrap();
        assert!(some.allow(FourLetterWord::Dump) && !some.allow(FourLetterWord::Srvr));
        assert!(!Words::parse("").unwrap().allow(FourLetterWord::Ruok));
        assert_eq!(Words::parse("ruok,kill"), Err("kill".to_owned()));
    }
}
