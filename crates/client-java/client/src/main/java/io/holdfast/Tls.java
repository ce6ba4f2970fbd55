package io.holdfast;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.Collection;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;

/** Certificates and keys in PEM form. */
final class Tls {
    private static final Pattern KEY =
            Pattern.compile("-----BEGIN PRIVATE KEY-----([A-Za-z0-9+/=\\s]+)-----END PRIVATE KEY-----");
    private static final char[] NO_PASSWORD = {};

    private Tls() {}

    /** Paths may be null: then the CAs of the JDK count, and the client has no certificate. */
    static SSLContext context(Path ca, Path certificate, Path key) {
        try {
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(
                    certificate == null ? null : keyManagers(certificate, key),
                    ca == null ? null : trustManagers(ca),
                    null);
            return context;
        } catch (GeneralSecurityException | IOException e) {
            throw new InvalidArgumentException("cannot set up TLS: " + e);
        }
    }

    /** A context that trusts nobody, for a client without TLS: it saves the time to read the CAs of the JDK. */
    static SSLContext unused() {
        try {
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, new TrustManager[0], null);
            return context;
        } catch (GeneralSecurityException e) {
            throw new InvalidArgumentException("cannot set up TLS: " + e);
        }
    }

    private static TrustManager[] trustManagers(Path ca) throws GeneralSecurityException, IOException {
        KeyStore store = emptyStore();
        int number = 0;
        for (Certificate certificate : certificates(ca)) {
            store.setCertificateEntry("ca-" + number++, certificate);
        }
        TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        factory.init(store);
        return factory.getTrustManagers();
    }

    private static KeyManager[] keyManagers(Path certificate, Path key) throws GeneralSecurityException, IOException {
        KeyStore store = emptyStore();
        Certificate[] chain = certificates(certificate).toArray(Certificate[]::new);
        store.setKeyEntry("client", privateKey(key == null ? certificate : key), NO_PASSWORD, chain);
        KeyManagerFactory factory = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        factory.init(store, NO_PASSWORD);
        return factory.getKeyManagers();
    }

    private static Collection<? extends Certificate> certificates(Path pem)
            throws GeneralSecurityException, IOException {
        try (var bytes = Files.newInputStream(pem)) {
            return CertificateFactory.getInstance("X.509").generateCertificates(bytes);
        }
    }

    private static PrivateKey privateKey(Path pem) throws GeneralSecurityException, IOException {
        Matcher found = KEY.matcher(Files.readString(pem));
        if (!found.find()) {
            throw new InvalidArgumentException(pem + " has no private key in the form PKCS #8 (BEGIN PRIVATE KEY)");
        }
        var encoded = new PKCS8EncodedKeySpec(Base64.getMimeDecoder().decode(found.group(1)));
        for (String algorithm : new String[] {"EC", "RSA", "Ed25519"}) {
            try {
                return KeyFactory.getInstance(algorithm).generatePrivate(encoded);
            } catch (GeneralSecurityException e) {
                // A key of another algorithm.
            }
        }
        throw new InvalidArgumentException(pem + " has a private key of an unknown algorithm");
    }

    private static KeyStore emptyStore() throws GeneralSecurityException, IOException {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        return store;
    }
}
