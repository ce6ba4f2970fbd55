"""Types commands into zkCli and looks for the answers, in order."""

import re
import subprocess

from kit import needs, spawn, table

PROGRAM = "/usr/share/zookeeper/bin/zkCli.sh"
TIMEOUT_S = 120

# What is typed, and a pattern for what must come after everything that came before. `{p}` is a fresh directory.
TALK = [
    ("create {p} top", r"^Created {p}$"),
    ("create -e {p}/e one", r"^Created {p}/e$"),
    ("create -s {p}/s two", r"^Created {p}/s0000000001$"),
    ("create -e -s {p}/es three", r"^Created {p}/es0000000002$"),
    ("create -c {p}/c four", r"^Created {p}/c$"),
    ("create -t 60000 {p}/t five", r"^Created {p}/t$"),
    ("create {p}", r"Node already exists: {p}"),
    ("create {p}/no/parent", r"Node does not exist: {p}/no"),
    ("create {p}/e/child", r"Ephemerals cannot have children: {p}/e/child"),
    ("get {p}", r"^top$"),
    ("get -s {p}/e", r"^one$[\s\S]*?ephemeralOwner = 0x[1-9a-f][0-9a-f]*$"),
    ("get {p}/nothing", r"Node does not exist: {p}/nothing"),
    ("set {p} changed", None),
    ("get -s {p}", r"^changed$[\s\S]*?^dataVersion = 1$"),
    ("set -v 7 {p} never", r"version No is not valid : {p}"),
    ("stat {p}", r"^cversion = 5$[\s\S]*?^dataLength = 7$\n^numChildren = 5$"),
    ("ls {p}", r"^\[c, e, es0000000002, s0000000001, t\]$"),
    ("ls -s {p}/c", r"^\[\]$[\s\S]*?^ephemeralOwner = 0x0$"),
    ("ls -R {p}", r"^{p}$\n^{p}/c$\n^{p}/e$"),
    ("getAcl {p}", r"^'world,'anyone$\n^: cdrwa$"),
    ("getEphemerals {p}", r"\[?{p}/e[s0-9]*, {p}/e"),
    ("getAllChildrenNumber {p}", r"^5$"),
    ("sync {p}", r"^Sync is OK$"),
    ("whoami", r"^ip: 127.0.0.1$"),
    ("setquota -n 100 {p}/c", None),
    ("listquota {p}/c", r"Output quota for {p}/c count=100,bytes=-1"),
    ("delquota {p}/c", None),
    ("listquota {p}/c", r"quota for {p}/c does not exist"),
    ("addWatch -m PERSISTENT_RECURSIVE {p}/c", None),
    # zkCli prints events and answers from two threads, so their order is not looked at.
    ("create {p}/c/w 1", r"type:NodeCreated path:{p}/c/w$"),
    ("set {p}/c/w 2", r"type:NodeDataChanged path:{p}/c/w$"),
    ("delete {p}/c/w", r"type:NodeDeleted path:{p}/c/w$"),
    ("removewatches {p}/c", r"type:PersistentWatchRemoved path:{p}/c$"),
    ("get -w {p}/t", r"^five$"),
    ("set {p}/t six", r"type:NodeDataChanged path:{p}/t$"),
    ("addauth digest user:secret", None),
    ("setAcl {p}/t auth::cdrwa", None),
    ("getAcl {p}/t", r"^'digest,'user:[A-Za-z0-9+/]{{27}}=$\n^: cdrwa$"),
    ("delete -v 9 {p}/c", r"version No is not valid : {p}/c"),
    ("delete {p}", r"Node not empty: {p}"),
    ("deleteall {p}", None),
    ("stat {p}", r"Node does not exist: {p}"),
    ("quit", r"state:Closed"),
]


def judge(ensemble):
    """Whether every answer came."""
    needs.ensure("zkcli")
    ensemble.start()
    # Not below the root: a session of its own sees the numbers that it expects there.
    path = "/zkcli-smoke"
    typed = "".join(command.format(p=path) + "\n" for command, _ in TALK)
    said = _type(ensemble.connect_string, typed)
    rows, position = [], 0
    for command, pattern in TALK:
        if pattern is None:
            continue
        found = re.compile(pattern.format(p=path), re.MULTILINE).search(said, position)
        position = found.end() if found else position
        rows.append((command.format(p=path), "ok" if found else f"NOT FOUND: {pattern.format(p=path)}"))
    missing = [row for row in rows if row[1] != "ok"]
    table.show(f"zkCli against {ensemble.name}: {len(rows) - len(missing)} of {len(rows)} answers", ("typed", "verdict"), missing)
    if missing:
        kept = needs.build_directory() / f"zkcli-{ensemble.name}.log"
        kept.write_text(said)
        print(f"what it said: {kept}")
    return not missing


def _type(connect, typed):
    child = spawn.start(
        [PROGRAM, "-server", connect], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        said, _ = child.communicate(typed.encode(), timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        spawn.kill(child)
        said, _ = child.communicate()
    return said.decode(errors="replace")
