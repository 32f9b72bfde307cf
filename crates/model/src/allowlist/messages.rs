//! What passes of the Anthropic Messages format.

use super::shape::Shape::{self, Any, Bool, List, MediaType, Object, OneOf, Scalar, TextOr};
use super::shape::{Fields, TaggedObject, Variant};

pub(super) static REQUEST: Shape = Object(&[
    ("model", Scalar),
    ("messages", List(&Object(MESSAGE))),
    ("system", TextOr(&List(&Shape::Tagged(&SYSTEM)))),
    ("tools", List(&Shape::Tagged(&TOOL))),
    ("tool_choice", TextOr(&Shape::Tagged(&CHOICE))),
    ("max_tokens", Scalar),
    ("stream", Bool),
    ("temperature", Scalar),
    ("top_p", Scalar),
    ("top_k", Scalar),
    ("stop_sequences", List(&Scalar)),
    ("metadata", Any),
    ("thinking", Any),
    ("output_config", Any),
    ("output_format", Any),
    ("context_management", Object(&[("edits", List(&Shape::Tagged(&EDIT)))])),
    ("cache_control", Any),
    // The vendor's default is `auto`, so it changes nothing.
    ("service_tier", OneOf(&["auto", "standard_only"])),
    ("speed", OneOf(&["standard"])),
]);

const MESSAGE: Fields =
    &[("role", OneOf(&["user", "assistant", "system"])), ("content", TextOr(&List(&Shape::Tagged(&BLOCK))))];

static SYSTEM: TaggedObject =
    TaggedObject { kind: "block", default: "", types: &[("text", Variant::Fields(TEXT))] };

const TEXT: Fields = &[("text", Scalar), ("citations", Any), ("cache_control", Any)];

/// Blocks of tools that the vendor runs (`server_tool_use`, `mcp_tool_use`, …) are not among them.
static BLOCK: TaggedObject = TaggedObject {
    kind: "block",
    default: "",
    types: &[
        ("text", Variant::Fields(TEXT)),
        ("image", Variant::Fields(&[("source", Shape::Tagged(&SOURCE)), ("cache_control", Any)])),
        (
            "document",
            Variant::Fields(&[
                ("source", Shape::Tagged(&SOURCE)),
                ("title", Scalar),
                ("context", Scalar),
                ("citations", Any),
                ("cache_control", Any),
            ]),
        ),
        (
            "search_result",
            Variant::Fields(&[
                // Where the text came from; the vendor does not fetch it.
                ("source", Scalar),
                ("title", Scalar),
                ("content", List(&Shape::Tagged(&BLOCK))),
                ("citations", Any),
                ("cache_control", Any),
            ]),
        ),
        ("thinking", Variant::Fields(&[("thinking", Scalar), ("signature", Scalar), ("cache_control", Any)])),
        ("redacted_thinking", Variant::Fields(&[("data", Scalar)])),
        (
            "tool_use",
            Variant::Fields(&[
                ("id", Scalar),
                ("name", Scalar),
                ("input", Any),
                ("caller", Object(&[("type", OneOf(&["direct"]))])),
                ("cache_control", Any),
            ]),
        ),
        (
            "tool_result",
            Variant::Fields(&[
                ("tool_use_id", Scalar),
                ("content", TextOr(&List(&Shape::Tagged(&BLOCK)))),
                ("is_error", Scalar),
                ("cache_control", Any),
            ]),
        ),
        ("tool_reference", Variant::Fields(&[("tool_name", Scalar), ("cache_control", Any)])),
    ],
};

/// `url` and `file` make the vendor fetch.
static SOURCE: TaggedObject = TaggedObject {
    kind: "source",
    default: "",
    types: &[
        ("base64", Variant::Fields(&[("media_type", MediaType), ("data", Scalar)])),
        ("text", Variant::Fields(&[("media_type", Scalar), ("data", Scalar)])),
        ("content", Variant::Fields(&[("content", TextOr(&List(&Shape::Tagged(&BLOCK))))])),
    ],
};

/// Tools that the program inside runs. `tool_search_tool_*` searches the request's own tools.
static TOOL: TaggedObject = TaggedObject {
    kind: "tool",
    default: "custom",
    types: &[
        (
            "custom",
            Variant::Fields(&[
                ("name", Scalar),
                ("description", Scalar),
                ("input_schema", Any),
                ("input_examples", Any),
                ("strict", Scalar),
                ("eager_input_streaming", Scalar),
                ("defer_loading", Scalar),
                ("allowed_callers", List(&OneOf(&["direct"]))),
                ("cache_control", Any),
            ]),
        ),
        ("bash_*", Variant::Fields(OWN_TOOL)),
        ("text_editor_*", Variant::Fields(OWN_TOOL)),
        ("computer_*", Variant::Fields(OWN_TOOL)),
        ("memory_*", Variant::Fields(OWN_TOOL)),
        ("tool_search_tool_regex", Variant::Fields(OWN_TOOL)),
        ("tool_search_tool_regex_*", Variant::Fields(OWN_TOOL)),
        ("tool_search_tool_bm25", Variant::Fields(OWN_TOOL)),
        ("tool_search_tool_bm25_*", Variant::Fields(OWN_TOOL)),
    ],
};

/// The options of the vendor's tools that the program inside runs.
const OWN_TOOL: Fields = &[
    ("name", Scalar),
    ("strict", Scalar),
    ("defer_loading", Scalar),
    ("input_examples", Any),
    ("max_characters", Scalar),
    ("display_width_px", Scalar),
    ("display_height_px", Scalar),
    ("display_number", Scalar),
    ("enable_zoom", Scalar),
    ("allowed_callers", List(&OneOf(&["direct"]))),
    ("cache_control", Any),
];

/// The vendor's own tools are not among them.
static CHOICE: TaggedObject = TaggedObject {
    kind: "choice",
    default: "",
    types: &[
        ("auto", Variant::Fields(CHOSEN)),
        ("any", Variant::Fields(CHOSEN)),
        ("tool", Variant::Fields(CHOSEN)),
        ("none", Variant::Fields(CHOSEN)),
    ],
};

const CHOSEN: Fields = &[("name", Scalar), ("disable_parallel_tool_use", Scalar)];

/// `compact_*` is not among them: what it uses is not in the usage that the answer reports.
static EDIT: TaggedObject = TaggedObject {
    kind: "edit",
    default: "",
    types: &[("clear_tool_uses_*", Variant::AnyFields), ("clear_thinking_*", Variant::AnyFields)],
};
