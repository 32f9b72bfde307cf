//! Writing to disks below the file system, and other ways to make a machine unusable.

use redact::{Severity, rule};

use super::{Harm, harm};
use crate::script::Call;

const ADVICE: &str = "Do not do this. Do the task another way.";

pub(super) fn judge(call: &Call) -> Option<Harm> {
    let writes_disk =
        call.redirects.iter().any(|redirect| redirect.writes() && is_disk(&redirect.target.text));
    let is_format = call.program() == "mkfs"
        || call.program().starts_with("mkfs.")
        || call.is(&["wipefs", "mkswap", "fdisk", "parted", "sfdisk"]);
    let overwrites =
        call.is(&["dd"]) && call.words().any(|word| word.strip_prefix("of=").is_some_and(is_disk));
    let shreds = call.is(&["shred", "wipe", "blkdiscard"]) && call.operands().any(|word| is_disk(&word.text));
    let targets_disk = call.operands().any(|word| word.text.starts_with("/dev/"));
    if writes_disk || overwrites || shreds || (is_format && targets_disk) {
        return harm(
            rule::command::DISK_OVERWRITE,
            Severity::Critical,
            format!("`{}` writes over a disk", call.program()),
            ADVICE,
        );
    }
    None
}

fn is_disk(path: &str) -> bool {
    let disks = [
        "/dev/sd",
        "/dev/hd",
        "/dev/vd",
        "/dev/xvd",
        "/dev/nvme",
        "/dev/mmcblk",
        "/dev/disk",
        "/dev/mapper/",
        "/dev/dm-",
        "/dev/md",
    ];
    disks.iter().any(|disk| path.starts_with(disk))
}
