//! Who a client is: what it shows by connecting, and what it proves with a password.
//!
//! Owns the schemes of this door: `ip`, from the connection itself, and `digest`, a name with the hash of name and
//! password. Refuses to know what an identity may do: access lists are the machine's.
//!
//! Bounds: a connection has at most [`IDENTITIES_MAX`] identities.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_types::Identity;
use holdfast_zkwire::AuthId;
use sha1::{Digest, Sha1};

/// Identities of one connection.
pub(crate) const IDENTITIES_MAX: usize = 64;
/// The longest id, bytes: access lists hold no longer one.
const ID_MAX: usize = 1024;

/// What one connection has shown, oldest first.
#[derive(Clone, Debug)]
pub(crate) struct Identities(Vec<Identity>);

/// The client is not let in: tell it so, and close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotProved;

impl Identities {
    /// What the connection shows by itself.
    pub(crate) fn of(address: IpAddr) -> Self {
        Self(vec![Identity { scheme: "ip".to_owned(), id: address.to_canonical().to_string() }])
    }

    /// Takes a proof.
    ///
    /// # Errors
    /// [`NotProved`] for a scheme that is not taken here, a name that no access list can hold, or too many identities.
    pub(crate) fn prove(&mut self, scheme: &str, proof: &[u8]) -> Result<(), NotProved> {
        let identity = match scheme {
            // Known already.
            "ip" => return Ok(()),
            "digest" => digest(&String::from_utf8_lossy(proof)),
            _ => return Err(NotProved),
        };
        if identity.id.len() > ID_MAX {
            return Err(NotProved);
        }
        if self.0.contains(&identity) {
            return Ok(());
        }
        if self.0.len() >= IDENTITIES_MAX {
            return Err(NotProved);
        }
        self.0.push(identity);
        Ok(())
    }

    /// As the machine compares them.
    pub(crate) fn as_slice(&self) -> &[Identity] {
        &self.0
    }

    /// As the client may see them: without hashes.
    pub(crate) fn shown(&self) -> Vec<AuthId> {
        let shown = |identity: &Identity| {
            let id = match identity.scheme.as_str() {
                "digest" => identity.id.split(':').next().unwrap_or_default(),
                _ => &identity.id,
            };
            AuthId { scheme: identity.scheme.clone(), id: id.to_owned() }
        };
        self.0.iter().map(shown).collect()
    }
}

/// `user:password` as access lists name it: `user:` and the base64 of the SHA-1 of both.
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
        identities.shown().iter().map(|who| format!("{}:{}", who.scheme, who.id)).collect()
    }

    #[test]
    fn a_password_becomes_a_name_and_a_hash() {
        // Known from ZooKeeper's documentation of its superDigest.
        assert_eq!(digest("super:admin").id, "super:xQJmxLMiHGwaqBvst5y6rkB6HQs=");
        assert_eq!(digest("foo").id, "foo:C+7Hteo/D9vJXQ3UfzxbwnXaijM=");
    }

    #[test]
    fn a_connection_shows_its_address_and_then_what_it_proves_once_each() {
        let mut identities = Identities::of(IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert_eq!(identities.prove("digest", b"user:secret"), Ok(()));
        assert_eq!(identities.prove("digest", b"user:secret"), Ok(()));
        assert_eq!(identities.prove("ip", b"10.0.0.1"), Ok(()));
        assert_eq!(shown(&identities), ["ip:127.0.0.1", "digest:user"]);
    }

    #[test]
    fn a_mapped_address_is_the_one_it_maps() {
        let mapped = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
        assert_eq!(shown(&Identities::of(IpAddr::V6(mapped))), ["ip:127.0.0.1"]);
    }

    #[test]
    fn other_schemes_and_endless_names_are_refused() {
        let mut identities = Identities::of(IpAddr::V4(Ipv4Addr::LOCALHOST));
        for scheme in ["world", "sasl", "x509", "super", ""] {
            assert_eq!(identities.prove(scheme, b"anyone"), Err(NotProved), "{scheme}");
        }
        let proofs =
            (0..IDENTITIES_MAX).map(|n| identities.prove("digest", format!("{n}:p").as_bytes()));
        let refused = proofs.filter(Result::is_err).count();
        assert_eq!(refused, 1);
    }

    #[test]
    fn a_name_that_no_access_list_can_hold_is_not_proved() {
        let mut identities = Identities::of(IpAddr::from([127, 0, 0, 1]));
        assert!(identities.prove("digest", &vec![b'a'; 1 << 20]).is_err());
        assert!(identities.prove("digest", b"alice:secret").is_ok());
        assert_eq!(identities.as_slice().len(), 2);
    }
}
