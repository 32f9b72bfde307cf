//! Which scanners and hooks are on: one switch for each name under `security` of the harness file. Every switch here
//! is read by the engine; a switch that nothing reads must not exist.

/// All on, except the tool allowlist and the learned scanner: they need a list and a model that a user provides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one switch per name in the harness file")]
pub struct Toggles {
    pub unicode_normalizer: bool,
    pub context_injection: bool,
    pub ssrf_validator: bool,
    pub secret_redactor: bool,
    pub llm_guard: bool,
    pub tirith: bool,
    pub ssrf_pretool: bool,
    pub secret_redact_posttool: bool,
    pub unicode_posttool: bool,
    pub context_suppress_posttool: bool,
    pub canary_pretool: bool,
    pub canary_posttool: bool,
    pub tool_allowlist_pretool: bool,
}

impl Default for Toggles {
    fn default() -> Self {
        Toggles {
            unicode_normalizer: true,
            context_injection: true,
            ssrf_validator: true,
            secret_redactor: true,
            llm_guard: false,
            tirith: true,
            ssrf_pretool: true,
            secret_redact_posttool: true,
            unicode_posttool: true,
            context_suppress_posttool: true,
            canary_pretool: true,
            canary_posttool: true,
            tool_allowlist_pretool: false,
        }
    }
}

impl Toggles {
    pub const NONE: Toggles = Toggles {
        unicode_normalizer: false,
        context_injection: false,
        ssrf_validator: false,
        secret_redactor: false,
        llm_guard: false,
        tirith: false,
        ssrf_pretool: false,
        secret_redact_posttool: false,
        unicode_posttool: false,
        context_suppress_posttool: false,
        canary_pretool: false,
        canary_posttool: false,
        tool_allowlist_pretool: false,
    };

    /// The names of all switches, as the harness writes them.
    pub const NAMES: [&str; 13] = [
        "unicode_normalizer",
        "context_injection",
        "ssrf_validator",
        "secret_redactor",
        "llm_guard",
        "tirith",
        "ssrf_pretool",
        "secret_redact_posttool",
        "unicode_posttool",
        "context_suppress_posttool",
        "canary_pretool",
        "canary_posttool",
        "tool_allowlist_pretool",
    ];

    /// The same with one switch changed; `None` if the switch does not exist.
    #[must_use]
    pub fn switched(mut self, name: &str, on: bool) -> Option<Self> {
        let switch = match name {
            "unicode_normalizer" => &mut self.unicode_normalizer,
            "context_injection" => &mut self.context_injection,
            "ssrf_validator" => &mut self.ssrf_validator,
            "secret_redactor" => &mut self.secret_redactor,
            "llm_guard" => &mut self.llm_guard,
            "tirith" => &mut self.tirith,
            "ssrf_pretool" => &mut self.ssrf_pretool,
            "secret_redact_posttool" => &mut self.secret_redact_posttool,
            "unicode_posttool" => &mut self.unicode_posttool,
            "context_suppress_posttool" => &mut self.context_suppress_posttool,
            "canary_pretool" => &mut self.canary_pretool,
            "canary_posttool" => &mut self.canary_posttool,
            "tool_allowlist_pretool" => &mut self.tool_allowlist_pretool,
            _ => return None,
        };
        *switch = on;
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_turns_its_own_switch() {
        let turned: Vec<Toggles> =
            Toggles::NAMES.iter().map(|name| Toggles::NONE.switched(name, true).expect(name)).collect();
        for (at, one) in turned.iter().enumerate() {
            assert!(*one != Toggles::NONE && !turned[..at].contains(one), "{}", Toggles::NAMES[at]);
        }
        assert_eq!(Toggles::NONE.switched("everything", true), None);
    }
}
