//! A connection with or without TLS.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

use crate::certificate::CertificateInfo;
use crate::expiry::DeniedCertificates;
use crate::expiry::{CertificateExpiry, KnownCertificate};

/// A connection after its handshake.
#[derive(Debug)]
pub enum MaybeTlsStream {
    Plain(TcpStream),
    Tls(Box<TlsConnection>),
}

/// A connection with TLS.
#[derive(Debug)]
pub struct TlsConnection {
    stream: TlsStream<TcpStream>,
    /// The verified certificate of the other side.
    certificate: Option<Arc<CertificateInfo>>,
    /// The certificates that end the connection.
    denied: DeniedCertificates,
}

impl MaybeTlsStream {
    /// A connection to a server. Its certificate is not kept, because it proves no caller.
    pub(crate) fn tls(stream: TlsStream<TcpStream>) -> Self {
        let denied = DeniedCertificates::default();
        Self::Tls(Box::new(TlsConnection { stream, certificate: None, denied }))
    }

    /// A connection with the certificate of the other side, unless it is denied, or `CertificateInfo` cannot read it.
    pub(crate) fn allowed(
        stream: TlsStream<TcpStream>,
        denied: DeniedCertificates,
    ) -> io::Result<Self> {
        let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let certificate = certificate.map(CertificateInfo::of).transpose().map_err(|reason| {
            let what = format!("the certificate of the other side cannot be read: {reason}");
            io::Error::new(io::ErrorKind::InvalidData, what)
        })?;
        let certificate = certificate.map(Arc::new);
        let stream = Self::Tls(Box::new(TlsConnection { stream, certificate, denied }));
        if stream.expiry().is_denied() {
            let what = "the certificate of the other side is denied";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
        }
        Ok(stream)
    }

    /// The socket below.
    pub fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(tls) => tls.stream.get_ref().0,
        }
    }

    /// The end of the certificate of the other side.
    pub fn expiry(&self) -> CertificateExpiry {
        let Self::Tls(tls) = self else { return CertificateExpiry(None) };
        CertificateExpiry(tls.certificate.as_ref().map(|certificate| KnownCertificate {
            not_after: certificate.not_after,
            ids: certificate.ids.clone(),
            denied: tls.denied.clone(),
        }))
    }

    /// The verified certificate of the other side, if it gave one.
    pub fn certificate(&self) -> Option<Arc<CertificateInfo>> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(tls) => tls.certificate.clone(),
        }
    }
}

/// Delegates a poll to the stream of either kind.
macro_rules! delegate {
    ($self:ident.$poll:ident($($argument:expr),*)) => {
        match $self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).$poll($($argument),*),
            Self::Tls(tls) => Pin::new(&mut tls.stream).$poll($($argument),*),
        }
    };
}

impl AsyncRead for MaybeTlsStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        delegate!(self.poll_read(cx, buffer))
    }
}

impl AsyncWrite for MaybeTlsStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        delegate!(self.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        delegate!(self.poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(tls) => tls.stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self.poll_shutdown(cx))
    }
}
