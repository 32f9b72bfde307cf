//! A profile in the files of AWS's own programs: a key, or a `credential_process` that prints one.

use super::aws_key_document::{key_of, read};
use super::token_cache::IssuedToken;
use egress::credentials::Secret;
use egress::sigv4::AwsKey;
use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::Command;

const PROCESS_PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct AwsProfile {
    /// Only its keys are read, because a provider may name this file.
    pub(super) credentials_file: Option<String>,
    pub(super) config_file: Option<String>,
    pub(super) name: String,
}

impl AwsProfile {
    pub(super) async fn key(&self) -> Result<IssuedToken<AwsKey>, String> {
        let mut read_files = Vec::new();
        for (path, section) in self.sections() {
            let found = section_of(&read(path).await?, &section);
            if let Some(key) = key_in(&found) {
                return Ok(key);
            }
            let process =
                found.get("credential_process").filter(|_| self.config_file.as_deref() == Some(path));
            if let Some(process) = process {
                return printed_key(process)
                    .await
                    .map_err(|why| format!("credential_process in {path}: {why}"));
            }
            read_files.push(path);
        }
        Err(format!("{} has no key for the profile `{}`", read_files.join(" or "), self.name))
    }

    /// The files, and what each of them calls the profile.
    fn sections(&self) -> Vec<(&str, String)> {
        let in_config =
            if self.name == "default" { self.name.clone() } else { format!("profile {}", self.name) };
        let credentials = self.credentials_file.as_deref().map(|path| (path, self.name.clone()));
        let config = self.config_file.as_deref().map(|path| (path, in_config));
        credentials.into_iter().chain(config).collect()
    }
}

/// The settings of one section of an INI file.
fn section_of(text: &str, section: &str) -> BTreeMap<String, String> {
    let mut inside = false;
    let mut found = BTreeMap::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            inside = name.trim() == section;
        } else if let (true, Some((name, value))) = (inside, line.split_once('=')) {
            found.insert(name.trim().to_owned(), value.trim().to_owned());
        }
    }
    found
}

fn key_in(section: &BTreeMap<String, String>) -> Option<IssuedToken<AwsKey>> {
    let secret = |name: &str| section.get(name).map(|value| Secret::new(value.clone()));
    let value = AwsKey {
        id: secret("aws_access_key_id")?,
        secret: secret("aws_secret_access_key")?,
        session_token: secret("aws_session_token"),
    };
    // The file may be renewed at any time.
    Some(IssuedToken { value, until: Some(Instant::now()) })
}

/// Runs the command by a shell, which reads its quotes as AWS's programs do. What it prints is never part of an error.
async fn printed_key(process: &str) -> Result<IssuedToken<AwsKey>, String> {
    let child = Command::new("sh")
        .args(["-c", process])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = match tokio::time::timeout(PROCESS_PATIENCE, child).await {
        Ok(output) => output.map_err(|error| error.to_string())?,
        Err(_) => return Err(format!("it did not end in {} seconds", PROCESS_PATIENCE.as_secs())),
    };
    if !output.status.success() {
        return Err(format!("it ended with {}", output.status));
    }
    let value = serde_json::from_slice(&output.stdout).map_err(|_| "it did not print JSON".to_owned())?;
    key_of(&value, "SessionToken")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "[default]\naws_access_key_id = A\naws_secret_access_key=B\n# c\n[ci]\naws_access_key_id=C\n\
                        aws_secret_access_key=D=\naws_session_token=E\n";

    async fn key(profile: &AwsProfile) -> Result<(String, String, Option<String>), String> {
        let key = profile.key().await?.value;
        let text = |secret: &Secret| secret.reveal().to_owned();
        Ok((text(&key.id), text(&key.secret), key.session_token.as_ref().map(text)))
    }

    fn written(name: &str, text: &str) -> (tempfile::TempDir, String) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap().to_owned();
        (dir, path)
    }

    #[tokio::test]
    async fn a_profile_of_the_file_is_found() {
        let (_dir, path) = written("credentials", FILE);
        let profile = |name: &str| AwsProfile {
            credentials_file: Some(path.clone()),
            config_file: None,
            name: name.to_owned(),
        };
        assert_eq!(key(&profile("default")).await, Ok(("A".to_owned(), "B".to_owned(), None)));
        assert_eq!(key(&profile("ci")).await, Ok(("C".to_owned(), "D=".to_owned(), Some("E".to_owned()))));
        let missing = key(&profile("other")).await.unwrap_err();
        assert!(missing.ends_with("has no key for the profile `other`"), "{missing}");
    }

    #[tokio::test]
    async fn a_credential_process_prints_the_key_and_its_words_stay_out_of_errors() {
        let printed = r#"{"Version":1,"AccessKeyId":"P","SecretAccessKey":"Q R","SessionToken":"S"}"#;
        let config = format!(
            "[profile good]\ncredential_process = echo '{printed}'\n[profile bad]\ncredential_process = echo secret-words\n\
             [profile failed]\ncredential_process = echo secret-words; exit 3\n"
        );
        let (_dir, path) = written("config", &config);
        let profile = |name: &str| AwsProfile {
            credentials_file: None,
            config_file: Some(path.clone()),
            name: name.to_owned(),
        };
        let good = key(&profile("good")).await;
        assert_eq!(good, Ok(("P".to_owned(), "Q R".to_owned(), Some("S".to_owned()))));
        let named = AwsProfile {
            credentials_file: Some(path.clone()),
            config_file: None,
            name: "profile good".to_owned(),
        };
        let refused = key(&named).await.unwrap_err();
        assert!(refused.contains("has no key"), "a file that a provider names runs nothing: {refused}");
        for (name, expected) in [("bad", "it did not print JSON"), ("failed", "exit status: 3")] {
            let error = key(&profile(name)).await.unwrap_err();
            assert!(error.contains(expected) && !error.contains("secret-words"), "{error}");
        }
    }
}
