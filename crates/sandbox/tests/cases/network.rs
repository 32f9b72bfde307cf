//! The network: sockets made inside are served from outside, and nothing else leads out.

use crate::runner::Case;
use crate::world::{TIMEOUT, World, shell};
use sandbox::{LocalRange, Mount, MountKind, Sandbox, Socket, SocketKind, SocketSpec};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

pub(crate) const CASES: &[Case] = &[
    Case { name: "sockets_inside_are_served_from_outside", run: served },
    Case { name: "many_sockets_keep_their_order", run: many },
    Case { name: "a_socket_file_of_the_host_can_be_lent", run: lent },
    Case { name: "the_host_cannot_be_reached", run: unreachable },
];

fn tcp(address: &str) -> SocketSpec {
    SocketSpec { kind: SocketKind::TcpListener, address: address.parse().unwrap() }
}

fn served(world: &World) {
    let mut spec = world.spec();
    spec.network.local_ranges = vec![LocalRange { address: "198.18.0.0".parse().unwrap(), prefix_bits: 15 }];
    let udp = SocketSpec { kind: SocketKind::Udp, address: "127.0.0.1:53".parse().unwrap() };
    spec.network.sockets = vec![tcp("198.18.3.7:443"), udp];
    let mut sandbox = world.start(spec);
    let mut sockets = sandbox.take_sockets().into_iter();
    let (Some(Socket::Tcp(listener)), Some(Socket::Udp(datagrams))) = (sockets.next(), sockets.next()) else {
        panic!("the sockets are not those of the spec");
    };
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert_eq!(stream.local_addr().unwrap().to_string(), "198.18.3.7:443");
        stream.write_all(b"hello\n").unwrap();
        drop(stream);
        datagrams.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut buffer = [0; 16];
        let (length, from) = datagrams.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"ask\n");
        assert!(from.ip().is_loopback());
    });
    let output =
        shell(&sandbox, "exec bash -c 'cat </dev/tcp/198.18.3.7/443; echo ask >/dev/udp/127.0.0.1/53'");
    assert_eq!(output.stdout, "hello\n", "{output:?}");
    server.join().unwrap();
    sandbox.close().unwrap();
}

fn many(world: &World) {
    let mut spec = world.spec();
    spec.network.sockets = (0..450).map(|n| tcp(&format!("127.0.0.1:{}", 20_000 + n))).collect();
    let mut sandbox = world.start(spec);
    let ports: Vec<u16> = sandbox
        .take_sockets()
        .iter()
        .map(|socket| match socket {
            Socket::Tcp(listener) => listener.local_addr().unwrap().port(),
            Socket::Udp(_) => panic!("not a listener"),
        })
        .collect();
    assert_eq!(ports, (20_000..20_450).collect::<Vec<u16>>());
    sandbox.close().unwrap();
}

fn lent(world: &World) {
    let private = world.make_directory("private");
    std::fs::set_permissions(&private, std::fs::Permissions::from_mode(0o700)).unwrap();
    let path = private.join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"hello\n").unwrap();
    });
    let lend = |source| Mount { target: "/opt/socket".into(), kind: MountKind::Socket { source } };
    let mut spec = world.spec();
    spec.mounts.push(lend(path));
    let sandbox = world.start(spec);
    let ask = "exec perl -MIO::Socket::UNIX -e 'print IO::Socket::UNIX->new(Peer=>\"/opt/socket\")->getline'";
    let output = shell(&sandbox, ask);
    assert_eq!(output.stdout, "hello\n", "{output:?}");
    assert!(!shell(&sandbox, "rm /opt/socket").exit.success());
    server.join().unwrap();
    sandbox.close().unwrap();
    let mut spec = world.spec();
    std::fs::write(private.join("file"), b"").unwrap();
    spec.mounts.push(lend(private.join("file")));
    assert!(Sandbox::start(spec).unwrap_err().to_string().contains("not a socket"));
}

fn unreachable(world: &World) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    });
    let sandbox = world.start(world.spec());
    let output = shell(&sandbox, &format!("exec bash -c 'echo inside >/dev/tcp/127.0.0.1/{port}'"));
    assert!(!output.exit.success());
    sandbox.close().unwrap();
    // The same attempt from the host arrives, so the sandbox stopped the first one.
    std::net::TcpStream::connect(("127.0.0.1", port)).unwrap().write_all(b"outside").unwrap();
    assert_eq!(server.join().unwrap(), "outside");
}
