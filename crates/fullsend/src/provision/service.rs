//! Opens the model service of a provider file, with the settings of the file and the host.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use egress::dial::{Dialer, HostProxy, Roots};
use egress::resolver::SystemResolver;
use model::upstream::{HttpUpstream, LearnSecret, NamedCredential, Service, ServiceSettings, Upstream};

use crate::check::providers::ProviderFile;
use crate::check::services;
use crate::credentials::LoadedCredential;
use crate::resolve::variables::VariableLookup;

/// What the service needs of the host.
pub struct ServiceInputs<'a> {
    pub variables: VariableLookup<'a>,
    /// Empty in a check: no credential is loaded then.
    pub credentials: Vec<&'a LoadedCredential>,
    pub learn: Option<LearnSecret>,
}

pub fn open(provider: &ProviderFile, inputs: ServiceInputs<'_>) -> Result<Upstream, String> {
    let service = services::service(provider)?;
    let ServiceInputs { variables, credentials, learn } = inputs;
    let mut config = BTreeMap::new();
    for (key, value) in provider.provider.config.iter() {
        let known = ["base_url", "plain_http", "wire"].contains(&key.value.as_str())
            || service.settings.contains(&key.value.as_str());
        if !known {
            return Err(unknown_setting(service, &key.value));
        }
        let value = value.expand(variables).map_err(|name| format!("{name} is not set"))?;
        config.insert(key.value.clone(), value);
    }
    for (setting, variable) in service.variables {
        if let (false, Some(value)) = (config.contains_key(*setting), variables(variable)) {
            config.insert((*setting).to_owned(), value);
        }
    }
    if provider.provider.credentials.iter().next().is_none() {
        add_home_files(service, variables, &mut config);
    }
    let named = |loaded: &&LoadedCredential| NamedCredential {
        name: loaded.key.clone(),
        source: loaded.source.clone(),
    };
    let credentials = credentials.iter().map(named).collect();
    let roots = Roots::load().map_err(|error| error.to_string())?;
    let proxy = HostProxy::from_variables(variables).map_err(|error| error.to_string())?;
    let dialer = Dialer::new(Arc::new(SystemResolver::load()), roots).with_proxy(proxy);
    let dialer = Arc::new(dialer);
    HttpUpstream::new(service, &ServiceSettings { config, credentials, learn }, dialer)
        .map(Upstream::http)
        .map_err(|error| error.to_string())
}

/// Files that the service's own programs write, such as `gcloud auth application-default login`.
fn add_home_files(service: &Service, variables: VariableLookup<'_>, config: &mut BTreeMap<String, String>) {
    let Some(home) = variables("HOME").filter(|home| home.starts_with('/')) else { return };
    for (setting, path) in service.home_files {
        let path = Path::new(&home).join(path);
        if !config.contains_key(*setting) && path.is_file() {
            config.insert((*setting).to_owned(), path.to_string_lossy().into_owned());
        }
    }
}

fn unknown_setting(service: &Service, key: &str) -> String {
    let known = ["base_url", "plain_http"].into_iter().chain(service.settings.iter().copied());
    let known: Vec<&str> = known.collect();
    format!("`config.{key}` is not a setting of {}; known are {}", service.name, known.join(", "))
}
