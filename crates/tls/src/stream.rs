//! A connection with or without TLS, and its end when the certificate of the other side expires or is denied.
//!
//! The owner of a listener replaces the list of denied certificates; the state of the cluster bounds it.

use std::collections::BTreeSet;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use holdfast_types::CertificateId;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsStream;

use crate::certificate::CertificateInfo;

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

    /// A connection with the certificate of the other side, unless it is denied or has expired, or `CertificateInfo` cannot read
    /// it. A resumed session brings the certificate of an earlier handshake, which TLS does not verify again.
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
        if stream.certificate().is_some_and(|known| known.not_after <= SystemTime::now()) {
            let what = "the certificate of the other side has expired";
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

/// How often the wall clock is compared, because it can change.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The end of the certificate of the other side; without a certificate it never ends.
#[derive(Clone, Debug)]
pub struct CertificateExpiry(Option<KnownCertificate>);

#[derive(Clone, Debug)]
struct KnownCertificate {
    not_after: SystemTime,
    ids: [CertificateId; 2],
    denied: DeniedCertificates,
}

impl CertificateExpiry {
    /// Resolves when the certificate has expired or is denied.
    pub async fn passed(self) {
        let Some(known) = self.0 else { return std::future::pending().await };
        tokio::select! {
            () = expired(known.not_after) => {}
            () = known.denied.denies(known.ids) => {}
        }
    }

    /// Resolves when the certificate is denied.
    pub async fn denied(self) {
        let Some(known) = self.0 else { return std::future::pending().await };
        known.denied.denies(known.ids).await;
    }

    fn is_denied(&self) -> bool {
        self.0.as_ref().is_some_and(|known| known.denied.has(&known.ids))
    }
}

async fn expired(not_after: SystemTime) {
    loop {
        match not_after.duration_since(SystemTime::now()) {
            Err(_) | Ok(Duration::ZERO) => return,
            Ok(left) => tokio::time::sleep(left.min(LOOK_EVERY)).await,
        }
    }
}

/// Denied certificates. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct DeniedCertificates(Arc<watch::Sender<BTreeSet<CertificateId>>>);

impl DeniedCertificates {
    pub fn replace(&self, denied: &BTreeSet<CertificateId>) {
        self.0.send_if_modified(|known| {
            let differs = known != denied;
            if differs {
                known.clone_from(denied);
            }
            differs
        });
    }

    fn has(&self, certificate: &[CertificateId; 2]) -> bool {
        certificate.iter().any(|id| self.0.borrow().contains(id))
    }

    /// Resolves when the certificate is denied.
    async fn denies(self, certificate: [CertificateId; 2]) {
        let mut changes = self.0.subscribe();
        let is_denied =
            |denied: &BTreeSet<CertificateId>| certificate.iter().any(|id| denied.contains(id));
        // The sender lives as long as this future.
        drop(changes.wait_for(is_denied).await);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn expiry(not_after: SystemTime, denied: &DeniedCertificates) -> CertificateExpiry {
        let ids = [CertificateId::of_serial(&[7]), CertificateId::of_sha256(&[7; 32])];
        CertificateExpiry(Some(KnownCertificate { not_after, ids, denied: denied.clone() }))
    }

    #[tokio::test]
    async fn a_certificate_expires_once_and_none_never_does() {
        let (now, denied) = (SystemTime::now(), DeniedCertificates::default());
        expiry(now - Duration::from_secs(1), &denied).passed().await;
        expiry(now + Duration::from_millis(20), &denied).passed().await;
        assert!(SystemTime::now() >= now + Duration::from_millis(20));
        let later = expiry(now + Duration::from_hours(1), &denied);
        assert_eq!(later.passed().now_or_never(), None);
        assert_eq!(CertificateExpiry(None).passed().now_or_never(), None);
    }

    #[tokio::test]
    async fn a_connection_ends_when_its_certificate_is_denied() {
        let denied = DeniedCertificates::default();
        let later = expiry(SystemTime::now() + Duration::from_hours(1), &denied);
        for id in [CertificateId::of_serial(&[7]), CertificateId::of_sha256(&[7; 32])] {
            let waiting = tokio::spawn(later.clone().passed());
            denied.replace(&[CertificateId::of_serial(&[8])].into());
            assert!(!later.is_denied());
            denied.replace(&[id].into());
            waiting.await.unwrap();
            later.clone().denied().await;
            assert!(later.is_denied());
            denied.replace(&[].into());
            assert!(!later.is_denied());
        }
    }
}
