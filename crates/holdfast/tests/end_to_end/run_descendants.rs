//! No process below `holdfast run` outlives the hold, whatever group, session or user it moved to.
//!
//! Every case starts a worker that ignores SIGTERM behind a wrapper, and ends the hold in some way. The next command in
//! the queue compares the size of the worker's file at its grant with the size a little later.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::program::{DevCluster, Program, children, eventually, is_running, send};

/// Appends to the file `$0.out` until it is killed.
const WORKER: &str =
    "#!/bin/sh\ntrap '' TERM INT HUP\nwhile :; do echo work >> $0.out; sleep 0.2; done\n";

/// A user and a group that own nothing.
const UNPRIVILEGED: u32 = 65_534;

/// How the hold ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    MaxHold,
    Forced,
    Terminated,
    RunIsKilled,
    WatchdogIsKilled,
    BothAreKilled,
}

const ENDINGS: [Ending; 6] = [
    Ending::MaxHold,
    Ending::Forced,
    Ending::Terminated,
    Ending::RunIsKilled,
    Ending::WatchdogIsKilled,
    Ending::BothAreKilled,
];

/// The commands that start the worker `w` outside the process group of the command, and the worker itself.
fn wrappers(w: &str) -> Vec<Vec<String>> {
    let python = format!("import subprocess; subprocess.run(['{w}'], start_new_session=True)");
    let node = format!("require('child_process').spawnSync('{w}', {{detached: true}})");
    let timeout = format!("timeout 60 {w}; true");
    let double_fork = format!("(setsid {w} &); sleep 60");
    let job_control = format!("set -m; {w} & wait");
    let all: [&[&str]; 9] = [
        &[w],
        &["timeout", "60", w],
        &["setsid", w],
        &["sh", "-c", &timeout],
        &["sh", "-c", &double_fork],
        &["bash", "-c", &job_control],
        &["python3", "-c", &python],
        &["node", "-e", &node],
        &["su", "nobody", "-s", "/bin/sh", "-c", w],
    ];
    let is_usable = |words: &&&[&str]| match words[0] {
        "su" => nix::unistd::geteuid().is_root(),
        program => program.contains('/') || is_installed(program),
    };
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    all.iter().filter(is_usable).map(|words| owned(words)).collect()
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

/// Writes the worker, which every user can run.
fn worker(folder: &Path, name: &str) -> String {
    let (path, output) = (folder.join(name), folder.join(format!("{name}.out")));
    for (path, text, mode) in [(&path, WORKER, 0o755), (&output, "", 0o666)] {
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    path.to_str().unwrap().to_owned()
}

fn size(worker: &str) -> u64 {
    std::fs::metadata(format!("{worker}.out")).unwrap().len()
}

/// A running case: its lock, its worker and its `run`.
struct Case {
    lock: String,
    worker: String,
    ending: Ending,
    run: Program,
}

impl Case {
    fn start(
        cluster: &DevCluster,
        lock: String,
        worker: String,
        ending: Ending,
        words: &[String],
    ) -> Self {
        let limit: &[&str] = if ending == Ending::MaxHold { &["--max-hold", "10s"] } else { &[] };
        let words = words.iter().map(String::as_str);
        let options = ["run", &lock, "--ttl", "6s", "--grace", "500ms"];
        let line = options.iter().chain(limit).copied().chain(["--"]).chain(words);
        let run = cluster.spawn_client(&line.collect::<Vec<_>>());
        Self { lock, worker, ending, run }
    }

    fn end_hold(&mut self, cluster: &DevCluster) {
        let watchdogs = children(self.run.id());
        match self.ending {
            Ending::MaxHold => {}
            Ending::Forced => {
                cluster
                    .client(&["unlock", &self.lock, "--force", "--reason", "test"])
                    .assert_code(0);
            }
            Ending::Terminated => self.run.signal(Signal::SIGTERM),
            Ending::RunIsKilled => self.run.kill(),
            Ending::WatchdogIsKilled => send(watchdogs[0], Signal::SIGKILL),
            Ending::BothAreKilled => {
                // While `run` stands still, it cannot act on the death of the watchdog.
                self.run.signal(Signal::SIGSTOP);
                send(watchdogs[0], Signal::SIGKILL);
                self.run.kill();
            }
        }
    }

    /// Starts the next command in the queue, which prints two sizes. A forced release lets it in at once, while `run`
    /// learns of it.
    fn next(&self, cluster: &DevCluster) -> Program {
        let pause = if self.ending == Ending::Forced { "2" } else { "0" };
        let look = format!("stat -c %s {}.out", self.worker);
        let script = format!("sleep {pause}; {look}; sleep 0.7; {look}");
        cluster.spawn_client(&["run", &self.lock, "--quiet", "--", "sh", "-c", &script])
    }
}

#[test]
fn no_descendant_writes_after_the_next_grant() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let mut cases = Vec::new();
    for ending in ENDINGS {
        let count = wrappers("/w").len();
        // If both processes are killed, the kernel ends the command itself, and nothing else.
        let count = if ending == Ending::BothAreKilled { 1 } else { count };
        for number in 0..count {
            let name = format!("{ending:?}-{number}");
            let worker = worker(folder.path(), &name);
            let words = wrappers(&worker).swap_remove(number);
            cases.push((Case::start(&cluster, name, worker, ending, &words), words));
        }
    }
    for (case, words) in &mut cases {
        eventually("the worker works", || size(&case.worker) > 0 || case.run.ended().is_some());
        assert!(size(&case.worker) > 0, "{words:?}: {}", case.run.wait().stderr);
    }
    let mut next: Vec<Program> = cases.iter().map(|(case, _)| case.next(&cluster)).collect();
    for (case, _) in &mut cases {
        case.end_hold(&cluster);
    }
    for ((case, words), next) in cases.iter_mut().zip(&mut next) {
        let sizes = [next.next_stdout_line(), next.next_stdout_line()];
        assert_eq!(sizes[0], sizes[1], "{:?} {words:?} still writes", case.ending);
        if matches!(case.ending, Ending::MaxHold | Ending::Forced) {
            let end = case.run.wait();
            assert_eq!(end.code, Some(76), "{words:?}: {}", end.stderr);
        }
    }
}

/// Each process of the chain lives for a few milliseconds, in a session of its own: no list of processes shows them all.
#[test]
fn a_process_that_forks_all_the_time_ends_with_the_hold() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let folder = tempfile::tempdir().unwrap();
    let worker = worker(folder.path(), "chain");
    let chain = format!(
        "import os, signal, time\nfor s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\nend = time.time() + 60\n\
         while time.time() < end:\n  if os.fork(): os._exit(0)\n  os.setsid()\n  open('{worker}.out', 'a').write('work\\n')\n  time.sleep(0.005)"
    );
    let words = ["python3", "-c", &chain].map(str::to_owned);
    let case = Case::start(&cluster, "chain".into(), worker, Ending::MaxHold, &words);
    eventually("the chain works", || size(&case.worker) > 0);
    let mut next = case.next(&cluster);
    assert_eq!(next.next_stdout_line(), next.next_stdout_line(), "the chain still writes");
}

