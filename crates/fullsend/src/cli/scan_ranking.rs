//! The second table of `fullsend scan bench`: how the scores for injections rank a corpus, over everything and by source, origin
//! and language.

use std::io::Write;
use std::path::Path;

use redact::Category;
use scan::{Estimate, LabelledText, Ranking, Toggles};
use serde_json::{Value as Json, json};

use super::exit::{Exit, Failure};
use crate::guard::judge::{Judge, steers};

/// One text with the highest score of its findings.
struct ScoredCase<'a> {
    case: &'a LabelledText,
    score: f64,
}

/// How one group of attacks ranks against the benign texts.
struct RankedGroup {
    name: String,
    attacks: usize,
    benign: usize,
    ranking: Ranking,
}

impl RankedGroup {
    fn line(&self) -> String {
        let Self { name, attacks, benign, ranking } = self;
        let shown =
            |estimate: Estimate| format!("{:.3} ({:.3}-{:.3})", estimate.value, estimate.low, estimate.high);
        format!(
            "{name:28} {attacks:>8} {benign:>8} {:>20} {:>20} {:>20} {:>11.3}",
            shown(ranking.auroc),
            shown(ranking.at_1_percent),
            shown(ranking.at_01_percent),
            ranking.calibration_error,
        )
    }

    fn json(&self) -> Json {
        let Self { name, attacks, benign, ranking } = self;
        json!({
            "group": name, "attacks": attacks, "benign": benign, "auroc": ranking.auroc.value,
            "recall_at_1_percent": ranking.at_1_percent.value,
            "recall_at_0_1_percent": ranking.at_01_percent.value,
            "calibration_error": ranking.calibration_error,
        })
    }
}

pub fn print(
    out: &mut impl Write,
    weights: Option<&Path>,
    cases: &[LabelledText],
    as_json: bool,
) -> Result<(), Failure> {
    let scored = score(weights, cases)?;
    let all = |_: &LabelledText| "";
    let mut rows = rank(&scored, "all", all, all);
    // Attacks of every source are compared with all benign texts, because few sources have both.
    rows.extend(rank(&scored, "source", |case| &case.source, all));
    rows.extend(rank(&scored, "origin", |case| case.origin.as_str(), |case| case.origin.as_str()));
    rows.extend(rank(&scored, "language", |case| &case.language, |case| &case.language));
    if as_json {
        rows.iter().try_for_each(|row| writeln!(out, "{}", row.json()))?;
        return Ok(());
    }
    if rows.is_empty() {
        return Ok(());
    }
    let head = [
        "group",
        "attacks",
        "benign",
        "AUROC (95 %)",
        "recall at 1 % (95 %)",
        "at 0.1 % (95 %)",
        "calibration",
    ];
    writeln!(
        out,
        "\n{:28} {:>8} {:>8} {:>20} {:>20} {:>20} {:>11}",
        head[0], head[1], head[2], head[3], head[4], head[5], head[6]
    )?;
    for row in rows {
        writeln!(out, "{}", row.line())?;
    }
    writeln!(out, "calibration: the mean distance between a score and the share of attacks that have it")?;
    Ok(())
}

fn score<'a>(weights: Option<&Path>, cases: &'a [LabelledText]) -> Result<Vec<ScoredCase<'a>>, Failure> {
    let mut judge =
        Judge::built_in(Toggles::NONE.switched("context_injection", true).unwrap_or_default(), "");
    if let Some(weights) = weights {
        judge = judge.with_model(weights, 0.0);
    }
    let is_asked = |case: &&LabelledText| case.category.is_none_or(|one| one == Category::ContextInjection);
    let mut scored = Vec::new();
    for case in cases.iter().filter(is_asked) {
        let found = judge.scan_file(case.text.as_bytes(), case.origin, "");
        let found = found.map_err(|error| Failure::new(Exit::Missing, error.to_string()))?;
        let scores = found.open.iter().filter(|finding| steers(finding)).map(|finding| finding.score.value());
        scored.push(ScoredCase { case, score: scores.fold(0.0, f64::max) });
    }
    Ok(scored)
}

/// One line for each group that has attacks. `against` says which benign texts they are compared with.
fn rank<'a>(
    scored: &[ScoredCase<'a>],
    kind: &str,
    group: impl Fn(&'a LabelledText) -> &'a str,
    against: impl Fn(&'a LabelledText) -> &'a str,
) -> Vec<RankedGroup> {
    let attacks = || scored.iter().filter(|one| one.case.is_attack);
    let mut names: Vec<&str> = attacks().map(|one| group(one.case)).collect();
    names.sort_unstable();
    names.dedup();
    if kind != "all" {
        names.retain(|name| !name.is_empty());
    }
    let mut rows = Vec::new();
    for name in names {
        let found: Vec<&ScoredCase<'_>> = attacks().filter(|one| group(one.case) == name).collect();
        let mut compared: Vec<&str> = found.iter().map(|one| against(one.case)).collect();
        compared.dedup();
        let benign = scored.iter().filter(|one| !one.case.is_attack && compared.contains(&against(one.case)));
        let benign: Vec<f64> = benign.map(|one| one.score).collect();
        let attacks: Vec<f64> = found.iter().map(|one| one.score).collect();
        let Some(ranking) = scan::rank(&attacks, &benign) else { continue };
        let name = if name.is_empty() { kind.to_owned() } else { format!("{kind} {name}") };
        rows.push(RankedGroup { name, attacks: attacks.len(), benign: benign.len(), ranking });
    }
    rows
}
