//! What happens to an admitted connection: a tunnel where no rule reads requests, otherwise TLS is ended here and begun
//! anew towards the server, which is asked first, so that the client is offered what the server speaks.

use super::attempt::Attempt;
use super::exchange::Client;
use super::http2::HTTP_2;
use super::refusal::Refusal;
use super::requests::{HTTP_1, Site, refuse};
use super::tunnel::{Ended, Moved, TLS_HANDSHAKE, tunnel};
use super::upstream::Upstream;
use crate::dial::DialError;
use policy::Host;
use rustls::server::Acceptor;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::LazyConfigAcceptor;

const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// Whether the client waits to be told that its tunnel stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Greeting {
    Established,
    Silent,
}

impl Site {
    /// `attempt` is the connection's; requests that are read have their own.
    pub(super) async fn pass(mut self, mut client: TcpStream, greeting: Greeting, mut attempt: Attempt) {
        let destination = self.admission.destination.clone();
        #[cfg(test)]
        self.look_up_again().await;
        let dialled = self
            .proxy
            .dialer
            .connect(&destination.host_text(), &self.admission.addresses, destination.port)
            .await;
        let server = match dialled {
            Ok(server) => server,
            Err(error) => {
                return refuse_plainly(client, &mut attempt, &Refusal::dial(&error), greeting).await;
            }
        };
        if greeting == Greeting::Established && client.write_all(ESTABLISHED).await.is_err() {
            return;
        }
        let admitted = &self.admission.admitted;
        if !self.reads() || admitted.tls_skip() {
            attempt.allowed((self.proxy.locate)(&admitted.cause()));
            return self.tunnel(&client, &server, attempt).await;
        }
        let mut first = [0];
        match tokio::time::timeout(self.proxy.limits.idle, client.peek(&mut first)).await {
            Ok(Ok(1)) if first[0] == TLS_HANDSHAKE => {
                self.secure = true;
                self.terminate(client, server, attempt).await;
            }
            Ok(Ok(1)) if first[0].is_ascii_alphabetic() => {
                attempt.dismiss();
                self.serve(Client::new(Box::new(client), &[]), Upstream::new(Box::new(server))).await;
            }
            // Read only for the sake of credentials, and these bytes cannot hold any.
            Ok(Ok(1)) if !self.admission.admitted.reads_requests() => {
                attempt.allowed((self.proxy.locate)(&self.admission.admitted.cause()));
                self.tunnel(&client, &server, attempt).await;
            }
            Ok(Ok(1)) => {
                let detail = "the endpoint's rules read HTTP requests, and this is neither TLS nor HTTP";
                attempt.refused(&Refusal::unreadable(detail.to_owned()));
            }
            _ => attempt.broke("the client sent nothing".to_owned()),
        }
    }

    async fn tunnel(&self, client: &TcpStream, server: &TcpStream, mut attempt: Attempt) {
        let moved = Moved::default();
        let told = Told { attempt: &mut attempt, moved: &moved };
        let look = self.proxy.look(&self.admission.destination);
        match tunnel(client, server, &moved, self.proxy.limits.tunnel_idle, look).await {
            Ok(()) => {}
            Err(Ended::Broken(error)) => told.attempt.broke(error.to_string()),
            Err(Ended::Seen(reason)) => told.attempt.refused(&Refusal::seen(reason)),
        }
    }

