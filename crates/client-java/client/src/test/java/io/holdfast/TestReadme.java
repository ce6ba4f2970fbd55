package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** Code of the README that tests run. */
public final class TestReadme {
    private TestReadme() {}

    /** Asserts that the README shows the lines of a test source between {@code // readme} and {@code // end}. */
    public static void shows(Class<?> source) throws IOException {
        String file = source.getName().replace('.', '/') + ".java";
        List<String> lines = Files.readAllLines(Path.of("src/test/java", file));
        List<String> trimmed = lines.stream().map(String::strip).toList();
        int start = trimmed.indexOf("// readme") + 1;
        int end = trimmed.indexOf("// end");
        String code = String.join("\n", lines.subList(start, end)).stripIndent();
        assertTrue(start > 0 && code.length() > 40, "no code in " + file);
        assertTrue(Files.readString(Path.of("../README.md")).contains(code), () -> "the README does not show:\n" + code);
    }
}
