//! One journal file: its format (`docs/formats/storage.md`), and which records are valid after a crash.
//!
//! A new file is filled with zeros, so that later writes change no file metadata and an `fdatasync` is one pass to the
//! disk. The checksum of every record covers the generation and a random salt. So a record of an earlier generation is
//! never valid, even if a power cut kept the records of a generation, lost its header, and the generation starts again.
//! The valid records are the longest run from the start. The watermark verifies that it includes all acknowledged ones.
//!
//! ```text
//! 0..4     magic "HFJ1"
//! 4..12    generation, little endian
//! 12..20   salt, random
//! 20..24   CRC-32C of bytes 0..20
//! 4096..   records, each at a multiple of 8:
//!     0..4   length of the payload, never 0
//!     4..8   CRC-32C of the generation, the salt, the length and the payload
//!     8..    payload: the batch's changes, each
//!            tag 0 (put) or 1 (delete), key length u16, key, and for a put value length u32, value
//! ```

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::engine::{Write, WriteBatch};
use crate::error::{At, StoreError};
use crate::file::sync_dir;

/// The two files' names.
pub(crate) const NAMES: [&str; 2] = ["journal.0", "journal.1"];
/// Length of a file, bytes: two of the largest batches with room to spare.
pub(super) const CAPACITY: usize = 12 << 20;

const MAGIC: [u8; 4] = *b"HFJ1";
const HEADER_LEN: usize = 24;
const RECORDS_AT: usize = 4096;
const RECORD_HEADER_LEN: usize = 8;
const PUT: u8 = 0;
const DELETE: u8 = 1;

/// An open file.
pub(super) struct JournalFile {
    file: File,
    path: PathBuf,
    /// Where the next record goes.
    end: usize,
    /// The header of a turn that has no record in the file yet.
    header: Option<[u8; HEADER_LEN]>,
}

/// One turn of a file: what its header says, and what every record's checksum begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Turn {
    /// One more than that of the turn before, in the other file.
    pub(super) generation: u64,
    /// Tells this turn from another attempt at the same one.
    salt: u64,
}

impl Turn {
    /// A turn nobody has begun before.
    pub(super) fn new(generation: u64) -> Result<Self, StoreError> {
        let mut salt = [0; 8];
        getrandom::fill(&mut salt)
            .map_err(|error| StoreError::io("asking for randomness", &error.into()))?;
        Ok(Self { generation, salt: u64::from_le_bytes(salt) })
    }

    fn header(self) -> [u8; HEADER_LEN] {
        let mut header = [0; HEADER_LEN];
        header[..4].copy_from_slice(&MAGIC);
        header[4..12].copy_from_slice(&self.generation.to_le_bytes());
        header[12..20].copy_from_slice(&self.salt.to_le_bytes());
        let sum = crc32c::crc32c(&header[..20]);
        header[20..].copy_from_slice(&sum.to_le_bytes());
        header
    }

    /// That of a file with a good header.
    fn of(bytes: &[u8]) -> Option<Self> {
        let header = bytes.first_chunk::<HEADER_LEN>()?;
        let (generation, rest) = header[4..].split_first_chunk::<8>()?;
        let salt = u64::from_le_bytes(*rest.first_chunk()?);
        let turn = Self { generation: u64::from_le_bytes(*generation), salt };
        (*header == turn.header()).then_some(turn)
    }

    fn checksum(self, len: u32, payload: &[u8]) -> u32 {
        let mut sum = crc32c::crc32c(&self.generation.to_le_bytes());
        sum = crc32c::crc32c_append(sum, &self.salt.to_le_bytes());
        crc32c::crc32c_append(crc32c::crc32c_append(sum, &len.to_le_bytes()), payload)
    }
}

/// What a file held when it was opened.
#[derive(Debug, Default)]
pub(super) struct Recovered {
    pub(super) turn: Turn,
    pub(super) batches: Vec<WriteBatch>,
}

impl JournalFile {
    /// Opens both files of a directory, or makes both if there is neither.
    pub(super) fn open_both(dir: &Path) -> Result<[Self; 2], StoreError> {
        let paths = NAMES.map(|name| dir.join(name));
        match (paths[0].exists(), paths[1].exists()) {
            (false, false) => {
                paths.iter().try_for_each(|path| create(path))?;
                sync_dir(dir)?;
            }
            (true, true) => {}
            (first, _) => {
                let missing = NAMES[usize::from(first)];
                let what = format!("the file {missing} is missing in {}", dir.display());
                return Err(StoreError::corrupt(what));
            }
        }
        let [first, second] = paths;
        Ok([Self::open(first)?, Self::open(second)?])
    }

    fn open(path: PathBuf) -> Result<Self, StoreError> {
        let file = OpenOptions::new().read(true).write(true).open(&path).at("opening", &path)?;
        Ok(Self { file, path, end: RECORDS_AT, header: None })
    }

