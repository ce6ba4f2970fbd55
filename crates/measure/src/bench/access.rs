//! How the generator reaches the nodes: with or without TLS and an access token.

use holdfast_cli::arguments::CredentialArgs;
use holdfast_cli::exit::CommandFailure;
use holdfast_tls::TlsConnector;

/// By default without TLS and without an access token.
#[derive(Clone, Debug)]
pub(super) struct Access {
    /// The first component of the names of locks.
    pub(super) namespace: String,
    pub(super) tls: Option<TlsConnector>,
    /// The access token of every call.
    pub(super) token: Option<String>,
}

impl Default for Access {
    fn default() -> Self {
        Self { namespace: "bench".to_owned(), tls: None, token: None }
    }
}

impl Access {
    /// The access to running nodes, and their addresses without the scheme.
    ///
    /// # Errors
    /// A file that cannot be used, or `https` without the certificates of the CA.
    pub(super) fn to_nodes(
        addresses: &[String],
        prefix: &str,
        credentials: &CredentialArgs,
    ) -> Result<(Self, Vec<String>), CommandFailure> {
        let tls = credentials.tls.connector()?;
        let plain = |address: &String| {
            let without = address.strip_prefix("https://");
            if without.is_some() && tls.is_none() {
                let detail = format!("{address} needs --cacert FILE, the certificates of the CA");
                return Err(CommandFailure::usage(detail));
            }
            let without = without.or_else(|| address.strip_prefix("http://")).unwrap_or(address);
            Ok(without.trim_end_matches('/').to_owned())
        };
        let endpoints = addresses.iter().map(plain).collect::<Result<_, _>>()?;
        let header = credentials.access_token()?.and_then(|token| token.header());
        let token = header.and_then(|header| Some(header.strip_prefix("Bearer ")?.to_owned()));
        Ok((Self { namespace: prefix.to_owned(), tls, token }, endpoints))
    }

    /// The request with the access token, if there is one.
    pub(super) fn authorize(&self, mut request: Vec<u8>) -> Vec<u8> {
        if let Some(token) = &self.token
            && let Some(line) = request.windows(2).position(|two| two == b"\r\n")
        {
            let header = format!("\r\nAuthorization: Bearer {token}");
            request.splice(line..line, header.into_bytes());
        }
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_access_token_is_the_first_header() {
        let get = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec();
        let access = Access { token: Some("hf_x".to_owned()), ..Access::default() };
        let request = String::from_utf8(access.authorize(get.clone())).unwrap();
        let start = "GET /metrics HTTP/1.1\r\nAuthorization: Bearer hf_x\r\nHost: localhost\r\n";
        assert!(request.starts_with(start), "{request}");
        assert_eq!(Access::default().authorize(get.clone()), get);
    }
}
