package io.holdfast;

import java.nio.charset.StandardCharsets;
import java.time.Duration;

/** Checks of arguments before anything is sent, and their form in a URL. */
final class Names {
    private static final String UNRESERVED = "-._~";

    private Names() {}

    /** A name whose components are joined by '/'. */
    static String path(String what, String name, int max) {
        length(what, name, max);
        for (String component : name.split("/", -1)) {
            if (component.isEmpty() || component.equals(".") || component.equals("..")) {
                throw new InvalidArgumentException(
                        what + " has the component \"" + component + "\": components may not be empty, '.' or '..'");
            }
        }
        return name;
    }

    static String lock(String name) {
        return path("the lock name", name, 512);
    }

    static String recipe(String name) {
        return path("the name", name, 512);
    }

    /** A name without '/' and white space. */
    static String flat(String what, String name, int max) {
        length(what, name, max);
        boolean isFlat = name.chars().noneMatch(c -> c == '/' || Character.isWhitespace(c));
        if (!isFlat) {
            throw new InvalidArgumentException(what + " \"" + name + "\" contains '/' or white space");
        }
        return name;
    }

    private static void length(String what, String name, int max) {
        if (name == null || name.isEmpty()) {
            throw new InvalidArgumentException(what + " is empty: give it at least one character");
        }
        int bytes = name.getBytes(StandardCharsets.UTF_8).length;
        if (bytes > max) {
            throw new InvalidArgumentException(what + " is " + bytes + " bytes long: at most " + max + " are allowed");
        }
        if (name.chars().anyMatch(Character::isISOControl)) {
            throw new InvalidArgumentException(what + " contains a control character");
        }
    }

    static Duration ttl(Duration ttl) {
        return between("the ttl", ttl, Duration.ofSeconds(1), Duration.ofHours(24));
    }

    static Duration between(String what, Duration value, Duration min, Duration max) {
        if (value.compareTo(min) < 0 || value.compareTo(max) > 0) {
            throw new InvalidArgumentException(what + " is " + value + ": it must be from " + min + " to " + max);
        }
        return value;
    }

    static int between(String what, int value, int min, int max) {
        if (value < min || value > max) {
            throw new InvalidArgumentException(what + " is " + value + ": it must be from " + min + " to " + max);
        }
        return value;
    }

    /** Percent-encodes a name; '/' stays. */
    static String encodePath(String name) {
        return encode(name, UNRESERVED + "/");
    }

    /** Percent-encodes a value of a query. */
    static String encode(String text) {
        return encode(text, UNRESERVED);
    }

    private static String encode(String text, String kept) {
        StringBuilder out = new StringBuilder(text.length());
        for (byte octet : text.getBytes(StandardCharsets.UTF_8)) {
            boolean isPlain = octet >= '0' && octet <= '9'
                    || octet >= 'a' && octet <= 'z'
                    || octet >= 'A' && octet <= 'Z'
                    || octet > 0 && kept.indexOf(octet) >= 0;
            if (isPlain) {
                out.append((char) octet);
            } else {
                out.append(String.format("%%%02X", octet & 0xff));
            }
        }
        return out.toString();
    }
}
