//! The proxy: everything that leaves the sandbox, apart from the model gateway. A connection is admitted by who asks and
//! where to, its addresses are checked, and then its bytes are tunnelled untouched, unless a rule must read requests or
//! a credential is bound to the place. Each attempt is one event; each refusal says what would have allowed it.

mod admission;
mod attempt;
#[cfg(test)]
mod defence;
mod direct;
mod exchange;
mod forward;
mod http2;
mod inspect;
mod lookout;
mod outgoing;
mod refusal;
mod requests;
mod serve;
mod suggest;
#[cfg(test)]
mod tests;
mod tunnel;
mod upstream;
mod watch;
mod websocket;

pub use attempt::Via;
pub use lookout::{Look, Lookout};
pub use serve::{ServedSocket, Serving, start};
pub use suggest::suggest;
pub use upstream::{BoxStream, GatewayService, Stream};

use crate::credentials::CredentialStore;
use crate::dial::Dialer;
use crate::event::OnEvent;
use crate::identity::Identifier;
use crate::names::Directory;
use crate::tls::Authority;
use std::sync::Arc;
use std::time::Duration;

pub struct ProxyConfig {
    pub policy: Arc<policy::Compiled>,
    pub directory: Arc<Directory>,
    pub dialer: Arc<Dialer>,
    pub identifier: Arc<Identifier>,
    pub authority: Arc<Authority>,
    pub credentials: Arc<CredentialStore>,
    /// Programs that use the proxy for everything ask it for the model too.
    pub gateway: Option<GatewayService>,
    /// `None`: nothing is looked for.
    pub lookout: Option<Lookout>,
    /// Says where in the policy a line stands, for refusals and events.
    pub locate: Locate,
    pub on_event: OnEvent,
    pub limits: ProxyLimits,
}

pub type Locate = Arc<dyn Fn(&policy::Cause) -> String + Send + Sync>;

#[derive(Debug, Clone, Copy)]
pub struct ProxyLimits {
    pub connections: usize,
    /// From the first byte of a head to its last.
    pub head_time: Duration,
    /// Of a connection that waits for its next request, and of a body that stands still.
    pub idle: Duration,
    /// Of a tunnel in which no byte moves in either direction.
    pub tunnel_idle: Duration,
}

impl Default for ProxyLimits {
    fn default() -> Self {
        Self {
            connections: 2048,
            head_time: Duration::from_secs(15),
            idle: Duration::from_secs(300),
            tunnel_idle: Duration::from_secs(3600),
        }
    }
}

pub struct Proxy {
    policy: Arc<policy::Compiled>,
    directory: Arc<Directory>,
    dialer: Arc<Dialer>,
    identifier: Arc<Identifier>,
    authority: Arc<Authority>,
    credentials: Arc<CredentialStore>,
    gateway: Option<GatewayService>,
    lookout: Option<Lookout>,
    locate: Locate,
    on_event: OnEvent,
    limits: ProxyLimits,
    #[cfg(test)]
    weakness: defence::Weakness,
}

impl Proxy {
    pub fn new(config: ProxyConfig) -> Self {
        let ProxyConfig {
            policy,
            directory,
            dialer,
            identifier,
            authority,
            credentials,
            gateway,
            lookout,
            locate,
            on_event,
            limits,
        } = config;
        Self {
            policy,
            directory,
            dialer,
            identifier,
            authority,
            credentials,
            gateway,
            lookout,
            locate,
            on_event,
            limits,
            #[cfg(test)]
            weakness: defence::Weakness::default(),
        }
    }
}
