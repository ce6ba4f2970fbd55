//! Checks of rules that span several keys, and of what `security.mode` demands of the listeners that other machines can reach.
//! They run before the node opens files and sockets.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_cli::arguments::is_cluster_name;
use holdfast_tls::{TlsConfig, TlsMode};
use holdfast_types::{Address, Member, MemberAddresses, NodeId};

use super::source::ConfigError;
use super::units::Scalar;
use super::{BootstrapMode, Config};

/// Parses a cluster name: at most 64 letters, digits, `-`, `_` and `.`.
pub(super) fn cluster_name(value: &Scalar) -> Result<String, String> {
    let wanted = "a name of letters, digits, '-', '_' and '.', at most 64, the same on all nodes";
    let name = value.text(wanted)?;
    if !is_cluster_name(name) {
        return Err(format!("{name:?} is not a cluster name: write {wanted}"));
    }
    Ok(name.to_owned())
}

/// Returns the member entry of this node.
pub(super) fn own(
    node: NodeId,
    members: &BTreeMap<NodeId, MemberAddresses>,
) -> Result<&MemberAddresses, ConfigError> {
    members.get(&node).ok_or_else(|| {
        let ids: Vec<String> = members.keys().map(ToString::to_string).collect();
        ConfigError::Inconsistent(format!(
            "node = {node} is not among the members ({}): set node (or HOLDFAST_NODE, or --node) to one of them, \
             or add a [[member]] block with id = {node}",
            ids.join(", ")
        ))
    })
}

/// Checks the number of members of a new cluster, and that no address is used twice.
pub(super) fn members(config: &Config) -> Result<(), ConfigError> {
    // A member of a running cluster whose data directory was emptied names all members, which may be an even number.
    let joins = config.bootstrap == Some(BootstrapMode::Join);
    if !joins && holdfast_raft::is_new_data_dir(&config.data_dir) {
        members_of_new_cluster(config.members.len())?;
    }
    let mut seen: BTreeMap<&Address, String> = BTreeMap::new();
    for (id, member) in &config.members {
        let listeners =
            [("http", &member.http), ("peer", &member.peer), ("zookeeper", &member.zookeeper)];
        for (listener, address) in listeners {
            let here = format!("{listener} of member {id}");
            if let Some(other) = seen.insert(address, here.clone()) {
                return Err(ConfigError::Inconsistent(format!(
                    "{address} is both {other} and {here}: use different addresses"
                )));
            }
        }
    }
    Ok(())
}

/// The members of a running cluster may be any number for a while.
fn members_of_new_cluster(count: usize) -> Result<(), ConfigError> {
    let most = Member::VOTERS_MAX;
    if count > most {
        return Err(ConfigError::Inconsistent(format!(
            "{count} members are too many: each one makes every write slower; use 3 or 5 \
             (at most {most})"
        )));
    }
    if count.is_multiple_of(2) {
        return Err(ConfigError::Inconsistent(format!(
            "{count} members survive no more failures than {} members: remove a [[member]] block or add one, \
             so that there are 3 or 5",
            count - 1
        )));
    }
    Ok(())
}

/// Checks that elections neither fail for lack of time nor collide, that scrubs end, and that backups can keep up.
pub(super) fn timing(config: &Config) -> Result<(), ConfigError> {
    let Config { heartbeat, election_min, election_max, scrub_every, backup_expect_every, .. } =
        config;
    let reject = |problem: String| Err(ConfigError::Inconsistent(problem));
    let sweep_every = config.sweep_every;
    if sweep_every < Duration::from_millis(100) {
        return reject(format!(
            "tree.sweep_every = \"{sweep_every:?}\" would keep the leader busy: use 100ms or more (the default is 10s)"
        ));
    }
    if *scrub_every < Duration::from_secs(1) {
        return reject(format!(
            "storage.scrub_every = \"{scrub_every:?}\" would read the disk all the time: use 1s or more (the default is 24h)"
        ));
    }
    if let Some(every) = backup_expect_every.filter(|every| *every < Duration::from_mins(1)) {
        return reject(format!(
            "backup.expect_every = \"{every:?}\" is shorter than a backup takes: use 1m or more"
        ));
    }
    if *heartbeat < Duration::from_millis(10) {
        return reject(format!(
            "raft.heartbeat = \"{heartbeat:?}\" is too short for a network: use 10ms or more (the default is 100ms)"
        ));
    }
    if *election_min < *heartbeat * 3 {
        return reject(format!(
            "raft.election_min = \"{election_min:?}\" is less than three heartbeats of {heartbeat:?}: a single late \
             heartbeat would start an election; raise it to {:?} or more, or lower raft.heartbeat",
            *heartbeat * 3
        ));
    }
    if *election_max < *election_min + *heartbeat {
        return reject(format!(
            "raft.election_max = \"{election_max:?}\" is too close to raft.election_min = \"{election_min:?}\": \
             several nodes would stand for election at the same time; raise it to {:?} or more",
            *election_min * 2
        ));
    }
    if *election_max > Duration::from_mins(1) {
        return reject(format!(
            "raft.election_max = \"{election_max:?}\" would leave a cluster without a leader for over a minute: \
             use 60s or less (the default is 550ms)"
        ));
    }
    Ok(())
}