#[test]
fn sigterm_ends_every_command_within_the_grace() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let run = ["run", "job", "--grace", "1s", "--"];
    let stubborn = "trap '' TERM; echo begun; while :; do sleep 0.05; done";
    for command in
        [&["timeout", "60", "sh", "-c", "echo begun; sleep 20"][..], &["sh", "-c", stubborn]]
    {
        let mut program = cluster.spawn_client(&[&run[..], command].concat());
        program.next_stdout_line();
        let begun = Instant::now();
        program.signal(Signal::SIGTERM);
        let end = program.wait();
        assert!(begun.elapsed() < Duration::from_secs(8), "{command:?}: {:?}", begun.elapsed());
        assert!(matches!(end.code, Some(124 | 137 | 143)), "{:?} {}", end.code, end.stderr);
    }
}

/// By default the lock is held until the processes that the command left running have ended; an option leaves them.
#[test]
fn processes_that_a_command_leaves_running_end_before_the_lock_unless_an_option_leaves_them() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let run = ["run", "job", "--grace", "300ms"];
    let script = ["--", "sh", "-c", "sleep 60 >/dev/null & echo $!; exit 3"];
    let mut ended = cluster.spawn_client(&[&run[..], &script].concat());
    let process: u32 = ended.next_stdout_line().parse().unwrap();
    ended.wait().assert_code(3).assert_stderr_contains([&format!("SIGTERM to {process} (sleep)")]);
    assert!(!is_running(process));
    let mut left = cluster.spawn_client(&[&run[..], &["--leave-running"], &script].concat());
    let process: u32 = left.next_stdout_line().parse().unwrap();
    assert_eq!(left.wait().code, Some(3));
    assert!(is_running(process), "--leave-running leaves it");
    send(process, Signal::SIGKILL);
    // A process that ends by itself within the grace gets no signal.
    let tee = ["run", "job", "--", "sh", "-c", "(sleep 0.2; echo late) & exit 0"];
    let end = cluster.client(&tee);
    assert_eq!((end.stdout.as_str(), end.stderr.as_str()), ("late\n", ""));
}

