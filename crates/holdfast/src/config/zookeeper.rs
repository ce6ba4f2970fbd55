//! The section `[zookeeper]`: the ZooKeeper front-end. The defaults are those of ZooKeeper.

use std::time::Duration;

use holdfast_zk::{Words, ZkConfig};

use super::source::{ConfigError, ConfigLayers};
use super::units;
use super::units::Scalar;
use holdfast_types::{Address, MemberAddresses};

/// The largest frame limit, bytes: a write must fit into one command of the log.
const FRAME_MAX: u64 = 1 << 20;
/// The smallest frame limit, bytes, sufficient for ordinary requests.
const FRAME_MIN: u64 = 1 << 10;

/// The configuration of the ZooKeeper front-end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ZooKeeperConfig {
    /// The address of the listener.
    pub(crate) listen: Address,
    /// Whether a connection gets a session only after a credential, where calls need a permission.
    pub(crate) requires_credential: bool,
    /// The tick, the unit of session timeouts.
    pub(crate) tick: Duration,
    /// The maximum number of connections from one address; 0 disables the limit.
    pub(crate) connections_per_address_max: usize,
    /// The maximum size of one frame, bytes.
    pub(crate) frame_max: usize,
    /// The enabled four-letter words.
    pub(crate) words: Words,
}

impl ZooKeeperConfig {
    /// Reads the section; `None` if the front-end is disabled.
    pub(super) fn read(
        layers: &ConfigLayers,
        own: &MemberAddresses,
    ) -> Result<Option<Self>, ConfigError> {
        let defaults = ZkConfig::default();
        let zookeeper = Self {
            listen: layers
                .optional("zookeeper.listen", units::address)?
                .unwrap_or_else(|| own.zookeeper.clone()),
            requires_credential: layers.or(
                "zookeeper.authentication",
                authentication,
                defaults.requires_credential,
            )?,
            tick: layers.or("zookeeper.tick", tick, defaults.tick)?,
            connections_per_address_max: layers.or(
                "zookeeper.connections_per_address_max",
                units::count,
                defaults.connections_per_address_max,
            )?,
            frame_max: layers.or("zookeeper.frame_max", frame, defaults.frame_bytes_max)?,
            words: layers.or("zookeeper.four_letter_commands", words, defaults.words)?,
        };
        let enabled = layers.or("zookeeper.enabled", units::boolean, true)?;
        Ok(enabled.then_some(zookeeper))
    }
}

fn authentication(value: &Scalar) -> Result<bool, String> {
    let wanted = "\"required\" or \"optional\"";
    match value.text(wanted)? {
        "required" => Ok(true),
        "optional" => Ok(false),
        other => Err(format!("{other:?} is unknown: write {wanted}")),
    }
}

/// Parses a tick: session timeouts are from 2 to 20 ticks.
fn tick(value: &Scalar) -> Result<Duration, String> {
    let tick = units::duration(value)?;
    if (ZkConfig::TICK_MIN..=ZkConfig::TICK_MAX).contains(&tick) {
        return Ok(tick);
    }
    Err(format!(
        "{tick:?} is out of bounds: session timeouts are from 2 to 20 ticks, so use 500ms to 72m (the default is 2s)"
    ))
}

fn frame(value: &Scalar) -> Result<usize, String> {
    let size = units::size(value)?;
    let fits = (FRAME_MIN..=FRAME_MAX).contains(&size);
    usize::try_from(size).ok().filter(|_| fits).ok_or_else(|| {
        format!("{size} bytes are out of bounds: use 1KiB to 1MiB (the default is 1048575B, as in ZooKeeper)")
    })
}

fn words(value: &Scalar) -> Result<Words, String> {
    let wanted = "words such as \"ruok,srvr,mntr\", or \"*\" for all, or \"none\"";
    let text = value.text(wanted)?;
    let list = if text.trim() == "none" { "" } else { text };
    Words::parse(list)
        .map_err(|word| format!("{word:?} is not a four-letter word of ZooKeeper: write {wanted}"))
}
