package io.holdfast;

import java.util.ArrayList;
import java.util.List;

/** The headers of an answer, in their order. Names are case-insensitive. */
final class Headers {
    private final List<String> names = new ArrayList<>(16);
    private final List<String> values = new ArrayList<>(16);

    Headers add(String name, String value) {
        names.add(name);
        values.add(value);
        return this;
    }

    /** The first value of a header, or null. */
    String first(String name) {
        for (int i = 0; i < names.size(); i++) {
            if (names.get(i).equalsIgnoreCase(name)) {
                return values.get(i);
            }
        }
        return null;
    }

    /** All values of a header, separated by commas, or null: a repeated header means the same as one with a list. */
    String all(String name) {
        String all = null;
        for (int i = 0; i < names.size(); i++) {
            if (names.get(i).equalsIgnoreCase(name)) {
                all = all == null ? values.get(i) : all + ", " + values.get(i);
            }
        }
        return all;
    }
}
