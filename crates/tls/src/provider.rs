//! The cryptography of all connections of this process.

use std::sync::{Arc, OnceLock};

use rustls::crypto::CryptoProvider;

pub(crate) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider())).clone()
}
