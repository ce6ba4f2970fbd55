//! Lock commands below `holdfast run`: they re-enter the locks of the outer commands, and exclude each other for all
//! other locks.

use std::process::{Command, Stdio};

use crate::program::DevCluster;

/// Prints `overlap` if it runs twice at once, and `done`.
const CRITICAL: &str = "mkdir $CRITICAL || echo overlap; sleep 0.2; rmdir $CRITICAL; echo done";

/// A cluster, and a directory for the scripts. `$H` is the program, `$D` the directory, `$CRITICAL` a path in it.
struct Nest {
    cluster: DevCluster,
    dir: tempfile::TempDir,
}

impl Nest {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { cluster: DevCluster::start(&["--nodes", "1"]), dir }
    }

    /// Runs a shell script, and returns its stdout and its stderr.
    fn sh(&self, script: &str) -> (String, String) {
        let output = Command::new("sh")
            .args(["-c", script])
            .env("H", env!("CARGO_BIN_EXE_holdfast"))
            .env("D", self.dir.path())
            .env("CRITICAL", self.dir.path().join("critical"))
            .env("SCRIPT", CRITICAL)
            .env("HOLDFAST_ADDR", format!("127.0.0.1:{}", self.cluster.port()))
            .env_remove("HOLDFAST_SESSION")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    }

    /// Runs a script below `holdfast run build`, and compares its stdout.
    fn below(&self, script: &str, expected: &str) {
        let path = self.dir.path().join("script");
        std::fs::write(&path, script).unwrap();
        let (stdout, stderr) = self.sh("exec $H run build -q -- sh $D/script");
        assert_eq!(stdout, expected, "{script}\n{stderr}");
    }
}

/// The lock commands whose siblings must exclude each other.
const KINDS: [&str; 6] = [
    "run plain",
    "run pool --permits 1/1",
    "run stock --shards 1",
    "run one two",
    "elect primary",
    "run --ttl 10s plain",
];

#[test]
fn siblings_below_one_run_wait_for_each_other() {
    let nest = Nest::new();
    for kind in KINDS {
        let script = format!("seq 3 | xargs -P 3 -I{{}} $H {kind} -q -- sh -c \"$SCRIPT\"");
        nest.below(&script, "done\ndone\ndone\n");
    }
    if Command::new("make").arg("--version").output().is_ok() {
        let makefile = "all: a b\na b:\n\t@$(H) run linker -q -- sh -c \"$$SCRIPT\"\n";
        std::fs::write(nest.dir.path().join("Makefile"), makefile).unwrap();
        nest.below("make -s -j2 -C $D", "done\ndone\n");
    }
}

#[test]
fn a_sibling_that_does_not_wait_is_busy() {
    let nest = Nest::new();
    for kind in KINDS {
        let script = format!(
            "rm -f $D/in $D/out; mkfifo $D/in $D/out
            $H {kind} -q -- sh -c 'echo > $D/in; read x < $D/out' & read x < $D/in
            $H {kind} --try -q -- echo ran; echo $?
            echo > $D/out; wait"
        );
        nest.below(&script, "75\n");
    }
}

