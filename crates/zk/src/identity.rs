//! Who a connection is: its actor, whose permissions it has, and its identities, which access lists name.
//!
//! A certificate or an access token (`addauth digest SUBJECT:ACCESS_TOKEN`) proves the actor. Three schemes of identities exist: `ip` is the address of the connection, `x509` the subject of its certificate, and `digest` a user
//! name with the hash of name and password. Bounds: a connection has at most [`IDENTITIES_MAX`] identities.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_service::{AccessTokenSecret, Failure, Principal, Service};
use holdfast_tls::CertificateInfo;
use holdfast_types::{Actor, CertificateName, Identity, Rejection};
use holdfast_zkwire::AuthId;
use sha1::{Digest, Sha1};

pub(crate) const IDENTITIES_MAX: usize = 64;
/// The longest id, bytes, as in access lists.
const ID_MAX: usize = 1024;

/// Who a connection is: its actor, and its identities, oldest first.
#[derive(Clone, Debug)]
pub(crate) struct Identities(Principal);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AuthFailed;

/// Why a connection does not act for the subject of its credential.
#[derive(Debug)]
pub(crate) enum NotProved {
    /// The credential proves no subject, or one that may not have the session. Clients give up after this error.
    AuthFailed,
    /// This node cannot tell, or has no room. Another node may.
    Unavailable(Failure),
}

impl From<AuthFailed> for NotProved {
    fn from(_: AuthFailed) -> Self {
        Self::AuthFailed
    }
}

impl From<Failure> for NotProved {
    fn from(failure: Failure) -> Self {
        if matches!(failure, Failure::Rejected(Rejection::Auth(_))) {
            return Self::AuthFailed;
        }
        Self::Unavailable(failure)
    }
}

impl Identities {
    /// The address of a connection.
    pub(crate) fn of(address: IpAddr) -> Self {
        let address = Identity { scheme: "ip".to_owned(), id: address.to_canonical().to_string() };
        Self(Principal { identities: vec![address], ..Principal::anonymous() })
    }

    /// Adds the certificate of the caller: its subject is an identity, and it proves the actor.
    #[must_use]
    pub(crate) fn with_certificate(
        mut self,
        certificate: Option<&CertificateInfo>,
        service: &Service,
    ) -> Self {
        let Some(CertificateInfo { subject, uris, .. }) = certificate else { return self };
        let names = uris.iter().chain([subject]);
        let names: Vec<_> =
            names.filter_map(|name| CertificateName::new(name.clone()).ok()).collect();
        let identities = std::mem::take(&mut self.0.identities);
        self.0 = service.principal_of_certificate(&names);
        self.0.identities.extend(identities);
        self.0.identities.push(Identity { scheme: "x509".to_owned(), id: subject.clone() });
        self
    }

    pub(crate) fn principal(&self) -> &Principal {
        &self.0
    }

    /// Reads `subject:ACCESS_TOKEN` of the scheme `digest`; `None` if the password is not an access token.
    ///
    /// # Errors
    /// [`AuthFailed`] for a mistyped access token.
    pub(crate) fn access_token(
        scheme: &str,
        credentials: &[u8],
    ) -> Result<Option<(String, AccessTokenSecret)>, AuthFailed> {
        let text = std::str::from_utf8(credentials).unwrap_or_default();
        match text.split_once(':') {
            Some((subject, token))
                if scheme == "digest" && token.starts_with(AccessTokenSecret::PREFIX) =>
            {
                let token = token.parse().map_err(|_| AuthFailed)?;
                Ok(Some((subject.to_owned(), token)))
            }
            Some(_) | None => Ok(None),
        }
    }

    /// The actor of an access token.
    ///
    /// # Errors
    /// [`NotProved::AuthFailed`] for an unknown or expired token, and for one of another subject.
    pub(crate) async fn actor_of(
        (subject, token): (String, AccessTokenSecret),
        service: &Service,
    ) -> Result<Actor, NotProved> {
        let actor = service.authenticate(&token).await?;
        let owner = service.subject_of_token(token.id);
        if owner.is_none_or(|owner| owner.as_str() != subject) {
            return Err(AuthFailed.into());
        }
        Ok(actor)
    }

