//! Start files of shells among the host files, such as `.profile`. A shell runs them by itself, and they can set the variable
//! of a credential in any way. So the shell runs another file, which runs the delivered one and then sets these variables
//! again.

use sandbox::{Mount, MountKind};

use super::env_files;
use super::placeholders::Placeholders;

/// Where the delivered files are.
const DIRECTORY: &str = "/sandbox/.fullsend/start-files";

/// The start files of sh, bash, ksh and zsh, wherever they are.
const NAMES: &[&str] = &[
    ".profile",
    ".bash_profile",
    ".bash_login",
    ".bashrc",
    ".bash_aliases",
    ".kshrc",
    ".mkshrc",
    ".shrc",
    ".zshenv",
    ".zprofile",
    ".zshrc",
    ".zlogin",
];

/// The same for all users.
const PATHS: &[&str] = &["/etc/profile", "/etc/bash.bashrc", "/etc/bashrc", "/etc/ksh.kshrc"];
const DIRECTORIES: &[&str] = &["/etc/profile.d/", "/etc/bashrc.d/", "/etc/zsh/"];

/// Whether a shell inside runs this file when it starts. Nothing else is: `BASH_ENV` and `ENV` are reserved.
pub fn is_start_file(target: &str) -> bool {
    let name = target.rsplit('/').next().unwrap_or(target);
    NAMES.contains(&name)
        || PATHS.contains(&target)
        || DIRECTORIES.iter().any(|directory| target.starts_with(directory))
}

/// The delivered file, and the file that runs it.
pub fn mounts(target: &str, text: &str, placeholders: &Placeholders<'_>) -> [Mount; 2] {
    let delivered = format!("{DIRECTORY}{target}");
    let file = |path: &str, text: String| Mount {
        target: path.into(),
        kind: MountKind::File { contents: text.into_bytes(), mode: 0o444 },
    };
    let runs_it = around(&delivered, placeholders.variables());
    [file(&delivered, text.to_owned()), file(target, runs_it)]
}

/// A variable without a placeholder gets back the value that it had before.
fn around<'p>(path: &str, variables: impl Iterator<Item = (&'p str, Option<&'p str>)>) -> String {
    let mut before = String::new();
    let mut after = String::new();
    for (index, (name, placeholder)) in variables.enumerate() {
        match placeholder {
            Some(placeholder) => {
                after.push_str(&env_files::write(&[(name.to_owned(), placeholder.to_owned())]));
            }
            None => {
                let kept = format!("fullsend_kept_{index}");
                before.push_str(&format!("unset {kept}; [ -z \"${{{name}+x}}\" ] || {kept}=${name}\n"));
                after.push_str(&format!(
                    "if [ -n \"${{{kept}+x}}\" ]; then export {name}=\"${kept}\"; else unset {name}; fi\n"
                ));
            }
        }
    }
    format!(
        "# The harness delivers {path}. It runs here; then the variables of credentials are set again.\n\
         {before}. '{}'\n{after}",
        path.replace('\'', "'\\''")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// As the shells of this machine run it.
    #[test]
    fn whatever_a_file_does_the_placeholder_is_set_after_it() {
        let place = tempfile::tempdir().unwrap();
        let delivered = place.path().join("delivered");
        let text = around(
            delivered.to_str().unwrap(),
            [("A", Some("it's here")), ("B", None), ("C", None)].into_iter(),
        );
        let start = place.path().join("start");
        std::fs::write(&start, text).unwrap();
        for script in
            ["export A=real B=real C=real", "A=$(printf re)al; B=real; export B; export C=real; return 3"]
        {
            std::fs::write(&delivered, script).unwrap();
            for shell in ["sh", "bash", "dash"] {
                let asked = format!(". {}; echo \"$A|$B|${{C-unset}}\"; env | grep -c real", start.display());
                let mut command = Command::new(shell);
                let Ok(ran) = command
                    .args(["-c", &asked])
                    .env_clear()
                    .env("PATH", "/usr/bin:/bin")
                    .env("B", "kept")
                    .output()
                else {
                    continue;
                };
                assert_eq!(
                    String::from_utf8_lossy(&ran.stdout),
                    "it's here|kept|unset\n0\n",
                    "{shell}: {script}"
                );
            }
        }
    }
}
