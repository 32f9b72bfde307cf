//! A PostgreSQL server of our own: a cluster in a temporary directory, reachable through a socket in it and nothing else. It ends
//! with the process that started it, however that ends.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::fixture::Directory;

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// The server is a child of a shell that waits for us: a word stops the server, and our end (the pipe closes) also removes
/// everything.
const WATCH: &str = r#"
    "$1" -D "$2/data" -k "$2" -h '' -c fsync=$3 -c max_connections=100 -c log_min_messages=fatal $4 &
    server=$!
    if read -r _; then kill -QUIT $server; wait $server; exit 0; fi
    kill -QUIT $server; wait $server; rm -rf "$2"
"#;

/// Whether the server waits for its disk: the tests need not, the benches must.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Durability {
    Memory,
    Disk,
}

pub(crate) struct Cluster {
    directory: Directory,
    programs: PathBuf,
    durability: Durability,
    /// What moves the server's clock.
    clock: Option<&'static str>,
    /// Further settings of the server, as its command line has them.
    settings: String,
    port: u16,
    watch: Child,
    /// Closing it ends the server.
    line: Option<ChildStdin>,
}

/// The cluster that all tests share, or why there is none.
pub(crate) fn shared() -> Result<&'static Cluster, &'static str> {
    static SHARED: OnceLock<Result<Cluster, String>> = OnceLock::new();
    SHARED.get_or_init(|| Cluster::start(Durability::Memory)).as_ref().map_err(String::as_str)
}

impl Cluster {
    pub(crate) fn start(durability: Durability) -> Result<Self, String> {
        Self::start_with(durability, None)
    }

    /// A server that takes its clock to be as far ahead as it is told to.
    pub(crate) fn with_clock() -> Result<Self, String> {
        let library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
        if !Path::new(library).exists() {
            return Err("libfaketime is not installed".to_owned());
        }
        Self::start_with(Durability::Memory, Some(library))
    }

    /// As in `+1d`.
    pub(crate) fn set_clock(&self, distance: &str) {
        fs::write(self.directory.path().join("clock"), distance).unwrap();
    }

