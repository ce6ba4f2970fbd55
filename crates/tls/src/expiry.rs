//! The end of a connection whose other side has a certificate that expires.

use std::time::{Duration, SystemTime};

/// How often the wall clock is compared, because it can change.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The expiry of the certificate of the other side.
#[derive(Clone, Copy, Debug)]
pub struct CertificateExpiry(pub(crate) Option<SystemTime>);

impl CertificateExpiry {
    /// Resolves when the certificate has expired. Without a certificate it never resolves.
    pub async fn passed(self) {
        let Some(not_after) = self.0 else { return std::future::pending().await };
        loop {
            match not_after.duration_since(SystemTime::now()) {
                Err(_) | Ok(Duration::ZERO) => return,
                Ok(left) => tokio::time::sleep(left.min(LOOK_EVERY)).await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_certificate_expires_once_and_none_never_does() {
        let now = SystemTime::now();
        CertificateExpiry(Some(now - Duration::from_secs(1))).passed().await;
        CertificateExpiry(Some(now + Duration::from_millis(20))).passed().await;
        assert!(SystemTime::now() >= now + Duration::from_millis(20));
        let later = CertificateExpiry(Some(now + Duration::from_hours(1)));
        assert_eq!(later.passed().now_or_never(), None);
        assert_eq!(CertificateExpiry(None).passed().now_or_never(), None);
    }
}
