//! The largest documents that are read at all, in every awkward shape: within five seconds of processor time.

use crate::bad_input::{bounded, world};

/// Documents just below the size limits are read within the same time.
#[test]
fn the_largest_documents_that_are_read() {
    let lines = |count: usize, line: fn(usize) -> String| (0..count).map(line).collect::<String>();
    let agent = "agent: agents/triage.md\noutput_schema: schemas/triage.json\nproviders: [model]\n";
    for (what, text, code) in [
        ("variables", format!("{agent}env:\n  runner:\n{}", lines(5000, |i| format!("    V{i}: x\n"))), 0),
        (
            "unset variables",
            format!("{agent}env:\n  runner:\n{}", lines(5000, |i| format!("    V{i}: ${{U{i}}}\n"))),
            0,
        ),
        ("missing plugins", format!("{agent}plugins:\n{}", lines(5000, |i| format!("- plugins/p{i}\n"))), 3),
        ("missing skills", format!("{agent}skills:\n{}", lines(5000, |i| format!("- skills/s{i}\n"))), 3),
        ("unknown keys", format!("{agent}{}", lines(40_000, |i| format!("k{i}: x\n"))), 3),
        ("too many items", format!("{agent}plugins:\n{}", lines(90_000, |i| format!("- p{i}\n"))), 3),
        ("one long text", format!("{agent}description: {}\n", "x".repeat(1_000_000)), 0),
        (
            "one long line",
            format!(
                "{agent}env: {{runner: {{{}}}}}\n",
                lines(5000, |i| format!("V{i}: {}, ", "y".repeat(150)))
            ),
            0,
        ),
        ("comments", format!("{agent}{}", "# x\n".repeat(250_000)), 0),
    ] {
        let world = world();
        world.write("repo/.fullsend/harness/triage.yaml", text);
        for command in ["check", "explain"] {
            let ran = bounded(&world, &[command, "triage"]);
            let expected = if command == "explain" && what.starts_with("missing") { 0 } else { code };
            assert_eq!(
                ran.code,
                expected,
                "{command} {what}: {}",
                &ran.all()[..ran.all().floor_char_boundary(2000)]
            );
        }
    }
}
