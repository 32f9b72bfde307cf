//! Where the gateway is and who we are there: variables of the host, or the gateway that `openshell gateway select` chose.

use std::path::{Path, PathBuf};

use egress::credentials::Secret;
use serde_json::Value as Json;

use crate::fetch::WebAddress;

pub const ENDPOINT: &str = "OPENSHELL_GATEWAY_ENDPOINT";
/// The name of a registered gateway.
pub const GATEWAY: &str = "OPENSHELL_GATEWAY";
const TOKEN: &str = "OPENSHELL_TOKEN";
const WORKSPACE: &str = "OPENSHELL_WORKSPACE";

/// One gateway, as we reach it.
#[derive(Clone)]
pub struct GatewayEndpoint {
    pub(super) address: WebAddress,
    pub(super) token: Option<Secret>,
    pub(super) workspace: String,
}

impl std::fmt::Display for GatewayEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.address.origin())
    }
}

impl GatewayEndpoint {
    /// The endpoint that the variables name, else the registered gateway.
    pub fn of_host(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let text = match variable(ENDPOINT).filter(|text| !text.is_empty()) {
            Some(text) => text,
            None => registered(variable)?,
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
        Ok(Self { address, token, workspace: workspace.unwrap_or_else(|| "default".to_owned()) })
    }

    /// The token, for the values that are masked.
    pub fn token(&self) -> Option<&Secret> {
        self.token.as_ref()
    }
}

fn registered(variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let none = || {
        format!(
            "no OpenShell gateway is known: set {ENDPOINT} to its address, such as http://127.0.0.1:17670, or register \
             one with `openshell gateway add`"
        )
    };
    let home = || variable("HOME").map(|home| Path::new(&home).join(".config"));
    let configuration = variable("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home).ok_or_else(none)?;
    let place = configuration.join("openshell");
    let active = || std::fs::read_to_string(place.join("active_gateway")).ok();
    let name = variable(GATEWAY).or_else(active).ok_or_else(none)?;
    let name = name.trim();
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return Err(none());
    }
    let file = place.join("gateways").join(name).join("metadata.json");
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
        GatewayEndpoint::of_host(&find).map(|endpoint| endpoint.to_string())
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
