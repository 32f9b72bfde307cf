//! A network of a test's own: a namespace with private addresses on its loopback interface, names for them, and a TLS
//! server that keeps every byte it is sent. Nothing leaves the machine.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{Ran, Who, World, program, skip};

/// The names that lead to the server, which all have certificates of the lab's own authority.
pub const HOSTS: &[&str] = &["api.lab.test", "body.lab.test", "other.lab.test"];

/// Reads whole requests, keeps them with the name they came for, and answers each with what it was.
const SERVER: &str = r#"
import os, socket, ssl, sys, threading
certificate, key, received, ready = sys.argv[1:5]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
names = {}
context.sni_callback = lambda s, name, c: names.__setitem__(id(s), name)
lock = threading.Lock()
def serve(plain):
    try:
        stream = context.wrap_socket(plain, server_side=True)
        data = b""
        while b"\r\n\r\n" not in data:
            portion = stream.recv(65536)
            if not portion: return
            data += portion
        head, body = data.split(b"\r\n\r\n", 1)
        length = 0
        for line in head.split(b"\r\n")[1:]:
            name, value = line.split(b":", 1)
            if name.lower() == b"content-length": length = int(value)
        while len(body) < length:
            portion = stream.recv(65536)
            if not portion: break
            body += portion
        with lock, open(received, "ab") as file:
            file.write(b"\n=== " + str(names.get(id(stream))).encode() + b"\n" + head + b"\r\n\r\n" + body)
        answer = b"reached " + head.split(b" ")[0]
        # Some clients send a password only when they are asked for it.
        asks = b"/private/" in head.split(b"\r\n")[0] and b"\r\nauthorization:" not in head.lower()
        status = b"401 Unauthorized\r\nWWW-Authenticate: Basic realm=lab" if asks else b"200 OK"
        stream.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(answer) + answer)
        stream.close()
    except OSError as error:
        print(error, file=sys.stderr)
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("10.77.0.1", 443))
listener.listen(64)
open(ready, "w").close()
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"#;

/// Runs in the namespace: addresses, names, the server, a model if the test wrote one, then the command; they end with it.
const ENTER: &str = r#"
ip link set lo up && ip addr add 10.77.0.1/32 dev lo && mount --bind "$1/hosts" /etc/hosts || exit 99
/usr/bin/python3 "$1/server.py" "$1/leaf.pem" "$1/leaf.key" "$1/received" "$1/ready" 2> "$1/server.log" &
server=$!
if [ -e "$1/model.py" ]; then /usr/bin/python3 "$1/model.py" 2> "$1/model.log" & server="$server $!"; fi
for i in $(seq 200); do [ -e "$1/ready" ] && break; sleep 0.05; done
shift
"$@"
code=$?
kill $server
exit $code
"#;

/// Gives the world's runs the lab's authority. `None` without root, python3, openssl and ip; the test is then skipped
/// with a reason.
pub fn build(world: World) -> Option<World> {
    if !rustix::process::geteuid().is_root() {
        skip("lab", "only root can give a namespace of its own an address");
        return None;
    }
    for tool in ["/usr/bin/python3", "/usr/bin/openssl", "/usr/bin/unshare", "/usr/bin/curl"] {
        if !Path::new(tool).exists() {
            skip("lab", &format!("{tool} is not installed"));
            return None;
        }
    }
    world.write("lab/server.py", SERVER);
    world.write("lab/enter.sh", ENTER);
    world.write("lab/hosts", format!("127.0.0.1 localhost\n10.77.0.1 {}\n", HOSTS.join(" ")));
    certificates(&world.path("lab"));
    let roots = world.path("lab/ca.pem");
    Some(world.env("SSL_CERT_FILE", roots.to_str().unwrap()))
}

fn certificates(lab: &Path) {
    let names = HOSTS.iter().map(|host| format!("DNS:{host}")).collect::<Vec<_>>().join(",");
    fs::write(lab.join("leaf.cnf"), format!("subjectAltName={names}\nbasicConstraints=CA:FALSE\n")).unwrap();
    let openssl = |arguments: &str| {
        let done = Command::new("openssl").args(arguments.split(' ')).current_dir(lab).output().unwrap();
        assert!(done.status.success(), "{arguments}: {}", String::from_utf8_lossy(&done.stderr));
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(&format!("req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=lab"));
    openssl(&format!("req {key} -keyout leaf.key -out leaf.csr -subj /CN=leaf"));
    openssl(
        "x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile leaf.cnf -out leaf.pem",
    );
}

/// Runs the program in the lab.
pub fn run(world: &World, who: Who, arguments: &[&str]) -> Option<Ran> {
    let words = match who {
        Who::Caller => vec![program().to_string_lossy().into_owned()],
        Who::User => world.words_of_user()?,
    };
    let enter = world.path("lab/enter.sh");
    let lab = world.path("lab");
    let mut all: Vec<&OsStr> = ["--net", "--mount", "sh"]
        .map(OsStr::new)
        .into_iter()
        .chain([enter.as_os_str(), lab.as_os_str()])
        .collect();
    all.extend(words.iter().map(OsStr::new));
    all.extend(arguments.iter().map(OsStr::new));
    let ran = world.run_program(Path::new("/usr/bin/unshare"), &all);
    if ran.code == 99 {
        skip("lab", &format!("this machine gives no namespace an address: {}", ran.err.trim()));
        return None;
    }
    Some(ran)
}

/// Every byte that the server was sent.
pub fn received(world: &World) -> Vec<u8> {
    fs::read(world.path("lab/received")).unwrap_or_default()
}
