package io.holdfast;

/** The cluster rejected the call, which cannot succeed as it is. Change it. */
public final class RejectedException extends HoldfastException {
    private final long newest;

    RejectedException(Problem problem, Json body) {
        super(text(problem, body.text("lock")), problem);
        this.newest = body.numberOr("newest_attempt", body.numberOr("newest_request", -1));
    }

    /**
     * The facts in one sentence.
     *
     * @return the detail; may be empty
     */
    public String detail() {
        return problem().detail();
    }

    @Override
    long newest(String code) {
        return hasCode(code) ? newest : -1;
    }

    /** Names the lock, unless the detail does. */
    private static String text(Problem problem, String lock) {
        boolean isNamed = lock == null || problem.detail().contains(lock);
        return isNamed ? problem.sentence() : "lock \"" + lock + "\": " + problem.sentence();
    }
}
