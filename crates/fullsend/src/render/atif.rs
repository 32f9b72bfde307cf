//! A run as a trajectory in the Agent Trajectory Interchange Format (ATIF 1.7), which harbor and others read: the conversation step by
//! step, with tool calls and their results, and what it cost. It holds messages and tool data, redacted and bounded as in the record.

use serde::Serialize;
use serde_json::{Map, Value as Json, json};

use crate::event::Envelope;
use crate::record::conversation::{ConversationEntry, ConversationRecord};
use crate::record::{self, Record};

const SCHEMA_VERSION: &str = "ATIF-v1.7";

/// One agent's trajectory.
#[derive(Debug, Serialize)]
pub struct Trajectory {
    schema_version: &'static str,
    session_id: String,
    trajectory_id: String,
    agent: TrajectoryAgent,
    steps: Vec<TrajectoryStep>,
    #[serde(skip_serializing_if = "Option::is_none")]
    final_metrics: Option<FinalMetrics>,
    extra: Json,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subagent_trajectories: Vec<Trajectory>,
}

#[derive(Clone, Debug, Serialize)]
struct TrajectoryAgent {
    name: String,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_name: Option<String>,
}

#[derive(Debug, Serialize)]
struct TrajectoryStep {
    step_id: usize,
    source: StepSource,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<TrajectoryToolCall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    observation: Option<Observation>,
    extra: StepExtra,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum StepSource {
    System,
    User,
    Agent,
}

/// What ATIF has no field for.
#[derive(Clone, Copy, Debug, Serialize)]
struct StepExtra {
    /// The attempt of the run.
    iteration: u32,
}

#[derive(Debug, Serialize)]
struct TrajectoryToolCall {
    tool_call_id: String,
    function_name: String,
    arguments: Map<String, Json>,
}

#[derive(Debug, Default, Serialize)]
struct Observation {
    results: Vec<ObservationResult>,
}

#[derive(Debug, Serialize)]
struct ObservationResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    source_call_id: Option<String>,
    content: String,
    extra: ResultExtra,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct ResultExtra {
    is_error: bool,
}

#[derive(Debug, Serialize)]
struct FinalMetrics {
    total_prompt_tokens: u64,
    total_completion_tokens: u64,
    total_cached_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_cost_usd: Option<f64>,
    total_steps: usize,
}

/// The trajectory of a run; `None` if its agent said and did nothing, because a trajectory has at least one step.
pub fn trajectory(events: &[Envelope], conversations: &[ConversationRecord]) -> Option<Trajectory> {
    let record = record::fold(events);
    let agent = agent(&record);
    let (own, of_others): (Vec<_>, Vec<_>) =
        conversations.iter().partition(|conversation| conversation.agent.is_empty());
    let steps = steps(&own);
    if steps.is_empty() {
        return None;
    }
    let below = |conversation: &&ConversationRecord| Trajectory {
        schema_version: SCHEMA_VERSION,
        session_id: record.run_id.clone(),
        trajectory_id: format!("{}/{}/{}", record.run_id, conversation.iteration, conversation.agent),
        agent: TrajectoryAgent { name: conversation.agent.clone(), ..agent.clone() },
        steps: self::steps(&[*conversation]),
        final_metrics: None,
        extra: json!({}),
        subagent_trajectories: Vec::new(),
    };
    Some(Trajectory {
        schema_version: SCHEMA_VERSION,
        session_id: record.run_id.clone(),
        trajectory_id: record.run_id.clone(),
        final_metrics: Some(metrics(&record, steps.len())),
        steps,
        extra: json!({
            "harness": record.harness, "repository": record.repository, "commit": record.commit,
            "outcome": record.outcome, "exit_code": record.exit_code, "fullsend": record.fullsend,
        }),
        subagent_trajectories: of_others.iter().map(below).collect(),
        agent,
    })
}

fn agent(record: &Record) -> TrajectoryAgent {
    let answered = record.usage.keys().next();
    let asked = Some(&record.model).filter(|model| !model.is_empty());
    TrajectoryAgent {
        name: record.runtime.clone(),
        version: record.program.as_ref().map_or(&record.fullsend, |program| &program.version).clone(),
        model_name: answered.or(asked).cloned(),
    }
}

fn metrics(record: &Record, total_steps: usize) -> FinalMetrics {
    let sum = |of: fn(&record::ModelUsage) -> u64| record.usage.values().map(of).sum();
    FinalMetrics {
        total_prompt_tokens: sum(|usage| usage.input + usage.cache_read + usage.cache_write),
        total_completion_tokens: sum(|usage| usage.output),
        total_cached_tokens: sum(|usage| usage.cache_read),
        // A model without a price makes the sum unknown.
        total_cost_usd: record.usage.values().map(|usage| usage.usd).sum(),
        total_steps,
    }
}

fn steps(conversations: &[&ConversationRecord]) -> Vec<TrajectoryStep> {
    let mut builder = StepBuilder::default();
    for conversation in conversations {
        builder.iteration = conversation.iteration;
        builder.is_turn_open = false;
        for entry in &conversation.entries {
            builder.add(entry);
        }
    }
    builder.steps
}

/// Groups entries into steps: what the agent thinks, says and calls in one turn is one step. The results of its calls belong to that
/// step, and end the turn.
#[derive(Default)]
struct StepBuilder {
    steps: Vec<TrajectoryStep>,
    iteration: u32,
    is_turn_open: bool,
}

impl StepBuilder {
    fn add(&mut self, entry: &ConversationEntry) {
        match entry {
            ConversationEntry::Told { text } => {
                self.begin(StepSource::User).message.clone_from(text);
                self.is_turn_open = false;
            }
            ConversationEntry::Said { text } => append(&mut self.turn().message, text),
            ConversationEntry::Thought { text } => {
                append(self.turn().reasoning_content.get_or_insert_default(), text);
            }
            ConversationEntry::ToolCall { call, tool, input } => {
                self.turn().tool_calls.push(TrajectoryToolCall {
                    tool_call_id: call.clone(),
                    function_name: tool.clone(),
                    arguments: arguments(input),
                });
            }
            ConversationEntry::ToolResult { call, output, is_error } => {
                self.add_result(call, output, *is_error);
                self.is_turn_open = false;
            }
        }
    }

