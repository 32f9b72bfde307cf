//! A key as AWS's services and programs write it in JSON.

use super::aws_time;
use super::token_cache::IssuedToken;
use egress::credentials::Secret;
use egress::sigv4::AwsKey;
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

pub(super) async fn read(path: &str) -> Result<String, String> {
    let text = tokio::fs::read_to_string(Path::new(path)).await;
    text.map_err(|error| format!("{path} cannot be read: {error}"))
}

pub(super) fn key_of(value: &Value, token_name: &str) -> Result<IssuedToken<AwsKey>, String> {
    let text = |name: &str| value[name].as_str().map(|text| Secret::new(text.to_owned()));
    let (Some(id), Some(secret)) = (text("AccessKeyId"), text("SecretAccessKey")) else {
        return Err("AWS answered without a key".to_owned());
    };
    let by_text = value["Expiration"].as_str().and_then(aws_time::parse);
    let by_number =
        value["Expiration"].as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let expires = by_text.or_else(|| by_number.map(|since| SystemTime::UNIX_EPOCH + since));
    let until = expires.map(|at| Instant::now() + at.duration_since(SystemTime::now()).unwrap_or_default());
    Ok(IssuedToken { value: AwsKey { id, secret, session_token: text(token_name) }, until })
}
