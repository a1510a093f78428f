//! What goes into both fakes and comes out of them: keys, screens, and notes for the
//! test.

use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::mpsc;

use serde_json::Value;

/// What is typed, at most so many bytes at once.
pub(crate) fn read_keys(at_once: usize) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = vec![0; at_once];
        while let Ok(read) = io::stdin().lock().read(&mut buffer) {
            if read == 0 || sender.send(buffer[..read].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Adds a line to a file of JSON objects.
pub(crate) fn append(path: &Path, entry: &Value) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(format!("{entry}\n").as_bytes()).unwrap();
}

/// Shows this on the terminal now.
pub(crate) fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}
