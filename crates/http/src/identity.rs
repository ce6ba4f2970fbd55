//! The identities of a caller for access lists: its address, the subject of its certificate, and the name and password
//! of `Authorization: Basic`.
//!
//! No component verifies a password. Name and password together are the identity, as in ZooKeeper's digest scheme.
//! The state machine decides which operations an identity may use.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};

use holdfast_api::{ErrorCode, Problem};
use holdfast_service::Principal;
use holdfast_tls::{CertificateInfo, MaybeTlsStream};
use holdfast_types::Identity;

use crate::status::HttpError;

/// The caller of a connection, stored as an extension of every request.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    /// Whether the connection uses TLS.
    pub(crate) has_tls: bool,
    certificate: Option<Arc<CertificateInfo>>,
}

impl Peer {
    pub(crate) fn new(address: IpAddr, stream: &MaybeTlsStream) -> Self {
        let has_tls = matches!(stream, MaybeTlsStream::Tls(_));
        Self { address, has_tls, certificate: stream.certificate().map(Arc::new) }
    }

    /// Returns `true` if the caller gave a certificate that has expired since.
    pub(crate) fn is_expired(&self, now: SystemTime) -> bool {
        self.certificate.as_ref().is_some_and(|certificate| certificate.not_after <= now)
    }
}

/// Returns the caller's identities.
///
/// # Errors
/// `unauthenticated` for an unknown scheme, `invalid-argument` for malformed credentials.
pub(crate) fn principal(parts: &Parts) -> Result<Principal, HttpError> {
    let mut identities = Vec::new();
    if let Some(Peer { address, certificate, .. }) = parts.extensions.get::<Peer>() {
        // A dual-stack socket reports 10.0.0.7 as ::ffff:10.0.0.7.
        let id = address.to_canonical().to_string();
        identities.push(Identity { scheme: "ip".to_owned(), id });
        identities.extend(certificate.as_ref().map(|certificate| Identity {
            scheme: "x509".to_owned(),
            id: certificate.subject.clone(),
        }));
    }
    let mut headers = parts.headers.get_all(AUTHORIZATION).iter();
    if let Some(header) = headers.next() {
        if headers.next().is_some() {
            return Err(malformed("the header Authorization is given twice"));
        }
        identities.push(credentials(header.as_bytes())?);
    }
    Ok(Principal::Known { identities })
}

/// Returns `user:base64(sha1("user:password"))`, the form of access lists.
fn credentials(header: &[u8]) -> Result<Identity, HttpError> {
    let text = std::str::from_utf8(header).unwrap_or_default();
    let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
    if !scheme.eq_ignore_ascii_case("basic") {
        let detail = "the header Authorization names a scheme that is not Basic";
        let hint = "send curl -u name:password, or leave the header out";
        return Err(Box::new(Problem::new(ErrorCode::Unauthenticated, detail).hint(hint)));
    }
    let bytes = STANDARD
        .decode(token.trim())
        .map_err(|_| malformed("the credentials after 'Basic' are not base 64"))?;
    let pair = std::str::from_utf8(&bytes)
        .map_err(|_| malformed("the credentials after 'Basic' are not UTF-8"))?;
    let name = pair.split_once(':').map(|(name, _)| name).filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| malformed("the credentials are not name:password"))?;
    let hash = STANDARD.encode(Sha1::digest(pair.as_bytes()));
    Ok(Identity { scheme: "digest".to_owned(), id: format!("{name}:{hash}") })
}

fn malformed(detail: &'static str) -> HttpError {
    let hint = "send curl -u name:password, or leave the header out";
    Box::new(Problem::new(ErrorCode::InvalidArgument, detail).hint(hint))
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn asked(authorization: &[&str]) -> Result<Vec<Identity>, HttpError> {
        let mut request = Request::builder();
        for value in authorization {
            request = request.header(AUTHORIZATION, *value);
        }
        let mut parts = request.body(()).unwrap().into_parts().0;
        let address = "::ffff:10.0.0.7".parse().unwrap();
        parts.extensions.insert(Peer { address, has_tls: false, certificate: None });
        principal(&parts).map(|principal| principal.identities().to_vec())
    }

    fn identity(scheme: &str, id: &str) -> Identity {
        Identity { scheme: scheme.to_owned(), id: id.to_owned() }
    }

    #[test]
    fn the_address_and_the_basic_credentials_of_a_caller_are_its_identities() {
        let home = identity("ip", "10.0.0.7");
        assert_eq!(asked(&[]).unwrap(), std::slice::from_ref(&home));
        // The example of the programmer's guide: super:test is not it, but hashes like it.
        let digest = identity("digest", "super:D/InIHSb7yEEbrWz8b9l71RjZJU=");
        let basic = format!("Basic {}", STANDARD.encode("super:test"));
        assert_eq!(asked(&[&basic]).unwrap(), [home.clone(), digest]);
        let colon = format!("basic {}", STANDARD.encode("me:a:b"));
        assert!(asked(&[&colon]).unwrap()[1].id.starts_with("me:"));
    }

    #[test]
    fn other_schemes_and_malformed_credentials_get_different_errors() {
        for header in ["Bearer abc", "Digest x", "basically", ""] {
            assert_eq!(asked(&[header]).unwrap_err().code, ErrorCode::Unauthenticated, "{header}");
        }
        let no_colon = format!("Basic {}", STANDARD.encode("me"));
        let no_name = format!("Basic {}", STANDARD.encode(":secret"));
        let not_text = format!("Basic {}", STANDARD.encode([0xff, b':']));
        for header in ["Basic", "Basic ###", &no_colon, &no_name, &not_text] {
            assert_eq!(asked(&[header]).unwrap_err().code, ErrorCode::InvalidArgument, "{header}");
        }
        let problem = asked(&["Basic YTpi", "Basic YTpi"]).unwrap_err();
        assert!(problem.detail.contains("twice"), "{problem:?}");
    }
}
