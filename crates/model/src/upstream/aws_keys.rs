//! The AWS key of this host, for requests that the host itself signs. It is looked for where AWS's own programs look.

use super::aws_credentials::AwsOrigin;
use super::service::{NamedCredential, ServiceSettings};
use super::services::SERVICES;
use super::token_cache::TokenCache;
use egress::credentials::{ACCESS_KEY_ID, CredentialSource, SECRET_ACCESS_KEY, SESSION_TOKEN, Secret};
use egress::dial::Dialer;
use egress::sigv4::AwsKey;

/// Where the key comes from, and the last one.
pub struct AwsKeys {
    origin: AwsOrigin,
    last: TokenCache<AwsKey>,
}

impl AwsKeys {
    /// By the variables of the host: a key, a web identity, a container's endpoint, or a profile in a file. `None` if they name
    /// nothing. `home` contains `.aws/credentials`, which AWS's programs read by default.
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
        if let Some(home) = home {
            let file = format!("{home}/.aws/credentials");
            settings.config.entry("credentials_file".to_owned()).or_insert(file);
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
        self.last.get(|| self.origin.key(dialer)).await
    }
}
