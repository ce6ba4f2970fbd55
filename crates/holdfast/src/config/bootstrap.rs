//! The key `bootstrap`: what a node with an empty data directory may do.

use super::Config;
use super::scalar::Scalar;

/// What empty data directories become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BootstrapMode {
    /// A new cluster, when all members are present.
    New,
    /// Members of the running cluster. A new cluster needs `holdfast init` or `--bootstrap`.
    Join,
}

pub(super) fn mode(value: &Scalar) -> Result<BootstrapMode, String> {
    let wanted = "\"new\" or \"join\"";
    match value.text(wanted)? {
        "new" => Ok(BootstrapMode::New),
        "join" => Ok(BootstrapMode::Join),
        other => Err(format!("{other:?} is not a mode: write {wanted}")),
    }
}

impl Config {
    /// By default only a cluster of one machine is created without an operator.
    pub(crate) fn may_create_cluster(&self) -> bool {
        let loopback = || {
            let members = self.members.values().flat_map(|of| [&of.http, &of.peer, &of.zookeeper]);
            let own = [&self.http_listen, &self.peer_listen];
            members.chain(own).all(holdfast_types::Address::is_loopback)
        };
        self.bootstrap.map_or_else(loopback, |mode| mode == BootstrapMode::New)
    }
}
