//! The other proxies, each set up for the same work and started beside ours.

use super::ADDRESS;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(super) const SQUID_TUNNEL: u16 = 3129;
pub(super) const SQUID_BUMP: u16 = 3130;
pub(super) const TINYPROXY: u16 = 3131;
pub(super) const MITMPROXY: u16 = 3132;

/// Ends with this value.
pub(super) struct Process(Child);

pub(super) struct Peer {
    _process: Process,
}

impl Process {
    /// This program in another role; it is ready when its file exists.
    pub(super) fn own(arguments: &[&str], ready: &Path) -> Self {
        let child = Command::new(std::env::current_exe().unwrap()).args(arguments).spawn().unwrap();
        let process = Self(child);
        wait_for(|| ready.exists());
        process
    }

    pub(super) fn resident_kb(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").trim().parse().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn wait_for(ready: impl Fn() -> bool) {
    let started = Instant::now();
    while !ready() {
        assert!(started.elapsed() < Duration::from_secs(60), "a peer does not start");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn listens(port: u16) -> bool {
    std::net::TcpStream::connect((ADDRESS, port)).is_ok()
}

fn found(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let places = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/lib/squid".into()]);
    places.map(|place| place.join(program)).find(|path| path.exists())
}

fn start(program: &Path, arguments: &[&str], port: u16) -> Option<Peer> {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    let process = Process(command.spawn().ok()?);
    wait_for(|| listens(port));
    Some(Peer { _process: process })
}

impl Peer {
    pub(super) fn squid(directory: &Path) -> Option<Self> {
        let squid = found("squid")?;
        let certificates = found("security_file_certgen")?;
        let home = directory.join("squid");
        std::fs::create_dir(&home).unwrap();
        let root = home.display();
        let key = Command::new("openssl")
            .args([
                "req",
                "-new",
                "-newkey",
                "rsa:2048",
                "-days",
                "7",
                "-nodes",
                "-x509",
                "-subj",
                "/CN=squid",
            ])
            .args(["-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=keyCertSign"])
            .args(["-keyout", &format!("{root}/ca.pem"), "-out", &format!("{root}/crt.pem")])
            .output()
            .ok()?;
        assert!(key.status.success());
        let both = std::fs::read_to_string(home.join("crt.pem")).unwrap()
            + &std::fs::read_to_string(home.join("ca.pem")).unwrap();
        std::fs::write(home.join("both.pem"), both).unwrap();
        std::fs::copy(home.join("crt.pem"), directory.join("squid.pem")).unwrap();
        let made =
            Command::new(&certificates).args(["-c", "-s", &format!("{root}/db"), "-M", "4MB"]).output();
        assert!(made.ok()?.status.success());
        let owned = Command::new("chown").args(["-R", "proxy:proxy"]).arg(&home).status();
        assert!(owned.ok()?.success());
        let configuration = format!(
            "http_port {ADDRESS}:{SQUID_TUNNEL}\n\
             http_port {ADDRESS}:{SQUID_BUMP} ssl-bump tls-cert={root}/both.pem generate-host-certificates=on dynamic_cert_mem_cache_size=4MB\n\
             sslcrtd_program {} -s {root}/db -M 4MB\n\
             tls_outgoing_options cafile={}/upstream.pem\n\
             acl bumped localport {SQUID_BUMP}\nssl_bump bump bumped\nssl_bump splice all\n\
             http_access allow all\ncache deny all\naccess_log none\ncache_log {root}/cache.log\npid_filename {root}/squid.pid\n\
             coredump_dir {root}\nvisible_hostname lab\nhosts_file {}/hosts\nworkers 1\nclient_persistent_connections on\nserver_persistent_connections on\nmax_filedescriptors 8192\n",
            certificates.display(),
            directory.display(),
            directory.display()
        );
        std::fs::write(home.join("squid.conf"), configuration).unwrap();
        start(&squid, &["-N", "-f", &format!("{root}/squid.conf")], SQUID_BUMP)
    }

    pub(super) fn tinyproxy(directory: &Path) -> Option<Self> {
        let program = found("tinyproxy")?;
        let path = directory.join("tinyproxy.conf");
        let configuration =
            format!("Port {TINYPROXY}\nListen {ADDRESS}\nTimeout 600\nMaxClients 2000\nLogLevel Critical\n");
        std::fs::write(&path, configuration).unwrap();
        start(&program, &["-d", "-c", &path.to_string_lossy()], TINYPROXY)
    }

    pub(super) fn mitmproxy(directory: &Path) -> Option<Self> {
        let program = found("mitmdump")?;
        let home = directory.join("mitmproxy");
        let confdir = format!("confdir={}", home.display());
        let trusted = format!("ssl_verify_upstream_trusted_ca={}/upstream.pem", directory.display());
        let port = MITMPROXY.to_string();
        let arguments = ["-q", "--listen-host", ADDRESS, "-p", &port, "--set", &confdir, "--set", &trusted];
        let peer = start(&program, &arguments, MITMPROXY)?;
        let certificate = home.join("mitmproxy-ca-cert.pem");
        wait_for(|| certificate.exists());
        std::fs::copy(certificate, directory.join("mitmproxy.pem")).unwrap();
        Some(peer)
    }
}