    fn begin(&mut self, source: StepSource) -> &mut TrajectoryStep {
        let step = TrajectoryStep {
            step_id: self.steps.len() + 1,
            source,
            message: String::new(),
            reasoning_content: None,
            tool_calls: Vec::new(),
            observation: None,
            extra: StepExtra { iteration: self.iteration },
        };
        self.steps.push(step);
        let last = self.steps.len() - 1;
        &mut self.steps[last]
    }

    /// The step of the agent's turn, a new one if none is open.
    fn turn(&mut self) -> &mut TrajectoryStep {
        match self.is_turn_open {
            true => {
                let last = self.steps.len() - 1;
                &mut self.steps[last]
            }
            false => {
                self.is_turn_open = true;
                self.begin(StepSource::Agent)
            }
        }
    }

    /// The result of a call that no step has, such as one before a compaction, gets a step of its own.
    fn add_result(&mut self, call: &str, output: &str, is_error: bool) {
        let has_call = |step: &TrajectoryStep| step.tool_calls.iter().any(|known| known.tool_call_id == call);
        let position = self.steps.iter().rposition(has_call);
        let step = match position {
            Some(position) => &mut self.steps[position],
            None => self.begin(StepSource::System),
        };
        step.observation.get_or_insert_default().results.push(ObservationResult {
            source_call_id: position.map(|_| call.to_owned()),
            content: output.to_owned(),
            extra: ResultExtra { is_error },
        });
    }
}

fn append(text: &mut String, more: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(more);
}

/// ATIF wants an object. Other input, such as a text or one that was shortened, is its only member.
fn arguments(input: &str) -> Map<String, Json> {
    match serde_json::from_str(input) {
        Ok(Json::Object(arguments)) => arguments,
        _ => Map::from_iter([("input".to_owned(), Json::from(input))]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(agent: &str, entries: Vec<ConversationEntry>) -> ConversationRecord {
        ConversationRecord { iteration: 1, agent: agent.to_owned(), entries }
    }

    fn said(text: &str) -> ConversationEntry {
        ConversationEntry::Said { text: text.to_owned() }
    }

    fn call(id: &str, input: &str) -> ConversationEntry {
        ConversationEntry::ToolCall { call: id.to_owned(), tool: "Bash".to_owned(), input: input.to_owned() }
    }

    fn result(id: &str, output: &str) -> ConversationEntry {
        ConversationEntry::ToolResult { call: id.to_owned(), output: output.to_owned(), is_error: false }
    }

    #[test]
    fn a_turn_is_one_step_and_results_belong_to_their_calls() {
        let told = ConversationEntry::Told { text: "Add.".to_owned() };
        let thought = ConversationEntry::Thought { text: "Two calls.".to_owned() };
        let own = vec![
            told,
            thought,
            said("I add."),
            call("a", r#"{"command":"expr 1 + 1"}"#),
            call("b", "not an object"),
            result("b", "second"),
            result("a", "2"),
            said("Two."),
            result("lost", "from before"),
        ];
        let trajectory =
            trajectory(&[], &[entries("", own), entries("helper", vec![said("below")])]).unwrap();
        let document = serde_json::to_value(&trajectory).unwrap();
        let steps = document["steps"].as_array().unwrap();
        let heads: Vec<_> = steps.iter().map(|step| (&step["step_id"], &step["source"])).collect();
        let expected = [json!("user"), json!("agent"), json!("agent"), json!("system")];
        let numbers = [json!(1), json!(2), json!(3), json!(4)];
        assert_eq!(heads, numbers.iter().zip(&expected).collect::<Vec<_>>(), "{document:#}");
        assert_eq!(steps[1]["reasoning_content"], "Two calls.");
        assert_eq!(steps[1]["tool_calls"][0]["arguments"], json!({ "command": "expr 1 + 1" }));
        assert_eq!(steps[1]["tool_calls"][1]["arguments"], json!({ "input": "not an object" }));
        let results = &steps[1]["observation"]["results"];
        assert_eq!((&results[0]["source_call_id"], &results[0]["content"]), (&json!("b"), &json!("second")));
        assert_eq!((&results[1]["source_call_id"], &results[1]["content"]), (&json!("a"), &json!("2")));
        let lost = &steps[3]["observation"]["results"][0];
        assert_eq!((lost.get("source_call_id"), &lost["content"]), (None, &json!("from before")));
        assert_eq!(document["subagent_trajectories"][0]["steps"][0]["message"], "below");
        assert_eq!(document["subagent_trajectories"][0]["agent"]["name"], "helper");
    }

    #[test]
    fn a_run_whose_agent_did_nothing_has_no_trajectory() {
        assert!(trajectory(&[], &[]).is_none());
        assert!(trajectory(&[], &[entries("helper", vec![said("below")])]).is_none());
    }
}
