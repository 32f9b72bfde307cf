//! Requests that the proxy signs: a fake of S3 in Python checks every signature, and the client inside never has the key.

use super::lab::{Lab, LabConfig, authorization, rule, start_lab, talk};
use crate::credentials::{
    ACCESS_KEY_ID, AWS_CREDENTIALS, Credential, CredentialSource, CredentialStore, SECRET_ACCESS_KEY,
    SESSION_TOKEN, Secret,
};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// As the fake knows them.
const ID: &str = "AKIAFAKEFAKEFAKE0002";
const SECRET: &str = "secret/of+the-fake-key-for-the-tests-0002";
const TOKEN: &str = "session-token-of-the-fake-s3";

/// The fake behind TLS. It ends with the test.
struct FakeS3 {
    process: Child,
    port: u16,
    requests: Arc<Mutex<Vec<Value>>>,
}

impl Drop for FakeS3 {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

impl FakeS3 {
    /// `None` where Python is not installed.
    async fn start(config: &LabConfig) -> Option<Self> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fakes/s3.py");
        let mut process = Command::new("python3").arg(script).stdout(Stdio::piped()).spawn().ok()?;
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        let mut first = String::new();
        lines.read_line(&mut first).unwrap();
        let behind: u16 = first.trim().parse().unwrap();
        let requests = Arc::<Mutex<Vec<Value>>>::default();
        let kept = Arc::clone(&requests);
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                kept.lock().unwrap().push(serde_json::from_str(&line).unwrap());
            }
        });
        let acceptor = config.vendor.acceptor("api.test", false, &[b"http/1.1"]);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    let mut to = tokio::net::TcpStream::connect(("127.0.0.1", behind)).await.unwrap();
                    drop(tokio::io::copy_bidirectional(&mut stream, &mut to).await);
                });
            }
        });
        Some(Self { process, port, requests })
    }

    /// Once it has taken so many.
    async fn requests(&self, count: usize) -> Vec<Value> {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while self.requests.lock().unwrap().len() < count && std::time::Instant::now() < deadline {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        self.requests.lock().unwrap().clone()
    }
}

struct SignedLab {
    lab: Lab,
    fake: FakeS3,
    placeholders: Vec<(String, String)>,
}

fn credentials(values: &[(&str, String)]) -> CredentialStore {
    let credential = |(key, value): &(&str, String)| Credential {
        provider: "aws".into(),
        key: (*key).to_owned(),
        source: CredentialSource::fixed(Secret::new(value.clone())),
        endpoints: Vec::new(),
        placements: authorization(),
        plain: false,
    };
    CredentialStore::new(values.iter().map(credential).collect()).unwrap()
}

fn named() -> Vec<(&'static str, String)> {
    [(ACCESS_KEY_ID, ID), (SECRET_ACCESS_KEY, SECRET), (SESSION_TOKEN, TOKEN)]
        .map(|(name, value)| (name, value.to_owned()))
        .to_vec()
}

async fn signed_lab(scheme: &str, values: &[(&str, String)]) -> Option<SignedLab> {
    let mut config = LabConfig::new("");
    config.limits.idle = std::time::Duration::from_secs(60);
    let Some(fake) = FakeS3::start(&config).await else {
        crate::skip("proxy::tests::signing", "python3 is not installed");
        return None;
    };
    let keys = format!(
        "        protocol: rest\n        access: full\n        credential_signing: \"{scheme}\"\n        \
         signing_service: s3\n        signing_region: eu-west-1\n        credential_binding: {{provider: aws}}"
    );
    config.policy = rule(fake.port, &keys);
    let store = credentials(values);
    let placeholders = store.placeholders();
    config.credentials = Arc::new(store);
    Some(SignedLab { lab: start_lab(config).await, fake, placeholders })
}

impl SignedLab {
    async fn ask(&self, line: &str, fields: &str, body: &str) -> String {
        let length =
            if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        self.ask_framed(line, &format!("{fields}{length}"), body).await
    }

    /// The fields say how long the body is.
    async fn ask_framed(&self, line: &str, fields: &str, body: &str) -> String {
        let port = self.fake.port;
        let text =
            format!("{line} HTTP/1.1\r\nHost: api.test:{port}\r\n{fields}Connection: close\r\n\r\n{body}");
        talk(self.lab.inspected(port).await, &text).await
    }

