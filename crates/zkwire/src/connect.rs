//! The connect exchange: the first frame of a connection and its reply, both without a header.
//!
//! Old clients omit the byte `readOnly`, and then the reply omits it too. The front-end validates session, password and
//! timeout.

use bytes::Bytes;

use crate::jute::{Reader, Record, Sink};
use crate::{DecodeError, frame};

pub const PASSWORD_LEN: usize = 16;

/// The first frame of a client.
///
/// # Format
/// `int protocolVersion, long lastZxidSeen, int timeOut, long sessionId, buffer passwd, [bool readOnly]`: 45 bytes
/// with the last byte, 44 without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectRequest {
    pub protocol_version: i32,
    /// The largest zxid the client has seen on this session.
    pub last_zxid_seen: i64,
    /// The requested session timeout, milliseconds.
    pub timeout_ms: i32,
    /// 0 for a new session.
    pub session_id: i64,
    /// `None` if the received password has another length than [`PASSWORD_LEN`]: it matches no session.
    pub password: Option<[u8; PASSWORD_LEN]>,
    /// Whether the client accepts a read-only server; `None` from an old client.
    pub read_only: Option<bool>,
}

impl ConnectRequest {
    /// Reads a frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the frame is too short or a length in it is wrong: close the connection.
    pub fn decode(frame: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(frame);
        Ok(Self {
            protocol_version: reader.int("protocolVersion")?,
            last_zxid_seen: reader.long("lastZxidSeen")?,
            timeout_ms: reader.int("timeOut")?,
            session_id: reader.long("sessionId")?,
            password: password(&mut reader)?,
            read_only: read_only(&mut reader)?,
        })
    }

    pub fn encode(&self) -> Bytes {
        fixed(self)
    }
}

impl Record for ConnectRequest {
    fn write<S: Sink>(&self, out: &mut S) {
        out.int(self.protocol_version);
        out.long(self.last_zxid_seen);
        out.int(self.timeout_ms);
        out.long(self.session_id);
        out.buffer(self.password.as_ref().map(<[u8; PASSWORD_LEN]>::as_slice));
        write_read_only(out, self.read_only);
    }
}

/// The reply of the server.
///
/// # Format
/// `int protocolVersion, int timeOut, long sessionId, buffer passwd, [bool readOnly]`: 37 bytes with the last byte,
/// 36 without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectResponse {
    pub protocol_version: i32,
    /// The negotiated session timeout, milliseconds; 0 in a refusal.
    pub timeout_ms: i32,
    /// 0 in a refusal.
    pub session_id: i64,
    /// Zeros in a refusal.
    pub password: [u8; PASSWORD_LEN],
    /// Whether the server is read-only; `None` if the request had `None`.
    pub read_only: Option<bool>,
}

impl ConnectResponse {
    /// The session has ended, or the password is wrong.
    pub fn refusal(read_only: Option<bool>) -> Self {
        Self { read_only, ..Self::default() }
    }

    /// Reads a frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the frame is too short, or the password has another length than [`PASSWORD_LEN`].
    pub fn decode(frame: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(frame);
        Ok(Self {
            protocol_version: reader.int("protocolVersion")?,
            timeout_ms: reader.int("timeOut")?,
            session_id: reader.long("sessionId")?,
            password: password(&mut reader)?.ok_or(DecodeError::Short {
                field: "passwd",
                have: 0,
                need: PASSWORD_LEN,
            })?,
            read_only: read_only(&mut reader)?,
        })
    }

    pub fn encode(&self) -> Bytes {
        fixed(self)
    }
}

impl Record for ConnectResponse {
    fn write<S: Sink>(&self, out: &mut S) {
        out.int(self.protocol_version);
        out.int(self.timeout_ms);
        out.long(self.session_id);
        out.buffer(Some(&self.password));
        write_read_only(out, self.read_only);
    }
}

fn password(reader: &mut Reader) -> Result<Option<[u8; PASSWORD_LEN]>, DecodeError> {
    let bytes = reader.buffer("passwd")?;
    Ok(bytes.and_then(|bytes| bytes.as_ref().try_into().ok()))
}

fn read_only(reader: &mut Reader) -> Result<Option<bool>, DecodeError> {
    if reader.is_empty() { Ok(None) } else { reader.boolean("readOnly").map(Some) }
}

fn write_read_only<S: Sink>(out: &mut S, read_only: Option<bool>) {
    if let Some(read_only) = read_only {
        out.boolean(read_only);
    }
}

/// Encodes a record of a few dozen bytes, which always fits a frame.
fn fixed<R: Record>(record: &R) -> Bytes {
    frame::encode(record).unwrap_or_default()
}
