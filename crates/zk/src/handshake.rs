//! The handshake of a connection: opens a session, or takes over the session of an earlier connection.
//!
//! ZooKeeper clients send their credentials after the response to their first frame. Where a credential is required, the
//! session is provisional until one of them proves a subject ([`ProvisionalConnection`]).

use std::net::SocketAddr;
use std::time::Instant;

use bytes::Bytes;
use holdfast_service::{
    Attachment, ConnectionPlace, Failure, Outbox, Service, SessionKey, SessionStream,
};
use holdfast_types::{Labels, Password, Rejection, Revision, SessionId, SessionRejection, Ttl};
use holdfast_zkwire::{
    ConnectRequest, ConnectResponse, DecodeError, ErrorCode, Request, Response, decode_request,
    encode_reply,
};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::connection_table::ConnectionGuard;
use crate::context::{ServerContext, ZkConfig};
use crate::frame_reader::{FrameReadError, FrameReader};
use crate::identity::{Identities, NotProved};
use crate::metrics::OpKind;
use crate::request_loop::reply_xid;
use crate::values;

/// The largest frame of a client that has proved nothing, bytes. Credentials are shorter.
pub(crate) const HANDSHAKE_FRAME_MAX: usize = 8 * 1024;

/// The session of a connection.
pub(crate) struct Session {
    pub(crate) attached: Attachment,
    pub(crate) stream: SessionStream,
    pub(crate) outbox: Outbox,
    /// The place of the connection among those of its caller.
    pub(crate) place: ConnectionPlace,
}

impl Session {
    /// The id of the session in the protocol.
    pub(crate) fn number(&self) -> i64 {
        session_number(self.attached.id)
    }
}

/// Why a handshake failed.
#[derive(Debug)]
pub(crate) enum HandshakeError {
    Undecodable(DecodeError),
    /// There is no such session, the password is wrong, or it belongs to another subject. The response has the client's
    /// `read_only` flag.
    NoSession(Option<bool>),
    /// This node cannot open the session. The client tries another one.
    Unavailable(Failure),
    /// A credential proves nobody, or somebody who may not have the session.
    AuthFailed,
    /// The session may expire before a credential can arrive.
    Expiring,
    /// The client sent no credential in time.
    NoCredential,
    /// The last reply was an error that ends the connection, or the client closed it.
    Ended,
    Read(FrameReadError),
}

/// The session that a client requests with the first frame. Neither the request nor [`RequestedSession::check`] changes
/// anything in the cluster.
#[derive(Debug)]
pub(crate) struct RequestedSession {
    key: SessionKey,
    pub(crate) is_new: bool,
    pub(crate) ttl: Ttl,
    /// The newest revision that the client has seen.
    seen: Revision,
    read_only: Option<bool>,
}

impl RequestedSession {
    /// Reads the first frame. A new session gets its id and its password here.
    pub(crate) fn decode(config: &ZkConfig, frame: Bytes) -> Result<Self, HandshakeError> {
        let request = ConnectRequest::decode(frame).map_err(HandshakeError::Undecodable)?;
        let ConnectRequest { session_id, password, read_only, .. } = request;
        let key = if session_id == 0 {
            SessionKey::generate().map_err(HandshakeError::Unavailable)?
        } else {
            let id = u64::try_from(session_id).ok().map(SessionId);
            let (Some(id), Some(password)) = (id, password) else {
                return Err(HandshakeError::NoSession(read_only));
            };
            SessionKey { id, password: Password(password) }
        };
        Ok(Self {
            key,
            is_new: session_id == 0,
            ttl: config.negotiated(request.timeout_ms),
            seen: values::revision(request.last_zxid_seen),
            read_only,
        })
    }

    /// The frame that tells the client its session.
    pub(crate) fn response(&self) -> Bytes {
        let response = ConnectResponse {
            protocol_version: 0,
            timeout_ms: i32::try_from(self.ttl.as_millis()).unwrap_or(i32::MAX),
            session_id: session_number(self.key.id),
            password: self.key.password.0,
            read_only: self.read_only.map(|_| false),
        };
        response.encode()
    }

