//! The AWS key of this host, for requests that the host itself signs. It is looked for where AWS's own programs look.

use super::aws_credentials::{AwsOrigin, CONFIG_FILE};
use super::service::{NamedCredential, ServiceSettings};
use super::services::SERVICES;
use super::token_cache::TokenCache;
use egress::credentials::{ACCESS_KEY_ID, CredentialSource, SECRET_ACCESS_KEY, SESSION_TOKEN, Secret};
use egress::dial::Dialer;
use egress::sigv4::AwsKey;
use std::path::Path;

/// The metadata server of every EC2 instance.
const METADATA: &str = "http://169.254.169.254";

/// Where the key comes from, and the last one.
pub struct AwsKeys {
    origin: AwsOrigin,
    last: TokenCache<AwsKey>,
}

impl AwsKeys {
    /// By the variables of the host: a key, a web identity, a container's endpoint, or a profile in a file. Without any of them,
    /// the files below `home` that AWS's programs read by default, and last the role of the instance. `None` if
    /// `AWS_EC2_METADATA_DISABLED` forbids to ask for that.
    pub fn of_host(
        variable: &dyn Fn(&str) -> Option<String>,
        region: &str,
        home: Option<&str>,
    ) -> Option<Self> {
        let mut settings = ServiceSettings::default();
        let service = SERVICES.iter().find(|service| service.name == "bedrock")?;
        for (setting, name) in service.variables {
            if let Some(value) = variable(name) {
                settings.config.entry((*setting).to_owned()).or_insert(value);
            }
        }
        if let Some(file) = variable("AWS_CONFIG_FILE") {
            settings.config.insert(CONFIG_FILE.to_owned(), file);
        }
        for (setting, name) in [("credentials_file", "credentials"), (CONFIG_FILE, "config")] {
            let file = home.map(|home| format!("{home}/.aws/{name}"));
            if let Some(file) = file.filter(|file| Path::new(file).exists()) {
                settings.config.entry(setting.to_owned()).or_insert(file);
            }
        }
        if variable("AWS_EC2_METADATA_DISABLED").is_none_or(|value| !value.eq_ignore_ascii_case("true")) {
            settings.config.entry("metadata_endpoint".to_owned()).or_insert_with(|| METADATA.to_owned());
        } else {
            settings.config.remove("metadata_endpoint");
        }
        for name in [ACCESS_KEY_ID, SECRET_ACCESS_KEY, SESSION_TOKEN] {
            if let Some(value) = variable(name) {
                let source = CredentialSource::fixed(Secret::new(value));
                settings.credentials.push(NamedCredential { name: name.to_owned(), source });
            }
        }
        AwsOrigin::of(&settings, region).map(|origin| Self { origin, last: TokenCache::new() })
    }

    /// The key, fetched again before it expires.
    pub async fn key(&self, dialer: &Dialer) -> Result<AwsKey, String> {
        self.last.get(|| self.origin.key(dialer)).await.map_err(|error| error.reason)
    }
}
