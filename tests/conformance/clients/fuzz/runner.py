"""Lets schemathesis loose on the HTTP API: no server error, and every answer as the API describes itself.

Owns the command line of schemathesis, what its calls meet, and the proof that the judge can fail: the same
run against a description with an answer left out. Refuses to know any route.
"""

import collections
import json
import os
import re
import urllib.request
from pathlib import Path

from kit import needs, spawn

HERE = Path(__file__).resolve().parent
# The same calls each time, as far as time allows: a run that fails can be repeated.
SEED = 20261122
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
]
# Of the few names that the hooks choose, those that mean something from the beginning.
NAMES = ["n0", "n1"]
# Beyond the time given: the examples, the cover of every parameter and the call under way are finished.
GRACE_S = 120
REQUEST_S = 20
COUNTED = re.compile(r'holdfast_http_requests_total\{route="([^"]*)",method="([^"]*)",code="([^"]*)"\} (\d+)')
UNDOCUMENTED = ("/version", "get", "200")


def description(address):
    with urllib.request.urlopen(f"http://{address}/openapi.json", timeout=REQUEST_S) as answer:
        return json.load(answer)


def furnish(address):
    """So that calls find a session, a node and a lock. Other names stand for what is not there yet."""
    for name in NAMES:
        for place in (f"sessions/{name}?ttl=24h", f"tree/{name}", f"locks/{name}?session={name}"):
            request = urllib.request.Request(f"http://{address}/v1/{place}", method="PUT")
            urllib.request.urlopen(request, timeout=REQUEST_S).close()


def administrator(address, data):
    """The access token of an administrator: else the first call of `bootstrapAuth` would shut out all later ones."""
    proof = "0123456789abcdef0123456789abcdef"
    (data / "owner-proof").write_text(proof)
    request = urllib.request.Request(f"http://{address}/v1/auth/bootstrap?proof={proof}", method="POST")
    with urllib.request.urlopen(request, timeout=REQUEST_S) as answer:
        return json.load(answer)


def write(ensemble, document, name):
    path = ensemble.directory / name
    path.write_text(json.dumps(document))
    return path


def run(python, ensemble, document, seconds, *more, kept=()):
    """Exit code and output of one run over a description. No call changes the subjects and access tokens `kept`."""
    program = python.parent / "schemathesis"
    command = [program, "run", document, "--url", f"http://{ensemble.http_addresses[0]}"]
    command += ["--checks", ",".join(CHECKS), "--max-time", str(seconds), "--request-timeout", str(REQUEST_S)]
    command += ["--continue-on-failure", "--warnings", "off", "--no-color", "--seed", str(SEED), *more]
    # Whatever of its own schemathesis keeps goes with the ensemble.
    environment = dict(os.environ, SCHEMATHESIS_HOOKS="hooks", PYTHONPATH=str(HERE), PYTHONDONTWRITEBYTECODE="1")
    environment["HOLDFAST_FUZZ_KEPT"] = " ".join(kept)
    return spawn.run(command, seconds + GRACE_S, env=environment, cwd=ensemble.directory)


def sees_an_undocumented_answer(python, ensemble, document):
    """That an answer which is not described is found."""
    path, method, status = UNDOCUMENTED
    doctored = json.loads(json.dumps(document))
    answers = doctored["paths"][path][method]["responses"]
    answers["299"] = answers.pop(status)
    code, output = run(python, ensemble, write(ensemble, doctored, "doctored.json"), 5, "--include-path", path)
    found = code == 1 and "Undocumented status code" in output
    if not found:
        print(f"the judge did not see that {method} {path} has no answer {status} (exit {code}):\n{output[-2000:]}")
    return found


def tally(ensemble, document, header):
    """How deep the calls went: answers by status, and the operations that never did what they were asked."""
    by_status, good = collections.Counter(), set()
    for address in ensemble.http_addresses:
        request = urllib.request.Request(f"http://{address}/metrics", headers=dict([header.split(": ")]))
        with urllib.request.urlopen(request, timeout=REQUEST_S) as answer:
            for route, method, status, count in COUNTED.findall(answer.read().decode()):
                by_status[status] += int(count)
                if status.startswith("2"):
                    good.add((route, method.lower()))
    told = {(path, method) for path, methods in document["paths"].items() for method in methods}
    print("answers by status:", ", ".join(f"{status} {count}" for status, count in sorted(by_status.items())))
    for path, method in sorted(told - good):
        print(f"never answered with 2xx: {method.upper()} {path}")


def end_is_whole(ensemble):
    """That every member is there at the end, and none has panicked."""
    whole = True
    for member in ensemble.members:
        panicked = [line for line in member.logs(10_000) if "panicked" in line]
        if panicked or not member.running:
            whole = False
            print(f"member {member.number} {'panicked' if panicked else 'has ended'}:", *panicked, *member.logs(15), sep="\n")
    return whole


def judge(ensemble, seconds):
    """Whether everything holds. All of schemathesis' findings are printed, with the calls that repeat them."""
    python = needs.python(HERE / "requirements.txt")
    ensemble.start()
    address = ensemble.http_addresses[0]
    document = description(address)
    if not sees_an_undocumented_answer(python, ensemble, document):
        return False
    furnish(address)
    token = administrator(address, ensemble.members[0].directory / "data")
    header, kept = f"Authorization: Bearer {token['token']}", (token["subject"], token["id"])
    described = write(ensemble, document, "openapi.json")
    code, output = run(python, ensemble, described, seconds, "--header", header, kept=kept)
    print(output[-20_000:] if code else output[output.find("SUMMARY") - 40:], flush=True)
    whole = end_is_whole(ensemble)
    if whole:
        tally(ensemble, document, header)
    return whole and code == 0
