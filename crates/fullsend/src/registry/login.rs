//! The login for a registry, as docker and podman keep it: in their files, or with a credential helper. It writes
//! nothing, and no message contains the password.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use egress::credentials::Secret;
use serde::Deserialize;

use super::error::PullError;
use crate::cancel::Cancel;
use crate::harness::image::{DOCKER_HUB, ImageName};
use crate::scripts::{self, Script};

const MAX_FILE_BYTES: u64 = 1 << 20;
const HELPER_TIME: Duration = Duration::from_secs(30);

/// How docker names its own registry in these files.
const HUB_KEYS: &[&str] = &["https://index.docker.io/v1/", "index.docker.io", DOCKER_HUB];

/// Variables that credential helpers use to find their own settings.
const HELPER_VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "LANG",
    "TMPDIR",
    "DOCKER_CONFIG",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "GNUPGHOME",
    "PASSWORD_STORE_DIR",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "CLOUDSDK_CONFIG",
    "AZURE_CONFIG_DIR",
];

/// Who asks a registry.
pub enum RegistryLogin {
    Password {
        user: String,
        password: Secret,
    },
    /// A token that is exchanged for others.
    IdentityToken(Secret),
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AuthFile {
    auths: BTreeMap<String, Entry>,
    cred_helpers: BTreeMap<String, String>,
    creds_store: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    auth: Option<String>,
    identitytoken: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HelperAnswer {
    username: String,
    secret: String,
}

/// The login for an image's registry; `None` if no file and no helper has one.
pub fn find(
    name: &ImageName,
    variables: &dyn Fn(&str) -> Option<String>,
    cancel: &Cancel,
) -> Result<Option<RegistryLogin>, PullError> {
    let failed = |why: String| PullError::Login { registry: name.registry.clone(), why };
    for path in files(variables) {
        let Some(file) = read(&path).map_err(|why| failed(format!("{}: {why}", path.display())))? else {
            continue;
        };
        let keys = keys(name);
        let helper = keys.iter().find_map(|key| file.cred_helpers.get(key));
        if let Some(helper) = helper {
            return ask_helper(helper, &helper_key(name), variables, cancel).map_err(failed);
        }
        let entry = keys.iter().find_map(|key| file.auths.get(key));
        if let Some(login) = entry.and_then(|entry| from_entry(entry).transpose()) {
            return login.map(Some).map_err(|why| failed(format!("{}: {why}", path.display())));
        }
        if let Some(store) = &file.creds_store
            && let Some(login) = ask_helper(store, &helper_key(name), variables, cancel).map_err(failed)?
        {
            return Ok(Some(login));
        }
    }
    Ok(None)
}

/// Podman's files first: they are the more specific ones.
fn files(variables: &dyn Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let directory = |name: &str| variables(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = directory("HOME");
    let configuration =
        directory("XDG_CONFIG_HOME").or_else(|| home.as_ref().map(|home| home.join(".config")));
    let docker = directory("DOCKER_CONFIG").or_else(|| home.as_ref().map(|home| home.join(".docker")));
    let all = [
        directory("REGISTRY_AUTH_FILE"),
        directory("XDG_RUNTIME_DIR").map(|path| path.join("containers/auth.json")),
        configuration.map(|path| path.join("containers/auth.json")),
        docker.map(|path| path.join("config.json")),
    ];
    all.into_iter().flatten().collect()
}

fn read(path: &Path) -> Result<Option<AuthFile>, String> {
    let file = match std::fs::File::open(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        opened => opened.map_err(|error| error.to_string())?,
    };
    if !file.metadata().is_ok_and(|about| about.is_file()) {
        return Err("it is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    // The parser's own message would show a part of its input.
    serde_json::from_slice(&bytes).map(Some).map_err(|_| "it is not a file of docker or podman".to_owned())
}

/// The keys under which a login may be stored, the most specific first.
fn keys(name: &ImageName) -> Vec<String> {
    let whole = format!("{}/{}", name.registry, name.repository);
    let mut keys: Vec<String> = whole.match_indices('/').map(|(at, _)| whole[..at].to_owned()).collect();
    keys.push(whole);
    keys.reverse();
    if name.registry == DOCKER_HUB {
        keys.extend(HUB_KEYS.iter().map(|key| (*key).to_owned()));
    }
    for form in ["https://HOST", "https://HOST/", "https://HOST/v1/", "https://HOST/v2/"] {
        keys.push(form.replace("HOST", &name.registry));
    }
    keys
}

fn helper_key(name: &ImageName) -> String {
    if name.registry == DOCKER_HUB { HUB_KEYS[0].to_owned() } else { name.registry.clone() }
}

fn from_entry(entry: &Entry) -> Result<Option<RegistryLogin>, String> {
    if let Some(token) = entry.identitytoken.as_ref().filter(|token| !token.is_empty()) {
        return Ok(Some(RegistryLogin::IdentityToken(Secret::new(token.clone()))));
    }
    let Some(auth) = entry.auth.as_ref().filter(|auth| !auth.is_empty()) else { return Ok(None) };
    let wrong = || "its `auth` is not USER:PASSWORD in base64".to_owned();
    let decoded = base64::engine::general_purpose::STANDARD.decode(auth.trim()).map_err(|_| wrong())?;
    let decoded = String::from_utf8(decoded).map_err(|_| wrong())?;
    let (user, password) = decoded.trim_end_matches('\0').split_once(':').ok_or_else(wrong)?;
    Ok(Some(RegistryLogin::Password { user: user.to_owned(), password: Secret::new(password.to_owned()) }))
}

/// `docker-credential-NAME get`, with the registry on its standard input.
fn ask_helper(
    helper: &str,
    registry: &str,
    variables: &dyn Fn(&str) -> Option<String>,
    cancel: &Cancel,
) -> Result<Option<RegistryLogin>, String> {
    if helper.is_empty() || !helper.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    {
        return Err("the name of the credential helper has characters that no program's name has".to_owned());
    }
    let program = format!("docker-credential-{helper}");
    let environment = HELPER_VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), variables(name)?)));
    let pipe = "printf '%s\\n' \"$1\" | \"$0\" get".to_owned();
    let script = Script {
        program: Path::new("/bin/sh"),
        arguments: &["-c".to_owned(), pipe, program.clone(), registry.to_owned()],
        working_directory: Path::new("/"),
        environment: environment.collect(),
        time: HELPER_TIME,
        cancel,
    };
    let mut ended = scripts::run(&script).map_err(|error| format!("{program}: {error}"))?;
    let output = Secret::new(std::mem::take(&mut ended.output));
    let printed = &output.reveal()[..ended.stdout_bytes];
    // Helpers print this on their standard output.
    if !ended.status.success() && printed.contains("credentials not found") {
        return Ok(None);
    }
    if !ended.status.success() {
        return Err(format!("{program} ended with {}", ended.code()));
    }
    let answer: HelperAnswer =
        serde_json::from_str(printed).map_err(|_| format!("the answer of {program} cannot be read"))?;
    let secret = Secret::new(answer.secret);
    Ok(Some(match answer.username.as_str() {
        "<token>" => RegistryLogin::IdentityToken(secret),
        _ => RegistryLogin::Password { user: answer.username, password: secret },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(file: &str, name: &str, more: &dyn Fn(&Path)) -> Result<Option<String>, String> {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join(".docker")).unwrap();
        std::fs::write(place.path().join(".docker/config.json"), file).unwrap();
        more(place.path());
        let home = place.path().to_str().unwrap().to_owned();
        let variables = |name: &str| match name {
            "HOME" => Some(home.clone()),
            "PATH" => Some(format!("{home}/bin:/usr/bin:/bin")),
            _ => None,
        };
        let login = find(&ImageName::parse(name).unwrap(), &variables, &Cancel::default());
        let shown = |login: RegistryLogin| match login {
            RegistryLogin::Password { user, password } => format!("{user}:{}", password.reveal()),
            RegistryLogin::IdentityToken(token) => format!("token {}", token.reveal()),
        };
        login.map(|login| login.map(shown)).map_err(|error| error.to_string())
    }

    fn helper(home: &Path, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        let path = home.join("bin/docker-credential-test");
        std::fs::create_dir(home.join("bin")).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn the_most_specific_login_of_the_files_is_used() {
        let file = r#"{"auths": {
            "quay.io": {"auth": "YTpob3N0"}, "quay.io/acme": {"auth": "YTpvcmc="},
            "https://index.docker.io/v1/": {"identitytoken": "it"}, "x.example": {"auth": "%%"}, "y.example": {}}}"#;
        let check = |name: &str| found(file, name, &|_| {});
        assert_eq!(check("quay.io/acme/tool"), Ok(Some("a:org".to_owned())));
        assert_eq!(check("quay.io/acme2/tool"), Ok(Some("a:host".to_owned())));
        assert_eq!(check("debian"), Ok(Some("token it".to_owned())));
        assert_eq!(check("y.example/tool"), Ok(None));
        assert_eq!(check("other.example/tool"), Ok(None));
        assert!(check("x.example/tool").unwrap_err().contains("is not USER:PASSWORD in base64"));
        let secret = "hunter2-very-secret";
        let broken = found(&format!("{{\"auths\": \"{secret}\"}}"), "quay.io/a", &|_| {}).unwrap_err();
        assert!(broken.contains("not a file of docker or podman") && !broken.contains(secret), "{broken}");
        let podman = |home: &Path| {
            std::fs::create_dir_all(home.join(".config/containers")).unwrap();
            let text = r#"{"auths": {"quay.io": {"auth": "cDpwb2RtYW4="}}}"#;
            std::fs::write(home.join(".config/containers/auth.json"), text).unwrap();
        };
        assert_eq!(found(file, "quay.io/acme/tool", &podman), Ok(Some("p:podman".to_owned())));
    }

    #[test]
    fn helpers_are_asked_by_name_and_their_secrets_not_shown() {
        let for_one = r#"{"credHelpers": {"quay.io": "test"}}"#;
        let echo = r#"#!/bin/sh
[ "$1" = get ] || exit 9
read -r host
printf '{"ServerURL":"%s","Username":"%s","Secret":"from-helper"}' "$host" "$host""#;
        let asked = found(for_one, "quay.io/a", &|home| helper(home, echo));
        assert_eq!(asked, Ok(Some("quay.io:from-helper".to_owned())));
        let for_all = r#"{"credsStore": "test"}"#;
        let token = "#!/bin/sh\necho '{\"Username\":\"<token>\",\"Secret\":\"idt\"}'";
        let asked = found(for_all, "a", &|home| helper(home, token));
        assert_eq!(asked, Ok(Some("token idt".to_owned())));
        let without_login = "#!/bin/sh\necho 'credentials not found in native keychain'; exit 1";
        assert_eq!(found(for_all, "quay.io/a", &|home| helper(home, without_login)), Ok(None));
        let broken = "#!/bin/sh\necho '{\"Secret\": \"hunter2\", oops'";
        let printed = found(for_all, "quay.io/a", &|home| helper(home, broken)).unwrap_err();
        assert!(printed.contains("the answer of docker-credential-test cannot be read"), "{printed}");
        assert!(!printed.contains("hunter2"), "{printed}");
        let escape = found(r#"{"credsStore": "../../evil"}"#, "quay.io/a", &|_| {}).unwrap_err();
        assert!(escape.contains("no program's name has"), "{escape}");
    }
}
