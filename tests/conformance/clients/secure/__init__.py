"""kazoo and Curator over TLS, with access tokens and certificates, beside HTTP callers."""
