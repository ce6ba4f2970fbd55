package io.holdfast;

import java.time.Duration;
import java.util.Map;

/**
 * A call of the HTTP API.
 *
 * @param method the HTTP method
 * @param target path and query
 * @param headers additional headers
 * @param body the body; empty for most calls
 * @param waits the time that the node should wait, in nanoseconds
 * @param copies the effect of a second copy of the call
 */
record Call(String method, String target, Map<String, String> headers, byte[] body, long waits, Copies copies) {
    private static final byte[] NO_BODY = {};

    /** The effect of a second copy of a call at another node. */
    enum Copies {
        /** No copy has an effect, however late it arrives: two nodes may have the call at the same time. */
        HARMLESS,
        /** A repeated call changes nothing, but a late copy may undo the change of another caller. */
        REPEATABLE,
        /** A copy may concern a later hold, so the call is not repeated after a lost answer. */
        NEVER
    }

    /** A call without a body that does not wait. */
    static Call of(String method, String target) {
        Copies copies = method.equals("GET") ? Copies.HARMLESS : Copies.REPEATABLE;
        return new Call(method, target, Map.of(), NO_BODY, 0, copies);
    }

    static Call get(String target) {
        return of("GET", target);
    }

    Call harmless() {
        return with(Copies.HARMLESS);
    }

    Call with(Copies effect) {
        return new Call(method, target, headers, body, waits, effect);
    }

    Call waiting(long nanos) {
        return new Call(method, target, headers, body, nanos, copies);
    }

    Call with(String header, String value) {
        return new Call(method, target, Map.of(header, value), body, waits, copies);
    }

    Call with(byte[] content) {
        return new Call(method, target, headers, content, waits, copies);
    }

    boolean isRead() {
        return method.equals("GET");
    }

    boolean isHarmless() {
        return copies == Copies.HARMLESS;
    }

    /** Builds path and query of a call. */
    static final class Target {
        private final StringBuilder text;
        private boolean hasQuery;

        Target(String path) {
            text = new StringBuilder(path);
        }

        static Target of(String path, String name) {
            return new Target(path + Names.encodePath(name));
        }

        /** Adds a parameter, unless the value is null. */
        Target with(Parameter parameter, Object value) {
            return with(parameter.word, value);
        }

        Target withLabel(String key, String value) {
            return with("label." + key, value);
        }

        private Target with(String name, Object value) {
            if (value != null) {
                String shown = value instanceof Duration time ? time.toMillis() + "ms" : value.toString();
                text.append(hasQuery ? '&' : '?').append(Names.encode(name)).append('=').append(Names.encode(shown));
                hasQuery = true;
            }
            return this;
        }

        /** Adds a wait, unless it is zero. */
        Target waiting(long nanos) {
            return nanos < Clock.MILLI ? this : with(Parameter.WAIT, nanos / Clock.MILLI + "ms");
        }

        @Override
        public String toString() {
            return text.toString();
        }
    }
}
