//! The figures that the doctor promises, as ratios within one run, so that they
//! mean the same on every machine. `cargo bench --bench doctor`.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench measures from outside, and stops at the first surprise"
)]

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use the_loop::base::dirs::Dirs;
use the_loop::base::env::Env;
use the_loop::core::config::Tools;
use the_loop::doctor::install::take_out;
use the_loop::doctor::{Needs, Project, Request, ToolId, check_up};

const RUNS: usize = 10;
/// What the program inside the archive weighs: the archive has about 20 MB.
const SIZE: u64 = 30 << 20;

fn main() {
    // `cargo test` may build and start this too.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    doctor(home.path());
    unpack(home.path());
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let begin = Instant::now();
    let _ = std::hint::black_box(work());
    begin.elapsed()
}

/// The whole doctor against the slowest of its probes alone.
fn doctor(home: &Path) {
    let path = std::env::var_os("PATH").unwrap();
    let vars = [("THE_LOOP_HOME", home.as_os_str()), ("HOME", home.as_os_str()), ("PATH", &path)];
    let env = Env::fixed(vars, home, "/bin/the-loop");
    let dirs = Dirs::new(&env).unwrap();
    let (tools, needs, project) = (Tools::default(), Needs::default(), Project::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let run = |only: &[String]| {
        let request = Request {
            env: &env,
            dirs: &dirs,
            tools: &tools,
            needs: &needs,
            project: &project,
            only,
        };
        timed(|| runtime.block_on(Box::pin(check_up(&request))))
    };
    let (mut whole, mut slowest) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let alone = ToolId::ALL.map(|id| run(&[format!("{}.found", id.as_str())]));
        slowest.push(alone.into_iter().max().unwrap());
        whole.push(run(&[]));
    }
    report("doctor / its slowest probe", median(whole), median(slowest), 1.5);
}

/// Verifying and unpacking against the system's own programs.
fn unpack(home: &Path) {
    let archive = home.join("x.tar.gz");
    write_archive(&archive);
    let sum = Command::new("sha256sum").arg(&archive).output().unwrap().stdout;
    let digest = String::from_utf8(sum).unwrap()[..64].to_owned();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        let target = home.join(format!("ours-{run}"));
        ours.push(timed(|| take_out(&archive, &digest, "tool", &target).unwrap()));
        std::fs::remove_file(&target).unwrap();
        let dir = home.join(format!("theirs-{run}"));
        std::fs::create_dir(&dir).unwrap();
        theirs.push(timed(|| {
            for (program, args) in [("sha256sum", &[][..]), ("tar", &["xzf"])] {
                let mut command = Command::new(program);
                command.args(args).arg(&archive).current_dir(&dir).stdout(Stdio::null());
                assert!(command.status().unwrap().success());
            }
            // Both are on disk at the end.
            std::fs::File::open(dir.join("tool")).unwrap().sync_all().unwrap();
        }));
        std::fs::remove_dir_all(&dir).unwrap();
    }
    report("verify and unpack / sha256sum, tar", median(ours), median(theirs), 1.3);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: unknown");
    println!("peak memory of this process, at most 32 MB: {peak}");
}

/// An archive like that of a real program: about two thirds of it compress badly.
fn write_archive(path: &Path) {
    let mut builder = tar::Builder::new(GzEncoder::new(
        std::io::BufWriter::new(std::fs::File::create(path).unwrap()),
        Compression::default(),
    ));
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o755);
    header.set_size(SIZE);
    builder.append_data(&mut header, "tool", Noise { state: 1 }.take(SIZE)).unwrap();
    builder.into_inner().unwrap().finish().unwrap().flush().unwrap();
    let size = std::fs::metadata(path).unwrap().len();
    println!("archive: {size} bytes, {SIZE} unpacked");
}

/// Bytes of which two in three are random.
struct Noise {
    state: u64,
}

impl Read for Noise {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        for chunk in buffer.chunks_mut(12) {
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            chunk.fill(b'x');
            let random = self.state.to_le_bytes();
            let length = chunk.len().min(random.len());
            chunk[..length].copy_from_slice(&random[..length]);
        }
        Ok(buffer.len())
    }
}

fn report(what: &str, ours: Duration, theirs: Duration, limit: f64) {
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    println!("{what}: {ours:.1?} / {theirs:.1?} = {ratio:.2} (at most {limit})");
}
