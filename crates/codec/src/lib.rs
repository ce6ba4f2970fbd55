//! Encodes values as versioned, checksummed bytes, and decodes them. No other crate uses bincode.
//!
//! All data on disk and between nodes is in this envelope (`docs/contributing/formats/envelope.md`):
//!
//! ```text
//! offset  0..2   magic   "HF"
//!         2      version 1
//!         3      kind    type of the payload, see `Kind`
//!         4..8   length  of the payload, little endian
//!         8..12  CRC-32C of bytes 0..8 and the payload, little endian
//!         12..   payload bincode 1.3.3, fixed-size little-endian integers
//! ```
//!
//! Lengths are checked before anything is allocated, and trailing bytes are an error. The layout of a payload never
//! changes within a version: enums are append-only, and a changed struct is a new version.

use bincode::Options;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// Bytes before the payload.
pub const HEADER_LEN: usize = 12;
/// The maximum payload, bytes: far larger than a snapshot part or a batch of entries.
pub const PAYLOAD_MAX: usize = 64 << 20;

const MAGIC: [u8; 2] = *b"HF";
const VERSION: u8 = 1;

/// The type of a payload. Append-only; the number is part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A log record.
    Record = 1,
    Vote = 2,
    /// The last known committed position.
    Committed = 3,
    /// The last purged position.
    Purged = 4,
    /// The position and the membership of a snapshot.
    SnapshotMeta = 5,
    /// A request between nodes.
    PeerRequest = 9,
    PeerReply = 10,
    /// A request between the services of two nodes, carried inside a `PeerRequest`.
    ServiceRequest = 11,
    ServiceReply = 12,
    /// The commands and the stamp of a log record.
    Batch = 13,
    /// Past holds of locks, from the history that each node keeps.
    PastHolds = 16,
    /// The handshake between nodes.
    Hello = 18,
    /// The data directories of the initial members of a cluster, and its id.
    InitialMembers = 19,
    /// A part of a snapshot.
    SnapshotPart = 21,
    /// The start of a backup: its origin and its contents.
    BackupHead = 22,
    /// The end of a backup: the length and the hash of everything before it.
    BackupEnd = 23,
    /// The identity of a data directory.
    Identity = 24,
    /// The invitation with which a data directory joins a cluster.
    JoinRequest = 25,
}

/// The value is larger than [`PAYLOAD_MAX`], or bincode does not support its type.
#[derive(Debug, Error)]
#[error("failed to encode a {kind:?}: {reason}")]
pub struct EncodeError {
    kind: Kind,
    reason: String,
}

/// Undecodable bytes, from a damaged disk or a faulty peer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// Fewer bytes than the header, or than the length in it.
    #[error("{have} bytes where {need} are needed")]
    Short { have: usize, need: usize },
    /// Not an envelope of holdfast.
    #[error("not a holdfast envelope")]
    Magic,
    /// Written by a newer holdfast.
    #[error("format version {found} is not known here: upgrade this node")]
    Version { found: u8 },
    /// Another kind of value.
    #[error("kind {found} where {expected:?} was expected")]
    Kind { found: u8, expected: Kind },
    /// A length over the limit.
    #[error("a payload of {len} bytes is over the limit of {PAYLOAD_MAX}")]
    TooLong { len: usize },
    #[error("checksum mismatch")]
    Checksum,
    /// The checksum is correct, but the payload is not a value of this kind.
    #[error("payload is not a {kind:?}: {reason}")]
    Payload { kind: Kind, reason: String },
}

impl DecodeError {
    /// True if a newer holdfast wrote the bytes: the version of the envelope is newer, or the checksum is correct and the
    /// payload is unknown.
    pub fn is_newer(&self) -> bool {
        match self {
            Self::Version { found } => *found > VERSION,
            Self::Payload { .. } => true,
            Self::Short { .. }
            | Self::Magic
            | Self::Kind { .. }
            | Self::TooLong { .. }
            | Self::Checksum => false,
        }
    }
}

fn options() -> impl Options {
    bincode::DefaultOptions::new().with_fixint_encoding().with_limit(PAYLOAD_MAX as u64)
}

