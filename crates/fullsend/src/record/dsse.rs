//! DSSE envelopes: a statement, and signatures over it. Signs with an ed25519 key or a command of the host, and checks a
//! signature against a public key. The private key is read before the run and is in no file of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

use crate::cancel::Cancel;
use crate::event::log::sha256;
use crate::scripts::{self, Script, ScriptError};

/// The type of in-toto statements.
const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// What a public ed25519 key starts with in DER.
const PUBLIC_PREFIX: &[u8] = &[0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

const MAX_KEY_BYTES: u64 = 16 << 10;

/// How long a command may take to sign: a person may have to touch a key.
const SIGNER_TIME: Duration = Duration::from_secs(120);

/// The file that a command signs.
pub const SIGNER_INPUT: &str = "FULLSEND_SIGN_INPUT";

#[derive(Debug)]
pub enum SignError {
    Key { path: String, why: String },
    Command(ScriptError),
    Refused { code: i32, why: String },
    Answer,
    Write { path: String, source: std::io::Error },
}

impl std::fmt::Display for SignError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Key { path, why } => write!(f, "the key {path} {why}"),
            Self::Command(error) => write!(f, "the signing command failed: {error}"),
            Self::Refused { code, why } => write!(f, "the signing command exited with {code}: {why}"),
            Self::Answer => f.write_str("the signing command did not print a signature in base64"),
            Self::Write { path, source } => write!(f, "cannot write {path}: {source}"),
        }
    }
}

impl std::error::Error for SignError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Command(error) => Some(error),
            Self::Write { source, .. } => Some(source),
            Self::Key { .. } | Self::Refused { .. } | Self::Answer => None,
        }
    }
}

/// Who signs the record of a run.
pub enum RecordSigner {
    Key(Box<Ed25519KeyPair>),
    /// A shell command that prints a signature of the file in `FULLSEND_SIGN_INPUT`, in base64.
    Command {
        words: String,
        environment: BTreeMap<String, String>,
    },
}

impl std::fmt::Debug for RecordSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Key(_) => "RecordSigner(key)",
            Self::Command { .. } => "RecordSigner(command)",
        })
    }
}

impl RecordSigner {
    /// `exec:COMMAND`, or the path of a private key in PKCS#8 PEM.
    pub fn load(text: &str, environment: BTreeMap<String, String>) -> Result<Self, SignError> {
        if let Some(words) = text.strip_prefix("exec:") {
            return Ok(Self::Command { words: words.to_owned(), environment });
        }
        let wrong = |why: String| SignError::Key { path: text.to_owned(), why };
        let der = read_pem(Path::new(text), "PRIVATE KEY").map_err(wrong)?;
        // A key made by openssl does not contain its public key, so there is nothing to compare.
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).map_err(|_| {
            wrong("is not an ed25519 key: `openssl genpkey -algorithm ed25519` makes one".to_owned())
        })?;
        Ok(Self::Key(Box::new(pair)))
    }

    /// The envelope around a statement, as it is written.
    pub fn sign(&self, statement: &[u8]) -> Result<String, SignError> {
        let message = pre_authentication(PAYLOAD_TYPE, statement);
        let (keyid, signature) = match self {
            Self::Key(pair) => {
                let public: &[u8] = pair.public_key().as_ref();
                (key_id(public), pair.sign(&message).as_ref().to_vec())
            }
            Self::Command { words, environment } => (String::new(), ask(words, environment, &message)?),
        };
        let signatures = vec![EnvelopeSignature { keyid, sig: STANDARD.encode(signature) }];
        let payload = STANDARD.encode(statement);
        let envelope = SignedEnvelope { payload_type: PAYLOAD_TYPE.to_owned(), payload, signatures };
        Ok(format!("{}\n", serde_json::to_string(&envelope).unwrap_or_default()))
    }
}

fn ask(words: &str, environment: &BTreeMap<String, String>, message: &[u8]) -> Result<Vec<u8>, SignError> {
    let wrong = |source| SignError::Write { path: "a temporary file".to_owned(), source };
    let place = tempfile::tempdir().map_err(wrong)?;
    let input = place.path().join("statement");
    std::fs::write(&input, message).map_err(wrong)?;
    let mut environment = environment.clone();
    environment.insert(SIGNER_INPUT.to_owned(), input.display().to_string());
    let ended = scripts::run(&Script {
        program: Path::new("/bin/sh"),
        arguments: &["-c".to_owned(), words.to_owned()],
        working_directory: Path::new("/"),
        environment,
        time: SIGNER_TIME,
        cancel: &Cancel::default(),
    })
    .map_err(SignError::Command)?;
    let (printed, complaint) = ended.output.split_at(ended.stdout_bytes);
    if !ended.status.success() {
        let last = complaint.lines().rev().find(|line| !line.trim().is_empty());
        let why = last.unwrap_or("it printed nothing").to_owned();
        return Err(SignError::Refused { code: ended.code(), why });
    }
    let text: String = printed.split_whitespace().collect();
    STANDARD.decode(text).ok().filter(|bytes| !bytes.is_empty()).ok_or(SignError::Answer)
}

