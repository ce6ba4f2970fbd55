//! The handshake of a connection: opens a session, or takes over the session of an earlier connection.

use std::net::SocketAddr;

use bytes::Bytes;
use holdfast_service::{Attachment, Failure, Outbox, Service, SessionStream};
use holdfast_types::{Labels, Password, Rejection, SessionId, SessionRejection};
use holdfast_zkwire::{ConnectRequest, ConnectResponse, DecodeError};

use crate::context::ServerContext;
use crate::values;

/// The session of a connection, and the frame that confirms it to the client.
pub(crate) struct Session {
    pub(crate) attached: Attachment,
    pub(crate) stream: SessionStream,
    pub(crate) outbox: Outbox,
    pub(crate) response: Bytes,
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
    /// There is no such session, or the password is wrong. The response has the client's `read_only` flag.
    NoSession(Option<bool>),
    /// This node cannot open the session. The client tries another one.
    Unavailable(Failure),
}

pub(crate) async fn handshake(
    context: &ServerContext,
    service: &Service,
    peer: SocketAddr,
    frame: Bytes,
) -> Result<Session, HandshakeError> {
    let request = ConnectRequest::decode(frame).map_err(HandshakeError::Undecodable)?;
    let attached = attach(context, service, peer, &request).await?;
    let stream = service.stream(&attached, context.config.stream);
    let (stream, outbox) = stream.map_err(HandshakeError::Unavailable)?;
    let response = ConnectResponse {
        protocol_version: 0,
        timeout_ms: i32::try_from(attached.ttl.as_millis()).unwrap_or(i32::MAX),
        session_id: session_number(attached.id),
        password: attached.password.0,
        read_only: request.read_only.map(|_| false),
    };
    Ok(Session { attached, stream, outbox, response: response.encode() })
}

async fn attach(
    context: &ServerContext,
    service: &Service,
    peer: SocketAddr,
    request: &ConnectRequest,
) -> Result<Attachment, HandshakeError> {
    let ttl = context.config.negotiated(request.timeout_ms);
    let seen = values::revision(request.last_zxid_seen);
    let attached = if request.session_id == 0 {
        service.open_stream_session(ttl, labels(peer), seen).await
    } else {
        let id = u64::try_from(request.session_id).ok().map(SessionId);
        let (Some(id), Some(password)) = (id, request.password) else {
            return Err(HandshakeError::NoSession(request.read_only));
        };
        service.attach_session(id, Password(password), ttl, seen).await
    };
    attached.map_err(|failure| {
        let gone = matches!(
            failure,
            Failure::Rejected(Rejection::Session(
                SessionRejection::Unknown { .. }
                    | SessionRejection::Expired { .. }
                    | SessionRejection::Moved { .. }
            ))
        );
        if gone {
            HandshakeError::NoSession(request.read_only)
        } else {
            HandshakeError::Unavailable(failure)
        }
    })
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
