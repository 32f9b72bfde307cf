//! What passes of the OpenAI Chat Completions format.

use super::shape::Shape::{self, Any, Bool, DataUrl, List, Object, One, OneOf, Scalar, TextOr};
use super::shape::{Fields, TaggedObject, Variant};

pub(super) static REQUEST: Shape = Object(&[
    ("model", Scalar),
    ("messages", List(&Object(MESSAGE))),
    ("tools", List(&Shape::Tagged(&TOOL))),
    ("tool_choice", TextOr(&Shape::Tagged(&CHOICE))),
    ("parallel_tool_calls", Scalar),
    ("max_tokens", Scalar),
    ("max_completion_tokens", Scalar),
    ("stream", Bool),
    ("stream_options", Any),
    ("n", One),
    ("temperature", Scalar),
    ("top_p", Scalar),
    ("presence_penalty", Scalar),
    ("frequency_penalty", Scalar),
    ("logit_bias", Any),
    ("logprobs", Scalar),
    ("top_logprobs", Scalar),
    ("seed", Scalar),
    ("stop", TextOr(&List(&Scalar))),
    ("response_format", Any),
    ("reasoning_effort", Scalar),
    ("verbosity", Scalar),
    ("modalities", List(&OneOf(&["text"]))),
    ("store", Scalar),
    ("metadata", Any),
    ("user", Scalar),
    ("safety_identifier", Scalar),
    ("prompt_cache_key", Scalar),
    ("prompt_cache_retention", Scalar),
    // The vendor's default is `auto`, so it changes nothing. `flex` is cheaper than what is charged.
    ("service_tier", OneOf(&["auto", "default", "flex"])),
]);

const MESSAGE: Fields = &[
    ("role", OneOf(&["system", "developer", "user", "assistant", "tool"])),
    ("content", TextOr(&List(&Shape::Tagged(&PART)))),
    ("name", Scalar),
    ("tool_calls", List(&Shape::Tagged(&CALL))),
    ("tool_call_id", Scalar),
    ("refusal", Scalar),
    ("reasoning", Scalar),
    ("reasoning_content", Scalar),
    ("reasoning_details", Any),
];

static CALL: TaggedObject = TaggedObject {
    kind: "call",
    default: "function",
    types: &[
        ("function", Variant::Fields(&[("id", Scalar), ("index", Scalar), ("function", Any)])),
        ("custom", Variant::Fields(&[("id", Scalar), ("index", Scalar), ("custom", Any)])),
    ],
};

/// `file_id` and other URLs than `data:` make the vendor fetch.
static PART: TaggedObject = TaggedObject {
    kind: "part",
    default: "",
    types: &[
        ("text", Variant::Fields(&[("text", Scalar), ("cache_control", Any)])),
        ("refusal", Variant::Fields(&[("refusal", Scalar)])),
        ("image_url", Variant::Fields(&[("image_url", Object(&[("url", DataUrl), ("detail", Scalar)]))])),
        ("input_audio", Variant::Fields(&[("input_audio", Object(&[("data", Scalar), ("format", Scalar)]))])),
        ("file", Variant::Fields(&[("file", Object(&[("file_data", DataUrl), ("filename", Scalar)]))])),
    ],
};

/// A tool of the request that must be used.
static CHOICE: TaggedObject = TaggedObject {
    kind: "choice",
    default: "function",
    types: &[
        ("function", Variant::Fields(&[("function", Any)])),
        ("custom", Variant::Fields(&[("custom", Any)])),
        ("allowed_tools", Variant::Fields(&[("allowed_tools", Object(ALLOWED_TOOLS))])),
    ],
};

const ALLOWED_TOOLS: Fields = &[("mode", Scalar), ("tools", List(&Shape::Tagged(&TOOL)))];

/// Tools that the program inside runs.
static TOOL: TaggedObject = TaggedObject {
    kind: "tool",
    default: "",
    types: &[
        ("function", Variant::Fields(&[("function", Any), ("cache_control", Any)])),
        ("custom", Variant::Fields(&[("custom", Any)])),
    ],
};
