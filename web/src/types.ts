// Made by `npm run types` from schemas/page.json, which is made from the types of the program. Do not edit.

/** The record of one run. */
export type Record = {
  v: number;
  run_id: string;
  harness: string;
  runtime: string;
  /** The runtime's program; absent for `native`. */
  program?: ProgramRecord | null;
  /** As requested; `usage` names the models that answered. */
  model: string;
  repository: string;
  /** The name of its directory on the host. */
  repository_directory?: string;
  /** The commit of the repository; empty if it has none. */
  commit: string;
  branch: string;
  fullsend: string;
  started: string;
  finished?: string | null;
  /** Absent while the run goes on, and after a crash until `fullsend sweep`. */
  outcome?: OutcomeKind | null;
  exit_code?: number | null;
  reason?: string | null;
  /** Digests of all inputs, by kind and name. */
  inputs: InputDigest[];
  /** Skills of the repository that a skill of the harness with the same name replaced. */
  shadowed_skills?: ShadowedSkill[];
  /** Skills that the agent asked for while it ran. */
  skill_fetches?: SkillFetchEvent[];
  steps: StepRecord[];
  attempts: AttemptRecord[];
  /** The schema of the accepted output, or `built-in`. */
  schema?: string | null;
  scripts: ScriptRecord[];
  /** Tokens and money by model. */
  usage: { [key: string]: ModelUsage };
  /** Connections out of the sandbox, by decision. */
  egress: { [key: string]: number };
  /** Findings by severity. Waived ones are counted in `suppressed_findings`. */
  findings: { [key: string]: number };
  suppressed_findings?: number;
  /** Scanners that failed, and why. */
  broken_scanners?: string[];
  /** Which scanner served a family of rules. */
  scanners?: { [key: string]: string };
  /** The label that CI sets so that a person reviews this run. */
  review_label?: string | null;
  /** Which parts of the sandbox are enforced. */
  sandbox: SandboxPartRecord[];
  proofs: ProofRecord[];
  toggles: Toggle[];
  exceptions: ExceptionRecord[];
  /** What the command line set. */
  overrides?: OverrideRecord[];
  artifacts: Artifact[];
  /** Events that happened too often to be written, by kind. `egress` includes them. */
  counted_events?: { [key: string]: number };
  /** The digest of the last event. */
  chain_head: string;
};

export type ProgramRecord = {
  version: string;
  place: string;
};

/** How a run ended, as its record shows it. */
export type OutcomeKind = "completed" | "skipped" | "no_output" | "denied" | "asked" | "invalid_output" | "agent_failed" | "timeout" | "budget" | "model_unavailable" | "security_stop" | "sandbox_unavailable" | "setup_failed" | "post_script_failed" | "interrupted" | "internal";

export type InputDigest = {
  kind: InputKind;
  name: string;
  sha256: string;
};

/** What an input is to the run. */
export type InputKind = "harness" | "agent" | "skill" | "plugin" | "policy" | "schema" | "host_file" | "agent_input" | "image" | "prompt and schema" | "context" | "instructions" | "input" | "resource" | "tool";

export type ShadowedSkill = {
  skill: string;
  place: string;
};

/** A skill that the agent asked for while it ran. */
export type SkillFetchEvent = {
  url: string;
  /** Empty if it was refused. */
  name: string;
  /** The digest of its names, modes and contents; empty if it was refused. */
  sha256: string;
  /** Why it was refused; empty if it was not. */
  refused: string;
};

export type StepRecord = {
  step: Step;
  started: string;
  duration_ms?: number | null;
  ok?: boolean | null;
};

/** A step of a run, in the order in which a run takes them. A rejected output repeats the steps from `Agent` to `Validate`; with `feedback_mode: fresh`, `Teardown`, `Provision` and `Bootstrap` come before the next `Agent`. */
export type Step = "pre_script" | "inputs" | "provision" | "bootstrap" | "agent" | "quarantine" | "validate" | "publish" | "teardown" | "post_script";

/** One attempt of the agent. */
export type AttemptRecord = {
  iteration: number;
  ending?: string | null;
  turns: number;
  tool_calls: number;
  /** Calls that the guard denied. */
  denied_calls: number;
  /** Tool results that came back without the guard's verdict. */
  unseen_calls: string[];
  violations: Violation[];
  accepted: boolean;
};

/** One reason why an output was rejected. */
export type Violation = {
  /** JSON pointer into the output; empty for the whole. */
  path: string;
  message: string;
};