    /// Checks that the client could get its session here. Returns until when it may count on the session before a credential renews
    /// it.
    pub(crate) async fn check(&self, service: &Service) -> Result<Instant, HandshakeError> {
        if service.leader().is_none() {
            return Err(HandshakeError::Unavailable(Failure::NoLeader));
        }
        let now = Instant::now();
        if self.is_new {
            return Ok(now + self.ttl.as_duration());
        }
        let until = service.stream_session_until(self.key, self.ttl, self.seen).await;
        let until = until.map_err(HandshakeError::Unavailable)?;
        let until = until.ok_or(HandshakeError::NoSession(self.read_only))?;
        // The response would promise that the session lives.
        if until <= Instant::now() { Err(HandshakeError::Expiring) } else { Ok(until) }
    }

    /// Opens the session, or takes it over.
    pub(crate) async fn attach(
        &self,
        context: &ServerContext,
        service: &Service,
        peer: SocketAddr,
    ) -> Result<Session, Failure> {
        let place = ConnectionPlace::default();
        service.count_connection(&place)?;
        let attached = if self.is_new {
            service.open_stream_session(self.key, self.ttl, labels(peer), self.seen).await?
        } else {
            service.attach_session(self.key, self.ttl, self.seen).await?
        };
        let (stream, outbox) = service.stream(&attached, context.config.stream)?;
        Ok(Session { attached, stream, outbox, place })
    }

    /// Why a client without a response yet gets none. A session of another subject is unknown to it. A session that another
    /// connection took over meanwhile is open.
    pub(crate) fn refused_before_response(&self, failure: Failure) -> HandshakeError {
        let is_moved = matches!(
            failure,
            Failure::Rejected(Rejection::Session(SessionRejection::Moved { .. }))
        );
        let is_unknown =
            matches!(failure, Failure::Rejected(Rejection::Session(_) | Rejection::Auth(_)));
        if is_unknown && !is_moved && !self.is_new {
            return HandshakeError::NoSession(self.read_only);
        }
        HandshakeError::Unavailable(failure)
    }
}

impl HandshakeError {
    /// Why a client that knows the id of its session does not get it. If the session has ended meanwhile, the client learns
    /// that when it connects again.
    pub(crate) fn after_response(failure: Failure) -> Self {
        NotProved::from(failure).into()
    }
}

impl From<NotProved> for HandshakeError {
    fn from(not_proved: NotProved) -> Self {
        match not_proved {
            NotProved::AuthFailed => Self::AuthFailed,
            NotProved::Unavailable(failure) => Self::Unavailable(failure),
        }
    }
}

/// A connection whose session waits for a credential: no request of the client reaches the log. The connection rejects
/// everything that needs a session. It answers the pings of a new session, which only this connection knows. Those of an
/// older one would tell its client that the session lives, and nothing renews it.
///
/// Bounds: one request at a time, of at most [`HANDSHAKE_FRAME_MAX`] bytes, until the deadline of the handshake.
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
                Ok(Request::Ping) => (Ok(Response::Empty), false),
                // The session of an earlier connection stays open.
                Ok(Request::CloseSession) if self.is_new => (Ok(Response::Empty), false),
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

/// Sends bytes to a client that has no session yet.
pub(crate) async fn send<W: AsyncWrite + Unpin>(writer: &mut W, bytes: &[u8], config: &ZkConfig) {
    // The connection closes next in any case.
    let sent = async {
        writer.write_all(bytes).await?;
        writer.flush().await
    };
    drop(timeout(config.write_timeout, sent).await);
}

/// The labels of the session in the HTTP API.
fn labels(peer: SocketAddr) -> Labels {
    let labels = [("front-end", "zookeeper".to_owned()), ("addr", peer.to_string())];
    let labels = labels.map(|(name, value)| (name.to_owned(), value));
    // Both are short and have valid characters.
    Labels::new(labels.into()).unwrap_or_default()
}

fn session_number(id: SessionId) -> i64 {
    i64::try_from(id.0).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use holdfast_types::SessionName;

    use super::*;

    #[test]
    fn only_a_session_that_has_ended_is_reported_as_ended() {
        let key = SessionKey { id: SessionId(7), password: Password([1; 16]) };
        let (ttl, seen, read_only) = (Ttl::MAX, Revision(0), None);
        let requested = RequestedSession { key, is_new: false, ttl, seen, read_only };
        let session = SessionName::of(key.id);
        let refused = |rejection| {
            requested.refused_before_response(Failure::Rejected(Rejection::Session(rejection)))
        };
        let ended = refused(SessionRejection::Unknown { session: session.clone() });
        assert!(matches!(ended, HandshakeError::NoSession(None)), "{ended:?}");
        let moved = refused(SessionRejection::Moved { session });
        assert!(matches!(moved, HandshakeError::Unavailable(_)), "{moved:?}");
    }
}
