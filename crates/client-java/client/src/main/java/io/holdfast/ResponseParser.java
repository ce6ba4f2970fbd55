package io.holdfast;

import java.io.EOFException;
import java.net.ProtocolException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Locale;

/**
 * Parses one answer of HTTP/1.1 from the bytes that a connection has received so far. It does no I/O, and it continues
 * after a pause. Bounds: {@link #HEAD_MAX} and {@link #ANSWER_MAX} bytes.
 */
final class ResponseParser {
    static final int HEAD_MAX = 64 * 1024;
    static final int ANSWER_MAX = 64 * 1024 * 1024;
    private static final int FIRST_ROOM = 2 * 1024;
    private static final int STATUS_MAX = 599;
    private static final int SWITCHING_PROTOCOLS = 101;

    /** What ends the body. */
    private enum BodyEnd {
        LENGTH,
        LAST_CHUNK,
        CLOSE
    }

    private byte[] bytes = new byte[FIRST_ROOM];
    /** The number of received bytes. */
    private int received;
    private boolean isClosed;
    /** The index of the first byte that is not parsed. */
    private int at;
    private int status;
    private boolean isLastOfConnection;
    /** Null before the end of the head. */
    private Headers headers;
    private BodyEnd bodyEnd;
    /** The bytes of the body, or of the chunk, that are not parsed. */
    private long left;
    private boolean isAfterChunk;
    private boolean isInTrailers;
    private int bodyFrom;
    /** Chunks move down in the array, to the end of the chunk before. */
    private int bodyTo;

    /** The array for the next bytes, which start at {@link #received}. It has room for at least one. */
    byte[] room() throws ProtocolException {
        if (received == bytes.length) {
            if (received == ANSWER_MAX) {
                throw new ProtocolException("the answer has more than " + ANSWER_MAX + " bytes");
            }
            bytes = Arrays.copyOf(bytes, Math.min(ANSWER_MAX, bytes.length * 2));
        }
        return bytes;
    }

    int received() {
        return received;
    }

    /** Records the result of a read: the number of bytes, or a negative number at the end of the connection. */
    void received(int count) {
        isClosed = count < 0;
        received += Math.max(0, count);
    }

    /** Returns the answer if it is complete; null if more bytes must come. */
    Response next() throws ProtocolException, EOFException {
        while (headers == null && hasHead()) {
            readHead();
        }
        if (headers != null && hasBody()) {
            return new Response(status, headers, Arrays.copyOfRange(bytes, bodyFrom, bodyTo));
        }
        if (isClosed) {
            throw new EOFException(received == 0 ? "the connection closed before the answer" : "the answer ended early");
        }
        return null;
    }

    /** Whether the connection can have another request after the answer. */
    boolean isReusable() {
        return !isLastOfConnection && bodyEnd != BodyEnd.CLOSE && at == received;
    }

    private boolean hasHead() throws ProtocolException {
        for (int i = at; i + 3 < received; i++) {
            if (bytes[i] == '\r' && bytes[i + 1] == '\n' && bytes[i + 2] == '\r' && bytes[i + 3] == '\n') {
                return true;
            }
        }
        if (received - at > HEAD_MAX) {
            throw new ProtocolException("the head of the answer has more than " + HEAD_MAX + " bytes");
        }
        return false;
    }

    private void readHead() throws ProtocolException {
        String line = line();
        status = statusOf(line);
        Headers read = new Headers();
        for (String header = line(); !header.isEmpty(); header = line()) {
            int colon = header.indexOf(':');
            if (colon <= 0) {
                throw new ProtocolException("the answer has a header without a name");
            }
            read.add(header.substring(0, colon), header.substring(colon + 1).strip());
        }
        if (status < 200) {
            return;         // An interim answer; the final one follows.
        }
        headers = read;
        bodyFrom = at;
        bodyTo = at;
        String option = read.all("Connection");
        boolean isToClose = option != null && option.toLowerCase(Locale.ROOT).contains("close");
        isLastOfConnection = isToClose || line.startsWith("HTTP/1.0");
        findBodyEnd();
    }

    private static int statusOf(String line) throws ProtocolException {
        boolean isHttp = line.startsWith("HTTP/1.1 ") || line.startsWith("HTTP/1.0 ");
        if (isHttp && line.length() >= 12 && (line.length() == 12 || line.charAt(12) == ' ')) {
            int status = 0;
            for (int i = 9; i < 12; i++) {
                int digit = Character.digit(line.charAt(i), 10);
                status = digit < 0 ? STATUS_MAX + 1 : status * 10 + digit;
            }
            if (status >= 100 && status <= STATUS_MAX && status != SWITCHING_PROTOCOLS) {
                return status;
            }
        }
        throw new ProtocolException("the answer is not one of HTTP/1.1");
    }

    private void findBodyEnd() throws ProtocolException {
        String length = headers.all("Content-Length");
        String coding = headers.all("Transfer-Encoding");
        if (status == 204 || status == 304) {
            bodyEnd = BodyEnd.LENGTH;
        } else if (coding != null) {
            if (length != null || !coding.equalsIgnoreCase("chunked")) {
                throw new ProtocolException("the end of the answer is ambiguous");
            }
            bodyEnd = BodyEnd.LAST_CHUNK;
        } else if (length != null) {
            bodyEnd = BodyEnd.LENGTH;
            left = size(length, 10);
        } else {
            bodyEnd = BodyEnd.CLOSE;
        }
    }

    private boolean hasBody() throws ProtocolException {
        return switch (bodyEnd) {
            case LENGTH -> hasContent();
            case LAST_CHUNK -> hasLastChunk();
            case CLOSE -> {
                left = received - at;
                yield hasContent() && isClosed;
            }
        };
    }

    /** Moves received bytes to the body. Returns whether it has all bytes that are {@link #left}. */
    private boolean hasContent() {
        int count = (int) Math.min(left, received - at);
        System.arraycopy(bytes, at, bytes, bodyTo, count);
        at += count;
        bodyTo += count;
        left -= count;
        return left == 0;
    }

    private boolean hasLastChunk() throws ProtocolException {
        while (hasContent()) {
            String line = line();
            if (line == null) {
                return false;
            } else if (isInTrailers) {
                if (line.isEmpty()) {
                    return true;
                }
            } else if (isAfterChunk) {
                if (!line.isEmpty()) {
                    throw new ProtocolException("a chunk of the answer has no end");
                }
                isAfterChunk = false;
            } else {
                left = size(line.split(";", 2)[0].strip(), 16);
                isInTrailers = left == 0;
                isAfterChunk = left > 0;
            }
        }
        return false;
    }

    private static long size(String digits, int radix) throws ProtocolException {
        try {
            long size = digits.startsWith("+") ? -1 : Long.parseLong(digits, radix);
            if (size >= 0 && size <= ANSWER_MAX) {
                return size;
            }
        } catch (NumberFormatException e) {
            // No number.
        }
        throw new ProtocolException("the answer has the size \"" + digits + "\": at most " + ANSWER_MAX + " are allowed");
    }

    /** Returns the next line without its end, or null if it is not complete. */
    private String line() throws ProtocolException {
        for (int i = at; i + 1 < received; i++) {
            if (bytes[i] == '\r' && bytes[i + 1] == '\n') {
                String line = new String(bytes, at, i - at, StandardCharsets.ISO_8859_1);
                at = i + 2;
                return line;
            }
        }
        if (received - at > HEAD_MAX) {
            throw new ProtocolException("the answer has a line of more than " + HEAD_MAX + " bytes");
        }
        return null;
    }
}