    /// Reads what counts.
    pub(super) fn recover(&self) -> Result<Recovered, StoreError> {
        let mut bytes = Vec::with_capacity(CAPACITY);
        (&self.file).take(CAPACITY as u64).read_to_end(&mut bytes).at("reading", &self.path)?;
        let Some(turn) = Turn::of(&bytes) else { return Ok(Recovered::default()) };
        let mut rest = bytes.get(RECORDS_AT..).unwrap_or_default();
        let mut batches = Vec::new();
        while let Some(payload) = record(rest, turn) {
            // The checksum is right, so it was written like this: by a newer version, or by a bug.
            let batch = decode(payload).ok_or_else(|| {
                StoreError::corrupt(format!(
                    "{} has a record of no known form",
                    self.path.display()
                ))
            })?;
            batches.push(batch);
            rest = rest.get(padded(RECORD_HEADER_LEN + payload.len())..).unwrap_or_default();
        }
        Ok(Recovered { turn, batches })
    }

    /// Begins a turn from the start of the file. Nothing is written yet.
    pub(super) fn rewind(&mut self, turn: Turn) {
        self.end = RECORDS_AT;
        self.header = Some(turn.header());
    }

    /// Whether so many bytes of records fit behind those in the file.
    pub(super) fn has_room(&self, len: usize) -> bool {
        self.end + len <= CAPACITY
    }

    /// Writes records behind the last one.
    pub(super) fn append(&mut self, records: &[u8]) -> Result<(), StoreError> {
        if records.is_empty() {
            return Ok(());
        }
        if let Some(header) = self.header.take() {
            self.file.write_all_at(&header, 0).at("writing", &self.path)?;
            // The disk may keep what follows and lose this. Then the turn before would be found with its end
            // overwritten, and a part of a turn is not what a whole one is: it takes keys back to older values.
            self.sync()?;
        }
        self.file.write_all_at(records, self.end as u64).at("writing", &self.path)?;
        self.end += records.len();
        Ok(())
    }

    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_data().at("syncing", &self.path)
    }
}

fn create(path: &Path) -> Result<(), StoreError> {
    let file = File::create(path).at("creating", path)?;
    let zeros = vec![0; 1 << 20];
    for at in (0..CAPACITY).step_by(zeros.len()) {
        file.write_all_at(&zeros, at as u64).at("writing", path)?;
    }
    file.sync_all().at("syncing", path)
}

/// Adds a batch as one record.
///
/// # Errors
/// [`StoreError::TooLarge`] if it could never fit a file.
pub(super) fn encode(batch: &WriteBatch, turn: Turn, out: &mut Vec<u8>) -> Result<(), StoreError> {
    let begin = out.len();
    out.extend_from_slice(&[0; RECORD_HEADER_LEN]);
    for write in &batch.writes {
        encode_write(write, out)?;
    }
    let len = out.len() - begin - RECORD_HEADER_LEN;
    if RECORDS_AT + padded(RECORD_HEADER_LEN + len) > CAPACITY {
        return Err(too_large("a batch", len));
    }
    let len = u32::try_from(len).map_err(|_| too_large("a batch", len))?;
    let sum = turn.checksum(len, &out[begin + RECORD_HEADER_LEN..]);
    out[begin..begin + 4].copy_from_slice(&len.to_le_bytes());
    out[begin + 4..begin + 8].copy_from_slice(&sum.to_le_bytes());
    out.resize(begin + padded(out.len() - begin), 0);
    Ok(())
}

fn encode_write(write: &Write, out: &mut Vec<u8>) -> Result<(), StoreError> {
    let (tag, key) = match write {
        Write::Put(key, _) => (PUT, key),
        Write::Delete(key) => (DELETE, key),
    };
    let key_len = u16::try_from(key.len()).map_err(|_| too_large("a key", key.len()))?;
    out.push(tag);
    out.extend_from_slice(&key_len.to_le_bytes());
    out.extend_from_slice(key);
    if let Write::Put(_, value) = write {
        let len = u32::try_from(value.len()).map_err(|_| too_large("a value", value.len()))?;
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(value);
    }
    Ok(())
}

fn decode(mut payload: &[u8]) -> Option<WriteBatch> {
    let mut batch = WriteBatch::default();
    while let Some((tag, rest)) = payload.split_first() {
        let (key_len, rest) = rest.split_first_chunk::<2>()?;
        let (key, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*key_len)))?;
        payload = match *tag {
            PUT => {
                let (len, rest) = rest.split_first_chunk::<4>()?;
                let len = usize::try_from(u32::from_le_bytes(*len)).ok()?;
                let (value, rest) = rest.split_at_checked(len)?;
                batch.put(key, Bytes::copy_from_slice(value));
                rest
            }
            DELETE => {
                batch.delete(key);
                rest
            }
            _ => return None,
        };
    }
    Some(batch)
}

/// The payload of the record at the start of `bytes`, if it is a good one of this turn.
fn record(bytes: &[u8], turn: Turn) -> Option<&[u8]> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<4>()?;
    let len = u32::from_le_bytes(*len);
    let payload = rest.get(..usize::try_from(len).ok()?)?;
    let good = len > 0 && u32::from_le_bytes(*sum) == turn.checksum(len, payload);
    good.then_some(payload)
}

fn padded(len: usize) -> usize {
    len.next_multiple_of(8)
}

fn too_large(what: &'static str, bytes: usize) -> StoreError {
    let (bytes, bytes_max) = (bytes as u64, CAPACITY as u64);
    StoreError::TooLarge { what, bytes, bytes_max }
}
