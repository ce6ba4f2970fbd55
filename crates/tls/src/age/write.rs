//! Encrypts a stream to one recipient.

use super::{
    AgeError, AgeRecipient, CHUNK, Chunks, FILE_KEY, STANZA, VERSION, base64, header_key, no_nonce,
    private, public_of, wrap_key,
};
use aws_lc_rs::aead::Aad;
use aws_lc_rs::{hmac, rand};

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