/// Below `run build`: the locks of all outer commands are entered again, with their tokens and sessions.
#[test]
fn the_locks_of_all_outer_commands_are_entered_again() {
    let nest = Nest::new();
    let show = "sh -c 'echo $HOLDFAST_TOKEN $HOLDFAST_SESSION'";
    let same = |outer: &str, again: &str| {
        format!(
            "$H run {outer} -q -- sh -c 'echo $HOLDFAST_TOKEN $HOLDFAST_SESSION > $D/outer
            $H run between -q -- $H run other -q -- $H {again} --try -q -- {} | cmp - $D/outer && echo same'",
            show.replace('\'', "\"").replace('$', "\\$")
        )
    };
    for (outer, again) in [
        ("a", "run a"),
        ("a --shared", "run a --shared"),
        ("pool --permits 1/1", "run pool --permits 1/1"),
        ("stock --shards 2", "run stock --shards 2"),
        ("elections/e", "elect e"),
        ("a --session mine", "run a"),
    ] {
        nest.below(&same(outer, again), "same\n");
    }
    let token = "$H run a -q -- sh -c '$H lock a --try -q > $D/token & until [ -s $D/token ]; do sleep 0.05; done
        echo $HOLDFAST_TOKEN | cmp - $D/token && echo same; kill -INT $!; wait $!; echo $?
        [ \"$($H who a -o value)\" = $HOLDFAST_SESSION ] && echo held'";
    nest.below(token, "same\n0\nheld\n");
}

/// A lock that is entered again ends with the outer hold, whatever the inner command asks for.
#[test]
fn a_nested_command_gets_the_deadline_of_the_outer_hold() {
    let nest = Nest::new();
    for inner in ["", "--max-hold 5h"] {
        let script = format!(
            "$H run a --max-hold 1h -q -- sh -c 'echo $HOLDFAST_DEADLINE > $D/outer
            $H run a {inner} -q -- sh -c \"echo \\$HOLDFAST_DEADLINE\" > $D/inner'
            read outer < $D/outer; read inner < $D/inner
            [ $inner -le $((outer + 60)) ] && [ $inner -ge $((outer - 60)) ] && echo same"
        );
        nest.below(&script, "same\n");
    }
}

#[test]
fn a_multi_lock_enters_the_locks_of_outer_commands_and_acquires_the_others() {
    let nest = Nest::new();
    let script = "$H run a -q -- $H run b -q -- $H run c b a --try -q -- sh -c '
        echo \"$HOLDFAST_TOKENS\" | while read -r name token; do echo \"$name ${token:+token}\"; done
        for lock in a b c; do $H who $lock -o value; done | sort -u | wc -l
        $H run c --try -q -- echo again'; for lock in a b c; do $H who $lock; done";
    nest.below(script, "a token\nb token\nc token\n3\nagain\na is free\nb is free\nc is free\n");
    // The session of the outer command keeps its ttl.
    let ttl = "$H run build --ttl 5s -q -- true; echo $?; $H run build other --ttl 5s -q -- true; echo $?";
    nest.below(ttl, "1\n0\n");
}

#[test]
fn unlock_below_a_run_releases_the_lock_of_any_outer_command() {
    let nest = Nest::new();
    let script = "$H run b -q -- sh -c '$H unlock build; read x < $D/never' 2> /dev/null; echo $?";
    let (stdout, stderr) = nest.sh(&format!(
        "mkfifo $D/never; $H run build -q -- sh -c \"{}\"; echo $?; $H who build",
        script.replace('$', "\\$")
    ));
    assert!(stdout.ends_with("76\nbuild is free\n"), "{stdout}{stderr}");
    let (_, stderr) = nest.sh("$H run a -q -- sh -c '$H unlock a; read x < $D/never'");
    let warned =
        "a is the lock of the holdfast run around this command, which may kill this command";
    assert!(stderr.contains(warned), "{stderr}");
}

/// A nested command has the mode of the outer hold: shared work must not let readers in beside an exclusive outer command.
#[test]
fn a_nested_command_does_not_change_the_mode_of_the_outer_hold() {
    let nest = Nest::new();
    let mode =
        "$H run build --shared --try -q -- echo in; $H who build -o jsonl | grep -o exclusive";
    nest.below(mode, "in\nexclusive\n");
    let script = "$H run page --shared -q -- $H run page --try -q -- echo in; echo $?";
    nest.below(script, "1\n");
    let within = "$H run build --shared -q -- $H run build --try -q -- echo in";
    nest.below(within, "in\n");
}

/// The session of the outer command would keep the claim of `build`.
#[test]
fn a_nested_command_that_cannot_enter_one_lock_leaves_the_others() {
    let nest = Nest::new();
    let script = "$H run page --shared -q -- sh -c '$H run build page --try -q -- echo in; echo $?
        $H who build -o jsonl | grep -o hold_count.:[0-9]*'";
    nest.below(script, "1\nhold_count\":1\n");
}

/// The upgrade replaces the token of the outer hold. A later hold of the same session is another one.
#[test]
fn a_nested_command_enters_an_upgraded_hold_and_no_later_hold() {
    let nest = Nest::new();
    let upgrade = "$H lock page --session $HOLDFAST_SESSION -q > $D/token &
        until [ -s $D/token ]; do sleep 0.05; done; [ $(cat $D/token) != $HOLDFAST_TOKEN ] && echo upgraded
        $H run page --shared --try -q -- echo in; echo $?; kill -INT $!; wait";
    std::fs::write(nest.dir.path().join("upgrade"), upgrade).unwrap();
    let (stdout, stderr) = nest.sh("$H run page --shared -q -- sh $D/upgrade");
    assert_eq!(stdout, "upgraded\nin\n0\n", "{stderr}");
    let later = "$H run a --session mine -q -- sh -c 'export -p | grep HOLDFAST_ > $D/environment'
        $H run a --session mine -q -- sh -c '. $D/environment; $H run a --try -q -- echo ran; echo $?'";
    let (stdout, stderr) = nest.sh(later);
    assert_eq!(stdout, "75\n", "{stderr}");
}

/// The environment of a command that outlives its `holdfast run`, such as a daemon that it starts.
#[test]
fn a_process_that_outlives_the_outer_command_has_no_lock_of_it() {
    let nest = Nest::new();
    nest.below("export -p | grep HOLDFAST_ > $D/environment", "");
    for kind in ["run nightly", "run build", "elect e", "run build x"] {
        let script = format!(
            "rm -f $D/in $D/out; mkfifo $D/in $D/out; . $D/environment
            $H {kind} -q -- sh -c 'echo > $D/in; read x < $D/out' & read x < $D/in
            $H {kind} --try -q -- echo ran; echo $?
            echo > $D/out; wait; $H session show $HOLDFAST_SESSION > /dev/null 2>&1 || echo closed"
        );
        let (stdout, stderr) = nest.sh(&script);
        assert_eq!(stdout, "75\nclosed\n", "{kind}: {stderr}");
        let said = stderr.matches("HOLDFAST_SESSION is ignored").count();
        assert_eq!(said, 2, "{kind}: {stderr}");
    }
}

#[test]
fn a_barrier_and_a_group_do_not_open_the_session_of_an_outer_command_again() {
    let nest = Nest::new();
    nest.below("export -p | grep HOLDFAST_ > $D/environment", "");
    let script = ". $D/environment
        $H barrier enter batch --parties 1; echo $?
        $H group join workers -- sh -c '$H group ls workers -o value | wc -l'
        $H session show $HOLDFAST_SESSION > /dev/null 2>&1 || echo closed";
    let (stdout, stderr) = nest.sh(script);
    assert_eq!(stdout, "1\n1\nclosed\n", "{stderr}");
    assert_eq!(stderr.matches("HOLDFAST_SESSION is ignored").count(), 2, "{stderr}");
}

#[test]
fn a_session_that_the_user_selects_is_used_as_it_is() {
    let nest = Nest::new();
    for select in ["$H run other --session mine", "HOLDFAST_SESSION=mine $H run other"] {
        let script = format!("{select} --try -q -- sh -c 'echo $HOLDFAST_SESSION'");
        nest.below(&script, "mine\n");
    }
    let outsider = "env -u HOLDFAST_SESSION $H run build --try -q -- echo ran; echo $?";
    nest.below(outsider, "75\n");
    let recipes = "$H barrier enter batch --parties 1 --wait 1m && $H barrier leave batch --wait 1m
        $H group join workers -- sh -c '$H group ls workers -o jsonl' | grep -c $HOLDFAST_SESSION";
    nest.below(recipes, "0\nleft\n1\n");
}