    async fn terminate(self, client: TcpStream, server: TcpStream, mut attempt: Attempt) {
        let accepting = LazyConfigAcceptor::new(Acceptor::default(), client);
        let hello = match tokio::time::timeout(self.proxy.limits.head_time, accepting).await {
            Ok(Ok(hello)) => hello,
            Ok(Err(error)) => return attempt.broke(format!("the client's TLS: {error}")),
            Err(_) => return attempt.broke("the client's TLS handshake did not come in time".to_owned()),
        };
        let host = self.admission.destination.host_text();
        if let Some(name) = hello.client_hello().server_name()
            && Host::parse(name).as_ref() != Ok(&self.admission.destination.host)
        {
            let detail = format!("the TLS server name is {name}, the connection is for {host}");
            return attempt.refused(&Refusal::unreadable(detail));
        }
        let offered = offered(&hello.client_hello());
        let reached = self.proxy.dialer.secure(server, &host, &offered).await;
        let chosen = match &reached {
            Ok(server) => server.get_ref().1.alpn_protocol().map(<[u8]>::to_vec),
            // Where nobody chose, the client reads the reason in whatever it speaks.
            Err(_) => offered.last().map(|protocol| protocol.to_vec()),
        };
        let bare = host.trim_matches(['[', ']']).to_owned();
        let config = match self.proxy.authority.server_config(&bare, chosen.as_deref()) {
            Ok(config) => config,
            Err(error) => return attempt.broke(error.to_string()),
        };
        let shaking = hello.into_stream(config);
        let client = match tokio::time::timeout(self.proxy.limits.head_time, shaking).await {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => return attempt.broke(format!("the client's TLS: {error}")),
            Err(_) => return attempt.broke("the client's TLS handshake did not come in time".to_owned()),
        };
        let http2 = chosen.as_deref() == Some(HTTP_2);
        match reached {
            Ok(server) if http2 => {
                attempt.dismiss();
                self.serve_http2(Box::new(client), Box::new(server)).await;
            }
            Ok(server) => {
                attempt.dismiss();
                self.serve(Client::new(Box::new(client), &[]), Upstream::new(Box::new(server))).await;
            }
            Err(error) if http2 => {
                attempt.dismiss();
                self.explain_http2(Box::new(client), Refusal::dial(&error)).await;
            }
            Err(error) => self.explain(Client::new(Box::new(client), &[]), &error, attempt).await,
        }
    }

    /// The handshake with the client is made all the same: a reason inside it is read, a broken one is not.
    async fn explain(&self, mut client: Client, error: &DialError, mut attempt: Attempt) {
        let limits = self.proxy.limits;
        if let Ok(Some(_)) = client.reader.read_head(limits.idle, limits.head_time).await {
            refuse(&mut client, &mut attempt, &Refusal::dial(error)).await;
        } else {
            attempt.refused(&Refusal::dial(error));
        }
    }
}

/// Of what the client speaks, what can be read here, best first. A client that says nothing speaks HTTP/1.1.
fn offered(hello: &rustls::server::ClientHello<'_>) -> Vec<&'static [u8]> {
    let Some(named) = hello.alpn() else { return vec![HTTP_1] };
    let named: Vec<&[u8]> = named.collect();
    [HTTP_2, HTTP_1].into_iter().filter(|protocol| named.contains(protocol)).collect()
}

/// Adds what moved to the attempt even when the tunnel is ended from outside.
pub(super) struct Told<'a> {
    pub(super) attempt: &'a mut Attempt,
    pub(super) moved: &'a Moved,
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        let (out, inward) = self.moved.totals();
        self.attempt.moved(out, inward);
    }
}

/// A refusal to a client that has not begun TLS. Who asked by CONNECT reads it; on a direct connection it is read where
/// the client speaks plain HTTP.
pub(super) async fn refuse_plainly(
    mut client: TcpStream,
    attempt: &mut Attempt,
    refusal: &Refusal,
    greeting: Greeting,
) {
    attempt.refused(refusal);
    if greeting == Greeting::Silent {
        let mut first = [0];
        let waiting = tokio::time::timeout(std::time::Duration::from_secs(2), client.peek(&mut first));
        let speaks_http = matches!(waiting.await, Ok(Ok(1)) if first[0].is_ascii_uppercase());
        if !speaks_http {
            return;
        }
    }
    if client.write_all(&refusal.answer()).await.is_ok() {
        drop(client.shutdown().await);
        drain(client).await;
    }
}

/// Closing with unread bytes resets the connection, and the client would lose the reason.
async fn drain(mut client: TcpStream) {
    use tokio::io::AsyncReadExt;
    let mut buffer = [0; 4096];
    let reading = async {
        for _ in 0..64 {
            match client.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
    };
    drop(tokio::time::timeout(std::time::Duration::from_secs(1), reading).await);
}