    /// Acts for another subject from now on.
    pub(crate) fn act_as(&mut self, actor: Actor) {
        (self.0.actor, self.0.certificate) = (actor, None);
    }

    /// Adds an identity.
    ///
    /// # Errors
    /// [`AuthFailed`] for an unknown scheme, an id that is too long for an access list, or too many identities.
    pub(crate) fn authenticate(
        &mut self,
        scheme: &str,
        credentials: &[u8],
    ) -> Result<(), AuthFailed> {
        let identity = match scheme {
            // Known from the connection.
            "ip" => return Ok(()),
            "x509" if self.0.identities.iter().any(|known| known.scheme == "x509") => return Ok(()),
            "digest" => digest(&String::from_utf8_lossy(credentials)),
            _ => return Err(AuthFailed),
        };
        if identity.id.len() > ID_MAX {
            return Err(AuthFailed);
        }
        if self.0.identities.contains(&identity) {
            return Ok(());
        }
        if self.0.identities.len() >= IDENTITIES_MAX {
            return Err(AuthFailed);
        }
        self.0.identities.push(identity);
        Ok(())
    }

    /// Without hashes, for the client.
    pub(crate) fn masked(&self) -> Vec<AuthId> {
        let masked = |identity: &Identity| {
            let id = match identity.scheme.as_str() {
                "digest" => identity.id.split(':').next().unwrap_or_default(),
                _ => &identity.id,
            };
            AuthId { scheme: identity.scheme.clone(), id: id.to_owned() }
        };
        self.0.identities.iter().map(masked).collect()
    }
}

/// The identity of `user:password`: `user:` and the base64 of the SHA-1 of both.
fn digest(user_and_password: &str) -> Identity {
    let user = user_and_password.split(':').next().unwrap_or_default();
    let hash = STANDARD.encode(Sha1::digest(user_and_password.as_bytes()));
    Identity { scheme: "digest".to_owned(), id: format!("{user}:{hash}") }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn shown(identities: &Identities) -> Vec<String> {
        identities.masked().iter().map(|who| format!("{}:{}", who.scheme, who.id)).collect()
    }

    #[test]
    fn a_digest_is_a_name_and_a_hash() {
        // Known from ZooKeeper's documentation of its superDigest.
        assert_eq!(digest("super:admin").id, "super:xQJmxLMiHGwaqBvst5y6rkB6HQs=");
        assert_eq!(digest("foo").id, "foo:C+7Hteo/D9vJXQ3UfzxbwnXaijM=");
    }

    #[test]
    fn a_connection_has_its_address_and_each_added_identity_once() {
        let mut identities = Identities::of(IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert_eq!(identities.authenticate("digest", b"user:secret"), Ok(()));
        assert_eq!(identities.authenticate("digest", b"user:secret"), Ok(()));
        assert_eq!(identities.authenticate("ip", b"10.0.0.1"), Ok(()));
        assert_eq!(shown(&identities), ["ip:127.0.0.1", "digest:user"]);
    }

    #[test]
    fn a_mapped_address_is_shown_as_the_mapped_ipv4_address() {
        let mapped = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
        assert_eq!(shown(&Identities::of(IpAddr::V6(mapped))), ["ip:127.0.0.1"]);
    }

    #[test]
    fn unknown_schemes_and_too_many_identities_are_refused() {
        let mut identities = Identities::of(IpAddr::V4(Ipv4Addr::LOCALHOST));
        for scheme in ["world", "sasl", "x509", "super", ""] {
            assert_eq!(identities.authenticate(scheme, b"anyone"), Err(AuthFailed), "{scheme}");
        }
        let added = (0..IDENTITIES_MAX)
            .map(|n| identities.authenticate("digest", format!("{n}:p").as_bytes()));
        let refused = added.filter(Result::is_err).count();
        assert_eq!(refused, 1);
    }

    #[test]
    fn a_name_that_is_too_long_for_an_access_list_is_refused() {
        let mut identities = Identities::of(IpAddr::from([127, 0, 0, 1]));
        assert!(identities.authenticate("digest", &vec![b'a'; 1 << 20]).is_err());
        assert!(identities.authenticate("digest", b"alice:secret").is_ok());
        assert_eq!(identities.principal().identities.len(), 2);
    }
}
