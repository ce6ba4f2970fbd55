//! The certificates of the listeners of one node: their files, which a running node reads again, and their state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use holdfast_service::{ListenerCertificate, Service};
use holdfast_tls::{PeerTls, TlsAcceptor, TlsConfig, TlsError};
use holdfast_types::CertificateId;
use parking_lot::Mutex;

use crate::config::ListenersTls;

/// The interval of the search for changed certificates. It finds every replacement: by rename, in place, and the symbolic
/// links of Kubernetes.
const CERTIFICATES_EVERY: Duration = Duration::from_secs(10);

/// The longest time until a node without a notice denies a certificate.
const DENIED_EVERY: Duration = Duration::from_secs(1);

/// The certificates of the listeners; `None` without TLS.
#[derive(Clone)]
pub(crate) struct NodeTls {
    pub(crate) http: Option<TlsAcceptor>,
    pub(crate) zookeeper: Option<TlsAcceptor>,
    pub(crate) raft: Option<PeerTls>,
    /// Why the changed files of a listener cannot be used.
    reload_errors: Arc<Mutex<BTreeMap<&'static str, String>>>,
}

impl NodeTls {
    /// Reads and checks the files.
    ///
    /// # Errors
    /// [`TlsError`], the first problem.
    pub(crate) fn open(config: &ListenersTls) -> Result<Self, TlsError> {
        let acceptor =
            |config: &Option<TlsConfig>| config.clone().map(TlsAcceptor::open).transpose();
        let raft = config.raft.clone().map(PeerTls::open).transpose()?;
        Ok(Self {
            http: acceptor(&config.http)?,
            zookeeper: acceptor(&config.zookeeper)?,
            raft,
            reload_errors: Arc::default(),
        })
    }

    /// The certificates that new connections use.
    pub(crate) fn certificates(&self) -> Vec<ListenerCertificate> {
        let expiries = [
            ("http", self.http.as_ref().map(TlsAcceptor::expires_at)),
            ("zookeeper", self.zookeeper.as_ref().map(TlsAcceptor::expires_at)),
            ("peer", self.raft.as_ref().map(PeerTls::expires_at)),
        ];
        let errors = self.reload_errors.lock();
        let certificates = expiries.into_iter().filter_map(|(listener, expires_at)| {
            let reload_error = errors.get(listener).cloned();
            Some(ListenerCertificate { listener, expires_at: expires_at?, reload_error })
        });
        certificates.collect()
    }

    /// Ends the connections of denied certificates, and accepts no new one.
    pub(crate) fn deny(&self, certificates: &BTreeSet<CertificateId>) {
        let acceptors = [&self.http, &self.zookeeper].into_iter().flatten();
        let peer = self.raft.iter().map(PeerTls::denied);
        for denied in acceptors.map(TlsAcceptor::denied).chain(peer) {
            denied.replace(certificates);
        }
    }

    /// Reads changed files. Blocks the thread.
    fn reload(&self) {
        let acceptors = [("http", &self.http), ("zookeeper", &self.zookeeper)];
        for (listener, acceptor) in acceptors {
            self.note(listener, acceptor.as_ref().map(TlsAcceptor::reload));
        }
        self.note("peer", self.raft.as_ref().map(PeerTls::reload));
    }

    /// Each error is logged once.
    fn note(&self, listener: &'static str, reloaded: Option<Result<bool, TlsError>>) {
        match reloaded {
            None => {}
            // The files in use are there again.
            Some(Ok(false)) => drop(self.reload_errors.lock().remove(listener)),
            Some(Ok(true)) => {
                self.reload_errors.lock().remove(listener);
                tracing::info!(listener, "new connections use the changed certificate");
            }
            Some(Err(error)) => {
                let before = self.reload_errors.lock().insert(listener, error.to_string());
                if before.as_deref() != Some(&*error.to_string()) {
                    tracing::error!(listener, %error, "cannot use the changed certificate; new connections use the previous one");
                }
            }
        }
    }
}

/// Denies certificates as the cluster does. A denial is looked for each second, because a snapshot changes it unnoticed.
pub(crate) async fn deny_certificates(tls: NodeTls, service: Service) {
    let mut changes = service.auth_changes();
    let mut known = None;
    loop {
        changes.borrow_and_update();
        let changed_in = service.auth_changed_in();
        if known != Some(changed_in) {
            tls.deny(&service.denied_certificates());
            known = Some(changed_in);
        }
        drop(tokio::time::timeout(DENIED_EVERY, changes.changed()).await);
    }
}

/// Uses changed certificates for new connections, and reports their state to the service.
pub(crate) async fn reload_certificates(tls: NodeTls, service: Service) {
    loop {
        tokio::time::sleep(CERTIFICATES_EVERY).await;
        let reloading = tls.clone();
        if let Err(error) = tokio::task::spawn_blocking(move || reloading.reload()).await {
            tracing::error!(%error, "cannot read the certificates again");
        }
        service.set_certificates(tls.certificates());
    }
}
