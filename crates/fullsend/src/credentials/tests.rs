//! Where values come from, what is refused, and that the guard gets every value before it is used.

use std::sync::Mutex;

use super::*;

struct Scene {
    learnt: Arc<Mutex<Vec<(String, String)>>>,
    directory: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        Self { learnt: Arc::default(), directory: tempfile::tempdir().unwrap() }
    }

    fn value(&self, text: &str) -> Result<String, String> {
        let learnt = Arc::clone(&self.learnt);
        let learn: Learn = Arc::new(move |key, value| {
            if value.len() < 4 {
                return Err("is too short".to_owned());
            }
            learnt.lock().unwrap().push((key.to_owned(), value.to_owned()));
            Ok(())
        });
        let variables = |name: &str| (name == "HOST_TOKEN").then(|| "from-the-host".to_owned());
        let environment = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
        let host =
            CredentialHost { environment, variables: &variables, working_directory: self.directory.path() };
        let source = source("KEY", &Template::parse(text).unwrap(), &host, &learn)?;
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let secret = runtime.block_on(source.secret()).map_err(|error| error.to_string())?;
        Ok(secret.reveal().to_owned())
    }

    fn file(&self, name: &str, contents: &[u8]) -> String {
        let path = self.directory.path().join(name);
        std::fs::write(&path, contents).unwrap();
        format!("file:{}", path.display())
    }
}

#[test]
fn values_come_from_variables_files_and_commands_and_are_made_known() {
    let scene = Scene::new();
    assert_eq!(scene.value("${HOST_TOKEN}").as_deref(), Ok("from-the-host"));
    assert_eq!(scene.value(&scene.file("token", b"from-a-file\n")).as_deref(), Ok("from-a-file"));
    assert_eq!(scene.value("exec:printf from-a-command").as_deref(), Ok("from-a-command"));
    // The shell expands it, so that the value is never in an argument.
    let with_arguments = "exec:printf '%s' \"${HOST_TOKEN}\"; tr '\\0' ' ' < /proc/$$$$/cmdline >&2";
    assert_eq!(scene.value(with_arguments).as_deref(), Ok("from-the-host"));
    let known: Vec<String> = scene.learnt.lock().unwrap().iter().map(|(_, value)| value.clone()).collect();
    assert_eq!(known, ["from-the-host", "from-a-file", "from-a-command", "from-the-host"]);
}

#[test]
fn missing_credential_names_its_cause() {
    let scene = Scene::new();
    let check = |text: &str, expected: &str| {
        let why = scene.value(text).unwrap_err();
        assert!(why.contains(expected), "{text}: {why}");
    };
    check("${NOT_SET}", "NOT_SET is not set");
    check("file:relative", "is not an absolute path");
    check("file:/nowhere/at/all", "cannot be read");
    check("file:/proc", "is not a file");
    check(&scene.file("empty", b"\n"), "is empty");
    check(&scene.file("large", &vec![b'x'; 65 << 10]), "more than 65536 bytes");
    check(&scene.file("binary", b"\xff\xfe\xfd\xfc"), "cannot be read");
    check("exec:", "names no command");
    check("exec:echo ${NOT_SET}", "NOT_SET is not set");
    check("exec:echo nobody is logged in >&2; exit 3", "ended with 3: nobody is logged in");
    check("exec:printf '{\"value\":\"abcd\",\"expires_in\":5}'", "less than 60 seconds");
    check("exec:yes | head -c 70000", "more than 65536 bytes");
    check("exec:printf abc", "is too short");
}
