package io.holdfast;

import java.util.Locale;

/** How a lock is held beside other holders. */
public enum Mode {
    /** A single holder. */
    EXCLUSIVE,
    /** Any number of shared holders, and one upgradable holder. */
    SHARED,
    /** Beside shared holders, with the right to become exclusive. */
    UPGRADABLE;

    String word() {
        return name().toLowerCase(Locale.ROOT);
    }

    static Mode of(String word) {
        return word == null ? EXCLUSIVE : valueOf(word.toUpperCase(Locale.ROOT));
    }

    private int strength() {
        return this == EXCLUSIVE ? 2 : this == UPGRADABLE ? 1 : 0;
    }

    boolean isStrongerThan(Mode other) {
        return strength() > other.strength();
    }
}
