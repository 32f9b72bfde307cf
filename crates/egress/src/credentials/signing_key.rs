//! The AWS key for an endpoint whose requests are signed. Credentials are found by the names that AWS's own programs use.

use super::store::{CredentialScope, CredentialStore, SubstituteError};
use super::{CredentialFetchError, Secret};
use crate::sigv4::AwsKey;
use serde::Deserialize;

/// The names of a key's parts.
pub const ACCESS_KEY_ID: &str = "AWS_ACCESS_KEY_ID";
pub const SECRET_ACCESS_KEY: &str = "AWS_SECRET_ACCESS_KEY";
pub const SESSION_TOKEN: &str = "AWS_SESSION_TOKEN";
/// A whole key, as a `credential_process` prints it.
pub const AWS_CREDENTIALS: &str = "AWS_CREDENTIALS";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PrintedKey {
    access_key_id: String,
    secret_access_key: String,
    session_token: Option<String>,
}

/// Whether a credential of this name is a part of a key, or a whole one.
pub fn is_part_of_signing_key(name: &str) -> bool {
    [ACCESS_KEY_ID, SECRET_ACCESS_KEY, SESSION_TOKEN, AWS_CREDENTIALS].contains(&name)
}

/// Whether these credentials hold a key to sign with.
pub fn has_signing_key<'a>(names: impl IntoIterator<Item = &'a str>) -> bool {
    let names: Vec<&str> = names.into_iter().collect();
    names.contains(&AWS_CREDENTIALS) || (names.contains(&ACCESS_KEY_ID) && names.contains(&SECRET_ACCESS_KEY))
}

impl CredentialStore {
    /// The key that is bound to this endpoint. Its parts are masked in responses from now on.
    pub(crate) async fn signing_key(&self, scope: &CredentialScope<'_>) -> Result<AwsKey, SubstituteError> {
        let key = match self.part(AWS_CREDENTIALS, scope).await? {
            Some(printed) => read_printed(&printed)?,
            None => {
                let id = self.part(ACCESS_KEY_ID, scope).await?.ok_or(SubstituteError::NoSigningKey)?;
                let secret =
                    self.part(SECRET_ACCESS_KEY, scope).await?.ok_or(SubstituteError::NoSigningKey)?;
                AwsKey { id, secret, session_token: self.part(SESSION_TOKEN, scope).await? }
            }
        };
        let AwsKey { id, secret, session_token } = &key;
        [Some(id), Some(secret), session_token.as_ref()].into_iter().flatten().for_each(|part| {
            self.learn_sent(part, scope);
        });
        Ok(key)
    }

    /// `None`: no such credential is bound to the endpoint.
    async fn part(&self, name: &str, scope: &CredentialScope<'_>) -> Result<Option<Secret>, SubstituteError> {
        let Some(credential) = self.bound_credential(name, scope) else { return Ok(None) };
        if !scope.tls && !credential.plain {
            return Err(SubstituteError::NotEncrypted { key: name.to_owned() });
        }
        let fetched = credential.source.secret().await;
        let secret = fetched.map_err(|error| SubstituteError::Source { key: name.to_owned(), error })?;
        let fits = secret.reveal().bytes().all(|byte| (b' '..0x7f).contains(&byte));
        if !fits {
            return Err(SubstituteError::Unsuitable { key: name.to_owned(), part: "signature" });
        }
        Ok(Some(secret))
    }
}

fn read_printed(printed: &Secret) -> Result<AwsKey, SubstituteError> {
    let read: PrintedKey = serde_json::from_str(printed.reveal()).map_err(|_| SubstituteError::Source {
        key: AWS_CREDENTIALS.to_owned(),
        error: CredentialFetchError::new("it is not the JSON output of a credential_process"),
    })?;
    let PrintedKey { access_key_id, secret_access_key, session_token } = read;
    Ok(AwsKey {
        id: Secret::new(access_key_id),
        secret: Secret::new(secret_access_key),
        session_token: session_token.map(Secret::new),
    })
}
