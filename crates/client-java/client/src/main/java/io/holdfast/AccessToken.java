package io.holdfast;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.concurrent.atomic.AtomicReference;

/**
 * The access token that the client sends with every call. A file has one line: the token, or the header
 * {@code Authorization: Bearer TOKEN}. The file is read again after a change, and after a node rejected its token.
 */
final class AccessToken {
    private record Read(FileTime modified, String token) {}

    private final String text;
    private final Path file;
    private final AtomicReference<Read> last = new AtomicReference<>();

    private AccessToken(String text, Path file) {
        this.text = text;
        this.file = file;
    }

    static AccessToken text(String token) {
        String text = tokenOf(token);
        if (!isPlain(text)) {
            throw new InvalidArgumentException("the text has no access token");
        }
        return new AccessToken(text, null);
    }

    static AccessToken file(Path path) {
        AccessToken token = new AccessToken(null, path);
        if (token.header() == null) {
            throw new InvalidArgumentException("the file of the access token cannot be read, or has none: " + path);
        }
        return token;
    }

    boolean mayChange() {
        return file != null;
    }

    /** Reads the file at the next use, even if its time of change is the same. */
    void readAgain() {
        last.updateAndGet(read -> read == null ? null : new Read(FileTime.fromMillis(0), read.token));
    }

    /** The value of the header; null if the file was never readable. While it cannot be read, its last content counts. */
    String header() {
        return file == null ? "Bearer " + text : fromFile();
    }

    private String fromFile() {
        Read known = last.get();
        try {
            FileTime modified = Files.getLastModifiedTime(file);
            if (known == null || !known.modified.equals(modified)) {
                String token = tokenOf(Files.readString(file));
                known = isPlain(token) ? new Read(modified, token) : known;
                last.set(known);
            }
        } catch (IOException e) {
            // The file is being replaced.
        }
        return known == null ? null : "Bearer " + known.token;
    }

    static String tokenOf(String content) {
        String line = content.strip();
        String header = "authorization:";
        if (line.regionMatches(true, 0, header, 0, header.length())) {
            line = line.substring(header.length()).strip();
        }
        String scheme = "Bearer ";
        return line.regionMatches(true, 0, scheme, 0, scheme.length()) ? line.substring(scheme.length()).strip() : line;
    }

    /** Other characters would end the header, and the error of the HTTP client would show them. */
    private static boolean isPlain(String token) {
        return !token.isEmpty() && token.chars().allMatch(c -> c > ' ' && c < 0x7f);
    }
}
