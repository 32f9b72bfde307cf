//! Network rules: which programs, which endpoints.

use yaml::{Map, Spanned};

use super::Reader;
use crate::file::{BinaryFile, NetworkFile};
use crate::glob::{Pattern, Separator};
use crate::model::NetworkRule;

const MAX_ENDPOINTS: usize = 4096;
const PROVIDER_PREFIX: &str = "_provider_";

impl Reader {
    pub(super) fn networks(&mut self, file: &Map<NetworkFile>) -> Vec<NetworkRule> {
        let count: usize = file.iter().map(|(_, network)| network.endpoints.len()).sum();
        if let (true, Some((key, _))) = (count > MAX_ENDPOINTS, file.iter().last()) {
            self.error("too-many", key.at, format!("{count} endpoints; at most {MAX_ENDPOINTS} are allowed"));
            return Vec::new();
        }
        file.iter().map(|(key, network)| self.network(key, network)).collect()
    }

    fn network(&mut self, key: &Spanned<String>, file: &NetworkFile) -> NetworkRule {
        let NetworkFile { name, endpoints, binaries } = file;
        let path = format!("network_policies.{}", key.value);
        let reserved = name.as_ref().filter(|name| name.starts_with(PROVIDER_PREFIX));
        if let Some(name) = reserved.or(Some(key).filter(|key| key.starts_with(PROVIDER_PREFIX))) {
            let message =
                format!("names that start with `{PROVIDER_PREFIX}` are reserved for the rules of providers");
            self.warn("reserved-name", name.at, message);
        }
        if endpoints.is_empty() {
            self.warn("unreachable", key.at, format!("`{path}` has no endpoints, so it allows nothing"));
        }
        if binaries.is_empty() {
            self.warn("unreachable", key.at, format!("`{path}` has no binaries, so it allows no program"));
        }
        let endpoints = endpoints
            .iter()
            .enumerate()
            .filter_map(|(index, endpoint)| self.endpoint(&format!("{path}.endpoints.{index}"), endpoint));
        NetworkRule {
            name: name.as_ref().filter(|name| !name.is_empty()).unwrap_or(key).value.clone(),
            key: key.clone(),
            endpoints: endpoints.collect(),
            binaries: self.binaries(&path, binaries),
        }
    }

    fn binaries(&mut self, path: &str, files: &[Spanned<BinaryFile>]) -> Vec<Spanned<Pattern>> {
        let mut read: Vec<Spanned<Pattern>> = Vec::new();
        for (index, file) in files.iter().enumerate() {
            let BinaryFile { path: binary, harness } = &file.value;
            let path = format!("{path}.binaries.{index}");
            if let Some(harness) = harness {
                self.warn("no-effect", harness.at, format!("`{path}.harness` has no effect"));
            }
            let Some(pattern) = self.binary(&path, binary) else { continue };
            if read.iter().any(|known| known.value == pattern) {
                self.warn("duplicate", binary.at, format!("`{pattern}` is listed twice"));
            }
            read.push(Spanned { value: pattern, at: binary.at });
        }
        read
    }

    fn binary(&mut self, path: &str, binary: &Spanned<String>) -> Option<Pattern> {
        if binary.is_empty() {
            self.error("binary", binary.at, format!("`{path}.path` is empty"));
            return None;
        }
        let absolute = binary.starts_with('/') || binary.starts_with("**");
        let plain = !binary.split('/').skip(1).any(|part| matches!(part, "" | "." | ".."));
        if !absolute || !plain {
            let message = format!("`{path}.path` matches no program: executables have plain absolute paths");
            self.warn("unreachable", binary.at, message);
        }
        match Pattern::glob_if_starred(binary, Separator::Slash) {
            Ok(pattern) => Some(pattern),
            Err(error) => {
                self.error("pattern", binary.at, format!("`{path}.path` {error}"));
                None
            }
        }
    }
}
