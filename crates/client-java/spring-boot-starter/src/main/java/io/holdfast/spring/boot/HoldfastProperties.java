package io.holdfast.spring.boot;

import io.holdfast.Holdfast;
import io.holdfast.HoldfastBuilder;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.PropertyMapper;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * The options of the client, with the names and the defaults of {@link HoldfastBuilder}.
 *
 * @param addresses all nodes or some of them; none means HOLDFAST_ADDR, otherwise 127.0.0.1:7400
 * @param ttl how long the locks of a dead client stay held; by default 30s
 * @param sessionPrefix the beginning of the generated session name; by default sdk
 * @param session a named session, which outlives the client and is never replaced
 * @param labels texts of the session that other callers see
 * @param requestTimeout the time of a call without its wait for a lock; by default 10s
 * @param ca a file with the CAs of the nodes, in PEM form
 * @param certificate a file with the certificate of the client, in PEM form
 * @param key a file with the key of the certificate, in PKCS #8
 * @param accessToken an access token
 * @param accessTokenFile a file with the access token, which is read again after a change
 */
@ConfigurationProperties("holdfast")
public record HoldfastProperties(
        @DefaultValue List<String> addresses,
        Duration ttl,
        String sessionPrefix,
        String session,
        @DefaultValue Map<String, String> labels,
        Duration requestTimeout,
        Path ca,
        Path certificate,
        Path key,
        String accessToken,
        Path accessTokenFile) {
    HoldfastBuilder builder() {
        HoldfastBuilder builder = Holdfast.builder(addresses.toArray(String[]::new));
        PropertyMapper map = PropertyMapper.get();
        map.from(ttl).to(builder::ttl);
        map.from(sessionPrefix).to(builder::sessionPrefix);
        map.from(session).to(builder::session);
        labels.forEach(builder::label);
        map.from(requestTimeout).to(builder::requestTimeout);
        map.from(ca).to(builder::ca);
        map.from(certificate).to(file -> builder.certificate(file, key));
        map.from(accessToken).to(builder::accessToken);
        map.from(accessTokenFile).to(builder::accessTokenFile);
        return builder;
    }

    /** Names the cluster without the access token. */
    @Override
    public String toString() {
        return "HoldfastProperties[addresses=" + addresses + "]";
    }
}