    /// A server that takes only encrypted connections of clients with a certificate, and the port where it does. The directory has
    /// the certificates.
    pub(crate) fn with_tls(files: &Path) -> Result<(Self, u16), String> {
        let port = free_port();
        let key = files.join("server.key");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).map_err(|error| error.to_string())?;
        if let Some((uid, gid)) = user()? {
            chown(&key, Some(uid), Some(gid)).map_err(|error| error.to_string())?;
        }
        let files = files.display();
        let settings = format!(
            "-c listen_addresses=127.0.0.1 -p {port} -c ssl=on -c ssl_cert_file={files}/server.pem -c ssl_key_file={files}/server.key -c ssl_ca_file={files}/ca.pem"
        );
        let access = "local all all trust\nhostssl all all 127.0.0.1/32 cert\n";
        Ok((Self::start_with_access(Durability::Memory, None, &settings, port, Some(access))?, port))
    }

    /// A pooler in transaction mode before this server.
    pub(crate) fn pooler(&self, directory: &Directory) -> Result<Pooler, String> {
        let program =
            ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].into_iter().find(|path| Path::new(path).exists());
        let program = program.ok_or("pgbouncer is not installed")?;
        let port = free_port();
        let settings = format!(
            "[databases]\n* = host={} port={} user=fullsend\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 2\nserver_login_retry = 1\n",
            self.directory().display(),
            self.port
        );
        let file = directory.path().join("pgbouncer.ini");
        fs::write(&file, settings).map_err(|error| error.to_string())?;
        let mut command = as_user(Command::new(program), user()?);
        command
            .arg("-q")
            .arg(&file)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = command.spawn().map_err(|error| error.to_string())?;
        let start = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            if start.elapsed() > Duration::from_secs(30) {
                return Err("pgbouncer does not answer".to_owned());
            }
            sleep(Duration::from_millis(20));
        }
        Ok(Pooler { process, port })
    }

    /// Where the server's socket is.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    fn start_with(durability: Durability, clock: Option<&'static str>) -> Result<Self, String> {
        Self::start_with_access(durability, clock, "", 5432, None)
    }

    fn start_with_access(
        durability: Durability,
        clock: Option<&'static str>,
        settings: &str,
        port: u16,
        access: Option<&str>,
    ) -> Result<Self, String> {
        let programs = programs().ok_or("PostgreSQL is not installed")?;
        let user = user()?;
        let directory = match durability {
            Durability::Memory => Directory::new(),
            Durability::Disk => Directory::below(&std::env::temp_dir()),
        };
        if let Some((uid, gid)) = user {
            chown(directory.path(), Some(uid), Some(gid)).map_err(|error| error.to_string())?;
        }
        // The socket is for whoever runs the program under test; the data are in a directory of their own.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o711)).unwrap();
        let made = as_user(Command::new(programs.join("initdb")), user)
            .args(["--username=fullsend", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", "-D"])
            .arg(directory.path().join("data"))
            .output()
            .map_err(|error| error.to_string())?;
        if !made.status.success() {
            return Err(format!("initdb failed: {}", String::from_utf8_lossy(&made.stderr)));
        }
        fs::write(directory.path().join("clock"), "+0").unwrap();
        if let Some(access) = access {
            fs::write(directory.path().join("data/pg_hba.conf"), access)
                .map_err(|error| error.to_string())?;
        }
        let settings = settings.to_owned();
        let (watch, line) = watch(&programs, directory.path(), durability, clock, &settings, user);
        let cluster =
            Self { directory, programs, durability, clock, settings, port, watch, line: Some(line) };
        cluster.wait_until_it_answers();
        Ok(cluster)
    }

    /// Stops the server at once, as a crash would.
    pub(crate) fn crash(&mut self) {
        use std::io::Write;
        if let Some(mut line) = self.line.take() {
            line.write_all(b"stop\n").unwrap();
            self.watch.wait().unwrap();
        }
    }

    pub(crate) fn start_again(&mut self) {
        let Self { directory, programs, durability, clock, settings, .. } = &*self;
        let (watch, line) = watch(programs, directory.path(), *durability, *clock, settings, user().unwrap());
        (self.watch, self.line) = (watch, Some(line));
        self.wait_until_it_answers();
    }

    fn url(&self, database: &str) -> String {
        let socket = self.directory.path().display().to_string().replace('/', "%2F");
        format!("postgres://fullsend@{socket}:{}/{database}", self.port)
    }

    /// A new and empty database.
    pub(crate) fn database(&self) -> String {
        let name = format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut client = postgres::Client::connect(&self.url("postgres"), postgres::NoTls).unwrap();
        client.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0")).unwrap();
        self.url(&name)
    }

    fn wait_until_it_answers(&self) {
        let start = Instant::now();
        while let Err(error) = postgres::Client::connect(&self.url("postgres"), postgres::NoTls) {
            assert!(start.elapsed() < Duration::from_secs(60), "the server does not answer: {error}");
            sleep(Duration::from_millis(50));
        }
    }
}

/// A pooler that ends with this value.
pub(crate) struct Pooler {
    process: Child,
    port: u16,
}

impl Pooler {
    /// The address of a database through this pooler.
    pub(crate) fn url(&self, database: &str) -> String {
        let (_, name) = database.rsplit_once('/').unwrap();
        format!("postgres://fullsend@127.0.0.1:{}/{name}", self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.crash();
    }
}

fn watch(
    programs: &Path,
    directory: &Path,
    durability: Durability,
    clock: Option<&str>,
    settings: &str,
    user: Option<(u32, u32)>,
) -> (Child, ChildStdin) {
    let fsync = match durability {
        Durability::Memory => "off",
        Durability::Disk => "on",
    };
    let mut command = as_user(Command::new("sh"), user);
    if let Some(library) = clock {
        // Only the calendar moves: what is measured goes on.
        command.env("LD_PRELOAD", library).env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_TIMESTAMP_FILE", directory.join("clock"));
    }
    let mut child = command
        .args(["-c", WATCH, "sh"])
        .arg(programs.join("postgres"))
        .arg(directory)
        .arg(fsync)
        .arg(settings)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let line = child.stdin.take().unwrap();
    (child, line)
}

fn as_user(mut command: Command, user: Option<(u32, u32)>) -> Command {
    if let Some((uid, gid)) = user {
        command.uid(uid).gid(gid);
    }
    command
}

/// Where the server's programs are: Debian does not put them on the path.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let debian = debian.map(|version| version.path().join("bin"));
    std::env::split_paths(&path)
        .chain(debian)
        .find(|directory| directory.join("initdb").exists() && directory.join("postgres").exists())
}

/// PostgreSQL does not run as root: then it runs as somebody who owns nothing else.
fn user() -> Result<Option<(u32, u32)>, String> {
    if fs::metadata("/proc/self").map_err(|error| error.to_string())?.uid() != 0 {
        return Ok(None);
    }
    let passwords = fs::read_to_string("/etc/passwd").map_err(|error| error.to_string())?;
    let fields = passwords.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let nobody = fields.into_iter().find(|fields| fields[0] == "nobody" && fields.len() > 3);
    let nobody = nobody.ok_or("there is no user `nobody` to run PostgreSQL")?;
    let number = |text: &str| text.parse::<u32>().map_err(|error| error.to_string());
    Ok(Some((number(nobody[2])?, number(nobody[3])?)))
}

/// A port for a server that must be told one. It lies below those that the kernel gives to other listeners and to connections, so
/// none of them takes it before the server does.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id().wrapping_mul(31);
    let mut tries = (0..20_000).map(|_| {
        let offset = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % 20_000;
        10_000 + u16::try_from(offset).unwrap()
    });
    tries.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a free port")
}
