//! A look into a file that should be a program, without running it: why would
//! the system refuse it? The system's own answer is often only "not found".

use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::trouble::Trouble;

/// How much of the file is read: enough for the headers that matter.
const HEAD: u64 = 4096;

/// Says what is wrong with the file, as far as that can be seen from outside.
pub(super) fn inspect(path: &Path) -> Result<(), Trouble> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) => return Err(unreachable(path, error)),
    };
    if let Some(kind) = kind(metadata.file_type()) {
        return Err(Trouble::NotAFile { kind });
    }
    if metadata.permissions().mode() & 0o111 == 0 {
        return Err(Trouble::NotExecutable);
    }
    let mut head = Vec::new();
    match fs::File::open(path).and_then(|file| file.take(HEAD).read_to_end(&mut head)) {
        // A program may be executable and not readable: then running it must tell.
        Err(_) => Ok(()),
        Ok(_) => inspect_head(&head),
    }
}

/// Why nothing can be said about what is there.
fn unreachable(path: &Path, source: io::Error) -> Trouble {
    // The error itself does not tell a loop in a form that can be compared.
    if matches!(rustix::fs::stat(path), Err(rustix::io::Errno::LOOP)) {
        return Trouble::LinkLoop;
    }
    match (source.kind(), fs::read_link(path)) {
        (io::ErrorKind::NotFound, Ok(target)) => Trouble::Dangling { target },
        (io::ErrorKind::NotFound, Err(_)) => Trouble::Missing,
        _ => Trouble::Unreadable { source },
    }
}

/// Whether a file begins as a program does, or a script.
pub(super) fn has_form(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    let magic: [&[u8]; 4] = [b"#!", b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe"];
    read.is_ok() && magic.iter().any(|magic| head.starts_with(magic))
}

/// What it is, when it is no file.
pub(super) fn kind(of: std::fs::FileType) -> Option<&'static str> {
    match () {
        () if of.is_file() => None,
        () if of.is_dir() => Some("a directory"),
        () if of.is_fifo() => Some("a named pipe"),
        () if of.is_socket() => Some("a socket"),
        () => Some("a device"),
    }
}

/// How many bits the programs of this system have, told from one of them.
pub(super) fn elf_bits(head: &[u8]) -> Option<u8> {
    match (head.starts_with(b"\x7fELF"), head.get(4)?) {
        (true, 1) => Some(32),
        (true, 2) => Some(64),
        _ => None,
    }
}

fn inspect_head(head: &[u8]) -> Result<(), Trouble> {
    let loader = if let Some(line) = head.strip_prefix(b"#!") {
        // The system takes all but these for a part of the name.
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let words = line.split(|byte| matches!(byte, b' ' | b'\t'));
        let word = words.into_iter().find(|word| !word.is_empty()).unwrap_or_default();
        let interpreter = PathBuf::from(std::ffi::OsStr::from_bytes(word));
        if word.ends_with(b"\r") && !interpreter.exists() {
            return Err(Trouble::LineEnds { interpreter });
        }
        Some(interpreter)
    } else if elf_bits(head).is_some() {
        let built_for = elf_machine(head);
        if built_for.is_some_and(|machine| !runs_here(machine)) {
            let built_for = built_for.unwrap_or_default().to_owned();
            return Err(Trouble::WrongArchitecture { built_for });
        }
        elf_loader(head)
    } else if cfg!(target_os = "linux") {
        // Shells run a file without any header as a script; we do not.
        return Err(Trouble::WrongFormat);
    } else {
        None
    };
    match loader {
        Some(loader) if !loader.exists() => Err(Trouble::LoaderMissing { loader }),
        _ => Ok(()),
    }
}

/// What an ELF file is built for; `None` when we have no name for it.
fn elf_machine(head: &[u8]) -> Option<&'static str> {
    match u16::from_le_bytes([*head.get(18)?, *head.get(19)?]) {
        3 => Some("i686"),
        40 => Some("arm"),
        62 => Some("x86_64"),
        183 => Some("aarch64"),
        243 => Some("riscv64"),
        _ => None,
    }
}

fn runs_here(machine: &str) -> bool {
    match std::env::consts::ARCH {
        "x86_64" => matches!(machine, "x86_64" | "i686"),
        "aarch64" => matches!(machine, "aarch64" | "arm"),
        // A kernel may be wider than this program.
        "x86" => matches!(machine, "i686" | "x86_64"),
        "arm" => matches!(machine, "arm" | "aarch64"),
        own => machine == own,
    }
}

/// The loader that a little-endian ELF file names for itself (`PT_INTERP`).
fn elf_loader(head: &[u8]) -> Option<PathBuf> {
    const PT_INTERP: u64 = 3;
    let wide = elf_bits(head)? == 64;
    let number = |at: usize, bytes: usize| -> Option<u64> {
        let slice = head.get(at..at.checked_add(bytes)?)?;
        Some(slice.iter().rev().fold(0, |value, byte| (value << 8) | u64::from(*byte)))
    };
    let word = if wide { 8 } else { 4 };
    let table = usize::try_from(number(if wide { 32 } else { 28 }, word)?).ok()?;
    let entry_size = usize::try_from(number(if wide { 54 } else { 42 }, 2)?).ok()?;
    let entries = usize::try_from(number(if wide { 56 } else { 44 }, 2)?).ok()?;
    let entry = (0..entries.min(64))
        .map(|index| table.saturating_add(index.saturating_mul(entry_size)))
        .find(|at| number(*at, 4) == Some(PT_INTERP))?;
    let offset = usize::try_from(number(entry + if wide { 8 } else { 4 }, word)?).ok()?;
    let name = head.get(offset..)?.split(|byte| *byte == 0).next()?;
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_itself_is_a_program_that_runs_here() {
        inspect(Path::new("/proc/self/exe")).unwrap();
        #[cfg(target_os = "linux")]
        {
            let mut head = vec![0; 4096];
            fs::File::open("/bin/sh").unwrap().read_exact(&mut head).unwrap();
            assert!(elf_loader(&head).unwrap().exists());
        }
    }

    #[test]
    fn a_program_for_another_machine_is_told() {
        let mut head = b"\x7fELF\x02\x01\x01".to_vec();
        head.resize(64, 0);
        let foreign: u8 = if cfg!(target_arch = "riscv64") { 62 } else { 243 };
        head[18] = foreign;
        assert!(matches!(inspect_head(&head), Err(Trouble::WrongArchitecture { .. })));
    }

    #[test]
    fn a_missing_interpreter_is_named() {
        let error = inspect_head(b"#! /nowhere/node --x\n").unwrap_err();
        assert_eq!(error.to_string(), "needs `/nowhere/node`, which is not there");
        inspect_head(b"#!/bin/sh\n").unwrap();
        inspect_head(b"#!\t/bin/sh -e\n").unwrap();
        let error = inspect_head(b"#!/bin/sh\r\necho\r\n").unwrap_err();
        assert_eq!(error.to_string(), "has the line ends of Windows, and there is no `/bin/sh\\r`");
    }
}
