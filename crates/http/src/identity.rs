//! Who calls: the actor of an access token or a certificate, and the identities for access lists.
//!
//! `Authorization: Bearer` has an access token, `Basic` a subject with its access token, or a name and a password. No
//! component verifies a password: name and password together are an identity, as in ZooKeeper's digest scheme. The
//! state machine decides what an actor and its identities may do.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use axum::http::Extensions;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};

use holdfast_api::{ErrorCode, Problem};
use holdfast_service::{AccessTokenSecret, Failure, NotAccessToken, Principal, Service};
use holdfast_tls::{CertificateInfo, MaybeTlsStream};
use holdfast_types::{Actor, AuthRejection, CertificateName, Identity, SubjectName};

use crate::status::{ErrorContext, HttpError, of_failure};

/// The caller of a connection, stored as an extension of every request.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    /// Whether the connection uses TLS.
    pub(crate) has_tls: bool,
    /// The address, for access lists.
    identity: Arc<Identity>,
    certificate: Option<Arc<CertificateInfo>>,
}

impl Peer {
    pub(crate) fn new(address: IpAddr, stream: &MaybeTlsStream) -> Self {
        let has_tls = matches!(stream, MaybeTlsStream::Tls(_));
        // A dual-stack socket reports 10.0.0.7 as ::ffff:10.0.0.7.
        let id = address.to_canonical().to_string();
        let identity = Arc::new(Identity { scheme: "ip".to_owned(), id });
        Self { address, has_tls, identity, certificate: stream.certificate() }
    }

    pub(crate) fn has_certificate(&self) -> bool {
        self.certificate.is_some()
    }

    /// Returns `true` if the caller gave a certificate that has expired since.
    pub(crate) fn is_expired(&self, now: SystemTime) -> bool {
        self.certificate.as_ref().is_some_and(|certificate| certificate.not_after <= now)
    }
}

/// Whether the connection of a request uses TLS, from the extensions of the request.
pub fn has_tls(extensions: &Extensions) -> bool {
    extensions.get::<Peer>().is_some_and(|peer| peer.has_tls)
}

/// The address of the caller of a request, from the extensions of the request.
pub fn caller_address(extensions: &Extensions) -> Option<IpAddr> {
    extensions.get::<Peer>().map(|peer| peer.address)
}

/// Proves who calls.
///
/// # Errors
/// `unauthenticated` for an unknown scheme or access token, `invalid-argument` for malformed credentials.
pub(crate) async fn authenticate(parts: &Parts, service: &Service) -> Result<Principal, HttpError> {
    let mut principal = Principal::anonymous();
    if let Some(Peer { identity, certificate, .. }) = parts.extensions.get::<Peer>() {
        principal.identities.push(Identity::clone(identity));
        if let Some(certificate) = certificate {
            let identities = std::mem::take(&mut principal.identities);
            principal = service.principal_of_certificate(&names_of(certificate));
            principal.identities.extend(identities);
            let id = certificate.subject.clone();
            principal.identities.push(Identity { scheme: "x509".to_owned(), id });
        }
    }
    match credentials(parts)? {
        None => {}
        Some(Credentials::Token { token, subject }) => {
            principal.actor = actor_of_token(service, &token, subject.as_deref()).await?;
            principal.certificate = None;
        }
        Some(Credentials::Identity(identity)) => principal.identities.push(identity),
    }
    Ok(principal)
}

/// The names of a certificate that a subject may have.
fn names_of(certificate: &CertificateInfo) -> Vec<CertificateName> {
    let names = certificate.uris.iter().chain([&certificate.subject]);
    names.filter_map(|name| CertificateName::new(name.clone()).ok()).collect()
}

async fn actor_of_token(
    service: &Service,
    token: &AccessTokenSecret,
    subject: Option<&str>,
) -> Result<Actor, HttpError> {
    let context = ErrorContext { lock: None, session: None, now: service.log_time() };
    let actor = service.authenticate(token).await;
    let actor = actor.map_err(|failure| of_failure(failure, &context))?;
    let owner = service.subject_of_token(token.id);
    if subject.is_some() && owner.as_ref().map(SubjectName::as_str) != subject {
        let failure = Failure::Rejected(AuthRejection::UnknownToken.into());
        return Err(of_failure(failure, &context));
    }
    Ok(actor)
}

/// The content of the header `Authorization`.
#[derive(Debug)]
enum Credentials {
    Token {
        token: AccessTokenSecret,
        /// The name that the caller gives with `Basic`.
        subject: Option<String>,
    },
    /// A name and a password for access lists.
    Identity(Identity),
}

fn credentials(parts: &Parts) -> Result<Option<Credentials>, HttpError> {
    let mut headers = parts.headers.get_all(AUTHORIZATION).iter();
    let Some(header) = headers.next() else { return Ok(None) };
    if headers.next().is_some() {
        return Err(malformed("the header Authorization is given twice"));
    }
    let text = std::str::from_utf8(header.as_bytes()).unwrap_or_default();
    let (scheme, value) = text.split_once(' ').unwrap_or((text, ""));
    if scheme.eq_ignore_ascii_case("bearer") {
        return Ok(Some(Credentials::Token { token: access_token(value.trim())?, subject: None }));
    }
    if scheme.eq_ignore_ascii_case("basic") {
        return basic(value.trim()).map(Some);
    }
    let detail = "the header Authorization names a scheme that is neither Bearer nor Basic";
    Err(Box::new(Problem::new(ErrorCode::Unauthenticated, detail).hint(HINT)))
}

fn access_token(text: &str) -> Result<AccessTokenSecret, HttpError> {
    text.parse().map_err(|error: NotAccessToken| {
        let hint = "send the whole token, as 'holdfast auth token new' printed it";
        Box::new(Problem::new(ErrorCode::Unauthenticated, error.to_string()).hint(hint))
    })
}

