//! The addresses of nodes, as users write them.

use http::Uri;
use thiserror::Error;

/// An error in the address of a node.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EndpointError {
    /// The list of addresses is empty.
    #[error("no node address is given: name at least one, such as 127.0.0.1:7400")]
    None,
    /// The text is not an address.
    #[error(
        "{text:?} is not a node address: write host:port, such as 127.0.0.1:7400, or http://host:port, and separate several \
         by commas"
    )]
    Malformed {
        /// The text as given.
        text: String,
    },
    /// The text has an IPv6 address without brackets.
    #[error(
        "{text:?} is not a node address: put the IPv6 address into brackets, such as [::1]:7400"
    )]
    Ipv6WithoutBrackets {
        /// The text as given.
        text: String,
    },
    /// The text names a protocol other than HTTP.
    #[error(
        "{text:?} uses an unsupported protocol: write host:port, http://host:port or https://host:port"
    )]
    Scheme {
        /// The text as given.
        text: String,
    },
    /// The HTTP library could not be set up.
    #[error("cannot set up HTTP: {0}")]
    Setup(String),
}

/// The scheme of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// Returns the base URL of a node, without a trailing slash. An address without a scheme gets `default`.
///
/// # Errors
/// [`EndpointError`] if `text` is none of `host:port`, `http://host:port` and `https://host:port`.
pub fn base_url(text: &str, default: Scheme) -> Result<String, EndpointError> {
    let trimmed = text.trim().trim_end_matches('/');
    let (scheme, address) = match trimmed.split_once("://") {
        Some(("http", address)) => ("http", address),
        Some(("https", address)) => ("https", address),
        Some(_) => return Err(EndpointError::Scheme { text: text.to_owned() }),
        None => (default.as_str(), trimmed),
    };
    let malformed = || EndpointError::Malformed { text: text.to_owned() };
    let (host, port) = address.rsplit_once(':').ok_or_else(malformed)?;
    let is_list = |c: char| c.is_whitespace() || c == ';';
    if host.contains(':') && !host.starts_with('[') && !address.contains(is_list) {
        return Err(EndpointError::Ipv6WithoutBrackets { text: text.to_owned() });
    }
    // Nor has a URL an IPv6 address with a zone.
    let invalid =
        |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | '?' | '#' | '@' | '%');
    if host.is_empty() || host.contains(invalid) || port.parse::<u16>().is_err() {
        return Err(malformed());
    }
    let base = format!("{scheme}://{address}");
    let is_url = base.parse::<Uri>().is_ok_and(|url| url.host().is_some());
    is_url.then_some(base).ok_or_else(malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_urls() {
        for text in ["127.0.0.1:7400", "http://127.0.0.1:7400", " http://127.0.0.1:7400/ "] {
            assert_eq!(base_url(text, Scheme::Http).unwrap(), "http://127.0.0.1:7400");
        }
        assert_eq!(base_url("[::1]:7400", Scheme::Http).unwrap(), "http://[::1]:7400");
        assert_eq!(base_url("a:1", Scheme::Https).unwrap(), "https://a:1");
        assert_eq!(base_url("https://a:1", Scheme::Http).unwrap(), "https://a:1");
    }

    #[test]
    fn a_malformed_address_is_rejected_with_the_form() {
        for text in [
            "",
            "localhost",
            "localhost:http",
            ":7400",
            "a/b:1",
            "http://",
            "a:1 b:2",
            "a:1;b:2",
            "[::1%lo]:1",
            "[::1]",
        ] {
            assert!(
                base_url(text, Scheme::Http).unwrap_err().to_string().contains("host:port"),
                "{text}"
            );
        }
        assert!(matches!(base_url("ftp://a:1", Scheme::Http), Err(EndpointError::Scheme { .. })));
        for text in ["::1:8500", "http://::1:8500", "fe80::1", "2001:db8::7:7400"] {
            let error = base_url(text, Scheme::Http).unwrap_err().to_string();
            assert!(error.contains("put the IPv6 address into brackets"), "{text}: {error}");
        }
    }
}
