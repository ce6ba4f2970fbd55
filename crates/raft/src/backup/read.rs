//! Reads a backup: checks the checksum of each part, the hash of all bytes, the invariants and the digest of the state.

use std::io::Read;

use holdfast_codec::{DecodeError, HEADER_LEN, Kind};
use holdfast_machine::{DIGEST_SCHEMA, Machine, SnapshotPart};
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use super::{Backup, BackupEnd, BackupError, BackupHead, BackupPart, FORMAT};

impl BackupHead {
    /// Reads only the head of a backup.
    ///
    /// # Errors
    /// [`BackupError`] if the source does not begin with a head of a known format.
    pub fn read(source: impl Read) -> Result<Self, BackupError> {
        BackupReader { source, offset: 0, hash: Sha256::new() }.head()
    }
}

impl Backup {
    /// Reads a whole backup.
    ///
    /// # Errors
    /// [`BackupError`] for the first damaged part, a missing end, bytes after the end, a later format, and a state that
    /// violates an invariant or its digest.
    pub fn read(source: impl Read) -> Result<Self, BackupError> {
        let mut reader = BackupReader { source, offset: 0, hash: Sha256::new() };
        let head = reader.head()?;
        let state_offset = reader.offset;
        let (mut end, mut number) = (None, 0);
        let parts = std::iter::from_fn(|| {
            number += 1;
            match reader.part(number) {
                Ok(Next::Part(part)) => Some(part),
                Ok(Next::End(read)) => {
                    end = Some(Ok(read));
                    None
                }
                Err(error) => {
                    end = Some(Err(error));
                    None
                }
            }
        });
        let loaded = Machine::load(parts);
        // A damaged part takes precedence over the error of the incomplete state.
        let error = |reason: String| BackupError {
            part: BackupPart::WholeState,
            offset: state_offset,
            reason,
        };
        let (end, machine) = match (end, loaded) {
            (Some(Err(damaged)), _) => return Err(damaged),
            (_, Err(unsound)) => return Err(error(unsound.to_string())),
            (Some(Ok(end)), Ok(machine)) => (end, machine),
            (None, Ok(_)) => return Err(error("its end is missing".to_owned())),
        };
        reader.nothing_left()?;
        check_state(&head, &machine).map_err(error)?;
        Ok(Self { head, machine, end })
    }
}

/// Compares the state with the facts of the head.
pub(super) fn check_state(head: &BackupHead, machine: &Machine) -> Result<(), String> {
    let counts = machine.counts();
    let named = (head.cluster_id, head.revision, head.last_token);
    if named != (machine.cluster_id(), machine.revision(), counts.grants) {
        return Err("its cluster, revision or last token differ from those of the head".to_owned());
    }
    if head.digest_schema == DIGEST_SCHEMA && head.state_digest != machine.state_digest() {
        let (found, expected) = (machine.state_digest(), head.state_digest);
        return Err(format!("its digest is {found:016x}, that of the head is {expected:016x}"));
    }
    Ok(())
}

enum Next {
    Part(SnapshotPart),
    End(BackupEnd),
}

struct BackupReader<R> {
    source: R,
    offset: u64,
    hash: Sha256,
}

impl<R: Read> BackupReader<R> {
    fn head(&mut self) -> Result<BackupHead, BackupError> {
        let part = BackupPart::Head;
        let failed = |reason: String| BackupError { part, offset: 0, reason };
        let bytes = self.envelope(part)?;
        let format: u16 = holdfast_codec::decode_prefix(Kind::BackupHead, &bytes)
            .map_err(|error| failed(reason_of(&error)))?;
        if format != FORMAT {
            return Err(failed(format!(
                "the backup has format {format}, and this program knows format {FORMAT}: use the program that made it, \
                 or a newer one"
            )));
        }
        self.take(part, Kind::BackupHead, &bytes)
    }

    fn part(&mut self, number: u64) -> Result<Next, BackupError> {
        let part = BackupPart::State(number);
        let bytes = self.envelope(part)?;
        if !holdfast_codec::is_of_kind(Kind::BackupEnd, &bytes) {
            return self.take(part, Kind::SnapshotPart, &bytes).map(Next::Part);
        }
        let (offset, sha256) = (self.offset, self.hash.clone().finalize().into());
        let end: BackupEnd = self.take(BackupPart::End, Kind::BackupEnd, &bytes)?;
        if end != (BackupEnd { bytes: offset, sha256 }) {
            let reason = "its length or hash differ from those of the bytes before it".to_owned();
            return Err(BackupError { part: BackupPart::End, offset, reason });
        }
        Ok(Next::End(end))
    }

    /// Decodes an envelope, and counts its bytes.
    fn take<T: DeserializeOwned>(
        &mut self,
        part: BackupPart,
        kind: Kind,
        bytes: &[u8],
    ) -> Result<T, BackupError> {
        let offset = self.offset;
        let value = holdfast_codec::decode(kind, bytes).map_err(|error| BackupError {
            part,
            offset,
            reason: reason_of(&error),
        })?;
        self.offset += bytes.len() as u64;
        self.hash.update(bytes);
        Ok(value)
    }

    /// Reads the next envelope. Memory grows with the bytes that exist, not with the length in the header.
    fn envelope(&mut self, part: BackupPart) -> Result<Vec<u8>, BackupError> {
        let mut bytes = Vec::new();
        self.fill(part, &mut bytes, HEADER_LEN)?;
        let Some(header) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(self.cut_short(part, bytes.len()));
        };
        let is_end = holdfast_codec::is_of_kind(Kind::BackupEnd, header);
        let part = if is_end { BackupPart::End } else { part };
        let len = holdfast_codec::frame_len(header).map_err(|error| BackupError {
            part,
            offset: self.offset,
            reason: reason_of(&error),
        })?;
        self.fill(part, &mut bytes, len - HEADER_LEN)?;
        if bytes.len() < len {
            return Err(self.cut_short(part, bytes.len()));
        }
        Ok(bytes)
    }

    fn fill(
        &mut self,
        part: BackupPart,
        bytes: &mut Vec<u8>,
        count: usize,
    ) -> Result<(), BackupError> {
        let offset = self.offset;
        let read = self.source.by_ref().take(count as u64).read_to_end(bytes);
        read.map(drop).map_err(|error| BackupError { part, offset, reason: error.to_string() })
    }

    fn cut_short(&self, part: BackupPart, have: usize) -> BackupError {
        let end = self.offset + have as u64;
        let reason = format!("the backup is cut short after {end} bytes: make it again");
        BackupError { part, offset: self.offset, reason }
    }

    fn nothing_left(&mut self) -> Result<(), BackupError> {
        let (part, offset) = (BackupPart::End, self.offset);
        let mut rest = Vec::new();
        let read = self.source.by_ref().take(1).read_to_end(&mut rest);
        let reason = match read {
            Ok(0) => return Ok(()),
            Ok(_) => "more bytes follow the end".to_owned(),
            Err(error) => error.to_string(),
        };
        Err(BackupError { part, offset, reason })
    }
}

fn reason_of(error: &DecodeError) -> String {
    match error {
        DecodeError::Magic => "these are not the bytes of a backup of holdfast".to_owned(),
        DecodeError::Version { found } => {
            format!("envelope version {found} is of a later holdfast: use the program that made it")
        }
        DecodeError::Short { .. }
        | DecodeError::Kind { .. }
        | DecodeError::TooLong { .. }
        | DecodeError::Checksum
        | DecodeError::Payload { .. } => error.to_string(),
    }
}