/// What is signed: the type and the text, each after its length, so that their boundary is unambiguous.
fn pre_authentication(kind: &str, payload: &[u8]) -> Vec<u8> {
    let mut message = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).into_bytes();
    message.extend_from_slice(payload);
    message
}

#[derive(Serialize, Deserialize)]
struct SignedEnvelope {
    #[serde(rename = "payloadType")]
    payload_type: String,
    payload: String,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Serialize, Deserialize)]
struct EnvelopeSignature {
    #[serde(default)]
    keyid: String,
    sig: String,
}

/// The key that a record must be signed with.
pub struct PublicKey {
    bytes: Vec<u8>,
}

impl PublicKey {
    pub fn load(path: &Path) -> Result<Self, SignError> {
        let wrong = |why: String| SignError::Key { path: path.display().to_string(), why };
        let der = read_pem(path, "PUBLIC KEY").map_err(wrong)?;
        let bytes = der.strip_prefix(PUBLIC_PREFIX).filter(|bytes| bytes.len() == 32);
        let bytes = bytes.ok_or_else(|| wrong("is not a public ed25519 key".to_owned()))?.to_vec();
        Ok(Self { bytes })
    }

    pub fn id(&self) -> String {
        key_id(&self.bytes)
    }
}

/// The digest of the public key in DER.
fn key_id(public: &[u8]) -> String {
    sha256(&[PUBLIC_PREFIX, public].concat())
}

/// The statement in an envelope. With a key, one of the signatures must be of that key.
pub fn open(envelope: &[u8], key: Option<&PublicKey>) -> Result<Vec<u8>, String> {
    let envelope: SignedEnvelope =
        serde_json::from_slice(envelope).map_err(|error| format!("is not an envelope: {error}"))?;
    if envelope.payload_type != PAYLOAD_TYPE {
        return Err(format!("holds `{}`, not a statement", envelope.payload_type));
    }
    let statement =
        STANDARD.decode(&envelope.payload).map_err(|_| "has a payload that is not base64".to_owned())?;
    let Some(key) = key else { return Ok(statement) };
    let message = pre_authentication(PAYLOAD_TYPE, &statement);
    let public = UnparsedPublicKey::new(&ED25519, &key.bytes);
    let holds = |one: &EnvelopeSignature| {
        STANDARD.decode(&one.sig).is_ok_and(|signature| public.verify(&message, &signature).is_ok())
    };
    if envelope.signatures.iter().any(holds) {
        return Ok(statement);
    }
    Err(format!("is not signed by the key {}", key.id()))
}

/// The bytes between the lines of a PEM file.
fn read_pem(path: &Path, label: &str) -> Result<Vec<u8>, String> {
    let about = std::fs::metadata(path).map_err(|error| format!("cannot be read: {error}"))?;
    if !about.is_file() || about.len() > MAX_KEY_BYTES {
        return Err("is not the file of a key".to_owned());
    }
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    let begin = format!("-----BEGIN {label}-----");
    let end = format!("-----END {label}-----");
    let inner = text.split_once(&begin).and_then(|(_, rest)| rest.split_once(&end)).map(|(inner, _)| inner);
    let inner: String = inner.ok_or_else(|| format!("has no `{begin}`"))?.split_whitespace().collect();
    STANDARD.decode(inner).map_err(|_| "is not PEM".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification.
    #[test]
    fn the_message_is_that_of_the_specification() {
        let message = pre_authentication("http://example.com/HelloWorld", b"hello world");
        assert_eq!(message, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    }

    #[test]
    fn a_signature_holds_for_its_key_and_its_text_only() {
        let random = ring::rand::SystemRandom::new();
        let pair = || {
            let document = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
            Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap()
        };
        let one = pair();
        let public = |pair: &Ed25519KeyPair| PublicKey { bytes: pair.public_key().as_ref().to_vec() };
        let key = public(&one);
        let other = public(&pair());
        let envelope = RecordSigner::Key(Box::new(one)).sign(b"{\"a\":1}").unwrap();
        assert_eq!(open(envelope.as_bytes(), Some(&key)).unwrap(), b"{\"a\":1}");
        assert!(open(envelope.as_bytes(), Some(&other)).unwrap_err().contains("is not signed by the key"));
        let mut forged: SignedEnvelope = serde_json::from_str(&envelope).unwrap();
        forged.payload = STANDARD.encode("{\"a\":2}");
        let forged = serde_json::to_vec(&forged).unwrap();
        assert!(open(&forged, Some(&key)).is_err());
        let retyped = envelope.replace("in-toto+json", "in-toto+JSON");
        assert!(open(retyped.as_bytes(), Some(&key)).is_err());
        let unsigned = envelope.split("\"signatures\"").next().unwrap().to_owned() + "\"signatures\":[]}";
        assert!(open(unsigned.as_bytes(), Some(&key)).is_err());
    }
}
