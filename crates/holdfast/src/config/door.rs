//! The section `[zookeeper]`: whether that door opens, where, and its tunables.
//!
//! Owns the defaults, which are `ZooKeeper`'s own, and the bounds of each value. Refuses to know the protocol.

use std::time::Duration;

use holdfast_zk::{Words, ZkConfig};

use super::source::{Layers, Scalar};
use super::{Address, ConfigError, Member, units};

/// The largest frame that may be allowed, bytes: a write has to fit one command of the log.
const FRAME_MAX: u64 = 1 << 20;
/// The smallest, bytes: less would not do for ordinary requests.
const FRAME_MIN: u64 = 1 << 10;

/// An open `ZooKeeper` door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ZooKeeperDoor {
    /// Where this node listens for `ZooKeeper` clients.
    pub(crate) listen: Address,
    /// Unit of session timeouts.
    pub(crate) tick: Duration,
    /// Connections of one address; 0 is no bound.
    pub(crate) connections_per_address_max: usize,
    /// Bytes of one frame.
    pub(crate) frame_max: usize,
    /// The four-letter words that are answered.
    pub(crate) words: Words,
}

impl ZooKeeperDoor {
    /// Reads the section; none if the door stays shut.
    pub(super) fn read(layers: &Layers, own: &Member) -> Result<Option<Self>, ConfigError> {
        let defaults = ZkConfig::default();
        let door = Self {
            listen: layers
                .optional("zookeeper.listen", Address::read)?
                .unwrap_or_else(|| own.zookeeper.clone()),
            tick: layers.or("zookeeper.tick", tick, defaults.tick)?,
            connections_per_address_max: layers.or(
                "zookeeper.connections_per_address_max",
                units::count,
                defaults.connections_per_address_max,
            )?,
            frame_max: layers.or("zookeeper.frame_max", frame, defaults.frame_bytes_max)?,
            words: layers.or("zookeeper.words", words, defaults.words)?,
        };
        let enabled = layers.or("zookeeper.enabled", units::truth, true)?;
        Ok(enabled.then_some(door))
    }
}

/// A tick: sessions live from 2 to 20 of them.
fn tick(value: &Scalar) -> Result<Duration, String> {
    let tick = units::duration(value)?;
    if (ZkConfig::TICK_MIN..=ZkConfig::TICK_MAX).contains(&tick) {
        return Ok(tick);
    }
    Err(format!(
        "{tick:?} is out of bounds: sessions live from 2 to 20 ticks, so use 500ms to 72m (the default is 2s)"
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
        .map_err(|word| format!("{word:?} is no four-letter word of ZooKeeper: write {wanted}"))
}
