//! `fullsend init` in projects of several languages, with a pipeline, and with the files of Claude Code: what it writes
//! passes `check` as it is.

use std::fs;

use crate::support::World;

/// A repository with these files, and the variable that the model's provider needs.
fn repository(files: &[(&str, &str)]) -> World {
    let world = World::new().env("ANTHROPIC_API_KEY", "sk-ant-aaaaaaaaaaaaaaaaaaaaaaaa");
    for (path, text) in files {
        world.write(&format!("repo/{path}"), text);
    }
    world
}

fn read(world: &World, path: &str) -> String {
    fs::read_to_string(world.path("repo").join(path)).unwrap()
}

#[test]
fn each_kind_of_project_gets_its_packages_and_its_tests() {
    let package = r#"{"name": "a", "scripts": {"test": "node --test"}}"#;
    for (file, text, network, test) in [
        ("Cargo.toml", "[package]\nname = \"a\"\n", "cargo", "cargo test"),
        ("package.json", package, "npm", "npm test"),
        ("pyproject.toml", "[tool.pytest.ini_options]\n", "pip", "pytest"),
        ("go.mod", "module a\n", "go", "go test ./..."),
    ] {
        let world = repository(&[(file, text)]);
        let ran = world.run(&["init"]);
        assert_eq!(ran.code, 0, "{}", ran.all());
        assert!(ran.err.contains(&format!("tests: `{test}`, packages: `{network}`")), "{}", ran.err);
        assert!(ran.err.contains("Next: set ANTHROPIC_API_KEY, then"), "{}", ran.err);
        assert!(read(&world, ".fullsend/harness/assess.yaml").contains(&format!("network: [{network}]\n")));
        assert!(read(&world, ".fullsend/agents/assess.md").contains(&format!("tests run with `{test}`.")));
        let checked = world.run(&["check"]);
        assert_eq!(checked.code, 0, "{}", checked.all());
        let explained = world.run(&["explain", "assess"]).out;
        assert!(explained.contains(network), "{explained}");
    }
}

#[test]
fn a_project_of_no_known_kind_reaches_nothing() {
    let world = repository(&[("README.md", "words\n")]);
    let ran = world.run(&["init"]);
    assert!(!ran.err.contains("Found:"), "{}", ran.err);
    assert!(!read(&world, ".fullsend/harness/assess.yaml").contains("network:"));
}

#[test]
fn a_pipeline_names_the_secret_and_replaces_nothing() {
    let world = repository(&[(".gitlab-ci.yml", "mine: {}\n")]);
    let ran = world.run(&["init", "--ci", "github"]);
    assert!(ran.out.contains("wrote .github/workflows/fullsend.yml\n"), "{}", ran.out);
    let workflow = read(&world, ".github/workflows/fullsend.yml");
    assert!(workflow.contains("ANTHROPIC_API_KEY: ${{ secrets.ANTHROPIC_API_KEY }}"), "{workflow}");
    assert!(!workflow.contains("MODEL_KEY"), "{workflow}");
    let ran = world.run(&["init", "--ci", "gitlab", "--runtime", "codex"]);
    assert!(ran.out.contains("kept  .gitlab-ci.yml\n"), "{}", ran.out);
    assert!(read(&world, ".gitlab/fullsend.yml").contains("OPENAI_API_KEY"));
    assert_eq!(read(&world, ".gitlab-ci.yml"), "mine: {}\n");
}

#[test]
fn the_agents_of_claude_code_are_taken_over() {
    let agent =
        "---\nname: reviewer\ndescription: Reviews changes.\ntools: Read, Grep\n---\nReview the change.\n";
    let servers = r#"{"mcpServers": {
        "files": {"command": "node", "args": ["server.js"], "env": {"MODE": "read"}},
        "remote": {"type": "http", "url": "https://mcp.example/"}}}"#;
    let skill = "---\nname: style\ndescription: How we write.\n---\nWrite short sentences.\n";
    let world = repository(&[
        (".claude/agents/reviewer.md", agent),
        (".claude/skills/style/SKILL.md", skill),
        (".claude/skills/style/examples/one.md", "An example.\n"),
        (".mcp.json", servers),
    ]);
    std::os::unix::fs::symlink("/etc/passwd", world.path("repo/.claude/skills/style/passwd")).unwrap();
    let ran = world.run(&["init", "--from-claude"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    assert!(ran.out.contains("left  the MCP server `remote` of .mcp.json is reached by URL"), "{}", ran.out);
    assert_eq!(read(&world, ".fullsend/agents/reviewer.md"), agent);
    assert_eq!(read(&world, ".fullsend/skills/style/examples/one.md"), "An example.\n");
    assert!(!world.path("repo/.fullsend/skills/style/passwd").exists(), "a link can point anywhere");
    let harness = read(&world, ".fullsend/harness/reviewer.yaml");
    assert!(
        harness.contains("runtime: claude\n") && harness.contains("skills: [\"skills/style\"]\n"),
        "{harness}"
    );
    assert!(harness.contains("\"files\":\n    command: \"node\"\n    args: [\"server.js\"]\n"), "{harness}");
    let explained = world.run(&["explain", "reviewer"]);
    assert_eq!(explained.code, 0, "{}", explained.all());
    assert!(explained.out.contains("server.js"), "{}", explained.out);
}