/// Reads `name:password` in base 64. The identity is `name:base64(sha1("name:password"))`, the form of access lists. A
/// password that begins like an access token is one.
fn basic(value: &str) -> Result<Credentials, HttpError> {
    let bytes = STANDARD
        .decode(value)
        .map_err(|_| malformed("the credentials after 'Basic' are not base 64"))?;
    let pair = std::str::from_utf8(&bytes)
        .map_err(|_| malformed("the credentials after 'Basic' are not UTF-8"))?;
    let pair_of = pair.split_once(':').filter(|(name, _)| !name.is_empty());
    let (name, password) =
        pair_of.ok_or_else(|| malformed("the credentials are not name:password"))?;
    if password.starts_with(AccessTokenSecret::PREFIX) {
        let (token, subject) = (access_token(password)?, Some(name.to_owned()));
        return Ok(Credentials::Token { token, subject });
    }
    let hash = STANDARD.encode(Sha1::digest(pair.as_bytes()));
    let id = format!("{name}:{hash}");
    Ok(Credentials::Identity(Identity { scheme: "digest".to_owned(), id }))
}

const HINT: &str = "send an access token (Authorization: Bearer hf_...) or a name and a password for access lists \
     (curl -u me:secret), or leave the header out";

fn malformed(detail: &'static str) -> HttpError {
    Box::new(Problem::new(ErrorCode::InvalidArgument, detail).hint(HINT))
}

#[cfg(test)]
mod tests {
    use axum::http::Request;
    use proptest::prelude::*;

    use super::*;

    fn read(authorization: &[&str]) -> Result<Option<Credentials>, HttpError> {
        let mut request = Request::builder();
        for value in authorization {
            request = request.header(AUTHORIZATION, *value);
        }
        credentials(&request.body(()).unwrap().into_parts().0)
    }

    fn digest(authorization: &str) -> String {
        match read(&[authorization]).unwrap() {
            Some(Credentials::Identity(Identity { scheme, id })) if scheme == "digest" => id,
            other => panic!("{authorization}: {other:?}"),
        }
    }

    #[test]
    fn a_name_and_a_password_are_an_identity() {
        assert!(read(&[]).unwrap().is_none());
        // The example of the programmer's guide: super:test is not it, but hashes like it.
        let basic = format!("Basic {}", STANDARD.encode("super:test"));
        assert_eq!(digest(&basic), "super:D/InIHSb7yEEbrWz8b9l71RjZJU=");
        let colon = format!("basic {}", STANDARD.encode("me:a:b"));
        assert!(digest(&colon).starts_with("me:"));
    }

    #[test]
    fn an_access_token_is_read_from_both_schemes() {
        let secret = AccessTokenSecret::generate().unwrap();
        let text = secret.reveal();
        let of = |header: String| match read(&[&header]).unwrap() {
            Some(Credentials::Token { token, subject }) => (token.id, subject),
            other => panic!("{other:?}"),
        };
        assert_eq!(of(format!("bearer {text}")), (secret.id, None));
        let basic = format!("Basic {}", STANDARD.encode(format!("ci:{text}")));
        assert_eq!(of(basic), (secret.id, Some("ci".to_owned())));
        let cut = format!("Bearer {}", &text[..text.len() - 1]);
        let problem = read(&[&cut]).unwrap_err();
        assert_eq!(problem.code, ErrorCode::Unauthenticated);
        assert!(problem.detail.contains("mistyped or truncated"), "{problem:?}");
        assert!(!format!("{problem:?}").contains(&text[17..40]));
    }

    #[test]
    fn other_schemes_and_malformed_credentials_get_different_errors() {
        for header in ["Bearer abc", "Digest x", "basically", ""] {
            assert_eq!(read(&[header]).unwrap_err().code, ErrorCode::Unauthenticated, "{header}");
        }
        let no_colon = format!("Basic {}", STANDARD.encode("me"));
        let no_name = format!("Basic {}", STANDARD.encode(":secret"));
        let not_text = format!("Basic {}", STANDARD.encode([0xff, b':']));
        for header in ["Basic", "Basic ###", &no_colon, &no_name, &not_text] {
            assert_eq!(read(&[header]).unwrap_err().code, ErrorCode::InvalidArgument, "{header}");
        }
        let problem = read(&["Basic YTpi", "Basic YTpi"]).unwrap_err();
        assert!(problem.detail.contains("twice"), "{problem:?}");
    }

    /// A valid header with some changed bytes, cut at some place.
    fn changed_header() -> impl Strategy<Value = Vec<u8>> {
        let token = "hf_0000000000007_CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkeio2AQ";
        let valid = [
            format!("Bearer {token}"),
            format!("Basic {}", STANDARD.encode(format!("ci:{token}"))),
            format!("Basic {}", STANDARD.encode("me:secret")),
        ];
        let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
        let cut = prop::option::weighted(0.2, any::<prop::sample::Index>());
        (prop::sample::select(valid.to_vec()), changes, cut).prop_map(|(header, changes, cut)| {
            let mut bytes = header.into_bytes();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            bytes
        })
    }

    proptest! {
        /// `scripts/campaign parsers` runs many more cases.
        #[test]
        fn a_changed_header_is_read_without_panic(bytes in changed_header()) {
            if let Ok(value) = axum::http::HeaderValue::from_bytes(&bytes) {
                let request = Request::builder().header(AUTHORIZATION, value).body(()).unwrap();
                let read = credentials(&request.into_parts().0);
                prop_assert!(!matches!(read, Ok(None)));
            }
        }
    }
}
