//! A file system whose server takes requests and never answers: a process that uses it blocks in the kernel, and no
//! signal ends that. Runs in a mount namespace of its own, so that nothing of it is left on the machine.

use crate::world::World;
use rustix::mount::MountFlags;
use sandbox::{CloseError, Command, Mount, MountKind, Sandbox, StartError, sweep};
use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const LOOKUP: u32 = 1;
const GETATTR: u32 = 3;
const INIT: u32 = 26;

/// From which request on the server is silent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Silent {
    FromTheStart,
    OnNames,
}

/// Answers on a thread until its file is closed, which frees everybody who waits.
fn mount(directory: &Path, silent: Silent) -> File {
    std::fs::create_dir_all(directory).unwrap();
    let device = File::options().read(true).write(true).open("/dev/fuse").unwrap();
    let options = format!("fd={},rootmode=40755,user_id=0,group_id=0,allow_other", device.as_raw_fd());
    let options = CString::new(options).unwrap();
    rustix::mount::mount("stuck", directory, "fuse.stuck", MountFlags::empty(), Some(options.as_c_str()))
        .unwrap();
    let mut server = device.try_clone().unwrap();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 17];
        while let Ok(40..) = server.read(&mut buffer) {
            let word = |at: usize| u32::from_ne_bytes(buffer[at..at + 4].try_into().unwrap());
            let unique = u64::from_ne_bytes(buffer[8..16].try_into().unwrap());
            let body = match (word(4), silent) {
                (INIT, _) => welcome(),
                (_, Silent::FromTheStart) | (LOOKUP, _) => continue,
                (GETATTR, Silent::OnNames) => root_directory(),
                // Answer "not supported", so that the client does not wait.
                _ => Vec::new(),
            };
            let error: i32 = if body.is_empty() { -38 } else { 0 };
            let mut answer = u32::try_from(16 + body.len()).unwrap().to_ne_bytes().to_vec();
            answer.extend(error.to_ne_bytes());
            answer.extend(unique.to_ne_bytes());
            answer.extend(body);
            drop(server.write_all(&answer));
        }
    });
    device
}

fn welcome() -> Vec<u8> {
    let mut body: Vec<u8> =
        [7_u32, 31, 0, 0, 0, 4096, 1].iter().flat_map(|word| word.to_ne_bytes()).collect();
    body.resize(64, 0);
    body
}

fn root_directory() -> Vec<u8> {
    let mut body = vec![0; 16 + 88];
    body[0..8].copy_from_slice(&3600_u64.to_ne_bytes());
    body[16..24].copy_from_slice(&1_u64.to_ne_bytes());
    body[16 + 60..16 + 64].copy_from_slice(&0o040_755_u32.to_ne_bytes());
    body[16 + 64..16 + 68].copy_from_slice(&2_u32.to_ne_bytes());
    body
}

fn with_fuse(directory: &Path, state: PathBuf) -> sandbox::SandboxSpec {
    let mut spec = World::spec_in(state);
    let kind = MountKind::ReadOnly { source: directory.to_owned() };
    spec.mounts.push(Mount { target: "/stuck".into(), kind });
    spec
}

/// What the case starts in its own namespace.
pub(crate) fn live(directory: &Path) -> ExitCode {
    let states = directory.join("states");
    std::fs::create_dir(&states).unwrap();
    close_names_who_will_not_die(directory, &states);
    start_gives_up(directory, &states);
    ExitCode::SUCCESS
}

fn close_names_who_will_not_die(directory: &Path, states: &Path) {
    let device = mount(&directory.join("names"), Silent::OnNames);
    let sandbox = Sandbox::start(with_fuse(&directory.join("names"), states.join("one")))
        .unwrap_or_else(|e| panic!("{e}"));
    sandbox.exec(Command::new(["cat", "/stuck/file"])).unwrap();
    let pid_one = sandbox.host_pid();
    let child = wait_for(|| {
        let children = std::fs::read_to_string(format!("/proc/{pid_one}/task/{pid_one}/children")).ok()?;
        let child: i32 = children.split_whitespace().next()?.parse().ok()?;
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
        (stat.contains("(cat) S") || stat.contains("(cat) D")).then_some(child)
    });
    std::thread::sleep(Duration::from_millis(200));
    let begun = Instant::now();
    match sandbox.close() {
        Err(error @ CloseError::Alive { .. }) => {
            assert!(error.to_string().contains(&child.to_string()), "{error}, not {child}");
        }
        other => panic!("{other:?}"),
    }
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    // While it hangs, a sweep cannot continue; it reports that and does not wait.
    drop(sweep(states).unwrap());
    drop(device);
    abort_all();
    wait_for(|| (!Path::new(&format!("/proc/{child}")).exists()).then_some(()));
    sweep(states).unwrap();
    assert!(!states.join("one").exists());
}

fn start_gives_up(directory: &Path, states: &Path) {
    let device = mount(&directory.join("start"), Silent::FromTheStart);
    let begun = Instant::now();
    let error = Sandbox::start(with_fuse(&directory.join("start"), states.join("two"))).unwrap_err();
    assert!(matches!(error, StartError::Timeout { .. }), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    drop(device);
    abort_all();
    sweep(states).unwrap();
    assert!(!states.join("two").exists());
}

/// The server's thread holds the device too; the kernel's own switch ends the connections of this namespace's mounts.
fn abort_all() {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    for line in mounts.lines().filter(|line| line.contains("fuse.stuck")) {
        let device = line.split_whitespace().nth(2).unwrap();
        let minor = device.split(':').nth(1).unwrap();
        rustix::mount::mount("none", "/sys/fs/fuse/connections", "fusectl", MountFlags::empty(), None).ok();
        let switch = format!("/sys/fs/fuse/connections/{minor}/abort");
        std::fs::write(switch, "1").ok();
    }
}

fn wait_for<T>(mut ready: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "it did not happen");
        std::thread::sleep(Duration::from_millis(10));
    }
}
