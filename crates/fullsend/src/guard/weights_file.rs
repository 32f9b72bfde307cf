//! Where the weights of the learned scanner are on this host: beside the program or where packages put data. It reads
//! no file; `model: PATH` of the harness comes before everything here.

use std::path::{Path, PathBuf};

/// The file in every package.
pub const NAME: &str = "injection.weights";
/// Names the file by its absolute path, or says that there is none.
pub const VARIABLE: &str = "FULLSEND_WEIGHTS";
const NONE: &str = "none";

/// The result of the search for the file.
#[derive(Clone, Debug, Default)]
pub struct WeightsSearch {
    /// The first place that has the file.
    pub found: Option<PathBuf>,
    /// Every place that was looked at, the first one first.
    pub places: Vec<PathBuf>,
}

pub fn find(variables: &dyn Fn(&str) -> Option<String>) -> WeightsSearch {
    let places = places(variables);
    WeightsSearch { found: places.iter().find(|path| path.is_file()).cloned(), places }
}

fn places(variables: &dyn Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    match variables(VARIABLE) {
        Some(named) if named == NONE => return Vec::new(),
        Some(named) if !named.is_empty() => return vec![PathBuf::from(named)],
        _ => {}
    }
    let program = std::env::current_exe().ok();
    let mut places = program.as_deref().map(places_of_program).unwrap_or_default();
    let data = variables("XDG_DATA_HOME").filter(|path| path.starts_with('/')).map(PathBuf::from);
    let home = || variables("HOME").map(|home| PathBuf::from(home).join(".local/share"));
    places.extend(data.or_else(home).map(|data| data.join("fullsend").join(NAME)));
    places
}

/// Beside the program, in the `share` directory of its prefix, and in the checkout whose `target` directory holds it.
fn places_of_program(program: &Path) -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Some(directory) = program.parent() {
        places.push(directory.join(NAME));
        places.extend(directory.parent().map(|prefix| prefix.join("share/fullsend").join(NAME)));
    }
    let target =
        program.ancestors().find(|directory| directory.file_name().is_some_and(|name| name == "target"));
    let checkout = target.and_then(Path::parent).filter(|checkout| checkout.join("Cargo.toml").is_file());
    places.extend(checkout.map(|checkout| checkout.join("models").join(NAME)));
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_are_those_of_packages_the_home_and_the_checkout() {
        let places = places_of_program(Path::new("/usr/bin/fullsend"));
        assert_eq!(
            places,
            ["/usr/bin/injection.weights", "/usr/share/fullsend/injection.weights"].map(PathBuf::from)
        );
        let home = |name: &str| (name == "HOME").then(|| "/home/a".to_owned());
        assert_eq!(
            find(&home).places.last(),
            Some(&"/home/a/.local/share/fullsend/injection.weights".into())
        );
        let data = |name: &str| (name == "XDG_DATA_HOME").then(|| "/data".to_owned());
        assert_eq!(find(&data).places.last(), Some(&"/data/fullsend/injection.weights".into()));
        // This test lives in the target directory of the checkout.
        assert!(find(&home).found.is_some_and(|path| path.ends_with("models/injection.weights")));
    }

    #[test]
    fn the_variable_names_the_only_place_or_none() {
        let set = |value: &'static str| move |name: &str| (name == VARIABLE).then(|| value.to_owned());
        assert_eq!(find(&set("/opt/x")).places, [PathBuf::from("/opt/x")]);
        assert_eq!(find(&set("none")).places, Vec::<PathBuf>::new());
        assert_eq!(find(&set("")).places, find(&|_| None).places);
    }
}