/// A package upgrade replaces the file of the program while it waits.
#[test]
fn a_waiter_starts_its_command_after_an_upgrade_of_the_program() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let folder = tempfile::tempdir().unwrap();
    let (program, new) = (folder.path().join("holdfast"), folder.path().join("new"));
    let original = env!("CARGO_BIN_EXE_holdfast");
    std::fs::copy(original, &program).unwrap();
    let mut holder = cluster.spawn_client(&["lock", "job"]);
    holder.next_stdout_line();
    let start = |words: &[&str]| {
        let mut command = std::process::Command::new(&program);
        let address = format!("127.0.0.1:{}", cluster.port());
        command.args(words).env("HOLDFAST_ADDR", address).env_remove("HOLDFAST_SESSION");
        Program::start(command)
    };
    let mut waiter = start(&["run", "job", "--", "echo", "ran"]);
    waiter.next_stderr_line();
    let mut leader = start(&["elect", "db", "--forever", "--", "echo", "leads"]);
    assert_eq!(leader.next_stdout_line(), "leads");
    std::fs::copy(original, &new).unwrap();
    std::fs::rename(&new, &program).unwrap();
    holder.interrupt();
    let end = waiter.wait();
    assert_eq!((end.code, end.stdout.as_str()), (Some(0), "ran\n"), "{}", end.stderr);
    assert_eq!(leader.next_stdout_line(), "leads");
    assert_eq!(leader.next_stdout_line(), "leads");
    leader.signal(Signal::SIGTERM);
    leader.wait();
}

