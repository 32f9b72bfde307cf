//! The agent's variables, built from nothing: what every agent gets, then the files in `.env.d/`, then `env.sandbox`, which
//! wins. They are also in a file that scripts can read, and so is the schema of the output, beside a tool that checks it.

use std::ffi::OsString;

use sandbox::{Mount, MountKind};

use super::RunContext;
use super::env_files;
use super::files;
use super::host_files::DeliveredFiles;
use crate::check::Checked;
use crate::resolve::variables::VariableLookup;
use crate::runtime::paths::{self, PROGRAM};

/// Where our own tools are.
const TOOLS: &str = "/opt/fullsend/bin";
const SCHEMA: &str = "/sandbox/workspace/.fullsend/output-schema.json";

/// The tool with which an agent can test its own result.
pub const CHECK_OUTPUT: &str = "fullsend-check-output";

pub fn variables(
    checked: &Checked,
    repository_name: &str,
    delivered: &DeliveredFiles,
    around: &RunContext<'_>,
    value: VariableLookup<'_>,
) -> Vec<(OsString, OsString)> {
    let harness = &checked.resolved.harness;
    let mut all: Vec<(String, String)> = Vec::new();
    let mut set = |name: &str, value: &str| {
        all.retain(|(known, _)| known != name);
        all.push((name.to_owned(), value.to_owned()));
    };
    set("PATH", &format!("{TOOLS}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"));
    set("HOME", "/sandbox");
    set("USER", "sandbox");
    set("TMPDIR", "/tmp");
    set("LANG", "C.UTF-8");
    // Some builds of git do not read their system settings from /etc.
    set("GIT_CONFIG_SYSTEM", files::GIT_CONFIG);
    set("FULLSEND_OUTPUT_DIR", paths::OUTPUT);
    set("FULLSEND_OUTPUT_FILE", harness.output_file.as_str());
    set("FULLSEND_TARGET_REPO_DIR", &format!("{}/{repository_name}", paths::WORKSPACE));
    harness.role.iter().for_each(|role| set("FULLSEND_ROLE", &role.to_string()));
    harness.slug.iter().for_each(|slug| set("FULLSEND_SLUG", &slug.to_string()));
    if checked.schema.is_some() {
        set("FULLSEND_OUTPUT_SCHEMA", SCHEMA);
    }
    around.guard.variables().iter().for_each(|(name, value)| set(name, value));
    delivered.variables.iter().for_each(|(name, value)| set(name, value));
    for (name, template) in harness.env.sandbox.0.iter() {
        if let Ok(value) = template.expand(value) {
            set(&name.value, &value);
        }
    }
    all.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// The same for scripts that look for files, and the tools.
pub fn mounts(checked: &Checked, variables: &[(OsString, OsString)]) -> Vec<Mount> {
    let file = |path: &str, text: String| Mount {
        target: path.into(),
        kind: MountKind::File { contents: text.into_bytes(), mode: 0o444 },
    };
    let text = |word: &OsString| word.to_string_lossy().into_owned();
    let variables: Vec<(String, String)> =
        variables.iter().map(|(name, value)| (text(name), text(value))).collect();
    let mut mounts = vec![file("/sandbox/workspace/.env", env_files::write(&variables))];
    if let Some(schema) = &checked.schema {
        mounts.push(file(SCHEMA, format!("{:#}\n", schema.json)));
    }
    for name in ["fullsend", CHECK_OUTPUT] {
        mounts.push(Mount {
            target: format!("{TOOLS}/{name}").into(),
            kind: MountKind::Symlink { to: PROGRAM.into() },
        });
    }
    mounts
}
