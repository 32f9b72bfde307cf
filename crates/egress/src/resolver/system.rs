//! The resolver of this machine: its own, through `getent`, or a direct query of its name servers where it has none. Good
//! answers are cached for a short time.

use super::config::{HostsFile, ResolvConf};
use super::getent::{Getent, GetentAnswer};
use super::query::query;
use super::{Resolve, ResolveError, ResolveFuture};
use crate::dns::{DnsReply, QuestionType, ReplyCode};
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

const MAX_CACHED: usize = 1024;
const LONGEST_CACHED: Duration = Duration::from_secs(300);
/// `getent` reports no lifetime. A page with many requests needs one lookup; a changed record is seen soon.
const GETENT_CACHED: Duration = Duration::from_secs(10);
/// At the same time; the sandbox chooses how many names are asked for.
const MAX_GETENT: usize = 16;

#[derive(Debug)]
pub struct SystemResolver {
    getent: Getent,
    getent_permits: Semaphore,
    fallback: DirectQuery,
    cache: Mutex<HashMap<String, (Instant, Vec<IpAddr>)>>,
}

/// The fallback for hosts without `getent`, such as minimal images. It is written by hand because the messages are those
/// of the sandbox's own name server (`dns`), and A and AAAA over UDP and TCP is all it needs. `hickory-resolver` would
/// add some forty crates for this rare case.
#[derive(Debug)]
struct DirectQuery {
    hosts: HostsFile,
    config: ResolvConf,
}

impl SystemResolver {
    /// Reads `/etc/hosts` and `/etc/resolv.conf` for the fallback; a missing file is an empty one.
    pub fn load() -> Self {
        let read = |path: &str| std::fs::read_to_string(Path::new(path)).unwrap_or_default();
        let hosts = HostsFile::parse(&read("/etc/hosts"));
        let config = ResolvConf::parse(&read("/etc/resolv.conf"));
        Self::new(Getent::default(), DirectQuery { hosts, config })
    }

    fn new(getent: Getent, fallback: DirectQuery) -> Self {
        Self { getent, getent_permits: Semaphore::new(MAX_GETENT), fallback, cache: Mutex::default() }
    }

    async fn look_up(&self, host: &str) -> Result<Vec<IpAddr>, ResolveError> {
        if let Some(addresses) = self.cached(host) {
            return Ok(addresses);
        }
        let (addresses, ttl) = match self.ask_getent(host).await {
            GetentAnswer::Addresses(addresses) => (addresses, GETENT_CACHED),
            GetentAnswer::NoSuchName => return Err(ResolveError::NoSuchName { host: host.to_owned() }),
            GetentAnswer::Failed(reason) => {
                return Err(ResolveError::NoAnswer { host: host.to_owned(), reason });
            }
            GetentAnswer::Unsupported => self.fallback.look_up(host).await?,
        };
        self.cache(host, &addresses, ttl);
        Ok(addresses)
    }

    async fn ask_getent(&self, host: &str) -> GetentAnswer {
        let getent = self.getent.clone();
        let host = host.to_owned();
        let Ok(_permit) = self.getent_permits.acquire().await else { return GetentAnswer::Unsupported };
        tokio::task::spawn_blocking(move || getent.ask(&host))
            .await
            .unwrap_or_else(|error| GetentAnswer::Failed(error.to_string()))
    }

    fn cached(&self, host: &str) -> Option<Vec<IpAddr>> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.get(host).filter(|(until, _)| *until > Instant::now()).map(|(_, addresses)| addresses.clone())
    }

    fn cache(&self, host: &str, addresses: &[IpAddr], ttl: Duration) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() >= MAX_CACHED {
            cache.clear();
        }
        cache.insert(host.to_owned(), (Instant::now() + ttl.min(LONGEST_CACHED), addresses.to_vec()));
    }
}

impl DirectQuery {
    async fn look_up(&self, host: &str) -> Result<(Vec<IpAddr>, Duration), ResolveError> {
        if let Some(addresses) = self.hosts.find(host.trim_end_matches('.')) {
            return Ok((addresses.to_vec(), GETENT_CACHED));
        }
        let mut outcome = Err(ResolveError::NoSuchName { host: host.to_owned() });
        for name in self.config.candidates(host) {
            outcome = self.ask_servers(host, &name).await;
            if !matches!(outcome, Err(ResolveError::NoSuchName { .. })) {
                break;
            }
        }
        outcome
    }

    async fn ask_servers(&self, host: &str, name: &str) -> Result<(Vec<IpAddr>, Duration), ResolveError> {
        let mut reason = "no name server answered".to_owned();
        for _ in 0..self.config.attempts {
            for server in &self.config.servers {
                let asking = async {
                    tokio::join!(
                        query(*server, name, QuestionType::A),
                        query(*server, name, QuestionType::Aaaa)
                    )
                };
                let (v4, v6) = match tokio::time::timeout(self.config.timeout, asking).await {
                    Err(_) => {
                        reason = format!("{server} did not respond in time");
                        continue;
                    }
                    Ok((Err(error), _)) => {
                        reason = format!("{server}: {error}");
                        continue;
                    }
                    Ok((Ok(v4), v6)) => (v4, v6.ok()),
                };
                match combine(&v4, v6.as_ref()) {
                    Some(Some(found)) => return Ok(found),
                    Some(None) => return Err(ResolveError::NoSuchName { host: host.to_owned() }),
                    None => reason = format!("{server} answered with {:?}", v4.code),
                }
            }
        }
        Err(ResolveError::NoAnswer { host: host.to_owned(), reason })
    }
}