export type ScriptRecord = {
  script: string;
  exit: number;
  duration_ms: number;
};

export type ModelUsage = {
  requests: number;
  input: number;
  output: number;
  cache_read: number;
  cache_write: number;
  /** Dollars; absent where the model has no price. */
  usd?: number | null;
};

export type SandboxPartRecord = {
  part: string;
  status: EnforcementStatus;
  reason: string;
};

/** How a part of the sandbox is enforced. */
export type EnforcementStatus = "enforced" | "absent" | "watched";

export type ProofRecord = {
  name: string;
  held: boolean;
};

export type Toggle = {
  field: string;
  value: string;
  place: string;
};

export type ExceptionRecord = {
  field: string;
  what: string;
  reason: string;
  until: string;
};

/** A field of the harness, or a variable, that the command line set. */
export type OverrideRecord = {
  field: string;
  value: string;
};

export type Artifact = {
  path: string;
  sha256: string;
  bytes: number;
};

/** Whether the record is valid, as `fullsend runs verify` checks it. */
export type Verification = {
  status: VerificationStatus;
  problems: string[];
};

export type VerificationStatus = "changed" | "verified" | "signed" | "running";

/** One event without the digests of the chain. */
export type PageEvent = {
  seq: number;
  time: string;
} & ({
  type: "run_started";
  run_id: string;
  harness: string;
  runtime: string;
  /** The name in the harness or the agent; empty if the runtime chooses. */
  model?: string;
  repository: string;
  /** The name of its directory on the host; empty in older logs. */
  repository_directory?: string;
  fullsend: string;
} | {
  type: "repository";
  commit: string;
  branch: string;
} | {
  type: "input";
  kind: InputKind;
  name: string;
  sha256: string;
} | {
  type: "image_pull";
  name: string;
  bytes: number;
  total_bytes: number;
} | {
  type: "program";
  version: string;
  place: string;
} | {
  type: "skill_shadowed";
  skill: string;
  /** Its SKILL.md in the repository. */
  place: string;
} | SkillFetchEvent & {
  type: "skill_fetch";
} | {
  type: "toggle";
  field: string;
  value: string;
  place: string;
} | {
  type: "exception";
  field: string;
  what: string;
  reason: string;
  until: string;
} | {
  type: "operator_action";
  by: string;
  action: OperatorActionKind;
} | {
  type: "override";
  field: string;
  value: string;
} | {
  type: "step_started";
  step: Step;
} | {
  type: "step_finished";
  step: Step;
  duration_ms: number;
  ok: boolean;
} | FindingEvent & {
  type: "finding";
} | {
  type: "scanner_broke";
  place: string;
  scanner: string;
  reason: string;
  /** Whether the text was stopped because of it. */
  stopped: boolean;
} | {
  type: "scanner";
  family: FindingFamily;
  by: string;
} | {
  type: "review_requested";
  label: string;
} | {
  type: "sandbox_part";
  part: string;
  status: EnforcementStatus;
  reason: string;
} | {
  type: "proof";
  name: string;
  held: boolean;
  detail: string;
} | {
  type: "egress";
  event: EgressEvent;
} | {
  type: "model";
  event: ModelEvent;
} | {
  type: "agent_started";
  iteration: number;
} | {
  type: "agent_text";
  iteration: number;
  text: string;
} | {
  type: "tool_started";
  iteration: number;
  call: string;
  tool: string;
  summary: string;
} | {
  type: "tool_denied";
  call: string;
  tool: string;
  reason: string;
} | {
  type: "hook_missing";
  call: string;
  reason: string;
  stopped: boolean;
} | {
  type: "tool_finished";
  iteration: number;
  call: string;
  is_error: boolean;
  bytes: number;
} | {
  type: "agent_finished";
  iteration: number;
  ending: string;
  turns: number;
} | {
  type: "output_rejected";
  iteration: number;
  violations: Violation[];
} | {
  type: "output_accepted";
  iteration: number;
  schema: string;
} | {
  type: "artifact";
  path: string;
  sha256: string;
  bytes: number;
} | {
  type: "api_server";
  name: string;
  state: ServerState;
  detail: string;
} | {
  type: "kept";
  files: number;
  left_out: number;
  /** Why it could not be saved; empty if it was. */
  problem: string;
} | {
  type: "script_finished";
  script: string;
  exit: number;
  duration_ms: number;
} | {
  type: "run_finished";
  outcome: OutcomeKind;
  exit_code: number;
  reason: string;
} | {
  type: "events_counted";
  kind: string;
  count: number;
} | {
  type: "lasting";
  event: LastingEvent;
});