/// No other command starts beside a process that `run` may not kill, and the locks that are not lost stay held.
#[test]
fn a_process_that_cannot_be_killed_ends_the_candidacy_and_keeps_the_other_lock() {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut files = std::env::split_paths(&path).map(|folder| folder.join("setpriv"));
    let setpriv = files.find(|file| file.exists() && nix::unistd::geteuid().is_root());
    let Some(setpriv) = setpriv else {
        eprintln!("SKIPPED: only root can make a program that changes its user, here setpriv");
        return;
    };
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let folder = tempfile::tempdir().unwrap();
    let (holdfast, escape) = (folder.path().join("holdfast"), folder.path().join("escape"));
    std::fs::copy(env!("CARGO_BIN_EXE_holdfast"), &holdfast).unwrap();
    std::fs::copy(setpriv, &escape).unwrap();
    for (path, mode) in
        [(folder.path(), 0o755), (holdfast.as_path(), 0o755), (escape.as_path(), 0o4755)]
    {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut probe = std::process::Command::new(&escape);
    probe.args(["--reuid", "0", "true"]).current_dir("/").uid(UNPRIVILEGED).gid(UNPRIVILEGED);
    if !probe.status().unwrap().success() {
        eprintln!("SKIPPED: the system ignores the mode of {}", escape.display());
        return;
    }
    let start = |words: &[&str]| {
        let mut command = std::process::Command::new(&holdfast);
        command.args(words).arg("--").arg(&escape);
        command.args(["--reuid", "0", "sh", "-c", "echo $$; exec sleep 60"]);
        command.env("HOLDFAST_ADDR", format!("127.0.0.1:{}", cluster.port()));
        command.env_remove("HOLDFAST_SESSION").current_dir("/").uid(UNPRIVILEGED).gid(UNPRIVILEGED);
        Program::start(command)
    };
    for (words, lost) in
        [(["elect", "db", "--forever"], "elections/db"), (["run", "one", "two"], "two")]
    {
        let words = [&words[..], &["--ttl", "1m"]].concat();
        let mut program = start(&words);
        let process = program.next_stdout_line();
        cluster.client(&["unlock", lost, "--force", "--reason", "test"]).assert_code(0);
        let end = program.wait();
        send(process.parse().unwrap(), Signal::SIGKILL);
        assert_eq!((end.code, end.stdout.as_str()), (Some(76), ""), "{}", end.stderr);
        end.assert_stderr_contains([&format!("could not kill {process} (sleep)")]);
    }
    let who = |lock: &str| cluster.client(&["who", lock]).stdout;
    assert!(who("one").starts_with("one is held"), "{}", who("one"));
    // Without a loss, the lock is held until the process has ended. After the attempts to kill it, which take 2 s, the
    // deadline from before is so near that the command would get SIGTERM because of a loss.
    let mut program = start(&["run", "three", "--ttl", "3s", "--grace", "1s"]);
    let process = program.next_stdout_line();
    program.signal(Signal::SIGTERM);
    let line = program.next_stderr_line();
    assert!(line.contains(&format!("could not kill {process} (sleep)")), "{line}");
    assert!(line.contains("three is held until it ends"), "{line}");
    assert!(who("three").starts_with("three is held"), "{}", who("three"));
    send(process.parse().unwrap(), Signal::SIGKILL);
    let end = program.wait();
    assert_eq!(end.code, Some(137), "{}", end.stderr);
    assert!(who("three").starts_with("three is free"), "{}", who("three"));
}

/// Runs a shell script below the command `words`, with the program in `$H` and a directory in `$D`.
fn shell(cluster: &DevCluster, folder: &Path, words: &[&str], script: &str) -> Program {
    let mut command = std::process::Command::new(words[0]);
    command.args(&words[1..]).args(["sh", "-c", script]).env_remove("HOLDFAST_SESSION");
    command.env("H", env!("CARGO_BIN_EXE_holdfast")).env("D", folder);
    command.env("HOLDFAST_ADDR", format!("127.0.0.1:{}", cluster.port()));
    Program::start(command)
}

/// A shell starts a process and becomes `run`, which adopts the orphans of that process.
#[test]
fn an_orphan_of_another_parent_is_left_alone() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let folder = tempfile::tempdir().unwrap();
    let script = "mkfifo $D/go; sh -c 'sleep 60 > /dev/null 2>&1 & echo $!; read line < $D/go' &
        exec $H run job --grace 300ms -- sh -c 'echo > $D/go; sleep 60 > /dev/null 2>&1 & exit 3'";
    let mut program = shell(&cluster, folder.path(), &["env"], script);
    let orphan: u32 = program.next_stdout_line().parse().unwrap();
    let end = program.wait();
    assert_eq!(end.code, Some(3), "{}", end.stderr);
    assert!(end.stderr.contains("SIGTERM to "), "{}", end.stderr);
    assert!(is_running(orphan), "{}", end.stderr);
    send(orphan, Signal::SIGKILL);
}

