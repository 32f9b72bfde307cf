//! The user of processes: never root, and no name but `sandbox`.

use yaml::Spanned;

use super::Reader;
use crate::file::{ProcessFile, UserOrGroup};
use crate::model::{ProcessIdentity, RunAs};

impl Reader {
    pub(super) fn process(&mut self, file: &ProcessFile) -> ProcessIdentity {
        let ProcessFile { run_as_user, run_as_group } = file;
        ProcessIdentity {
            user: self.identity("run_as_user", run_as_user.as_ref()),
            group: self.identity("run_as_group", run_as_group.as_ref()),
        }
    }

    fn identity(&mut self, key: &str, text: Option<&Spanned<UserOrGroup>>) -> Option<Spanned<RunAs>> {
        let Spanned { value: UserOrGroup(value), at } = text?;
        let text = Spanned { value: value.as_str(), at: *at };
        let plain_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let identity = match text.value.parse() {
            Ok(number) if plain_number && number != 0 && number != u32::MAX => Some(RunAs::Number(number)),
            _ if text.value == "sandbox" => Some(RunAs::Sandbox),
            _ => None,
        };
        if identity.is_none() {
            let message = if text.value == "root" || text.value.parse() == Ok(0) {
                format!("`process.{key}` cannot be root")
            } else {
                format!("`process.{key}` must be `sandbox` or a number from 1 to 4294967294")
            };
            self.error("identity", text.at, message);
        }
        identity.map(|value| Spanned { value, at: text.at })
    }
}