/** What an operator does with a run. */
export type OperatorActionKind = "start" | "cancel";

/** Where the scanned text came from. */
export type FindingOrigin = "harness" | "instruction" | "tool" | "issue" | "web" | "output" | "configuration" | "";

/** The family of the rule that matched. Each family of scanner rules has a page in `docs/rules`. */
export type FindingFamily = "unicode_normalizer" | "context_injection" | "ssrf_validator" | "secret_redactor" | "llm_guard" | "commands" | "canary" | "tool_allowlist" | "context_suppress" | "egress" | "";

/** How serious a finding is. */
export type FindingSeverity = "low" | "medium" | "high" | "critical";

/** What was done about a finding. */
export type FindingAction = "reported" | "denied" | "withheld" | "stopped" | "cleaned" | "suppressed" | "";

/** One finding: one format for inputs, tool calls, tool results and output. */
export type FindingEvent = {
  /** A file's path, or `call/Tool`, `result/Tool`, `answer`, `output/path`. */
  place: string;
  origin?: FindingOrigin;
  rule: string;
  category?: FindingFamily;
  severity: FindingSeverity;
  /** How likely the finding is right, from 0 to 1. Logs before version 0.2 have none. */
  score?: number | null;
  line: number;
  column?: number;
  /** Bytes from the start of the scanned text. */
  start?: number;
  end?: number;
  /** The text that matched, shortened, with secrets masked and invisible characters spelled out. */
  excerpt: string;
  advice: string;
  action?: FindingAction;
  /** The reason of the waiver, where the organisation accepts the finding. */
  suppressed?: string | null;
  /** The file in the run directory with the original text, if a part of it was withheld. */
  kept?: string | null;
};

export type EgressEvent = ConnectionEvent & {
  type: "attempt";
} | {
  type: "name_refused";
  name: string;
  reason: string;
};

/** How the client reached the proxy. */
export type Via = "connect" | "forward" | "direct";

/** One operation in a body. */
export type RequestedOperation = {
  protocol: "rpc";
  method: string;
  tool?: string | null;
} | {
  protocol: "graphql";
  operation_type: string;
  name?: string | null;
  fields: string[];
};

export type ConnectionDecision = "allowed" | "denied" | "audited" | "failed";

/** Why a request was refused. The client reads the same word in `X-Fullsend-Refusal` and in the response's JSON. */
export type RefusalCode = "policy_denied" | "address_denied" | "caller_unknown" | "bad_host" | "malformed_request" | "credential_endpoint_mismatch" | "credential_unavailable" | "credential_injection_failed" | "guard_denied" | "upstream_unreachable" | "upstream_broken" | "proxy_busy";

export type ConnectionEvent = {
  via: Via;
  host: string;
  port: number;
  /** Of a request that was read; a tunnel has none. */
  method?: string | null;
  /** Without its query, which may hold secrets. */
  path?: string | null;
  /** The operation in its body, if rules apply to the body: the refused one, else the first. */
  operation?: RequestedOperation | null;
  /** As the host numbers it. */
  pid?: number | null;
  binary?: string | null;
  sha256?: string | null;
  decision: ConnectionDecision;
  /** The line of the policy that decided. */
  rule?: string | null;
  code?: RefusalCode | null;
  reason?: string | null;
  /** The smallest addition to the policy that would have allowed it. */
  fix?: string | null;
  status?: number | null;
  bytes_out: number;
  bytes_in: number;
  duration_ms: number;
};

