package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.EOFException;
import java.io.IOException;
import java.net.ProtocolException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Answers as bytes, whole and in pieces. */
class ResponseParserTest {
    private static final String CHUNKED = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

    private final ResponseParser parser = new ResponseParser();

    private void receive(ResponseParser into, byte[] bytes, int from, int to) throws IOException {
        for (int at = from; at < to; ) {
            byte[] room = into.room();
            int count = Math.min(to - at, room.length - into.received());
            System.arraycopy(bytes, at, room, into.received(), count);
            into.received(count);
            at += count;
        }
    }

    private Response parse(String answer) throws IOException {
        byte[] bytes = answer.getBytes(StandardCharsets.ISO_8859_1);
        receive(parser, bytes, 0, bytes.length);
        return parser.next();
    }

    private static String text(Response response) {
        return new String(response.body(), StandardCharsets.ISO_8859_1);
    }

    @Test
    void anAnswerIsTheSameInPiecesOfAnySize() throws IOException {
        List<String> answers = List.of(
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nHoldfast-Node:  3 \r\n\r\nhello",
                "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200\r\ncontent-length: 5\r\nholdfast-node: 3\r\n\r\nhello",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\nholdfast-node: 3\r\n\r\n"
                        + "2;a=b\r\nhe\r\n03\r\nllo\r\n0\r\nTrailer: x\r\n\r\n");
        for (String answer : answers) {
            byte[] bytes = answer.getBytes(StandardCharsets.ISO_8859_1);
            for (int piece = 1; piece <= bytes.length; piece++) {
                ResponseParser pieces = new ResponseParser();
                Response response = null;
                for (int at = 0; at < bytes.length; at += piece) {
                    assertNull(response, answer);
                    receive(pieces, bytes, at, Math.min(bytes.length, at + piece));
                    response = pieces.next();
                }
                assertEquals(200, response.status());
                assertEquals("hello", text(response));
                assertEquals("3", response.header("HOLDFAST-NODE"));
                assertNull(response.header("holdfast-leader"));
                assertTrue(pieces.isReusable());
            }
        }
    }

    @Test
    void anAnswerWithoutALengthEndsWithTheConnection() throws IOException {
        assertNull(parse("HTTP/1.1 200 OK\r\n\r\nhel"));
        assertNull(parse("lo"));
        parser.received(-1);
        assertEquals("hello", text(parser.next()));
        assertFalse(parser.isReusable());
    }

    @Test
    void someAnswersHaveNoBody() throws IOException {
        assertEquals("", text(parse("HTTP/1.1 204 No Content\r\n\r\n")));
        assertTrue(parser.isReusable());
        Response notModified = new ResponseParserTest().parse("HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n");
        assertEquals("", text(notModified));
    }

    @Test
    void aConnectionIsNotUsedAgainAfterACloseOrSurplusBytes() throws IOException {
        for (String answer : List.of(
                "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: Close\r\n\r\n",
                "HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
                "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nHTTP/1.1 200 OK\r\n")) {
            ResponseParserTest test = new ResponseParserTest();
            assertEquals("", text(test.parse(answer)));
            assertFalse(test.parser.isReusable(), answer);
        }
    }

    @Test
    void anAnswerThatEndsEarlyIsAnError() throws IOException {
        for (String answer : List.of("", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
                CHUNKED + "5\r\nhel", CHUNKED + "5\r\nhello\r\n", CHUNKED + "0\r\n")) {
            ResponseParserTest test = new ResponseParserTest();
            assertNull(test.parse(answer));
            test.parser.received(-1);
            assertThrows(EOFException.class, test.parser::next, answer);
        }
    }

    @Test
    void anAmbiguousOrUnreadableAnswerIsAnError() {
        for (String answer : List.of(
                "SSH-2.0-OpenSSH\r\n\r\n",
                "HTTP/2 200 OK\r\n\r\n",
                "HTTP/1.1 20 OK\r\n\r\n",
                "HTTP/1.1 2000\r\n\r\n",
                "HTTP/1.1 101 Switching Protocols\r\n\r\n",
                "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
                "HTTP/1.1 200 OK\r\n: no name\r\n\r\n",
                "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
                "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
                "HTTP/1.1 200 OK\r\ncontent-length: +5\r\n\r\nhello",
                "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
                "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
                CHUNKED + "x\r\n",
                CHUNKED + "2\r\nhello\r\n")) {
            assertThrows(ProtocolException.class, () -> new ResponseParserTest().parse(answer), answer);
        }
    }

    @Test
    void theSizeOfAnAnswerHasABound() {
        String line = "x".repeat(ResponseParser.HEAD_MAX);
        for (String answer : List.of(
                "HTTP/1.1 200 OK\r\nx: " + line,
                CHUNKED + "1;" + line,
                CHUNKED + "ffffffff\r\n",
                "HTTP/1.1 200 OK\r\ncontent-length: " + (ResponseParser.ANSWER_MAX + 1) + "\r\n\r\n")) {
            assertThrows(ProtocolException.class, () -> new ResponseParserTest().parse(answer));
        }
        byte[] endless = new byte[1024 * 1024];
        assertThrows(ProtocolException.class, () -> {
            parse("HTTP/1.1 200 OK\r\n\r\n");
            for (int size = 0; size <= ResponseParser.ANSWER_MAX; size += endless.length) {
                receive(parser, endless, 0, endless.length);
            }
        });
    }
}
