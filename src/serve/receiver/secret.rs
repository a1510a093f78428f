//! The webhook's secret: where it is read from, and a value that cannot be
//! printed.

use std::fmt;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fs_err as fs;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::base::env::Env;
use crate::core::config::{GhWebhook, variable_shown};
use crate::doctor;

const MAX_BYTES: usize = doctor::SECRET_MAX;

/// The secret that GitHub signs deliveries with. It has no text form.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

/// Why there is no secret. No variant holds any part of one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// Neither the variable nor a file is set.
    #[error("`{variable}` is not set, and no `webhooks.ghWebhook.secretFile` is")]
    Missing {
        /// The variable.
        variable: String,
    },
    /// It is there, and has no length.
    #[error("the webhook secret in `{place}` is empty")]
    Empty {
        /// The variable or the file.
        place: String,
    },
    /// It is longer than a secret can be.
    #[error("the webhook secret in `{place}` is longer than {MAX_BYTES} bytes")]
    TooLong {
        /// The variable or the file.
        place: String,
    },
    /// The file cannot be read.
    #[error("could not read the webhook secret from `{}`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is a directory, a pipe, a device.
    #[error("the webhook secret's `{}` is not a regular file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// Others can read or change the file.
    #[error(
        "others have access to the webhook secret `{}` (mode {mode:04o}); {}",
        path.display(),
        closing(path)
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
}

/// What makes a secret private.
fn closing(path: &Path) -> String {
    match doctor::secret_close(path) {
        Some(command) => format!("`{command}` takes it away"),
        None => "name another file, of this user's own, that holds it and nothing else".to_owned(),
    }
}

impl Secret {
    /// A secret from its bytes. `place` says where they came from, for the error.
    pub fn new(bytes: impl Into<Vec<u8>>, place: &str) -> Result<Self, SecretError> {
        let bytes = bytes.into();
        let place = || place.to_owned();
        match bytes.trim_ascii().len() {
            0 => Err(SecretError::Empty { place: place() }),
            1..=MAX_BYTES if bytes.len() <= MAX_BYTES => Ok(Self(bytes)),
            _ => Err(SecretError::TooLong { place: place() }),
        }
    }

    /// The configured secret: the variable, else the file. One newline at the
    /// end is an editor's and not part of it. A relative path is taken from the
    /// working directory.
    pub fn load(env: &Env, config: &GhWebhook) -> Result<Self, SecretError> {
        let variable = variable_shown(&config.secret_env);
        if let Some(value) = env.var_os(&config.secret_env) {
            return Self::new(without_newline(value.as_bytes()), variable);
        }
        let Some(path) = &config.secret_file else {
            return Err(SecretError::Missing { variable: variable.to_owned() });
        };
        let path = env.cwd().join(path);
        Ok(Self(secret_in(&path)?))
    }

    /// The signature header of a body, as GitHub makes it.
    ///
    /// # Panics
    /// Never: a key of this kind has any length.
    pub fn sign(&self, body: &[u8]) -> String {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of this kind has any length");
        mac.update(body);
        format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The bytes of the secret in a file, for who hands them to GitHub.
pub fn secret_in(path: &Path) -> Result<Vec<u8>, SecretError> {
    let bytes = read_private(path)?;
    let Secret(bytes) = Secret::new(without_newline(&bytes), &path.display().to_string())?;
    Ok(bytes)
}

fn without_newline(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    bytes.strip_suffix(b"\r").unwrap_or(bytes)
}

fn read_private(path: &Path) -> Result<Vec<u8>, SecretError> {
    let unreadable = |source| SecretError::Unreadable { path: path.to_path_buf(), source };
    // Looked at before it is opened: opening a pipe would wait for its writer.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(SecretError::NotAFile { path: path.to_path_buf() });
    }
    let file = fs::File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(SecretError::Exposed { path: path.to_path_buf(), mode });
    }
    let mut bytes = Vec::new();
    // One more than is allowed shows that there is too much.
    let limit = MAX_BYTES as u64 + 2;
    file.take(limit).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::failure::chain;

    const VARIABLE: &str = "THE_LOOP_GH_WEBHOOK_SECRET";

    fn env(vars: &[(&str, &str)]) -> Env {
        Env::fixed(vars.iter().copied(), "/", "/bin/the-loop")
    }

    fn file(content: &[u8], mode: u32) -> (tempfile::TempDir, GhWebhook) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        (dir, GhWebhook { secret_file: Some(path), ..GhWebhook::default() })
    }

    #[test]
    fn the_variable_wins_over_the_file() {
        let (_dir, config) = file(b"from the file\n", 0o600);
        let secret = Secret::load(&env(&[(VARIABLE, "from the variable")]), &config).unwrap();
        assert_eq!(secret.bytes(), b"from the variable");
        let secret = Secret::load(&env(&[]), &config).unwrap();
        assert_eq!(secret.bytes(), b"from the file");
    }

    #[test]
    fn exactly_one_newline_is_not_part_of_it() {
        for (content, secret) in [("s\n", "s"), ("s\r\n", "s"), ("s\n\n", "s\n"), (" s ", " s ")] {
            let (_dir, config) = file(content.as_bytes(), 0o600);
            assert_eq!(Secret::load(&env(&[]), &config).unwrap().bytes(), secret.as_bytes());
        }
    }

    #[test]
    fn no_secret_and_an_empty_one_are_refused() {
        let error = Secret::load(&env(&[]), &GhWebhook::default()).unwrap_err();
        assert!(error.to_string().contains(VARIABLE), "{error}");
        let (_dir, config) = file(b"\n", 0o600);
        let error = Secret::load(&env(&[]), &config).unwrap_err();
        assert!(matches!(error, SecretError::Empty { .. }), "{error}");
        let error = Secret::load(&env(&[(VARIABLE, "\n")]), &config).unwrap_err();
        assert!(error.to_string().contains(VARIABLE), "{error}");
    }

    #[test]
    fn a_file_that_others_can_read_is_refused_with_the_command_that_helps() {
        for mode in [0o644, 0o640, 0o604, 0o620] {
            let (dir, config) = file(b"hunter2", mode);
            let text = Secret::load(&env(&[]), &config).unwrap_err().to_string();
            let command = format!("chmod 600 {}", dir.path().join("secret").display());
            assert!(text.contains(&command), "{text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_file_is_refused_and_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let config = GhWebhook { secret_file: Some(dir.path().into()), ..GhWebhook::default() };
        let error = Secret::load(&env(&[]), &config).unwrap_err();
        assert!(matches!(error, SecretError::NotAFile { .. }), "{error}");
        let missing = GhWebhook { secret_file: Some("/nowhere".into()), ..config };
        let error = Secret::load(&env(&[]), &missing).unwrap_err();
        assert!(chain(&error).contains("/nowhere"), "{}", chain(&error));
    }

    #[test]
    fn a_secret_does_not_print() {
        let secret = Secret::new(*b"hunter2", "x").unwrap();
        assert_eq!(format!("{secret:?}"), "Secret");
        let (_dir, config) = file(&vec![b'x'; MAX_BYTES + 3], 0o600);
        let error = Secret::load(&env(&[]), &config).unwrap_err();
        assert!(!format!("{error:?}").contains("xxx"), "{error:?}");
    }
}
