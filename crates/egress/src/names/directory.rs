//! Which name has which address while the sandbox runs. Names that the policy writes out have fixed addresses; a name
//! that matches a pattern gets an address from the pool when it is first asked for, and keeps it.

use super::plan::NamePlan;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub struct NameDirectory {
    policy: policy::Compiled,
    names: BTreeMap<String, Ipv4Addr>,
    hosts: HashMap<Ipv4Addr, String>,
    literals: Vec<Ipv4Addr>,
    pool: Mutex<Pool>,
}

struct Pool {
    free: Vec<Ipv4Addr>,
    names: HashMap<String, Ipv4Addr>,
    hosts: HashMap<Ipv4Addr, String>,
}

/// The result of looking up a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameLookup {
    Address(Ipv4Addr),
    /// No rule names it.
    Unknown,
    /// A pattern matches it, but the pool has no free address.
    PoolExhausted,
}

impl NameDirectory {
    pub fn new(plan: &NamePlan, policy: policy::Compiled) -> Self {
        let hosts = plan.names.iter().map(|(name, address)| (*address, name.clone())).collect();
        let free = plan.pool.iter().rev().copied().collect();
        Self {
            policy,
            names: plan.names.clone(),
            hosts,
            literals: plan.literals.iter().copied().collect(),
            pool: Mutex::new(Pool { free, names: HashMap::new(), hosts: HashMap::new() }),
        }
    }

    pub fn find(&self, name: &str) -> NameLookup {
        if name == "localhost" {
            return NameLookup::Address(Ipv4Addr::LOCALHOST);
        }
        if let Some(address) = self.names.get(name) {
            return NameLookup::Address(*address);
        }
        match policy::Host::parse(name) {
            Ok(host @ policy::Host::Name(_)) if self.policy.names_host(&host) => self.find_pooled(name),
            _ => NameLookup::Unknown,
        }
    }

    fn find_pooled(&self, name: &str) -> NameLookup {
        let mut pool = self.lock();
        if let Some(address) = pool.names.get(name) {
            return NameLookup::Address(*address);
        }
        let Some(address) = pool.free.pop() else { return NameLookup::PoolExhausted };
        pool.names.insert(name.to_owned(), address);
        pool.hosts.insert(address, name.to_owned());
        NameLookup::Address(address)
    }

    /// The host that a connection to this address means.
    pub fn host_of(&self, address: IpAddr) -> Option<String> {
        let IpAddr::V4(address) = address else { return None };
        if self.literals.contains(&address) {
            return Some(address.to_string());
        }
        self.hosts.get(&address).cloned().or_else(|| self.lock().hosts.get(&address).cloned())
    }

    fn lock(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