/// While `run` is stopped, the watchdog kills the command, and the kernel gives its number to another process.
#[test]
fn a_process_with_the_number_of_a_dead_command_is_left_alone() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("SKIPPED: only root can make a PID namespace");
        return;
    }
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let folder = tempfile::tempdir().unwrap();
    let script = "$H run job --ttl 3s -- sh -c 'echo $$ > $D/id; exec sleep 60' & run=$!
        until [ -s $D/id ]; do sleep 0.05; done; read id < $D/id; kill -STOP $run
        while [ -d /proc/$id ]; do sleep 0.05; done
        echo $((id - 1)) > /proc/sys/kernel/ns_last_pid; sleep 60 > /dev/null 2>&1 &
        [ $! = $id ] && echo same; kill -CONT $run; wait $run; echo $?; kill $id && echo alive";
    let unshare = ["unshare", "--pid", "--fork", "--mount-proc"];
    let end = shell(&cluster, folder.path(), &unshare, script).wait();
    assert_eq!(end.stdout, "same\n76\nalive\n", "{}", end.stderr);
}

/// `/proc` of another PID namespace shows no process of the command.
#[test]
fn a_command_without_a_list_of_processes_gets_sigterm() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("SKIPPED: only root can make a PID namespace");
        return;
    }
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let folder = tempfile::tempdir().unwrap();
    let command = "trap \"echo asked; exit 0\" TERM; echo begun; while :; do sleep 0.05; done";
    let max_hold = format!("exec $H run job --max-hold 5s --grace 3s -- sh -c '{command}'");
    let killed = format!(
        "$H run job --ttl 1m --grace 20s -- sh -c '{command}' > $D/out & until grep -q begun $D/out; do sleep 0.05; done
        kill -KILL $!; $H run job --wait 40s --quiet -- cat $D/out"
    );
    for script in [max_hold, killed] {
        let end = shell(&cluster, folder.path(), &["unshare", "--pid", "--fork"], &script).wait();
        assert_eq!(end.stdout, "begun\nasked\n", "{}", end.stderr);
    }
}

/// As the first process of a container, `run` is the parent of every orphan.
#[test]
fn the_first_process_of_a_container_leaves_no_zombie() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("SKIPPED: only root can make a PID namespace");
        return;
    }
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let script = "for i in 1 2 3; do (sleep 0.1 &); done; sleep 1; cat /proc/[0-9]*/stat";
    let mut command = std::process::Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", env!("CARGO_BIN_EXE_holdfast")]);
    command.args(["run", "job", "--", "sh", "-c", script]);
    command.env("HOLDFAST_ADDR", format!("127.0.0.1:{}", cluster.port()));
    command.env_remove("HOLDFAST_SESSION");
    let end = Program::start(command).wait().assert_code(0);
    assert!(
        end.stdout.starts_with("1 (holdfast) ") && !end.stdout.contains(") Z "),
        "{}",
        end.stdout
    );
}

/// Runs commands in a terminal, types keys, and prints what happened.
const TERMINAL: &str = r#"
import os, pty, re, select, subprocess, sys, time
holdfast = sys.argv[1]

class Terminal:
    def __init__(self, *words):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvp(words[0], words)
        self.text = ""
    def until(self, text):
        end = time.time() + 60
        while text not in self.text:
            if time.time() > end or not select.select([self.fd], [], [], 60)[0]:
                sys.exit(f"no {text!r} in {self.text!r}")
            try:
                self.text += os.read(self.fd, 4096).decode(errors="replace")
            except OSError:
                sys.exit(f"ended without {text!r}: {self.text!r}")
        self.text = self.text.split(text, 1)[1]
    def type(self, text):
        os.write(self.fd, text.encode())
    def end(self):
        try:
            while True:
                data = os.read(self.fd, 4096)
                if not data: break
                self.text += data.decode(errors="replace")
        except OSError:
            pass
        return os.waitpid(self.pid, 0)[1]

