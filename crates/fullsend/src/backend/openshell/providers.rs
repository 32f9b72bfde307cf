//! The credentials of a run as providers of the gateway, under names of the run's own. The gateway gives the sandbox a
//! placeholder, and puts the value into requests to the endpoints of the provider's profile.

use ::policy::model::Endpoint;
use egress::credentials::Secret;

use super::client::{OpenshellError, OpenshellGateway, ProtocolVersion};
use super::grpc::{CallError, CallStatus};
use super::policy;
use super::protobuf::{Message, Received};

/// One provider of the harness.
pub struct NewProvider {
    pub name: String,
    /// By the names of their variables.
    pub credentials: Vec<(String, Secret)>,
    /// Where the credentials may go. None: where the policy binds the provider by name.
    pub endpoints: Vec<Endpoint>,
}

/// The name of a provider, and of its profile, on the gateway.
pub(super) fn name(sandbox: &str, provider: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    format!("{sandbox}-{}", provider.chars().map(keep).collect::<String>())
}

/// Makes the profile and the provider.
pub(super) async fn create(
    gateway: &OpenshellGateway,
    name: &str,
    new: &NewProvider,
) -> Result<(), OpenshellError> {
    let credentials = new.credentials.iter().map(|(key, _)| {
        Message::default().text(1, &key.to_ascii_lowercase()).texts(3, [key]).flag(4, true).text(5, "bearer")
    });
    let profile = Message::default().text(1, name).text(2, name).messages(5, credentials).messages(
        6,
        new.endpoints.iter().map(|endpoint| policy::endpoint(endpoint, gateway.line, &|_| None)),
    );
    let item = Message::default().message(1, profile).text(2, "fullsend");
    let request = gateway.in_workspace(Message::default().message(1, item), 2, 2);
    let answer = gateway.call("ImportProviderProfiles", request).await?;
    if let Some(problem) = Received(&answer).messages(1).find(|problem| problem.text(5) == "error") {
        return Err(OpenshellError::Inside { what: format!("the profile {name}"), why: problem.text(4) });
    }
    let values = new.credentials.iter().map(|(key, value)| (key, value.reveal()));
    let provider =
        Message::default().message(1, Message::default().text(2, name)).text(2, name).map(3, values);
    let request = gateway.in_workspace(Message::default().message(1, provider), 2, 2);
    gateway.call("CreateProvider", request).await?;
    Ok(())
}

/// Removes the provider and its profile. One that is gone already counts as removed.
pub(super) async fn delete(gateway: &OpenshellGateway, name: &str) -> Result<(), CallError> {
    let provider = gateway.in_workspace(Message::default().text(1, name), 2, 3);
    let profile = gateway.in_workspace(Message::default().text(1, name), 2, 2);
    let (provider, profile) = match gateway.line {
        ProtocolVersion::V0_0 => (provider, profile),
        ProtocolVersion::V0_1 => (provider.flag(4, true), profile.flag(3, true)),
    };
    for (method, request) in [("DeleteProvider", provider), ("DeleteProviderProfile", profile)] {
        match gateway.call(method, request).await {
            Err(CallError::Refused { status: CallStatus::NOT_FOUND, .. }) | Ok(_) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
