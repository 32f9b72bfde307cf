//! The names of all rules. A rule must be listed here to be reported, because `RuleName` has no other constructor. A test
//! requires cases for each name.

use crate::finding::Category;
use crate::secrets::{self, SecretMatch};

/// The name of a rule, unique within its category.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleName(&'static str);

impl RuleName {
    pub const fn name(self) -> &'static str {
        self.0
    }

    /// The formats of tokens are a table of their own.
    pub fn of_secret(secret: &SecretMatch) -> Self {
        RuleName(secret.format)
    }
}

/// Every rule of the engine with its category: those below, and the formats of tokens.
pub fn rules() -> impl Iterator<Item = (Category, &'static str)> {
    let formats = secrets::format_names().map(|name| (Category::SecretRedactor, name));
    NAMED.iter().map(|(category, rule)| (*category, rule.name())).chain(formats)
}

macro_rules! name_rules {
    ($($module:ident: $category:ident { $($name:ident = $text:literal,)+ })+) => {
        $(pub mod $module {
            use super::RuleName;
            $(pub const $name: RuleName = RuleName($text);)+
        })+

        const NAMED: &[(Category, RuleName)] = &[$($((Category::$category, $module::$name),)+)+];
    };
}

name_rules! {
    unicode: UnicodeNormalizer {
        TAG_CHARACTERS = "tag-characters",
        ZERO_WIDTH_CHANNEL = "zero-width-channel",
        VARIATION_SELECTORS = "variation-selectors",
        ZERO_WIDTH = "zero-width",
        INVISIBLE_LETTER = "invisible-letter",
        BIDIRECTIONAL_CONTROL = "bidirectional-control",
        CONFUSABLE_LETTERS = "confusable-letters",
        COMBINING_FLOOD = "combining-flood",
        TERMINAL_COMMAND = "terminal-command",
        TERMINAL_ESCAPE = "terminal-escape",
        TERMINAL_COLOUR = "terminal-colour",
        CONTROL_CHARACTER = "control-character",
        NUL = "nul",
    }
    injection: ContextInjection {
        INSTRUCTION_OVERRIDE = "instruction-override",
        PERSONA_OVERRIDE = "persona-override",
        AUTHORITY_CLAIM = "authority-claim",
        CONCEALMENT = "concealment",
        EXFILTRATION = "exfiltration",
        REMOTE_EXECUTION = "remote-execution",
        GUARD_TAMPERING = "guard-tampering",
        TOOL_MISUSE = "tool-misuse",
        CODE_INCLUSION = "code-inclusion",
        HIDDEN_INSTRUCTION = "hidden-instruction",
        UNREAD_CARRIERS = "unread-carriers",
    }
    ssrf: SsrfValidator {
        METADATA_SERVICE = "metadata-service",
        DISGUISED_ADDRESS = "disguised-address",
        INTERNAL_ADDRESS = "internal-address",
        INTERNAL_NAME = "internal-name",
        REFUSED_SCHEME = "refused-scheme",
        NO_HOST = "no-host",
        REDIRECT_INSIDE = "redirect-inside",
        UNKNOWN_SCHEME = "unknown-scheme",
        USER_IN_ADDRESS = "user-in-address",
    }
    secret: SecretRedactor {
        PASSWORD_ASSIGNMENT = "password-assignment",
        SECRET_ASSIGNMENT = "secret-assignment",
        AUTHORIZATION_HEADER = "authorization-header",
        BEARER_TOKEN = "bearer-token",
        DATABASE_URL_PASSWORD = "database-url-password",
        URL_PASSWORD = "url-password",
        PRIVATE_KEY = "private-key",
        KNOWN_CREDENTIAL = "known-credential",
    }
    command: Commands {
        PIPE_TO_SHELL = "pipe-to-shell",
        DESTRUCTIVE_COMMAND = "destructive-command",
        DISK_OVERWRITE = "disk-overwrite",
        FORK_BOMB = "fork-bomb",
        GIT_LOSS = "git-loss",
        GIT_TRICK = "git-trick",
        STARTUP_FILE = "startup-file",
        HISTORY_TAMPERING = "history-tampering",
        CREDENTIAL_FILE = "credential-file",
        FILE_UPLOAD = "file-upload",
        EXFILTRATION = "exfiltration",
        REVERSE_SHELL = "reverse-shell",
        OBFUSCATION = "obfuscation",
        LOOKALIKE_HOST = "lookalike-host",
        SHORT_ADDRESS = "short-address",
        BARE_ADDRESS = "bare-address",
        PACKAGE_SOURCE = "package-source",
        ENVIRONMENT = "environment",
        PRIVILEGE = "privilege",
        UNREADABLE_COMMAND = "unreadable-command",
    }
    model: LlmGuard {
        LEARNED_INJECTION = "learned-injection",
    }
    canary: Canary {
        CANARY = "canary",
    }
    tool: ToolAllowlist {
        TOOL_NOT_ALLOWED = "tool-not-allowed",
    }
    output: ContextSuppress {
        SUPPRESSED_OUTPUT = "suppressed-output",
    }
}
