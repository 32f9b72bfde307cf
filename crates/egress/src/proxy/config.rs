//! What all connections of one sandbox share.

use super::defences::{AllDefences, Defences};
use super::held_bodies::HeldBodies;
use super::outgoing_check::LeakWatcher;
use super::refusal::LocateRule;
use super::stream::GatewayService;
use crate::credentials::CredentialStore;
use crate::dial::Dialer;
use crate::event::OnEvent;
use crate::identity::Identify;
use crate::names::NameDirectory;
use crate::tls::RunAuthority;
use std::sync::Arc;
use std::time::Duration;

pub struct ProxyConfig {
    pub policy: Arc<policy::Compiled>,
    pub directory: Arc<NameDirectory>,
    pub dialer: Arc<Dialer>,
    pub identifier: Arc<dyn Identify>,
    /// Issues the certificates of inspected connections. `None` where no connection can leave.
    pub authority: Option<Arc<RunAuthority>>,
    pub credentials: Arc<CredentialStore>,
    /// Programs that send everything to the proxy also ask it for the model.
    pub gateway: Option<GatewayService>,
    /// `None`: nothing is watched.
    pub leak_watcher: Option<LeakWatcher>,
    /// Names the line of the policy that decided, for refusals and events.
    pub locate: LocateRule,
    pub on_event: OnEvent,
    pub limits: ProxyLimits,
}

#[derive(Debug, Clone, Copy)]
pub struct ProxyLimits {
    pub connections: usize,
    /// From the first byte of a head to its last.
    pub head_time: Duration,
    /// For the next request on a connection, and for the next bytes of a body.
    pub idle: Duration,
    /// For a tunnel in which no byte moves in either direction.
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
    pub(super) config: ProxyConfig,
    pub(super) defences: Arc<dyn Defences>,
    pub(super) held_bodies: HeldBodies,
}

impl Proxy {
    pub fn new(config: ProxyConfig) -> Self {
        Self { config, defences: Arc::new(AllDefences), held_bodies: HeldBodies::default() }
    }
}
