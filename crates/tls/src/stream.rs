//! The end of a connection whose other side has a certificate that expires or is denied.
//!
//! The owner of a listener replaces the list of denied certificates; the state of the cluster bounds it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use holdfast_types::CertificateId;
use tokio::sync::watch;

/// How often the wall clock is compared, because it can change.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The end of the certificate of the other side; without a certificate it never ends.
#[derive(Clone, Debug)]
pub struct CertificateExpiry(pub(crate) Option<KnownCertificate>);

#[derive(Clone, Debug)]
pub(crate) struct KnownCertificate {
    pub(crate) not_after: SystemTime,
    pub(crate) ids: [CertificateId; 2],
    pub(crate) denied: DeniedCertificates,
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

    pub(crate) fn is_denied(&self) -> bool {
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

    pub(crate) fn has(&self, certificate: &[CertificateId; 2]) -> bool {
        certificate.iter().any(|id| self.0.borrow().contains(id))
    }

    /// Resolves when the certificate is denied.
    pub(crate) async fn denies(self, certificate: [CertificateId; 2]) {
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
