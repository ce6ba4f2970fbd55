//! The limit of open files of this process, and the connections that it leaves for each port.
//!
//! Every connection is an open file. A part of the limit is for the log, the snapshots and the peers, so that clients and
//! strangers never take these files.

use holdfast_http::HttpConfig;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::config::Config;

/// The files of a node apart from its log, at most: 128 connections from peers, those to peers, snapshots, databases.
const OWN_FILES: u64 = 512;
/// The bytes of the log for each of its files: a file has 8 MiB, and the log up to two intervals of snapshots.
const LOG_BYTES_OF_FILE: u64 = 4 << 20;
/// The limit of a system that does not tell it.
const UNKNOWN_LIMIT: u64 = 1_024;

/// Raises the limit of open files to the maximum. Returns the most connections of each port, and warns if they are few.
pub(crate) fn connections_of_port(config: &Config) -> usize {
    let limit = raise_limit();
    let own = OWN_FILES + config.snapshot_log / LOG_BYTES_OF_FILE;
    let ports = if config.zookeeper.is_some() { 3 } else { 2 };
    let (connections, wanted) = (share(limit, own, ports), HttpConfig::default().connections_max);
    if connections < wanted {
        tracing::warn!(
            limit,
            connections,
            wanted,
            "the limit of open files allows few connections to each port: raise it with LimitNOFILE= (systemd) or ulimit -Hn"
        );
    }
    connections.min(wanted)
}

fn raise_limit() -> u64 {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((UNKNOWN_LIMIT, UNKNOWN_LIMIT));
    match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(error) => {
            tracing::warn!(%error, limit = soft, "cannot raise the limit of open files");
            soft
        }
    }
}

/// The connections of each port if the node keeps `own` files, at most half of the limit.
fn share(limit: u64, own: u64, ports: u64) -> usize {
    let left = limit - own.min(limit / 2);
    usize::try_from(left / ports).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ports_share_what_the_node_leaves() {
        assert_eq!(share(1 << 20, 528, 3), ((1 << 20) - 528) / 3);
        assert_eq!(share(4_096, 528, 2), (4_096 - 528) / 2);
        assert_eq!(share(1_024, 528, 3), 170, "half of a low limit");
        assert_eq!(share(256, 528, 2), 64);
    }
}
