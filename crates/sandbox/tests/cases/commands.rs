//! Commands: streams, environment, exit, signals, and the end of everything with the sandbox.

use crate::runner::Case;
use crate::world::{TIMEOUT, World, run, shell};
use sandbox::{Command, CommandExit, ExecError, Stdio, SystemCalls, WaitError};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

pub(crate) const CASES: &[Case] = &[
    Case { name: "a_command_has_no_signal_blocked", run: mask },
    Case { name: "a_command_gets_its_streams_and_its_exit_is_told", run: streams_and_exit },
    Case { name: "the_environment_is_built_from_nothing", run: environment },
    Case { name: "a_program_that_is_not_there_is_an_error_with_its_name", run: missing_program },
    Case { name: "signals_reach_the_process_group", run: signals },
    Case { name: "many_commands_run_at_once", run: many_at_once },
    Case { name: "our_own_program_runs_inside", run: own_program },
    Case { name: "a_command_is_killed_with_everything_that_it_started", run: whole_tree },
    Case { name: "close_kills_what_hides", run: close_kills_what_hides },
    Case { name: "the_usual_tools_run_under_the_allow_list", run: allow_list },
];

/// Each prints a word at its end. A tool that the machine does not have is left out.
const TOOLS: &[(&str, &str)] = &[
    ("sh", "mkdir d && cp /bin/true d && ls -la d | sort | grep true && rm -r d && sleep 0.01 && echo done"),
    ("bash", "bash -c '(sleep 0.01 & wait); trap : INT; x=$(date); [ -n \"$x\" ] && echo done'"),
    (
        "git",
        "git init -q r && cd r && echo a > a && git add . && git -c user.name=a -c user.email=a@b commit -qm a && echo done",
    ),
    ("gcc", "echo 'int main(void){return 0;}' > a.c && gcc a.c -o a && ./a && echo done"),
    ("curl", "curl -s http://127.0.0.1:1; [ $? = 7 ] && echo done"),
    (
        "node",
        "node -e 'const s=require(\"http\").createServer((q,r)=>r.end()).listen(0,\"127.0.0.1\",()=>require(\"http\").get({host:\"127.0.0.1\",port:s.address().port},()=>{require(\"child_process\").execSync(\"true\");console.log(\"done\");process.exit()}))'",
    ),
    (
        "python3",
        "python3 -c 'import subprocess,threading,socket; subprocess.run([\"true\"]); t=threading.Thread(target=int); t.start(); t.join(); socket.socketpair(); print(\"done\")'",
    ),
];

fn allow_list(world: &World) {
    let mut spec = world.spec();
    spec.system_calls = SystemCalls::OnlyAllowed;
    let sandbox = world.start(spec);
    for (tool, script) in TOOLS {
        if !shell(&sandbox, &format!("command -v {tool}")).stdout.contains('/') {
            continue;
        }
        let output = shell(&sandbox, &format!("cd $(mktemp -d) && export HOME=$PWD && {script}"));
        assert!(output.stdout.ends_with("done\n"), "{tool}: {output:?}");
    }
    let reason = |fact: &sandbox::Fact| fact.reason.starts_with("allow list");
    assert!(sandbox.describe().facts.iter().any(reason));
    sandbox.close().unwrap();
}

fn streams_and_exit(world: &World) {
    let sandbox = world.start(world.spec());
    let mut command = Command::new(["/bin/sh", "-c", "cat; echo err >&2; exit 7"]);
    command.stdin = Stdio::Pipe;
    command.stdout = Stdio::Pipe;
    command.stderr = Stdio::Pipe;
    let mut process = sandbox.exec(command).unwrap();
    process.stdin.take().unwrap().write_all(b"in").unwrap();
    let mut stdout = String::new();
    let mut stderr = String::new();
    process.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    process.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((stdout.as_str(), stderr.as_str()), ("in", "err\n"));
    assert_eq!(process.wait(TIMEOUT), Ok(CommandExit::Code(7)));
    assert_eq!(shell(&sandbox, "kill -9 $$").exit, CommandExit::Signal(9));
    sandbox.close().unwrap();
}

fn environment(world: &World) {
    let mut spec = world.spec();
    spec.environment.push(("FROM_SPEC".into(), "a".into()));
    spec.environment.push(("BOTH".into(), "spec".into()));
    let sandbox = world.start(spec);
    let mut command = Command::new(["/usr/bin/env"]);
    command.environment = vec![("BOTH".into(), "command".into())];
    let output = run(&sandbox, command);
    let mut lines: Vec<&str> = output.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["BOTH=command", "FROM_SPEC=a", "PATH=/usr/bin:/bin"]);
    sandbox.close().unwrap();
}