/// `None`: this server failed, another may not. `Some(None)`: the name has no address.
fn combine(v4: &DnsReply, v6: Option<&DnsReply>) -> Option<Option<(Vec<IpAddr>, Duration)>> {
    let addresses: Vec<IpAddr> =
        v4.addresses.iter().chain(v6.map_or(&[][..], |reply| &reply.addresses)).copied().collect();
    if addresses.is_empty() {
        return match v4.code {
            ReplyCode::Failure(_) => None,
            ReplyCode::Fine | ReplyCode::NoSuchName => Some(None),
        };
    }
    let ttl = v4.ttl_seconds.min(v6.map_or(u32::MAX, |reply| reply.ttl_seconds));
    Some(Some((addresses, Duration::from_secs(u64::from(ttl)))))
}

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> ResolveFuture<'a> {
        Box::pin(self.look_up(host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dns::{read_question, write_reply};
    use std::net::{Ipv4Addr, SocketAddr};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::net::UdpSocket;

    async fn server(asked: Arc<AtomicUsize>) -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        tokio::spawn(async move {
            let mut buffer = [0; 512];
            loop {
                let (length, peer) = socket.recv_from(&mut buffer).await.unwrap();
                asked.fetch_add(1, Ordering::Relaxed);
                let question = read_question(&buffer[..length]).unwrap();
                let found = question.name == "api.test" && question.kind == QuestionType::A;
                let address = found.then_some(Ipv4Addr::new(192, 0, 2, 9));
                let code = if question.name == "api.test" { ReplyCode::Fine } else { ReplyCode::NoSuchName };
                // A guessed reply comes first and must not be accepted.
                let mut guess = write_reply(&question, ReplyCode::Fine, Some(Ipv4Addr::new(10, 6, 6, 6)), 60);
                guess[0] ^= 0xff;
                socket.send_to(&guess, peer).await.unwrap();
                socket.send_to(&write_reply(&question, code, address, 60), peer).await.unwrap();
            }
        });
        address
    }

    /// On a host without `getent`.
    fn fallback(hosts: &str, config: ResolvConf) -> SystemResolver {
        let missing = Getent { program: "/nonexistent/getent".into(), ..Getent::default() };
        SystemResolver::new(missing, DirectQuery { hosts: HostsFile::parse(hosts), config })
    }

    #[tokio::test]
    async fn the_hosts_own_resolver_decides_and_is_cached() {
        let asked = Arc::new(AtomicUsize::new(0));
        let mut config = ResolvConf::parse("");
        config.servers = vec![server(Arc::clone(&asked)).await];
        // The hosts file and the name servers also have these names, but are not asked.
        let fallback = DirectQuery { hosts: HostsFile::parse("192.0.2.1 api.test"), config };
        let script = std::env::temp_dir().join(format!("egress-resolver-{}", std::process::id()));
        let calls = script.with_extension("calls");
        let text = format!(
            "#!/bin/sh\necho x >> {}\n[ \"$3\" = api.test ] || exit 2\necho '10.8.0.5 STREAM'\n",
            calls.display()
        );
        std::fs::write(&script, text).unwrap();
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let getent = Getent { program: script.clone(), ..Getent::default() };
        let resolver = SystemResolver::new(getent, fallback);
        for _ in 0..3 {
            assert_eq!(resolver.resolve("api.test").await, Ok(vec![[10, 8, 0, 5].into()]));
        }
        let none = resolver.resolve("other.test").await;
        assert_eq!(none, Err(ResolveError::NoSuchName { host: "other.test".into() }));
        let count = std::fs::read_to_string(&calls).unwrap().lines().count();
        std::fs::remove_file(script).unwrap();
        std::fs::remove_file(calls).unwrap();
        assert_eq!((count, asked.load(Ordering::Relaxed)), (2, 0));
    }

    #[tokio::test]
    async fn names_come_from_hosts_then_from_servers_then_from_memory() {
        let asked = Arc::new(AtomicUsize::new(0));
        let mut config = ResolvConf::parse("");
        config.servers = vec![server(Arc::clone(&asked)).await];
        let resolver = fallback("192.0.2.1 pinned.test", config);
        assert_eq!(resolver.resolve("pinned.test").await, Ok(vec![[192, 0, 2, 1].into()]));
        assert_eq!(asked.load(Ordering::Relaxed), 0);
        for _ in 0..2 {
            assert_eq!(resolver.resolve("api.test").await, Ok(vec![[192, 0, 2, 9].into()]));
            assert_eq!(asked.load(Ordering::Relaxed), 2);
        }
        let none = resolver.resolve("other.test").await;
        assert_eq!(none, Err(ResolveError::NoSuchName { host: "other.test".into() }));
    }

    #[tokio::test]
    async fn a_silent_server_is_given_up_in_time() {
        let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let mut config = ResolvConf::parse("options attempts:1");
        config.servers = vec![silent.local_addr().unwrap()];
        config.timeout = Duration::from_millis(50);
        let resolver = fallback("", config);
        let error = resolver.resolve("api.test").await.unwrap_err().to_string();
        assert!(error.contains("did not respond in time"), "{error}");
    }
}
