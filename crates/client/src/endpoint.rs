//! Where the nodes are: `host:port`, or `http://host:port`.

use thiserror::Error;

/// Why an endpoint was refused. The message says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EndpointError {
    /// None was given.
    #[error("no node is named: give at least one address, such as 127.0.0.1:7400")]
    None,
    /// Not an address.
    #[error(
        "{text:?} is no node's address: write host:port, such as 127.0.0.1:7400, or http://host:port"
    )]
    Malformed {
        /// What was given.
        text: String,
    },
    /// A protocol that this client does not speak.
    #[error(
        "{text:?} asks for a protocol this client does not speak: write host:port or http://host:port"
    )]
    Scheme {
        /// What was given.
        text: String,
    },
    /// The HTTP stack could not be set up.
    #[error("cannot set up HTTP: {0}")]
    Setup(String),
}

/// The beginning of a node's URLs, without a slash at the end.
pub(crate) fn base_url(text: &str) -> Result<String, EndpointError> {
    let trimmed = text.trim().trim_end_matches('/');
    let address = match trimmed.split_once("://") {
        Some(("http", address)) => address,
        Some(_) => return Err(EndpointError::Scheme { text: text.to_owned() }),
        None => trimmed,
    };
    let malformed = || EndpointError::Malformed { text: text.to_owned() };
    let (host, port) = address.rsplit_once(':').ok_or_else(malformed)?;
    let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | '?' | '#' | '@');
    if host.is_empty() || host.contains(odd) || port.parse::<u16>().is_err() {
        return Err(malformed());
    }
    Ok(format!("http://{address}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_urls() {
        for text in ["127.0.0.1:7400", "http://127.0.0.1:7400", " http://127.0.0.1:7400/ "] {
            assert_eq!(base_url(text).unwrap(), "http://127.0.0.1:7400");
        }
        assert_eq!(base_url("[::1]:7400").unwrap(), "http://[::1]:7400");
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_form() {
        for text in ["", "localhost", "localhost:http", ":7400", "a/b:1", "http://"] {
            assert!(base_url(text).unwrap_err().to_string().contains("host:port"), "{text}");
        }
        assert!(matches!(base_url("https://a:1"), Err(EndpointError::Scheme { .. })));
    }
}
