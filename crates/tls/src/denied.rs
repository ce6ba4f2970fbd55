//! The certificates that the cluster denies. A listener ends the connections of such a certificate, and accepts none.
//!
//! The owner of a listener replaces the list; the state of the cluster bounds it.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_types::CertificateId;
use tokio::sync::watch;

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
