//! Connections of programs that know nothing of the proxy: the address that they dialled says whom they mean.

use super::Proxy;
use super::admission::Destination;
use super::attempt::{Attempt, Via};
use super::inspect::{Greeting, refuse_plainly};
use super::refusal::Refusal;
use super::requests::Site;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpStream;

pub(super) async fn serve(proxy: Arc<Proxy>, client: TcpStream, peer: SocketAddr) {
    let Ok(local) = client.local_addr() else { return };
    let host = proxy.directory.host_of(local.ip());
    let named = host.clone().unwrap_or_else(|| local.ip().to_string());
    let mut attempt = Attempt::new(&proxy.on_event, Via::Direct, &named, local.port());
    let admitted = async {
        let host = host.ok_or_else(|| Refusal::host("this address stands for no host yet"))?;
        let host = policy::Host::parse(&host).map_err(|error| Refusal::host(&error.to_string()))?;
        let caller = proxy.caller(peer, local, &mut attempt).await?;
        let destination = Destination { host, port: local.port() };
        proxy.look_at_host(&destination)?;
        let admission = proxy.admit(destination, &caller).await?;
        Ok((admission, caller))
    };
    match admitted.await {
        Ok((admission, caller)) => {
            let site = Site { proxy: Arc::clone(&proxy), admission, caller, via: Via::Direct, secure: false };
            site.pass(client, Greeting::Silent, attempt).await;
        }
        Err(refusal) => refuse_plainly(client, &mut attempt, &refusal, Greeting::Silent).await,
    }
}
