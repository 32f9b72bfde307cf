//! What passes of the OpenAI Responses format.

use super::shape::Shape::{self, Any, Bool, DataUrl, False, List, Object, OneOf, Scalar, TextOr};
use super::shape::{Fields, TaggedObject, Variant};

pub(super) static REQUEST: Shape = Object(&[
    ("model", Scalar),
    ("input", TextOr(&List(&Shape::Tagged(&ITEM)))),
    ("instructions", TextOr(&List(&Shape::Tagged(&ITEM)))),
    ("tools", List(&Shape::Tagged(&TOOL))),
    ("tool_choice", TextOr(&Shape::Tagged(&CHOICE))),
    ("parallel_tool_calls", Scalar),
    ("max_output_tokens", Scalar),
    ("max_tool_calls", Scalar),
    ("stream", Bool),
    ("stream_options", Any),
    ("reasoning", Any),
    ("text", Any),
    ("temperature", Scalar),
    ("top_p", Scalar),
    ("top_logprobs", Scalar),
    ("truncation", Scalar),
    ("store", Scalar),
    ("include", List(&OneOf(&["reasoning.encrypted_content", "message.output_text.logprobs"]))),
    ("prompt_cache_key", Scalar),
    ("prompt_cache_retention", Scalar),
    ("metadata", Any),
    ("client_metadata", Any),
    ("user", Scalar),
    ("safety_identifier", Scalar),
    ("background", False),
    ("previous_response_id", OneOf(&[])),
    // The vendor's default is `auto`, so it changes nothing. `flex` is cheaper than what is charged.
    ("service_tier", OneOf(&["auto", "default", "flex"])),
]);

/// Items of tools that the vendor runs (`web_search_call`, `mcp_call`, …) and references to stored items are not among
/// them.
static ITEM: TaggedObject = TaggedObject {
    kind: "item",
    default: "message",
    types: &[
        (
            "message",
            Variant::Fields(&[
                ("id", Scalar),
                ("role", OneOf(&["user", "assistant", "system", "developer"])),
                ("content", CONTENT),
                ("status", Scalar),
                ("phase", Scalar),
            ]),
        ),
        ("function_call", Variant::Fields(CALL)),
        ("function_call_output", Variant::Fields(CALL_OUTPUT)),
        ("custom_tool_call", Variant::Fields(CALL)),
        ("custom_tool_call_output", Variant::Fields(CALL_OUTPUT)),
        ("local_shell_call", Variant::Fields(OWN_CALL)),
        ("local_shell_call_output", Variant::Fields(CALL_OUTPUT)),
        ("apply_patch_call", Variant::Fields(OWN_CALL)),
        ("apply_patch_call_output", Variant::Fields(CALL_OUTPUT)),
        ("tool_search_call", Variant::Fields(OWN_CALL)),
        ("tool_search_output", Variant::Fields(TOOLS)),
        ("additional_tools", Variant::Fields(TOOLS)),
        (
            "reasoning",
            Variant::Fields(&[
                ("id", Scalar),
                ("summary", Any),
                ("content", Any),
                ("encrypted_content", Scalar),
                ("status", Scalar),
            ]),
        ),
        ("compaction", Variant::Fields(&[("id", Scalar), ("encrypted_content", Scalar)])),
    ],
};

/// Calls of the vendor's tools that the program inside runs.
const OWN_CALL: Fields = &[
    ("id", Scalar),
    ("call_id", Scalar),
    ("status", Scalar),
    ("execution", OneOf(&["client"])),
    ("action", Any),
    ("operation", Any),
    ("arguments", Any),
];

/// A tool of the request that must be used; the vendor's own tools are not among them.
static CHOICE: TaggedObject = TaggedObject {
    kind: "choice",
    default: "",
    types: &[
        ("function", Variant::Fields(&[("name", Scalar), ("namespace", Scalar)])),
        ("custom", Variant::Fields(&[("name", Scalar), ("namespace", Scalar)])),
        ("local_shell", Variant::Fields(&[])),
        ("apply_patch", Variant::Fields(&[])),
        ("tool_search", Variant::Fields(&[])),
        ("allowed_tools", Variant::Fields(&[("mode", Scalar), ("tools", List(&Shape::Tagged(&TOOL)))])),
    ],
};

/// Tools that the program inside adds in the middle of a conversation.
const TOOLS: Fields = &[
    ("id", Scalar),
    ("role", Scalar),
    ("call_id", Scalar),
    ("status", Scalar),
    ("execution", OneOf(&["client"])),
    ("tools", List(&Shape::Tagged(&TOOL))),
];

const CONTENT: Shape = TextOr(&List(&Shape::Tagged(&PART)));

const CALL: Fields = &[
    ("id", Scalar),
    ("call_id", Scalar),
    ("name", Scalar),
    ("namespace", Scalar),
    ("arguments", Scalar),
    ("input", Scalar),
    ("status", Scalar),
];

const CALL_OUTPUT: Fields = &[
    ("id", Scalar),
    ("call_id", Scalar),
    ("name", Scalar),
    ("output", CONTENT),
    ("status", Scalar),
    ("success", Scalar),
];

/// `file_url` and `file_id` make the vendor fetch.
static PART: TaggedObject = TaggedObject {
    kind: "part",
    default: "",
    types: &[
        ("input_text", Variant::Fields(&[("text", Scalar)])),
        ("output_text", Variant::Fields(&[("text", Scalar), ("annotations", Any), ("logprobs", Any)])),
        ("text", Variant::Fields(&[("text", Scalar)])),
        ("summary_text", Variant::Fields(&[("text", Scalar)])),
        ("reasoning_text", Variant::Fields(&[("text", Scalar)])),
        ("refusal", Variant::Fields(&[("refusal", Scalar)])),
        ("input_image", Variant::Fields(&[("image_url", DataUrl), ("detail", Scalar)])),
        ("input_file", Variant::Fields(&[("file_data", DataUrl), ("filename", Scalar)])),
    ],
};

/// Tools that the program inside runs.
static TOOL: TaggedObject = TaggedObject {
    kind: "tool",
    default: "",
    types: &[
        (
            "function",
            Variant::Fields(&[
                ("name", Scalar),
                ("description", Scalar),
                ("parameters", Any),
                ("output_schema", Any),
                ("strict", Scalar),
                ("defer_loading", Scalar),
            ]),
        ),
        (
            "custom",
            Variant::Fields(&[
                ("name", Scalar),
                ("description", Scalar),
                ("format", Any),
                ("defer_loading", Scalar),
            ]),
        ),
        (
            "namespace",
            Variant::Fields(&[
                ("name", Scalar),
                ("description", Scalar),
                ("tools", List(&Shape::Tagged(&TOOL))),
            ]),
        ),
        ("local_shell", Variant::Fields(&[])),
        ("apply_patch", Variant::Fields(&[])),
        (
            "tool_search",
            Variant::Fields(&[
                ("execution", OneOf(&["client"])),
                ("description", Scalar),
                ("parameters", Any),
            ]),
        ),
    ],
};
