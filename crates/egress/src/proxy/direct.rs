//! Connections from programs that do not know the proxy: the address that they dialled says which host they mean.

use super::admission::{AdmittedConnection, ClientSocket, admit, identify_caller};
use super::client::{ConnectReply, refuse_before_tls};
use super::config::Proxy;
use super::destination::Destination;
use super::inspect;
use super::record::ConnectionRecord;
use super::refusal::Refusal;
use crate::event::ProxyMode;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpStream;

pub(super) async fn serve(proxy: Arc<Proxy>, client: TcpStream, peer: SocketAddr) {
    let Ok(local) = client.local_addr() else { return };
    let host = proxy.config.directory.host_of(local.ip());
    let shown = host.clone().unwrap_or_else(|| local.ip().to_string());
    let mut record = ConnectionRecord::new(&proxy.config.on_event, ProxyMode::Direct, &shown, local.port());
    match admit_direct(&proxy, host, ClientSocket { peer, local }, &mut record).await {
        Ok(connection) => inspect::serve(connection, client, ConnectReply::Silent, record).await,
        Err(refusal) => refuse_before_tls(client, &mut record, &refusal, ConnectReply::Silent).await,
    }
}

async fn admit_direct(
    proxy: &Arc<Proxy>,
    host: Option<String>,
    ends: ClientSocket,
    record: &mut ConnectionRecord,
) -> Result<AdmittedConnection, Refusal> {
    let host = host.ok_or_else(|| Refusal::host("no host has this address yet"))?;
    let host = policy::Host::parse(&host).map_err(|error| Refusal::host(&error.to_string()))?;
    let caller = identify_caller(proxy, ends, record).await?;
    admit(proxy, Destination { host, port: ends.local.port() }, caller, ends, ProxyMode::Direct).await
}
