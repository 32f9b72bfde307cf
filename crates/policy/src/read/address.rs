//! `allowed_ips`: blocks that replace the check for internal addresses, and therefore must not overlap ranges that no
//! policy can open.

use yaml::{Diagnostic, Spanned};

use super::Reader;
use crate::address::{Network, classify};

const NEVER: [&str; 6] = ["127.0.0.0/8", "::1", "169.254.0.0/16", "fe80::/10", "0.0.0.0", "::"];

impl Reader {
    pub(super) fn allowed_ips(&mut self, path: &str, entries: &[Spanned<String>]) -> Vec<Network> {
        let mut networks: Vec<Network> = Vec::new();
        for entry in entries {
            match entry.value.parse::<Network>() {
                Err(error) => self.error("address", entry.at, format!("`{path}.allowed_ips`: {error}")),
                Ok(network) => {
                    self.closed_to_all(path, entry, &network);
                    if networks.contains(&network) {
                        self.warn("duplicate", entry.at, format!("`{network}` is listed twice"));
                    }
                    networks.push(network);
                }
            }
        }
        networks.sort();
        networks.dedup();
        networks
    }

    fn closed_to_all(&mut self, path: &str, entry: &Spanned<String>, network: &Network) {
        let touched = NEVER.iter().find(|never| never.parse().is_ok_and(|never| network.touches(&never)));
        let single = network.as_single().map(classify).filter(|class| class.never_allowed());
        let what = match (touched, single) {
            (_, Some(class)) => format!("a {class} address"),
            (Some(never), None) => format!("`{never}`"),
            (None, None) => return,
        };
        let message = format!("`{path}.allowed_ips` cannot open {what}");
        self.report(
            Diagnostic::error("address", entry.at, message)
                .label("loopback, link-local and metadata addresses stay closed"),
        );
    }
}
