//! Identities of real processes: this one, and copies of a small program that it starts.

use super::*;
use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("egress-identity-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&path));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn copy_of(&self, program: &str, name: &str) -> PathBuf {
        let target = self.0.join(name);
        fs::copy(program, &target).unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(0o755)).unwrap();
        target
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn pair() -> (TcpStream, TcpStream, SocketAddr, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, peer) = listener.accept().unwrap();
    let local = server.local_addr().unwrap();
    (client, server, peer, local)
}

/// A program that connects to `port` and waits; `bash` has sockets built in.
fn connecting(bash: &PathBuf, port: u16) -> Child {
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; echo go >&3; read -r line <&3");
    Command::new(bash).args(["-c", &script]).stdin(Stdio::null()).spawn().unwrap()
}

fn identify_next(
    identifier: &ProcIdentifier,
    listener: &TcpListener,
) -> Result<IdentifiedCaller, IdentityError> {
    let (mut stream, peer) = listener.accept().unwrap();
    stream.read_exact(&mut [0; 3]).unwrap();
    identifier.identify(peer, stream.local_addr().unwrap())
}

#[test]
fn this_process_is_found_behind_its_own_socket() {
    let (_client, _server, peer, local) = pair();
    let caller = ProcIdentifier::new(std::process::id()).identify(peer, local).unwrap();
    assert_eq!(caller.pid, std::process::id());
    assert_eq!(caller.program.path, std::env::current_exe().unwrap().to_string_lossy());
    assert!(caller.ancestors.is_empty(), "the search ends at the sandbox's first process");
    // A child that another test starts holds the socket too until it runs its own program.
    let own = [SocketOwner { pid: caller.pid, path: caller.program.path }];
    let is_alone = (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        ProcIdentifier::new(std::process::id()).owners(peer, local).unwrap() == own
    });
    assert!(is_alone);
}

#[test]
fn a_socket_of_another_tree_has_no_owner() {
    let mut other = Command::new("sleep").arg("30").spawn().unwrap();
    let (_client, _server, peer, local) = pair();
    let outcome = ProcIdentifier::new(other.id()).identify(peer, local);
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(matches!(outcome, Err(IdentityError::NoOwner)), "{outcome:?}");
}

#[test]
fn a_closed_socket_is_not_found() {
    let (client, server, peer, local) = pair();
    let elsewhere = SocketAddr::new(local.ip(), 1);
    drop((client, server));
    let outcome = ProcIdentifier::new(std::process::id()).identify(peer, elsewhere);
    assert!(matches!(outcome, Err(IdentityError::NoSocket)), "{outcome:?}");
}

#[test]
fn a_child_is_distinguished_from_its_ancestors_and_a_swapped_program_is_refused() {
    let directory = Directory::new("swap");
    let bash = directory.copy_of("/bin/bash", "tool");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let identifier = ProcIdentifier::new(std::process::id());

    let mut child = connecting(&bash, port);
    let caller = identify_next(&identifier, &listener).unwrap();
    assert_eq!((caller.pid, caller.program.path.as_str()), (child.id(), bash.to_str().unwrap()));
    assert_eq!(caller.ancestors[0].path, std::env::current_exe().unwrap().to_string_lossy());
    child.kill().unwrap();
    child.wait().unwrap();

    // The same file, replaced by the same content, is still the same program.
    fs::remove_file(&bash).unwrap();
    directory.copy_of("/bin/bash", "tool");
    let mut child = connecting(&bash, port);
    assert_eq!(identify_next(&identifier, &listener).unwrap().program, caller.program);
    child.kill().unwrap();
    child.wait().unwrap();

    fs::remove_file(&bash).unwrap();
    directory.copy_of("/bin/bash", "tool");
    let mut longer = fs::read(&bash).unwrap();
    longer.push(0);
    fs::write(&bash, longer).unwrap();
    let mut child = connecting(&bash, port);
    let outcome = identify_next(&identifier, &listener);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(matches!(outcome, Err(IdentityError::Swapped { .. })), "{outcome:?}");
}

#[test]
fn a_socket_that_two_programs_hold_is_ambiguous() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script =
        format!("exec 3<>/dev/tcp/127.0.0.1/{port}; sleep 30 & echo go >&3; read -r line <&3; kill $!");
    let mut child = Command::new("/bin/bash").args(["-c", &script]).stdin(Stdio::null()).spawn().unwrap();
    let (mut stream, peer) = listener.accept().unwrap();
    stream.read_exact(&mut [0; 3]).unwrap();
    let identifier = ProcIdentifier::new(std::process::id());
    // The background child is bash until it has become sleep.
    let outcome = (0..100)
        .map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            identifier.identify(peer, stream.local_addr().unwrap())
        })
        .find(Result::is_err);
    // A program that the opener started may hold its connection too. A program that it did not start may not.
    let local = stream.local_addr().unwrap();
    let program = |pid: u32| {
        let tree = ProcessTree::load(&identifier.proc, identifier.root).unwrap();
        identifier.programs(&tree, pid).unwrap().unwrap().remove(0)
    };
    let bash = identifier.check_holder(&program(child.id()), peer, local);
    let other = ProgramFile { path: "/usr/bin/other".to_owned(), sha256: program(child.id()).sha256 };
    let stranger = identifier.check_holder(&other, peer, local);
    drop(stream);
    child.wait().unwrap();
    assert!(matches!(outcome, Some(Err(IdentityError::Ambiguous { .. }))), "{outcome:?}");
    assert!(bash.is_ok(), "{bash:?}");
    assert!(matches!(stranger, Err(IdentityError::Passed { .. })), "{stranger:?}");
}
