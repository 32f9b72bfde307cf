//! Which security features each runtime has, computed from its contract. A feature on tool calls needs a hook at that
//! moment; one that changes results needs a hook that can. If a hook dies, the gateway stops the run.

use super::contract::{Hook, Runtime};

/// A feature and its setting in the harness.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    pub name: &'static str,
    pub switch: &'static str,
    pub works: FeatureStage,
}

/// Where a feature works, and so what it needs of a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureStage {
    /// On the host, before the sandbox exists: every runtime has it.
    Host,
    /// On a call, before it runs.
    Calls,
    /// On a result, before the model sees it.
    Results,
    CallsAndResults,
    /// On the transcripts and logs of the runtime.
    Artifacts,
}

const fn feature(name: &'static str, switch: &'static str, works: FeatureStage) -> Feature {
    Feature { name, switch, works }
}

pub const FEATURES: &[Feature] = &[
    feature("Context files scanned", "security.host_scanners.context_injection", FeatureStage::Host),
    feature("Agent, skills and plugins scanned", "security.host_scanners", FeatureStage::Host),
    feature("Prompt injection (llm_guard)", "security.host_scanners.llm_guard", FeatureStage::Host),
    feature("Command scanning (tirith)", "security.sandbox_hooks.tirith", FeatureStage::Calls),
    feature("SSRF before a call", "security.sandbox_hooks.ssrf_pretool", FeatureStage::Calls),
    feature("Tool allowlist", "security.sandbox_hooks.tool_allowlist_pretool", FeatureStage::Calls),
    feature(
        "Canary tokens",
        "security.sandbox_hooks.canary_pretool, canary_posttool",
        FeatureStage::CallsAndResults,
    ),
    feature("Secret redaction", "security.sandbox_hooks.secret_redact_posttool", FeatureStage::Results),
    feature("Unicode normalization", "security.sandbox_hooks.unicode_posttool", FeatureStage::Results),
    feature("Context suppression", "security.sandbox_hooks.context_suppress_posttool", FeatureStage::Results),
    feature("Transcript and debug log", "always", FeatureStage::Artifacts),
];

/// What a runtime does for a feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub carried: bool,
    /// By which hooks, or where.
    pub by: String,
}

pub fn cell(feature: &Feature, runtime: &Runtime) -> Cell {
    let by_gateway = || Cell { carried: true, by: "the model gateway".to_owned() };
    let by_hooks = |moments: &[Hook], able| hooks(runtime, moments, able);
    let is_at_gateway = runtime.is_judged_at_gateway();
    let calls = || if is_at_gateway { by_gateway() } else { by_hooks(&[Hook::Before], true) };
    let results = || {
        let moments = [Hook::After, Hook::AfterFailure];
        if is_at_gateway { by_gateway() } else { by_hooks(&moments, runtime.hook_rewrites) }
    };
    match feature.works {
        FeatureStage::Host => Cell { carried: true, by: "the host".to_owned() },
        FeatureStage::Calls => calls(),
        FeatureStage::Results => results(),
        FeatureStage::CallsAndResults => {
            let calls = calls();
            let results = results();
            let by = if calls == results { calls.by } else { format!("{}, {}", calls.by, results.by) };
            Cell { carried: calls.carried && results.carried, by }
        }
        FeatureStage::Artifacts => {
            let log = runtime.debug_log.map(|log| format!(", {log}")).unwrap_or_default();
            Cell { carried: true, by: format!("transcripts{log}") }
        }
    }
}

/// Supported if there is a hook at every moment, and the hook can do what is needed.
fn hooks(runtime: &Runtime, moments: &[Hook], able: bool) -> Cell {
    let mut names: Vec<&str> = Vec::new();
    for (hook, name) in runtime.hooks {
        if moments.contains(hook) && !names.contains(name) {
            names.push(name);
        }
    }
    let all = moments.iter().all(|moment| runtime.hooked(*moment));
    Cell { carried: all && able, by: names.join(", ") }
}

/// What happens to a call whose hook dies, hangs or never ran.
pub fn without_answer(runtime: &Runtime) -> &'static str {
    if runtime.is_judged_at_gateway() {
        "there are no hooks: the gateway removes a denied call from the model's answer"
    } else if runtime.dead_hook_blocks {
        "the runtime blocks the call, and the gateway stops the run if it does not"
    } else {
        "the runtime runs the call, and the gateway stops the run before the model sees its result"
    }
}

/// Whether and how a run proves that the hooks work.
pub fn liveness(runtime: &Runtime) -> &'static str {
    if runtime.is_judged_at_gateway() {
        "there are no hooks to prove"
    } else if runtime.hooked(Hook::Start) {
        "the first request to the model waits for the start hook; without it the run fails"
    } else {
        "not proved"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{acp, claude};

    #[test]
    fn a_missing_hook_takes_its_features_away() {
        let full = &claude::RUNTIME;
        let carried = |runtime: &Runtime, name: &str| {
            let feature = FEATURES.iter().find(|feature| feature.name == name).unwrap();
            cell(feature, runtime).carried
        };
        let check = |runtime: &Runtime, expected: [bool; 4]| {
            let names = ["Context files scanned", "Tool allowlist", "Secret redaction", "Canary tokens"];
            assert_eq!(names.map(|name| carried(runtime, name)), expected, "{runtime:?}");
        };
        check(full, [true; 4]);
        check(&Runtime { hooks: &[], ..*full }, [true, false, false, false]);
        check(&Runtime { hooks: &[(Hook::Before, "b")], ..*full }, [true, true, false, false]);
        let no_failures = &[(Hook::Before, "b"), (Hook::After, "a")];
        check(&Runtime { hooks: no_failures, ..*full }, [true, true, false, false]);
        check(&Runtime { hook_rewrites: false, ..*full }, [true, true, false, false]);
        check(&acp::RUNTIME, [true; 4]);
    }
}
