package io.holdfast;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A JSON value of RFC 8259. Numbers without a fraction are read exactly as {@code long}. An absent member and
 * {@code null} read the same.
 */
final class Json {
    private static final int DEPTH_MAX = 64;
    private static final Json NULL = new Json(null);

    /** A Map, a List, a String, a Long, a Double, a Boolean, or null. */
    private final Object value;

    private Json(Object value) {
        this.value = value;
    }

    /** Parses a whole text. Throws {@link IllegalArgumentException} if it is not JSON. */
    static Json parse(byte[] utf8) {
        return parse(new String(utf8, StandardCharsets.UTF_8));
    }

    static Json parse(String text) {
        return new Json(new Parser(text).whole());
    }

    /** Writes a text as JSON. */
    static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }

    Json get(String member) {
        Object found = value instanceof Map<?, ?> map ? map.get(member) : null;
        return found == null ? NULL : new Json(found);
    }

    boolean isNull() {
        return value == null;
    }

    Object value() {
        return value;
    }

    /** The text of a member, or null. */
    String text(String member) {
        return textOr(member, null);
    }

    String textOr(String member, String other) {
        return get(member).value instanceof String text ? text : other;
    }

    /** The number of a member, or null. */
    Long number(String member) {
        return get(member).value instanceof Long number ? number : null;
    }

    long numberOr(String member, long other) {
        Long number = number(member);
        return number == null ? other : number;
    }

    boolean flag(String member) {
        return Boolean.TRUE.equals(get(member).value);
    }

    /** The elements of a member; none if it is absent. */
    List<Json> list(String member) {
        List<Json> elements = new ArrayList<>();
        if (get(member).value instanceof List<?> list) {
            list.forEach(element -> elements.add(new Json(element)));
        }
        return elements;
    }

    /** The members of an object with text values, in their order. */
    Map<String, String> texts(String member) {
        Map<String, String> texts = new LinkedHashMap<>();
        if (get(member).value instanceof Map<?, ?> map) {
            map.forEach((key, text) -> texts.put((String) key, String.valueOf(text)));
        }
        return texts;
    }

    /** A recursive-descent parser with a bounded depth. */
    private static final class Parser {
        private final String text;
        private int at;
        private int depth;

        Parser(String text) {
            this.text = text;
        }

        Object whole() {
            Object value = value();
            space();
            if (at < text.length()) {
                throw bad("the end");
            }
            return value;
        }

        private Object value() {
            space();
            depth++;
            if (depth > DEPTH_MAX) {
                throw bad("less depth");
            }
            Object value = switch (peek()) {
                case '{' -> object();
                case '[' -> array();
                case '"' -> string();
                case 't' -> word("true", Boolean.TRUE);
                case 'f' -> word("false", Boolean.FALSE);
                case 'n' -> word("null", null);
                default -> number();
            };
            depth--;
            return value;
        }

        private Map<String, Object> object() {
            Map<String, Object> members = new LinkedHashMap<>();
            expect('{');
            if (!accept('}')) {
                do {
                    space();
                    String name = string();
                    expect(':');
                    members.put(name, value());
                } while (accept(','));
                expect('}');
            }
            return members;
        }

        private List<Object> array() {
            List<Object> elements = new ArrayList<>();
            expect('[');
            if (!accept(']')) {
                do {
                    elements.add(value());
                } while (accept(','));
                expect(']');
            }
            return elements;
        }

        private String string() {
            if (peek() != '"') {
                throw bad("a string");
            }
            at++;
            int start = at;
            while (peek() != '"' && text.charAt(at) >= ' ' && text.charAt(at) != '\\') {
                at++;
            }
            StringBuilder out = new StringBuilder().append(text, start, at);
            while (peek() != '"') {
                char c = text.charAt(at++);
                if (c < ' ') {
                    throw bad("an escaped control character");
                }
                out.append(c == '\\' ? escape() : c);
            }
            at++;
            return out.toString();
        }

        private char escape() {
            char c = peek();
            at++;
            return switch (c) {
                case '"', '\\', '/' -> c;
                case 'b' -> '\b';
                case 'f' -> '\f';
                case 'n' -> '\n';
                case 'r' -> '\r';
                case 't' -> '\t';
                case 'u' -> unicode();
                default -> throw bad("an escape");
            };
        }

        private char unicode() {
            int code = 0;
            for (int end = at + 4; at < end; at++) {
                int digit = Character.digit(peek(), 16);
                if (digit < 0) {
                    throw bad("a hexadecimal digit");
                }
                code = code * 16 + digit;
            }
            return (char) code;
        }

        private Object word(String word, Object meaning) {
            if (!text.startsWith(word, at)) {
                throw bad(word);
            }
            at += word.length();
            return meaning;
        }

        private Object number() {
            int start = at;
            boolean isWhole = true;
            while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) {
                isWhole &= ".eE".indexOf(text.charAt(at)) < 0;
                at++;
            }
            String digits = text.substring(start, at);
            try {
                return isWhole ? (Object) Long.valueOf(digits) : Double.valueOf(digits);
            } catch (NumberFormatException e) {
                throw bad("a value of 64 bits");
            }
        }

        private void space() {
            while (at < text.length() && " \t\n\r".indexOf(text.charAt(at)) >= 0) {
                at++;
            }
        }

        private char peek() {
            if (at >= text.length()) {
                throw bad("more text");
            }
            return text.charAt(at);
        }

        private boolean accept(char c) {
            space();
            boolean found = at < text.length() && text.charAt(at) == c;
            at += found ? 1 : 0;
            return found;
        }

        private void expect(char c) {
            if (!accept(c)) {
                throw bad("'" + c + "'");
            }
        }

        private IllegalArgumentException bad(String wanted) {
            return new IllegalArgumentException("not JSON: expected " + wanted + " at character " + at);
        }
    }
}
