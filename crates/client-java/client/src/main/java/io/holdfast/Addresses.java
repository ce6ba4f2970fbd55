package io.holdfast;

import java.net.URI;
import java.util.ArrayList;
import java.util.List;

/** The addresses of nodes as base URLs. */
final class Addresses {
    static final String DEFAULT = "127.0.0.1:7400";

    private Addresses() {}

    static List<String> bases(List<String> addresses, boolean hasTls) {
        List<String> bases = new ArrayList<>();
        for (String address : addresses) {
            if (address.contains("@")) {
                // What is before '@' may be a password.
                String shown = address.substring(address.lastIndexOf('@') + 1);
                throw new InvalidArgumentException("the address of " + shown + " has a user name: write host:port");
            }
            for (String part : address.split(",")) {
                if (!part.isBlank()) {
                    bases.add(base(part.strip(), hasTls));
                }
            }
        }
        if (bases.isEmpty()) {
            throw new InvalidArgumentException("no node address is given: name at least one, such as " + DEFAULT);
        }
        return bases;
    }

    private static String base(String address, boolean hasTls) {
        String url = address.contains("://") ? address : (hasTls ? "https://" : "http://") + address;
        URI parsed = parse(url);
        boolean isWeb = parsed != null && ("http".equals(parsed.getScheme()) || "https".equals(parsed.getScheme()));
        boolean isBare = parsed != null && (parsed.getPath().isEmpty() || parsed.getPath().equals("/"));
        if (!isWeb || !isBare || parsed.getHost() == null || parsed.getPort() < 0) {
            throw new InvalidArgumentException("\"" + address + "\" is not a node address: write host:port, such as "
                    + DEFAULT + ", or https://host:port");
        }
        return parsed.getScheme() + "://" + parsed.getRawAuthority();
    }

    private static URI parse(String url) {
        try {
            return URI.create(url);
        } catch (IllegalArgumentException e) {
            return null;
        }
    }
}