/// How strictly the node protects listeners that other machines can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecurityMode {
    /// They need TLS, and calls need a permission.
    Secure,
    /// They need a certificate, and also accept connections without TLS.
    Migrating,
    /// They need nothing.
    Open,
}

pub(super) fn security_mode(value: &Scalar) -> Result<SecurityMode, String> {
    let wanted = "\"secure\", \"migrating\" or \"open\"";
    match value.text(wanted)? {
        "secure" => Ok(SecurityMode::Secure),
        "migrating" => Ok(SecurityMode::Migrating),
        "open" => Ok(SecurityMode::Open),
        other => Err(format!("{other:?} is not a mode: write {wanted}")),
    }
}

impl Config {
    /// The listeners for clients that other machines can reach.
    fn open_client_listeners(&self) -> impl Iterator<Item = (&Address, Option<&TlsConfig>)> {
        let http = (&self.http_listen, self.tls.http.as_ref());
        let zookeeper = self.zookeeper.as_ref();
        let zookeeper = zookeeper.map(|zk| (&zk.listen, self.tls.zookeeper.as_ref()));
        [http].into_iter().chain(zookeeper).filter(|(address, _)| !address.is_loopback())
    }

    /// Whether calls need a permission on this node, whatever the mode of the cluster is.
    pub(crate) fn requires_authentication(&self) -> bool {
        self.security == SecurityMode::Secure && self.open_client_listeners().next().is_some()
    }

    /// The listeners that other machines can reach.
    fn open_listeners(&self) -> impl Iterator<Item = (&Address, Option<&TlsConfig>)> {
        let peer = Some((&self.peer_listen, self.tls.raft.as_ref()));
        let peer = peer.filter(|(address, _)| !address.is_loopback());
        self.open_client_listeners().chain(peer)
    }

    /// The first listener that other machines can reach without TLS.
    pub(crate) fn unprotected(&self) -> Option<&Address> {
        let requires_tls =
            |tls: Option<&TlsConfig>| tls.is_some_and(|tls| tls.mode == TlsMode::Require);
        let found = self.open_listeners().find(|(_, tls)| !requires_tls(*tls));
        found.map(|(address, _)| address)
    }
}

/// Rejects a listener that is less protected than the mode demands.
pub(super) fn security(config: &Config) -> Result<(), ConfigError> {
    let unprotected = match config.security {
        SecurityMode::Secure => config.unprotected(),
        SecurityMode::Migrating => {
            let found = config.open_listeners().find(|(_, tls)| tls.is_none());
            found.map(|(address, _)| address)
        }
        SecurityMode::Open => None,
    };
    unprotected.map_or(Ok(()), |address| Err(refusal(config, address)))
}

fn refusal(config: &Config, address: &Address) -> ConfigError {
    let port = address.port();
    let key = if *address == config.http_listen {
        "http.listen"
    } else if *address == config.peer_listen {
        "raft.listen"
    } else {
        "zookeeper.listen"
    };
    ConfigError::Inconsistent(format!(
        "refusing to listen on {address} without TLS: other machines can reach it. Choose one:\n  \
         1. enable TLS:          create certificates with 'holdfast certs', and set tls.cert, tls.key and tls.ca\n  \
         2. listen on loopback:  {key} = \"127.0.0.1:{port}\"\n  \
         3. accept the risk:     security.mode = \"open\"\n\
         docs/security.md has the five minutes to a secure cluster"
    ))
}

#[cfg(test)]
mod tests {
    use holdfast_cli::dev::{DevDataDir, Layout};

    use crate::config::{Config, ConfigSources};

    #[test]
    fn the_files_of_a_development_cluster_are_valid() {
        let dir = tempfile::tempdir().unwrap();
        let data = DevDataDir::open(Some(dir.path())).unwrap();
        let layout = Layout::new(&data, Some(5), 7400, "debug").unwrap();
        layout.write().unwrap();
        for node in layout.ids() {
            let file = layout.config_file(node);
            let sources = ConfigSources { file, environment: Vec::new(), flags: Vec::new() };
            let config = Config::load(&sources).unwrap();
            assert_eq!(config.node.0, node);
            assert_eq!(config.members.len(), 5);
            assert_eq!(config.http_listen.to_string(), layout.http(node).to_string());
        }
    }
}
