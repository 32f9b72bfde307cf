//! Programs in one line of another language: those that decode and run, and those that delete trees.

use redact::{Severity, rule};

use super::destruction::is_top;
use super::{Harm, harm};
use crate::script::Call;
use crate::unwrap;

/// Calls that turn letters into other letters.
const DECODERS: &[&str] = &[
    "b64decode",
    "b32decode",
    "a85decode",
    "b85decode",
    "decodebytes",
    "decodestring",
    "fromhex",
    "unhexlify",
    "codecs.decode",
    "decompress(",
    "marshal.loads",
    "decode_base64",
    "MIME::Base64",
    "pack(\"H",
    "pack('H",
    "unpack(\"u",
    "'base64'",
    "\"base64\"",
    "'hex'",
    "\"hex\"",
    "atob(",
    "base64_decode",
    "gzinflate",
    "str_rot13",
    "Base64.decode64",
    "unpack1(",
    "unescape(",
    "fromCharCode",
];
/// Calls that run what they are given.
const RUNNERS: &[&str] = &[
    "exec(",
    "eval(",
    "exec ",
    "eval ",
    "compile(",
    "system(",
    "popen",
    "subprocess",
    "child_process",
    "execSync",
    "spawn",
    "Function(",
    "runInThisContext",
    "runInNewContext",
    "shell_exec",
    "passthru",
    "instance_eval",
    "importlib",
    "__import__",
    "qx{",
    "qx(",
];
/// Calls that delete a tree.
const REMOVERS: &[&str] = &[
    "rmtree",
    "remove_tree",
    "rm_rf",
    "rm_r(",
    "removedirs",
    "rimraf",
    "rmSync(",
    "rmdirSync(",
    "fs.rm(",
    "remove_dir_all",
];

pub(super) fn judge(call: &Call) -> Option<Harm> {
    let is_fed = super::is_interpreter(call) && call.operands().all(|word| word.text == "-");
    let fed = call.fed.iter().map(String::as_str).filter(|_| is_fed && !call.is(unwrap::SHELLS));
    unwrap::one_liner(call).into_iter().chain(fed).find_map(|code| of_code(call, code))
}

fn of_code(call: &Call, code: &str) -> Option<Harm> {
    let has = |names: &[&str]| names.iter().any(|name| code.contains(name));
    if has(DECODERS) && has(RUNNERS) {
        let detail = format!("`{}` decodes a program and runs it", call.program());
        let advice = "Write the program without encoding or escapes.";
        return harm(rule::command::OBFUSCATION, Severity::High, detail, advice);
    }
    if !has(REMOVERS) {
        return None;
    }
    let advice = "Remove the directory with `rm -r`, by its name.";
    let detail = format!("`{}` deletes a directory and all below it", call.program());
    let harm = harm(rule::command::DESTRUCTIVE_COMMAND, Severity::High, detail, advice)?;
    let names_top = strings(code).any(|text| is_top(text) || text == "..") || code.contains("homedir()");
    Some(if names_top { harm } else { harm.ends_with_sandbox() })
}

/// The text between quotes.
fn strings(code: &str) -> impl Iterator<Item = &str> {
    code.split(['"', '\'', '`']).skip(1).step_by(2)
}
