//! Randomness from the operating system.

/// `N` random bytes.
///
/// # Panics
/// When the operating system has no randomness to give, which leaves nothing
/// safe to do.
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut out = [0; N];
    getrandom::fill(&mut out).expect("the operating system gives random bytes");
    out
}