export type ModelEvent = {
  type: "model_request";
  exchange: number;
  wire: Wire;
  model: string;
  turn: number;
  tools: number;
  bytes: number;
  /** The longest answer that the budget pays, where the request asks for a longer one. */
  shortened_to?: number | null;
} | {
  type: "model_answer";
  exchange: number;
  /** As the answer names it. */
  model: string;
  status: number;
  ending: AnswerEnding;
  usage: TokenUsage;
  /** `None`: this model has no price. */
  cost?: Money | null;
  /** The vendor did not report its usage; the amounts are the highest possible. */
  estimated?: boolean;
  duration_ms: number;
} | {
  type: "model_refused";
  exchange: number;
  status: number;
  reason: string;
} | {
  type: "tokens_counted";
  exchange: number;
  model: string;
  bytes: number;
  /** `None`: the upstream did not say. */
  tokens?: number | null;
} | {
  type: "budget_warning";
  spent: string;
} | {
  type: "budget_spent";
  spent: string;
} | {
  type: "model_retry";
  exchange: number;
  attempt: number;
  /** `None`: there was no answer. */
  status?: number | null;
  reason: string;
  wait_ms: number;
} | {
  type: "model_fallback";
  exchange: number;
  from: string;
  to: string;
  reason: string;
} | {
  type: "credential_refused";
  exchange: number;
  status: number;
  /** The provider and the variable. */
  credential: string;
} | {
  type: "context_too_long";
  exchange: number;
  model: string;
  /** The vendor's words. */
  reason: string;
} | {
  type: "upstream_resting";
  retry_after_ms: number;
} | {
  type: "stop";
  exchange: number;
  reason: string;
};

/** Which vendor format a connection speaks. */
export type Wire = "messages" | "responses" | "chat";

export type AnswerEnding = "complete" | "fault" | "cut" | "client_gone" | "stopped";

/** Tokens as they are billed: `input` holds neither what was read from a cache nor what was written to one. */
export type TokenUsage = {
  input: number;
  output: number;
  cache_read: number;
  /** Written to a cache of five minutes. */
  cache_write: number;
  /** Written to a cache of one hour, which costs more. */
  cache_write_hour: number;
};

/** Billionths of a dollar: a price per million tokens is then a whole number per token. */
export type Money = number;

export type ServerState = "ready" | "ended";

export type LastingEvent = {
  kind: "created";
  sandbox: string;
  name: string;
  policy: string;
  image: string;
  repository: string;
  ttl_seconds: number;
  fullsend: string;
} | {
  kind: "command_started";
  command: number;
  arguments: string[];
  directory: string;
} | {
  kind: "command_finished";
  command: number;
  /** As a shell gives it: 128 and more for a signal. */
  exit: number;
  timed_out: boolean;
  duration_ms: number;
} | {
  kind: "files_transferred";
  direction: TransferDirection;
  path: string;
  ok: boolean;
} | {
  kind: "closed";
  reason: SandboxEnd;
  detail: string;
};

export type TransferDirection = "put" | "get";

/** Why a lasting sandbox ended. */
export type SandboxEnd = "removed" | "expired" | "parent_ended" | "stopped" | "owner_died";

/** What one agent said and did in one attempt. */
export type ConversationRecord = {
  iteration: number;
  /** The name of a sub-agent; empty for the agent itself. */
  agent: string;
  entries: ConversationEntry[];
};

/** One part of a conversation. */
export type ConversationEntry = {
  type: "told";
  text: string;
} | {
  type: "said";
  text: string;
} | {
  type: "thought";
  text: string;
} | {
  type: "tool_call";
  call: string;
  tool: string;
  input: string;
} | {
  type: "tool_result";
  call: string;
  output: string;
  is_error: boolean;
};

/** A file that an attempt left: a patch or a result. */
export type AttemptFile = {
  iteration: number;
  /** Below the run's directory. */
  path: string;
  accepted: boolean;
  text: string;
};

/** What a run was configured with. */
export type SavedConfiguration = {
  v: number;
  /** The values of the harness. */
  values: ExplainedValue[];
  /** What the sandbox may read, write, start and reach, as it was enforced. */
  effective_policy: ExplainedValue[];
  /** The policy as it was written. */
  policy: ConfigurationFile;
  /** The schema of the output, where the harness names one. */
  schema?: ConfigurationFile | null;
};

/** One value, and where it comes from. */
export type ExplainedValue = {
  /** The path of the field, such as `security.host_scanners`. */
  field: string;
  value: string;
  set_by: ValueOrigin;
  /** Earlier values that this one replaced, first to last. */
  replaced: ValueOrigin[];
};

/** The place that set a value. */
export type ValueOrigin = {
  layer: string;
  file: string;
  /** From 1; 0 if no line set it. */
  line: number;
};

/** A file of the configuration. */
export type ConfigurationFile = {
  name: string;
  text: string;
};

/** Everything that a page shows of one run. */
export type RunPage = {
  v: number;
  run: Record;
  verification: Verification;
  events: PageEvent[];
  conversations: ConversationRecord[];
  patches: AttemptFile[];
  results: AttemptFile[];
  /** Absent in runs of earlier versions. */
  configuration?: SavedConfiguration | null;
};