    fn placeholder(&self, name: &str) -> &str {
        &self.placeholders.iter().find(|(key, _)| key == name).unwrap().1
    }

    /// The headers of a client that signs with placeholders.
    fn client_signature(&self) -> String {
        format!(
            "Authorization: AWS4-HMAC-SHA256 Credential={}/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, \
             Signature=00\r\nX-Amz-Date: 20200101T000000Z\r\nX-Amz-Security-Token: {}\r\n",
            self.placeholder(ACCESS_KEY_ID),
            self.placeholder(SESSION_TOKEN)
        )
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bytes_that_are_sent_are_signed_with_the_key_that_stays_outside() {
    let Some(signed) = signed_lab("sigv4", &named()).await else { return };
    let own = signed.client_signature();
    let put = signed.ask("PUT /bucket/a%20b/(c)?x-id=PutObject", &own, "hello").await;
    assert!(put.starts_with("HTTP/1.1 200 "), "{put}");
    let hash = "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\r\n";
    let get = signed.ask("GET /bucket/a%20b/(c)", &format!("{own}{hash}Range: bytes=1-3\r\n"), "").await;
    assert!(get.starts_with("HTTP/1.1 206 ") && get.ends_with("ell"), "{get}");
    let chunks = "Transfer-Encoding: chunked\r\n";
    let put = signed.ask_framed("PUT /bucket/d", &format!("{own}{chunks}"), "5\r\nhello\r\n0\r\n\r\n").await;
    assert!(put.starts_with("HTTP/1.1 200 "), "{put}");
    let requests = signed.fake.requests(3).await;
    for request in &requests {
        assert_eq!(request["problem"], Value::Null, "{request}");
        assert!(!request.to_string().contains("openshell:resolve"), "{request}");
    }
    let listed = signed.ask("GET /bucket?list-type=2&prefix=a%20b%2F&delimiter=%2F", &own, "").await;
    assert!(listed.contains("a b/(c)"), "{listed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_that_repeats_the_key_does_not_bring_it_in() {
    let Some(signed) = signed_lab("sigv4", &named()).await else { return };
    let missing = signed.ask("GET /bucket/nothing", &signed.client_signature(), "").await;
    assert!(missing.contains("NoSuchKey"), "{missing}");
    assert!(missing.contains(&format!("<AWSAccessKeyId>{}<", "*".repeat(ID.len()))), "{missing}");
    assert_eq!(signed.fake.requests(1).await[0]["problem"], Value::Null);
    let events = format!("{:?}", signed.lab.events.lock().unwrap());
    assert!(![ID, SECRET, TOKEN].iter().any(|value| events.contains(value)), "{events}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_signed_is_refused_with_the_reason() {
    let Some(signed) = signed_lab("sigv4", &named()).await else { return };
    let own = signed.client_signature();
    let chunks = format!("{own}x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD\r\n");
    let long = "x".repeat((16 << 20) + 1);
    let inside = format!("{{\"key\":\"{}\"}}", signed.placeholder(SECRET_ACCESS_KEY));
    for (line, fields, body, words) in [
        ("PUT /bucket/a", chunks.as_str(), "hello", "chunk by chunk"),
        ("GET /bucket/a?X-Amz-Signature=00", "", "", "presigned"),
        ("PUT /bucket/a", own.as_str(), long.as_str(), "longer than 16 MiB"),
        ("PUT /bucket/a", own.as_str(), inside.as_str(), "placeholders in the body"),
    ] {
        let refused = signed.ask(line, fields, body).await;
        assert!(refused.contains(words), "{line}: {refused}");
    }
    assert!(signed.fake.requests.lock().unwrap().is_empty());

    let Some(signed) = signed_lab("sigv4:body", &named()).await else { return };
    let unsigned = "x-amz-content-sha256: UNSIGNED-PAYLOAD\r\n";
    let refused = signed.ask("PUT /bucket/a", unsigned, "hello").await;
    assert!(refused.contains("signs bodies"), "{refused}");

    let Some(signed) = signed_lab("sigv4", &[("OTHER", "value-of-another".to_owned())]).await else { return };
    let refused = signed.ask("GET /bucket/a", "", "").await;
    assert!(refused.contains("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not bound"), "{refused}");
}

/// Programs inside that never end their bodies must not fill the host's memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_are_held_share_one_memory() {
    use tokio::io::AsyncWriteExt;
    let Some(signed) = signed_lab("sigv4", &named()).await else { return };
    let port = signed.fake.port;
    let mut open = Vec::new();
    for _ in 0..8 {
        let mut stream = signed.lab.inspected(port).await;
        let head = format!(
            "PUT /b/a HTTP/1.1\r\nHost: api.test:{port}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        open.push(stream);
    }
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let mut answer = String::new();
    // The eight may not have been read yet.
    while !answer.contains("try again") && std::time::Instant::now() < deadline {
        answer = signed.ask("PUT /bucket/a", "", "hello").await;
    }
    assert!(answer.contains("other large bodies are held"), "{answer}");
    drop(open);
    while !answer.starts_with("HTTP/1.1 200 ") && std::time::Instant::now() < deadline {
        answer = signed.ask("PUT /bucket/a", "", "hello").await;
    }
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_may_come_whole_and_a_body_may_stay_unsigned() {
    let printed = json!({"Version": 1, "AccessKeyId": ID, "SecretAccessKey": SECRET, "SessionToken": TOKEN});
    let whole = [(AWS_CREDENTIALS, printed.to_string())];
    let Some(signed) = signed_lab("sigv4:no_body", &whole).await else { return };
    let put = signed.ask("PUT /bucket/a", "", "hello").await;
    assert!(put.starts_with("HTTP/1.1 200 "), "{put}");
    let request = &signed.fake.requests(1).await[0];
    assert_eq!(request["headers"]["x-amz-content-sha256"], "UNSIGNED-PAYLOAD", "{request}");
}

const CLIENT: &str = r#"
import boto3, os
from botocore.config import Config
s3 = boto3.client("s3", endpoint_url=os.environ["ENDPOINT"], region_name="eu-west-1", verify=os.environ["CA"],
                  config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}))
s3.put_object(Bucket="bucket", Key="a b/c+d.txt", Body=b"hello from boto3")
print(s3.get_object(Bucket="bucket", Key="a b/c+d.txt")["Body"].read().decode())
print(s3.get_object(Bucket="bucket", Key="a b/c+d.txt", Range="bytes=6-9")["Body"].read().decode())
print([entry["Key"] for entry in s3.list_objects_v2(Bucket="bucket", Prefix="a b/")["Contents"]])
s3.delete_object(Bucket="bucket", Key="a b/c+d.txt")
try:
    s3.get_object(Bucket="bucket", Key="a b/c+d.txt")
except s3.exceptions.NoSuchKey as error:
    print("gone:", error)
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn boto3_works_with_placeholders_for_a_key() {
    let Some(signed) = signed_lab("sigv4", &named()).await else { return };
    let authority = std::env::temp_dir().join(format!("egress-s3-{}.pem", signed.lab.proxy.port()));
    std::fs::write(&authority, signed.lab.authority.certificate_pem()).unwrap();
    let mut client = Command::new("python3");
    client.arg("-c").arg(CLIENT).env_remove("NO_PROXY").env_remove("no_proxy");
    client.env("ENDPOINT", format!("https://api.test:{}", signed.fake.port)).env("CA", &authority);
    client.env("HTTPS_PROXY", format!("http://{}", signed.lab.proxy)).envs(signed.placeholders.clone());
    client.env("AWS_EC2_METADATA_DISABLED", "true").env("AWS_CONFIG_FILE", "/nonexistent");
    let output = tokio::task::spawn_blocking(move || client.output()).await.unwrap().unwrap();
    drop(std::fs::remove_file(&authority));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("No module named 'boto3'") {
        return crate::skip("proxy::tests::signing::boto3", "boto3 is not installed");
    }
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}\n{said}");
    for line in ["hello from boto3\n", "\nfrom\n", "['a b/c+d.txt']", "gone: "] {
        assert!(printed.contains(line), "{line}: {printed}");
    }
    let requests = signed.fake.requests(6).await;
    assert_eq!(requests.len(), 6, "{requests:?}");
    for request in requests {
        assert_eq!(request["problem"], Value::Null, "{request}");
    }
}
