//! Encrypts a stream to one recipient, and decrypts it.

use std::io;
use std::io::{BufRead, Read};

use aws_lc_rs::aead::Aad;
use aws_lc_rs::{hmac, rand};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::{
    AgeError, AgeIdentity, AgeRecipient, CHUNK, Chunks, FILE_KEY, STANZA, TAG, VERSION, base64,
    header_key, no_nonce, private, public_of, wrap_key,
};

/// The longest line of a header.
const LINE_MAX: u64 = 1_024;
/// The most recipients of a file.
const STANZAS_MAX: usize = 64;

/// The decrypted bytes of a file.
pub struct AgeReader<R> {
    source: R,
    chunks: Chunks,
    /// The decrypted chunk, and how many of its bytes were read.
    plain: Vec<u8>,
    read: usize,
    ended: bool,
}

impl<R: BufRead> AgeReader<R> {
    /// Reads the header, and finds the key of the file.
    ///
    /// # Errors
    /// [`AgeError`], or an error of the source.
    pub fn new(mut source: R, identity: &AgeIdentity) -> io::Result<Self> {
        let file_key = file_key(&mut source, identity)?;
        let mut nonce = [0; 16];
        source.read_exact(&mut nonce)?;
        let chunks = Chunks::new(&file_key, &nonce).map_err(io::Error::other)?;
        Ok(Self { source, chunks, plain: Vec::new(), read: 0, ended: false })
    }

    /// Decrypts the next chunk. The last one ends where the file ends.
    fn next_chunk(&mut self) -> io::Result<()> {
        let mut chunk = Vec::new();
        self.source.by_ref().take((CHUNK + TAG) as u64).read_to_end(&mut chunk)?;
        let is_first = self.chunks.number == 0;
        self.ended = self.source.fill_buf()?.is_empty();
        self.plain = self.chunks.open(&mut chunk, self.ended).map_err(io::Error::other)?.to_vec();
        self.read = 0;
        if self.plain.is_empty() && !is_first {
            return Err(io::Error::other(AgeError::Damaged("the last chunk is empty")));
        }
        Ok(())
    }
}

impl<R: BufRead> Read for AgeReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.read == self.plain.len() && !self.ended {
            self.next_chunk()?;
        }
        let rest = &self.plain[self.read..];
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        self.read += count;
        Ok(count)
    }
}

/// Checks the header, and returns the key of the file.
fn file_key(source: &mut impl BufRead, identity: &AgeIdentity) -> io::Result<Vec<u8>> {
    let damaged = |reason| io::Error::other(AgeError::Damaged(reason));
    let mut head = Vec::new();
    let version = line(source, &mut head)?;
    if version != VERSION {
        return Err(damaged("another version of the format"));
    }
    let (mut keys, mut stanza) = (Vec::new(), None);
    for _ in 0..STANZAS_MAX * 2 {
        let start = head.len();
        let text = line(source, &mut head)?;
        if let Some(code) = text.strip_prefix("--- ") {
            head.truncate(start + 3);
            let code = decode(code).ok_or_else(|| damaged("the header's code"))?;
            let key: Vec<u8> =
                keys.into_iter().next().ok_or(AgeError::OtherKey).map_err(io::Error::other)?;
            let expected = header_key(&key).map_err(io::Error::other)?;
            hmac::verify(&expected, &head, &code).map_err(|_| damaged("the header's code"))?;
            return Ok(key);
        }
        if text.starts_with("-> ") {
            stanza = text.strip_prefix(STANZA).and_then(decode);
        } else if let (Some(share), Some(wrapped)) = (stanza.take(), decode(&text)) {
            keys.extend(unwrap(identity, &share, wrapped).map_err(io::Error::other)?);
        }
    }
    Err(damaged("the header has no end"))
}

/// The key of the file, if the stanza is for this identity.
fn unwrap(
    identity: &AgeIdentity,
    share: &[u8],
    mut wrapped: Vec<u8>,
) -> Result<Option<Vec<u8>>, AgeError> {
    let (Ok(share), true) = (share.try_into(), wrapped.len() == FILE_KEY + TAG) else {
        return Ok(None);
    };
    let Ok(key) = wrap_key(&private(&identity.secret)?, &share, &share, &identity.public) else {
        return Ok(None);
    };
    let opened = key.open_in_place(no_nonce(), Aad::empty(), &mut wrapped);
    Ok(opened.ok().map(|key| key.to_vec()))
}

fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD_NO_PAD.decode(text).ok()
}

/// Reads a line, and appends it with its end to the header.
fn line(source: &mut impl BufRead, head: &mut Vec<u8>) -> io::Result<String> {
    let start = head.len();
    source.by_ref().take(LINE_MAX).read_until(b'\n', head)?;
    let text = head[start..].strip_suffix(b"\n").and_then(|line| std::str::from_utf8(line).ok());
    let damaged = || io::Error::other(AgeError::Damaged("a line of the header"));
    text.map(str::to_owned).ok_or_else(damaged)
}

/// Encrypts the pieces of a stream. A file without the bytes of [`AgeWriter::finish`] cannot be read.
pub struct AgeWriter {
    chunks: Chunks,
    /// The header, until it is taken.
    header: Vec<u8>,
    /// At most one chunk.
    pending: Vec<u8>,
}

impl AgeWriter {
    /// # Errors
    /// [`AgeError::Failed`], also for a public key that allows no secret.
    pub fn new(recipient: &AgeRecipient) -> Result<Self, AgeError> {
        let (mut file_key, mut nonce, mut secret) = ([0; FILE_KEY], [0; 16], [0; 32]);
        rand::fill(&mut file_key)?;
        rand::fill(&mut nonce)?;
        rand::fill(&mut secret)?;
        let own = private(&secret)?;
        let share = public_of(&own)?;
        let wrap = wrap_key(&own, &recipient.0, &share, &recipient.0)?;
        let mut wrapped = file_key.to_vec();
        wrap.seal_in_place_append_tag(no_nonce(), Aad::empty(), &mut wrapped)?;
        let head = format!("{VERSION}\n{STANZA}{}\n{}\n---", base64(&share), base64(&wrapped));
        let code = hmac::sign(&header_key(&file_key)?, head.as_bytes());
        let mut header = format!("{head} {}\n", base64(code.as_ref())).into_bytes();
        header.extend(nonce);
        Ok(Self { chunks: Chunks::new(&file_key, &nonce)?, header, pending: Vec::new() })
    }

    /// Returns the next bytes of the file.
    ///
    /// # Errors
    /// [`AgeError::Failed`].
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<Vec<u8>, AgeError> {
        let mut file = std::mem::take(&mut self.header);
        while !bytes.is_empty() {
            // The last chunk is known only at the end, so a full one waits for the next byte.
            if self.pending.len() == CHUNK {
                self.seal(false, &mut file)?;
            }
            let (taken, rest) = bytes.split_at(bytes.len().min(CHUNK - self.pending.len()));
            self.pending.extend_from_slice(taken);
            bytes = rest;
        }
        Ok(file)
    }

    /// Returns the last bytes of the file.
    ///
    /// # Errors
    /// [`AgeError::Failed`].
    pub fn finish(mut self) -> Result<Vec<u8>, AgeError> {
        let mut file = std::mem::take(&mut self.header);
        self.seal(true, &mut file)?;
        Ok(file)
    }

    fn seal(&mut self, is_last: bool, file: &mut Vec<u8>) -> Result<(), AgeError> {
        let mut chunk = std::mem::take(&mut self.pending);
        self.chunks.seal(&mut chunk, is_last)?;
        file.append(&mut chunk);
        Ok(())
    }
}
