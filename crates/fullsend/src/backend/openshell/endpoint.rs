//! The gateway's address and our login, from variables of the host, or from the gateway that `openshell gateway select`
//! chose.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use egress::credentials::Secret;
use egress::dial::{ClientCertificate, Dialer, Roots};
use egress::resolver::SystemResolver;
use serde_json::Value as Json;

use crate::fetch::WebAddress;

pub const ENDPOINT: &str = "OPENSHELL_GATEWAY_ENDPOINT";
/// The name of a registered gateway.
pub const GATEWAY: &str = "OPENSHELL_GATEWAY";
const TOKEN: &str = "OPENSHELL_TOKEN";
const WORKSPACE: &str = "OPENSHELL_WORKSPACE";

/// One gateway, as we reach it.
#[derive(Clone)]
pub struct OpenshellEndpoint {
    pub(super) address: WebAddress,
    pub(super) token: Option<Secret>,
    pub(super) workspace: String,
    /// What `openshell gateway add` keeps for a gateway with TLS: `ca.crt`, and `tls.crt` with `tls.key` if the gateway asks
    /// who we are.
    certificates: Option<PathBuf>,
}

impl std::fmt::Display for OpenshellEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.address.origin())
    }
}

impl OpenshellEndpoint {
    /// The endpoint that the variables name, else the registered gateway.
    pub fn of_host(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let place = registered_place(variable);
        let text = match variable(ENDPOINT).filter(|text| !text.is_empty()) {
            Some(text) => text,
            None => registered(place.as_deref().ok_or_else(none)?)?,
        };
        let address = WebAddress::parse(&text)?;
        if !address.is_tls && !address.is_this_machine() {
            return Err(format!(
                "the OpenShell gateway {} is not on this machine and has no TLS: use https://",
                address.origin()
            ));
        }
        let token = variable(TOKEN).filter(|token| !token.is_empty()).map(Secret::new);
        let workspace = variable(WORKSPACE).filter(|name| !name.is_empty());
        let workspace = workspace.unwrap_or_else(|| "default".to_owned());
        let certificates = place.map(|place| place.join("mtls"));
        Ok(Self { address, token, workspace, certificates })
    }

    /// A file of the gateway's certificates, if it is there.
    fn certificate(&self, name: &str) -> Option<PathBuf> {
        self.certificates.as_ref().map(|place| place.join(name)).filter(|path| path.exists())
    }

    /// How connections to it are made: with its own authority and our certificate where `openshell gateway add` keeps them.
    pub(super) fn dialer(&self) -> Result<Dialer, String> {
        let resolver = Arc::new(SystemResolver::load());
        if !self.address.is_tls {
            return Ok(Dialer::new(resolver, Roots::only([])));
        }
        let roots = match self.certificate("ca.crt") {
            Some(path) => Roots::from_file(&path).map_err(|error| error.to_string())?,
            None => Roots::load().map_err(|error| error.to_string())?,
        };
        let dialer = Dialer::new(resolver, roots);
        let Some(certificate) = self.certificate("tls.crt") else { return Ok(dialer) };
        let Some(key) = self.certificate("tls.key") else { return Ok(dialer) };
        let certificate = ClientCertificate::load(&certificate, &key).map_err(|error| error.to_string())?;
        Ok(dialer.with_certificate(certificate))
    }

    /// The token, for the values that are masked.
    pub fn token(&self) -> Option<&Secret> {
        self.token.as_ref()
    }
}

fn none() -> String {
    format!(
        "no OpenShell gateway is known: set {ENDPOINT} to its address, such as http://127.0.0.1:17670, or register \
         one with `openshell gateway add`"
    )
}

/// Where the chosen gateway is registered. An endpoint in the variables uses the certificates of a gateway only if that
/// is named too.
fn registered_place(variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let home = || variable("HOME").map(|home| Path::new(&home).join(".config"));
    let place = variable("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home)?.join("openshell");
    let is_named = variable(ENDPOINT).is_some_and(|text| !text.is_empty());
    let active = || std::fs::read_to_string(place.join("active_gateway")).ok().filter(|_| !is_named);
    let name = variable(GATEWAY).filter(|name| !name.is_empty()).or_else(active)?;
    let name = name.trim();
    let is_name = !name.is_empty() && !name.contains('/') && !name.starts_with('.');
    is_name.then(|| place.join("gateways").join(name))
}

fn registered(place: &Path) -> Result<String, String> {
    let file = place.join("metadata.json");
    let wrong = |why: String| format!("{}: {why}", file.display());
    let text = std::fs::read_to_string(&file).map_err(|error| wrong(error.to_string()))?;
    let about: Json = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let endpoint = about["gateway_endpoint"].as_str();
    endpoint.map(str::to_owned).ok_or_else(|| wrong("it names no `gateway_endpoint`".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(variables: &[(&str, &str)]) -> Result<String, String> {
        let find = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        OpenshellEndpoint::of_host(&find).map(|endpoint| endpoint.to_string())
    }

    #[test]
    fn the_endpoint_is_named_or_registered() {
        assert_eq!(endpoint(&[(ENDPOINT, "http://127.0.0.1:17670")]).unwrap(), "http://127.0.0.1:17670");
        assert_eq!(endpoint(&[(ENDPOINT, "https://gateway.example/")]).unwrap(), "https://gateway.example");
        assert!(endpoint(&[(ENDPOINT, "http://gateway.example")]).unwrap_err().contains("use https://"));
        assert!(endpoint(&[]).unwrap_err().contains(ENDPOINT));
        let home = tempfile::tempdir().unwrap();
        let place = home.path().join("openshell/gateways/lab");
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("metadata.json"), r#"{"gateway_endpoint": "http://localhost:1"}"#).unwrap();
        let configuration = ("XDG_CONFIG_HOME", home.path().to_str().unwrap());
        assert_eq!(endpoint(&[configuration, (GATEWAY, "lab")]).unwrap(), "http://localhost:1");
        std::fs::write(home.path().join("openshell/active_gateway"), "lab\n").unwrap();
        assert_eq!(endpoint(&[configuration]).unwrap(), "http://localhost:1");
        assert!(endpoint(&[configuration, (GATEWAY, "../lab")]).is_err());
        assert!(endpoint(&[configuration, (GATEWAY, "other")]).unwrap_err().contains("metadata.json"));
    }
}