fn missing_program(world: &World) {
    let sandbox = world.start(world.spec());
    let error = sandbox.exec(Command::new(["/no/such/program"])).unwrap_err();
    assert!(
        matches!(&error, ExecError::NotStarted { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    );
    assert!(error.to_string().contains("/no/such/program"), "{error}");
    // The sandbox still works.
    assert_eq!(shell(&sandbox, "true").exit, CommandExit::Code(0));
    sandbox.close().unwrap();
}

fn signals(world: &World) {
    let sandbox = world.start(world.spec());
    let mut command = Command::new(["/bin/sh", "-c", "sleep 100 & echo ready; wait"]);
    command.stdout = Stdio::Pipe;
    let mut process = sandbox.exec(command).unwrap();
    let mut ready = [0; 6];
    let mut stdout = process.stdout.take().unwrap();
    stdout.read_exact(&mut ready).unwrap();
    let short = Duration::from_millis(20);
    assert_eq!(process.wait(short), Err(WaitError::Deadline { limit: short }));
    process.signal(15).unwrap();
    assert_eq!(process.wait(TIMEOUT), Ok(CommandExit::Signal(15)));
    // The pipe closes only when the background process is gone too.
    assert_eq!(stdout.read(&mut ready).unwrap(), 0);
    sandbox.close().unwrap();
}

fn many_at_once(world: &World) {
    let sandbox = world.start(world.spec());
    std::thread::scope(|scope| {
        for number in 0..16 {
            let sandbox = &sandbox;
            scope.spawn(move || {
                let output = shell(sandbox, &format!("echo {number}; exit {number}"));
                assert_eq!(output.stdout, format!("{number}\n"));
                assert_eq!(output.exit, CommandExit::Code(number));
            });
        }
    });
    sandbox.close().unwrap();
}

fn own_program(world: &World) {
    let mut spec = world.spec();
    spec.program = Some("/opt/program".into());
    let sandbox = world.start(spec);
    let output = shell(&sandbox, "test -x /opt/program && ! echo x 2>/dev/null >/opt/program");
    assert_eq!(output.exit, CommandExit::Code(0), "{output:?}");
    sandbox.close().unwrap();
}

fn close_kills_what_hides(world: &World) {
    let state = world.spec().state_directory;
    let mut spec = world.spec();
    spec.state_directory.clone_from(&state);
    let sandbox = world.start(spec);
    let pid = sandbox.host_pid();
    // Double-forked, in its own session, ignoring every signal that can be ignored.
    let hide =
        "setsid sh -c 'trap \"\" TERM HUP INT; sleep 100 & sleep 100' </dev/null >/dev/null 2>&1 & echo";
    assert!(shell(&sandbox, hide).exit.success());
    let begun = Instant::now();
    sandbox.close().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    assert!(!state.exists());
}

fn mask(world: &World) {
    let sandbox = world.start(world.spec());
    let output = run(&sandbox, Command::new(["/usr/bin/grep", "SigBlk", "/proc/self/status"]));
    assert_eq!(output.stdout.trim_start_matches("SigBlk:").trim(), "0000000000000000", "{output:?}");
    sandbox.close().unwrap();
}

/// In the same group, in a session of its own, and twice forked into one: all of it goes, and nothing else.
fn whole_tree(world: &World) {
    let sandbox = world.start(world.spec());
    let start = |script: &str| {
        let mut command = Command::new(["/bin/sh", "-c", script]);
        command.stdout = Stdio::Pipe;
        command.whole_tree = true;
        sandbox.exec(command).unwrap()
    };
    let other = start("setsid sleep 2001 >/dev/null & echo up");
    assert_eq!(other.wait(TIMEOUT), Ok(CommandExit::Code(0)));
    let mut process = start(
        "sleep 2002 & setsid sleep 2003 & (setsid sh -c 'sleep 2004 & sleep 2005' &) ; echo up; sleep 2006",
    );
    process.stdout.take().unwrap().read_exact(&mut [0; 3]).unwrap();
    let running = || {
        shell(&sandbox, "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -o 'sleep 200[0-9]' | sort -u").stdout
    };
    process.kill_tree().unwrap();
    assert_eq!(process.wait(TIMEOUT), Ok(CommandExit::Signal(9)));
    assert_eq!(running(), "sleep 2001\n", "the other command's stays");
    // A command that kills its adopter loses its tree.
    let killer = start("setsid sleep 2007 & kill -9 $PPID; sleep 2008");
    assert_eq!(killer.wait(TIMEOUT), Ok(CommandExit::Signal(9)));
    assert_eq!(running(), "sleep 2001\n");
    sandbox.close().unwrap();
}
