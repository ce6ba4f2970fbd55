"""Compiles the checks, runs them against an ensemble, again for what failed, and shows what each took."""

from pathlib import Path

from kit import needs, spawn, table

HERE = Path(__file__).resolve().parent
TIMEOUT_S = 900
ATTEMPTS = 3


def judge(ensemble):
    """Whether every check holds."""
    sources = sorted(path for path in HERE.glob("*Checks.java"))
    class_path = needs.java_classes(HERE / "Recipes.java", *sources)
    ensemble.start()
    results, attempts, wanted = {}, {}, []
    for _ in range(ATTEMPTS):
        for name, result in _run(class_path, ensemble.connect_string, wanted).items():
            results[name] = result
            attempts[name] = attempts.get(name, 0) + 1
        wanted = [name for name, (held, _) in results.items() if not held]
        if not wanted:
            break
        print("failed:", *(f"{name}: {results[name][1]}" for name in wanted), sep="\n  ", flush=True)
    rows = [
        (name, "ok" if held else "FAILED", detail if held else "-", attempts[name])
        for name, (held, detail) in results.items()
    ]
    table.show(f"Curator's recipes against {ensemble.name}", ("check", "verdict", "ms", "attempts"), rows)
    return bool(results) and all(held for held, _ in results.values())


def _run(class_path, connect, wanted):
    command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", class_path, "Recipes", connect, *wanted]
    code, output = spawn.run(command, TIMEOUT_S)
    results = {}
    for line in output.splitlines():
        verdict, _, rest = line.partition(" ")
        name, _, detail = rest.partition(" ")
        if verdict in ("ok", "FAILED"):
            results[name] = (verdict == "ok", detail)
    if code not in (0, 1) or not results:
        raise RuntimeError(f"the program ended with {code}:\n{output[-3000:]}")
    return results
