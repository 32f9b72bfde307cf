//! Which files of a tree are scanned, and which are not.

use std::os::unix::fs::symlink;

use super::*;

fn seen(root: &Path, which: Coverage) -> Vec<(String, Origin, bool)> {
    let mut all = Vec::new();
    walk(root, which, Origin::Instruction, &mut |file| {
        all.push((file.path.to_owned(), file.origin, file.contents.is_ok()));
        Ok::<(), ()>(())
    })
    .unwrap();
    all
}

fn tree(files: &[(&str, usize)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, size) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![b'x'; *size]).unwrap();
    }
    root
}

#[test]
fn everything_that_some_agent_reads_is_found() {
    let wanted = [
        ("AGENTS.md", Origin::Instruction),
        ("docs/Claude.md", Origin::Instruction),
        (".mcp.json", Origin::Configuration),
        (".claude/commands/deep/a.txt", Origin::Instruction),
        (".claude/settings.json", Origin::Configuration),
        (".cursor/rules/x.mdc", Origin::Instruction),
        (".github/copilot-instructions.md", Origin::Instruction),
        (".github/instructions/a.md", Origin::Instruction),
        (".openhands/microagents/a.md", Origin::Instruction),
        (".kilocode/rules/a.md", Origin::Instruction),
        (".factory/droids/a.md", Origin::Instruction),
        (".agent/rules/a.md", Origin::Instruction),
        (".idx/airules.md", Origin::Instruction),
        (".roomodes", Origin::Instruction),
        ("replit.md", Origin::Instruction),
        ("CONVENTIONS.md", Origin::Instruction),
        ("agent-input/issue.json", Origin::Issue),
        ("skills/x/SKILL.md", Origin::Instruction),
        ("skills/x/scripts/run.sh", Origin::Instruction),
    ];
    let mut files: Vec<(&str, usize)> = wanted.iter().map(|(path, _)| (*path, 3)).collect();
    files.extend([
        ("src/main.rs", 3),
        ("README.md", 3),
        ("node_modules/a/CLAUDE.md", 3),
        (".github/workflows/a.yml", 3),
    ]);
    let root = tree(&files);
    let mut found = seen(root.path(), Coverage::Instructions);
    found.sort_by(|one, other| one.0.cmp(&other.0));
    let mut expected: Vec<(String, Origin, bool)> =
        wanted.iter().map(|(path, origin)| ((*path).to_owned(), *origin, true)).collect();
    expected.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(found, expected);
    assert_eq!(seen(root.path(), Coverage::Everything).len(), files.len());
}

#[test]
fn imported_instruction_files_are_scanned() {
    let root = tree(&[("docs/deep.md", 1), ("docs/no.md", 1), ("AGENTS.md", 1), (".git/config", 1)]);
    let write = |path: &str, text: &str| fs::write(root.path().join(path), text).unwrap();
    write("CLAUDE.md", "@AGENTS.md\nSee @docs/x.md, @.git/config and @/etc/passwd and @docs and @../up.md\n");
    write("docs/x.md", "@deep.md @x.md @../CLAUDE.md");
    let paths: Vec<String> = seen(root.path(), Coverage::Instructions).into_iter().map(|it| it.0).collect();
    assert_eq!(paths, ["AGENTS.md", "CLAUDE.md", "docs/x.md", "docs/deep.md"]);
}

#[test]
fn bounds_and_links_hold() {
    let root = tree(&[("CLAUDE.md", 2 << 20), ("real.txt", 3)]);
    assert_eq!(
        seen(root.path(), Coverage::Instructions),
        [("CLAUDE.md".to_owned(), Origin::Instruction, false)]
    );
    let root = tree(&[("real.txt", 3)]);
    symlink("real.txt", root.path().join("AGENTS.md")).unwrap();
    symlink("/etc/passwd", root.path().join("CLAUDE.md")).unwrap();
    symlink("..", root.path().join(".claude")).unwrap();
    symlink(".", root.path().join("loop")).unwrap();
    assert_eq!(
        seen(root.path(), Coverage::Instructions),
        [("AGENTS.md".to_owned(), Origin::Instruction, true)]
    );
    let found = |paths: &[&str]| -> Vec<(String, Origin, bool)> {
        paths.iter().map(|path| ((*path).to_owned(), Origin::Instruction, true)).collect()
    };
    // Directories behind links: each is read once, and a link to a parent does not loop.
    let root = tree(&[("docs/x/a.md", 3), ("docs/y/b.md", 3), ("docs/z/c.md", 3), (".claude/own/d.md", 3)]);
    fs::create_dir_all(root.path().join(".cursor")).unwrap();
    fs::create_dir_all(root.path().join(".github")).unwrap();
    for (to, at) in [
        ("../docs/x", ".claude/commands"),
        ("../docs/x", ".claude/again"),
        ("own", ".claude/other"),
        ("../docs/y", ".cursor/rules"),
        ("../docs/z", ".github/prompts"),
        ("/etc", ".claude/away"),
        ("../docs/none", ".claude/broken"),
        ("docs/x", "plain"),
    ] {
        symlink(to, root.path().join(at)).unwrap();
    }
    let mut all = seen(root.path(), Coverage::Instructions);
    all.sort_by(|one, other| one.0.cmp(&other.0));
    let expected = [".claude/again/a.md", ".claude/own/d.md", ".cursor/rules/b.md", ".github/prompts/c.md"];
    assert_eq!(all, found(&expected));
    assert_eq!(seen(root.path(), Coverage::Everything).len(), 4, "under their own names alone");
    // A link to its own parent directory shows the parent's other files once, without git's data.
    let root = tree(&[("deploy.md", 3), (".claude/a.md", 3), (".git/config", 3)]);
    symlink("..", root.path().join(".claude/commands")).unwrap();
    assert_eq!(
        seen(root.path(), Coverage::Instructions),
        found(&[".claude/a.md", ".claude/commands/deploy.md"])
    );
    let deep = format!("{}CLAUDE.md", "d/".repeat(40));
    let found = seen(tree(&[(&deep, 3)]).path(), Coverage::Instructions);
    assert!(found.len() == 1 && !found[0].2, "{found:?}");
}