/// Encodes a value into an envelope.
///
/// # Errors
/// [`EncodeError`] if the payload would be larger than [`PAYLOAD_MAX`].
pub fn encode<T: Serialize + ?Sized>(kind: Kind, value: &T) -> Result<Vec<u8>, EncodeError> {
    let fail = |reason: String| EncodeError { kind, reason };
    let mut bytes = vec![0; HEADER_LEN];
    // With a limit, bincode encodes the value twice: first for its length.
    let written = options().with_no_limit().serialize_into(&mut bytes, value);
    written.map_err(|error| fail(error.to_string()))?;
    let len = bytes.len() - HEADER_LEN;
    let len = u32::try_from(len).ok().filter(|_| len <= PAYLOAD_MAX);
    let len = len.ok_or_else(|| fail("its payload is too large".to_owned()))?;
    bytes[0..2].copy_from_slice(&MAGIC);
    bytes[2] = VERSION;
    bytes[3] = kind as u8;
    bytes[4..8].copy_from_slice(&len.to_le_bytes());
    let checksum = checksum(&bytes);
    bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
    Ok(bytes)
}

/// Decodes the envelope `bytes`, which must contain nothing else.
///
/// # Errors
/// [`DecodeError`]; nothing larger than `bytes` is allocated.
pub fn decode<T: DeserializeOwned>(kind: Kind, bytes: &[u8]) -> Result<T, DecodeError> {
    let payload = payload(kind, bytes)?;
    options()
        .deserialize(payload)
        .map_err(|error| DecodeError::Payload { kind, reason: error.to_string() })
}

/// Checks the envelope `bytes` as [`decode`] does, and decodes only the value at the beginning of its payload.
///
/// # Errors
/// [`DecodeError`] as for [`decode`].
pub fn decode_prefix<T: DeserializeOwned>(kind: Kind, bytes: &[u8]) -> Result<T, DecodeError> {
    let payload = payload(kind, bytes)?;
    options()
        .allow_trailing_bytes()
        .deserialize(payload)
        .map_err(|error| DecodeError::Payload { kind, reason: error.to_string() })
}

fn payload(kind: Kind, bytes: &[u8]) -> Result<&[u8], DecodeError> {
    let header = bytes
        .first_chunk::<HEADER_LEN>()
        .ok_or(DecodeError::Short { have: bytes.len(), need: HEADER_LEN })?;
    let need = frame_len(header)?;
    if bytes.len() < need {
        return Err(DecodeError::Short { have: bytes.len(), need });
    }
    if header[3] != kind as u8 {
        return Err(DecodeError::Kind { found: header[3], expected: kind });
    }
    let stored = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
    if bytes.len() > need || stored != checksum(bytes) {
        return Err(DecodeError::Checksum);
    }
    Ok(&bytes[HEADER_LEN..])
}

/// Returns the length of the envelope that starts with `header`, so that a reader checks the limit before it allocates.
///
/// # Errors
/// [`DecodeError`] if `header` is invalid, or the length is over [`PAYLOAD_MAX`].
pub fn frame_len(header: &[u8; HEADER_LEN]) -> Result<usize, DecodeError> {
    if header[0..2] != MAGIC {
        return Err(DecodeError::Magic);
    }
    if header[2] != VERSION {
        return Err(DecodeError::Version { found: header[2] });
    }
    let len = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
    if len > PAYLOAD_MAX {
        return Err(DecodeError::TooLong { len });
    }
    Ok(HEADER_LEN + len)
}

/// Whether `bytes` start with the header of an envelope of this kind. The rest is not checked.
pub fn is_of_kind(kind: Kind, bytes: &[u8]) -> bool {
    bytes.starts_with(&[MAGIC[0], MAGIC[1], VERSION, kind as u8])
}

/// Returns the payload length of `value`, without the header. Cheaper than [`encode`].
///
/// # Errors
/// [`EncodeError`] if the payload would be larger than [`PAYLOAD_MAX`].
pub fn encoded_len<T: Serialize + ?Sized>(kind: Kind, value: &T) -> Result<usize, EncodeError> {
    let fail = |reason: String| EncodeError { kind, reason };
    let len = options().serialized_size(value).map_err(|error| fail(error.to_string()))?;
    usize::try_from(len).map_err(|error| fail(error.to_string()))
}

fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..8]), &bytes[HEADER_LEN..])
}

#[cfg(test)]
mod tests;
