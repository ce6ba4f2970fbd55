//! The real binary as a child process: its lines, its end, and clusters of it on free ports.
//!
//! Every wait has a deadline. A child is killed when its handle is dropped. Queues: lines of a child, unbounded,
//! because a test reads all it wants and the rest is little.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::Pid;

/// How long anything may take.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// How a program ended.
#[derive(Debug)]
pub(crate) struct End {
    /// Its exit code; none if a signal ended it.
    pub(crate) code: Option<i32>,
    /// What it wrote that was not read yet.
    pub(crate) stdout: String,
    /// The same for errors.
    pub(crate) stderr: String,
}

/// A child process whose output is read line by line.
pub(crate) struct Program {
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

impl Program {
    /// Starts the binary under test.
    pub(crate) fn spawn(args: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("HOLDFAST_") {
                command.env_remove(name);
            }
        }
        let mut child = command
            .args(args)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Self { child, stdout: lines(stdout), stderr: lines(stderr) }
    }

    /// The next line of answers.
    pub(crate) fn next_stdout_line(&mut self) -> String {
        match self.stdout.recv_timeout(TIMEOUT) {
            Ok(line) => line,
            Err(error) => panic!("no line on stdout ({error}); stderr: {}", self.rest().stderr),
        }
    }

    /// The next line of progress or complaints.
    pub(crate) fn next_stderr_line(&mut self) -> String {
        self.stderr.recv_timeout(TIMEOUT).unwrap()
    }

    /// Sends SIGINT.
    pub(crate) fn interrupt(&self) {
        self.signal(Signal::SIGINT);
    }

    /// Sends SIGKILL and reaps.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        nix::sys::signal::kill(pid(self.child.id()), signal).unwrap();
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> End {
        self.wait_for(TIMEOUT)
    }

    /// Waits for its end, but not longer than this.
    pub(crate) fn wait_for(&mut self, timeout: Duration) -> End {
        let until = Instant::now() + timeout;
        let code = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status.code();
            }
            if Instant::now() >= until {
                self.kill();
                panic!("still running after {timeout:?}: {:?}", self.rest());
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        End { code, ..self.rest() }
    }

    fn rest(&mut self) -> End {
        let drain = |lines: &Receiver<String>| {
            let mut all = String::new();
            loop {
                match lines.recv_timeout(Duration::from_secs(1)) {
                    Ok(line) => all.extend([line.as_str(), "\n"]),
                    Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => return all,
                }
            }
        };
        End { code: None, stdout: drain(&self.stdout), stderr: drain(&self.stderr) }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(i32::try_from(id).unwrap())
}

/// Runs the binary under test to its end.
pub(crate) fn holdfast(args: &[&str]) -> End {
    Program::spawn(args, &[]).wait()
}

/// Whether a process exists and is not a zombie.
pub(crate) fn is_running(id: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{id}/stat")) {
        Ok(stat) => !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'),
        Err(_) => false,
    }
}

/// Sends SIGKILL.
pub(crate) fn kill(id: u32) {
    send(id, Signal::SIGKILL);
}

/// Sends any signal to a process that need not be a child of ours.
pub(crate) fn send(id: u32, signal: Signal) {
    nix::sys::signal::kill(pid(id), signal).unwrap();
}

/// Waits for a condition outside this process.
pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    let until = Instant::now() + TIMEOUT;
    while !condition() {
        assert!(Instant::now() < until, "not within {TIMEOUT:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The first port of a range for so many nodes, all free now, and no other test's as long as this process lives: its last
/// port is listened on until then.
pub(crate) fn free_ports(nodes: u16) -> u16 {
    static OURS: Mutex<Vec<TcpListener>> = Mutex::new(Vec::new());
    let offset = u16::try_from(std::process::id() % 180).unwrap() * 50;
    let ranges = (0..180).map(|range| 20_000 + (offset + range * 50) % 9_000);
    let bind = |port: u16| TcpListener::bind(("127.0.0.1", port)).ok();
    let all_free = |first: u16| {
        (0..nodes).all(|node| (0..3).all(|listener| bind(first + node * 10 + listener).is_some()))
    };
    let free = ranges.into_iter().find_map(|first| {
        let last = bind(first + 49)?;
        all_free(first).then_some((first, last))
    });
    let (first, last) = free.expect("a free range of ports");
    OURS.lock().unwrap().push(last);
    first
}

/// `holdfast dev`, ready. Stopped in order when dropped, so that it removes its temporary directory.
pub(crate) struct DevCluster {
    program: Program,
    port: u16,
    nodes: u16,
    before_ready: String,
    ready: String,
}

impl DevCluster {
    /// Starts and waits for the ready line.
    pub(crate) fn start(args: &[&str]) -> Self {
        let port = free_ports(5);
        let port_text = port.to_string();
        let mut program = Program::spawn(&[&["dev", "--port", &port_text], args].concat(), &[]);
        let mut before_ready = String::new();
        let ready = loop {
            let line = program.next_stdout_line();
            if line.starts_with("ready ") {
                break line;
            }
            before_ready.extend([line.as_str(), "\n"]);
        };
        let mut cluster = Self { program, port, nodes: 0, before_ready, ready };
        cluster.nodes = u16::try_from(cluster.node_pids().len()).unwrap();
        assert!(cluster.nodes > 0, "{}", cluster.before_ready);
        cluster
    }

    /// The first node's HTTP port.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Everything printed before the ready line.
    pub(crate) fn said_before_ready(&self) -> &str {
        &self.before_ready
    }

    /// The last line.
    pub(crate) fn ready_line(&self) -> &str {
        &self.ready
    }

    /// The supervisor.
    pub(crate) fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    /// Process ids from the table, by node.
    pub(crate) fn node_pids(&self) -> Vec<u32> {
        let second = |line: &str| line.split_whitespace().nth(1)?.parse().ok();
        self.before_ready.lines().skip(1).map_while(second).collect()
    }

    /// Runs a client command against all nodes, to its end.
    pub(crate) fn client(&self, args: &[&str]) -> End {
        self.spawn_client(args).wait()
    }

    /// Starts a client command against all nodes.
    pub(crate) fn spawn_client(&self, args: &[&str]) -> Program {
        let addresses: Vec<String> =
            (0..self.nodes).map(|node| format!("127.0.0.1:{}", self.port + 10 * node)).collect();
        Program::spawn(args, &[("HOLDFAST_ADDR", &addresses.join(","))])
    }
}

impl Drop for DevCluster {
    fn drop(&mut self) {
        if let Ok(None) = self.program.child.try_wait() {
            self.program.interrupt();
            self.program.wait();
        }
    }
}
