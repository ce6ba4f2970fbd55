//! A connection whose session waits for a credential.
//!
//! ZooKeeper clients send their credentials after the response to their first frame. Until one of them proves a subject, the
//! session is provisional: no request of the client reaches the log. The connection rejects everything that needs a session. It
//! answers the pings of a new session, which only this connection knows. Those of an older one would tell its client that the
//! session lives, and nothing renews it.
//!
//! Bounds: one request at a time, of at most [`HANDSHAKE_FRAME_MAX`] bytes, until the deadline of the handshake.

use std::time::Instant;

use bytes::Bytes;
use holdfast_service::Service;
use holdfast_zkwire::{ErrorCode, Request, Response, decode_request, encode_reply};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::config::ZkConfig;
use crate::connection_table::ConnectionGuard;
use crate::frame_reader::FrameReader;
use crate::handshake::{HandshakeError, send};
use crate::identity::{Identities, NotProved};
use crate::op_kind::OpKind;
use crate::request_loop::reply_xid;

/// The largest frame of a client that has proved nothing, bytes. Credentials are shorter.
pub(crate) const HANDSHAKE_FRAME_MAX: usize = 8 * 1024;

pub(crate) struct ProvisionalConnection<'a, R, W> {
    pub(crate) frames: &'a mut FrameReader<R>,
    pub(crate) writer: &'a mut W,
    pub(crate) config: &'a ZkConfig,
    pub(crate) service: &'a Service,
    pub(crate) guard: &'a ConnectionGuard,
    pub(crate) identities: &'a mut Identities,
    /// No connection had the session before.
    pub(crate) is_new: bool,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> ProvisionalConnection<'_, R, W> {
    /// Reads requests until an access token proves a subject. Returns the reply to that request, to be sent when the session
    /// is open.
    pub(crate) async fn prove(&mut self) -> Result<Bytes, HandshakeError> {
        loop {
            let frame = self.frames.next().await.map_err(HandshakeError::Read)?;
            let received_at = Instant::now();
            let (header, request) = decode_request(frame).map_err(HandshakeError::Undecodable)?;
            self.guard.count_request();
            if matches!(request, Ok(Request::Ping)) && !self.is_new {
                continue;
            }
            let is_close = matches!(request, Ok(Request::CloseSession));
            let (reply, proves) = match request {
                Ok(Request::Auth { scheme, auth, .. }) => (
                    Ok(Response::Empty),
                    self.authenticate(&scheme, &auth.unwrap_or_default()).await?,
                ),
                Ok(Request::Ping | Request::CloseSession) => (Ok(Response::Empty), false),
                Ok(_) => (Err(ErrorCode::NoAuth), false),
                Err(_) => (Err(ErrorCode::MarshallingError), false),
            };
            let xid = reply_xid(header);
            let bytes = encode_reply(xid, 0, reply.as_ref().map_err(|code| *code));
            self.guard.count_reply(OpKind::of(header.op), xid, 0, received_at.elapsed());
            if proves {
                return Ok(bytes);
            }
            send(self.writer, &bytes, self.config).await;
            if is_close {
                return Err(HandshakeError::Ended);
            }
        }
    }

    /// Whether the credentials prove a subject.
    async fn authenticate(
        &mut self,
        scheme: &str,
        credentials: &[u8],
    ) -> Result<bool, HandshakeError> {
        let proved = async {
            match Identities::access_token(scheme, credentials)? {
                Some(token) => {
                    self.identities.act_as(Identities::actor_of(token, self.service).await?);
                    Ok(true)
                }
                None => Ok(self.identities.authenticate(scheme, credentials).map(|()| false)?),
            }
        };
        proved.await.map_err(|not_proved: NotProved| not_proved.into())
    }
}
