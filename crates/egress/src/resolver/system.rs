//! The resolver of this machine: its hosts file first, then its name servers, with a small memory of good answers.

use super::query::query;
use super::{HostsFile, ResolvConf, Resolve, ResolveError, Resolving};
use crate::dns::{DnsReply, QuestionType, ReplyCode};
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const MAX_REMEMBERED: usize = 1024;
const LONGEST_MEMORY: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub struct SystemResolver {
    hosts: HostsFile,
    servers: ResolvConf,
    known: Mutex<HashMap<String, (Instant, Vec<IpAddr>)>>,
}

impl SystemResolver {
    pub fn new(hosts: HostsFile, servers: ResolvConf) -> Self {
        Self { hosts, servers, known: Mutex::default() }
    }

    /// From `/etc/hosts` and `/etc/resolv.conf`; a file that is not there says nothing.
    pub fn load() -> Self {
        let read = |path: &str| std::fs::read_to_string(Path::new(path)).unwrap_or_default();
        Self::new(HostsFile::parse(&read("/etc/hosts")), ResolvConf::parse(&read("/etc/resolv.conf")))
    }

    async fn look_up(&self, host: &str) -> Result<Vec<IpAddr>, ResolveError> {
        if let Some(addresses) = self.hosts.find(host.trim_end_matches('.')) {
            return Ok(addresses.to_vec());
        }
        if let Some(addresses) = self.remembered(host) {
            return Ok(addresses);
        }
        let mut outcome = Err(ResolveError::NoSuchName { host: host.to_owned() });
        for name in self.servers.candidates(host) {
            outcome = self.ask_servers(host, &name).await;
            if !matches!(outcome, Err(ResolveError::NoSuchName { .. })) {
                break;
            }
        }
        let (addresses, ttl) = outcome?;
        self.remember(host, &addresses, ttl);
        Ok(addresses)
    }

    async fn ask_servers(&self, host: &str, name: &str) -> Result<(Vec<IpAddr>, Duration), ResolveError> {
        let mut reason = "no name server answered".to_owned();
        for _ in 0..self.servers.attempts {
            for server in &self.servers.servers {
                let asking = async {
                    tokio::join!(
                        query(*server, name, QuestionType::A),
                        query(*server, name, QuestionType::Aaaa)
                    )
                };
                let (v4, v6) = match tokio::time::timeout(self.servers.timeout, asking).await {
                    Err(_) => {
                        reason = format!("{server} did not answer in time");
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

    fn remembered(&self, host: &str) -> Option<Vec<IpAddr>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(host).filter(|(until, _)| *until > Instant::now()).map(|(_, addresses)| addresses.clone())
    }

    fn remember(&self, host: &str, addresses: &[IpAddr], ttl: Duration) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_REMEMBERED {
            known.clear();
        }
        known.insert(host.to_owned(), (Instant::now() + ttl.min(LONGEST_MEMORY), addresses.to_vec()));
    }
}

/// `None`: this server failed, another may not. `Some(None)`: there is no such address.
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
    fn resolve<'a>(&'a self, host: &'a str) -> Resolving<'a> {
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
                // A guess comes first and must not be believed.
                let mut guess = write_reply(&question, ReplyCode::Fine, Some(Ipv4Addr::new(10, 6, 6, 6)), 60);
                guess[0] ^= 0xff;
                socket.send_to(&guess, peer).await.unwrap();
                socket.send_to(&write_reply(&question, code, address, 60), peer).await.unwrap();
            }
        });
        address
    }

    #[tokio::test]
    async fn names_come_from_hosts_then_from_servers_then_from_memory() {
        let asked = Arc::new(AtomicUsize::new(0));
        let mut servers = ResolvConf::parse("");
        servers.servers = vec![server(Arc::clone(&asked)).await];
        let resolver = SystemResolver::new(HostsFile::parse("192.0.2.1 pinned.test"), servers);
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
        let mut servers = ResolvConf::parse("options attempts:1");
        servers.servers = vec![silent.local_addr().unwrap()];
        servers.timeout = Duration::from_millis(50);
        let resolver = SystemResolver::new(HostsFile::default(), servers);
        let error = resolver.resolve("api.test").await.unwrap_err().to_string();
        assert!(error.contains("did not answer in time"), "{error}");
    }
}
