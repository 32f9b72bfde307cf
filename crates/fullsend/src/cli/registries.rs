//! Finds the configuration of the host's package managers: the user's files and variables, never the repository's.

use std::path::{Path, PathBuf};

use crate::resolve::registries::{self, Registry, RegistryFormat};

/// A file is never longer.
const MAX_BYTES: u64 = 256 << 10;

const NPM: RegistryFormat = RegistryFormat::Keys(&["registry"]);
const PIP: RegistryFormat = RegistryFormat::Keys(&["index-url", "extra-index-url"]);
const CARGO: RegistryFormat = RegistryFormat::Keys(&["registry", "index"]);

/// Variables that name registries, by network.
const VARIABLES: &[(&str, &str)] = &[
    ("npm", "NPM_CONFIG_REGISTRY"),
    ("npm", "npm_config_registry"),
    ("pip", "PIP_INDEX_URL"),
    ("pip", "PIP_EXTRA_INDEX_URL"),
    ("pip", "UV_INDEX_URL"),
    ("go", "GOPROXY"),
];

/// Files of the user's home, by network.
const HOME_FILES: &[(&str, &str, RegistryFormat)] = &[
    ("npm", ".npmrc", NPM),
    ("pip", ".config/pip/pip.conf", PIP),
    ("pip", ".pip/pip.conf", PIP),
    ("cargo", ".cargo/config.toml", CARGO),
    ("go", ".config/go/env", RegistryFormat::Words),
    ("maven", ".m2/settings.xml", RegistryFormat::UrlElement),
];

/// Files of the system, by network.
const SYSTEM_FILES: &[(&str, &str, RegistryFormat)] = &[
    ("npm", "/etc/npmrc", NPM),
    ("pip", "/etc/pip.conf", PIP),
    ("apt", "/etc/apt/sources.list", RegistryFormat::Words),
    ("apt", "/etc/apt/sources.list.d/debian.sources", RegistryFormat::Words),
    ("apt", "/etc/apt/sources.list.d/ubuntu.sources", RegistryFormat::Words),
];

/// The registries in this host's configuration.
pub fn of_host() -> Vec<Registry> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let mut found = Vec::new();
    for (network, name) in VARIABLES {
        let text = variable(name).unwrap_or_default();
        found.extend(registries::read(network, RegistryFormat::Words, &text));
    }
    let home = variable("HOME").map(PathBuf::from);
    let of_home = HOME_FILES
        .iter()
        .filter_map(|(network, file, format)| Some((*network, home.as_ref()?.join(file), *format)));
    let of_system =
        SYSTEM_FILES.iter().map(|(network, file, format)| (*network, PathBuf::from(file), *format));
    for (network, path, format) in of_home.chain(of_system) {
        found.extend(registries::read(network, format, &read(&path)));
    }
    found
}

/// A file that cannot be read adds no registry.
fn read(path: &Path) -> String {
    let is_small = path.metadata().is_ok_and(|about| about.is_file() && about.len() <= MAX_BYTES);
    if is_small { std::fs::read_to_string(path).unwrap_or_default() } else { String::new() }
}