t = Terminal(holdfast, "run", "read", "--", "sh", "-c", "echo begun; read a; echo got $a")
t.until("begun"); t.type("hello\n"); t.until("got hello")
assert t.end() == 0
print("read")

loop = f"for i in 1 2 3; do {holdfast} run loop -- sh -c 'echo begun; exec sleep 60'; echo again; done"
t = Terminal("bash", "-c", loop)
t.until("begun"); t.type("\x03")
assert t.end() == 2 and "again" not in t.text, t.text
print("interrupt")

t = Terminal("bash", "-c", loop.replace("run loop", "run busy"))
t.until("waiting for busy"); t.type("\x03")
assert t.end() == 2 and "again" not in t.text, t.text
print("interrupt while waiting")

t = Terminal(holdfast, "run", "quit", "--", "sh", "-c", "ulimit -c 0; echo begun; exec sleep 60")
t.until("begun"); t.type("\x1c"); t.end()
print("quit")

os.environ["PS1"] = "prompt> "
t = Terminal("bash", "--norc", "--noprofile", "-i")
t.until("prompt> ")
for wrapper in ["", "timeout 60 "]:
    t.type(f"{holdfast} run stop -- {wrapper}sh -c 'echo be\"\"gun; read a; echo go\"\"t $a'\n")
    t.until("begun"); t.type("\x1a"); t.until("Stopped"); t.until("prompt> ")
    t.type("fg\n"); t.type("hello\n"); t.until("got hello"); t.until("prompt> ")
t.type("exit\n"); t.end()
print("stop")

# Here `run` leads the session, so the kernel sends the hangup to it alone.
loop = "echo begun; while :; do sleep 0.05; done"
t = Terminal(holdfast, "run", "hangup", "--grace", "500ms", "--", "sh", "-c", loop)
t.until("begun"); os.close(t.fd)
wait = [holdfast, "wait", "hangup", "--free", "--wait", "30s"]
assert subprocess.run(wait, stdout=subprocess.DEVNULL).returncode == 0
os.waitpid(t.pid, 0)
print("hangup")
"#;

#[test]
fn the_terminal_belongs_to_the_command() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let mut holder = cluster.spawn_client(&["lock", "busy"]);
    holder.next_stdout_line();
    let mut command = std::process::Command::new("python3");
    command.args(["-c", TERMINAL, env!("CARGO_BIN_EXE_holdfast")]).env_remove("HOLDFAST_SESSION");
    command.env("HOLDFAST_ADDR", format!("127.0.0.1:{}", cluster.port()));
    let end = Program::start(command).wait();
    let expected = "read\ninterrupt\ninterrupt while waiting\nquit\nstop\nhangup\n";
    assert_eq!((end.code, end.stdout.as_str()), (Some(0), expected), "{}", end.stderr);
}

#[test]
fn user_signals_reach_the_command_and_do_not_end_the_hold() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let script = "trap 'echo usr1' USR1; trap 'echo usr2' USR2; trap 'echo winch' WINCH; echo begun; \
                  while :; do sleep 0.05; done";
    let mut program = cluster.spawn_client(&["elect", "db", "--", "sh", "-c", script]);
    assert_eq!(program.next_stdout_line(), "begun");
    for (signal, line) in
        [(Signal::SIGUSR1, "usr1"), (Signal::SIGUSR2, "usr2"), (Signal::SIGWINCH, "winch")]
    {
        program.signal(Signal::SIGALRM);
        program.signal(signal);
        assert_eq!(program.next_stdout_line(), line);
    }
    program.signal(Signal::SIGTERM);
    program.wait();
}
