//! Network rules within network rules. The inner rules are taken apart into atoms, one endpoint, one port and one
//! program pattern each; for each atom the organisation's policy must admit the connection and everything asked over it.
//!
//! More endpoints do not always allow more: one that reads requests takes away what a tunnel to the same place allows,
//! and its deny rules reach beyond it. So for every atom all outer endpoints that may apply are checked, for any
//! program: a process can have any two programs as parents.

use super::atom::{Atom, OuterEndpoints, Reader};
use super::widening::Widening;
use super::{access, grant, precedence};
use crate::address::AddressScope;
use crate::glob::ProofBudget;
use crate::model::{HostPattern, NetworkRule};

pub(super) fn confine(inner: &mut [NetworkRule], outer: &[NetworkRule]) -> Result<(), Widening> {
    let budget = ProofBudget::default();
    let mut held_to_public = Vec::new();
    for (rule_index, rule) in inner.iter().enumerate() {
        for (endpoint_index, endpoint) in rule.endpoints.iter().enumerate() {
            let mut public = false;
            for port in &endpoint.ports {
                for binary in &rule.binaries {
                    let atom = Atom { endpoint, port: *port, binary, budget: &budget };
                    public |= check(&atom, inner, outer)?;
                }
            }
            if public {
                held_to_public.push((rule_index, endpoint_index));
            }
        }
    }
    for (rule, endpoint) in held_to_public {
        inner[rule].endpoints[endpoint].public_only = true;
    }
    Ok(())
}

/// Whether the endpoint must keep to public addresses.
fn check(atom: &Atom<'_>, inner: &[NetworkRule], outer: &[NetworkRule]) -> Result<bool, Widening> {
    let limits = limits(atom, outer);
    if limits.admitting.is_empty() {
        let message = format!(
            "the organisation's policy does not let `{}` connect to {}:{}",
            atom.binary, atom.endpoint.host, atom.port
        );
        let near = limits.readers.first().map(|reader| reader.endpoint.at);
        return Err(Widening { at: atom.endpoint.at, limit: near, message });
    }
    let public = reach(atom, &limits)?;
    let deciding = precedence::deciding(atom, &limits.readers, inner);
    access::check(atom, &limits, &deciding)?;
    grant::check(atom, &limits, &deciding, inner)?;
    Ok(public)
}

fn limits<'a>(atom: &Atom<'_>, outer: &'a [NetworkRule]) -> OuterEndpoints<'a> {
    let mut limits = OuterEndpoints { admitting: Vec::new(), readers: Vec::new() };
    for rule in outer {
        let for_program = rule.binaries.iter().any(|binary| atom.binary.within(binary, atom.budget));
        for endpoint in
            rule.endpoints.iter().filter(|endpoint| endpoint.ports.binary_search(&atom.port).is_ok())
        {
            if !atom.endpoint.host.overlaps(&endpoint.host, atom.budget) {
                continue;
            }
            if endpoint.protocol.reads_requests() {
                limits.readers.push(Reader { endpoint, binaries: &rule.binaries });
            }
            if for_program && atom.endpoint.host.within(&endpoint.host, atom.budget) {
                limits.admitting.push(endpoint);
            }
        }
    }
    limits
}

/// Addresses must stay within; a host under a pattern can be held to the pattern's addresses.
fn reach(atom: &Atom<'_>, limits: &OuterEndpoints<'_>) -> Result<bool, Widening> {
    let within =
        |reach: &AddressScope| limits.admitting.iter().any(|endpoint| reach.within(&endpoint.reach()));
    if within(&atom.endpoint.reach()) {
        return Ok(false);
    }
    let named = matches!(atom.endpoint.host, HostPattern::Name(_)) && atom.endpoint.allowed_ips.is_empty();
    if named && within(&AddressScope::Public) {
        return Ok(true);
    }
    let message = format!(
        "{} may resolve to addresses that the organisation's policy refuses",
        atom.endpoint.selector()
    );
    Err(Widening::beyond(atom.endpoint.at, limits.admitting[0].at, message))
}
