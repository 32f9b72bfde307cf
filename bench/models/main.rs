//! What the model gateway costs, beside a direct connection and beside LiteLLM's proxy where it is installed, all in one run:
//! latency of a small request on a kept connection, requests in a second over eight connections, and the time of a streamed
//! answer. Prints `name ours peer ratio`; the peer of each first line is the direct connection.

#![expect(clippy::unwrap_used, reason = "a bench that cannot go on should stop")]
#![expect(clippy::print_stdout, reason = "its figures")]

mod asking;
mod litellm;
mod vendor;

use asking::{Asked, Client};
use egress::credentials::{CredentialSource, Secret};
use egress::dial::Dialer;
use egress::dial::testing::TestAuthority;
use egress::resolver::FixedResolver;
use model::gateway::{self, Gateway, GatewayConfig, GatewayServer};
use model::upstream::{HttpUpstream, NamedCredential, SERVICES, ServiceSettings, Upstream};
use model::wire::Wire;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

/// Rounds of everything that is compared; the best of each counts, because the machine has other work.
const ROUNDS: usize = 3;
const REQUESTS: usize = 200;
const CONNECTIONS: usize = 8;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let _inside = runtime.enter();
    let vendor = vendor::start();
    let peer = litellm::start(vendor);
    if peer.is_none() {
        println!("# litellm is not installed: pip install 'litellm[proxy]', or LITELLM=PROGRAM");
    }
    for service in SERVICES {
        for &wire in service.wires {
            let (ours, _server) = gateway(service.name, "", vendor);
            let direct = Client::new(vendor, wire, wire.path());
            compare(
                &format!("{}-{}", service.name, wire.name()),
                "direct",
                &Client::new(ours, wire, wire.path()),
                &direct,
            );
        }
    }
    // Claude Code before a server of Chat Completions.
    let (ours, _server) = gateway("openai", "chat", vendor);
    let translated = Client::new(ours, Wire::Messages, Wire::Messages.path());
    compare(
        "translated-messages",
        "direct",
        &translated,
        &Client::new(vendor, Wire::Messages, "/v1/messages"),
    );
    let Some(peer) = peer else { return };
    let (chat, _server) = gateway("openai", "", vendor);
    for (name, wire, own) in
        [("openai-chat", Wire::Chat, chat), ("translated-messages", Wire::Messages, ours)]
    {
        let own = Client::new(own, wire, wire.path());
        compare(name, "litellm", &own, &Client::new(peer.address, wire, wire.path()));
    }
}

fn gateway(name: &str, wire: &str, vendor: SocketAddr) -> (SocketAddr, GatewayServer) {
    let service = SERVICES.iter().find(|service| service.name == name).unwrap();
    let base_url = format!("http://{vendor}");
    let config =
        [("base_url", base_url.as_str()), ("region", "eu-west-1"), ("project", "acme"), ("wire", wire)];
    let credential = |name: &str| NamedCredential {
        name: name.to_owned(),
        source: CredentialSource::fixed(Secret::new("value-of-the-credential".to_owned())),
    };
    let settings = ServiceSettings {
        config: config.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        credentials: match name {
            "bedrock" => vec![credential("AWS_ACCESS_KEY_ID"), credential("AWS_SECRET_ACCESS_KEY")],
            _ => vec![credential("KEY")],
        },
        learn: None,
    };
    let resolver = FixedResolver::new([("nothing.test", Vec::new())]);
    let dialer = Dialer::new(Arc::new(resolver), TestAuthority::new().roots());
    let upstream = Upstream::http(HttpUpstream::new(service, &settings, Arc::new(dialer)).unwrap());
    let gateway = Arc::new(Gateway::new(GatewayConfig::new(upstream, Arc::new(drop))));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (address, gateway::start(listener, gateway, None).unwrap())
}

fn compare(name: &str, peer_name: &str, ours: &Client, peer: &Client) {
    let latency = |client: &Client| best(|| client.latency(Asked::Whole, REQUESTS));
    line(&format!("{name} latency beside {peer_name}"), latency(ours), latency(peer), "µs");
    let stream = |client: &Client| best(|| client.latency(Asked::Streamed, REQUESTS / 10));
    line(&format!("{name} stream beside {peer_name}"), stream(ours), stream(peer), "µs");
    let each = |client: &Client| best(|| client.time_of_each(CONNECTIONS, REQUESTS));
    line(
        &format!("{name} time of each of {CONNECTIONS} at once beside {peer_name}"),
        each(ours),
        each(peer),
        "µs",
    );
}

fn best(measure: impl Fn() -> Duration) -> Duration {
    (0..ROUNDS).map(|_| measure()).min().unwrap()
}

fn line(name: &str, ours: Duration, peer: Duration, unit: &str) {
    let number = |time: Duration| time.as_secs_f64() * 1e6;
    println!(
        "{name}  {:.0} {unit}  {:.0} {unit}  {:.2}",
        number(ours),
        number(peer),
        number(ours) / number(peer)
    );
}
