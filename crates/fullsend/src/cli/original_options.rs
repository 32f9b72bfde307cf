//! Options of `fullsend run` that the original project's workflows use. Some have the same effect here; each of the
//! others is accepted with a warning.

use std::path::PathBuf;

use clap::Args;

use crate::resolve::command_line::CommandLineValue;

#[derive(Args, Debug)]
pub struct OriginalOptions {
    /// Read variables from this file, one `NAME=VALUE` per line; `--var` has precedence
    #[arg(long, value_name = "FILE")]
    pub env_file: Vec<PathBuf>,
    /// Do not run the post-script
    #[arg(long)]
    no_post_script: bool,
    /// Use this image; `none` means the host's own files [default: FULLSEND_SANDBOX_IMAGE, or the harness's]
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// The same as `--keep always`
    #[arg(long, conflicts_with = "keep")]
    pub keep_sandbox: bool,
    /// Accepted: the debug log of the runtime is always kept
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "*")]
    debug: Option<String>,
    #[arg(long, hide = true)]
    run_url: Option<String>,
    #[arg(long, hide = true)]
    status_repo: Option<String>,
    #[arg(long, hide = true)]
    status_number: Option<String>,
    #[arg(long, hide = true)]
    mint_url: Option<String>,
    #[arg(long, hide = true)]
    max_depth: Option<u64>,
    #[arg(long, hide = true)]
    max_resources: Option<u64>,
    #[arg(long, hide = true)]
    fullsend_binary: Option<PathBuf>,
}

impl OriginalOptions {
    /// The values for the harness.
    pub fn values(&self) -> Vec<CommandLineValue> {
        let mut values: Vec<CommandLineValue> = self.image.iter().map(|image| image_value(image)).collect();
        if self.no_post_script {
            values.push(CommandLineValue { field: "post_script", value: "null".to_owned() });
        }
        values
    }

    /// One line for each option that has no effect.
    pub fn warnings(&self) -> Vec<String> {
        let comments = "a workflow or a post-script comments with `fullsend post-comment`";
        let nothing = "the limits of remote resources are fixed";
        let all = [
            ("--run-url", self.run_url.is_some(), comments),
            ("--status-repo", self.status_repo.is_some(), comments),
            ("--status-number", self.status_number.is_some(), comments),
            ("--mint-url", self.mint_url.is_some(), "the workflow provides tokens as variables"),
            ("--max-depth", self.max_depth.is_some(), nothing),
            ("--max-resources", self.max_resources.is_some(), nothing),
            ("--fullsend-binary", self.fullsend_binary.is_some(), "the sandbox gets this program itself"),
        ];
        let given = all.into_iter().filter(|(_, is_given, _)| *is_given);
        given.map(|(flag, _, why)| format!("warning: {flag} has no effect: {why}\n")).collect()
    }
}

/// `none` leaves the harness's image out.
pub fn image_value(image: &str) -> CommandLineValue {
    match image {
        "none" => CommandLineValue { field: "image", value: "null".to_owned() },
        image => CommandLineValue::text("image", image),
    }
}
