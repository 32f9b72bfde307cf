//! Slurm: an array of jobs, one for each run. The batch script becomes the job, so that the scheduler's signals reach it.

use std::path::Path;

use super::folder::DispatchFolder;

/// The options of a Slurm array.
#[derive(Clone, Debug)]
pub struct SlurmOptions {
    pub parallel: usize,
    pub partition: Option<String>,
    /// Seconds between the first signal and the end.
    pub grace_seconds: u64,
    pub more: Vec<String>,
}

/// The arguments of `sbatch`.
pub fn sbatch(folder: &DispatchFolder, count: usize, script: &Path, options: &SlurmOptions) -> Vec<String> {
    let SlurmOptions { parallel, partition, grace_seconds, more } = options;
    let last = count.saturating_sub(1);
    let logs = folder.path().join("jobs").join("%a").join("log.txt");
    let mut words = vec![
        "--parsable".to_owned(),
        format!("--array=0-{last}%{parallel}"),
        "--job-name=fullsend".to_owned(),
        // Start the job again if its node fails or another job preempts it.
        "--requeue".to_owned(),
        "--open-mode=append".to_owned(),
        format!("--signal=B:TERM@{grace_seconds}"),
        format!("--output={}", logs.display()),
        format!("--chdir={}", folder.path().display()),
    ];
    words.extend(partition.iter().map(|partition| format!("--partition={partition}")));
    words.extend(more.iter().cloned());
    words.push(script.display().to_string());
    words
}

/// The batch script. `exec`: the signals of the scheduler go to the job itself.
pub fn script(program: &Path, folder: &DispatchFolder) -> String {
    let quoted = |path: &Path| format!("'{}'", path.display().to_string().replace('\'', "'\\''"));
    format!(
        "#!/bin/sh\nexec {} dispatch job {} \"$SLURM_ARRAY_TASK_ID\"\n",
        quoted(program),
        quoted(folder.path())
    )
}

/// The number of the array in what `sbatch --parsable` prints: `ID` or `ID;CLUSTER`.
pub fn job_id(printed: &str) -> Option<&str> {
    let id = printed.trim().split(';').next()?;
    (!id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit())).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::folder::EngineName;
    use crate::dispatch::request::DispatchRequest;

    #[test]
    fn an_array_has_one_job_for_each_request() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("it's");
        let requests =
            vec![DispatchRequest { harness: Some("a".to_owned()), ..DispatchRequest::default() }; 8];
        let folder = DispatchFolder::create(&path, EngineName::Slurm, &requests, String::new()).unwrap();
        let options = SlurmOptions {
            parallel: 3,
            partition: Some("short".to_owned()),
            grace_seconds: 60,
            more: vec!["--mem=4G".to_owned()],
        };
        let words = sbatch(&folder, 8, Path::new("/s.sh"), &options);
        for word in ["--array=0-7%3", "--requeue", "--signal=B:TERM@60", "--partition=short", "--mem=4G"] {
            assert!(words.iter().any(|other| other == word), "{word}: {words:?}");
        }
        assert_eq!(words.last().map(String::as_str), Some("/s.sh"));
        let text = script(Path::new("/bin/fullsend"), &folder);
        assert!(text.contains("exec '/bin/fullsend' dispatch job '"), "{text}");
        assert!(text.contains("it'\\''s' \"$SLURM_ARRAY_TASK_ID\"\n"), "{text}");
        assert_eq!((job_id("12\n"), job_id("12;c\n"), job_id("error")), (Some("12"), Some("12"), None));
    }
}
