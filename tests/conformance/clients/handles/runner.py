"""Two handles of the C client on one session: the close of the second ends it, whatever the first does meanwhile."""

from pathlib import Path

from kit import needs, spawn, table

HERE = Path(__file__).resolve().parent
# Milliseconds from the second handle's connection to its close: the first reconnects at once.
DELAYS_MS = (0, 5, 20, 100, 200, 500)
ROUNDS = 4
TIMEOUT_S = 90


def judge(ensemble):
    """Whether no ephemeral was left in any round."""
    program = needs.c_program(HERE / "two_handles.c", "mt")
    ensemble.start()
    rows = []
    for delay in DELAYS_MS:
        for _ in range(ROUNDS):
            code, output = spawn.run([program, ensemble.connect_string, delay], TIMEOUT_S)
            if code != 0:
                rows.append((delay, "the ephemeral is left" if code == 1 else f"ended with {code}", output.strip()[-200:]))
    runs = len(DELAYS_MS) * ROUNDS
    title = f"two handles on one session against {ensemble.name}: {runs - len(rows)} of {runs} closes"
    table.show(title, ("ms to the close", "verdict", "state before it"), rows)
    return not rows
